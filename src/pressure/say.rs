//! Readings as sentences, for operators at 3 a.m.

use super::{DiskReading, DiskReason, MemoryReading};
use crate::types::Level;
use std::fmt;

/// A number of bytes as people read it, to a tenth of its unit.
struct About(u64);

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 4] =
            [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        let Some((name, unit)) = UNITS.into_iter().find(|(_, unit)| self.0 >= *unit) else {
            return write!(f, "{} bytes", self.0);
        };
        // Rounded down: what is free is never said to be more.
        let tenths = u128::from(self.0) * 10 / u128::from(unit);
        write!(f, "{}.{} {name}", tenths / 10, tenths % 10)
    }
}

impl fmt::Display for DiskReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dirs.first() {
            Some(dir) => write!(f, "the device of {} ", dir.display())?,
            None => write!(f, "device {} ", self.device)?,
        }
        let (free, total) = (About(self.free), About(self.total));
        write!(f, "has {free} of {total} free")?;
        if self.inodes > 0 {
            write!(f, " and {} of {} inodes", self.inodes_available, self.inodes)?;
        }
        // The lines of what is short: those of bytes say nothing where inodes are, and none does where it is not known.
        let inodes = self.inode_thresholds.filter(|_| self.reason == DiskReason::Inodes);
        let lines = inodes.unwrap_or(self.thresholds);
        let number = |line: u64| match inodes {
            Some(_) => format!("{line} inodes"),
            None => About(line).to_string(),
        };
        match (self.level, &self.reason) {
            (Level::Ok, _) => write!(f, ", soft begins at {}", number(lines.soft))?,
            (level, DiskReason::Bytes | DiskReason::Inodes) => {
                let line = lines.of(level);
                let (line, ends) = (number(line), number(line.saturating_add(lines.clear)));
                write!(f, ", level {level} begins at {line} and ends above {ends}")?;
            }
            (level, _) => write!(f, ", level {level}")?,
        }
        write!(f, ": {}", self.reason)
    }
}

impl fmt::Display for MemoryReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, limit) = (About(self.used), About(self.limit));
        write!(f, "{used} of {limit} of memory are in use ({})", self.limit_from)?;
        let line = match self.level {
            Level::Ok => self.soft,
            Level::Soft => self.soft,
            Level::Hard | Level::Reserve => self.hard,
        };
        match self.level {
            Level::Ok => write!(f, ", soft begins at {}", About(line))?,
            level => {
                let ends = About(line.saturating_sub(self.clear));
                write!(f, ", level {level} begins at {} and ends below {ends}", About(line))?;
            }
        }
        write!(f, ": {}", self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_down_to_a_tenth() {
        let said = [0, 1_023, 1_024, 2_147_483_647, 1 << 40].map(|bytes| About(bytes).to_string());
        assert_eq!(said, ["0 bytes", "1023 bytes", "1.0 KiB", "1.9 GiB", "1.0 TiB"]);
    }
}
