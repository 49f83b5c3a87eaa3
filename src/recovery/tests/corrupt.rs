//! Damage to what was durable: reported with file and position, never cut, and nothing is changed.

use super::support::*;
use crate::format::checkpoint::Checkpoint;
use crate::format::header::Origin;
use crate::format::{CHECKPOINT_POSITION, SECTOR_LEN, WINDOW};
use crate::fs::FileSystem;
use crate::fs::sim::SimFileSystem;
use crate::recovery::{RecoverError, Tail, check_segment, look};
use crate::types::Offset;
use std::path::{Path, PathBuf};

/// Recovers, and expects damage in `file` at `position` with `readable` offsets before it. Nothing may be changed.
pub(super) fn expect_damage(fs: &SimFileSystem, file: &Path, position: u64, readable: u64) {
    fs.process_death();
    let before = fs.fingerprint();
    fs.record(true);
    let found = recovered(fs);
    assert_eq!(changes(fs), Vec::<String>::new());
    assert_eq!(fs.fingerprint(), before);
    let Tail::Damaged { next, damage, .. } = &found.tail else {
        panic!("not damaged: {:?}", found.tail)
    };
    assert_eq!((damage.file.as_path(), damage.position), (file, position), "{damage}");
    assert_eq!(*next, Offset(readable), "{damage}");
    let seen = records(fs, &found);
    let first = seen.first().map_or(readable, |seen| seen.offset);
    assert_eq!(seen.len() as u64, readable - first, "all before the damage is readable");
}

#[test]
fn i8_a_file_cut_in_front_of_its_records_is_damage_and_not_an_empty_log() {
    let fs = machine(1);
    begin(0).take(&fs).append_all(20);
    let whole = fs.snapshot();
    for len in [512, 4095, 4096, 8191] {
        fs.restore(&whole);
        let file = fs.open_write(&path_of(0)).unwrap();
        file.set_len(len).unwrap();
        file.sync().unwrap();
        expect_damage(&fs, &path_of(0), 8192, 0);
    }
}

#[test]
pub(super) fn case_B4_a_flipped_byte_before_durable_records_is_damage_and_not_an_end() {
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(24);
    let whole = fs.snapshot();
    let at = writer.begun[7];
    for byte in at..writer.begun[8] {
        fs.restore(&whole);
        fs.flip(path_of(0), byte, 0x10).unwrap();
        // The last byte of padding is checked like any other.
        expect_damage(&fs, &path_of(0), at, 7);
    }
}

#[test]
fn case_B4_with_only_garbage_after_it_it_is_an_end() {
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(7);
    for _ in 0..17 {
        writer.stage(&[1; 50]);
    }
    writer.commit().unwrap();
    let (from, to) = (writer.begun[8], writer.position);
    let garbage: Vec<u8> = (from..to).map(|at| (at * 31 % 251) as u8).collect();
    fs.overwrite(path_of(0), from, &garbage).unwrap();
    fs.flip(path_of(0), writer.begun[7] + 40, 1).unwrap();
    fs.process_death();
    assert_eq!(recovered_records(&fs), expected(7));
}

#[test]
fn i4_every_field_of_a_vouched_record_and_of_one_that_is_not() {
    let fields = [0, 4, 8, 11, 12, 13, 14, 16, 20, 24, 26, 31, 40];
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(10);
    let plain = fs.snapshot();
    writer.checkpoint();
    let checkpointed = fs.snapshot();
    for field in fields {
        for mask in [0x01, 0x80, 0xff] {
            let (middle, last) = (writer.begun[4], writer.begun[9]);
            for image in [&plain, &checkpointed] {
                fs.restore(image);
                fs.flip(path_of(0), middle + field, mask).unwrap();
                expect_damage(&fs, &path_of(0), middle, 4);
            }
            fs.restore(&plain);
            fs.flip(path_of(0), last + field, mask).unwrap();
            fs.process_death();
            assert_eq!(recovered_records(&fs), expected(9), "field {field}, mask {mask}");
            // Nothing stands behind the last record that could vouch for it but the checkpoint.
            fs.restore(&checkpointed);
            fs.flip(path_of(0), last + field, mask).unwrap();
            expect_damage(&fs, &path_of(0), last, 9);
        }
    }
}

#[test]
pub(super) fn i4_every_byte_of_a_header() {
    let fs = machine(1);
    let mut first = begin(0).take(&fs);
    first.append_all(6);
    begin(6).take(&fs).append_all(3);
    let whole = fs.snapshot();
    for byte in 0..SECTOR_LEN as u64 {
        for (base, readable) in [(0, 0), (6, 6)] {
            fs.restore(&whole);
            fs.flip(path_of(base), byte, 0x04).unwrap();
            let position = if byte < 8 { 0 } else { 508 };
            expect_damage(&fs, &path_of(base), position, readable);
        }
    }
}

#[test]
fn a_flipped_checkpoint_is_ignored() {
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(5);
    writer.checkpoint();
    let whole = fs.snapshot();
    for byte in 0..SECTOR_LEN as u64 {
        fs.restore(&whole);
        fs.flip(path_of(0), CHECKPOINT_POSITION + byte, 0x20).unwrap();
        fs.process_death();
        assert_eq!(recovered_records(&fs), expected(5), "byte {byte}");
    }
}

#[test]
fn a_checkpoint_that_no_writer_makes_is_ignored() {
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(5);
    let whole = fs.snapshot();
    // Room without a record, a record without room, and one more than fits.
    for (position, next) in [(CAPACITY, 0), (8192, 1), (8192 + 64, 3)] {
        fs.restore(&whole);
        let checkpoint = Checkpoint {
            generation: generation(3),
            log: LOG,
            position,
            next: Offset(next),
            millis: 0,
        };
        fs.overwrite(path_of(0), CHECKPOINT_POSITION, &checkpoint.encode()).unwrap();
        fs.process_death();
        assert_eq!(recovered_records(&fs), expected(5), "{position} {next}");
    }
}

#[test]
fn i4_a_file_cut_below_its_checkpoint_is_damaged() {
    let mut file = begin(0);
    file.capacity = 1 << 20;
    let fs = machine(1);
    let mut writer = file.take(&fs);
    for _ in 0..40 {
        writer.append(&[3; 16_000]);
    }
    writer.checkpoint();
    let whole = fs.snapshot();
    for count in [2, 39] {
        fs.restore(&whole);
        let (at, len) = (writer.begun[count], writer.begun[count] + 100);
        fs.open_write(&path_of(0)).unwrap().set_len(len).unwrap();
        expect_damage(&fs, &path_of(0), at, count as u64);
    }
}

#[test]
fn i4_a_lost_header_of_a_record_larger_than_the_window_hides_nothing() {
    let mut file = begin(0);
    file.capacity = 16 << 20;
    let fs = machine(1);
    let mut writer = file.take(&fs);
    writer.append_all(3);
    writer.append(&vec![7; (WINDOW + 100_000) as usize]);
    writer.append_all(1);
    let whole = fs.snapshot();
    let large = writer.begun[3];
    // In the body, in a field of the header that is not a length, and in the header's checksum.
    for byte in [large + 1_000_000, large + 27, large] {
        fs.restore(&whole);
        fs.flip(path_of(0), byte, 1).unwrap();
        expect_damage(&fs, &path_of(0), large, 3);
    }
}

#[test]
fn i4_the_first_claim_may_stand_just_behind_the_window() {
    let mut file = begin(0);
    file.capacity = 16 << 20;
    let fs = machine(1);
    let mut writer = file.take(&fs);
    let step = (WINDOW * 3 / 4) as usize;
    writer.append(&vec![1; step]);
    // Both are staged before the first is durable, so the second claims nothing; only the third does, and it stands
    // more than a window behind the first.
    writer.stage(&vec![2; step]);
    writer.stage(&vec![3; step]);
    writer.commit().unwrap();
    writer.append_all(1);
    assert!(writer.begun[3] > writer.begun[1] + WINDOW);
    fs.flip(path_of(0), writer.begun[1] + 50, 1).unwrap();
    expect_damage(&fs, &path_of(0), writer.begun[1], 1);
}

#[test]
fn i4_a_later_segment_in_the_place_of_a_lost_one_does_not_fit() {
    let fs = machine(1);
    begin(0).take(&fs).append_all(5);
    // No room in the first file for so many records: those between are missing.
    begin(5_000).take(&fs).append_all(2);
    expect_damage(&fs, &path_of(5_000), 48, 5);
}

#[test]
fn i3_a_gap_that_no_repair_declared_is_damage_and_one_that_did_is_not() {
    for code in 1..=3 {
        let fs = machine(1);
        begin(0).take(&fs).append_all(5);
        let mut second = begin(8);
        second.previous_end = 5;
        second.origin = Origin::Repair;
        second.take(&fs).append_all(1);
        // No writer makes a header like this, so it is made from one that a repair may write.
        let mut block = second.in_use().encode();
        block[14] = code;
        let crc = crc32fast::hash(&block[..508]);
        block[508..512].copy_from_slice(&crc.to_le_bytes());
        fs.overwrite(path_of(8), 0, &block).unwrap();
        if code == 3 {
            fs.process_death();
            assert_eq!(next_of(&recovered(&fs)), 9);
        } else {
            expect_damage(&fs, &path_of(8), 48, 5);
        }
    }
}

#[test]
fn i2_the_branch_behind_a_heal_stays_hidden_when_the_heals_header_is_lost() {
    let fs = machine(1);
    let mut first = begin(0).take(&fs);
    first.append_all(4);
    // In flight when the write failed; the log went on at 4 in another file.
    first.stage(b"never confirmed");
    first.write().unwrap();
    let mut healed = begin(4);
    healed.origin = Origin::Heal;
    healed.take(&fs).append_all(2);
    fs.process_death();
    assert!(recovered(&fs).segments[0].failed);
    fs.flip(path_of(4), 100, 1).unwrap();
    expect_damage(&fs, &path_of(4), 508, 4);
}

#[test]
fn i8_only_a_file_in_the_taking_that_does_not_begin_at_0_is_damage() {
    let fs = machine(1);
    let lost = begin(12);
    lost.place(&fs, &lost.spare());
    expect_damage(&fs, &path_of(12), 0, 12);
}

#[test]
fn a_newer_layout_is_refused_and_left_alone() {
    let fs = machine(1);
    begin(0).take(&fs).append_all(2);
    let mut block = begin(2).in_use().encode();
    block[8] = 9;
    let crc = crc32fast::hash(&block[..508]);
    block[508..512].copy_from_slice(&crc.to_le_bytes());
    let file = fs.create(&path_of(2)).unwrap();
    file.write_at(0, &block).unwrap();
    fs.record(true);
    let error = try_recover(&fs, CAPACITY).unwrap_err();
    assert!(matches!(error, RecoverError::Newer { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("00000000000000000002.seg"), "{text}");
    assert!(text.contains("offset 8") && text.contains("found 9"), "{text}");
    assert_eq!(changes(&fs), Vec::<String>::new());
}

#[test]
fn a_sealed_segment_must_reach_the_next_one_and_no_further() {
    let fs = machine(1);
    let mut first = begin(0).take(&fs);
    first.append_all(6);
    // What is behind the next segment's beginning is of a branch that was cut off.
    first.stage(b"cut off");
    first.write().unwrap();
    begin(6).take(&fs).append_all(1);
    let whole = fs.snapshot();
    for record in 0..7 {
        fs.restore(&whole);
        fs.flip(path_of(0), first.begun[record] + 33, 2).unwrap();
        fs.process_death();
        let found = recovered(&fs);
        let check = check_segment(&fs, LOG, &found.segments[0], found.segments.get(1)).unwrap();
        if record < 6 {
            let damage = check.damage.unwrap();
            let at = (first.begun[record], Some(Offset(record as u64)));
            assert_eq!((damage.position, damage.offset), at, "{damage}");
        } else {
            assert_eq!(check.damage, None);
            assert_eq!((check.tail.records, check.tail.end.next), (6, Offset(6)));
        }
    }
}

#[test]
fn looking_reports_the_same_damage() {
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(10);
    fs.flip(path_of(0), writer.begun[2] + 32, 1).unwrap();
    let look = look(&fs, Path::new(DIR)).unwrap();
    let damage = look.damage.unwrap();
    assert_eq!((damage.position, damage.offset), (writer.begun[2], Some(Offset(2))));
    let text = damage.to_string();
    for part in ["00000000000000000000.seg", "record 2", "body CRC32 (+4)", "found", "expected"] {
        assert!(text.contains(part), "{part} is missing in: {text}");
    }
}

#[test]
pub(super) fn i2_records_of_another_log_that_continue_the_offsets_exactly_are_not_read() {
    // The file's last use was by another log (or the same one), whose records were of the same lengths.
    for (log, last_generation) in [(OTHER, 3), (OTHER, 2), (LOG, 2)] {
        let fs = machine(1);
        let mut last_use = begin(0);
        last_use.log = log;
        last_use.generation = last_generation;
        let mut writer = last_use.take(&fs);
        writer.append_all(30);
        writer.checkpoint();
        let file = fs.open_write(&path_of(0)).unwrap();
        let mut writer = begin(0).reuse(file);
        writer.append_all(3);
        fs.process_death();
        assert_eq!(recovered_records(&fs), expected(3), "{log} {last_generation}");
        let mut writer = Writer::resume(&fs, &recovered(&fs));
        writer.append_all(1);
        fs.process_death();
        assert_eq!(recovered_records(&fs), expected(4), "{log} {last_generation}");
    }
}

#[test]
fn a_foreign_file_and_a_link_are_named_and_nothing_is_touched() {
    for name in ["00000000000000000000.seg~", "index", "7.seg"] {
        let fs = machine(1);
        let path: PathBuf = Path::new(DIR).join(name);
        fs.create(&path).unwrap();
        fs.record(true);
        let error = try_recover(&fs, CAPACITY).unwrap_err();
        assert!(matches!(&error, RecoverError::Foreign { path: named } if *named == path));
        assert_eq!(changes(&fs), Vec::<String>::new());
    }
    let fs = machine(1);
    fs.prepare_link(path_of(0), "/data/victim").unwrap();
    let error = try_recover(&fs, CAPACITY).unwrap_err();
    assert!(matches!(error, RecoverError::Link { path } if path == path_of(0)));
}

#[test]
fn i4_i8_another_logs_header_before_records_is_damage_and_not_an_empty_log() {
    let fs = machine(1);
    begin(0).take(&fs).append_all(3);
    let whole = fs.snapshot();
    let mut other = begin(0);
    other.log = OTHER;
    fs.overwrite(path_of(0), 0, &other.in_use().encode()).unwrap();
    expect_damage(&fs, &path_of(0), 8192, 0);
    // Of another generation it says nothing of what an earlier use left there.
    fs.restore(&whole);
    other.generation = 4;
    fs.overwrite(path_of(0), 0, &other.in_use().encode()).unwrap();
    fs.process_death();
    assert_eq!(recovered_records(&fs), Vec::new());
    // A first record that is not whole proves nothing.
    fs.restore(&whole);
    other.generation = 3;
    fs.overwrite(path_of(0), 0, &other.in_use().encode()).unwrap();
    fs.flip(path_of(0), 8192 + 40, 1).unwrap();
    fs.process_death();
    assert_eq!(recovered_records(&fs), Vec::new());
}

#[test]
fn i4_i8_another_logs_header_before_a_checkpoint_of_its_generation_is_damage() {
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(3);
    writer.checkpoint();
    let mut other = begin(0);
    other.log = OTHER;
    let whole = fs.snapshot();
    for (generation, damaged) in [(3, true), (4, false)] {
        fs.restore(&whole);
        other.generation = generation;
        fs.overwrite(path_of(0), 0, &other.in_use().encode()).unwrap();
        // The checkpoint alone shows it: here the first record is gone.
        fs.zero(path_of(0), 8192..8400).unwrap();
        if damaged {
            expect_damage(&fs, &path_of(0), 8192, 0);
        } else {
            fs.process_death();
            assert_eq!(recovered_records(&fs), Vec::new());
        }
    }
}
