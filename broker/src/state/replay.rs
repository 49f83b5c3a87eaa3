//! A shard from its event log.

use super::{Frame, Shard};
use crate::api::{QueueId, QueueSettings};
use crate::event::{BadEvent, Entry, Event};
use std::collections::BTreeMap;

/// Builds a shard from the records of its event log, read from the first that is left.
///
/// What stands before a whole snapshot counts for nothing once that is there; an unfinished snapshot counts for nothing at
/// all. Queues that are not in the catalogue are left out.
#[derive(Debug)]
pub struct Replay {
    catalogue: BTreeMap<QueueId, QueueSettings>,
    frame: Frame,
    shard: Shard,
    snapshot: Option<Unfinished>,
    restored: bool,
}

/// A snapshot whose end was not read yet.
#[derive(Debug)]
struct Unfinished {
    want: u32,
    parts: Vec<Vec<u8>>,
    /// Events since its begin.
    since: Vec<Event>,
}

impl Replay {
    /// Begins, with the queues of the catalogue that belong to the shard.
    #[must_use]
    pub fn new(catalogue: BTreeMap<QueueId, QueueSettings>, frame: Frame) -> Self {
        let mut shard = Shard::new();
        for (id, settings) in &catalogue {
            shard.add(*id, settings);
        }
        Self { catalogue, frame, shard, snapshot: None, restored: false }
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// A whole snapshot that cannot be read. The shard is not known then.
    pub fn take(&mut self, entry: Entry) -> Result<(), BadEvent> {
        match entry {
            Entry::Event(event) => {
                self.shard.apply(&event, &self.frame);
                if let Some(snapshot) = &mut self.snapshot {
                    snapshot.since.push(event);
                }
            }
            Entry::SnapshotBegin { parts } => {
                self.snapshot =
                    Some(Unfinished { want: parts, parts: Vec::new(), since: Vec::new() });
            }
            Entry::SnapshotPart(part) => {
                // A part too many makes it void, and must not fill memory.
                let fits = |snapshot: &Unfinished| {
                    u32::try_from(snapshot.parts.len()).is_ok_and(|parts| parts < snapshot.want)
                };
                self.snapshot = self.snapshot.take().filter(fits);
                if let Some(snapshot) = &mut self.snapshot {
                    snapshot.parts.push(part);
                }
            }
            Entry::SnapshotEnd { parts } => {
                let whole = |snapshot: &Unfinished| {
                    snapshot.want == parts && u32::try_from(snapshot.parts.len()) == Ok(parts)
                };
                if let Some(snapshot) = self.snapshot.take().filter(whole) {
                    self.restore(&snapshot)?;
                }
            }
        }
        Ok(())
    }

    fn restore(&mut self, snapshot: &Unfinished) -> Result<(), BadEvent> {
        let mut shard = Shard::restore(&snapshot.parts, &self.frame)?;
        let deleted = shard.queues().map(|(id, _)| id);
        let deleted: Vec<_> = deleted.filter(|id| !self.catalogue.contains_key(id)).collect();
        for id in deleted {
            shard.remove(id);
        }
        for (id, settings) in &self.catalogue {
            shard.add(*id, settings);
        }
        for event in &snapshot.since {
            shard.apply(event, &self.frame);
        }
        self.shard = shard;
        self.restored = true;
        Ok(())
    }

    /// A whole snapshot was taken. Of a log that does not begin at its first offset, nothing is known without one.
    #[must_use]
    pub const fn restored(&self) -> bool {
        self.restored
    }

    /// All records were taken.
    #[must_use]
    pub fn finish(self) -> Shard {
        self.shard
    }
}
