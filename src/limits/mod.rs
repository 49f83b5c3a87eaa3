//! The limits: one section of settings, for whatever file its owner keeps them in.
//!
//! Sizes, shares and durations are written as people write them (`4GiB`, `10%`, `50ms`), and print as something that reads
//! back as the same. What is left out has its default. `limits.example.toml` in the repository shows and explains all.
//!
//! ```
//! use plimsoll::Limits;
//!
//! let mut limits = Limits::default();
//! limits.disk.soft.share = "20%".parse()?;
//! limits.check()?;
//! limits.disk.hard.share = "20%".parse()?; // no room between soft and hard
//! assert!(limits.check().unwrap_err().to_string().starts_with("limits.disk.hard.share: "));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod check;
mod size;
#[cfg(test)]
mod tests;
mod written;

pub use check::LimitsError;
pub use size::{Size, WrittenError};

use crate::types::Fraction;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;
use written::span;

/// All limits of a node. Reading one refuses unknown fields and what is no size, share or duration, and names the field;
/// [`Limits::check`] then holds the fields against each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct Limits {
    /// Free bytes of each device.
    pub disk: DiskLimits,
    /// Free inodes of each device.
    pub inodes: InodeLimits,
    /// Memory of the process and of its control groups.
    pub memory: MemoryLimits,
    /// How publishes are slowed.
    pub slow: SlowLimits,
    /// What refused publishes are told.
    pub retry: RetryLimits,
    /// The spare pool.
    pub pool: PoolLimits,
}

impl Serialize for Limits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The derived one.
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        use serde_path_to_error::{Deserializer, Track};
        let mut track = Track::new();
        // The derived one, watched: a format names a line of its text at best, and a file may have many `hard`.
        Self::deserialize(Deserializer::new(deserializer, &mut track)).map_err(|error| {
            let path = track.path();
            let at = if path.iter().next().is_none() { String::new() } else { format!(".{path}") };
            D::Error::custom(format_args!("limits{at}: {}", error.to_string().trim_end()))
        })
    }
}

/// A line below which free space is short: a share of what can be had of the device, and a floor, whichever is more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Threshold {
    /// Of what can be had of the device.
    pub share: Fraction,
    /// Counts for at most 40% (soft), 20% (hard) or 5% (reserve) of the device, so that a small one is not short for ever.
    pub floor: Size,
}

/// Free bytes of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DiskLimits {
    /// Publishes are slowed; 10% or 4 GiB by default.
    #[serde(deserialize_with = "fill::soft")]
    pub soft: Threshold,
    /// Publishes are refused; 5% or 2 GiB by default.
    #[serde(deserialize_with = "fill::hard")]
    pub hard: Threshold,
    /// Catch-up is refused too; 1% or 512 MiB by default.
    #[serde(deserialize_with = "fill::reserve")]
    pub reserve: Threshold,
    /// By how much free space must be above a line before that level ends, of the device; at least two main files. 1% by
    /// default. The same share of inodes, for those.
    pub clear: Fraction,
}

impl Default for DiskLimits {
    fn default() -> Self {
        let line =
            |percent, floor| Threshold { share: Fraction::percent(percent), floor: Size(floor) };
        Self {
            soft: line(10, 4 << 30),
            hard: line(5, 2 << 30),
            reserve: line(1, 512 << 20),
            clear: Fraction::percent(1),
        }
    }
}

/// A threshold of which one half was left out has the default of its own level there.
mod fill {
    use super::{Deserialize, Deserializer, DiskLimits, Fraction, Size, Threshold};

    #[derive(Deserialize)]
    #[serde(
        deny_unknown_fields,
        expecting = "a table such as { share = \"10%\", floor = \"4GiB\" }"
    )]
    struct Given {
        share: Option<Fraction>,
        floor: Option<Size>,
    }

    fn given<'de, D: Deserializer<'de>>(from: D, other: Threshold) -> Result<Threshold, D::Error> {
        let Given { share, floor } = Given::deserialize(from)?;
        Ok(Threshold { share: share.unwrap_or(other.share), floor: floor.unwrap_or(other.floor) })
    }

    pub(super) fn soft<'de, D: Deserializer<'de>>(from: D) -> Result<Threshold, D::Error> {
        given(from, DiskLimits::default().soft)
    }

    pub(super) fn hard<'de, D: Deserializer<'de>>(from: D) -> Result<Threshold, D::Error> {
        given(from, DiskLimits::default().hard)
    }

    pub(super) fn reserve<'de, D: Deserializer<'de>>(from: D) -> Result<Threshold, D::Error> {
        given(from, DiskLimits::default().reserve)
    }
}

/// Free inodes of a device, as shares of all of them. A file system that counts none is not held to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InodeLimits {
    /// As [`DiskLimits::soft`]; 10% by default.
    pub soft: Fraction,
    /// As [`DiskLimits::hard`]; 5% by default.
    pub hard: Fraction,
    /// As [`DiskLimits::reserve`]; 1% by default.
    pub reserve: Fraction,
}

impl Default for InodeLimits {
    fn default() -> Self {
        let [soft, hard, reserve] = [10, 5, 1].map(Fraction::percent);
        Self { soft, hard, reserve }
    }
}

/// Memory in use, as shares of the limit that binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemoryLimits {
    /// A limit of this process's own memory, beside those of its control groups, which it cannot lift. Without it and
    /// without a group that limits, 60% of physical memory counts. Read at the start only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Size>,
    /// Publishes are slowed; 80% by default.
    pub soft: Fraction,
    /// Publishes are refused; 90% by default.
    pub hard: Fraction,
    /// By how much use must be below a line before that level ends; 5% by default.
    pub clear: Fraction,
    /// And for how long; 10 s by default.
    #[serde(with = "span")]
    pub hold: Duration,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        let [soft, hard, clear] = [80, 90, 5].map(Fraction::percent);
        Self { limit: None, soft, hard, clear, hold: Duration::from_secs(10) }
    }
}

/// How publishes are slowed between soft and hard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlowLimits {
    /// The delay of a publish just above hard; it grows from none at soft. 50 ms by default, 0 for none.
    #[serde(with = "span")]
    pub max_delay: Duration,
}

impl Default for SlowLimits {
    fn default() -> Self {
        Self { max_delay: Duration::from_millis(50) }
    }
}

/// When whoever was refused is told to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryLimits {
    /// At first; doubles while the level lasts. 1 s by default.
    #[serde(with = "span")]
    pub first: Duration,
    /// At most; 30 s by default.
    #[serde(with = "span")]
    pub max: Duration,
}

impl Default for RetryLimits {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), max: Duration::from_secs(30) }
    }
}

/// What spare segment files may take of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolLimits {
    /// The share of a device that spares may take; 2% by default, 0 for none.
    pub budget: Fraction,
    /// And the most bytes; 1 GiB by default.
    pub budget_cap: Size,
    /// Spares of a class in use that are made ahead; 2 by default, 0 for none.
    pub prepared: u32,
    /// Bytes of a device kept back for what frees space; 16 MiB by default, 0 for none.
    pub kept_back: Size,
    /// And the largest share of it, in bytes and in inodes; 5% by default.
    pub kept_back_share: Fraction,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            budget: Fraction::percent(2),
            budget_cap: Size(1 << 30),
            prepared: 2,
            kept_back: Size(16 << 20),
            kept_back_share: Fraction::percent(5),
        }
    }
}
