//! The `LAYOUT` file of a data directory: which layout it has and how large its size classes are.

use super::{BLOCK_LEN, LAYOUT_VERSION, RECORDS_POSITION};
use crate::types::SizeClass;

/// The file sizes of the three classes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSizes {
    /// [`SizeClass::Tiny`].
    pub tiny: u64,
    /// [`SizeClass::Small`].
    pub small: u64,
    /// [`SizeClass::Main`].
    pub main: u64,
}

/// The smallest tiny file.
pub const TINY_MIN: u64 = 64 * 1024;

impl ClassSizes {
    /// Main as given, small one eighth of it, tiny 1/256 of it, neither below 64 KiB.
    #[must_use]
    pub const fn from_main(main: u64) -> Self {
        const fn at_least(size: u64) -> u64 {
            if size < TINY_MIN { TINY_MIN } else { size }
        }
        Self { tiny: at_least(main / 256), small: at_least(main / 8), main: at_least(main) }
    }

    /// Main as asked for, but not above a 64th of the file system, rounded down to a power of two.
    #[must_use]
    pub fn for_file_system(main: u64, total: u64) -> Self {
        let share = (total / 64).max(1);
        let power = 1u64 << share.ilog2();
        Self::from_main(main.min(power))
    }

    /// The size of a class.
    #[must_use]
    pub const fn of(&self, class: SizeClass) -> u64 {
        match class {
            SizeClass::Tiny => self.tiny,
            SizeClass::Small => self.small,
            SizeClass::Main => self.main,
        }
    }

    /// The bytes that a class has for records.
    #[must_use]
    pub const fn room(&self, class: SizeClass) -> u64 {
        self.of(class) - RECORDS_POSITION
    }

    const fn legal(&self) -> bool {
        const fn size(size: u64) -> bool {
            size > RECORDS_POSITION && size.is_multiple_of(BLOCK_LEN as u64)
        }
        size(self.tiny)
            && size(self.small)
            && size(self.main)
            && self.tiny <= self.small
            && self.small <= self.main
    }
}

/// Why a `LAYOUT` file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Nothing in it.
    #[error("the file is empty")]
    Empty,
    /// A newer release made it.
    #[error("line 1: layout {0}, this release reads up to {LAYOUT_VERSION}")]
    Newer(u64),
    /// A line is not what it should be.
    #[error("line {line}: found {found:?}, expected {expected}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What stands there, at most 80 characters of it.
        found: String,
        /// What should.
        expected: &'static str,
    },
    /// The checksum does not fit.
    #[error("line 5: CRC32 found {found}, expected {expected:08x}")]
    Crc {
        /// As stored.
        found: String,
        /// As computed.
        expected: u32,
    },
}

/// The text of a `LAYOUT` file.
#[must_use]
pub fn encode(sizes: &ClassSizes) -> String {
    let body = format!(
        "plimsoll layout {LAYOUT_VERSION}\nmain {}\nsmall {}\ntiny {}\n",
        sizes.main, sizes.small, sizes.tiny
    );
    let crc = crc32fast::hash(body.as_bytes());
    format!("{body}crc32 {crc:08x}\n")
}

/// Reads a `LAYOUT` file.
///
/// # Errors
/// [`LayoutError`] names the line.
pub fn parse(text: &[u8]) -> Result<ClassSizes, LayoutError> {
    if text.iter().all(|&byte| byte == 0) {
        return Err(LayoutError::Empty);
    }
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines();
    let mut number = 0;
    let mut field = |prefix: &str, expected| {
        number += 1;
        let line = lines.next().unwrap_or("");
        line.strip_prefix(prefix).map(str::to_owned).ok_or_else(|| LayoutError::Line {
            line: number,
            found: line.chars().take(80).collect(),
            expected,
        })
    };
    let parse_number = |line, found: String, expected| {
        found.parse::<u64>().map_err(|_| LayoutError::Line { line, found, expected })
    };
    let first = "plimsoll layout and a number";
    let version = parse_number(1, field("plimsoll layout ", first)?, first)?;
    if version > LAYOUT_VERSION.into() {
        return Err(LayoutError::Newer(version));
    }
    let main = parse_number(2, field("main ", "main and a size")?, "a size in bytes")?;
    let small = parse_number(3, field("small ", "small and a size")?, "a size in bytes")?;
    let tiny = parse_number(4, field("tiny ", "tiny and a size")?, "a size in bytes")?;
    let found = field("crc32 ", "crc32 and eight digits")?;
    let sizes = ClassSizes { tiny, small, main };
    let good = encode(&sizes);
    if !sizes.legal() {
        return Err(LayoutError::Line {
            line: 2,
            found: format!("main {main}, small {small}, tiny {tiny}"),
            expected: "multiples of 4096 above 8192, rising from tiny to main",
        });
    }
    if version != u64::from(LAYOUT_VERSION) || !good.ends_with(&format!("crc32 {found}\n")) {
        let body = &good[..good.len() - "crc32 00000000\n".len()];
        return Err(LayoutError::Crc { found, expected: crc32fast::hash(body.as_bytes()) });
    }
    Ok(sizes)
}
