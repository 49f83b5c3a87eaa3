//! Rules of the spare pool that show without a crash.

use super::constructed::segment;
use super::crash::{Crash, Point};
use super::pool::{full_disk, reusing, three_files};
use super::scripts::{empty, failed_sync};
use super::world::{SIZES, World};
use plimsoll::WriteClass;
use plimsoll::fs::sim::{Charges, Fault, OpKind, Reached, What};

/// A file of which a sync failed never serves again: what the disk holds of it is not known, and the next write to the
/// same place may fail as well.
pub fn a_failed_file_is_deleted() {
    let mut world = three_files();
    world.start();
    world.open("a");
    world.inject(Fault::nth(OpKind::Sync, 0, failed_sync(Reached::Nothing)));
    world.must_fail("a", &[512]);
    world.must_append("a", &[512]);
    let files = world.log("a").segments().len();
    world.truncate_all("a");
    world.work();
    assert_eq!((files, world.log("a").segments().len()), (4, 1));
    // Tiny, small; the main one had failed.
    let (pool, spares) = (world.pool(), world.spare_files());
    assert_eq!((pool.ready, pool.deleted_unfit, spares.len()), ([1, 1, 0], 1, 2));
}

/// A file whose header cannot be read is deleted, when it is given up and at a start: its generation would be a guess.
pub fn a_file_without_a_header_is_deleted() {
    let mut world = three_files();
    world.start();
    world.open("a");
    world.faulty = true;
    world.fs.flip(segment("a", 0), 100, 1).unwrap();
    world.truncate_all("a");
    world.work();
    let spares = world.spare_files();
    assert_eq!((world.pool().ready, spares.len()), ([0, 1, 0], 1));
    world.fs.flip(&spares[0], 100, 1).unwrap();
    let mut world = world.fork();
    world.start();
    world.work();
    assert_eq!((world.pool().ready, world.spare_files().len()), ([0; 3], 0));
}

/// A log that opens for reading only, as what was found could not be made durable, frees no file: its last header may be in
/// the page cache alone, and so may the name of the file that has it.
pub fn what_is_not_durable_is_not_all_that_is_left() {
    let mut base = empty();
    base.start();
    base.open("a");
    base.append("a", &[512; 7]);
    base.close();
    for op in 0..30 {
        let mut world = base.fork();
        world.start();
        world.open("a");
        // Dies on the way into the second file.
        let op = world.fs.ops() + op;
        world.dies_at(Some(Point { op, bytes: 0 }));
        world.append("a", &[512; 2]);
        world.abandon();
        Crash::Death.strike(&world.fs);
        world.dies_at(None);
        world.inject(Fault::nth(OpKind::SyncDir, 0, What::Errno(libc::EIO)).on("logs/a"));
        world.start();
        world.open("a");
        world.truncate_all("a");
        world.abandon();
        Crash::Nothing.strike(&world.fs);
        world.fs.clear_faults();
        (world.faulty, world.broken) = (false, false);
        world.recover();
        world.must_append("a", &[512]);
        world.read("a");
    }
}

/// Where a name among the spares cannot be had, giving a file up is deleting it: what frees space needs none.
pub fn giving_up_needs_no_room() {
    for errno in [libc::ENOSPC, libc::EDQUOT, libc::EXDEV] {
        let mut world = three_files();
        world.start();
        world.open("a");
        world.fs.inject(Fault::nth(OpKind::Rename, 0, What::Errno(errno)).forever());
        world.truncate_all("a");
        let left = (world.log("a").segments().len(), world.spare_files().len());
        assert_eq!((left, world.pool().deleted_not_renamed), ((1, 0), 2));
        assert_eq!(world.pool().coming, [0; 3]);
        // Durable, as a truncation is that was answered.
        let mut world = world.fork();
        Crash::Nothing.strike(&world.fs);
        world.recover();
        assert_eq!(world.log("a").segments().len(), 1);
    }
}

/// On a full disk a publish is refused, and what may use the files that are kept back goes on.
pub fn publish_gets_nothing_that_is_kept_back() {
    let mut world = full_disk();
    world.start();
    world.open("a");
    world.work();
    world.faulty = true;
    world.must_fail("a", &[512]);
    assert_eq!((world.pool().ready, world.pool().taken_kept_back), ([2, 0, 0], 0));
    assert!(world.append_as(WriteClass::Acknowledge, "a", &[512]));
    assert_eq!((world.pool().ready, world.pool().taken_kept_back), ([1, 0, 0], 1));
    world.read("a");
}

/// Space that comes back goes to the files that are kept back before a publish gets any.
pub fn kept_back_is_filled_first() {
    let mut world = full_disk();
    world.start();
    world.open("a");
    assert!(world.append_as(WriteClass::Acknowledge, "a", &[1024; 4]));
    // The worker finds no room.
    world.work();
    assert_eq!(world.pool().kept_back_missing, SIZES.tiny);
    world.fs.set_capacity(Some(world.fs.used() + SIZES.small));
    world.faulty = true;
    world.must_fail("a", &[512]);
    assert_eq!((world.pool().kept_back_missing, world.pool().ready), (0, [2, 0, 0]));
    world.fs.set_capacity(None);
    world.must_append("a", &[512]);
}

/// Releasing the spares leaves those that are kept back.
pub fn kept_back_is_never_released() {
    let mut world = full_disk();
    world.fs.set_capacity(None);
    world.start();
    world.open("a");
    world.append("a", &[512]);
    world.truncate_all("a");
    world.work();
    assert_eq!(world.pool().ready, [3, 0, 0]);
    assert_eq!(world.node().release_spares(), SIZES.tiny);
    assert_eq!((world.pool().ready, world.pool().kept_back_missing), ([2, 0, 0], 0));
}

/// I9: where a disk says at the sync that it is full, it does so before a record is staged.
pub fn a_file_has_its_space_before_a_record_is_staged() {
    let mut world = reusing();
    world.start();
    world.open("a");
    world.append("a", &[1024; 4]);
    world.fs.set_charges(Charges { at_sync: true, ..Charges::default() });
    world.fs.set_capacity(Some(world.fs.used()));
    world.faulty = true;
    assert!(world.stage("a", &[512]).is_none(), "I9: a record was staged without a file");
    world.fs.set_capacity(None);
    world.must_append("a", &[512]);
}

/// A full disk stops no start, though a deletion was cut off and some file systems need room for the name that its
/// directory gets next. It is emptied once there is room.
pub fn a_start_with_a_deletion_that_was_cut_off() {
    let mut world = three_files();
    world.fs.set_charges(Charges { rename: 1, ..Charges::default() });
    world.start();
    world.open("a");
    world.inject(Fault::nth(OpKind::Rename, 1, What::Errno(libc::EIO)).on("trash/"));
    world.delete("a");
    let mut world = world.fork();
    let in_trash = |world: &World| {
        world.fs.files().iter().filter(|path| path.starts_with("/data/trash")).count()
    };
    assert_eq!(in_trash(&world), 3);
    world.fs.set_capacity(Some(world.fs.used()));
    world.faulty = false;
    world.start();
    assert!(world.is_up());
    world.fs.set_capacity(None);
    world.start();
    world.work();
    assert_eq!(in_trash(&world), 0);
}

/// Spares that cannot get their name: the worker gives up for a while, and does not make and delete files for ever.
pub fn a_spare_that_cannot_be_named() {
    let mut world = empty().with_pool(super::world::options());
    world.start();
    world.inject(Fault::nth(OpKind::Rename, 0, What::Errno(libc::EIO)).on("spares/").forever());
    world.fs.record(true);
    world.steps(100);
    let trace = world.fs.trace();
    let spares = trace.iter().filter(|op| !op.path.ends_with("probe.tmp"));
    let made = spares.filter(|op| op.kind == OpKind::Create).count();
    assert_eq!((made, world.spare_files().len(), world.pool().coming), (1, 0, [0; 3]));
    world.mend();
    world.clock.advance(std::time::Duration::from_secs(2));
    world.work();
    assert_eq!(world.pool().ready, [2, 0, 0]);
}

/// The same where a publish has to fill what is kept back first: it is refused, and does not try for ever.
pub fn a_publish_that_finds_no_name_for_a_spare() {
    let mut world = full_disk();
    world.start();
    world.open("a");
    assert!(world.append_as(WriteClass::Acknowledge, "a", &[1024; 4]));
    world.work();
    world.fs.set_capacity(None);
    world.inject(Fault::nth(OpKind::Rename, 0, What::Errno(libc::EIO)).on("spares/").forever());
    // Else it would not end.
    world.fs.crash_at(world.fs.ops() + 1_000);
    assert!(!world.append("a", &[512]));
    assert!(!world.dead());
}

/// On a full disk a log heals into a file that is kept back, so that acknowledgements go on; and also in the life after,
/// where it must be stamped first.
pub fn healing_into_a_file_that_is_kept_back() {
    for crash in [Crash::Death, Crash::Evict, Crash::All, Crash::Nothing] {
        let mut world = full_disk();
        world.start();
        world.open("a");
        assert!(world.append_as(WriteClass::Acknowledge, "a", &[512]));
        world.inject(Fault::nth(OpKind::Sync, 0, failed_sync(Reached::Nothing)));
        assert!(!world.append_as(WriteClass::Acknowledge, "a", &[512]));
        assert!(world.append_as(WriteClass::Acknowledge, "a", &[512]));
        assert_eq!(world.pool().taken_kept_back, 2);
        world.read("a");
        world.truncate_all("a");
        let mut world = world.fork();
        crash.strike(&world.fs);
        world.faulty = false;
        world.recover();
        world.work();
        assert!(world.append_as(WriteClass::Acknowledge, "a", &[512]));
        world.read("a");
    }
}

#[test]
fn a_spare_that_cannot_be_named_is_not_made_again_at_once() {
    a_spare_that_cannot_be_named();
}

#[test]
fn a_publish_does_not_wait_for_a_spare_that_cannot_be_named() {
    a_publish_that_finds_no_name_for_a_spare();
}

#[test]
fn on_a_full_disk_a_log_heals_into_a_file_that_is_kept_back() {
    healing_into_a_file_that_is_kept_back();
}

#[test]
fn i9_a_full_disk_stops_no_start_with_a_deletion_that_was_cut_off() {
    a_start_with_a_deletion_that_was_cut_off();
}

#[test]
fn a_truncation_needs_no_room() {
    giving_up_needs_no_room();
}

#[test]
fn files_that_failed_are_deleted() {
    a_failed_file_is_deleted();
}

#[test]
fn i7_no_generation_is_guessed() {
    a_file_without_a_header_is_deleted();
}

#[test]
fn on_a_full_disk_publish_gets_nothing_that_is_kept_back() {
    publish_gets_nothing_that_is_kept_back();
}

#[test]
fn what_is_kept_back_is_filled_again_first() {
    kept_back_is_filled_first();
}

#[test]
fn what_is_kept_back_is_never_released() {
    kept_back_is_never_released();
}

#[test]
fn i9_a_file_has_its_space_before_a_record_is_staged() {
    a_file_has_its_space_before_a_record_is_staged();
}
