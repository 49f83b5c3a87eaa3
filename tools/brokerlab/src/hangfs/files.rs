//! Open files, and what is told of files.

use fuser::{Errno, FileAttr, FileType, INodeNo};
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::time::SystemTime;

#[derive(Debug, Default)]
pub(super) struct Files {
    /// By handle, with the node.
    open: HashMap<u64, (u64, Arc<File>)>,
    last: u64,
}

impl Files {
    pub(super) fn add(&mut self, node: u64, file: File) -> u64 {
        self.last += 1;
        self.open.insert(self.last, (node, Arc::new(file)));
        self.last
    }

    pub(super) fn get(&self, handle: u64) -> Result<Arc<File>, Errno> {
        self.open.get(&handle).map(|(_, file)| Arc::clone(file)).ok_or(Errno::EBADF)
    }

    /// One of a node, which may have lost its name.
    pub(super) fn of(&self, node: u64) -> Option<Arc<File>> {
        self.open.values().find(|(of, _)| *of == node).map(|(_, file)| Arc::clone(file))
    }

    pub(super) fn remove(&mut self, handle: u64) {
        self.open.remove(&handle);
    }
}

pub(super) fn kind(of: std::fs::FileType) -> FileType {
    if of.is_dir() {
        FileType::Directory
    } else if of.is_symlink() {
        FileType::Symlink
    } else if of.is_fifo() {
        FileType::NamedPipe
    } else {
        FileType::RegularFile
    }
}

pub(super) fn attr(node: u64, meta: &Metadata) -> FileAttr {
    let modified = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    FileAttr {
        ino: INodeNo(node),
        size: meta.len(),
        blocks: meta.blocks(),
        atime: modified,
        mtime: modified,
        ctime: modified,
        crtime: modified,
        kind: kind(meta.file_type()),
        perm: u16::try_from(meta.permissions().mode() & 0o7777).unwrap_or(0),
        nlink: u32::try_from(meta.nlink()).unwrap_or(u32::MAX),
        uid: meta.uid(),
        gid: meta.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
