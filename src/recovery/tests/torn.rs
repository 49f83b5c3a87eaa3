//! Ends that a crash makes: they are found, cut, and nothing before them is lost.

use super::support::*;
use crate::format::record::HEADER_LEN;
use crate::format::{RECORDS_POSITION, WINDOW};
use crate::fs::FileSystem;
use crate::fs::sim::{AllPersisted, NothingPersisted};
use crate::recovery::{Tail, look};
use crate::types::Offset;
use std::path::Path;

#[test]
fn an_empty_directory_is_an_empty_log() {
    let fs = machine(1);
    let found = recovered(&fs);
    assert_eq!(found.tail, Tail::Empty);
    assert_eq!((found.id, found.segments.len()), (None, 0));
}

#[test]
fn a_clean_log_is_read_back_and_nothing_is_written() {
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(20);
    writer.checkpoint();
    fs.process_death();
    fs.record(true);
    let found = recovered(&fs);
    assert_eq!(changes(&fs), Vec::<String>::new());
    let open = Tail::Open { position: writer.position, next: Offset(20), millis: 20 };
    assert_eq!(found.tail, open);
    assert_eq!(records(&fs, &found), expected(20));
    assert_eq!(found.report.records_past_vouched, 0);
}

#[test]
fn case_B1_the_last_record_half_zeroes_is_cut() {
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(99);
    writer.append(&[0xaa; 400]);
    fs.process_death();
    let end = writer.position;
    fs.zero(path_of(0), end - 300..end).unwrap();
    assert_eq!(recovered_records(&fs), expected(99));
    // The cut is one that holds: what comes next is read back.
    let mut writer = Writer::resume(&fs, &recovered(&fs));
    writer.append_all(1);
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(recovered_records(&fs), expected(100));
}

#[test]
fn case_B1_zeroes_behind_the_file_change_nothing() {
    let fs = machine(1);
    begin(0).take(&fs).append_all(100);
    let file = fs.open_write(&path_of(0)).unwrap();
    file.write_at(CAPACITY, &vec![0; 4 << 20]).unwrap();
    file.sync().unwrap();
    fs.process_death();
    assert_eq!(recovered_records(&fs), expected(100));
}

#[test]
fn case_B1_a_file_cut_at_every_byte_of_its_last_record_starts() {
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(100);
    let start = *writer.begun.last().unwrap();
    let whole = fs.snapshot();
    for len in start..=writer.position {
        fs.restore(&whole);
        let file = fs.open_write(&path_of(0)).unwrap();
        file.set_len(len).unwrap();
        file.sync().unwrap();
        fs.process_death();
        let count = if len == writer.position { 100 } else { 99 };
        assert_eq!(recovered_records(&fs), expected(count), "cut at {len}");
        let mut writer = Writer::resume(&fs, &recovered(&fs));
        writer.append_all(100 - count + 1);
        fs.power_cut(&mut NothingPersisted);
        let next = next_of(&recovered(&fs));
        assert_eq!(next, 101, "cut at {len}");
    }
}

#[test]
fn case_B2_what_is_appended_after_a_garbage_byte_is_read_back() {
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(5);
    fs.overwrite(path_of(0), writer.position, &[0x5a]).unwrap();
    fs.process_death();
    let mut writer = Writer::resume(&fs, &recovered(&fs));
    writer.append_all(10);
    fs.process_death();
    assert_eq!(recovered_records(&fs), expected(15));
}

#[test]
pub(super) fn i1_a_record_that_is_only_in_the_cache_is_durable_once_recovery_showed_it() {
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(3);
    writer.stage(&payload(3));
    writer.write().unwrap();
    fs.process_death();
    assert_eq!(recovered_records(&fs), expected(4));
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(recovered_records(&fs), expected(4));
}

#[test]
pub(super) fn i1_the_same_after_a_sync_that_failed_in_the_earlier_life() {
    use crate::fs::sim::{Fault, OpKind, Reached, What};
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(3);
    writer.stage(&payload(3));
    let what = What::FailedSync { errno: libc::EIO, reached: Reached::Nothing };
    fs.inject(Fault::nth(OpKind::Sync, 0, what));
    writer.commit().unwrap_err();
    fs.process_death();
    // The pages are clean now: a sync without a write would answer Ok and bring nothing to the disk.
    assert_eq!(recovered_records(&fs), expected(4));
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(recovered_records(&fs), expected(4));
}

#[test]
pub(super) fn i8_a_segment_without_records_holds_the_next_offset() {
    let fs = machine(1);
    let begin = begin(10);
    begin.place(&fs, &begin.in_use());
    fs.process_death();
    let found = recovered(&fs);
    let open = Tail::Open { position: RECORDS_POSITION, next: Offset(10), millis: 0 };
    assert_eq!(found.tail, open);
}

#[test]
pub(super) fn i8_the_header_of_an_empty_segment_is_made_durable_with_it() {
    let fs = machine(1);
    let mut first = begin(0).take(&fs);
    first.append_all(4);
    let second = begin(4);
    let file = second.place(&fs, &second.spare());
    file.write_at(0, &second.in_use().encode()).unwrap();
    fs.process_death();
    assert_eq!(recovered(&fs).segments.len(), 2);
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(recovered(&fs).segments.len(), 2);
}

#[test]
fn looking_changes_nothing() {
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(5);
    writer.stage(&payload(5));
    writer.write().unwrap();
    let spare = begin(9);
    spare.place(&fs, &spare.spare());
    fs.record(true);
    let look = look(&fs, Path::new(DIR)).unwrap();
    assert!(fs.trace().iter().all(|op| !op.kind.changes()), "{:?}", fs.trace());
    assert_eq!(look.end().next, Offset(6));
    assert_eq!(look.tail.unwrap().vouched.next, Offset(5));
    assert_eq!(look.trailing.len(), 1);
    assert_eq!(look.damage, None);
}

#[test]
fn i12_a_payload_full_of_headers_costs_no_more_than_the_window() {
    let fs = machine(1);
    let capacity = 4 * WINDOW;
    let mut file = begin(0);
    file.capacity = capacity;
    let mut writer = file.take(&fs);
    writer.append_all(3);
    // Every 8 bytes look like a header with this generation and lengths that reach far.
    let mut fake = [0xff; 8];
    fake[4..6].copy_from_slice(&3u16.to_le_bytes());
    fake[6..8].copy_from_slice(&1u16.to_le_bytes());
    let payload: Vec<u8> = fake.iter().copied().cycle().take(3 << 20).collect();
    writer.stage(&payload);
    writer.write().unwrap();
    // Its header is lost, its payload is not.
    let start = writer.begun[3];
    fs.zero(path_of(0), start..start + HEADER_LEN as u64).unwrap();
    fs.process_death();
    let found = try_recover(&fs, capacity).unwrap();
    assert_eq!(next_of(&found), 3);
    assert!(found.report.bytes_read < 2 * WINDOW, "{:?}", found.report);
    assert!(found.report.positions_zeroed > 10_000, "{:?}", found.report);
    fs.power_cut(&mut AllPersisted);
    let again = try_recover(&fs, capacity).unwrap();
    assert_eq!(again.report.positions_zeroed, 0);
    assert_eq!(records(&fs, &again), expected(3));
}
