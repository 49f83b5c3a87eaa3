//! A budget of disk blocks for each device.

use super::image::PAGE;
use super::mount::{Device, MAIN};
use crate::fs::Space;
use crate::planted::{self, Fault};

/// What costs blocks beside filling a new one, and when a full disk shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charges {
    /// Overwriting a block takes a new one until the next sync: btrfs, ZFS, shared extents, snapshots.
    pub overwrites: bool,
    /// No flag of a file changes that: [`File::no_copy_on_write`](crate::fs::File::no_copy_on_write) answers `false`
    /// (ZFS). Without `overwrites` it always does (ext4, XFS).
    pub no_flag: bool,
    /// Allocating makes a file longer and takes no blocks, though it answers `Ok`: some file systems only pretend.
    pub pretends: bool,
    /// Blocks that each file and directory takes for its inode, as XFS may.
    pub create: u32,
    /// Blocks that must be free for a rename, and are free again after it: btrfs.
    pub rename: u32,
    /// Buffered writes never fail for want of space, syncs do: a thin device under the file system.
    pub at_sync: bool,
}

/// How full each device is. The main one is always there, and none goes.
#[derive(Clone, Debug)]
pub(super) struct Budgets {
    main: Budget,
    mounted: Vec<Budget>,
}

impl Budgets {
    pub(super) fn new() -> Self {
        Self { main: Budget::default(), mounted: Vec::new() }
    }

    /// Adds a device without a limit and without special charges.
    pub(super) fn add(&mut self) -> Device {
        self.mounted.push(Budget::default());
        MAIN + self.mounted.len() as Device
    }

    pub(super) fn of(&self, device: Device) -> &Budget {
        match Self::index(device) {
            Some(at) => &self.mounted[at],
            None => &self.main,
        }
    }

    pub(super) fn of_mut(&mut self, device: Device) -> &mut Budget {
        match Self::index(device) {
            Some(at) => &mut self.mounted[at],
            None => &mut self.main,
        }
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Budget> {
        std::iter::once(&mut self.main).chain(&mut self.mounted)
    }

    fn index(device: Device) -> Option<usize> {
        device.checked_sub(MAIN + 1).and_then(|at| usize::try_from(at).ok())
    }
}

/// How full a device is.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    /// Bytes; none is no limit.
    pub(super) capacity: Option<u64>,
    /// Bytes of it that only root may use; the simulated process is not root.
    pub(super) root_share: u64,
    pub(super) used: u64,
    pub(super) charges: Charges,
    /// What a free-space query answers instead of the truth.
    pub(super) told: Option<Space>,
}

/// Size shown where there is no limit.
const UNLIMITED: u64 = 1 << 40;
const INODES: u64 = 1 << 20;

impl Budget {
    pub(super) fn has(&self, blocks: usize) -> bool {
        self.capacity.is_none_or(|capacity| {
            let needed = self.used.saturating_add(blocks as u64 * PAGE as u64);
            needed <= capacity.saturating_sub(self.root_share)
        })
    }

    pub(super) fn take(&mut self, blocks: usize) {
        self.used += blocks as u64 * PAGE as u64;
    }

    pub(super) fn free(&mut self, blocks: usize) {
        self.used = self.used.saturating_sub(blocks as u64 * PAGE as u64);
    }

    pub(super) fn space(&self, inodes: u64) -> Space {
        let total = self.capacity.unwrap_or(UNLIMITED);
        let root_share =
            if planted::is(Fault::FreeSpaceFromRootsShare) { 0 } else { self.root_share };
        let free = total.saturating_sub(self.used);
        let available = free.saturating_sub(root_share);
        self.told.unwrap_or(Space {
            total,
            available,
            withheld: free - available,
            inodes: INODES,
            inodes_available: INODES.saturating_sub(inodes),
            inodes_from_blocks: false,
        })
    }
}
