//! Gives a spare its place in a log with a header that is durable before its name is.

use super::Spare;
use crate::format::header::Header;
use crate::fs::{FileSystem, Write};
use std::io;
use std::path::{Path, PathBuf};

/// Writes `header` and what else is given into `spare`, syncs it, and only then renames it to `name` in the log's
/// directory `dir`, replacing what has that name; then syncs both directories.
///
/// For healing and repair, where the name may be taken by a file that holds nothing durable but whose header holds the
/// log's next offset: the name is never absent and never without a valid header, or offsets would start again (I8).
///
/// Gives the file's path. Blocks on three syncs.
///
/// # Errors
/// The first failed call; then the file may stand in either directory, its content harmless in both.
pub fn install(
    fs: &dyn FileSystem,
    spare: &Spare,
    header: &Header,
    writes: &[Write<'_>],
    dir: &Path,
    name: &str,
    spares_dir: &Path,
) -> io::Result<PathBuf> {
    let block = header.encode();
    let mut all = vec![Write { position: 0, bytes: &block }];
    all.extend_from_slice(writes);
    spare.file.write_and_sync(&all)?;
    let path = dir.join(name);
    fs.rename(&spare.path, &path)?;
    fs.sync_dir(dir)?;
    fs.sync_dir(spares_dir)?;
    Ok(path)
}
