//! A node in numbers.

use crate::admission::AdmissionStats;
use crate::log::CommitStats;
use crate::pool::PoolStats;

/// What a node holds and has done since it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// The spares, one entry for each data directory in the order in which they were given.
    pub pools: Vec<PoolStats>,
    /// What was admitted, delayed and refused.
    pub admission: AdmissionStats,
    /// How commits were written.
    pub commits: CommitStats,
    /// Bytes of files that logs have taken and not begun yet; they are in no pool and no budget.
    pub reserved_bytes: u64,
    /// Bytes of truncated files that take space all the same, as readers have them open: at most the file that each is in.
    pub pinned_bytes: u64,
    /// Bytes of memory that hold the newest records for readers that keep up.
    pub recent_bytes: u64,
    /// Descriptors held open for segment files.
    pub open_files: usize,
}
