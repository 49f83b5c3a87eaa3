//! Settings of a node.

use crate::error::OpenError;
use crate::format::layout::TINY_MIN;
use crate::limits::Limits;
use std::time::Duration;

/// Settings of a node, fixed while it is open unless they say otherwise.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeOptions {
    /// Size of a main segment file in bytes, for a data directory that is made now; at most a 64th of the file system.
    /// A power of two from 64 KiB to 1 GiB; 64 MiB by default.
    pub segment_size: u64,
    /// The largest record in bytes, with header and padding; 8 MiB by default, never above a main file minus 8 KiB.
    pub record_max: u64,
    /// Threads that commit for callers who do not block, 8 by default: syncs of different logs overlap in the device.
    pub committers: usize,
    /// Threads that recover logs in parallel, 16 by default: most of that time is waiting for syncs.
    pub recovery_threads: usize,
    /// The most descriptors kept open for segment files, 512 by default. A file that is written directly and read takes two.
    /// Commits and readers hold more while they run.
    pub open_files: usize,
    /// A log without an append for this long gets a durable checkpoint; 10 s by default.
    pub idle_checkpoint: Duration,
    /// Bytes of staging buffers kept for the next append; 32 MiB by default.
    pub buffers_kept: usize,
    /// Commit past the page cache (`O_DIRECT`) where the file system can, as it is by default: a commit is one system call
    /// then. Elsewhere commits go through the page cache, whatever this says; [`NodeStats::commits`] tells which.
    ///
    /// [`NodeStats::commits`]: crate::NodeStats::commits
    pub direct_writes: bool,
    /// Bytes of the newest records of logs that are being read, kept in memory for readers that keep up; 32 MiB by default.
    /// At most 4 MiB of one log; with 0 all is read from files.
    pub recent_max: usize,
    /// Let a commit wait a little for writers that the one before released.
    pub gather: bool,
    /// Make the data directory if it is missing.
    pub create: bool,
    /// When publishes are slowed and refused, and what spares may take; all but the limit of memory can be changed later, see
    /// [`Node::set_limits`](crate::Node::set_limits).
    pub limits: Limits,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            segment_size: 64 << 20,
            record_max: 8 << 20,
            committers: 8,
            recovery_threads: 16,
            open_files: 512,
            idle_checkpoint: Duration::from_secs(10),
            buffers_kept: 32 << 20,
            direct_writes: true,
            recent_max: 32 << 20,
            gather: true,
            create: true,
            limits: Limits::default(),
        }
    }
}

impl NodeOptions {
    pub(super) fn check(&self) -> Result<(), OpenError> {
        let refuse = |field, reason: &str| Err(OpenError::Setting { field, reason: reason.into() });
        let size = self.segment_size;
        if !size.is_power_of_two() || !(TINY_MIN..=1 << 30).contains(&size) {
            return refuse("segment_size", "a power of two from 64 KiB to 1 GiB is allowed");
        }
        if self.record_max < 32 {
            return refuse(
                "record_max",
                "at least 32 bytes, the size of a record's header, are needed",
            );
        }
        if self.open_files == 0 {
            return refuse("open_files", "at least 1 is needed");
        }
        if self.committers == 0 || self.recovery_threads == 0 {
            return refuse("committers, recovery_threads", "at least 1 of each is needed");
        }
        Ok(self.limits.check()?)
    }
}
