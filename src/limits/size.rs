//! A number of bytes as people write it.
//!
//! Own, as it must print what it read: the known crates round to a decimal or two when they print, so that a file written
//! from the settings in force would hold others.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A number of bytes: written `4GiB`, `512 MiB`, `1.5GB`, `0B`. `K`, `M`, `G` alone are refused, as people mean either by
/// them, and so is a number without a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

const BINARY: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const DECIMAL: [(&str, u64); 4] =
    [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];

/// Why a text is no [`Size`], share or duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {reason}")]
pub struct WrittenError {
    /// What was written.
    pub text: String,
    /// What is wrong with it, and what is allowed.
    pub reason: &'static str,
}

/// A decimal number times `unit`, exactly; none where it is no number, or not whole, or too large.
///
/// No floating point: 0.1 has no such number, and what is not exact would be printed as something else.
pub(crate) fn exact(number: &str, unit: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 12 {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(part.len()).ok()?);
    let part = part.parse::<u128>().ok()?.checked_mul(u128::from(unit))?;
    if part % scale != 0 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    whole.checked_add(u64::try_from(part / scale).ok()?)
}

impl FromStr for Size {
    type Err = WrittenError;

    fn from_str(text: &str) -> Result<Self, WrittenError> {
        let refuse = |reason| Err(WrittenError { text: text.to_owned(), reason });
        let trimmed = text.trim();
        let at = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(at);
        if number.is_empty() {
            return refuse(
                "is no size: a number and a unit, such as 4GiB, 512MiB or 0B, not below 0",
            );
        }
        let unit = unit.trim_start();
        if unit.is_empty() {
            return refuse("has no unit: write it as 4GiB, 512MiB, 2GB or 100B");
        }
        let known = BINARY.iter().chain(&DECIMAL).find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let Some((_, unit)) = known else {
            return refuse("has another unit than B, KiB, MiB, GiB, TiB, kB, MB, GB, TB");
        };
        match exact(number, *unit) {
            Some(bytes) => Ok(Self(bytes)),
            None => refuse("is no whole number of bytes below 16 EiB"),
        }
    }
}

impl fmt::Display for Size {
    /// In the largest binary unit that holds it exactly, so that it reads back as the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, unit): &&(&str, u64)| self.0 > 0 && self.0.is_multiple_of(*unit);
        let (name, unit) = BINARY.iter().find(fits).unwrap_or(&("B", 1));
        f.pad(&format!("{}{name}", self.0 / unit))
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        super::written::parse(deserializer, "a size in quotes, such as \"4GiB\"")
    }
}
