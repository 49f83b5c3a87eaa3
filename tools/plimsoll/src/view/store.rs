//! Finds logs in a data directory without opening its node.

use crate::failure::{Exit, Failure};
use crate::store;
use plimsoll::LogName;
use plimsoll::format::layout::{self, LayoutError};
use plimsoll::format::name::parse_segment_file;
use plimsoll::fs::{DirEntry, FileKind, FileSystem, OsFileSystem};
use std::io;
use std::path::{Path, PathBuf};

/// A data directory that is looked at.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
}

fn refused(path: &Path, found: &str) -> Failure {
    Failure::new(Exit::Io, format!("{}: {found}", path.display()))
        .with("file", path.display().to_string())
}

impl Store {
    /// Checks that it is a data directory, of a layout that this release reads.
    pub(crate) fn open(dir: &Path) -> Result<Self, Failure> {
        let this = Self::open_any_layout(dir)?;
        this.check_layout()?;
        Ok(this)
    }

    /// Checks that it is a data directory.
    pub(crate) fn open_any_layout(dir: &Path) -> Result<Self, Failure> {
        if let Err(error) = OsFileSystem.metadata(dir) {
            return Err(Failure::io("open the data directory", dir.display(), &error));
        }
        is_dir(dir)?;
        store::check_ours(dir)?;
        Ok(Self { dir: dir.to_path_buf() })
    }

    /// The directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    fn check_layout(&self) -> Result<(), Failure> {
        let path = self.dir.join("LAYOUT");
        let file = match OsFileSystem.open_read(&path) {
            Ok(file) => file,
            // The next start makes it again from the segments.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Failure::io("open", path.display(), &error)),
        };
        let mut text = vec![0; 4096];
        let read = file
            .read_at(0, &mut text)
            .map_err(|error| Failure::io("read", path.display(), &error))?;
        match layout::parse(&text[..read]) {
            Ok(_) | Err(LayoutError::Empty) => Ok(()),
            Err(error @ LayoutError::Newer(_)) => Err(refused(&path, &error.to_string())),
            Err(error) => {
                let sentence = format!("{}: damaged: {error}", path.display());
                let failure = Failure::new(Exit::Damage, sentence);
                Err(failure.with("file", path.display().to_string()))
            }
        }
    }

    /// The directory of a log.
    pub(crate) fn log_dir(&self, name: &LogName) -> Result<PathBuf, Failure> {
        let missing = || Err(store::missing(&self.dir, name, &self.names()?));
        let mut dir = self.dir.join("logs");
        for part in std::iter::once("").chain(name.parts()) {
            if !part.is_empty() {
                dir.push(part);
            }
            if !is_dir(&dir)? {
                return missing();
            }
        }
        let entries =
            OsFileSystem.list(&dir).map_err(|error| Failure::io("list", dir.display(), &error))?;
        // A folder of logs is none itself.
        if entries.iter().any(is_folder) { missing() } else { Ok(dir) }
    }

    /// The names of all logs, sorted: directories that hold no directory. One that is empty is a log without records.
    pub(crate) fn names(&self) -> Result<Vec<LogName>, Failure> {
        let logs = self.dir.join("logs");
        let (mut names, mut folders) = (Vec::new(), vec![String::new()]);
        while let Some(folder) = folders.pop() {
            let dir = logs.join(&folder);
            let entries = match OsFileSystem.list(&dir) {
                Ok(entries) => entries,
                // Deleted since it was listed, or not made yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Failure::io("list", dir.display(), &error)),
            };
            let mut inner = entries.iter().filter(|entry| is_folder(entry)).peekable();
            if inner.peek().is_none() && !folder.is_empty() {
                names.push(
                    LogName::new(&folder).map_err(|error| refused(&dir, &error.to_string()))?,
                );
            }
            for entry in inner {
                let Some(part) = entry.name.to_str() else {
                    return Err(refused(&dir.join(&entry.name), "a name that is not text"));
                };
                folders.push(if folder.is_empty() {
                    part.to_owned()
                } else {
                    format!("{folder}/{part}")
                });
            }
        }
        names.sort();
        Ok(names)
    }
}

/// Whether logs may be below it. A directory with a segment's name is in the way of one log only.
fn is_folder(entry: &DirEntry) -> bool {
    entry.kind == FileKind::Directory && parse_segment_file(&entry.name).is_none()
}

/// Whether a directory is there. Anything else in its place is refused, a link above all.
fn is_dir(path: &Path) -> Result<bool, Failure> {
    match OsFileSystem.metadata(path) {
        Ok(found) => match found.kind {
            FileKind::Directory => Ok(true),
            FileKind::Link => Err(refused(path, "a symbolic link, expected a directory")),
            _ => Err(refused(path, "not a directory")),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::io("look at", path.display(), &error)),
    }
}
