//! Disks that get full from outside.

use nix::sys::statvfs::statvfs;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Room on a file system, in bytes: free for everybody, free at all, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Free for everybody.
    pub available: u64,
    /// Free, the share kept for root included.
    pub free: u64,
    /// Its size.
    pub total: u64,
}

/// The room where `dir` is.
///
/// # Errors
/// Of the call.
pub fn room(dir: &Path) -> anyhow::Result<Room> {
    let stat = statvfs(dir)?;
    let bytes = |blocks: u64| blocks * stat.fragment_size();
    Ok(Room {
        available: bytes(stat.blocks_available()),
        free: bytes(stat.blocks_free()),
        total: bytes(stat.blocks()),
    })
}

/// Files that take room; removed when dropped.
#[derive(Debug)]
pub struct Filler {
    dir: PathBuf,
    files: Vec<PathBuf>,
}

impl Filler {
    /// None yet, in `dir`.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), files: Vec::new() }
    }

    /// How many files it has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.files.len()
    }

    fn next(&mut self) -> std::io::Result<File> {
        let path = self.dir.join(format!("filler.{}", self.files.len()));
        let file = File::create_new(&path)?;
        self.files.push(path);
        Ok(file)
    }

    /// Takes the last byte, the share kept for root included; may be called again when there is room again.
    pub fn full(&mut self) {
        // Several files: XFS refuses to make one longer while it still has blocks for another.
        for _ in 0..1_000 {
            let Ok(mut file) = self.next() else { return };
            let mut bytes = 0;
            for step in [1 << 20, 1 << 16, 1 << 12, 1 << 8, 1] {
                while let Ok(written) = file.write(&vec![0xa5; step]) {
                    bytes += written;
                }
                let _ = file.sync_all();
            }
            if bytes == 0 {
                // Not an empty file for each time that there was nothing.
                if let Some(path) = self.files.pop() {
                    let _ = std::fs::remove_file(path);
                }
                return;
            }
        }
    }

    /// Takes room until at most so many bytes are available.
    ///
    /// # Errors
    /// Of the disk.
    pub fn leave(&mut self, available: u64) -> anyhow::Result<()> {
        let now = room(&self.dir)?.available;
        let take = now.saturating_sub(available);
        if take > 0 {
            let file = self.next()?;
            let length = i64::try_from(take)?;
            nix::fcntl::fallocate(&file, nix::fcntl::FallocateFlags::empty(), 0, length)?;
        }
        Ok(())
    }

    /// Gives all back.
    pub fn empty(&mut self) {
        for file in self.files.drain(..) {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.empty();
    }
}

/// Bytes on disk below `dir`, and how many files.
#[must_use]
pub fn usage(dir: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    let (mut bytes, mut files) = (0, 0);
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(meta) = entry.path().symlink_metadata() else { continue };
            bytes += meta.blocks() * 512;
            if meta.is_dir() {
                left.push(entry.path());
            } else {
                files += 1;
            }
        }
    }
    (bytes, files)
}
