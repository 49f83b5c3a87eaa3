//! How commits were written, in numbers.

use crate::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

/// Commits of all logs of a node.
#[derive(Debug, Default)]
pub(crate) struct CommitCounts {
    direct: AtomicU64,
    buffered: AtomicU64,
}

/// How many commits a node has written since it was opened, and how. One commit confirms all that its log had staged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitStats {
    /// Past the page cache (`O_DIRECT`).
    pub direct: u64,
    /// Through the page cache: where the file system has no direct writes, or they are switched off, see
    /// [`NodeOptions::direct_writes`](crate::NodeOptions::direct_writes).
    pub buffered: u64,
}

impl CommitCounts {
    pub(super) fn count(&self, file: &dyn File) {
        let counter = if file.is_direct() { &self.direct } else { &self.buffered };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> CommitStats {
        CommitStats {
            direct: self.direct.load(Ordering::Relaxed),
            buffered: self.buffered.load(Ordering::Relaxed),
        }
    }
}
