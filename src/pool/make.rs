//! Makes a segment file: allocated, written, and durable with its first header.

use crate::format::header::Header;
use crate::fs::{File, FileSystem, Write};
use crate::planted::{self, Fault};
use crate::types::{Generation, SizeClass};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How much is written between two syncs, and in one step of the worker.
const STRIDE: u64 = 1 << 20;

/// How much is written in one call. What comes in one call, the kernel may keep as one large page, and then each small
/// write to it is dearer for as long as it stays in the cache.
const PIECE: usize = 64 << 10;

static ZEROES: [u8; PIECE] = [0; PIECE];

/// A file that is being made, under a temporary name: whatever ends this life, the next start removes it.
#[derive(Debug)]
pub(super) struct Making {
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn File>,
    pub(super) class: SizeClass,
    pub(super) capacity: u64,
    /// The device that it is on.
    pub(super) device: u64,
    /// All of its space was had at once.
    pub(super) reserved: bool,
    written: u64,
}

impl Making {
    /// Makes the file at `path` and allocates its space, as far as the file system can.
    ///
    /// # Errors
    /// Of creating it.
    pub(super) fn begin(
        fs: &dyn FileSystem,
        path: PathBuf,
        class: SizeClass,
        capacity: u64,
        device: u64,
    ) -> io::Result<Self> {
        let file = fs.create(&path)?;
        // Where blocks are copied when they are overwritten, a file that is there would be no space that is there.
        if let Err(error) = file.no_copy_on_write() {
            tracing::debug!(path = %path.display(), %error, "blocks may be copied when they are overwritten");
        }
        // Growing by writing says whether the disk takes the file, also where reserving is refused for whatever reason.
        let reserved = file.allocate(capacity);
        if let Err(error) = &reserved {
            tracing::debug!(path = %path.display(), %error, "no space is reserved, the file grows by writing");
        }
        let reserved = reserved.is_ok();
        Ok(Self { path, file, class, capacity, device, reserved, written: 0 })
    }

    /// Writes the next part; `true` when the file is full. Written, not only allocated: space that was only reserved costs
    /// a journal entry at each commit, and on some file systems is not there when it is needed.
    ///
    /// # Errors
    /// Of the write, or of the sync that follows it where the file is large: so much at once would hold up the syncs of
    /// commits.
    pub(super) fn step(&mut self) -> io::Result<bool> {
        let end = self.capacity.min(self.written + STRIDE);
        while self.written < end {
            let left = usize::try_from(end - self.written).unwrap_or(PIECE).min(PIECE);
            self.file.write_at(self.written, &ZEROES[..left])?;
            self.written += left as u64;
        }
        if self.written < self.capacity {
            self.file.sync()?;
        }
        Ok(self.written == self.capacity)
    }

    /// Writes the header, and makes the whole file durable: its length and all of its content, before it gets a name in
    /// a log.
    ///
    /// # Errors
    /// Of the write or the sync.
    pub(super) fn finish(&self, generation: Generation, now: u64) -> io::Result<()> {
        let header = Header {
            generation,
            class: self.class,
            capacity: self.capacity,
            created_millis: now,
            in_use: None,
        };
        let block = header.encode();
        if planted::is(Fault::MadeWithoutSync) {
            return self.file.write_at(0, &block);
        }
        self.file.write_and_sync(&[Write { position: 0, bytes: &block }])
    }

    /// Removes it.
    pub(super) fn discard(self, fs: &dyn FileSystem) {
        let Self { path, file, .. } = self;
        drop(file);
        remove(fs, &path);
    }
}

/// Removes a file of the pool's own; what cannot be removed now is removed, or stamped again, at the next start.
pub(super) fn remove(fs: &dyn FileSystem, path: &Path) {
    if let Err(error) = fs.remove_file(path) {
        tracing::debug!(path = %path.display(), %error, "stays until the next start");
    }
}
