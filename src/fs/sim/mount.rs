//! Several devices in one tree, and how full each is.

use super::SimFileSystem;
use super::calls::hold;
use super::names::Inode;
use super::space::{Budget, Charges};
use crate::fs::Space;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// `st_dev`.
pub(super) type Device = u64;

/// The device of the root.
pub(super) const MAIN: Device = 1;

/// Which inode is on which device. An inode never leaves its own, but for a mount: names do not move across.
#[derive(Clone, Debug, Default)]
pub(super) struct Mounts {
    points: BTreeSet<Inode>,
    /// Those that are not on the main one.
    devices: BTreeMap<Inode, Device>,
}

impl Mounts {
    pub(super) fn device(&self, inode: Inode) -> Device {
        self.devices.get(&inode).copied().unwrap_or(MAIN)
    }

    pub(super) fn is_point(&self, inode: Inode) -> bool {
        self.points.contains(&inode)
    }

    pub(super) fn put(&mut self, inode: Inode, device: Device) {
        if device != MAIN {
            self.devices.insert(inode, device);
        }
    }

    pub(super) fn make_point(&mut self, inode: Inode) {
        self.points.insert(inode);
    }

    pub(super) fn forget(&mut self, inode: Inode) {
        self.devices.remove(&inode);
        self.points.remove(&inode);
    }

    pub(super) fn retain(&mut self, exists: impl Fn(Inode) -> bool) {
        self.devices.retain(|inode, _| exists(*inode));
        self.points.retain(|inode| exists(*inode));
    }
}

impl SimFileSystem {
    /// Mounts a device of its own at a directory, no operation: from now on it and all that is below it is there, what
    /// exists included. Every name that exists becomes durable. Gives the device's number, as metadata shows it.
    ///
    /// The device begins without a limit and with no special [`Charges`]; the `_at` calls set them. A rename from one to
    /// another device answers `EXDEV`; one of a mount point, and its removal, `EBUSY`. A mount stays through crashes, and
    /// forks and snapshots have it too.
    ///
    /// # Errors
    /// `ENOENT` or `ENOTDIR` if there is no such directory; `EBUSY` if it is the root, or a mount point already.
    pub fn mount(&self, dir: impl AsRef<Path>) -> io::Result<u64> {
        hold(&self.machine).mount(dir.as_ref())
    }

    /// Sets the size of the main device in bytes; `None` is no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        hold(&self.machine).disk.budgets.of_mut(MAIN).capacity = bytes;
    }

    /// Keeps so many bytes of the main device for root: an ordinary process cannot use them, and free-space queries leave
    /// them out.
    pub fn set_root_share(&self, bytes: u64) {
        hold(&self.machine).disk.budgets.of_mut(MAIN).root_share = bytes;
    }

    /// Sets what costs blocks on the main device.
    pub fn set_charges(&self, charges: Charges) {
        hold(&self.machine).disk.budgets.of_mut(MAIN).charges = charges;
    }

    /// Bytes of disk blocks in use on the main device.
    #[must_use]
    pub fn used(&self) -> u64 {
        hold(&self.machine).disk.budgets.of(MAIN).used
    }

    /// Sets what free-space queries answer for the main device; `None` is the truth.
    pub fn set_space(&self, space: Option<Space>) {
        hold(&self.machine).disk.budgets.of_mut(MAIN).told = space;
    }

    /// [`SimFileSystem::set_capacity`] of the device that `path` is on.
    ///
    /// # Errors
    /// `ENOENT` or the like if nothing stands there.
    pub fn set_capacity_at(&self, path: impl AsRef<Path>, bytes: Option<u64>) -> io::Result<()> {
        self.budget_at(path.as_ref(), |budget| budget.capacity = bytes)
    }

    /// [`SimFileSystem::set_charges`] of the device that `path` is on.
    ///
    /// # Errors
    /// `ENOENT` or the like if nothing stands there.
    pub fn set_charges_at(&self, path: impl AsRef<Path>, charges: Charges) -> io::Result<()> {
        self.budget_at(path.as_ref(), |budget| budget.charges = charges)
    }

    /// [`SimFileSystem::used`] of the device that `path` is on.
    ///
    /// # Errors
    /// `ENOENT` or the like if nothing stands there.
    pub fn used_at(&self, path: impl AsRef<Path>) -> io::Result<u64> {
        self.budget_at(path.as_ref(), |budget| budget.used)
    }

    /// [`SimFileSystem::set_space`] of the device that `path` is on.
    ///
    /// # Errors
    /// `ENOENT` or the like if nothing stands there.
    pub fn set_space_at(&self, path: impl AsRef<Path>, space: Option<Space>) -> io::Result<()> {
        self.budget_at(path.as_ref(), |budget| budget.told = space)
    }

    fn budget_at<T>(&self, path: &Path, act: impl FnOnce(&mut Budget) -> T) -> io::Result<T> {
        let disk = &mut hold(&self.machine).disk;
        let device = disk.tree.device(disk.tree.inode(path)?);
        Ok(act(disk.budgets.of_mut(device)))
    }
}
