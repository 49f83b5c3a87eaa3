//! A log as it can be read without owning it: no lock, nothing opened for writing.
//!
//! A log that is being written shows what is known to be durable; the last batch becomes known by the one that follows,
//! or by a checkpoint after some seconds.

mod records;
mod settle;
mod store;

pub(crate) use records::{NoRecord, Records};
pub(crate) use settle::{Unsettled, recover, settled};
pub(crate) use store::Store;

use crate::cost::Cost;
use crate::failure::{Exit, Failure};
use plimsoll::Offset;
use plimsoll::error::Damage;
use plimsoll::fs::OsFileSystem;
use plimsoll::inspect::Held;
use plimsoll::recovery::{self, Boundary, Look, RecoverError};
use std::path::{Path, PathBuf};

/// The outcome of what stands in the way of a log and is not the engine's.
pub(crate) const FOREIGN: &str = "foreign";

/// One look at a log.
#[derive(Debug)]
pub(crate) struct View {
    dir: PathBuf,
    look: Look,
    /// Records before this are shown.
    end: Boundary,
}

impl View {
    /// Looks at the log in a directory. With `unconfirmed` it shows also what is not known to be durable.
    pub(crate) fn look(dir: &Path, unconfirmed: bool) -> Result<Self, Failure> {
        let look = recovery::look(&OsFileSystem, dir)?;
        // Damage is what a later claim says of bytes before it, so what stands before the damage was durable too.
        let end = match &look.tail {
            Some(tail) if !unconfirmed && look.damage.is_none() => tail.vouched,
            _ => look.end(),
        };
        Ok(Self { dir: dir.to_path_buf(), look, end })
    }

    /// The first offset that the log holds.
    pub(crate) fn head(&self) -> Offset {
        self.look.segments.first().map_or(self.end.next, |segment| segment.base)
    }

    /// The offset behind the last record that is shown.
    pub(crate) fn end(&self) -> Offset {
        self.end.next
    }

    /// The offset behind the last record that is there, known to be durable or not.
    pub(crate) fn tail(&self) -> Offset {
        self.look.end().next
    }

    /// How many records are there that are not shown.
    pub(crate) fn hidden(&self) -> u64 {
        self.tail().0.saturating_sub(self.end().0)
    }

    /// How many of the records that are shown are not known to be durable.
    pub(crate) fn unconfirmed(&self) -> u64 {
        let durable = self.look.tail.map_or(self.end.next, |tail| tail.vouched.next);
        self.end().0.saturating_sub(durable.0)
    }

    /// Whether a recovery would change nothing about what can be read.
    pub(crate) fn is_settled(&self) -> bool {
        self.look.damage.is_some() || self.look.tail.is_none_or(|tail| tail.is_vouched())
    }

    /// What is damaged, if something is.
    pub(crate) fn damage(&self) -> Option<&Damage> {
        self.look.damage.as_ref()
    }

    /// How many segments there are.
    pub(crate) fn segments(&self) -> usize {
        self.look.segments.len()
    }

    /// What the files cost against what they hold. A segment that is full counts as its file, as it is not read for this.
    pub(crate) fn cost(&self) -> Result<Cost, Failure> {
        Cost::of_dir(&self.dir, Held::of(&self.look))
    }
}

impl From<RecoverError> for Failure {
    fn from(error: RecoverError) -> Self {
        let path = match &error {
            RecoverError::Io { path, .. }
            | RecoverError::Link { path }
            | RecoverError::Foreign { path }
            | RecoverError::Newer { path, .. } => path.display().to_string(),
            _ => return Self::new(Exit::Io, error.to_string()),
        };
        let foreign = matches!(error, RecoverError::Link { .. } | RecoverError::Foreign { .. });
        let failure = Self::new(Exit::Io, error.to_string()).with("file", path);
        if foreign { failure.with("outcome", FOREIGN) } else { failure }
    }
}
