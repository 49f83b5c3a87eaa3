//! The real file system, through Linux system calls.
//!
//! For buffered files `write_and_sync` stays as the trait provides it: one `pwrite` for each part, then one `fdatasync`.
#![allow(clippy::disallowed_methods, reason = "the room that owns the disk calls")]

mod direct;
mod ioctl;

use super::{DirEntry, File, FileKind, FileSystem, Lock, Metadata, Space};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, Flock, FlockArg, OFlag, fallocate, open};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::sys::statfs::{XFS_SUPER_MAGIC, fstatfs};
use nix::unistd::{fdatasync, fsync, ftruncate};
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// New files: the owner writes, the group reads, nobody else sees them.
const FILE_MODE: Mode = Mode::from_bits_truncate(0o640);
const DIR_MODE: u32 = 0o750;

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFileSystem;

#[derive(Debug)]
struct OsFile(std::fs::File);

/// `flock(2)` belongs to the open file description: two nodes in one process keep each other out as two processes do,
/// and the kernel drops it with the process.
#[derive(Debug)]
struct OsLock {
    _flock: Flock<OwnedFd>,
}

impl Lock for OsLock {}

impl FileSystem for OsFileSystem {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        open_regular(path, OFlag::O_RDONLY)
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        open_regular(path, OFlag::O_RDWR)
    }

    fn open_direct(&self, path: &Path) -> io::Result<Option<Arc<dyn File>>> {
        direct::open(path)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let fd = open_fd(path, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL)?;
        Ok(Arc::new(OsFile(fd.into())))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::DirBuilder::new().mode(DIR_MODE).create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut open = Dir::from_fd(open_fd(dir, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?)?;
        let mut entries = Vec::new();
        for entry in open.iter() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                Some(Type::File) => FileKind::File,
                Some(Type::Directory) => FileKind::Directory,
                Some(Type::Symlink) => FileKind::Link,
                Some(_) => FileKind::Other,
                // Some file systems leave d_type empty.
                None => match self.metadata(&dir.join(name)) {
                    Ok(found) => found.kind,
                    // Removed since it was read.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                },
            };
            entries.push(DirEntry { name: name.to_os_string(), kind });
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let found = std::fs::symlink_metadata(path)?;
        Ok(Metadata {
            kind: kind_of(found.file_type()),
            len: found.len(),
            disk_bytes: found.blocks().saturating_mul(512),
            device: found.dev(),
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let fd = open_fd(dir, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        Ok(fsync(&fd)?)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let fd = open_fd(path, OFlag::O_PATH)?;
        // With O_PATH a link opens as itself; its file system need not be that of what it points to.
        if file_type(&fd)? == SFlag::S_IFLNK {
            return Err(Errno::ELOOP.into());
        }
        let mut raw = MaybeUninit::<libc::statvfs>::uninit();
        retry(|| {
            // SAFETY: `fd` is open for the whole call and `raw` has room for what the kernel fills in.
            Errno::result(unsafe { libc::fstatvfs(fd.as_raw_fd(), raw.as_mut_ptr()) })
        })?;
        // SAFETY: the call above answered without an error, so it filled in the whole of it.
        let space = space_of(unsafe { raw.assume_init_ref() });
        // Advice only: not told, the count is taken for fixed, as it is nearly everywhere.
        let is_xfs = fstatfs(&fd).is_ok_and(|found| found.filesystem_type() == XFS_SUPER_MAGIC);
        Ok(Space { inodes_from_blocks: is_xfs, ..space })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let fd = open_fd(path, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NONBLOCK)?;
        refuse_irregular(&fd)?;
        match Flock::lock(fd, FlockArg::LockExclusiveNonblock) {
            Ok(flock) => Ok(Box::new(OsLock { _flock: flock })),
            Err((_, errno)) => Err(errno.into()),
        }
    }

    fn lock_held(&self, path: &Path) -> io::Result<Option<bool>> {
        let found = std::fs::symlink_metadata(path)?;
        // Taking the lock to see whether it is free would make a node fail that starts at this moment.
        let Ok(locks) = std::fs::read_to_string("/proc/locks") else { return Ok(None) };
        let device = (libc::major(found.dev()), libc::minor(found.dev()));
        Ok(flock_held(&locks, device, found.ino()))
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            let rest = &mut bytes[filled..];
            filled += retry(|| {
                // SAFETY: `rest` is writable for the length given with it.
                let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
                Errno::result(got)
            })?
            .unsigned_abs();
        }
        Ok(())
    }
}

impl File for OsFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_raw(&self, position: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(into, position)
    }

    fn write_raw(&self, position: u64, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_at(bytes, position)
    }

    /// Not repeated after `EINTR` either: the kernel may answer that in place of a write-back error that it then
    /// counts as reported (`file_write_and_wait_range`).
    fn sync(&self) -> io::Result<()> {
        Ok(fdatasync(&self.0)?)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(()); // The kernel answers EINVAL, which stands for "cannot" below.
        }
        let len = libc::off_t::try_from(len).map_err(|_| Errno::EFBIG)?;
        match retry(|| fallocate(&self.0, FallocateFlags::empty(), 0, len)) {
            // What file systems and kernels without it say; all three get the kind `Unsupported`.
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL) => Err(Errno::EOPNOTSUPP.into()),
            other => Ok(other?),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = libc::off_t::try_from(len).map_err(|_| Errno::EFBIG)?;
        Ok(retry(|| ftruncate(&self.0, len))?)
    }

    fn begin_write_back(&self, position: u64, len: usize) {
        let (Ok(position), Ok(len)) =
            (libc::off64_t::try_from(position), libc::off64_t::try_from(len))
        else {
            return;
        };
        let fd = self.0.as_raw_fd();
        // SAFETY: `fd` is open for the whole call, which takes numbers only. What it could not begin the sync does.
        unsafe { libc::sync_file_range(fd, position, len, libc::SYNC_FILE_RANGE_WRITE) };
    }

    fn no_copy_on_write(&self) -> io::Result<bool> {
        ioctl::no_copy_on_write(&self.0)
    }

    fn place(&self) -> io::Result<Option<u64>> {
        ioctl::place(&self.0)
    }
}

/// Repeats a call that a signal interrupted before it did anything.
fn retry<T>(mut call: impl FnMut() -> nix::Result<T>) -> nix::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

fn open_fd(path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    retry(|| open(path, flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, FILE_MODE))
}

fn open_regular(path: &Path, flags: OFlag) -> io::Result<Arc<dyn File>> {
    // O_NONBLOCK: opening a pipe that nobody writes to would hang the start. Regular files take no notice of it.
    let fd = open_fd(path, flags | OFlag::O_NONBLOCK)?;
    refuse_irregular(&fd)?;
    Ok(Arc::new(OsFile(fd.into())))
}

fn refuse_irregular(fd: &OwnedFd) -> io::Result<()> {
    if file_type(fd)? == SFlag::S_IFREG {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}

fn file_type(fd: &OwnedFd) -> nix::Result<SFlag> {
    let stat = fstat(fd)?;
    Ok(SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()))
}

fn kind_of(kind: std::fs::FileType) -> FileKind {
    if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Directory
    } else if kind.is_symlink() {
        FileKind::Link
    } else {
        FileKind::Other
    }
}

/// Whether `/proc/locks` lists an exclusive `flock` of the file. `None` if it lists one of a file with this number on
/// another device: some file systems (btrfs) show another device there than `stat` does.
fn flock_held(locks: &str, device: (u32, u32), inode: u64) -> Option<bool> {
    let mut elsewhere = false;
    for line in locks.lines() {
        // "1: FLOCK  ADVISORY  WRITE 22115 fe:00:5316875 0 EOF"; a waiter's line has "->" behind the number.
        let fields: Vec<&str> = line.split_whitespace().filter(|field| *field != "->").collect();
        let ["FLOCK", _, "WRITE", _, place, ..] = fields.get(1..).unwrap_or_default() else {
            continue;
        };
        let mut parts = place.split(':');
        let mut hex = || parts.next().and_then(|part| u32::from_str_radix(part, 16).ok());
        let found = (hex(), hex());
        if parts.next().and_then(|part| part.parse().ok()) == Some(inode) {
            if found == (Some(device.0), Some(device.1)) {
                return Some(true);
            }
            elsewhere = true;
        }
    }
    if elsewhere { None } else { Some(false) }
}

/// Counts in fragments, which `f_blocks` and `f_bavail` are in; `f_bsize` is only a hint for transfers and can be much
/// larger. `f_bfree` would count the share kept for root, which this process never gets.
#[allow(clippy::useless_conversion, reason = "the C types are narrower on some targets")]
fn space_of(raw: &libc::statvfs) -> Space {
    let fragment = u64::from(raw.f_frsize);
    let planted = crate::planted::is(crate::planted::Fault::FreeSpaceFromRootsShare);
    let available = if planted { raw.f_bfree } else { raw.f_bavail };
    Space {
        total: u64::from(raw.f_blocks).saturating_mul(fragment),
        available: u64::from(available).saturating_mul(fragment),
        withheld: u64::from(raw.f_bfree)
            .saturating_sub(u64::from(available))
            .saturating_mul(fragment),
        inodes: u64::from(raw.f_files),
        inodes_available: u64::from(raw.f_favail),
        inodes_from_blocks: false,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, non_snake_case)]
mod tests {
    use super::*;

    fn raw() -> libc::statvfs {
        // SAFETY: a C struct of integers, for which all zeroes is a value.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }

    #[test]
    fn case_A4_space_counts_fragments_not_transfer_blocks() {
        let mut raw = raw();
        raw.f_bsize = 1 << 20; // As NFS and ZFS answer.
        raw.f_frsize = 512;
        raw.f_blocks = 1000;
        raw.f_bfree = 600;
        raw.f_bavail = 400;
        let space = space_of(&raw);
        assert_eq!(space.total, 512_000);
        assert_eq!(space.available, 204_800);
        assert_eq!((space.withheld, space.attainable()), (102_400, 409_600));
    }

    #[test]
    fn case_A4_space_leaves_out_the_share_of_root() {
        let mut raw = raw();
        raw.f_bsize = 4096;
        raw.f_frsize = 4096;
        raw.f_blocks = 100;
        raw.f_bfree = 5;
        raw.f_bavail = 0;
        raw.f_files = 64;
        raw.f_ffree = 9;
        raw.f_favail = 7;
        let space = space_of(&raw);
        assert_eq!((space.available, space.withheld), (0, 5 * 4096));
        assert_eq!((space.inodes, space.inodes_available), (64, 7));
        use crate::planted::{Fault, with};
        let planted = with(Fault::FreeSpaceFromRootsShare, || space_of(&raw));
        assert_eq!(planted.available, 5 * 4096, "the fault must show");
    }

    #[test]
    fn case_A4_space_of_an_absurd_size_does_not_wrap() {
        let mut raw = raw();
        raw.f_frsize = 1 << 16;
        raw.f_blocks = u64::MAX;
        raw.f_bavail = u64::MAX;
        assert_eq!(space_of(&raw).available, u64::MAX);
    }

    #[test]
    fn a_lock_is_seen_without_being_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let lock = OsFileSystem.lock(&path).unwrap();
        // Where the system does not tell it says so, and never that nobody holds it.
        assert_ne!(OsFileSystem.lock_held(&path).unwrap(), Some(false));
        drop(lock);
        assert_ne!(OsFileSystem.lock_held(&path).unwrap(), Some(true));
        let line = "1: FLOCK  ADVISORY  WRITE 22115 fe:00:5316875 0 EOF\n";
        assert_eq!(flock_held(line, (0xfe, 0), 5_316_875), Some(true));
        assert_eq!(flock_held(line, (0xfd, 0), 5_316_875), None);
        assert_eq!(flock_held(line, (0xfe, 0), 5_316_874), Some(false));
        let shared = "2: FLOCK  ADVISORY  READ 22115 fe:00:7 0 EOF\n1: -> garbage";
        assert_eq!(flock_held(shared, (0xfe, 0), 7), Some(false));
    }

    #[test]
    fn case_A4_space_of_a_real_directory_agrees_with_itself() {
        let dir = tempfile::tempdir().unwrap();
        let space = OsFileSystem.space(dir.path()).unwrap();
        assert!(space.total > 0);
        assert!(space.available <= space.total);
        assert!(space.inodes_available <= space.inodes);
    }
}
