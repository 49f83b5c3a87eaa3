//! Files go from log to log on each kind of file system.

use crate::lab::{End, Generations, Lab, with_budget};
use crate::or_skip;
use faultlab::mounts::{ENOUGH, Mount};
use plimsoll::WriteClass;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Whether blocks of the file are overwritten in place, as `lsattr` shows it.
fn overwritten_in_place(path: &Path) -> bool {
    const FS_NOCOW_FL: libc::c_int = 0x0080_0000;
    let file = std::fs::File::open(path).unwrap();
    let mut flags: libc::c_int = 0;
    // SAFETY: the file is open, and `flags` has the size that the kernel fills in.
    let told = unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags) };
    assert_eq!(told, 0, "{}: {}", path.display(), std::io::Error::last_os_error());
    flags & FS_NOCOW_FL != 0
}

#[test]
fn files_of_one_log_serve_others_and_nothing_is_lost() {
    let name = "files_of_one_log_serve_others_and_nothing_is_lost";
    let kinds = [
        ("ext4", Mount::ext4(ENOUGH)),
        ("xfs", Mount::xfs(ENOUGH)),
        ("btrfs", Mount::btrfs(ENOUGH)),
        ("tmpfs", Mount::tmpfs(128 << 20)),
    ];
    for (kind, mount) in kinds {
        let Some(mount) = or_skip(&format!("{name}/{kind}"), mount) else { continue };
        let dir = mount.path().join("data");
        let mut generations = Generations::default();
        let mut lab = Lab::open(&[&dir], with_budget(25));
        for log in 0..4 {
            lab.add(&format!("queue-{log}"), 0);
        }
        let mut reused = 0;
        for (life, end) in [End::Dropped, End::Closed, End::Dropped].iter().enumerate() {
            for _ in 0..2 {
                // Through tiny and small files into the second main one, and out again.
                let fill = |count| {
                    move |journal: &mut crate::lab::Journal| {
                        for _ in 0..count {
                            journal.publish(WriteClass::Publish, 32, 8000).unwrap();
                        }
                    }
                };
                lab.each(fill(8));
                generations.look(&dir);
                lab.check();
                lab.each(|journal| {
                    journal.truncate(1);
                });
            }
            let stats = lab.pool(0);
            assert!(stats.taken_reused > 0, "{kind}, life {life}: {stats:?}");
            assert_eq!(stats.reserves, Some(true), "{kind}");
            reused += stats.taken_reused;
            generations.look(&dir);
            lab.restart(*end);
            lab.settled(0);
            generations.look(&dir);
        }
        let stats = lab.pool(0);
        assert!(stats.stamped_again > 0, "{kind}: {stats:?}");
        let highest = generations.look(&dir);
        assert!(highest > 2, "{kind}: {highest}");
        // Nothing makes or names a file any more.
        drop(lab);
        if kind == "btrfs" {
            for file in crate::lab::files(&dir) {
                assert!(overwritten_in_place(&file), "{}", file.display());
            }
        }
        println!("{kind}: {reused} files taken again, generation {highest}");
    }
}
