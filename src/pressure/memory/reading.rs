//! What is shown of memory.

use crate::pressure::{Gauge, STALE};
use crate::types::Level;
use std::fmt;
use std::time::Duration;

/// Where the limit comes from that use is held against. Prints as a noun phrase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LimitFrom {
    /// A control group of the process; the path of the file.
    Group(String),
    /// The field `limits.memory.limit`.
    Configured,
    /// Nothing limits the process: 60% of physical memory.
    #[default]
    Physical,
}

impl fmt::Display for LimitFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(file) => write!(f, "the control group's limit in {file}"),
            Self::Configured => f.write_str("limits.memory.limit"),
            Self::Physical => {
                f.write_str("60% of physical memory, as nothing else limits the process")
            }
        }
    }
}

/// Why memory has the level that it has. Prints as a sentence without its full stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MemoryReason {
    /// There is enough.
    #[default]
    Enough,
    /// Much of the limit is used.
    Used,
    /// The last sample failed: it counts as soft at least.
    SampleFailed {
        /// The system's number of the error, if it had one.
        errno: Option<i32>,
        /// In words.
        text: String,
    },
    /// The last sample is older than [`STALE`]: it counts as soft at least.
    SampleOld,
    /// There was no sample yet: it counts as soft.
    NoSample,
}

impl fmt::Display for MemoryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enough => f.write_str("enough memory is free"),
            Self::Used => f.write_str("much of the memory limit is used"),
            Self::SampleFailed { text, .. } => write!(f, "use of memory cannot be told: {text}"),
            Self::SampleOld => {
                write!(f, "the last sample of memory is older than {} s", STALE.as_secs())
            }
            Self::NoSample => f.write_str("memory has not been looked at yet"),
        }
    }
}

/// Memory at one moment. All sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryReading {
    /// The level.
    pub level: Level,
    /// How far from soft (0) to hard (1000), see [`Gauge::permille`].
    pub permille: u16,
    /// Why it has this level.
    pub reason: MemoryReason,
    /// Since when, in milliseconds since the Unix epoch.
    pub since_unix_millis: u64,
    /// For how long it has been hard or worse.
    pub hard_for: Duration,
    /// What is used and cannot be reclaimed, growth of the buffers since the sample included.
    pub used: u64,
    /// The limit that it is held against; 0 before the first sample.
    pub limit: u64,
    /// Where that comes from.
    pub limit_from: LimitFrom,
    /// Where soft begins.
    pub soft: u64,
    /// Where hard begins.
    pub hard: u64,
    /// By how much use must be below a line before the level ends.
    pub clear: u64,
    /// Anonymous and shared memory of this process.
    pub process: u64,
    /// Physical memory of the machine.
    pub physical: u64,
    /// Buffers that the node accounts for, as last told.
    pub buffers: u64,
    /// The time since the last sample was begun; none before the first.
    pub age: Option<Duration>,
    /// What could not be read, and what was taken instead.
    pub warning: Option<String>,
}

impl MemoryReading {
    /// Level and permille, as admission sees them.
    #[must_use]
    pub fn gauge(&self) -> Gauge {
        Gauge { level: self.level, permille: self.permille }
    }
}
