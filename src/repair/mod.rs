//! Puts a damaged log back into a state in which it takes appends, at an explicit order and never by itself.
//!
//! Only what is damaged is dropped. Records before it stay where they are; valid records behind it are carried into new
//! segments, each of which declares in its header which offsets are lost (I3). Whatever is changed, removed or left
//! behind is copied to `quarantine/<log>/<number>/` first, durably. The next offset never falls (I8).
//!
//! `plan`, `weigh` and `prove` only read, `chain` decides, `act` and `carry` write. What is written goes from the log's end to its front: at every moment
//! all to the right of a gap is in its final state, so a crash at any step leaves a log that a second repair completes
//! to the same result (I10).

mod act;
mod carry;
mod chain;
mod keep;
mod plan;
mod prove;
mod weigh;

use crate::clock::Clock;
use crate::error::DiskError;
use crate::format::header::Header;
use crate::format::layout::{ClassSizes, LayoutError};
use crate::format::name::LogName;
use crate::fs::FileSystem;
use crate::inspect::{Finding, Gap};
use crate::recovery::RecoverError;
use crate::types::{LogId, Offset, SizeClass};
use std::fmt;
use std::path::{Path, PathBuf};

/// Records that are carried into a new segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The file that they are read from.
    pub from: PathBuf,
    /// Where the first one stands there.
    pub position: u64,
    /// How many there are.
    pub count: u64,
    pub(crate) frame: crate::inspect::cursor::Frame,
    /// The first one's offset there, counted from that file's base.
    pub(crate) relative: u64,
}

/// A segment that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSegment {
    /// Offset of its first record.
    pub base: Offset,
    /// Where the segment before it ends; offsets from here to the base are declared lost.
    pub previous_end: Offset,
    /// The largest stamp before it, Unix milliseconds.
    pub previous_millis: u64,
    /// Its size class.
    pub class: SizeClass,
    /// Its size in bytes.
    pub capacity: u64,
    /// Its records; `None` if it begins empty, to keep the log's next offset.
    pub records: Option<Carried>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Copies a file to quarantine.
    Keep {
        /// The file.
        path: PathBuf,
    },
    /// Makes a new segment.
    NewSegment(NewSegment),
    /// Writes a file's header again.
    Header {
        /// The file.
        path: PathBuf,
        /// Its header from now on.
        header: Header,
    },
    /// Removes a file that was kept in quarantine.
    Remove {
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep { path } => write!(f, "copy {} to quarantine", path.display()),
            Self::NewSegment(NewSegment { base, previous_end, records, .. }) => {
                match records {
                    Some(Carried { from, position, count, .. }) => write!(
                        f,
                        "make segment {base} with {count} records from {}, byte {position}",
                        from.display()
                    )?,
                    None => write!(f, "make segment {base} without records")?,
                }
                if previous_end < base {
                    write!(f, "; offsets {previous_end} to {} are lost", base.0 - 1)?;
                }
                Ok(())
            }
            Self::Header { path, header } => {
                write!(f, "write the header of {} again", path.display())?;
                match header.in_use {
                    Some(in_use) if in_use.previous_end < in_use.base => {
                        let (from, to) = (in_use.previous_end, in_use.base.0 - 1);
                        write!(f, "; offsets {from} to {to} are lost")
                    }
                    _ => Ok(()),
                }
            }
            Self::Remove { path } => write!(f, "remove {}", path.display()),
        }
    }
}

/// What is to be done to one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPlan {
    /// The log's name.
    pub log: String,
    /// Its directory.
    pub dir: PathBuf,
    /// What is wrong.
    pub damage: Vec<Finding>,
    /// Offsets that will be declared lost. Those behind the last record may never have been used.
    pub lost: Vec<Gap>,
    /// What is to be done, in this order; nothing for a good log.
    pub steps: Vec<Step>,
    /// Why nothing is done to this log, if something stands in the way that only its owner can judge.
    pub refused: Option<String>,
    /// The log's identity; `None` if none is left and a new one is to be made.
    pub(crate) id: Option<LogId>,
}

/// What is to be done to a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Why `LAYOUT` is set aside, to be made again at the next start from the segments' headers.
    pub layout: Option<LayoutError>,
    /// The logs with something wrong.
    pub logs: Vec<LogPlan>,
}

impl Plan {
    /// Whether there is nothing to do and nothing to refuse.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layout.is_none() && self.logs.is_empty()
    }
}

/// What a repair did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// What was planned and done.
    pub plan: Plan,
    /// Where the copies are, a directory for each log.
    pub kept: Vec<PathBuf>,
}

/// Why a repair was not done, or not completed. A repair that is run again goes on where this one stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// A node has the data directory open.
    #[error("{} is in use by another process", path.display())]
    Locked {
        /// The data directory.
        path: PathBuf,
    },
    /// A newer release made the data directory. It is left alone.
    #[error("{}: {error}", path.display())]
    Newer {
        /// The `LAYOUT` file.
        path: PathBuf,
        /// What it says.
        error: LayoutError,
    },
    /// There is no such log.
    #[error("there is no log {0}")]
    Missing(LogName),
    /// A directory cannot be listed, so logs may be in it that nobody sees.
    #[error("{0}")]
    Unreadable(Finding),
    /// What stands there cannot be read as a log.
    #[error(transparent)]
    Recover(#[from] RecoverError),
    /// A call to the file system failed: no room for the copies, among others. What was done so far stands.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The log is still damaged after the repair.
    #[error("{log} is still damaged after the repair: {reason}")]
    StillDamaged {
        /// The log.
        log: String,
        /// What is wrong.
        reason: String,
    },
}

/// Says what a repair would do, and changes nothing. Reads all records of the log, or of all logs. A node may be running;
/// then what it does meanwhile may look like damage.
///
/// # Errors
/// Of reading; [`RepairError::Missing`].
pub fn plan(fs: &dyn FileSystem, dir: &Path, log: Option<&LogName>) -> Result<Plan, RepairError> {
    plan::plan(fs, dir, log)
}

/// Repairs one log, or all of them. Takes the data directory's lock, so no node may be running. Blocks on reading all
/// records, on copying what is changed, and on several syncs.
///
/// # Errors
/// [`RepairError`]; a log that is refused is no error, it is in the plan that is given back.
pub fn repair(
    fs: &dyn FileSystem,
    clock: &dyn Clock,
    dir: &Path,
    log: Option<&LogName>,
) -> Result<Repaired, RepairError> {
    act::repair(fs, clock, dir, log)
}

/// The sizes of the classes, if `LAYOUT` tells them.
pub(crate) type Sizes = Option<ClassSizes>;
