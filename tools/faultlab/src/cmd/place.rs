//! Where a command keeps its files: the user's directory, or one of its own that goes when all held.
use std::path::{Path, PathBuf};
use tempfile::TempDir;

#[derive(Debug)]
pub(crate) struct Place {
    dir: PathBuf,
    own: Option<TempDir>,
}

impl Place {
    /// A new directory below `dir`, or below that for temporary files.
    pub(crate) fn new(dir: Option<&Path>, what: &str) -> Result<Self, String> {
        let mut builder = tempfile::Builder::new();
        let prefix = format!("faultlab-{what}-");
        builder.prefix(&prefix);
        let own = match dir {
            Some(dir) => {
                make(dir)?;
                builder.tempdir_in(dir)
            }
            None => builder.tempdir(),
        };
        let own = own.map_err(|error| format!("no directory for files: {error}"))?;
        let dir = real(own.path())?;
        Ok(Self { dir, own: Some(own) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// Leaves it on the disk.
    pub(crate) fn keep(&mut self) {
        if let Some(own) = self.own.take() {
            let _ = own.keep();
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "not the engine: the lab's own files")]
fn make(dir: &Path) -> Result<(), String> {
    std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))
}

#[allow(clippy::disallowed_methods, reason = "not the engine: the lab's own files")]
fn real(dir: &Path) -> Result<PathBuf, String> {
    dir.canonicalize().map_err(|error| format!("{}: {error}", dir.display()))
}
