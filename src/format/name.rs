//! Names of files and of logs, written and read side by side.

use super::NO_BASE;
use crate::types::Offset;
pub use crate::types::{LogName, LogNameError};
use std::ffi::OsStr;

/// The end of a segment file's name.
pub const SEGMENT_SUFFIX: &str = ".seg";

/// The name of the segment file whose first record has offset `base`.
#[must_use]
pub fn segment_file(base: Offset) -> String {
    format!("{:020}{SEGMENT_SUFFIX}", base.0)
}

/// The base offset in a segment file's name; `None` if it is not exactly such a name, or names the one number that is
/// no base offset.
#[must_use]
pub fn parse_segment_file(name: &OsStr) -> Option<Offset> {
    let digits = name.to_str()?.strip_suffix(SEGMENT_SUFFIX)?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok())?.filter(|&base| base != NO_BASE).map(Offset)
}
