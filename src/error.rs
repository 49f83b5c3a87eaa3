//! Errors. Each operation's error says whether anything was written; what damage there is says where.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Damage to bytes that were known durable, with file and position. Never a torn tail, which a crash makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The first position that is wrong.
    pub position: u64,
    /// The offset of the record that cannot be read, where that is known.
    pub offset: Option<crate::types::Offset>,
    /// What is wrong there, and how it is known to have been durable.
    pub detail: Arc<str>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: damaged at byte {}", self.file.display(), self.position)?;
        if let Some(offset) = self.offset {
            write!(f, " (record {offset})")?;
        }
        write!(f, ": {}", self.detail)
    }
}

impl std::error::Error for Damage {}
