//! Makes sure that a file among the spares has no other name that could come back.

use crate::format::name::parse_segment_file;
use crate::fs::{FileKind, FileSystem};
use std::io;
use std::path::{Path, PathBuf};

/// Syncs every directory below `top`, and `top` itself: all from which a file may have been moved. A log's own directory
/// has no directory in it that matters. `false` if it was told to stop before all were.
///
/// # Errors
/// The first directory that cannot be listed or synced.
pub(crate) fn sync_below(
    fs: &dyn FileSystem,
    top: &Path,
    stop: &dyn Fn() -> bool,
) -> Result<bool, (PathBuf, io::Error)> {
    let mut folders = vec![top.to_path_buf()];
    while let Some(folder) = folders.pop() {
        if stop() {
            return Ok(false);
        }
        let entries = match fs.list(&folder) {
            // Deleted since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder != top => continue,
            Err(error) => return Err((folder, error)),
            Ok(entries) => entries,
        };
        match fs.sync_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && folder != top => continue,
            Err(error) => return Err((folder, error)),
            Ok(()) => {}
        }
        let is_folder = |entry: &crate::fs::DirEntry| {
            entry.kind == FileKind::Directory && parse_segment_file(&entry.name).is_none()
        };
        let inner = entries.into_iter().filter(is_folder);
        folders.extend(inner.map(|entry| folder.join(entry.name)));
    }
    Ok(true)
}
