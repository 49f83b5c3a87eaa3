//! Copies files to quarantine, durably, before anything is changed.

use crate::error::{DiskContext, DiskError};
use crate::fs::{FileKind, FileSystem};
use std::io;
use std::path::{Path, PathBuf};

/// How much is copied at a time.
const STRIDE: usize = 1 << 20;

/// A new directory `quarantine/<log>/<number>`, with its parents, all names durable.
pub(super) fn new_dir(fs: &dyn FileSystem, data: &Path, log: &str) -> Result<PathBuf, DiskError> {
    let mut dir = data.join("quarantine");
    make(fs, &dir, data)?;
    for part in log.split('/') {
        let parent = dir.clone();
        dir.push(part);
        make(fs, &dir, &parent)?;
    }
    // Names of parts of log names may be numbers too; what counts is that the new one is free.
    let taken = fs.list(&dir).disk("list", &dir)?;
    let numbers = taken.iter().filter_map(|entry| entry.name.to_str()?.parse::<u64>().ok());
    let number = numbers.max().map_or(0, |highest| highest.saturating_add(1));
    let path = dir.join(format!("{number:04}"));
    fs.create_dir(&path).disk("make", &path)?;
    fs.sync_dir(&dir).disk("sync", &dir)?;
    Ok(path)
}

fn make(fs: &dyn FileSystem, dir: &Path, parent: &Path) -> Result<(), DiskError> {
    match fs.create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // A link here would lead the copies out of the data directory.
            if fs.metadata(dir).disk("look at", dir)?.kind != FileKind::Directory {
                let error = io::Error::from_raw_os_error(libc::ENOTDIR);
                return Err(DiskError::new("use", dir, error));
            }
        }
        other => other.disk("make", dir)?,
    }
    // Also if it is there already: an earlier life may have made it and not come to this.
    fs.sync_dir(parent).disk("sync", parent)
}

/// Copies one file into `dir`. What the device does not give back is left as zeroes in the copy.
pub(super) fn copy(fs: &dyn FileSystem, from: &Path, dir: &Path) -> Result<(), DiskError> {
    let to = dir.join(from.file_name().unwrap_or(from.as_os_str()));
    let source = fs.open_read(from).disk("open", from)?;
    let len = source.len().disk("read the length of", from)?;
    let target = fs.create(&to).disk("make", &to)?;
    let mut buffer = vec![0; STRIDE];
    let mut position = 0;
    while position < len {
        let want = usize::try_from(len - position).unwrap_or(STRIDE).min(STRIDE);
        let read = match source.read_at(position, &mut buffer[..want]) {
            Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                read_by_blocks(&*source, position, &mut buffer[..want]);
                want
            }
            other => other.disk("read", from)?,
        };
        if read == 0 {
            break;
        }
        target.write_at(position, &buffer[..read]).disk("write", &to)?;
        position += read as u64;
    }
    target.set_len(len).disk("set the length of", &to)?;
    target.sync().disk("sync", &to)
}

fn read_by_blocks(source: &dyn crate::fs::File, position: u64, into: &mut [u8]) {
    let mut at = position;
    for block in into.chunks_mut(crate::format::BLOCK_LEN) {
        if source.read_at(at, block).is_err() {
            block.fill(0);
        }
        at += block.len() as u64;
    }
}
