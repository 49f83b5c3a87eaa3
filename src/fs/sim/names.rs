//! Directory operations that are not yet durable, and which of them a power cut may keep.
//!
//! An operation is surely durable once *every* directory that it changes was synced after it. So a rename between two
//! directories needs both syncs: no promise of POSIX covers it with one, and whoever syncs only one learns it here.
//!
//! Which sets of operations may survive:
//!
//! - An operation needs the earlier ones on the same names: a name is taken only after what was there has gone. So the
//!   chain create, rename, rename keeps a prefix of itself, and no file loses both its names to one rename.
//! - Removing or replacing a directory needs all earlier operations in it, or a file moved out of it would be lost.
//! - What a surely durable operation needs by these two rules is surely durable itself.
//! - An operation in a directory whose making is lost is lost too. But a sync of that directory does not make its own
//!   name durable: then both the old and the new name of a file moved into it are gone.
//! - Each device has a journal of its own: with [`Names::Prefix`] an operation carries none of another device with it.
//! - Moving a directory needs the earlier moves of those above its new place, or two could end up inside each other.

use super::Names;
use super::choose::{Choice, Chooser, ask};
use super::mount::Device;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

pub(super) type Inode = u64;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) dir: Inode,
    pub(super) name: OsString,
}

impl Entry {
    pub(super) fn new(dir: Inode, name: &OsStr) -> Self {
        Self { dir, name: name.to_os_string() }
    }
}

/// One directory operation: a name goes, a name comes, or both at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    /// Number of the operation.
    pub(super) op: u64,
    /// Where its directories are; no operation changes those of two devices.
    pub(super) device: Device,
    pub(super) removed: Option<Entry>,
    pub(super) placed: Option<(Entry, Inode)>,
    /// The directory that it made.
    pub(super) made: Option<Inode>,
    /// The directory that it removed or replaced.
    pub(super) killed: Option<Inode>,
    /// For a directory that was moved: the directories above its new place.
    pub(super) above: Vec<Inode>,
    /// Directories still to be synced.
    pub(super) unsynced: Vec<Inode>,
    /// A later operation is surely durable: with a journal, then this one is too.
    pub(super) overtaken: bool,
}

impl Change {
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.removed.iter().chain(self.placed.iter().map(|(entry, _)| entry))
    }

    /// A directory that it changes.
    pub(super) fn dir(&self) -> Option<Inode> {
        self.entries().next().map(|entry| entry.dir)
    }

    fn touches(&self, dir: Inode) -> bool {
        self.entries().any(|entry| entry.dir == dir)
    }

    /// Whether this one cannot have happened without the `earlier` one.
    fn needs(&self, earlier: &Self) -> bool {
        self.entries().any(|entry| earlier.entries().any(|other| other == entry))
            || self.killed.is_some_and(|dir| earlier.touches(dir))
    }

    /// Whether this one is lost with the `earlier` one, though a sync of its own directories may still prove it.
    fn stands_on(&self, earlier: &Self) -> bool {
        let placed = earlier.placed.as_ref().map(|(_, inode)| inode);
        earlier.made.is_some_and(|dir| self.touches(dir))
            || placed.is_some_and(|inode| self.above.contains(inode))
    }
}

/// The operations that are not surely durable, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending(Vec<Arc<Change>>);

impl Pending {
    pub(super) fn push(&mut self, mut change: Change) {
        let mut dirs: Vec<Inode> = change.entries().map(|entry| entry.dir).collect();
        dirs.dedup();
        change.unsynced = dirs;
        self.0.push(Arc::new(change));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an operation may still give `inode` a name.
    pub(super) fn names(&self, inode: Inode) -> bool {
        self.0.iter().any(|change| change.placed.as_ref().is_some_and(|(_, at)| *at == inode))
    }

    /// Notes the sync of `dir`; gives what became surely durable by it, in order.
    pub(super) fn sync(&mut self, dir: Inode) -> Vec<Arc<Change>> {
        for change in &mut self.0 {
            if change.unsynced.contains(&dir) {
                Arc::make_mut(change).unsynced.retain(|unsynced| *unsynced != dir);
            }
        }
        let mut durable: Vec<bool> =
            self.0.iter().map(|change| change.unsynced.is_empty()).collect();
        for later in (0..durable.len()).rev() {
            for earlier in 0..later {
                durable[earlier] |= durable[later] && self.0[later].needs(&self.0[earlier]);
            }
        }
        let journal = |at: usize| self.0[at].device;
        let overtaken: Vec<bool> = (0..durable.len())
            .map(|at| (at + 1..durable.len()).any(|on| durable[on] && journal(on) == journal(at)))
            .collect();
        let (mut settled, mut left) = (Vec::new(), Vec::new());
        for (at, mut change) in std::mem::take(&mut self.0).into_iter().enumerate() {
            if durable[at] {
                settled.push(change);
            } else {
                if overtaken[at] && !change.overtaken {
                    Arc::make_mut(&mut change).overtaken = true;
                }
                left.push(change);
            }
        }
        self.0 = left;
        settled
    }

    /// Gives the operations that survive a power cut, in order, and forgets all.
    pub(super) fn cut(&mut self, names: Names, chooser: &mut dyn Chooser) -> Vec<Arc<Change>> {
        let mut changes = std::mem::take(&mut self.0);
        match names {
            Names::Prefix => {
                let devices: BTreeSet<Device> =
                    changes.iter().map(|change| change.device).collect();
                for device in devices {
                    let journal = changes.iter().filter(|change| change.device == device);
                    let surely: Vec<bool> = journal.map(|change| change.overtaken).collect();
                    let least = surely.iter().rposition(|surely| *surely).map_or(0, |at| at + 1);
                    let mut left = least + ask(chooser, Choice::Names, surely.len() - least + 1);
                    changes.retain(|change| {
                        let kept = change.device != device || left > 0;
                        left -= usize::from(change.device == device && left > 0);
                        kept
                    });
                }
                changes
            }
            Names::Subset => {
                let (mut kept, mut lost) = (Vec::new(), Vec::<Arc<Change>>::new());
                for change in changes {
                    let grounded =
                        !lost.iter().any(|lost| change.needs(lost) || change.stands_on(lost));
                    if grounded && ask(chooser, Choice::Name { op: change.op }, 2) == 1 {
                        kept.push(change);
                    } else {
                        lost.push(change);
                    }
                }
                kept
            }
        }
    }
}
