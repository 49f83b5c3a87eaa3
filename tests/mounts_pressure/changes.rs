//! What the engine says of its levels, as an operator sees it: one event for each change.

use plimsoll::Level;
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, Once, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static SAID: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

/// Keeps the events of levels.
struct Keeper;

#[derive(Default)]
struct Fields {
    level: Option<Level>,
    detail: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "level" => self.level = Level::ALL.into_iter().find(|level| level.to_string() == text),
            "detail" => self.detail = text,
            _ => {}
        }
    }
}

impl Subscriber for Keeper {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO && metadata.target().starts_with("plimsoll")
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if let Some(level) = fields.level {
            SAID.lock().unwrap_or_else(PoisonError::into_inner).push((level, fields.detail));
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// To be called before a node is opened whose events are asked for. Other tests run beside, so it is for all of them.
pub(crate) fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Keeper).unwrap());
}

/// The levels that were said of the device of `dir`, in order.
pub(crate) fn said_of(dir: &Path) -> Vec<Level> {
    let dir = dir.display().to_string();
    let said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.iter().filter(|(_, detail)| detail.contains(&dir)).map(|(level, _)| *level).collect()
}
