//! Names of files and of logs, written and read side by side.

use super::NO_BASE;
use crate::types::Offset;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

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

/// The name of a log: parts of `A-Z a-z 0-9 . _ -` joined by `/`, 1 to 200 bytes in all; no part is empty, starts with
/// a dot or ends in `.seg`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogName(Box<str>);

/// Why a name is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("log name {name:?}: {reason}")]
pub struct LogNameError {
    /// The name.
    pub name: String,
    /// The rule that it breaks.
    pub reason: &'static str,
}

impl LogName {
    /// The longest name in bytes.
    pub const LEN_MAX: usize = 200;

    /// Checks a name.
    ///
    /// # Errors
    /// [`LogNameError`] says which rule is broken.
    pub fn new(name: &str) -> Result<Self, LogNameError> {
        let refuse = |reason| Err(LogNameError { name: name.to_owned(), reason });
        if name.is_empty() {
            return refuse("is empty");
        }
        if name.len() > Self::LEN_MAX {
            return refuse("is longer than 200 bytes");
        }
        for part in name.split('/') {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            if part.is_empty() {
                return refuse(
                    "has an empty part (it starts or ends with '/', or has two in a row)",
                );
            }
            if !part.bytes().all(allowed) {
                return refuse("has a character other than A-Z a-z 0-9 . _ - /");
            }
            if part.starts_with('.') {
                return refuse("has a part that starts with a dot");
            }
            if part.ends_with(SEGMENT_SUFFIX) {
                return refuse("has a part that ends in .seg");
            }
        }
        Ok(Self(name.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts between the slashes.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The log's directory below `logs`.
    #[must_use]
    pub fn dir(&self, logs: &Path) -> PathBuf {
        self.parts().fold(logs.to_path_buf(), |dir, part| dir.join(part))
    }
}

impl FromStr for LogName {
    type Err = LogNameError;

    fn from_str(name: &str) -> Result<Self, LogNameError> {
        Self::new(name)
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
