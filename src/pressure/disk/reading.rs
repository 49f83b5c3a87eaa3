//! What is shown of a device.

use crate::pressure::{Gauge, STALE, Thresholds};
use crate::types::Level;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Why a device has the level that it has. Prints as a sentence without its full stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DiskReason {
    /// There is enough of all.
    #[default]
    Enough,
    /// Few bytes are free.
    Bytes,
    /// Few inodes are free; bytes may be plenty.
    Inodes,
    /// The last call for free space failed: it counts as soft at least.
    SampleFailed {
        /// The system's number of the error, if it had one.
        errno: Option<i32>,
        /// In words.
        text: String,
    },
    /// The last sample is older than [`STALE`], as a call hangs or nobody calls: it counts as soft at least.
    SampleOld,
    /// There was no sample yet: it counts as soft.
    NoSample,
    /// An allocation found no room, or no quota, and none has succeeded since: it counts as hard at least.
    NoSpace,
}

impl fmt::Display for DiskReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enough => f.write_str("enough bytes and inodes are free"),
            Self::Bytes => f.write_str("few bytes are free on the device"),
            Self::Inodes => {
                f.write_str("few inodes are free on the device, however many bytes are")
            }
            Self::SampleFailed { text, .. } => write!(f, "free space cannot be asked for: {text}"),
            Self::SampleOld => {
                write!(f, "the last answer about free space is older than {} s", STALE.as_secs())
            }
            Self::NoSample => f.write_str("free space has not been asked for yet"),
            Self::NoSpace => {
                f.write_str("an allocation found no room or no quota, and none has succeeded since")
            }
        }
    }
}

/// A device at one moment. All sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskReading {
    /// The device (`st_dev`).
    pub device: u64,
    /// The data directories on it; free space is asked for at the first.
    pub dirs: Vec<PathBuf>,
    /// The level.
    pub level: Level,
    /// How far from soft (0) to hard (1000), see [`Gauge::permille`].
    pub permille: u16,
    /// Why it has this level.
    pub reason: DiskReason,
    /// Since when, in milliseconds since the Unix epoch.
    pub since_unix_millis: u64,
    /// For how long it has been hard or worse.
    pub hard_for: Duration,
    /// Size of the file system; 0 before the first sample, as all that follows from one.
    pub total: u64,
    /// What the last sample said an ordinary process may still use, the share of root not counted.
    pub available: u64,
    /// Free, and never for an ordinary process: kept for root, or set aside for metadata. Levels begin at shares of `total`
    /// without it.
    pub withheld: u64,
    /// What levels are held against: `available` + `reclaimable` + `released` - `debited`, at most `total`.
    pub free: u64,
    /// Where the levels begin, and the margin above which they end.
    pub thresholds: Thresholds,
    /// Spares that could be released now.
    pub reclaimable: u64,
    /// Deleted in the last seconds, and not yet seen in a sample.
    pub released: u64,
    /// Allocations begun since the last sample.
    pub debited: u64,
    /// All inodes; 0 where they are not counted.
    pub inodes: u64,
    /// Inodes that an ordinary process may still use, without those of allocations since the sample.
    pub inodes_available: u64,
    /// Where the levels of inodes begin; none where they are not counted.
    pub inode_thresholds: Option<Thresholds>,
    /// The time until hard at the rate of the last minute; none if free space is not falling.
    pub hard_in: Option<Duration>,
    /// The time since the call of the last sample began; none before the first.
    pub age: Option<Duration>,
    /// Held at hard since an allocation found no room, until one succeeds.
    pub no_space: bool,
}

impl DiskReading {
    /// Level and permille, as admission sees them.
    #[must_use]
    pub fn gauge(&self) -> Gauge {
        Gauge { level: self.level, permille: self.permille }
    }
}

/// An allocation that would take a device down to a line that its class must leave alone. Nothing was allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortage {
    /// What was asked for.
    pub bytes: u64,
    /// What is free; 0 before the first sample.
    pub free: u64,
    /// The line that must be left alone.
    pub line: u64,
    /// Free inodes; 0 before the first sample, and where they are not counted.
    pub inodes: u64,
    /// Their line; 0 where they are not counted.
    pub inode_line: u64,
    /// Whose line it is.
    pub keep_above: Level,
    /// The device is held at hard since an allocation found no room, whatever is free.
    pub held: bool,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, free, line, inodes, inode_line, keep_above, held } = self;
        write!(f, "no room for a file of {bytes} bytes: ")?;
        if *held {
            return write!(f, "{}", DiskReason::NoSpace);
        }
        write!(f, "{free} bytes are free, and more than {line} must be left ({keep_above})")?;
        if *inode_line > 0 {
            write!(f, "; {inodes} inodes, and more than {inode_line} must be left")?;
        }
        Ok(())
    }
}

impl std::error::Error for Shortage {}
