//! What an inspection ends with.

use crate::types::Offset;
use std::fmt;
use std::path::PathBuf;

/// What a look at a file, a log or a data directory ended with; the worst part decides. Ordered from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Nothing to say.
    Clean,
    /// It ended elsewhere when it was looked at again: a node is writing it. All that was there before is good.
    BeingWritten,
    /// It went away, or went on to another use, while it was read. That is what a truncation does.
    Gone,
    /// It is not the engine's, and stands in nobody's way.
    Stray,
    /// Behind the last good record stands what a crash leaves. Nothing says that it was durable; the next start cuts it
    /// off. Also what a write in progress looks like.
    TornTail,
    /// Something does not belong where it is, and a log or the data directory cannot be used for it. No record is
    /// touched by it.
    Foreign,
    /// Bytes that were durable are not what they were.
    Damaged,
    /// The system gives no access to it.
    Unreadable,
}

impl Outcome {
    /// The name as tools print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::BeingWritten => "being written",
            Self::Gone => "gone",
            Self::Stray => "stray",
            Self::TornTail => "torn tail",
            Self::Foreign => "foreign",
            Self::Damaged => "damaged",
            Self::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One thing that was found, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is; [`Outcome::Clean`] for a remark.
    pub outcome: Outcome,
    /// The file or directory.
    pub file: PathBuf,
    /// The byte of the file, where there is one.
    pub position: Option<u64>,
    /// The record, where it is known.
    pub offset: Option<Offset>,
    /// The field, its value, and what was expected; what vouches for damaged bytes.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(position) = self.position {
            write!(f, ", byte {position}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, ", record {offset}")?;
        }
        write!(f, ": {}: {}", self.outcome, self.detail)
    }
}

/// The worst of some findings.
pub(crate) fn worst(findings: &[Finding]) -> Outcome {
    findings.iter().map(|finding| finding.outcome).max().unwrap_or(Outcome::Clean)
}
