//! stub
use crate::error::{DiskError, OpenError};
use crate::format::name::LogName;
use crate::log::{Log, LogOptions};
use crate::admission::Admission;
use std::path::Path;
use std::time::Duration;

/// Settings of a node, fixed while it is open.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeOptions {
    /// Size of a main segment file in bytes, for a data directory that is made now; at most a 64th of the file system.
    pub segment_size: u64,
    /// The largest record in bytes, with header and padding; never above a main file minus 8 KiB.
    pub largest_record: u64,
    /// Threads that commit for callers who do not block.
    pub committers: usize,
    /// The most descriptors kept open for segment files.
    pub open_files: usize,
    /// A log without an append for this long gets a durable checkpoint.
    pub idle_checkpoint: Duration,
    /// Make the data directory if it is missing.
    pub create: bool,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            segment_size: 64 << 20,
            largest_record: 8 << 20,
            committers: 8,
            open_files: 512,
            idle_checkpoint: Duration::from_secs(10),
            create: true,
        }
    }
}

/// The owner of a data directory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Node {}

#[allow(missing_docs)]
impl Node {
    pub fn open(_dir: &Path, _options: NodeOptions) -> Result<Self, OpenError> {
        todo!()
    }
    pub fn open_log(&self, _name: &LogName, _options: LogOptions) -> Result<Log, OpenError> {
        todo!()
    }
    /// Names of all logs on disk, sorted.
    pub fn logs(&self) -> Result<Vec<LogName>, OpenError> {
        todo!()
    }
    /// Opens (recovers) every log, in parallel.
    pub fn open_all(&self) -> Result<Vec<(LogName, Result<Log, OpenError>)>, OpenError> {
        todo!()
    }
    pub fn delete_log(&self, _name: &LogName) -> Result<(), OpenError> {
        todo!()
    }
    pub fn admission(&self) -> &Admission {
        todo!()
    }
    /// Commits what is staged, writes checkpoints, stops the threads, releases the lock.
    pub fn close(self) -> Result<(), DiskError> {
        todo!()
    }
}
