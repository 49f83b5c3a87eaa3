//! Files behind the last segment, which a crash while taking or rolling leaves.

use super::corrupt::expect_damage;
use super::support::*;
use crate::format::checkpoint::Checkpoint;
use crate::format::record::{self, RecordHeader};
use crate::format::{CHECKPOINT_POSITION, Key, WINDOW};
use crate::fs::sim::{NothingPersisted, SimFileSystem};
use crate::fs::{File, FileSystem};
use crate::recovery::Tail;
use crate::types::Offset;
use std::path::Path;
use std::sync::Arc;

/// A log of six records in one file; what is made of the file at 6 is up to the test.
fn six() -> SimFileSystem {
    let fs = machine(1);
    begin(0).take(&fs).append_all(6);
    fs
}

fn names(fs: &SimFileSystem, dir: &str) -> Vec<String> {
    let entries = fs.list(Path::new(dir)).unwrap().into_iter();
    entries.map(|entry| entry.name.to_string_lossy().into_owned()).collect()
}

/// Recovers; expects the six records, `given_up` files in the pool, and no name left but the log's own.
fn expect_tidy(fs: &SimFileSystem, given_up: usize) {
    fs.process_death();
    let found = recovered(fs);
    assert!(matches!(found.tail, Tail::Open { next: Offset(6), .. }), "{:?}", found.tail);
    assert_eq!(records(fs, &found), expected(6));
    // Also after the power fails: the removal is durable before anything is appended.
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(names(fs, DIR), ["00000000000000000000.seg"]);
    assert_eq!(names(fs, SPARES).len(), given_up);
    assert_eq!(recovered_records(fs), expected(6));
}

fn place(fs: &SimFileSystem, base: u64, bytes: &[u8]) -> Arc<dyn File> {
    let file = fs.create(&path_of(base)).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new(DIR)).unwrap();
    file
}

#[test]
fn i6_any_number_of_files_in_the_taking_goes_back_to_the_pool() {
    for count in 1..6 {
        let fs = six();
        for at in 0..count {
            let spare = begin(6 + at);
            spare.place(&fs, &spare.spare());
        }
        expect_tidy(&fs, count as usize);
    }
}

#[test]
fn case_A1_an_empty_file_with_the_next_name_is_removed() {
    for bytes in [&[][..], &[0; 512][..], &[0; 40_000][..]] {
        let fs = six();
        place(&fs, 6, bytes);
        expect_tidy(&fs, 0);
    }
}

#[test]
fn i4_i8_a_trailing_file_cut_below_its_header_is_damage() {
    for bytes in [&[0; 1][..], &[0; 100][..], &[1; 511][..]] {
        let fs = six();
        place(&fs, 6, bytes);
        expect_damage(&fs, &path_of(6), 0, 6);
    }
    // The last segment of three, with confirmed records: nothing is removed and no offset is given twice.
    for (len, removed) in [(165, false), (0, true)] {
        let fs = six();
        begin(6).take(&fs).append_all(6);
        let last = begin(12).take(&fs);
        last.file.set_len(len).unwrap();
        last.file.sync().unwrap();
        if removed {
            let found = recovered(&fs);
            assert!(matches!(found.tail, Tail::Open { next: Offset(12), .. }), "{:?}", found.tail);
            assert_eq!(records(&fs, &found).len(), 12);
            assert_eq!(names(&fs, DIR).len(), 2);
        } else {
            expect_damage(&fs, &path_of(12), 0, 12);
            assert_eq!(names(&fs, DIR).len(), 3);
        }
    }
}

#[test]
fn case_B7_a_temporary_file_is_removed() {
    let fs = six();
    let path = Path::new(DIR).join("x.tmp");
    fs.create(&path).unwrap().write_at(0, &[1; 10]).unwrap();
    expect_tidy(&fs, 0);
}

#[test]
pub(super) fn a_first_commit_that_lost_its_header_goes_back_to_the_pool() {
    let fs = six();
    let mut next = begin(6).take(&fs);
    next.stage(b"never");
    next.stage(b"confirmed");
    next.write().unwrap();
    let spare = next.begin.spare().encode();
    fs.overwrite(path_of(6), 0, &spare).unwrap();
    expect_tidy(&fs, 1);
}

#[test]
fn i4_a_spare_header_before_confirmed_records_is_damage() {
    let fs = six();
    let mut next = begin(6).take(&fs);
    next.append_all(2);
    fs.overwrite(path_of(6), 0, &next.begin.spare().encode()).unwrap();
    expect_damage(&fs, &path_of(6), 0, 6);
}

#[test]
fn i4_also_where_nothing_says_which_log_it_is() {
    let fs = machine(1);
    let mut only = begin(0).take(&fs);
    only.append_all(3);
    fs.overwrite(path_of(0), 0, &only.begin.spare().encode()).unwrap();
    expect_damage(&fs, &path_of(0), 0, 0);
}

#[test]
fn i4_also_when_the_whole_first_commit_was_lost_with_the_header() {
    let fs = machine(1);
    let mut only = begin(0).take(&fs);
    only.append_all(3);
    fs.overwrite(path_of(0), 0, &only.begin.spare().encode()).unwrap();
    fs.zero(path_of(0), only.begun[0]..only.begun[1]).unwrap();
    expect_damage(&fs, &path_of(0), 0, 0);
}

#[test]
fn i4_also_when_only_a_checkpoint_says_so() {
    let fs = six();
    let mut next = begin(6).take(&fs);
    next.append_all(1);
    next.checkpoint();
    fs.overwrite(path_of(6), 0, &next.begin.spare().encode()).unwrap();
    expect_damage(&fs, &path_of(6), 0, 6);
}

#[test]
fn what_an_earlier_use_left_behind_a_spare_header_says_nothing() {
    let fs = six();
    let mut last_use = begin(6);
    last_use.generation = 2;
    let mut writer = last_use.take(&fs);
    writer.append_all(5);
    writer.checkpoint();
    fs.overwrite(path_of(6), 0, &begin(6).spare().encode()).unwrap();
    expect_tidy(&fs, 1);
}

#[test]
fn i4_a_header_of_zeroes_before_records_is_damage() {
    let fs = six();
    let mut next = begin(6).take(&fs);
    next.append_all(1);
    fs.zero(path_of(6), 0..512).unwrap();
    expect_damage(&fs, &path_of(6), 0, 6);
    let fs = six();
    begin(6).take(&fs).append_all(1);
    let checkpoint = Checkpoint {
        generation: generation(3),
        log: LOG,
        position: 8192,
        next: Offset(6),
        millis: 0,
    };
    let file = fs.open_write(&path_of(6)).unwrap();
    file.write_at(CHECKPOINT_POSITION, &checkpoint.encode()).unwrap();
    file.sync().unwrap();
    fs.zero(path_of(6), 0..512).unwrap();
    fs.zero(path_of(6), 8192..CAPACITY).unwrap();
    expect_damage(&fs, &path_of(6), 0, 6);
}

/// Puts a whole record of a made-up log at `position`, with this offset counted from the base.
fn forge(fs: &SimFileSystem, base: u64, position: u64, relative: u32) {
    let generation = generation(3);
    let header = RecordHeader {
        payload_len: 6,
        headers_len: 0,
        generation,
        unsynced: 0,
        relative,
        millis: 1,
    };
    let mut bytes = vec![0; header.record_len() as usize];
    let key = Key::new(OTHER, generation, Offset(base));
    record::encode(&mut bytes, key, position, &header, b"", b"forged");
    fs.overwrite(path_of(base), position, &bytes).unwrap();
}

#[test]
fn i4_what_proves_a_key_could_stand_there() {
    // Behind a header of zeroes any whole record is one; but none at this place can be the file's first.
    for (position, relative, counts) in
        [(8192, 0, true), (8192, 1, false), (8256, 0, false), (8256, 2, true), (8256, 3, false)]
    {
        let fs = six();
        place(&fs, 6, &[0; CAPACITY as usize]);
        forge(&fs, 6, position, relative);
        if counts {
            expect_damage(&fs, &path_of(6), 0, 6);
        } else {
            expect_tidy(&fs, 0);
        }
    }
    // One that could not hides no record that can: here the first two commits are lost with the header.
    for header in [vec![0; 512], begin(6).spare().encode().to_vec()] {
        let fs = machine(1);
        let mut next = begin(0).take(&fs);
        next.append_all(5);
        fs.overwrite(path_of(0), 0, &header).unwrap();
        fs.zero(path_of(0), next.begun[0]..next.begun[2]).unwrap();
        forge(&fs, 0, 8208, 0);
        expect_damage(&fs, &path_of(0), 0, 0);
    }
}

#[test]
pub(super) fn a_file_that_names_another_base_goes_back_to_the_pool_unless_vouched() {
    // Whoever's it is: the base is looked at first.
    for log in [LOG, OTHER] {
        let fs = six();
        let mut other = begin(6);
        other.base = 50;
        other.previous_end = 50;
        other.log = log;
        let mut writer = other.take(&fs);
        writer.append(b"unvouched");
        expect_tidy(&fs, 1);
        let fs = six();
        let mut writer = other.take(&fs);
        writer.append_all(2);
        expect_damage(&fs, &path_of(6), 0, 6);
    }
}

#[test]
fn another_logs_header_with_the_right_base_is_damage() {
    let fs = six();
    let mut other = begin(6);
    other.log = OTHER;
    other.take(&fs).append_all(2);
    expect_damage(&fs, &path_of(6), 64, 6);
    // No crash makes it, so also without a record.
    let fs = six();
    other.place(&fs, &other.in_use());
    expect_damage(&fs, &path_of(6), 64, 6);
}

#[test]
fn i4_a_spare_before_a_kept_segment_is_damage() {
    for bytes in [&[][..], &[0; 9000][..], &begin(6).spare().encode()[..]] {
        let fs = six();
        place(&fs, 6, bytes);
        begin(7).take(&fs).append_all(1);
        expect_damage(&fs, &path_of(6), 0, 6);
    }
}

#[test]
fn a_mixture_of_trailing_files() {
    let fs = six();
    place(&fs, 6, &[]);
    let spare = begin(7);
    spare.place(&fs, &spare.spare());
    let mut other = begin(8);
    other.base = 3;
    other.previous_end = 3;
    other.place(&fs, &other.in_use());
    place(&fs, 9, &[0; 5000]);
    expect_tidy(&fs, 2);
}

#[test]
fn i2_a_damaged_last_file_keeps_the_ones_before_it() {
    let fs = six();
    let bad = place(&fs, 8, &begin(8).in_use().encode());
    bad.write_at(200, &[1]).unwrap();
    // What stands before a file that is not given up is not trailing, though it would be alone.
    let spare = begin(6);
    spare.place(&fs, &spare.spare());
    expect_damage(&fs, &path_of(6), 0, 6);
}

#[test]
fn i12_looking_for_a_key_in_a_payload_made_to_look_like_headers_is_bounded() {
    let fs = machine(1);
    let mut file = begin(0);
    file.capacity = 8 * WINDOW;
    let mut writer = file.take(&fs);
    // Every 8 bytes: this generation, no flags, a small offset, and a body as long as may pass.
    let mut fake = [0; 8];
    fake[0..4].copy_from_slice(&0x0008_0000_u32.to_le_bytes());
    fake[4..6].copy_from_slice(&3u16.to_le_bytes());
    let payload: Vec<u8> = fake.iter().copied().cycle().take(4 << 20).collect();
    writer.stage(&payload);
    writer.write().unwrap();
    fs.overwrite(path_of(0), 0, &file.spare().encode()).unwrap();
    fs.zero(path_of(0), 8192..8224).unwrap();
    fs.process_death();
    fs.record(true);
    let found = try_recover(&fs, file.capacity).unwrap();
    assert_eq!(found.tail, Tail::Empty);
    assert!(found.report.bytes_read < 8 * WINDOW, "{:?}", found.report);
}
