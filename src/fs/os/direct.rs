//! Files that are written past the page cache (`O_DIRECT`).
//!
//! A single write is made durable by the same system call, `pwritev2` with `RWF_DSYNC`: on blocks that were written before it
//! is one write and one flush of the device, or one write with forced unit access, and no commit of a journal.

use super::{OsFile, open_fd, refuse_irregular};
use crate::fs::{Block, DIRECT_ALIGN, File, Write};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
struct DirectFile {
    file: OsFile,
    /// The file system does not know `RWF_DSYNC`.
    two_calls: AtomicBool,
    /// It does: from the first such write that it took.
    one_call: AtomicBool,
}

pub(super) fn open(path: &Path) -> io::Result<Option<Arc<dyn File>>> {
    // O_NONBLOCK as for all other files: a pipe must not hang the start.
    let fd = match open_fd(path, OFlag::O_RDWR | OFlag::O_DIRECT | OFlag::O_NONBLOCK) {
        Ok(fd) => fd,
        // What file systems without direct writes answer.
        Err(Errno::EINVAL | Errno::EOPNOTSUPP) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    refuse_irregular(&fd)?;
    let file = OsFile(fd.into());
    if !takes_blocks(&file) {
        return Ok(None);
    }
    Ok(Some(Arc::new(DirectFile {
        file,
        two_calls: AtomicBool::new(false),
        one_call: AtomicBool::new(false),
    })))
}

/// Whether blocks of [`DIRECT_ALIGN`] may be written. Some file systems take the flag and write through the page cache all
/// the same, which would cost more than a plain write.
fn takes_blocks(file: &OsFile) -> bool {
    let fits = |align: u32| align > 0 && DIRECT_ALIGN.is_multiple_of(align as usize);
    match alignment(&file.0) {
        Some((memory, position)) => fits(memory) && fits(position),
        // Linux since 6.6 takes the flag on a file system in memory.
        None if fstatfs(&file.0).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC) => false,
        // Neither Linux before 6.1 nor btrfs tells. A block that is read is aligned as one that is written.
        None => {
            let mut block = Block([0; DIRECT_ALIGN]);
            file.read_raw(0, &mut block.0).is_ok()
        }
    }
}

/// What direct transfers must be aligned to, in memory and in the file (`STATX_DIOALIGN`); 0 where there are none.
fn alignment(file: &std::fs::File) -> Option<(u32, u32)> {
    let mut found = MaybeUninit::<libc::statx>::zeroed();
    let fd = file.as_raw_fd();
    let flags = libc::AT_EMPTY_PATH;
    // SAFETY: the path is an empty C string and `found` has room for what the kernel fills in.
    let done =
        unsafe { libc::statx(fd, c"".as_ptr(), flags, libc::STATX_DIOALIGN, found.as_mut_ptr()) };
    if done != 0 {
        return None;
    }
    // SAFETY: it is plain numbers, all zero before the call, which answered without an error.
    let found = unsafe { found.assume_init() };
    let told = found.stx_mask & libc::STATX_DIOALIGN != 0;
    told.then_some((found.stx_dio_mem_align, found.stx_dio_offset_align))
}

impl DirectFile {
    /// `None` if the file system does not know the flag; then nothing was written.
    ///
    /// Not repeated after `EINTR`, which may stand for a failed flush, as `sync` is not.
    fn write_durably(&self, position: u64, bytes: &[u8]) -> io::Result<Option<usize>> {
        let Ok(position) = libc::off_t::try_from(position) else {
            return Err(Errno::EFBIG.into());
        };
        let part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let fd = self.file.0.as_raw_fd();
        // SAFETY: `part` describes `bytes`, which the kernel only reads, and which outlives the call.
        let written = unsafe { libc::pwritev2(fd, &raw const part, 1, position, libc::RWF_DSYNC) };
        match Errno::result(written) {
            Ok(written) => {
                self.one_call.store(true, Ordering::Relaxed);
                Ok(Some(written.unsigned_abs()))
            }
            // From a device it may mean a write that failed.
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) if !self.one_call.load(Ordering::Relaxed) => {
                Ok(None)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Each part of a write that comes short is durable by itself.
    fn write_all_durably(&self, write: &Write<'_>) -> io::Result<()> {
        let mut done = 0;
        while done < write.bytes.len() {
            match self.write_durably(write.position + done as u64, &write.bytes[done..])? {
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(written) => done += written,
                None => {
                    self.two_calls.store(true, Ordering::Relaxed);
                    self.write_at(write.position + done as u64, &write.bytes[done..])?;
                    return self.sync();
                }
            }
        }
        Ok(())
    }
}

impl File for DirectFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_raw(&self, position: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_raw(position, into)
    }

    fn write_raw(&self, position: u64, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_raw(position, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn is_direct(&self) -> bool {
        true
    }

    fn write_and_sync(&self, writes: &[Write<'_>]) -> io::Result<()> {
        if let [write] = writes
            && !self.two_calls.load(Ordering::Relaxed)
        {
            return self.write_all_durably(write);
        }
        writes.iter().try_for_each(|write| self.write_at(write.position, write.bytes))?;
        self.sync()
    }
}
