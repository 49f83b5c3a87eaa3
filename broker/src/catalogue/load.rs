//! Reading a catalogue's log.

use super::{Catalogue, Format, Misfit, QueueMeta, Record};
use crate::api::QueueId;
use plimsoll::Offset;

/// A catalogue that cannot be read. Nothing is guessed: the broker does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCatalogue {
    /// A record that cannot be read, or does not fit the ones before it.
    #[error("record {offset} of the catalogue: {reason}")]
    Record {
        /// Its offset in the catalogue's log.
        offset: Offset,
        /// What is wrong.
        reason: String,
    },
    /// Records are missing.
    #[error("the catalogue has no record {expected}, {found} comes in its place")]
    Gap {
        /// The offset of the record that should come.
        expected: Offset,
        /// The one that came.
        found: Offset,
    },
    /// Neither a first record nor a whole compaction is in it; none at all in an empty one.
    #[error("the catalogue has no beginning")]
    NoBeginning,
}

/// Takes the records of a catalogue's log one by one.
#[derive(Debug, Default)]
pub struct Loader {
    /// None as long as all that came may be left of what a compaction replaced: a log frees whole files only, so that its
    /// first records may be older than the compaction, and not the beginning of anything.
    state: Option<Catalogue>,
    pending: Option<Compaction>,
    next: Option<Offset>,
    since: u64,
    begin: Option<Offset>,
}

/// A compaction that has begun and has not ended.
#[derive(Debug)]
struct Compaction {
    at: Offset,
    catalogue: Catalogue,
    next_id: QueueId,
    queues: u64,
}

impl Loader {
    /// The next record.
    ///
    /// # Errors
    /// [`BadCatalogue`]; the catalogue cannot be read then.
    pub fn push(&mut self, offset: Offset, record: &[u8]) -> Result<(), BadCatalogue> {
        if let Some(expected) = self.next.filter(|&expected| expected != offset) {
            return Err(BadCatalogue::Gap { expected, found: offset });
        }
        self.next = Some(offset.plus(1));
        self.since += 1;
        let bad = |reason| BadCatalogue::Record { offset, reason };
        let record = Record::decode(record).map_err(bad)?;
        self.take(offset, record).map_err(|Misfit(reason)| bad(reason))
    }

    fn take(&mut self, offset: Offset, record: Record) -> Result<(), Misfit> {
        if offset == Offset::ZERO && !matches!(record, Record::Format(_)) {
            return Err(Misfit("the first record is not the format".to_owned()));
        }
        match record {
            Record::Format(format) if offset == Offset::ZERO => {
                self.state = Some(Catalogue::new(format)?);
                self.begin = Some(offset);
                Ok(())
            }
            Record::Format(_) => Err(Misfit("the format comes a second time".to_owned())),
            Record::Declare { .. } | Record::Delete { .. } => {
                // What began before this was never ended, and is nothing.
                self.pending = None;
                self.state.as_mut().map_or(Ok(()), |state| state.apply(&record))
            }
            Record::Begin { format, next_id } => self.begin(offset, format, next_id),
            Record::Queue(queue) => match &mut self.pending {
                Some(pending) => pending.push(queue),
                None => self.loose("a queue outside of a compaction"),
            },
            Record::End { queues } => match self.pending.take() {
                Some(pending) => self.end(pending, queues),
                None => self.loose("the end of a compaction that did not begin"),
            },
        }
    }

    /// Fits only where its beginning is freed already.
    fn loose(&self, said: &str) -> Result<(), Misfit> {
        if self.state.is_none() { Ok(()) } else { Err(Misfit(said.to_owned())) }
    }

    fn begin(&mut self, at: Offset, format: Format, next_id: QueueId) -> Result<(), Misfit> {
        let catalogue = Catalogue::new(format)?;
        self.pending = Some(Compaction { at, catalogue, next_id, queues: 0 });
        Ok(())
    }

    fn end(&mut self, pending: Compaction, queues: u64) -> Result<(), Misfit> {
        let at = pending.at;
        let whole = pending.finish(queues)?;
        // It replaces what it was made of; if that is still there, it must be the same.
        if self.state.as_ref().is_some_and(|state| *state != whole) {
            return Err(Misfit("the compaction is not what it was made of".to_owned()));
        }
        self.state = Some(whole);
        self.begin = Some(at);
        self.since = 0;
        Ok(())
    }

    /// Records since the last whole compaction, or since the first: for [`Catalogue::wants_compaction`].
    #[must_use]
    pub const fn records_since(&self) -> u64 {
        self.since
    }

    /// Before which offset the log may be freed: where the last whole compaction begins, if there is one.
    #[must_use]
    pub fn begin_offset(&self) -> Option<Offset> {
        self.begin
    }

    /// The catalogue, when all records were taken. A compaction without its end is ignored.
    ///
    /// # Errors
    /// [`BadCatalogue::NoBeginning`].
    pub fn finish(self) -> Result<Catalogue, BadCatalogue> {
        self.state.ok_or(BadCatalogue::NoBeginning)
    }
}

impl Compaction {
    fn push(&mut self, queue: QueueMeta) -> Result<(), Misfit> {
        self.queues += 1;
        self.catalogue.restore(queue)
    }

    fn finish(mut self, queues: u64) -> Result<Catalogue, Misfit> {
        if self.queues != queues {
            let said = format!("the compaction has {} queues, not {queues}", self.queues);
            return Err(Misfit(said));
        }
        if self.next_id < self.catalogue.next_id {
            return Err(Misfit(format!("the next queue's number {} is given", self.next_id)));
        }
        self.catalogue.next_id = self.next_id;
        Ok(self.catalogue)
    }
}

impl Catalogue {
    /// Puts in a queue of a compaction: in the order of names, and so not in that of numbers.
    fn restore(&mut self, queue: QueueMeta) -> Result<(), Misfit> {
        let id = queue.id;
        self.check_settings(&queue)?;
        if queue.revision == 0 {
            return Err(Misfit(format!("queue {id} is at revision 0")));
        }
        if id.0 == 0 || id.0 == u64::MAX || self.names.contains_key(&id) {
            return Err(Misfit(format!("the number of queue {id} is given, or is none")));
        }
        if self.by_name.last_key_value().is_some_and(|(last, _)| *last >= queue.name) {
            return Err(Misfit(format!("queue {id} is out of order")));
        }
        self.next_id = self.next_id.max(QueueId(id.0 + 1));
        self.names.insert(id, queue.name.clone());
        self.by_name.insert(queue.name.clone(), queue);
        Ok(())
    }
}
