//! Changes of a level, for events that are made once for each.

use crate::types::Level;
use std::collections::VecDeque;
use std::time::Duration;

/// A level became another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelChange<R> {
    /// What it was.
    pub from: Level,
    /// What it is.
    pub to: Level,
    /// Why it is what it is.
    pub reason: R,
    /// When this was noticed, in milliseconds since the Unix epoch.
    pub at_unix_millis: u64,
}

/// As many are kept until somebody asks; the oldest go first.
const KEPT: usize = 64;

/// The level as last noticed, and changes that nobody has asked for yet.
#[derive(Debug, Default)]
pub(super) struct Changes<R> {
    level: Level,
    since_unix_millis: u64,
    /// Since when publishes are refused, by the clock that does not step.
    hard_since: Option<Duration>,
    noticed: VecDeque<LevelChange<R>>,
}

impl<R> Changes<R> {
    pub(super) fn new(at_unix_millis: u64) -> Self {
        Self {
            level: Level::Ok,
            since_unix_millis: at_unix_millis,
            hard_since: None,
            noticed: VecDeque::new(),
        }
    }

    pub(super) fn since_unix_millis(&self) -> u64 {
        self.since_unix_millis
    }

    /// For how long it has been hard or worse.
    pub(super) fn hard_for(&self, now: Duration) -> Duration {
        self.hard_since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Notes `level` if it is another one than before.
    pub(super) fn note(&mut self, level: Level, reason: R, now: Duration, at_unix_millis: u64) {
        self.hard_since = if level < Level::Hard { None } else { self.hard_since.or(Some(now)) };
        if level == self.level {
            return;
        }
        if self.noticed.len() == KEPT {
            self.noticed.pop_front();
        }
        let from = std::mem::replace(&mut self.level, level);
        self.noticed.push_back(LevelChange { from, to: level, reason, at_unix_millis });
        self.since_unix_millis = at_unix_millis;
    }

    pub(super) fn take(&mut self) -> Vec<LevelChange<R>> {
        self.noticed.drain(..).collect()
    }
}
