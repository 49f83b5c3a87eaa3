//! Errors. Each operation's error says whether anything was written; what damage there is says where.

use crate::types::{LogName, Offset};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Damage to bytes that were known durable, with file and position. Never a torn tail, which a crash makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The first position that is wrong.
    pub position: u64,
    /// The offset of the record that cannot be read, where that is known.
    pub offset: Option<Offset>,
    /// What is wrong there, and how it is known to have been durable.
    pub detail: Arc<str>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: damaged at byte {}", self.file.display(), self.position)?;
        if let Some(offset) = self.offset {
            write!(f, " (record {offset})")?;
        }
        write!(f, ": {}", self.detail)
    }
}

impl std::error::Error for Damage {}

/// What is certain about a write that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing of it will ever be read, also after a crash (I5).
    NotWritten,
    /// It, or the first records of it, may be read later, or not.
    Unknown,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotWritten => "not written",
            Self::Unknown => "outcome unknown",
        })
    }
}

/// An error of a system call: what was tried, on which path. Cheap to clone, since many may wait for one commit.
#[derive(Clone, Debug)]
pub struct DiskError {
    doing: &'static str,
    /// `doing` reads as in "*reading the header* failed", not as in "cannot *read*".
    noun: bool,
    path: PathBuf,
    source: Arc<io::Error>,
}

impl DiskError {
    /// An error of `doing` something to `path`; `doing` reads as in "cannot *open*".
    pub(crate) fn new(doing: &'static str, path: &Path, source: io::Error) -> Self {
        Self { doing, noun: false, path: path.to_path_buf(), source: Arc::new(source) }
    }

    /// The same where `operation` is a noun, as in "*reading the header* failed".
    pub(crate) fn of(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self { noun: true, ..Self::new(operation, path, source) }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The system's error, `raw_os_error` included.
    #[must_use]
    pub fn io(&self) -> &io::Error {
        &self.source
    }

    /// Whether the disk, or this user's share of it, is full.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        is_no_space(&self.source)
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { doing, path, source, .. } = self;
        if self.noun {
            write!(f, "{}: {doing} failed: {source}", path.display())
        } else {
            write!(f, "cannot {doing} {}: {source}", path.display())
        }
    }
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// Gives an `io::Error` its context.
pub(crate) trait DiskContext<T> {
    fn disk(self, doing: &'static str, path: &Path) -> Result<T, DiskError>;
}

impl<T> DiskContext<T> for io::Result<T> {
    fn disk(self, doing: &'static str, path: &Path) -> Result<T, DiskError> {
        self.map_err(|error| DiskError::new(doing, path, error))
    }
}

/// Why a log takes no appends.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped {
    /// Bytes that were known durable are damaged. The log can be read up to there; `plimsoll repair` goes on from there.
    #[error("the log is damaged and takes no appends: {0}")]
    Damaged(#[from] Damage),
    /// Recovery could neither write the tail again nor carry it into another file. Nothing was cut.
    #[error("the log is open for reading only: {0}")]
    ReadOnly(Arc<str>),
    /// Two commits in a row failed, or healing did. Open the log again.
    #[error("the log has failed and must be opened again: {0}")]
    Failed(Arc<str>),
    /// The log or its node was closed.
    #[error("the log is closed")]
    Closed,
    /// The log was deleted.
    #[error("the log was deleted")]
    Deleted,
}

/// Why an append was not staged. Nothing of it was written, and nothing of it will ever be read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The batch has no records.
    #[error("the batch is empty")]
    Empty,
    /// A record is larger than the log takes.
    #[error("record {index} of the batch takes {len} bytes, at most {max} are allowed")]
    RecordTooLarge {
        /// Its place in the batch, from 0.
        index: usize,
        /// Its length with header and padding.
        len: u64,
        /// The most that is allowed.
        max: u64,
    },
    /// A record's headers are longer than 65,535 bytes.
    #[error("record {index} of the batch has {len} bytes of headers, at most 65535 are allowed")]
    HeadersTooLarge {
        /// Its place in the batch, from 0.
        index: usize,
        /// Their length.
        len: usize,
    },
    /// All records but the last take more than the window of 2 MiB: split the batch.
    #[error(
        "the batch takes {len} bytes before its last record, at most {max} are allowed: split it"
    )]
    BatchTooLarge {
        /// Bytes before the last record.
        len: u64,
        /// The most that is allowed.
        max: u64,
    },
    /// Only from `try_append`: it would have to wait, for staging room, for a file, or for healing.
    #[error("the log is busy")]
    Busy,
    /// The permit does not allow this append now.
    #[error(transparent)]
    Permit(#[from] crate::permit::PermitError),
    /// The log takes no appends.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A new file was refused, as it would leave too little of the disk.
    #[error(transparent)]
    Limited(#[from] crate::permit::Limited),
    /// A file could not be had or opened: no space (see [`DiskError::is_no_space`]), no descriptor.
    #[error("not written: {0}")]
    Disk(#[from] DiskError),
    /// No memory for the batch.
    #[error("not written: no memory for {0} bytes of staging")]
    Memory(u64),
}

/// Why an append that was staged is not confirmed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{outcome}: {reason}")]
pub struct CommitError {
    /// What is certain.
    pub outcome: Outcome,
    /// What went wrong.
    pub reason: CommitFailure,
}

/// What went wrong in a commit.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitFailure {
    /// A system call failed.
    #[error(transparent)]
    Disk(DiskError),
    /// The log was stopped before it came to the commit.
    #[error(transparent)]
    Stopped(Stopped),
}

/// Why a log could not be truncated.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TruncateError {
    /// The log was closed or deleted; its files may be another's now. Nothing was touched.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// Giving a file up, or making that durable, failed. The records are gone for readers all the same; the files go with a
    /// later truncation, or a restart brings them back.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Any error of [`crate::Log::publish`].
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// Refused for pressure. Not written.
    #[error(transparent)]
    Limited(#[from] crate::permit::Limited),
    /// Not staged. Not written.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// Not confirmed; see its outcome.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl PublishError {
    /// What is certain.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Limited(_) | Self::Append(_) => Outcome::NotWritten,
            Self::Commit(error) => error.outcome,
        }
    }
}

/// Why a record cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The offset was truncated, or lies in a gap that a repair declared; reading can go on at `next`.
    #[error("record {wanted} is gone; the next one is {next}")]
    Gone {
        /// The offset asked for.
        wanted: Offset,
        /// The first offset at or after it that the log holds.
        next: Offset,
    },
    /// The offset is above the durable end.
    #[error("record {wanted} is not there yet; the log's durable end is {end}")]
    Beyond {
        /// The offset asked for.
        wanted: Offset,
        /// The offset that the next confirmed record will have, or a later one.
        end: Offset,
    },
    /// The record is damaged.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The log was closed or deleted.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// A system call failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Why a log cannot be opened, listed or deleted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such log, and it was not to be created.
    #[error("there is no log {0}")]
    Missing(LogName),
    /// The name is a folder of other logs, or a part of the name is a log.
    #[error("{name} cannot be a log: {reason}")]
    NameTaken {
        /// The name asked for.
        name: LogName,
        /// What stands in the way.
        reason: String,
    },
    /// Something stands in the data directory that does not belong there, or is of a newer layout.
    #[error("{}: {reason}", path.display())]
    Foreign {
        /// What.
        path: PathBuf,
        /// Why it is refused, with field, value and what was expected.
        reason: String,
    },
    /// Another process, or another node in this one, has the data directory open.
    #[error("{} is in use by another process", path.display())]
    Locked {
        /// The data directory.
        path: PathBuf,
    },
    /// A setting that does not fit.
    #[error("{field}: {reason}")]
    Setting {
        /// The field.
        field: &'static str,
        /// What is allowed.
        reason: String,
    },
    /// A limit that does not fit.
    #[error(transparent)]
    Limits(#[from] crate::limits::LimitsError),
    /// The node is closed.
    #[error("the node is closed")]
    Closed,
    /// A system call failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Whether an error says that the disk, or the share of it that this user may take, is full.
#[must_use]
pub fn is_no_space(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}
