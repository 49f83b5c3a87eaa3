//! What one record of an event log is: an event, or a piece of a snapshot.

use super::Event;
use super::codec::{self, SNAPSHOT_BEGIN, SNAPSHOT_END, SNAPSHOT_PART};
use super::wire::{self, BadEvent, Reader};

/// The most bytes of one part of a snapshot. It must fit into the storage's smallest file, which has 64 KiB: while nothing
/// is free there are no others, and without a snapshot no file of events is ever freed.
pub const PART_MAX: usize = 32 << 10;

/// One record of an event log.
///
/// A snapshot is a begin, its parts in order and an end. It holds the state as it was at its begin; events may stand between
/// its pieces and are not in it. Without its end, or with another number of parts than both say, it counts for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An event.
    Event(Event),
    /// A snapshot begins; one that has no end yet is void.
    SnapshotBegin {
        /// How many parts follow.
        parts: u32,
    },
    /// A part, at most [`PART_MAX`] bytes.
    SnapshotPart(Vec<u8>),
    /// It is whole.
    SnapshotEnd {
        /// How many parts it has.
        parts: u32,
    },
}

impl Entry {
    /// The records of a whole snapshot, from its parts.
    #[must_use]
    pub fn snapshot(parts: Vec<Vec<u8>>) -> Vec<Self> {
        let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        let mut entries = vec![Self::SnapshotBegin { parts: count }];
        entries.extend(parts.into_iter().map(Self::SnapshotPart));
        entries.push(Self::SnapshotEnd { parts: count });
        entries
    }

    /// Appends the record's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Event(event) => codec::encode(event, out),
            Self::SnapshotBegin { parts } => {
                out.push(SNAPSHOT_BEGIN);
                wire::put_number(out, u64::from(*parts));
            }
            Self::SnapshotPart(part) => {
                debug_assert!(part.len() <= PART_MAX, "a part that cannot be read again");
                out.push(SNAPSHOT_PART);
                out.extend_from_slice(part);
            }
            Self::SnapshotEnd { parts } => {
                out.push(SNAPSHOT_END);
                wire::put_number(out, u64::from(*parts));
            }
        }
    }

    /// Reads a record's bytes.
    ///
    /// # Errors
    /// [`BadEvent`] for all that [`Entry::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadEvent> {
        let mut from = Reader::new(bytes);
        let entry = match from.byte()? {
            SNAPSHOT_BEGIN => Self::SnapshotBegin { parts: from.small()? },
            SNAPSHOT_END => Self::SnapshotEnd { parts: from.small()? },
            SNAPSHOT_PART => {
                if from.left() > PART_MAX {
                    return Err(from.bad("a part is too long"));
                }
                Self::SnapshotPart(from.take(from.left())?.to_vec())
            }
            _ => return codec::decode(bytes).map(Self::Event),
        };
        from.end()?;
        Ok(entry)
    }
}
