//! Finds out what a log holds after a crash, and makes it durable before anybody sees it.
//!
//! In three steps, each in a file of its own: `scan` and `tail` gather facts and only read; `decide` and `chain` are
//! pure tables from facts to verdicts; `restore` and `heal` act. [`look`] does the first two and is what inspection
//! uses; [`recover`] does all three.
//!
//! The rules that cost a failure to find are marked `[R]` where they are kept:
//!
//! - What is seen may be in the page cache only, so names are synced first and the tail is written again: `restore`.
//! - Stop is whatever is not the expected record; what is beyond decides: `decide`, `beyond`.
//! - What could come back to life beyond the end is zeroed, whole or not: `zero`.
//!
//! # What it costs
//!
//! Read: a sector of every segment; of the last one the records since its checkpoint, and twice the window at most behind
//! its end (a second time where something is zeroed). Written: the header block and the unvouched tail, and the blocks
//! beyond it that are zeroed; nothing at all where the log was closed or has been idle. Memory: the list of segments,
//! the largest record, the window, and what is carried over while healing, which is a window and one record. None of it
//! grows with the log's records, and no new bytes on the disk are needed but for healing.

mod beyond;
mod chain;
mod decide;
mod error;
mod heal;
mod look;
mod restore;
mod scan;
mod tail;
mod verify;
mod zero;

pub use beyond::{Beyond, Claim};
pub(crate) use decide::Verdict;
pub use error::RecoverError;
pub(crate) use look::{Judged, judge};
pub use look::{Look, Trailing, TrailingFate, look};
pub use restore::recover;
pub(crate) use tail::misplaced;
pub use tail::{Boundary, TailFacts};
pub use verify::{SegmentCheck, check_segment};

use crate::clock::Clock;
use crate::error::Damage;
use crate::format::header::{Header, InUse, Origin};
use crate::format::record::RecordError;
use crate::fs::FileSystem;
use crate::segment::SegmentSource;
use crate::types::{Generation, LogId, Offset, SizeClass};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Distance of the positions where a record may stand, as an index.
const STEP: usize = 8;
const _: () = assert!(STEP as u64 == crate::format::RECORD_ALIGN);

/// What recovery needs from outside.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The disk.
    pub fs: &'a dyn FileSystem,
    /// Takes files back, and gives one where a log must be healed.
    pub source: &'a dyn SegmentSource,
    /// Stamps the header of a healed log's new file.
    pub clock: &'a dyn Clock,
}

/// A segment of a log, from its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// Offset of the first record.
    pub base: Offset,
    /// Where the segment before this one ends.
    pub previous_end: Offset,
    /// The largest stamp of any record before `base`, Unix milliseconds.
    pub previous_millis: u64,
    /// The use of the file.
    pub generation: Generation,
    /// Its size class.
    pub class: SizeClass,
    /// The size that it was made with, in bytes.
    pub capacity: u64,
    /// How the segment came to be.
    pub origin: Origin,
    /// The file.
    pub path: PathBuf,
    /// A write or sync of the file has failed: when it is given up it is deleted, not reused.
    pub failed: bool,
}

impl SegmentInfo {
    /// What a header in use says of the file at `path`.
    #[must_use]
    pub fn new(header: &Header, in_use: &InUse, path: &Path) -> Self {
        Self {
            base: in_use.base,
            previous_end: in_use.previous_end,
            previous_millis: in_use.previous_millis,
            generation: header.generation,
            class: header.class,
            capacity: header.capacity,
            origin: in_use.origin,
            path: path.to_path_buf(),
            failed: false,
        }
    }
}

/// The state of a log's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// The log has no segment; its next offset is 0.
    Empty,
    /// Everything before the end is durable, and the last file takes more.
    Open {
        /// Where the next record goes in the last file.
        position: u64,
        /// Its offset.
        next: Offset,
        /// The largest stamp so far, Unix milliseconds.
        millis: u64,
    },
    /// What could be vouched for is readable; no record may be appended and nothing was cut.
    ReadOnly {
        /// The end of what is readable in the last file.
        position: u64,
        /// The first offset that is not readable.
        next: Offset,
        /// Why, for the operator.
        reason: Arc<str>,
    },
    /// Bytes that were durable are damaged. Nothing was changed.
    Damaged {
        /// The end of what is readable in the last of the segments.
        position: u64,
        /// The first offset that is not readable.
        next: Offset,
        /// What is damaged.
        damage: Damage,
    },
}

/// What recovery saw and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written to make the tail durable and to zero behind it; those of a healed log's new file included.
    pub bytes_written_again: u64,
    /// Positions zeroed behind the end.
    pub positions_zeroed: u64,
    /// Records between the last vouched place and the end.
    pub records_past_vouched: u64,
    /// Trailing files given back to the pool.
    pub files_given_up: u64,
    /// Trailing files without a header and temporary files deleted.
    pub files_removed: u64,
    /// Why the last file could not be made durable, where the log went on in a new one.
    pub healed: Option<Arc<str>>,
    /// What stands where the records stop.
    pub stop: Option<RecordError>,
}

/// A log as recovery leaves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The log's identity; `None` if it has no segment yet.
    pub id: Option<LogId>,
    /// Its segments, oldest first. Of a damaged log, those up to the damage.
    pub segments: Vec<SegmentInfo>,
    /// The state of its end.
    pub tail: Tail,
    /// What was seen and done.
    pub report: RecoveryReport,
}

#[cfg(test)]
mod tests;
