//! The calls of [`FileSystem`] and [`File`], each counted, and open to faults, before it is done.

use super::content::Content;
use super::fault::OpKind;
use super::image::SECTOR;
use super::machine::{Ask, Go, How, Machine};
use super::names::Inode;
use super::tree::{Node, errno};
use super::{SimFileSystem, dead};
use crate::fs::{DIRECT_ALIGN, DirEntry, File, FileKind, FileSystem, Lock, Metadata, Space, Write};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) fn hold(machine: &Mutex<Machine>) -> MutexGuard<'_, Machine> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer to a call that was done.
fn done<T>(go: Go, result: io::Result<T>) -> io::Result<T> {
    match (go, result) {
        (Go::DoneThen(code), Ok(_)) => Err(errno(code)),
        (_, result) => result,
    }
}

impl SimFileSystem {
    fn call<T>(
        &self,
        ask: Ask<'_>,
        run: impl FnOnce(&mut Machine, u64) -> io::Result<T>,
    ) -> io::Result<T> {
        self.call_or_lie(ask, |machine, life, _| run(machine, life))
    }

    fn call_or_lie<T>(
        &self,
        ask: Ask<'_>,
        run: impl FnOnce(&mut Machine, u64, Go) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut machine = hold(&self.machine);
        let life = self.life.unwrap_or(machine.life);
        let go = machine.begin(life, ask)?;
        let result = run(&mut machine, life, go);
        // What is dropped by `done` may be a handle, which takes the machine to close.
        drop(machine);
        done(go, result)
    }

    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn File>> {
        self.call(Ask::path(OpKind::Open, path), |machine, life| {
            let inode = machine.disk.tree.inode(path)?;
            match machine.disk.tree.node(inode)? {
                Node::File(_) => self.handle(machine, life, inode, path, mode),
                Node::Link(_) => Err(errno(libc::ELOOP)),
                Node::Dir(_) if mode != Mode::Read => Err(errno(libc::EISDIR)),
                Node::Dir(_) => {
                    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
                }
            }
        })
    }

    fn handle(
        &self,
        machine: &mut Machine,
        life: u64,
        inode: Inode,
        path: &Path,
        mode: Mode,
    ) -> io::Result<Arc<dyn File>> {
        let errors_seen = Mutex::new(machine.open(inode)?);
        let fs = Arc::clone(&self.machine);
        Ok(Arc::new(SimFile { fs, life, inode, path: path.into(), mode, errors_seen }))
    }
}

impl FileSystem for SimFileSystem {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path, Mode::Read)
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.open(path, Mode::Write)
    }

    fn open_direct(&self, path: &Path) -> io::Result<Option<Arc<dyn File>>> {
        if hold(&self.machine).disk.buffered_only {
            return Ok(None);
        }
        self.open(path, Mode::Direct).map(Some)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.call(Ask::path(OpKind::Create, path), |machine, life| {
            let inode = make(machine, path, Node::File(Default::default()))?;
            self.handle(machine, life, inode, path, Mode::Write)
        })
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.call(Ask::path(OpKind::CreateDir, path), |machine, _| {
            make(machine, path, Node::Dir(Default::default())).map(drop)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let ask = Ask { to: Some(to), ..Ask::path(OpKind::Rename, from) };
        self.call(ask, |machine, _| {
            let device = machine.disk.tree.device_of_rename(from, to)?;
            machine.charge_rename(device)?;
            let op = machine.current_op();
            if let Some(replaced) = machine.disk.tree.rename(op, from, to)? {
                machine.free_unreachable(replaced);
            }
            Ok(())
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.call(Ask::path(OpKind::RemoveFile, path), |machine, _| {
            let op = machine.current_op();
            let inode = machine.disk.tree.remove_file(op, path)?;
            machine.free_unreachable(inode);
            Ok(())
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.call(Ask::path(OpKind::RemoveDir, path), |machine, _| {
            let op = machine.current_op();
            let inode = machine.disk.tree.remove_dir(op, path)?;
            machine.free_unreachable(inode);
            Ok(())
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.call(Ask::path(OpKind::List, dir), |machine, _| machine.disk.tree.list(dir))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.call(Ask::path(OpKind::Metadata, path), |machine, _| {
            let inode = machine.disk.tree.inode(path)?;
            let node = machine.disk.tree.node(inode)?;
            let (len, blocks) = match node {
                Node::File(content) => (content.len(), content.blocks.len()),
                Node::Dir(_) => (super::image::PAGE as u64, 1),
                Node::Link(target) => (target.as_os_str().len() as u64, 0),
            };
            let disk_bytes = blocks as u64 * super::image::PAGE as u64;
            let device = machine.disk.tree.device(inode);
            Ok(Metadata { kind: node.kind(), len, disk_bytes, device })
        })
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.call_or_lie(Ask::path(OpKind::SyncDir, dir), |machine, _, go| match go {
            Go::Lie => Ok(()),
            _ => machine.sync_dir(dir),
        })
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        self.call(Ask::path(OpKind::Space, path), |machine, _| {
            let inode = machine.disk.tree.inode(path)?;
            if machine.disk.tree.node(inode)?.kind() == FileKind::Link {
                return Err(errno(libc::ELOOP));
            }
            let tree = &machine.disk.tree;
            let device = tree.device(inode);
            let inodes = tree.nodes().filter(|(inode, _)| tree.device(*inode) == device).count();
            Ok(machine.disk.budgets.of(device).space(inodes as u64))
        })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.call(Ask::path(OpKind::Lock, path), |machine, life| {
            let inode = match machine.disk.tree.find(path)?.inode {
                Some(inode) => inode,
                None => make(machine, path, Node::File(Default::default()))?,
            };
            machine.disk.tree.content(inode)?;
            machine.lock(inode)?;
            let fs = Arc::clone(&self.machine);
            Ok(Box::new(SimLock { fs, life, inode }) as Box<dyn Lock>)
        })
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.call(Ask::path(OpKind::Random, Path::new("")), |machine, _| {
            for chunk in bytes.chunks_mut(8) {
                let random = machine.disk.random.next().to_le_bytes();
                chunk.copy_from_slice(&random[..chunk.len()]);
            }
            Ok(())
        })
    }
}

fn make(machine: &mut Machine, path: &Path, node: Node) -> io::Result<Inode> {
    let place = machine.disk.tree.find(path)?;
    let (Some((dir, _)), None) = (place.entry, place.inode) else {
        return Err(errno(libc::EEXIST));
    };
    machine.charge_create(dir)?;
    let op = machine.current_op();
    machine.disk.tree.make(op, path, node)
}

/// What a file was opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Read,
    Write,
    Direct,
}

struct SimFile {
    fs: Arc<Mutex<Machine>>,
    life: u64,
    inode: Inode,
    path: Arc<Path>,
    mode: Mode,
    /// How many failed write-backs of the file this handle was told of.
    errors_seen: Mutex<u64>,
}

impl std::fmt::Debug for SimFile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SimFile")
            .field("path", &self.path)
            .field("inode", &self.inode)
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

impl SimFile {
    fn begin(
        &self,
        kind: OpKind,
        position: u64,
        len: u64,
    ) -> io::Result<(MutexGuard<'_, Machine>, Go)> {
        let mut machine = hold(&self.fs);
        let ask = Ask { position, len, ..Ask::path(kind, &self.path) };
        let go = machine.begin(self.life, ask)?;
        if self.mode == Mode::Read && matches!(kind, OpKind::Write | OpKind::Allocate) {
            return Err(errno(libc::EBADF));
        }
        if self.mode == Mode::Read && kind == OpKind::SetLen {
            return Err(errno(libc::EINVAL));
        }
        Ok((machine, go))
    }
}

/// What a write that stops short has done: it stops where a sector does. Writes to regular files go page by page, and a file
/// system that stops within a sector would leave one that is neither old nor new, which no disk is taken to do.
fn whole_sectors(position: u64, most: usize) -> usize {
    let sector = SECTOR as u64;
    let end = (position + most as u64).next_multiple_of(sector);
    usize::try_from(end - position).unwrap_or(usize::MAX)
}

fn is_aligned(position: u64, bytes: &[u8]) -> bool {
    position.is_multiple_of(DIRECT_ALIGN as u64)
        && bytes.len().is_multiple_of(DIRECT_ALIGN)
        && bytes.as_ptr().addr().is_multiple_of(DIRECT_ALIGN)
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        let (machine, go) = self.begin(OpKind::Metadata, 0, 0)?;
        done(go, Ok(machine.disk.tree.content(self.inode)?.len()))
    }

    fn read_raw(&self, position: u64, into: &mut [u8]) -> io::Result<usize> {
        let (machine, go) = self.begin(OpKind::Read, position, into.len() as u64)?;
        let most = if let Go::Short(most) = go { most.min(into.len()) } else { into.len() };
        let content = machine.disk.tree.content(self.inode)?;
        let read = content.read(position, &mut into[..most]);
        done(go, read.ok_or_else(|| errno(libc::EIO)))
    }

    fn write_raw(&self, position: u64, bytes: &[u8]) -> io::Result<usize> {
        let (mut machine, go) = self.begin(OpKind::Write, position, bytes.len() as u64)?;
        if self.mode == Mode::Direct && !is_aligned(position, bytes) {
            return Err(errno(libc::EINVAL));
        }
        let most = match go {
            Go::Short(most) => whole_sectors(position, most).min(bytes.len()),
            Go::Die(most) => most.min(bytes.len()),
            _ => bytes.len(),
        };
        let how = How { direct: self.mode == Mode::Direct, lost: go == Go::Lie };
        let written = machine.write(self.inode, position, &bytes[..most], how);
        match go {
            Go::Die(_) => Err(dead()),
            _ => done(go, written),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let (mut machine, go) = self.begin(OpKind::Sync, 0, 0)?;
        let mut seen = self.errors_seen.lock().unwrap_or_else(PoisonError::into_inner);
        machine.sync(self.inode, &mut seen, go)
    }

    fn is_direct(&self) -> bool {
        self.mode == Mode::Direct
    }

    /// Of a single direct write nothing but its own blocks becomes durable, as by `RWF_DSYNC`.
    fn write_and_sync(&self, writes: &[Write<'_>]) -> io::Result<()> {
        writes.iter().try_for_each(|write| self.write_at(write.position, write.bytes))?;
        let &[write] = writes else { return self.sync() };
        if self.mode != Mode::Direct {
            return self.sync();
        }
        let (mut machine, go) =
            self.begin(OpKind::Sync, write.position, write.bytes.len() as u64)?;
        let mut seen = self.errors_seen.lock().unwrap_or_else(PoisonError::into_inner);
        let pages: Vec<usize> = Content::pages_of(write.position, write.bytes.len()).collect();
        machine.sync_pages(self.inode, &pages, &mut seen, go)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let (mut machine, go) = self.begin(OpKind::Allocate, 0, len)?;
        done(go, machine.allocate(self.inode, len))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let (mut machine, go) = self.begin(OpKind::SetLen, 0, len)?;
        done(go, machine.set_len(self.inode, len))
    }

    fn no_copy_on_write(&self) -> io::Result<bool> {
        let (mut machine, go) = self.begin(OpKind::NoCopyOnWrite, 0, 0)?;
        done(go, machine.no_copy_on_write(self.inode))
    }

    fn place(&self) -> io::Result<Option<u64>> {
        let (machine, go) = self.begin(OpKind::Place, 0, 0)?;
        done(go, Ok(machine.disk.tree.content(self.inode)?.place(self.inode)))
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        hold(&self.fs).close(self.life, self.inode);
    }
}

struct SimLock {
    fs: Arc<Mutex<Machine>>,
    life: u64,
    inode: Inode,
}

impl std::fmt::Debug for SimLock {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SimLock").field("inode", &self.inode).finish_non_exhaustive()
    }
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        hold(&self.fs).unlock(self.life, self.inode);
    }
}
