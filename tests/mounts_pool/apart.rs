//! A log whose directory no spare can be renamed into, as another mount stands there.

use crate::lab::{End, Journal, Lab, files, options};
use crate::or_skip;
use faultlab::mounts::{self, ENOUGH, Mount};
use plimsoll::error::{OpenError, Outcome};
use plimsoll::{LogName, WriteClass};
use std::path::Path;
use std::process::Command;

/// Appends batches of `count` records; gives how many were refused, each without a trace.
fn fill(journal: &mut Journal, batches: u64, count: u64) -> u64 {
    let mut refused = 0;
    for _ in 0..batches {
        while let Err(error) = journal.publish(WriteClass::Publish, count, 16_000) {
            assert_eq!(error.outcome(), Outcome::NotWritten, "{error:?}");
            refused += 1;
            assert!(refused < 3, "{error:?}");
        }
    }
    refused
}

/// Runs a node with the log `apart`, on whose directory something is mounted, and one beside it.
fn goes_on(case: &str, dir: &Path, mount: impl FnOnce(&Path) -> Option<Mount>) {
    let mut lab = Lab::open(&[dir], options());
    fill(lab.add("beside", 0), 12, 8);
    lab.restart(End::Closed);
    drop(lab);

    let place = dir.join("logs/apart");
    std::fs::create_dir(&place).unwrap();
    let Some(mounted) = mount(&place) else { return };
    let mut lab = Lab::open(&[dir], options());
    lab.add("apart", 0);
    let mut refused = 0;
    for end in [End::Dropped, End::Closed, End::Dropped] {
        let before = lab.pool(0);
        refused += fill(lab.journal("apart"), 24, 8);
        let segments = lab.journal("apart").log.segments().len();
        assert!(segments > 3, "{segments}");
        let freed = lab.journal("apart").truncate(1);
        assert!(freed > 2, "{freed}");
        let after = lab.pool(0);
        let deleted =
            |stats: &plimsoll::PoolStats| stats.deleted_not_renamed + stats.deleted_over_budget;
        assert!(after.given_up == before.given_up, "{case}: {before:?}, {after:?}");
        assert!(deleted(&after) >= deleted(&before) + freed, "{case}: {before:?}, {after:?}");
        lab.check();
        lab.restart(end);
        lab.settled(0);
        let log = &lab.journal("apart").log;
        assert_eq!(files(&place).len(), log.segments().len(), "{case}: {:?}", files(&place));
    }
    println!("{case}: {refused} refused of 72");
    assert_eq!(refused, 0, "{case}");

    // It cannot be moved to the trash; that is said, and costs nothing.
    let name = LogName::new("apart").unwrap();
    let error = lab.node().delete_log(&name).unwrap_err();
    assert!(
        matches!(&error, OpenError::Disk(disk) if disk.io().raw_os_error() == Some(libc::EBUSY))
    );
    lab.restart(End::Dropped);
    fill(lab.journal("apart"), 2, 8);
    lab.check();
    drop(lab);
    drop(mounted);
}

#[test]
fn a_log_behind_a_bind_mount_makes_its_files_itself() {
    let name = "a_log_behind_a_bind_mount_makes_its_files_itself";
    for (kind, mount) in [("tmpfs", Mount::tmpfs(64 << 20)), ("ext4", Mount::ext4(64 << 20))] {
        let case = format!("{name}/{kind}");
        let Some(mount) = or_skip(&case, mount) else { continue };
        goes_on(&case, &mount.path().join("data"), |place| or_skip(&case, Mount::bind(place)));
    }
}

#[test]
fn a_log_on_another_device_makes_its_files_itself() {
    let name = "a_log_on_another_device_makes_its_files_itself";
    let Some(mount) = or_skip(name, Mount::ext4(64 << 20)) else { return };
    let other = |place: &Path| or_skip(name, Mount::tmpfs_at(place, 32 << 20));
    goes_on(name, &mount.path().join("data"), other);
}

/// No mount stands between, so this shows only at the rename itself. A file that was there once can be renamed back.
#[test]
fn a_log_of_another_project_is_refused_once_and_then_makes_its_files_itself() {
    let name = "a_log_of_another_project_is_refused_once_and_then_makes_its_files_itself";
    let Some(mount) = or_skip(name, Mount::xfs(ENOUGH)) else { return };
    let dir = mount.path().join("data");
    let mut lab = Lab::open(&[&dir], options());
    lab.add("beside", 0);
    lab.add("apart", 0);
    let place = dir.join("logs/apart");
    mounts::run(Command::new("chattr").args(["-p", "7", "+P"]).arg(&place)).unwrap();
    for (life, end) in [End::Dropped, End::Closed, End::Dropped].iter().enumerate() {
        let refused = fill(lab.journal("apart"), 90, 1);
        assert!(refused == 1 || life > 0 && refused == 0, "life {life}: {refused}");
        assert_eq!(fill(lab.journal("beside"), 90, 1), 0);
        lab.check();
        assert!(lab.journal("apart").truncate(1) > 0);
        lab.restart(*end);
        lab.settled(0);
    }
}
