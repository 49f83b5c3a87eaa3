//! Where it happens: a small file system in memory, or a directory with limits that make it small.

use faultlab::mounts::Mount;
use plimsoll::NodeOptions;
use plimsoll::fs::{FileSystem, OsFileSystem};
use plimsoll::types::Fraction;
use std::error::Error;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// Unmounted, and removed, when dropped.
pub(crate) struct Place {
    pub(crate) data: PathBuf,
    pub(crate) options: NodeOptions,
    /// In a sentence.
    pub(crate) what: String,
    _held: (Option<Mount>, Option<tempfile::TempDir>),
}

pub(crate) fn make(dir: Option<PathBuf>) -> Result<Place, Box<dyn Error>> {
    if dir.is_some() {
        return in_directory(dir, "as asked for");
    }
    match Mount::tmpfs(64 * MIB) {
        Ok(mount) => Ok(Place {
            data: mount.path().join("data"),
            options: NodeOptions::default(),
            what: "A tmpfs of 64 MiB, with the limits that are the default.".to_owned(),
            _held: (Some(mount), None),
        }),
        Err(reason) => in_directory(None, &format!("a mount needs root: {reason}")),
    }
}

/// In memory, where others write less, or wherever temporary files go.
fn temporary() -> Result<tempfile::TempDir, Box<dyn Error>> {
    let shared = Path::new("/dev/shm");
    let large = OsFileSystem.space(shared).is_ok_and(|space| space.available > 256 * MIB);
    match tempfile::tempdir_in(shared) {
        Ok(dir) if large => Ok(dir),
        _ => Ok(tempfile::tempdir()?),
    }
}

/// Soft is 8 MiB below what is free now, and hard 20 MiB.
fn in_directory(dir: Option<PathBuf>, why: &str) -> Result<Place, Box<dyn Error>> {
    let held = if dir.is_none() { Some(temporary()?) } else { None };
    let Some(dir) = dir.or_else(|| held.as_ref().map(|held| held.path().to_path_buf())) else {
        return Err("no directory".into());
    };
    let space = OsFileSystem.space(&dir)?;
    let mut options = NodeOptions::default();
    options.segment_size = MIB / 4;
    let limits = &mut options.limits;
    // Shares are told in millionths, which are much on a large disk.
    let unit = (space.total / 1_000_000).max(1);
    let window = (12 * MIB).max(50 * unit);
    let soft = space.available.saturating_sub(window * 2 / 3);
    let hard = soft.saturating_sub(window);
    let share = |bytes: u64| Fraction::millionths(u32::try_from(bytes / unit).unwrap_or(u32::MAX));
    let disk = &mut limits.disk;
    (disk.soft.share, disk.hard.share, disk.reserve.share) =
        (share(soft), share(hard), share(hard / 2));
    for line in [&mut disk.soft, &mut disk.hard, &mut disk.reserve] {
        line.floor = "0B".parse()?;
    }
    disk.clear = Fraction::millionths(1);
    limits.pool.budget_cap = "1MiB".parse()?;
    limits.pool.kept_back = "1MiB".parse()?;
    limits.check()?;
    let what = format!(
        "{} ({why}); limits from what is free there: soft at {} MiB, hard at {} MiB of {} MiB.",
        dir.display(),
        soft / MIB,
        hard / MIB,
        space.available / MIB
    );
    Ok(Place { data: dir.join("filling-up-data"), options, what, _held: (None, held) })
}
