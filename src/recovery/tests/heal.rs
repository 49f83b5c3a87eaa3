//! The last file cannot be written: the log goes on in another one, or opens for reading. Nothing is cut.

use super::support::*;
use crate::format::header::Origin;
use crate::format::{SETTLING, SETTLING_POSITION};
use crate::fs::FileSystem;
use crate::fs::sim::{Fault, NothingPersisted, OpKind, Reached, SimFileSystem, What};
use crate::recovery::Tail;
use std::path::Path;

/// Three vouched records, and two more of which nothing says that they were confirmed.
fn three_and_two() -> (SimFileSystem, Writer) {
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(3);
    writer.stage(&payload(3));
    writer.stage(&payload(4));
    writer.write().unwrap();
    fs.process_death();
    (fs, writer)
}

fn appends_after(fs: &SimFileSystem, count: u64) {
    let found = recovered(fs);
    let mut writer = Writer::resume(fs, &found);
    writer.append_all(2);
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(recovered_records(fs), expected(count + 2));
}

#[test]
fn i1_records_that_may_have_been_confirmed_are_carried_over() {
    for reached in [Reached::Nothing, Reached::Everything, Reached::Some(3)] {
        let (fs, _) = three_and_two();
        fs.inject(Fault::nth(OpKind::Sync, 0, What::FailedSync { errno: libc::EIO, reached }));
        let found = recovered(&fs);
        assert_eq!(found.segments.len(), 2);
        assert!(found.segments[0].failed);
        assert_eq!(found.segments[1].origin, Origin::Heal);
        assert!(found.report.healed.is_some());
        assert_eq!(records(&fs, &found), expected(5));
        // The failed file is not needed any more for what was carried.
        fs.evict_all();
        fs.power_cut(&mut NothingPersisted);
        let found = recovered(&fs);
        assert!(found.segments[0].failed, "known from the next segment's header");
        assert_eq!(recovered_records(&fs), expected(5));
        appends_after(&fs, 5);
    }
}

#[test]
fn a_write_that_fails_heals_as_well() {
    for code in [libc::EIO, libc::ENOSPC, libc::EDQUOT] {
        for nth in 0..2 {
            let (fs, _) = three_and_two();
            fs.inject(Fault::nth(OpKind::Write, nth, What::Errno(code)));
            let found = recovered(&fs);
            assert_eq!(records(&fs, &found), expected(5));
            assert_eq!(found.segments.len(), 2);
            appends_after(&fs, 5);
        }
    }
}

#[test]
fn i8_where_nothing_is_vouched_the_new_file_takes_the_name() {
    let fs = machine(1);
    begin(0).take(&fs).append_all(4);
    let mut second = begin(4).take(&fs);
    second.stage(&payload(4));
    second.write().unwrap();
    fs.process_death();
    fs.record(true);
    fs.inject(Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO)));
    let found = recovered(&fs);
    assert_eq!(found.segments.len(), 2);
    let last = &found.segments[1];
    assert_eq!((last.path.clone(), last.origin, last.failed), (path_of(4), Origin::Roll, false));
    // By a rename over it: the name is never absent.
    assert!(fs.trace().iter().all(|op| op.kind != OpKind::RemoveFile || !op.path.starts_with(DIR)));
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(recovered_records(&fs).len(), 5);
}

#[test]
fn a_gap_that_a_repair_declared_survives_when_the_new_file_takes_the_name() {
    let fs = machine(1);
    begin(0).take(&fs).append_all(4);
    let mut repaired = begin(9);
    repaired.previous_end = 4;
    repaired.origin = Origin::Repair;
    let file = repaired.place(&fs, &repaired.spare());
    file.write_at(0, &repaired.in_use().encode()).unwrap();
    fs.process_death();
    fs.inject(Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO)));
    assert!(recovered(&fs).report.healed.is_some());
    let found = recovered(&fs);
    assert!(matches!(found.tail, Tail::Open { .. }), "{:?}", found.tail);
    assert_eq!((next_of(&found), found.segments[1].origin), (9, Origin::Repair));
}

#[test]
fn if_that_fails_too_it_opens_for_reading_and_nothing_is_cut() {
    let every_sync = || Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO)).forever();
    let every_write = || Fault::nth(OpKind::Write, 0, What::Errno(libc::ENOSPC)).forever();
    let every_create = || Fault::nth(OpKind::Create, 0, What::Errno(libc::ENOSPC)).forever();
    let first_sync = || Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO));
    let every_rename = || Fault::nth(OpKind::Rename, 0, What::Errno(libc::EIO)).forever();
    for faults in [
        vec![every_sync()],
        vec![every_write()],
        vec![first_sync(), every_create()],
        vec![first_sync(), every_rename()],
    ] {
        let (fs, writer) = three_and_two();
        let before = fs.cached(path_of(0)).unwrap();
        for fault in &faults {
            fs.inject(fault.clone());
        }
        let found = recovered(&fs);
        let Tail::ReadOnly { reason, .. } = &found.tail else { panic!("{:?}", found.tail) };
        assert!(reason.contains("healing failed too"), "{reason}");
        // Only what is vouched for is shown: the rest could be gone after a power cut.
        assert_eq!(records(&fs, &found), expected(3));
        // But for the mark behind the header, which says that a recovery began.
        let after = fs.cached(path_of(0)).unwrap();
        let end = writer.position as usize;
        let mark = SETTLING_POSITION as usize;
        for same in [0..mark, mark + SETTLING.len()..end] {
            assert_eq!(after[same.clone()], before[same]);
        }
        fs.clear_faults();
        fs.process_death();
        assert_eq!(recovered_records(&fs), expected(5), "{faults:?}");
        appends_after(&fs, 5);
    }
}

#[test]
fn a_file_that_cannot_be_opened_for_writing_is_no_failed_file() {
    let (fs, _) = three_and_two();
    fs.record(true);
    // Opened for reading to read its header, then to walk it, then for writing.
    fs.inject(Fault::nth(OpKind::Open, 2, What::Errno(libc::EMFILE)));
    let found = recovered(&fs);
    assert!(matches!(found.tail, Tail::ReadOnly { .. }), "{:?}", found.tail);
    assert_eq!(changes(&fs), Vec::<String>::new());
    assert!(!found.segments[0].failed);
}

#[test]
fn case_A7_a_full_disk_starts() {
    let (fs, _) = three_and_two();
    fs.set_capacity(Some(fs.used()));
    let found = recovered(&fs);
    assert!(matches!(found.tail, Tail::Open { .. }), "{:?}", found.tail);
    assert_eq!(records(&fs, &found), expected(5));
}

#[test]
fn the_spare_of_a_heal_that_failed_is_not_left_behind() {
    let (fs, _) = three_and_two();
    fs.inject(Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO)));
    fs.inject(Fault::nth(OpKind::Rename, 0, What::Errno(libc::EIO)));
    assert!(matches!(recovered(&fs).tail, Tail::ReadOnly { .. }));
    assert_eq!(fs.list(Path::new(SPARES)).unwrap(), []);
}
