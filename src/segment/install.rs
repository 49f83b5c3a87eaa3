//! Gives a spare its place in a log with a header that is durable before its name is.

use super::{SegmentSource, Spare};
use crate::format::header::Header;
use crate::fs::{FileSystem, Write, is_no_space};
use std::io;
use std::path::{Path, PathBuf};

/// How many spares are deleted at most for one name.
const SPARES_FOR_A_NAME: u32 = 8;

/// Renames `spare` to `to`, in a log's directory.
///
/// A directory that must grow for the name may find no room, though the file itself is there: XFS on a full disk wants some
/// 60 free blocks of 4 KiB to turn a short directory into a long one. Spares are deleted for that, as for the lack of a name
/// nothing would be written, and nothing freed.
///
/// # Errors
/// Of the last rename.
pub fn rename_in(
    fs: &dyn FileSystem,
    source: &dyn SegmentSource,
    spare: &Spare,
    to: &Path,
) -> io::Result<()> {
    for _ in 0..SPARES_FOR_A_NAME {
        match fs.rename(&spare.path, to) {
            Err(error) if is_no_space(&error) && source.make_room(spare.purpose) => {}
            other => return other,
        }
    }
    fs.rename(&spare.path, to)
}

/// Writes `header` and what else is given into `spare`, syncs it, and only then gives it the name `name` in the log's
/// directory with `rename`, replacing what has that name; then syncs both directories, the log's first.
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
    [dir, spares_dir]: [&Path; 2],
    name: &str,
    rename: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let block = header.encode();
    let mut all = vec![Write { position: 0, bytes: &block }];
    all.extend_from_slice(writes);
    spare.file.write_and_sync(&all)?;
    let path = dir.join(name);
    rename(&path)?;
    fs.sync_dir(dir)?;
    fs.sync_dir(spares_dir)?;
    Ok(path)
}
