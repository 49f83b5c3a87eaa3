//! What real file systems do, each in a small mount of its own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

#[path = "common/mounts.rs"]
mod mounts;
#[path = "common/skip.rs"]
mod skip;

use mounts::{ENOUGH, Mount};
use plimsoll::fs::{FileSystem, OsFileSystem};
use std::path::PathBuf;

/// The mount, or `None` after saying that the test `name` was skipped.
fn or_skip(name: &str, mount: Result<Mount, String>) -> Option<Mount> {
    mount.inspect_err(|reason| skip::skip(name, reason)).ok()
}

fn is_mounted(dir: &PathBuf) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == dir.to_str())
}

#[test]
fn a_mount_is_there_until_it_is_dropped() {
    let name = "a_mount_is_there_until_it_is_dropped";
    let made = [
        ("ext4", Mount::ext4(16 << 20), 16 << 20),
        ("xfs", Mount::xfs(ENOUGH), ENOUGH),
        ("btrfs", Mount::btrfs(ENOUGH), ENOUGH),
        ("tmpfs", Mount::tmpfs(1 << 20), 1 << 20),
    ];
    for (kind, mount, bytes) in made {
        let Some(mount) = or_skip(&format!("{name}/{kind}"), mount) else { continue };
        let dir = mount.path().to_path_buf();
        assert!(is_mounted(&dir), "{kind}");
        let space = OsFileSystem.space(&dir).unwrap();
        assert!(space.total <= bytes && space.available > bytes / 4, "{kind}: {space:?}");
        // Neither a panic nor an open file leaves it behind.
        let open = OsFileSystem.create(&dir.join("open")).unwrap();
        let inside = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _mount = mount;
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(inside.is_err() && !is_mounted(&dir), "{kind}");
        drop(open);
        assert!(!dir.exists(), "{kind}");
    }
}

#[test]
fn a_bind_mount_makes_renames_answer_exdev_on_one_device() {
    let name = "a_bind_mount_makes_renames_answer_exdev_on_one_device";
    let temp = tempfile::tempdir().unwrap();
    let inside = temp.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    let Some(mount) = or_skip(name, Mount::bind(&inside)) else { return };
    let fs = OsFileSystem;
    let (from, to) = (temp.path().join("file"), mount.path().join("file"));
    drop(fs.create(&from).unwrap());
    let error = fs.rename(&from, &to).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EXDEV));
    assert_eq!(fs.metadata(&from).unwrap().device, fs.metadata(mount.path()).unwrap().device);
    drop(mount);
    fs.rename(&from, &to).unwrap();
}
