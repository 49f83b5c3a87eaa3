//! Why a log cannot be looked at. Damage is not among these: it is a finding, see [`crate::error::Damage`].

use std::io;
use std::path::{Path, PathBuf};

/// Why a log's directory could not be read. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// A call to the file system failed.
    #[error("{}: {operation} at byte {position} failed: {source}", path.display())]
    Io {
        /// The call.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Where in the file; 0 where the call has no position.
        position: u64,
        /// What the system answered.
        source: io::Error,
    },
    /// A symbolic link. Following it would read, write or delete outside the data directory.
    #[error("{}: is a symbolic link, expected a segment file or a directory", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// Something that the engine did not put there.
    #[error("{}: is not a file of this engine, expected <20 digits>.seg, a directory or a name ending in .tmp", path.display())]
    Foreign {
        /// What it is.
        path: PathBuf,
    },
    /// The file was given up while it was read, and begun another use.
    #[error("{}: has begun another use meanwhile", path.display())]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// A newer release wrote the file.
    #[error("{}: {error}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Which field says so.
        error: crate::format::header::HeaderError,
    },
}

impl RecoverError {
    /// Whether the error says that a file has gone, as happens to a reader of a live log.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Self::Gone { .. } => true,
            Self::Link { .. } | Self::Foreign { .. } | Self::Newer { .. } => false,
        }
    }

    pub(super) fn io<'a>(
        operation: &'static str,
        path: &'a Path,
        position: u64,
    ) -> impl FnOnce(io::Error) -> Self + use<'a> {
        move |source| Self::Io { operation, path: path.to_path_buf(), position, source }
    }
}
