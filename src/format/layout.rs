//! The `LAYOUT` file of a data directory: which layout it has and how large its size classes are.

use super::{BLOCK_LEN, CAPACITY_MAX, LAYOUT_VERSION, RECORDS_POSITION, is_capacity};
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
    /// Main as given, small one eighth of it, tiny 1/256 of it; each rounded down to whole blocks, none below 64 KiB
    /// or above 4 GiB.
    #[must_use]
    pub const fn from_main(main: u64) -> Self {
        const fn legal(size: u64) -> u64 {
            let blocks = size - size % BLOCK_LEN as u64;
            if blocks < TINY_MIN {
                TINY_MIN
            } else if blocks > CAPACITY_MAX {
                CAPACITY_MAX
            } else {
                blocks
            }
        }
        let main = legal(main);
        Self { tiny: legal(main / 256), small: legal(main / 8), main }
    }

    /// Main as asked for, but not above a 64th of the file system, rounded down to a power of two.
    ///
    /// `total` is the file system's size in bytes. On one below 4 MiB every class has 64 KiB all the same.
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
        is_capacity(self.tiny)
            && is_capacity(self.small)
            && is_capacity(self.main)
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
pub fn parse(bytes: &[u8]) -> Result<ClassSizes, LayoutError> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Err(LayoutError::Empty);
    }
    let lines: Vec<&[u8]> = bytes.splitn(LINES + 1, |&byte| byte == b'\n').collect();
    let version = number(&lines, 1, "plimsoll layout ", "plimsoll layout and a number")?;
    // Only a checksum that fits tells a newer release from a damaged digit.
    if version > LAYOUT_VERSION.into() && crc_of_last_line(bytes).is_some_and(|(a, b)| a == b) {
        return Err(LayoutError::Newer(version));
    }
    if version != u64::from(LAYOUT_VERSION) {
        return Err(wrong(&lines, 1, "layout 1, or a newer one with the right CRC32"));
    }
    let main = number(&lines, 2, "main ", "main and a size in bytes")?;
    let small = number(&lines, 3, "small ", "small and a size in bytes")?;
    let tiny = number(&lines, 4, "tiny ", "tiny and a size in bytes")?;
    let sizes = ClassSizes { tiny, small, main };
    let crc_line = lines.get(LINES - 1).and_then(|line| line.strip_prefix(b"crc32 "));
    let Some(found) = crc_line.filter(|digits| digits.len() == 8) else {
        return Err(wrong(&lines, LINES, "crc32 and eight digits 0-9 a-f"));
    };
    if lines.get(LINES).is_none_or(|rest| !rest.is_empty()) {
        return Err(wrong(&lines, LINES + 1, "the file's end, behind a line feed"));
    }
    let good = encode(&sizes);
    if good.as_bytes() != bytes {
        let body = &good[..good.len() - CRC_LINE_LEN];
        let found = String::from_utf8_lossy(found).into_owned();
        return Err(LayoutError::Crc { found, expected: crc32fast::hash(body.as_bytes()) });
    }
    if !sizes.legal() {
        return Err(LayoutError::Line {
            line: 2,
            found: format!("main {main}, small {small}, tiny {tiny}"),
            expected: "multiples of 4096, 12288 to 4294967296, rising from tiny to main",
        });
    }
    Ok(sizes)
}

/// Lines of a `LAYOUT` file.
const LINES: usize = 5;

/// `crc32 `, eight digits and a line feed: the last line in every version of the layout.
const CRC_LINE_LEN: usize = 15;

/// The checksum in the last line and the one computed, as text.
fn crc_of_last_line(bytes: &[u8]) -> Option<(String, String)> {
    let (body, last) = bytes.split_at_checked(bytes.len().checked_sub(CRC_LINE_LEN)?)?;
    let expected = format!("crc32 {:08x}\n", crc32fast::hash(body));
    Some((String::from_utf8_lossy(last).into_owned(), expected))
}

fn wrong(lines: &[&[u8]], line: usize, expected: &'static str) -> LayoutError {
    let found = String::from_utf8_lossy(lines.get(line - 1).unwrap_or(&&b""[..]));
    LayoutError::Line { line, found: found.chars().take(80).collect(), expected }
}

/// The number behind `prefix` in a line counted from 1, written as `encode` writes it: no sign, no leading zero.
fn number(
    lines: &[&[u8]],
    line: usize,
    prefix: &str,
    expected: &'static str,
) -> Result<u64, LayoutError> {
    let digits = lines.get(line - 1).and_then(|found| found.strip_prefix(prefix.as_bytes()));
    let number = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
    number
        .filter(|number| digits == Some(number.to_string().as_bytes()))
        .ok_or_else(|| wrong(lines, line, expected))
}
