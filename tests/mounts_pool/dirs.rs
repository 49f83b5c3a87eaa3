//! Several nodes, and several data directories of one node: what they share, and what they do not.

use crate::lab::{End, Journal, Lab, files, options, with_budget};
use crate::or_skip;
use crate::outside::wait_for;
use faultlab::mounts::Mount;
use plimsoll::types::Fraction;
use plimsoll::{PoolStats, Size, WriteClass};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Fills each log with a few files, and empties it, twice.
fn come_and_go(lab: &mut Lab) {
    for _ in 0..2 {
        lab.each(|journal| {
            (0..20).for_each(|_| journal.publish(WriteClass::Publish, 8, 16_000).unwrap());
        });
        lab.each(|journal| {
            journal.truncate(1);
        });
    }
}

/// Waits until the worker has nothing to do for any of `dirs` directories.
fn quiet(lab: &Lab, dirs: usize) -> Vec<PoolStats> {
    wait_for("a quiet pool", || {
        let before: Vec<_> = (0..dirs).map(|at| lab.pool(at)).collect();
        let idle = |stats: &PoolStats| stats.coming == [0; 3] && stats.kept_back_missing == 0;
        std::thread::sleep(std::time::Duration::from_millis(100));
        let after: Vec<_> = (0..dirs).map(|at| lab.pool(at)).collect();
        (before.iter().all(idle) && before == after).then_some(after)
    })
}

/// Bytes of the files among the spares of a data directory, those that a log has reserved included.
fn on_disk(dir: &Path) -> u64 {
    files(&dir.join("spares")).iter().map(|file| std::fs::metadata(file).unwrap().len()).sum()
}

#[test]
fn two_nodes_in_one_process_share_nothing() {
    let name = "two_nodes_in_one_process_share_nothing";
    let Some(mount) = or_skip(name, Mount::tmpfs(128 << 20)) else { return };
    let (here, there) = (mount.path().join("here"), mount.path().join("there"));
    let mut one = Lab::open(&[&here], with_budget(20));
    let mut other = Lab::open(&[&there], with_budget(10));
    for log in ["a", "b", "c"] {
        one.add(log, 0);
        other.add(log, 0);
    }
    come_and_go(&mut other);
    let (before, held) = (quiet(&other, 1), files(&there));
    come_and_go(&mut one);
    quiet(&one, 1);
    assert!(one.pool(0).taken_reused > 0, "{:?}", one.pool(0));
    assert_eq!((before, held), (quiet(&other, 1), files(&there)));
    assert_eq!(one.pool(0).device, other.pool(0).device);
    assert_ne!(one.pool(0).budget, other.pool(0).budget);
    assert_eq!((one.pool(0).dir, other.pool(0).dir), (here.join("spares"), there.join("spares")));

    // Settings of one are not the other's, and neither needs the other.
    let mut none = one.node().limits();
    (none.pool.budget, none.pool.kept_back) = (Fraction::percent(0), Size(0));
    one.node().set_limits(none).unwrap();
    wait_for("no spares here", || (one.pool(0).ready == [0; 3]).then_some(()));
    assert!(other.pool(0).bytes > 0 && other.pool(0).kept_back_bytes > 0);
    other.restart(End::Dropped);
    one.check();
    drop(one);
    come_and_go(&mut other);
    other.restart(End::Closed);
    other.settled(0);
}

/// Two directories of one device: one budget, and what is kept back is counted once.
fn share_one_budget(dirs: [&Path; 2], total: u64) {
    let mut lab = Lab::open(&dirs, with_budget(10));
    for log in 0..4 {
        lab.add(&format!("first-{log}"), 0);
        lab.add(&format!("second-{log}"), 1);
    }
    let sum = |stats: &[PoolStats], of: fn(&PoolStats) -> u64| stats.iter().map(of).sum::<u64>();
    let allowed = lab.node().limits().pool.allowance(total);
    for _ in 0..2 {
        come_and_go(&mut lab);
        let stats = quiet(&lab, 2);
        assert_eq!(stats[0].device, stats[1].device);
        assert_eq!([stats[0].budget, stats[1].budget], [allowed.budget; 2]);
        let bytes = sum(&stats, |stats| stats.bytes);
        assert!(bytes <= allowed.budget && bytes > allowed.budget / 2, "{bytes}, {stats:?}");
        let kept_back = sum(&stats, |stats| stats.kept_back_bytes);
        assert!(kept_back <= allowed.kept_back, "{kept_back}, {stats:?}");
        assert!(kept_back > allowed.kept_back / 10 * 9, "{kept_back}, {stats:?}");
        assert!(sum(&stats, |stats| stats.deleted_over_budget) > 0, "it did not bite: {stats:?}");
    }

    // A smaller one is kept to soon after.
    let mut small = lab.node().limits();
    small.pool.budget = Fraction::percent(3);
    let allowed = small.pool.allowance(total);
    lab.node().set_limits(small).unwrap();
    wait_for("no more than the smaller budget", || {
        let stats = [lab.pool(0), lab.pool(1)];
        (sum(&stats, |stats| stats.bytes) <= allowed.budget).then_some(())
    });
    quiet(&lab, 2);
    come_and_go(&mut lab);
    let stats = quiet(&lab, 2);
    assert!(sum(&stats, |stats| stats.bytes) <= allowed.budget, "{stats:?}");
    let kept_back = sum(&stats, |stats| stats.kept_back_bytes);
    assert!(kept_back <= allowed.kept_back && kept_back > 0, "{stats:?}");
    for end in [End::Dropped, End::Closed] {
        lab.restart(end);
        let stats = quiet(&lab, 2);
        lab.settled(0);
        lab.settled(1);
        let held = sum(&stats, |stats| stats.bytes + stats.kept_back_bytes);
        assert_eq!(on_disk(dirs[0]) + on_disk(dirs[1]), held);
        assert!(sum(&stats, |stats| stats.bytes) <= stats[0].budget);
    }
}

fn total(mount: &Mount) -> u64 {
    use plimsoll::fs::{FileSystem, OsFileSystem};
    OsFileSystem.space(mount.path()).unwrap().total
}

#[test]
fn two_directories_on_one_device_share_its_budget() {
    let name = "two_directories_on_one_device_share_its_budget";
    for (kind, mount) in [("tmpfs", Mount::tmpfs(128 << 20)), ("ext4", Mount::ext4(128 << 20))] {
        let Some(mount) = or_skip(&format!("{name}/{kind}"), mount) else { continue };
        let dirs = [mount.path().join("one"), mount.path().join("two")];
        share_one_budget([&dirs[0], &dirs[1]], total(&mount));
    }
}

#[test]
fn a_directory_behind_a_bind_mount_shares_the_budget_of_its_device() {
    let name = "a_directory_behind_a_bind_mount_shares_the_budget_of_its_device";
    let Some(mount) = or_skip(name, Mount::tmpfs(128 << 20)) else { return };
    let [one, two, elsewhere] = ["one", "two", "elsewhere"].map(|name| mount.path().join(name));
    std::fs::create_dir(&two).unwrap();
    std::fs::create_dir(&elsewhere).unwrap();
    let Some(bound) = or_skip(name, Mount::bind_onto(&elsewhere, &two)) else { return };
    let device = |path: &Path| std::fs::metadata(path).unwrap().dev();
    assert_eq!(device(bound.path()), device(mount.path()));
    share_one_budget([&one, &two], total(&mount));
    assert!(!files(&elsewhere).is_empty());
}

#[test]
fn directories_on_two_devices_have_a_budget_each_and_fill_up_by_themselves() {
    let name = "directories_on_two_devices_have_a_budget_each_and_fill_up_by_themselves";
    let Some(memory) = or_skip(name, Mount::tmpfs(128 << 20)) else { return };
    let Some(disk) = or_skip(name, Mount::ext4(64 << 20)) else { return };
    let dirs = [memory.path().join("data"), disk.path().join("data")];
    let mut lab = Lab::open(&[&dirs[0], &dirs[1]], with_budget(10));
    for log in 0..3 {
        lab.add(&format!("memory-{log}"), 0);
        lab.add(&format!("disk-{log}"), 1);
    }
    // A file may have been reserved before the first one was given up.
    let reused = (0..5).any(|_| {
        come_and_go(&mut lab);
        (0..2).all(|at| lab.pool(at).taken_reused > 0)
    });
    assert!(reused, "{:?}", lab.node().stats());
    let stats = quiet(&lab, 2);
    assert_ne!(stats[0].device, stats[1].device);
    for (stats, mount) in stats.iter().zip([&memory, &disk]) {
        let allowed = lab.node().limits().pool.allowance(total(mount));
        assert_eq!(stats.budget, allowed.budget);
        assert!(stats.bytes <= allowed.budget && stats.bytes > allowed.budget / 2, "{stats:?}");
        assert!(stats.kept_back_bytes > allowed.kept_back / 10 * 9, "{stats:?}");
    }

    // A full device holds up its own logs and no others; it does not take files from the other.
    crate::full::fill(disk.path());
    let publish = |journal: &mut Journal| journal.publish(WriteClass::Publish, 8, 16_000);
    let refused = (0..1000).find_map(|_| publish(lab.journal("disk-0")).err()).unwrap();
    assert!(crate::lab::is_refused_for_space(&refused), "{refused:?}");
    lab.journal("disk-0").publish(WriteClass::Acknowledge, 1, 16_000).unwrap();
    (0..30).for_each(|_| publish(lab.journal("memory-0")).unwrap());
    lab.check();
    lab.restart(End::Dropped);
    lab.settled(0);
}

#[test]
fn release_gives_all_devices_their_space_back() {
    let name = "release_gives_all_devices_their_space_back";
    let Some(memory) = or_skip(name, Mount::tmpfs(64 << 20)) else { return };
    let Some(disk) = or_skip(name, Mount::ext4(64 << 20)) else { return };
    let dirs = [memory.path().join("data"), disk.path().join("data")];
    let mut options = options();
    (options.limits.pool.budget, options.limits.pool.prepared) = (Fraction::percent(10), 0);
    let mut lab = Lab::open(&[&dirs[0], &dirs[1]], options);
    lab.add("memory", 0);
    lab.add("disk", 1);
    come_and_go(&mut lab);
    lab.restart(End::Dropped);
    let held: u64 = quiet(&lab, 2).iter().map(|stats| stats.bytes).sum();
    assert!(held > 0);
    assert_eq!(lab.node().release_spares(), held);
    for (stats, dir) in quiet(&lab, 2).iter().zip(&dirs) {
        assert_eq!((stats.bytes, on_disk(dir)), (0, stats.kept_back_bytes), "{stats:?}");
    }
    come_and_go(&mut lab);
    lab.check();
}
