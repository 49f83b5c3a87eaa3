//! Whether space that a file has can be counted on, told by what a file system does and not by its name.

use super::{File, FileSystem};
use std::io;
use std::path::Path;

const NAME: &str = "probe.tmp";
const LEN: usize = 64 * 1024;
const BLOCK: usize = 4096;

/// Whether space that a file in `dir` has is there when the file is overwritten, however full the disk is then. `false`
/// where blocks cannot be reserved, and where an overwrite takes other blocks than those that the file has: a spare file
/// is no reserve there.
///
/// Makes the file `probe.tmp` of 64 KiB in `dir`, which belongs to the caller, asks for it to be overwritten in place, and
/// looks at its blocks; removes one that a crash left. Blocks for two syncs. No directory is synced.
///
/// `true` promises space and no speed: btrfs overwrites such a file when it is full too, and then takes milliseconds for
/// each write, as it looks for other space first.
///
/// What cannot be seen through the file system stays unseen: a thin device below it, or a snapshot taken later.
///
/// # Errors
/// Of any step, no space (`ENOSPC`, `EDQUOT`) among them: then nothing is known. The file is removed all the same.
pub fn reserves(fs: &dyn FileSystem, dir: &Path) -> io::Result<bool> {
    let path = dir.join(NAME);
    match fs.remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let told = fs.create(&path).and_then(|file| reserves_in(fs, &path, &*file));
    match fs.remove_file(&path) {
        // Where it could not even be made, that is the error to show.
        Err(error) if told.is_ok() => Err(error),
        _ => told,
    }
}

/// Tries it with a new file.
fn reserves_in(fs: &dyn FileSystem, path: &Path, file: &dyn File) -> io::Result<bool> {
    // Refused, or not known there: what counts is what happens below.
    file.no_copy_on_write()?;
    match file.allocate(LEN as u64) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(false),
        other => other?,
    }
    // Before anything is written, as writing takes blocks anyhow.
    if fs.metadata(path)?.disk_bytes < LEN as u64 {
        return Ok(false);
    }
    // Not zeroes, which some keep as a hole.
    file.write_at(0, &[0xa5; LEN])?;
    file.sync()?;
    let before = file.place()?;
    file.write_at(0, &[0x5a; BLOCK])?;
    file.sync()?;
    Ok(file.place()? == before)
}
