//! Nothing free at all: what is kept back carries the acknowledgements, and comes first when space comes back.

use crate::lab::{End, Generations, Journal, Lab, is_refused_for_space, options};
use crate::or_skip;
use crate::outside::wait_for;
use faultlab::mounts::Mount;
use plimsoll::WriteClass::{self, Acknowledge, Publish};
use plimsoll::fs::{FileSystem, OsFileSystem};
use std::path::Path;

const LOGS: usize = 50;

/// Takes the last byte.
pub(crate) fn fill(dir: &Path) {
    crate::outside::fill(&dir.join("fill"));
}

/// Gives the space back.
pub(crate) fn empty(dir: &Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.file_stem().is_some_and(|stem| stem == "fill") {
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// Appends to all logs in turn until every one of them refuses, which it must do for want of space and without a trace.
/// Gives appends and bytes that were confirmed.
fn until_all_refuse(lab: &mut Lab, class: WriteClass, len: usize) -> (u64, u64) {
    let mut takers: Vec<&mut Journal> = lab.journals.values_mut().collect();
    let mut done = 0;
    while !takers.is_empty() {
        takers.retain_mut(|journal| match journal.publish(class, 1, len) {
            Ok(()) => {
                done += 1;
                true
            }
            Err(error) => {
                assert!(is_refused_for_space(&error), "{error:?}");
                false
            }
        });
    }
    (done, done * len as u64)
}

#[test]
fn i9_at_no_free_bytes_acknowledgements_go_on_and_publishes_are_refused() {
    let name = "i9_at_no_free_bytes_acknowledgements_go_on_and_publishes_are_refused";
    for (kind, mount) in [("ext4", Mount::ext4(64 << 20)), ("tmpfs", Mount::tmpfs(64 << 20))] {
        let Some(mount) = or_skip(&format!("{name}/{kind}"), mount) else { continue };
        at_no_free_bytes(kind, mount.path());
    }
}

fn at_no_free_bytes(kind: &str, mount: &Path) {
    let dir = mount.join("data");
    let mut generations = Generations::default();
    let mut lab = Lab::open(&[&dir], options());
    for log in 0..LOGS {
        lab.add(&format!("queue-{log}"), 0).publish(Publish, 1, 100).unwrap();
    }
    // Some that have files to give.
    for log in 0..4 {
        let journal = lab.journal(&format!("queue-{log}"));
        (0..20).for_each(|_| journal.publish(Publish, 8, 16_000).unwrap());
    }
    wait_for("what is kept back", || (lab.pool(0).kept_back_missing == 0).then_some(()));
    fill(mount);
    assert_eq!(OsFileSystem.space(mount).unwrap().available, 0, "{kind}");

    let (published, _) = until_all_refuse(&mut lab, Publish, 4000);
    let stats = lab.pool(0);
    assert_eq!((stats.kept_back_missing, stats.taken_kept_back), (0, 0), "{kind}: {stats:?}");
    let kept_back = stats.kept_back_bytes;

    // Each log gets one: files that were spares in another life must be stamped first.
    lab.restart(End::Dropped);
    assert_eq!(lab.pool(0).kept_back_missing, 0, "{kind}");
    let some = LOGS / 2;
    for journal in lab.journals.values_mut().take(some) {
        journal.publish(Acknowledge, 1, 4000).unwrap();
        assert!(is_refused_for_space(&journal.publish(Publish, 20, 4000).unwrap_err()));
    }
    let stats = lab.pool(0);
    // Spares of the right class that were within the budget go first.
    let taken = stats.taken_kept_back + stats.taken_reused;
    assert_eq!((taken, stats.taken_fresh), (some as u64, 0), "{kind}: {stats:?}");
    assert!(stats.taken_kept_back > 20 && stats.stamped_again >= taken, "{kind}: {stats:?}");
    let (mut acknowledged, mut bytes) = until_all_refuse(&mut lab, Acknowledge, 1000);
    assert_eq!(lab.pool(0).kept_back_bytes, 0, "{kind}");
    acknowledged += some as u64;
    bytes += some as u64 * 4000;
    println!(
        "{kind}: {published} publishes had room; {} KiB kept back took {acknowledged} acknowledgements of {} KiB",
        kept_back >> 10,
        bytes >> 10
    );
    assert!(bytes > kept_back / 2, "{kind}: {bytes} of {kept_back}");
    lab.check();
    generations.look(&dir);

    // Used up; the node starts all the same, and still gives a clear answer.
    lab.restart(End::Dropped);
    lab.restart(End::Closed);
    generations.look(&dir);
    assert_eq!(until_all_refuse(&mut lab, Acknowledge, 4000).0, 0, "{kind}");
    assert_eq!(until_all_refuse(&mut lab, Publish, 4000).0, 0, "{kind}");

    // What comes back is for those that are kept back until they are all there. Right after a start, when the worker may
    // not have found out yet how full it is, too.
    lab.restart(End::Dropped);
    let (mut freed, mut early) = (0, 0);
    let publisher = "queue-9".to_owned();
    let givers: Vec<_> = lab.journals.keys().filter(|name| **name != publisher).cloned().collect();
    for giver in givers.iter().cycle() {
        freed += lab.journal(giver).truncate_one();
        match lab.journal(&publisher).publish(Publish, 1, 32_000) {
            Ok(()) => break,
            Err(error) => assert!(is_refused_for_space(&error), "{error:?}"),
        }
        early += 1;
        assert!(early < 1000, "{kind}: {:?}", lab.pool(0));
    }
    let stats = lab.pool(0);
    assert_eq!(stats.kept_back_missing, 0, "{kind}: {freed} files freed, {stats:?}");
    assert!(early > 10, "{kind}: {early}");
    println!(
        "{kind}: {freed} files freed and {early} publishes refused before all was kept back again"
    );
    lab.check();
    lab.restart(End::Dropped);
    lab.settled(0);
    generations.look(&dir);
}

/// On XFS a directory whose sixth name found no block to grow stopped the acknowledgements, with files kept back for them.
#[test]
fn i9_at_no_free_blocks_the_directories_of_xfs_grow_of_what_is_kept_back() {
    let name = "i9_at_no_free_blocks_the_directories_of_xfs_grow_of_what_is_kept_back";
    let Some(mount) = or_skip(name, Mount::xfs(320 << 20)) else { return };
    let dir = mount.path().join("data");
    let mut lab = Lab::open(&[&dir], options());
    for log in 0..4 {
        lab.add(&format!("events-{log}"), 0).publish(Acknowledge, 1, 100).unwrap();
    }
    wait_for("what is kept back", || (lab.pool(0).kept_back_missing == 0).then_some(()));
    fill(mount.path());
    assert_eq!(OsFileSystem.space(mount.path()).unwrap().available >> 16, 0);
    for _ in 0..24 {
        for journal in lab.journals.values_mut() {
            journal.publish(Acknowledge, 1, 40_000).unwrap();
        }
    }
    for journal in lab.journals.values() {
        assert!(journal.log.segments().len() > 8, "{}", journal.log.segments().len());
    }
    lab.check();
    lab.restart(End::Dropped);
    lab.check();
}
