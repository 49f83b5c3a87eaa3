//! Small mounts for tests of full disks; a test that cannot have one is named and counted as skipped.
#![allow(dead_code, reason = "each test binary uses a part")]

#[allow(unreachable_pub, reason = "a file of the fault lab's, where it is public")]
#[path = "../../../faultlab/src/mounts.rs"]
mod mounts;
#[path = "../../../../tests/common/skip.rs"]
mod skip;

pub(crate) use mounts::Mount;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The mount, or `None` after saying that the test `name` was skipped.
pub(crate) fn or_skip(name: &str, mount: Result<Mount, String>) -> Option<Mount> {
    mount.inspect_err(|reason| skip::skip(name, reason)).ok()
}

/// One in memory with few inodes.
pub(crate) fn with_inodes(mount: &Mount, inodes: u64) {
    let options = format!("remount,nr_inodes={inodes}");
    mounts::run(Command::new("mount").args(["-o", &options]).arg(mount.path())).unwrap();
}

/// What another process has on the disk: a file of `bytes`, written.
pub(crate) fn filler(mount: &Path, bytes: usize) -> PathBuf {
    let path = mount.join("filler");
    std::fs::write(&path, vec![b'x'; bytes]).unwrap();
    path
}
