//! The catalogue: which queues there are. Pure: it says what to write, and applies what was written.
//!
//! Its log is the truth, and it is read strictly. A record that cannot be read, or that does not fit the ones before it, is
//! an error with its offset: to skip a deletion would bring a queue back, to skip a declaration would free its messages.
//!
//! Names are compared byte for byte. Two that look the same but are written with other code points (`é` as one, or as `e`
//! with an accent behind it), or that differ in case, are two queues; their directories are named by their numbers and have
//! nothing of the names.

mod load;
mod plan;
mod record;
#[cfg(test)]
mod tests;

pub use load::{BadCatalogue, Loader};
pub use record::{Format, Id, QueueMeta, Record, VERSION};

use crate::api::QueueId;
use crate::logs;
use crate::name::QueueName;
use plimsoll::Offset;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The most queues of a broker. Each is kept in memory.
pub const QUEUES_MAX: usize = 100_000;

/// The most data directories of a broker.
pub const DIRECTORIES_MAX: usize = 256;

/// Fewer records than these are read again at a start rather than compacted.
const COMPACT_AFTER: u64 = 1_000;

/// A record that does not fit what is there; a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Misfit(String);

/// All queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    format: Format,
    by_name: BTreeMap<QueueName, QueueMeta>,
    names: BTreeMap<QueueId, QueueName>,
    next_id: QueueId,
}

impl Catalogue {
    /// A catalogue without queues; its first record is `Record::Format(format)`, which is to be durable before any other.
    ///
    /// # Errors
    /// A format with no directory, with more than [`DIRECTORIES_MAX`], with one twice, or with 0 or more than 64 shards.
    pub fn new(format: Format) -> Result<Self, Misfit> {
        let ids = &format.directories;
        let shards = format.shards;
        if !(1..=64).contains(&shards) {
            return Err(Misfit(format!("{shards} shards of a directory, 1 to 64 are allowed")));
        }
        if ids.is_empty() || ids.len() > DIRECTORIES_MAX {
            let said = format!("{} directories, 1 to {DIRECTORIES_MAX} are allowed", ids.len());
            return Err(Misfit(said));
        }
        if let Some(twice) = ids.iter().enumerate().find(|&(at, id)| ids[..at].contains(id)) {
            return Err(Misfit(format!("directory {} comes twice", twice.1)));
        }
        let (by_name, names) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { format, by_name, names, next_id: QueueId(1) })
    }

    /// Reads a catalogue's log from its first record on.
    ///
    /// # Errors
    /// [`BadCatalogue`] names the offset of the first record that is wrong.
    pub fn load<B: AsRef<[u8]>>(
        records: impl IntoIterator<Item = (Offset, B)>,
    ) -> Result<Self, BadCatalogue> {
        let mut loader = Loader::default();
        for (offset, record) in records {
            loader.push(offset, record.as_ref())?;
        }
        loader.finish()
    }

    /// What is fixed for the broker's life.
    #[must_use]
    pub const fn format(&self) -> &Format {
        &self.format
    }

    /// A queue by its name.
    #[must_use]
    pub fn get(&self, name: &QueueName) -> Option<&QueueMeta> {
        self.by_name.get(name)
    }

    /// A queue by its number.
    #[must_use]
    pub fn get_id(&self, id: QueueId) -> Option<&QueueMeta> {
        self.by_name.get(self.names.get(&id)?)
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = &QueueMeta> {
        self.by_name.values()
    }

    /// Those whose name comes after this text, by name; all for `None`.
    pub fn after(&self, name: Option<&str>) -> impl Iterator<Item = &QueueMeta> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_name.range::<str, _>((from, Bound::Unbounded)).map(|(_, queue)| queue)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// There is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The number of the next new queue; none is ever given twice.
    #[must_use]
    pub const fn next_id(&self) -> QueueId {
        self.next_id
    }

    /// The shard of its directory that a queue belongs to.
    #[must_use]
    pub const fn shard(&self, queue: QueueId) -> u8 {
        logs::shard(queue, self.format.shards)
    }

    /// Applies a declaration or a deletion that was planned on this state and is written now.
    ///
    /// # Errors
    /// A record that does not fit, or of another kind. Nothing is changed then.
    pub fn apply(&mut self, record: &Record) -> Result<(), Misfit> {
        match record {
            Record::Declare { id, name, settings, revision, at_ms } => {
                let at_ms = *at_ms;
                let created_ms = self.get_id(*id).map_or(at_ms, |queue| queue.created_ms);
                self.set(QueueMeta {
                    id: *id,
                    name: name.clone(),
                    settings: settings.clone(),
                    revision: *revision,
                    created_ms,
                    changed_ms: at_ms,
                })
            }
            Record::Delete { id, .. } => {
                let name = self.names.remove(id);
                let gone = name.and_then(|name| self.by_name.remove(&name));
                gone.map(|_| ()).ok_or_else(|| Misfit(format!("there is no queue {id} to delete")))
            }
            Record::Format(_) | Record::Begin { .. } | Record::Queue(_) | Record::End { .. } => {
                Err(Misfit("a record that declares and deletes nothing".to_owned()))
            }
        }
    }

    /// Puts a new queue in, or an old one's new settings.
    fn set(&mut self, queue: QueueMeta) -> Result<(), Misfit> {
        let (id, name) = (queue.id, &queue.name);
        self.check_settings(&queue)?;
        match self.get_id(id) {
            Some(old) if old.name != *name => {
                return Err(Misfit(format!("queue {id} has another name")));
            }
            Some(old) if old.revision.checked_add(1) != Some(queue.revision) => {
                let said = format!("queue {id} is at revision {}, not before", old.revision);
                return Err(Misfit(format!("{said} {}", queue.revision)));
            }
            Some(old) if old.settings.data_dir != queue.settings.data_dir => {
                return Err(Misfit(format!("queue {id} is in another directory")));
            }
            Some(_) => {}
            None if queue.revision != 1 => {
                return Err(Misfit(format!("queue {id} begins at revision {}", queue.revision)));
            }
            None => self.insert_new(id, name)?,
        }
        self.by_name.insert(queue.name.clone(), queue);
        Ok(())
    }

    fn check_settings(&self, queue: &QueueMeta) -> Result<(), Misfit> {
        let id = queue.id;
        queue.settings.check().map_err(|error| Misfit(format!("queue {id}: {error}")))?;
        if usize::from(queue.settings.data_dir) >= self.format.directories.len() {
            return Err(Misfit(format!("queue {id} is in a directory that is not there")));
        }
        Ok(())
    }

    /// A number that was never given before, and a name that is free.
    fn insert_new(&mut self, id: QueueId, name: &QueueName) -> Result<(), Misfit> {
        if id < self.next_id || id.0 == u64::MAX {
            return Err(Misfit(format!("the number of queue {id} was given before, or is none")));
        }
        if let Some(other) = self.by_name.get(name) {
            return Err(Misfit(format!("queue {} has the name of queue {id}", other.id)));
        }
        self.names.insert(id, name.clone());
        self.next_id = QueueId(id.0 + 1);
        Ok(())
    }

    /// The records that stand for all before them, in order: to be written at once, with no other between them. When the
    /// last of them is durable, what is before the first may be freed.
    #[must_use]
    pub fn compaction(&self) -> Vec<Record> {
        let begin = Record::Begin { format: self.format.clone(), next_id: self.next_id };
        let queues = self.iter().cloned().map(Record::Queue);
        let end = Record::End { queues: self.len() as u64 };
        std::iter::once(begin).chain(queues).chain([end]).collect()
    }

    /// It is worth it, with so many records since the last one (or since the first record).
    #[must_use]
    pub fn wants_compaction(&self, records_since: u64) -> bool {
        // Four times what it writes: the log stays in proportion, and so does the work.
        records_since >= COMPACT_AFTER && records_since / 4 >= self.len() as u64
    }
}
