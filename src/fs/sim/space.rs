//! A budget of disk blocks.

use super::image::PAGE;
use crate::fs::Space;

/// What costs blocks beside filling a new one, and when a full disk shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charges {
    /// Overwriting a block takes a new one until the next sync: btrfs, ZFS, shared extents, snapshots.
    pub overwrites: bool,
    /// Blocks that each file and directory takes for its inode, as XFS may.
    pub create: u32,
    /// Blocks that must be free for a rename, and are free again after it: btrfs.
    pub rename: u32,
    /// Writes never fail for want of space, syncs do: a thin device under the file system.
    pub at_sync: bool,
}

/// How full the disk is.
#[derive(Clone, Debug, Default)]
pub(super) struct Budget {
    /// Bytes; none is no limit.
    pub(super) capacity: Option<u64>,
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
            self.used.saturating_add(blocks as u64 * PAGE as u64) <= capacity
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
        self.told.unwrap_or(Space {
            total,
            available: total.saturating_sub(self.used),
            inodes: INODES,
            inodes_available: INODES.saturating_sub(inodes),
        })
    }
}
