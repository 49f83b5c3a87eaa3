//! A simulated file system: deterministic, with crashes, power cuts, failed syncs, a full disk and rot.
//!
//! # What is durable
//!
//! - A [`File::sync`](crate::fs::File::sync) that answers `Ok` makes the bytes and the length of that file durable, and
//!   never its name. Before that, each sector may hold any version written since the last sync, each independently.
//! - A directory operation is surely durable when every directory that it changes was synced after it: a rename between
//!   two directories needs both. Before that it may survive or not, as [`Names`] says; the file `names.rs` has the rules.
//!
//! # Several devices
//!
//! All is one device until [`SimFileSystem::mount`] makes another of a directory and what is below it: with another number,
//! space of its own, and no rename across. A power cut strikes all devices at once; faults do not ask for the device.
//!
//! # Two kinds of crash
//!
//! [`SimFileSystem::process_death`] keeps the cache: what was written is read back, synced or not.
//! [`SimFileSystem::power_cut`] loses it, and asks a [`Chooser`] what survives. Handles and locks of the dead process
//! answer an error for which [`is_death`] is true. To crash in the middle of a run, set [`SimFileSystem::crash_at`]: from
//! that operation on every call fails so, and the engine unwinds by its ordinary error paths.
//!
//! ```
//! use plimsoll::fs::FileSystem;
//! use plimsoll::fs::sim::{NothingPersisted, SimFileSystem};
//! use std::path::Path;
//!
//! let fs = SimFileSystem::new(7);
//! fs.prepare_dir("/data").unwrap();
//! let file = fs.create(Path::new("/data/file")).unwrap();
//! file.write_at(0, b"kept").unwrap();
//! file.sync().unwrap();
//! fs.sync_dir(Path::new("/data")).unwrap();
//! file.write_at(0, b"lost").unwrap();
//! fs.power_cut(&mut NothingPersisted);
//! assert!(file.sync().is_err());
//! assert_eq!(fs.cached("/data/file").unwrap(), b"kept");
//! ```

mod calls;
mod choose;
mod content;
mod fault;
mod futures;
mod image;
mod machine;
mod mount;
mod names;
mod space;
mod tree;

pub use choose::{
    AllPersisted, Answer, Choice, Chooser, Count, NothingPersisted, Scripted, Seeded,
};
pub use fault::{Fault, Op, OpKind, Reached, Then, What, When};
pub use futures::Futures;
pub use space::Charges;

use calls::hold;
use choose::SplitMix;
use content::Content;
use image::Hash;
use machine::{Disk, Machine};
use space::Budgets;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tree::{Node, Tree};

/// Which units of a file's bytes survive a power cut, each by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sectors {
    /// Each 512-byte sector takes one of its versions.
    #[default]
    Torn512,
    /// Each 4 KiB block takes one of its versions.
    Atomic4K,
    /// The first so many writes to a file survive, later ones do not.
    Prefix,
    /// As [`Sectors::Torn512`], and a sector being written may also hold garbage. Real disks are taken not to do this.
    Garbage,
}

/// Which directory operations that are not surely durable survive a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Any of them, as long as what is left makes sense; a rename is kept or lost as one.
    #[default]
    Subset,
    /// The first so many on each device: a file system with one ordered journal, in which one surely durable operation carries all
    /// earlier ones with it.
    Prefix,
}

/// What a power cut may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// To the bytes of files.
    pub sectors: Sectors,
    /// To names.
    pub names: Names,
}

/// The simulated file system; clones share one machine.
#[derive(Clone)]
pub struct SimFileSystem {
    machine: Arc<Mutex<Machine>>,
    /// The process that this handle belongs to; none for the machine itself, which goes on from one to the next.
    life: Option<u64>,
}

impl fmt::Debug for SimFileSystem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = out.debug_struct("SimFileSystem");
        if let Ok(machine) = self.machine.try_lock() {
            out.field("ops", &machine.disk.ops).field("dead", &machine.dead);
        }
        out.finish_non_exhaustive()
    }
}

/// A copy of the disk, its cache and all that is pending; cheap, as unchanged pages are shared.
#[derive(Clone)]
pub struct Snapshot(Disk);

impl fmt::Debug for Snapshot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Snapshot").field("ops", &self.0.ops).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Death;

impl fmt::Display for Death {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the process is dead")
    }
}

impl std::error::Error for Death {}

fn dead() -> io::Error {
    io::Error::other(Death)
}

/// Whether `error` is what every call answers after the simulated process died.
#[must_use]
pub fn is_death(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Death>())
}

impl SimFileSystem {
    /// An empty file system without a limit. Everything in it follows from `seed` and the calls made.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let disk = Disk {
            tree: Tree::new(),
            budgets: Budgets::new(),
            profile: Profile::default(),
            random: SplitMix(seed),
            ops: 0,
            read_only: false,
            buffered_only: false,
        };
        Self::of(disk)
    }

    fn of(disk: Disk) -> Self {
        Self { machine: Arc::new(Mutex::new(Machine::new(disk))), life: None }
    }

    /// A handle that dies with the process of now: for an engine that is left behind, perhaps with threads, when the
    /// test goes on with a new one.
    #[must_use]
    pub fn process(&self) -> Self {
        let life = self.life.unwrap_or(hold(&self.machine).life);
        Self { machine: Arc::clone(&self.machine), life: Some(life) }
    }

    /// Sets what power cuts (and failed syncs) may do from now on.
    pub fn set_profile(&self, profile: Profile) {
        hold(&self.machine).disk.profile = profile;
    }

    /// Whether files can be opened for direct writes, as they can at first.
    pub fn set_direct(&self, direct: bool) {
        hold(&self.machine).disk.buffered_only = !direct;
    }

    // Preparing: none of these is an operation.

    /// Makes a directory and those above it, all durable. Every name that exists becomes durable with it.
    ///
    /// # Errors
    /// `ENOTDIR` if something else stands there.
    pub fn prepare_dir(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let tree = &mut hold(&self.machine).disk.tree;
        let mut above = PathBuf::new();
        for part in path.as_ref().components() {
            above.push(part);
            match tree.find(&above)?.inode {
                Some(inode) => drop(tree.dir(inode)?),
                None => drop(tree.make(0, &above, Node::Dir(Default::default()))?),
            }
        }
        tree.settle_names();
        Ok(())
    }

    /// Makes a symbolic link, durable at once. Every name that exists becomes durable with it.
    ///
    /// # Errors
    /// `EEXIST` if the name is taken, `ENOENT` without the directory.
    pub fn prepare_link(
        &self,
        path: impl AsRef<Path>,
        target: impl Into<PathBuf>,
    ) -> io::Result<()> {
        let tree = &mut hold(&self.machine).disk.tree;
        tree.make(0, path.as_ref(), Node::Link(target.into()))?;
        tree.settle_names();
        Ok(())
    }

    // Crashes.

    /// The process ends and another begins: handles and locks are gone, everything written stays readable.
    pub fn process_death(&self) {
        hold(&self.machine).process_death();
    }

    /// The power goes and comes back: the process ends, and of what was not durable `chooser` says what survives.
    pub fn power_cut(&self, chooser: &mut dyn Chooser) {
        hold(&self.machine).power_cut(chooser);
    }

    /// Lets the process die just before the operation with number `op` (see [`SimFileSystem::ops`]): that one and all
    /// later ones answer an error for which [`is_death`] is true, until [`SimFileSystem::process_death`] or
    /// [`SimFileSystem::power_cut`] starts a new process.
    pub fn crash_at(&self, op: u64) {
        self.crash_in_write(op, 0);
    }

    /// As [`SimFileSystem::crash_at`]; if the operation is a write, its first `bytes` bytes reach the cache before.
    pub fn crash_in_write(&self, op: u64, bytes: usize) {
        hold(&self.machine).crash = Some((op, bytes));
    }

    /// Whether the point set by [`SimFileSystem::crash_at`] was met.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        let machine = hold(&self.machine);
        machine.dead || self.life.is_some_and(|life| life != machine.life)
    }

    /// The kernel drops all clean pages of a file: what a failed sync did not bring to the disk is no longer read.
    ///
    /// # Errors
    /// `ENOENT` or the like if there is no such file.
    pub fn evict(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut machine = hold(&self.machine);
        let inode = machine.disk.tree.inode(path.as_ref())?;
        machine.evict(inode)
    }

    /// [`SimFileSystem::evict`] for every file that has a name.
    pub fn evict_all(&self) {
        let mut machine = hold(&self.machine);
        for (_, inode) in machine.disk.tree.paths() {
            // Directories have no pages here, and everything else that is listed exists.
            let _ = machine.evict(inode);
        }
    }

    /// Lets the kernel's own write-back of a file fail, outside any call: every open handle answers `EIO` at its next
    /// sync, once.
    ///
    /// # Errors
    /// `ENOENT` or the like if there is no such file.
    pub fn fail_write_back(&self, path: impl AsRef<Path>, reached: Reached) -> io::Result<()> {
        let mut machine = hold(&self.machine);
        let inode = machine.disk.tree.inode(path.as_ref())?;
        machine.fail_write_back(inode, reached)
    }

    // Copies.

    /// An independent copy of the machine as it is, without its process: no handles, locks, faults, trace, crash point.
    #[must_use]
    pub fn fork(&self) -> Self {
        let machine = hold(&self.machine);
        let fork = Self::of(machine.disk.clone());
        hold(&fork.machine).life = machine.life + 1;
        fork
    }

    /// Keeps the disk, its cache and what is pending.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(hold(&self.machine).disk.clone())
    }

    /// Goes back to a snapshot. The process ends as with [`SimFileSystem::process_death`].
    pub fn restore(&self, snapshot: &Snapshot) {
        hold(&self.machine).replace(snapshot.0.clone());
    }

    // What happened, and what is to happen.

    /// Operations so far, which is the number of the next one.
    #[must_use]
    pub fn ops(&self) -> u64 {
        hold(&self.machine).disk.ops
    }

    /// Starts or stops noting operations; both forget those noted before.
    pub fn record(&self, on: bool) {
        hold(&self.machine).trace = on.then(Vec::new);
    }

    /// The operations noted since [`SimFileSystem::record`], those included that a fault struck.
    #[must_use]
    pub fn trace(&self) -> Vec<Op> {
        hold(&self.machine).trace.clone().unwrap_or_default()
    }

    /// Adds a fault. Of several that strike at one operation the one added first counts.
    pub fn inject(&self, fault: Fault) {
        hold(&self.machine).faults.add(fault);
    }

    /// Forgets all faults, and a file system made read-only by one can be written again.
    pub fn clear_faults(&self) {
        let mut machine = hold(&self.machine);
        machine.faults.clear();
        machine.disk.read_only = false;
    }

    /// Faults that still wait, those that strike for ever included.
    #[must_use]
    pub fn faults_waiting(&self) -> usize {
        hold(&self.machine).faults.waiting()
    }

    // Rot: all of it strikes the cache and the disk alike.

    /// Flips the bits of `mask` in one byte. Beyond the end of the file nothing happens.
    ///
    /// # Errors
    /// `ENOENT` or the like if there is no such file.
    pub fn flip(&self, path: impl AsRef<Path>, position: u64, mask: u8) -> io::Result<()> {
        self.damage(path.as_ref(), position, 1, |_, bytes| {
            bytes.iter_mut().for_each(|b| *b ^= mask)
        })
    }

    /// Puts other bytes there, as a lost or misdirected write does. The file gets no longer.
    ///
    /// # Errors
    /// `ENOENT` or the like if there is no such file.
    pub fn overwrite(&self, path: impl AsRef<Path>, position: u64, new: &[u8]) -> io::Result<()> {
        self.damage(path.as_ref(), position, new.len(), |start, bytes| {
            bytes.copy_from_slice(&new[start..start + bytes.len()]);
        })
    }

    /// Puts zeroes there, as far as the file goes.
    ///
    /// # Errors
    /// `ENOENT` or the like if there is no such file.
    pub fn zero(&self, path: impl AsRef<Path>, range: Range<u64>) -> io::Result<()> {
        let count = range.end.saturating_sub(range.start);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.damage(path.as_ref(), range.start, count, |_, bytes| bytes.fill(0))
    }

    /// Lets reads of the 4 KiB blocks that this range touches fail with `EIO`, as bad sectors do, until each is written
    /// as a whole.
    ///
    /// # Errors
    /// `ENOENT` or the like if there is no such file.
    pub fn make_unreadable(&self, path: impl AsRef<Path>, range: Range<u64>) -> io::Result<()> {
        let tree = &mut hold(&self.machine).disk.tree;
        let inode = tree.inode(path.as_ref())?;
        let content = tree.content_mut(inode)?;
        let count = range.end.min(content.len()).saturating_sub(range.start);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        content.unreadable.extend(Content::pages_of(range.start, count));
        Ok(())
    }

    fn damage(
        &self,
        path: &Path,
        position: u64,
        count: usize,
        change: impl FnMut(usize, &mut [u8]),
    ) -> io::Result<()> {
        let tree = &mut hold(&self.machine).disk.tree;
        let inode = tree.inode(path)?;
        tree.content_mut(inode)?.damage(position, count, change);
        Ok(())
    }

    // Looking, without an operation.

    /// What reads of a file show.
    ///
    /// # Errors
    /// `ENOENT` or the like if there is no such file.
    pub fn cached(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let tree = &hold(&self.machine).disk.tree;
        Ok(tree.content(tree.inode(path.as_ref())?)?.cached_bytes())
    }

    /// What the disk surely holds of a file that has this name in the cache.
    ///
    /// # Errors
    /// `ENOENT` or the like if there is no such file.
    pub fn durable(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let tree = &hold(&self.machine).disk.tree;
        Ok(tree.content(tree.inode(path.as_ref())?)?.durable_bytes())
    }

    /// Whether the process that runs now was answered an error when it synced the file.
    ///
    /// # Errors
    /// `ENOENT` or the like if there is no such file.
    pub fn has_failed(&self, path: impl AsRef<Path>) -> io::Result<bool> {
        let machine = hold(&self.machine);
        let tree = &machine.disk.tree;
        let content = tree.content(tree.inode(path.as_ref())?)?;
        Ok(content.failed_in == Some(machine.life))
    }

    /// The paths of all regular files, sorted.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let tree = &hold(&self.machine).disk.tree;
        let files = tree.paths().into_iter().filter(|(_, inode)| tree.content(*inode).is_ok());
        files.map(|(path, _)| path).collect()
    }

    /// A path that leads to an inode in the cache, for what a [`Chooser`] was asked; none without a name.
    #[must_use]
    pub fn path_of(&self, inode: u64) -> Option<PathBuf> {
        let tree = &hold(&self.machine).disk.tree;
        tree.paths().into_iter().find_map(|(path, at)| (at == inode).then_some(path))
    }

    /// A hash of all names, lengths and bytes that reads show, and of what is mounted where: to count distinct images.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let tree = &hold(&self.machine).disk.tree;
        let mut hash = Hash::default();
        for (depth, name, inode) in tree.names() {
            hash.word(depth);
            hash.bytes(name.as_encoded_bytes());
            if tree.is_mount_point(inode) {
                hash.word(tree.device(inode));
            }
            if let Ok(content) = tree.content(inode) {
                hash.word(content.fingerprint());
            }
        }
        hash.0
    }
}
