//! The state behind a simulated file system: the disk with its cache, the process that uses it, and what is to go wrong.

use super::choose::{Chooser, SplitMix};
use super::fault::{Faults, Op, OpKind, Reached, What};
use super::image::{spans, split};
use super::mount::Device;
use super::names::Inode;
use super::space::{Budget, Budgets};
use super::tree::{Node, Tree, errno};
use super::{Profile, dead};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// No file is longer than this, or a wild position would take all memory.
pub(super) const MOST_BYTES: u64 = 1 << 36;

fn fits(len: u64) -> io::Result<()> {
    if len > MOST_BYTES { Err(errno(libc::EFBIG)) } else { Ok(()) }
}

/// What outlives a process, and is copied by a fork.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    pub(super) tree: Tree,
    pub(super) budgets: Budgets,
    pub(super) profile: Profile,
    pub(super) random: SplitMix,
    pub(super) ops: u64,
    pub(super) read_only: bool,
    /// It has no direct writes.
    pub(super) buffered_only: bool,
}

/// The disk, and who uses it now.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) disk: Disk,
    /// Which process this is; handles of an earlier one are dead.
    pub(super) life: u64,
    pub(super) dead: bool,
    open: BTreeMap<Inode, u32>,
    locks: BTreeSet<Inode>,
    pub(super) faults: Faults,
    /// The operation at which the process dies, and what a write puts into the cache before.
    pub(super) crash: Option<(u64, usize)>,
    pub(super) trace: Option<Vec<Op>>,
}

/// How an operation goes on after it was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    /// As it should.
    On,
    /// With at most so many bytes.
    Short(usize),
    /// So many bytes are written, then the process is dead.
    Die(usize),
    /// It is done, then answers with this number.
    DoneThen(i32),
    /// A write-back fails.
    FailSync(i32, Reached),
    /// It answers `Ok` without doing it.
    Lie,
}

/// How a write goes to the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// It goes to the device at once, which may have no room for it.
    pub(super) direct: bool,
    /// It never gets there.
    pub(super) lost: bool,
}

/// What is asked for, before it is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    pub(super) kind: OpKind,
    pub(super) path: &'a Path,
    pub(super) to: Option<&'a Path>,
    pub(super) position: u64,
    pub(super) len: u64,
}

impl<'a> Ask<'a> {
    pub(super) fn path(kind: OpKind, path: &'a Path) -> Self {
        Self { kind, path, to: None, position: 0, len: 0 }
    }
}

impl Machine {
    pub(super) fn new(disk: Disk) -> Self {
        Self {
            disk,
            life: 0,
            dead: false,
            open: BTreeMap::new(),
            locks: BTreeSet::new(),
            faults: Faults::default(),
            crash: None,
            trace: None,
        }
    }

    /// Counts an operation of process `life` and says how it goes on.
    pub(super) fn begin(&mut self, life: u64, ask: Ask<'_>) -> io::Result<Go> {
        if life != self.life || self.dead {
            return Err(dead());
        }
        let number = self.disk.ops;
        if let Some((at, bytes)) = self.crash
            && number >= at
        {
            self.dead = true;
            return if ask.kind == OpKind::Write { Ok(Go::Die(bytes)) } else { Err(dead()) };
        }
        self.disk.ops += 1;
        if let Some(trace) = &mut self.trace {
            trace.push(Op {
                number,
                kind: ask.kind,
                path: ask.path.to_path_buf(),
                to: ask.to.map(Path::to_path_buf),
                position: ask.position,
                len: ask.len,
            });
        }
        if self.disk.read_only && ask.kind.changes() {
            return Err(errno(libc::EROFS));
        }
        let lies = matches!(ask.kind, OpKind::Write | OpKind::Sync | OpKind::SyncDir);
        let transfers = matches!(ask.kind, OpKind::Read | OpKind::Write);
        match self.faults.strike(number, ask.kind, ask.path, ask.to) {
            Some(What::Errno(code)) if ask.kind == OpKind::Sync => {
                Ok(Go::FailSync(code, Reached::Nothing))
            }
            Some(What::FailedSync { errno: code, reached }) if ask.kind == OpKind::Sync => {
                Ok(Go::FailSync(code, reached))
            }
            Some(What::Errno(code) | What::FailedSync { errno: code, .. }) => Err(errno(code)),
            Some(What::Interrupted) => Err(errno(libc::EINTR)),
            Some(What::Short(bytes)) if transfers => Ok(Go::Short(bytes)),
            Some(What::DoneThen(code)) => Ok(Go::DoneThen(code)),
            Some(What::ReadOnly) => {
                self.disk.read_only = true;
                Err(errno(libc::EIO))
            }
            Some(What::Lie) if lies => Ok(Go::Lie),
            Some(What::Short(_) | What::Lie) | None => Ok(Go::On),
        }
    }

    /// The number of the operation that was counted last, for what it changes.
    pub(super) fn current_op(&self) -> u64 {
        self.disk.ops.saturating_sub(1)
    }

    /// The budget that a file's blocks come from.
    fn budget_of(&mut self, inode: Inode) -> &mut Budget {
        let device = self.disk.tree.device(inode);
        self.disk.budgets.of_mut(device)
    }

    /// `at_once`: no later sync tells of it.
    fn charge(&mut self, device: Device, blocks: usize, at_once: bool) -> io::Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        match self.faults.strike_charge() {
            Some(What::Errno(code)) => return Err(errno(code)),
            Some(_) => return Err(errno(libc::ENOSPC)),
            None => {}
        }
        let budget = self.disk.budgets.of_mut(device);
        if (at_once || !budget.charges.at_sync) && !budget.has(blocks) {
            return Err(errno(libc::ENOSPC));
        }
        budget.take(blocks);
        Ok(())
    }

    fn charge_file(&mut self, inode: Inode, blocks: usize) -> io::Result<()> {
        self.charge(self.disk.tree.device(inode), blocks, false)
    }

    pub(super) fn charge_create(&mut self, dir: Inode) -> io::Result<()> {
        let blocks = self.budget_of(dir).charges.create as usize;
        self.charge_file(dir, blocks)
    }

    pub(super) fn charge_rename(&mut self, device: Device) -> io::Result<()> {
        let blocks = self.disk.budgets.of(device).charges.rename as usize;
        self.charge(device, blocks, false)?;
        self.disk.budgets.of_mut(device).free(blocks);
        Ok(())
    }

    /// Writes as much as there is room for.
    pub(super) fn write(
        &mut self,
        inode: Inode,
        position: u64,
        bytes: &[u8],
        how: How,
    ) -> io::Result<usize> {
        fits(position.saturating_add(bytes.len() as u64))?;
        let mut room = bytes.len();
        let mut refused = None;
        for (page, _, part) in spans(position, bytes.len()) {
            if let Err(error) = self.enter_page(inode, page, part.len(), how.direct) {
                room = part.start;
                refused = Some(error);
                break;
            }
        }
        if let Some(error) = refused.filter(|_| room == 0) {
            return Err(error);
        }
        let content = self.disk.tree.content_mut(inode)?;
        if how.lost {
            content.write_lost(position, &bytes[..room]);
        } else {
            content.write(position, &bytes[..room]);
        }
        Ok(room)
    }

    /// Gets ready to write `count` bytes of a page.
    fn enter_page(
        &mut self,
        inode: Inode,
        page: usize,
        count: usize,
        direct: bool,
    ) -> io::Result<()> {
        let device = self.disk.tree.device(inode);
        let content = self.disk.tree.content(inode)?;
        if !content.takes(page, count) {
            return Err(errno(libc::EIO));
        }
        let (new, again) = (!content.blocks.contains(&page), content.is_dirty(page));
        let in_place = content.in_place || !self.budget_of(inode).charges.overwrites;
        if new {
            self.charge(device, 1, direct)?;
            self.disk.tree.content_mut(inode)?.blocks.insert(page);
        } else if !in_place && !again {
            self.charge(device, 1, direct)?;
            let content = self.disk.tree.content_mut(inode)?;
            content.copies += 1;
            content.moves += u64::from(page == 0);
        }
        Ok(())
    }

    pub(super) fn allocate(&mut self, inode: Inode, len: u64) -> io::Result<()> {
        fits(len)?;
        let content = self.disk.tree.content(inode)?;
        let (whole, rest) = split(len);
        let pages = whole + usize::from(rest > 0);
        let missing = pages - content.blocks.range(..pages).count();
        let pretends = self.budget_of(inode).charges.pretends;
        if !pretends {
            self.charge_file(inode, missing)?;
        }
        let content = self.disk.tree.content_mut(inode)?;
        if !pretends {
            content.blocks.extend(0..pages);
        }
        if len > content.len() {
            content.set_len(len);
        }
        Ok(())
    }

    pub(super) fn set_len(&mut self, inode: Inode, len: u64) -> io::Result<()> {
        fits(len)?;
        let content = self.disk.tree.content_mut(inode)?;
        let before = content.blocks.len();
        content.set_len(len);
        let freed = before - content.blocks.len();
        self.budget_of(inode).free(freed);
        Ok(())
    }

    /// Sets the flag of an empty file, where overwrites are charged and there is such a flag. It is durable at once:
    /// without it a file costs more, and reads the same.
    pub(super) fn no_copy_on_write(&mut self, inode: Inode) -> io::Result<bool> {
        let charges = self.budget_of(inode).charges;
        let has_flag = charges.overwrites && !charges.no_flag;
        let content = self.disk.tree.content_mut(inode)?;
        content.in_place |= has_flag && content.len() == 0;
        Ok(has_flag && content.in_place)
    }

    /// `seen` is how many failed write-backs of the file its handle knows of.
    pub(super) fn sync(&mut self, inode: Inode, seen: &mut u64, go: Go) -> io::Result<()> {
        let synced = self.write_back(inode, seen, go);
        if synced.is_err() {
            self.disk.tree.content_mut(inode)?.failed_in = Some(self.life);
        }
        synced
    }

    fn write_back(&mut self, inode: Inode, seen: &mut u64, go: Go) -> io::Result<()> {
        let budget = self.budget_of(inode);
        let full = budget.charges.at_sync && !budget.has(0);
        let go = if go == Go::On && full && self.disk.tree.content(inode)?.is_pending() {
            Go::FailSync(libc::ENOSPC, Reached::Nothing)
        } else {
            go
        };
        let content = self.disk.tree.content_mut(inode)?;
        match go {
            Go::Lie => return Ok(()),
            Go::FailSync(code, reached) => {
                self.fail_write_back(inode, reached)?;
                let content = self.disk.tree.content_mut(inode)?;
                content.error_seen = true;
                *seen = content.errors;
                return Err(errno(code));
            }
            _ => {}
        }
        if *seen < content.errors {
            content.error_seen = true;
            *seen = content.errors;
            return Err(errno(libc::EIO));
        }
        content.sync();
        let copies = std::mem::take(&mut content.copies);
        self.budget_of(inode).free(copies);
        match go {
            Go::DoneThen(code) => Err(errno(code)),
            _ => Ok(()),
        }
    }

    /// What `RWF_DSYNC` does after a direct write of these pages.
    pub(super) fn sync_pages(
        &mut self,
        inode: Inode,
        pages: &[usize],
        seen: &mut u64,
        go: Go,
    ) -> io::Result<()> {
        let synced = self.make_durable(inode, pages, seen, go);
        if synced.is_err() {
            self.disk.tree.content_mut(inode)?.failed_in = Some(self.life);
        }
        synced
    }

    fn make_durable(
        &mut self,
        inode: Inode,
        pages: &[usize],
        seen: &mut u64,
        go: Go,
    ) -> io::Result<()> {
        let sectors = self.disk.profile.sectors;
        let content = self.disk.tree.content_mut(inode)?;
        match go {
            Go::Lie => return Ok(()),
            Go::FailSync(code, reached) => {
                reached.choose(|chooser| content.fail_pages(inode, pages, sectors, chooser));
                return Err(errno(code));
            }
            _ => {}
        }
        // An earlier write-back's error is told here too.
        if *seen < content.errors {
            content.error_seen = true;
            *seen = content.errors;
            return Err(errno(libc::EIO));
        }
        content.sync_pages(pages);
        let copies = std::mem::take(&mut content.copies);
        self.budget_of(inode).free(copies);
        match go {
            Go::DoneThen(code) => Err(errno(code)),
            _ => Ok(()),
        }
    }

    pub(super) fn fail_write_back(&mut self, inode: Inode, reached: Reached) -> io::Result<()> {
        let sectors = self.disk.profile.sectors;
        let content = self.disk.tree.content_mut(inode)?;
        reached.choose(|chooser| content.fail_sync(inode, sectors, chooser));
        content.errors += 1;
        content.error_seen = false;
        let copies = std::mem::take(&mut content.copies);
        self.budget_of(inode).free(copies);
        Ok(())
    }

    /// Opens a handle; gives how many failed write-backs it knows of. One that nobody was told of is not yet known.
    pub(super) fn open(&mut self, inode: Inode) -> io::Result<u64> {
        let content = self.disk.tree.content(inode)?;
        let seen =
            if content.error_seen { content.errors } else { content.errors.saturating_sub(1) };
        *self.open.entry(inode).or_default() += 1;
        Ok(seen)
    }

    pub(super) fn close(&mut self, life: u64, inode: Inode) {
        if life != self.life {
            return;
        }
        if let Some(count) = self.open.get_mut(&inode) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&inode);
                self.free_unreachable(inode);
            }
        }
    }

    /// Gives back the blocks of a file that has neither a name nor a handle. The inode stays while the disk may still
    /// give it its name back.
    pub(super) fn free_unreachable(&mut self, inode: Inode) {
        if self.disk.tree.is_named(inode) || self.open.contains_key(&inode) {
            return;
        }
        let content = self.disk.tree.content(inode);
        let blocks = content.map_or(0, |content| content.blocks.len() + content.copies);
        let budget = self.budget_of(inode);
        budget.free(blocks + budget.charges.create as usize);
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        self.disk.tree.sync_dir(path)?;
        let open = &self.open;
        self.disk.tree.collect(|inode| open.contains_key(&inode));
        Ok(())
    }

    pub(super) fn lock(&mut self, inode: Inode) -> io::Result<()> {
        if self.locks.insert(inode) { Ok(()) } else { Err(errno(libc::EWOULDBLOCK)) }
    }

    pub(super) fn unlock(&mut self, life: u64, inode: Inode) {
        if life == self.life {
            self.locks.remove(&inode);
        }
    }

    /// A new process; all handles and locks of the old one are gone.
    pub(super) fn process_death(&mut self) {
        self.life += 1;
        self.dead = false;
        self.crash = None;
        self.locks.clear();
        for inode in std::mem::take(&mut self.open).into_keys() {
            self.free_unreachable(inode);
        }
    }

    pub(super) fn power_cut(&mut self, chooser: &mut dyn Chooser) {
        self.process_death();
        let Profile { sectors, names } = self.disk.profile;
        self.disk.tree.power_cut(sectors, names, chooser);
        self.disk.read_only = false;
        self.count_used();
    }

    fn count_used(&mut self) {
        let Disk { tree, budgets, .. } = &mut self.disk;
        budgets.all_mut().for_each(|budget| budget.used = 0);
        for (inode, node) in tree.nodes() {
            let budget = budgets.of_mut(tree.device(inode));
            let blocks = match node {
                Node::File(content) => content.blocks.len() + content.copies,
                _ => 0,
            };
            let made = if tree.is_device_root(inode) { 0 } else { budget.charges.create as usize };
            budget.take(blocks + made);
        }
    }

    pub(super) fn mount(&mut self, path: &Path) -> io::Result<Device> {
        let mut budgets = self.disk.budgets.clone();
        let device = budgets.add();
        self.disk.tree.mount(path, device)?;
        self.disk.budgets = budgets;
        // Every name is settled, so what has neither a name nor a handle does not come back and is not counted.
        let open = &self.open;
        self.disk.tree.collect(|inode| open.contains_key(&inode));
        self.count_used();
        Ok(device)
    }

    pub(super) fn evict(&mut self, inode: Inode) -> io::Result<()> {
        let open = self.open.contains_key(&inode);
        let content = self.disk.tree.content_mut(inode)?;
        content.evict();
        if !open {
            // With its inode the kernel forgets an error that nobody was told of.
            content.error_seen = true;
        }
        Ok(())
    }

    /// Replaces the disk; the process that used the old one is gone.
    pub(super) fn replace(&mut self, disk: Disk) {
        self.life += 1;
        self.dead = false;
        self.crash = None;
        self.locks.clear();
        self.open.clear();
        self.disk = disk;
    }
}
