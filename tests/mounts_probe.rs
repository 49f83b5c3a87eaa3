//! What real file systems do, each in a small mount of its own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

#[path = "common/skip.rs"]
mod skip;

use faultlab::mounts::{self, ENOUGH, Mount};
use plimsoll::fs::{File, FileSystem, OsFileSystem, Write, reserves};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// The mount, or `None` after saying that the test `name` was skipped.
fn or_skip(name: &str, mount: Result<Mount, String>) -> Option<Mount> {
    mount.inspect_err(|reason| skip::skip(name, reason)).ok()
}

fn is_mounted(dir: &Path) -> bool {
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

/// What a file shows that the probe goes by.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// Whether the flag was taken.
    flag: bool,
    /// Whether 64 KiB were allocated: not at all, in name only, or with blocks.
    allocated: &'static str,
    /// Whether its place is told, and whether an overwrite changed it.
    place: &'static str,
}

fn look(dir: &Path) -> Seen {
    let path = dir.join("look");
    let file = OsFileSystem.create(&path).unwrap();
    let flag = file.no_copy_on_write().unwrap();
    let allocated = match file.allocate(65_536) {
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => "refused",
        Err(error) => panic!("{error}"),
        Ok(()) if OsFileSystem.metadata(&path).unwrap().disk_bytes < 65_536 => "in name",
        Ok(()) => "blocks",
    };
    file.write_and_sync(&[Write { position: 0, bytes: &[1; 65_536] }]).unwrap();
    let before = file.place().unwrap();
    file.write_and_sync(&[Write { position: 0, bytes: &[2; 4096] }]).unwrap();
    let place = match (before, file.place().unwrap()) {
        (None, None) => "not told",
        (before, after) if before == after => "stays",
        _ => "moves",
    };
    OsFileSystem.remove_file(&path).unwrap();
    Seen { flag, allocated, place }
}

/// A kind of `mkfs`, mount options, the attribute that the directory gets, and what is to be seen and told there.
type Row = (&'static str, &'static str, &'static str, Seen, bool);

#[test]
fn probe_tells_by_behaviour_which_file_systems_reserve() {
    let name = "probe_tells_by_behaviour_which_file_systems_reserve";
    let seen = |flag, allocated, place| Seen { flag, allocated, place };
    let rows: [Row; 9] = [
        ("ext4", "", "", seen(false, "blocks", "stays"), true),
        ("xfs", "", "", seen(false, "blocks", "stays"), true),
        ("tmpfs", "", "", seen(false, "blocks", "not told"), true),
        // Without extents there is no way to reserve.
        ("ext2", "", "", seen(false, "refused", "stays"), false),
        ("btrfs", "", "", seen(true, "blocks", "stays"), true),
        ("btrfs", "datacow", "", seen(true, "blocks", "stays"), true),
        ("btrfs", "nodatacow", "", seen(true, "blocks", "stays"), true),
        ("btrfs", "compress-force", "", seen(true, "blocks", "stays"), true),
        // Compression that the directory asks for excludes the flag, and so shows what btrfs does without it.
        ("btrfs", "", "+c", seen(false, "blocks", "moves"), false),
    ];
    println!("kind   options         dir  flag   allocated  place     reserves");
    for (kind, options, attribute, expected, reserved) in rows {
        let mount = match kind {
            "tmpfs" => Mount::tmpfs(1 << 20),
            _ => Mount::image(kind, ENOUGH, options),
        };
        let case = format!("{name}/{kind} {options}{attribute}");
        let Some(mount) = or_skip(case.trim_end(), mount) else { continue };
        let dir = mount.path().join("dir");
        OsFileSystem.create_dir(&dir).unwrap();
        if !attribute.is_empty() {
            mounts::run(Command::new("chattr").arg(attribute).arg(&dir)).unwrap();
        }
        let told = reserves(&OsFileSystem, &dir).unwrap();
        let found = look(&dir);
        let Seen { flag, allocated, place } = &found;
        println!("{kind:6} {options:15} {attribute:4} {flag:5}  {allocated:9}  {place:8}  {told}");
        assert_eq!((found, told), (expected, reserved), "{case}");
        assert!(OsFileSystem.list(&dir).unwrap().is_empty(), "{case}");
    }
}

/// Takes the last block, the share kept for root included; gives the files that have them and their bytes.
fn fill(dir: &Path) -> (Vec<Arc<dyn File>>, u64) {
    let (mut files, mut bytes) = (Vec::new(), 0);
    // Several files: XFS refuses to make one longer while it still has blocks for another.
    loop {
        let Ok(file) = OsFileSystem.create(&dir.join(format!("fill-{}", files.len()))) else {
            break;
        };
        let mut len: u64 = 0;
        for step in [1 << 20, 1 << 16, 1 << 12] {
            while let Ok(()) = file.allocate(len + step) {
                len += step;
            }
        }
        file.sync().unwrap();
        files.push(file);
        bytes += len;
        if len == 0 {
            break;
        }
    }
    (files, bytes)
}

/// The promise behind the answer: where it is `true`, files of before take any number of overwrites on a full disk.
#[test]
fn what_reserves_is_overwritten_on_a_full_file_system() {
    let name = "what_reserves_is_overwritten_on_a_full_file_system";
    let fs = OsFileSystem;
    let kinds = [
        ("ext4", Mount::ext4(64 << 20)),
        ("xfs", Mount::xfs(ENOUGH)),
        ("tmpfs", Mount::tmpfs(16 << 20)),
        ("btrfs", Mount::btrfs(ENOUGH)),
        ("btrfs compress-force", Mount::image("btrfs", ENOUGH, "compress-force")),
    ];
    // Little, as a full btrfs looks for other space at each write first: hundreds of times slower than with room.
    const LEN: usize = 1 << 20;
    for (kind, mount) in kinds {
        let Some(mount) = or_skip(&format!("{name}/{kind}"), mount) else { continue };
        assert!(reserves(&fs, mount.path()).unwrap(), "{kind}");
        let file = fs.create(&mount.path().join("file")).unwrap();
        file.no_copy_on_write().unwrap();
        file.allocate(LEN as u64).unwrap();
        file.write_and_sync(&[Write { position: 0, bytes: &vec![1; LEN] }]).unwrap();
        let (files, bytes) = fill(mount.path());
        let more = fs.create(&mount.path().join("more"));
        let refused = more.and_then(|more| more.allocate(65_536)).is_err();
        assert!(refused, "{kind} is not full");
        for round in 2..5 {
            let written = file.write_and_sync(&[Write { position: 0, bytes: &vec![round; LEN] }]);
            assert!(written.is_ok(), "{kind}, round {round}: {written:?}");
        }
        println!("{kind}: overwritten beside {} files of {} MiB", files.len(), bytes >> 20);
    }
}

#[test]
fn probe_on_a_full_file_system_says_so_and_leaves_nothing() {
    let name = "probe_on_a_full_file_system_says_so_and_leaves_nothing";
    let fs = OsFileSystem;
    for mount in [Mount::tmpfs(1 << 20), Mount::ext4(16 << 20)] {
        let Some(mount) = or_skip(name, mount) else { continue };
        let (files, _) = fill(mount.path());
        let error = reserves(&fs, mount.path()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        let names = fs.list(mount.path()).unwrap();
        assert!(names.iter().all(|entry| entry.name != "probe.tmp"), "{names:?}");
        files.iter().for_each(|file| file.set_len(0).unwrap());
        assert!(reserves(&fs, mount.path()).unwrap());
    }
}
