//! Memory: what is in use that cannot be reclaimed, against the limit that is nearest.
//!
//! The page cache does not count: a log engine fills it by working, and the kernel takes it back when it needs it.

mod group;
mod level;
mod monitor;
mod reading;
mod system;
#[cfg(test)]
#[allow(non_snake_case, reason = "tests are named by the case that they hold")]
mod tests;
mod text;

pub use monitor::MemoryMonitor;
pub use reading::{LimitFrom, MemoryReading, MemoryReason};
pub use system::SystemMemory;

use std::fmt::Debug;
use std::io;

/// Memory of a control group that limits this process: its own, or one above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMemory {
    /// Bytes in use in it that cannot be reclaimed.
    pub used: u64,
    /// Its limit in bytes, below that of the machine.
    pub limit: u64,
    /// The file that the limit stands in.
    pub file: String,
}

impl GroupMemory {
    /// Whether more of this limit is used than of the other one.
    pub(super) fn nearer_than(&self, other: &Self) -> bool {
        let share = |a: u64, b: u64| u128::from(a) * u128::from(b);
        share(self.used, other.limit) > share(other.used, self.limit)
    }
}

/// Memory at one moment, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySample {
    /// Of the control groups that this process is in, the one of whose limit most is used; none where none limits it.
    pub group: Option<GroupMemory>,
    /// What this process uses that no file backs: anonymous and shared.
    pub process: u64,
    /// Physical memory of the machine.
    pub physical: u64,
    /// What could not be read, and what was taken instead.
    pub warning: Option<String>,
}

/// Where samples of memory come from.
pub trait MemorySource: Debug + Send + Sync {
    /// Memory as it is now. May block.
    ///
    /// # Errors
    /// Of the system, when not even the process's own memory could be told.
    fn read(&self) -> io::Result<MemorySample>;
}

/// Nothing is used and nothing limits: for nodes that are simulated.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMemory;

impl MemorySource for NoMemory {
    fn read(&self) -> io::Result<MemorySample> {
        Ok(MemorySample::default())
    }
}
