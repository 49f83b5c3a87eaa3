//! The calls of the kernel, handed to the directory below.

use super::Hang;
use super::files::{Files, attr, kind};
use super::nodes::Nodes;
use fuser::{
    BsdFileFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

const TTL: Duration = Duration::from_secs(1);
const GENERATION: Generation = Generation(0);

#[derive(Debug)]
pub(super) struct Served {
    nodes: Mutex<Nodes>,
    files: Mutex<Files>,
    hang: Arc<Hang>,
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn errno(error: io::Error) -> Errno {
    Errno::from(error)
}

impl Served {
    pub(super) fn new(below: &Path, hang: Arc<Hang>) -> Self {
        Self { nodes: Mutex::new(Nodes::new(below)), files: Mutex::default(), hang }
    }

    fn path(&self, node: INodeNo) -> Result<PathBuf, Errno> {
        hold(&self.nodes).path(node.0).ok_or(Errno::ENOENT)
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> Result<PathBuf, Errno> {
        hold(&self.nodes).child(parent.0, name).ok_or(Errno::ENOENT)
    }

    fn file(&self, handle: FileHandle) -> Result<Arc<File>, Errno> {
        hold(&self.files).get(handle.0)
    }

    /// What the disk does: at once, or, while it hangs, when that is over, without holding others up.
    fn disk(&self, act: impl FnOnce() + Send + 'static) {
        if self.hang.is_on() {
            let hang = Arc::clone(&self.hang);
            std::thread::spawn(move || {
                hang.wait();
                act();
            });
        } else {
            act();
        }
    }

    fn entry(&self, parent: INodeNo, name: &OsStr) -> Result<fuser::FileAttr, Errno> {
        let meta = self.child(parent, name)?.symlink_metadata().map_err(errno)?;
        let node = hold(&self.nodes).number(parent.0, name);
        Ok(attr(node, &meta))
    }

    fn meta(&self, node: INodeNo, handle: Option<FileHandle>) -> Result<fuser::FileAttr, Errno> {
        let file = handle.and_then(|handle| self.file(handle).ok());
        let path = self.path(node);
        // The kernel names no handle for an open file without a name.
        let file = file.or_else(|| path.is_err().then(|| hold(&self.files).of(node.0)).flatten());
        let meta = match file {
            Some(file) => file.metadata(),
            None => path?.symlink_metadata(),
        };
        Ok(attr(node.0, &meta.map_err(errno)?))
    }
}

fn end(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn named(reply: ReplyEntry, entry: Result<fuser::FileAttr, Errno>) {
    match entry {
        Ok(attr) => reply.entry(&TTL, &attr, GENERATION),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        named(reply, self.entry(parent, name));
    }

    fn getattr(&self, _: &Request, node: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.meta(node, handle) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = || {
            if let Some(size) = size {
                match handle {
                    Some(handle) => self.file(handle)?.set_len(size).map_err(errno)?,
                    None => {
                        let file = OpenOptions::new().write(true).open(self.path(node)?);
                        file.and_then(|file| file.set_len(size)).map_err(errno)?;
                    }
                }
            }
            if let Some(mode) = mode {
                let mode = std::fs::Permissions::from_mode(mode & 0o7777);
                std::fs::set_permissions(self.path(node)?, mode).map_err(errno)?;
            }
            self.meta(node, handle)
        };
        match change() {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        use std::os::unix::ffi::OsStrExt;
        match self.path(node).and_then(|path| std::fs::read_link(path).map_err(errno)) {
            Ok(target) => reply.data(target.as_os_str().as_bytes()),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let made = self.child(parent, name).and_then(|path| {
            std::fs::DirBuilder::new().mode(mode & 0o7777).create(path).map_err(errno)
        });
        named(reply, made.and_then(|()| self.entry(parent, name)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done =
            self.child(parent, name).and_then(|path| std::fs::remove_file(path).map_err(errno));
        if done.is_ok() {
            hold(&self.nodes).remove(parent.0, name);
        }
        end(reply, done);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done =
            self.child(parent, name).and_then(|path| std::fs::remove_dir(path).map_err(errno));
        if done.is_ok() {
            hold(&self.nodes).remove(parent.0, name);
        }
        end(reply, done);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let paths =
            self.child(parent, name).and_then(|from| Ok((from, self.child(newparent, newname)?)));
        let done = paths.and_then(|(from, to)| std::fs::rename(from, to).map_err(errno));
        if done.is_ok() {
            hold(&self.nodes).rename((parent.0, name), (newparent.0, newname));
        }
        end(reply, done);
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.path(node).and_then(|path| {
            // Whatever it is opened for: the kernel holds its callers to that.
            let write = flags.0 & 3 != 0;
            OpenOptions::new().read(true).write(write).open(path).map_err(errno)
        });
        match opened {
            Ok(file) => {
                let handle = hold(&self.files).add(node.0, file);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let exclusive = flags & nix::fcntl::OFlag::O_EXCL.bits() != 0;
        let made = self.child(parent, name).and_then(|path| {
            let mut open = OpenOptions::new();
            open.read(true).write(true).mode(mode & 0o7777);
            if exclusive {
                open.create_new(true)
            } else {
                open.create(true).truncate(false)
            };
            open.open(path).map_err(errno)
        });
        match made.and_then(|file| Ok((file, self.entry(parent, name)?))) {
            Ok((file, attr)) => {
                let handle = hold(&self.files).add(attr.ino.0, file);
                reply.created(&TTL, &attr, GENERATION, FileHandle(handle), FopenFlags::empty());
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = match self.file(handle) {
            Ok(file) => file,
            Err(error) => return reply.error(error),
        };
        self.disk(move || {
            let mut bytes = vec![0; size as usize];
            let mut read = 0;
            while read < bytes.len() {
                match file.read_at(&mut bytes[read..], offset + read as u64) {
                    Ok(0) => break,
                    Ok(some) => read += some,
                    Err(error) => return reply.error(errno(error)),
                }
            }
            reply.data(&bytes[..read]);
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = match self.file(handle) {
            Ok(file) => file,
            Err(error) => return reply.error(error),
        };
        let data = data.to_vec();
        self.disk(move || match file.write_all_at(&data, offset) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(errno(error)),
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        hold(&self.files).remove(handle.0);
        reply.ok();
    }

    fn fsync(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        match self.file(handle) {
            Ok(file) => self.disk(move || {
                let done = if datasync { file.sync_data() } else { file.sync_all() };
                end(reply, done.map_err(errno));
            }),
            Err(error) => reply.error(error),
        }
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.path(node) {
            Ok(path) => self.disk(move || {
                end(reply, File::open(path).and_then(|dir| dir.sync_all()).map_err(errno));
            }),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = self.path(node).and_then(|path| std::fs::read_dir(path).map_err(errno));
        let mut all = vec![
            (node.0, FileType::Directory, ".".into()),
            (node.0, FileType::Directory, "..".into()),
        ];
        match entries {
            Ok(entries) => {
                for entry in entries.flatten() {
                    let Ok(of) = entry.file_type() else { continue };
                    let number = hold(&self.nodes).number(node.0, &entry.file_name());
                    all.push((number, kind(of), entry.file_name()));
                }
            }
            Err(error) => return reply.error(error),
        }
        for (place, (number, kind, name)) in
            all.into_iter().enumerate().skip(usize::try_from(offset).unwrap_or(0))
        {
            if reply.add(INodeNo(number), place as u64 + 1, kind, &name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let stat = self.path(INodeNo::ROOT).map(|path| nix::sys::statvfs::statvfs(&path));
        match stat {
            Ok(Ok(stat)) => {
                let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
                reply.statfs(
                    stat.blocks(),
                    stat.blocks_free(),
                    stat.blocks_available(),
                    stat.files(),
                    stat.files_free(),
                    small(stat.block_size()),
                    255,
                    small(stat.fragment_size()),
                );
            }
            _ => reply.error(Errno::EIO),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let done = self.file(handle).and_then(|file| {
            let flags = nix::fcntl::FallocateFlags::from_bits(mode).ok_or(Errno::EOPNOTSUPP)?;
            let (offset, length) = (i64::try_from(offset), i64::try_from(length));
            let (Ok(offset), Ok(length)) = (offset, length) else { return Err(Errno::EFBIG) };
            nix::fcntl::fallocate(&*file, flags, offset, length)
                .map_err(|error| errno(error.into()))
        });
        end(reply, done);
    }
}
