//! Every disk call of the engine, directory syncs and free space included.
//!
//! The rules that an implementation keeps, and that the engine counts on:
//!
//! - Bytes written to a [`File`] are durable after a [`File::sync`] of it that returned `Ok`, and not before.
//! - A name made, changed or removed in a directory is durable after [`FileSystem::sync_dir`] of that directory.
//!   Syncing a file never makes its name durable (`fsync(2)`).
//! - After a failed `sync` nothing is known of what was written since the last good one, and a later `sync` that
//!   answers `Ok` proves nothing: Linux reports a write-back error once and marks the pages clean.
//! - No call follows a symbolic link in its last component.

mod os;
mod probe;
#[cfg(feature = "sim")]
pub mod sim;

pub use crate::error::is_no_space;
pub use os::OsFileSystem;
pub use probe::reserves;

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What a name in a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, which the engine refuses in a data directory.
    Link,
    /// A socket, pipe or device.
    Other,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without the directory.
    pub name: OsString,
    /// What it is, a link not followed.
    pub kind: FileKind,
}

/// What the file system says about a path, a link not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: FileKind,
    /// Length in bytes.
    pub len: u64,
    /// Bytes that it takes on the disk (blocks x 512).
    pub disk_bytes: u64,
    /// The device that it is on (`st_dev`).
    pub device: u64,
}

/// Free space of a file system, as `statvfs(3)` gives it, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Size of the file system: `f_blocks` x `f_frsize`.
    pub total: u64,
    /// What an ordinary process may still use: `f_bavail` x `f_frsize`, never the share kept for root.
    pub available: u64,
    /// What is free and no ordinary process gets: `f_bfree` - `f_bavail`. The share kept for root, and on btrfs what is set
    /// aside for metadata and its second copy, which can be more than half of a small device.
    pub withheld: u64,
    /// All inodes, or 0 where the file system does not count them.
    pub inodes: u64,
    /// Inodes that an ordinary process may still use.
    pub inodes_available: u64,
    /// Inodes are made of free blocks as they are needed (XFS), so that `inodes` falls as the file system fills.
    pub inodes_from_blocks: bool,
}

impl Space {
    /// The most that ordinary processes can have, as `df` reckons its percentage: what is in use and what is available.
    #[must_use]
    pub const fn attainable(&self) -> u64 {
        self.total.saturating_sub(self.withheld)
    }
}

/// Held while this process owns a data directory; released when dropped, and by the kernel when the process dies.
pub trait Lock: Debug + Send + Sync {}

/// A file system. All paths are absolute or relative to the process's working directory, as given to the node.
pub trait FileSystem: Debug + Send + Sync {
    /// Opens an existing regular file for reading.
    ///
    /// # Errors
    /// As `open(2)` with `O_RDONLY | O_NOFOLLOW`; `InvalidInput` if it is not a regular file.
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens an existing regular file for reading and writing.
    ///
    /// # Errors
    /// As `open(2)` with `O_RDWR | O_NOFOLLOW`; `InvalidInput` if it is not a regular file.
    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Opens an existing regular file for writing past the page cache (`O_DIRECT`, `open(2)`); `None` where the file
    /// system has no such writes, or wants another alignment than [`DIRECT_ALIGN`].
    ///
    /// What is written so is seen by reads through other handles as soon as the call has returned. A position, a length or
    /// an address in memory that is no multiple of [`DIRECT_ALIGN`] is `EINVAL`, and then nothing was written; or the write
    /// is done all the same, where the disk takes smaller ones, or the file system goes through the page cache for it.
    ///
    /// # Errors
    /// As [`FileSystem::open_write`].
    fn open_direct(&self, path: &Path) -> io::Result<Option<Arc<dyn File>>> {
        let _ = path;
        Ok(None)
    }

    /// Makes a new regular file, open for reading and writing.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken, by whatever; else as `open(2)` with `O_CREAT | O_EXCL`.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Makes one directory.
    ///
    /// # Errors
    /// As `mkdir(2)`.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Renames `from` to `to`, replacing a file of that name at once.
    ///
    /// # Errors
    /// As `rename(2)`: `EXDEV`, `ENOSPC` and `EDQUOT` among them.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the name of a file or link.
    ///
    /// # Errors
    /// As `unlink(2)`.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As `rmdir(2)`.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, sorted by bytes.
    ///
    /// # Errors
    /// As `open(2)` with `O_DIRECTORY | O_NOFOLLOW` and `readdir(3)`.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;

    /// What stands at `path`, a link not followed.
    ///
    /// # Errors
    /// As `lstat(2)`.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// Makes the names in `dir` durable. Blocks until the device has them.
    ///
    /// # Errors
    /// As `fsync(2)`.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Free space where `path` is.
    ///
    /// # Errors
    /// As `statvfs(3)`.
    fn space(&self, path: &Path) -> io::Result<Space>;

    /// Takes the exclusive lock of the file at `path`, making the file if it is missing. Does not block.
    ///
    /// # Errors
    /// `WouldBlock` if another process, or another node in this one, holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;

    /// Whether anybody holds the lock of the file at `path`, told without taking it; `None` where that cannot be told.
    /// A holder in another PID namespace may go unseen.
    ///
    /// For tools: trying the lock could make a node fail that starts at this moment.
    ///
    /// # Errors
    /// Of looking.
    fn lock_held(&self, path: &Path) -> io::Result<Option<bool>> {
        let _ = path;
        Ok(None)
    }

    /// Fills `bytes` with randomness good enough for identities, from the kernel or from the simulator's seed.
    ///
    /// # Errors
    /// As `getrandom(2)`.
    fn random(&self, bytes: &mut [u8]) -> io::Result<()>;
}

/// What direct writes are aligned to, in the file and in memory: no disk in use has larger sectors.
pub const DIRECT_ALIGN: usize = 4096;

/// A block of zeroes or of anything else that may be written directly.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(4096))]
pub struct Block(pub [u8; DIRECT_ALIGN]);

/// Bytes that go to one place of a file.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Where the first byte goes.
    pub position: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// An open file. Closed when dropped.
///
/// The three `raw` calls are what a system call does, short transfers and `EINTR` included; the provided ones finish
/// the job and are what the engine calls.
#[allow(clippy::len_without_is_empty, reason = "a length in bytes that can fail, not a collection")]
pub trait File: Debug + Send + Sync {
    /// Length in bytes.
    ///
    /// # Errors
    /// As `fstat(2)`.
    fn len(&self) -> io::Result<u64>;

    /// One `pread(2)`: may read less than asked, 0 at the end of the file.
    ///
    /// # Errors
    /// As `pread(2)`, `Interrupted` included.
    fn read_raw(&self, position: u64, into: &mut [u8]) -> io::Result<usize>;

    /// One `pwrite(2)`: may write less than given.
    ///
    /// # Errors
    /// As `pwrite(2)`, `Interrupted` included.
    fn write_raw(&self, position: u64, bytes: &[u8]) -> io::Result<usize>;

    /// Makes all that was written durable, length included (`fdatasync(2)`). Blocks until the device has it.
    ///
    /// Never call it again after it failed: the answer would mean nothing.
    ///
    /// # Errors
    /// As `fdatasync(2)`.
    fn sync(&self) -> io::Result<()>;

    /// Reserves blocks up to `len` and makes the file that long, as far as the file system can.
    ///
    /// # Errors
    /// As `fallocate(2)`; `Unsupported` where the file system cannot reserve.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// Sets the length.
    ///
    /// # Errors
    /// As `ftruncate(2)`.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Asks, while the file is still empty, that its blocks be overwritten in place. Says whether the file system took
    /// that as a flag of the file (`FS_NOCOW_FL`): `false` where it has none, does not allow it, or the file has bytes.
    ///
    /// `false` does not say that blocks are copied: ext4 and XFS have no such flag and overwrite in place; see
    /// [`reserves`]. With the flag btrfs keeps no checksums of the file's bytes.
    ///
    /// # Errors
    /// As `ioctl(2)`; that the flag is refused is none.
    fn no_copy_on_write(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Where the file's first block is, in bytes of its device or volume (`FS_IOC_FIEMAP`); `None` where the file system
    /// does not tell, or the file has no such block of its own. May block while dirty pages get their blocks; makes
    /// nothing durable.
    ///
    /// For telling copy-on-write by what it does: an address that changes when a block was overwritten and synced.
    ///
    /// # Errors
    /// As `ioctl(2)`, failed write-backs included.
    fn place(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Reads until `into` is full or the file ends; gives the number of bytes read.
    ///
    /// # Errors
    /// The first error other than `Interrupted`.
    fn read_at(&self, position: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            match self.read_raw(position + done as u64, &mut into[done..]) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// The first error other than `Interrupted`; then any part may have been written. `WriteZero` if the file system
    /// takes no more.
    fn write_at(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match self.write_raw(position + done as u64, &bytes[done..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) if crate::planted::is(crate::planted::Fault::ShortWriteTakenAsWhole) => break,
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Lets bytes that were written through the page cache begin their way to the device, without waiting for them
    /// (`sync_file_range(2)`): a sync that follows finds them there. Makes nothing durable; where it cannot be done, or fails,
    /// the sync does it all.
    fn begin_write_back(&self, position: u64, len: usize) {
        let _ = (position, len);
    }

    /// Whether it was opened by [`FileSystem::open_direct`].
    fn is_direct(&self) -> bool {
        false
    }

    /// Writes all of `writes` and makes them durable; one call, so that an implementation can make one system call of it.
    ///
    /// Nothing else becomes durable by it for sure: of a single direct write the device may be told to keep just that
    /// (`RWF_DSYNC`, `pwritev2(2)`, where it has forced unit access). What was written before needs [`File::sync`].
    ///
    /// # Errors
    /// As [`File::write_at`] and [`File::sync`]. Nothing is synced after a failed write.
    fn write_and_sync(&self, writes: &[Write<'_>]) -> io::Result<()> {
        for write in writes {
            self.write_at(write.position, write.bytes)?;
        }
        self.sync()
    }
}
