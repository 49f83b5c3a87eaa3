//! What is beyond the end must never come back, and what was shown must stay: two crashes, every outcome of each.

use super::support::*;
use crate::fs::FileSystem;
use crate::fs::sim::{AllPersisted, Scripted, SimFileSystem};
use crate::recovery::Tail;

/// What happens to the first life's process before the power fails, or instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// The power fails at once.
    PowerCut,
    /// The process dies and recovery sees what is only in the cache.
    Death,
}

/// A confirmed record, then a batch of records with payloads of `first` bytes that is never confirmed; recovery; one
/// record of `confirmed` bytes confirmed, and a batch of `second` bytes that is not; recovery again.
#[derive(Clone, Debug)]
pub(super) struct Life {
    pub(super) before: usize,
    pub(super) first: Vec<usize>,
    pub(super) confirmed: usize,
    pub(super) second: Vec<usize>,
}

fn fill(len: usize, at: usize) -> Vec<u8> {
    (0..len).map(|byte| (byte / 64 + at * 16 + 1) as u8).collect()
}

fn is_prefix(part: &[Seen], whole: &[Seen]) -> bool {
    part.len() <= whole.len() && part == &whole[..part.len()]
}

/// Tries every outcome of both power cuts; gives their number.
pub(super) fn explore(life: &Life, how: First) -> u64 {
    let mut states = 0;
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.stage(&fill(life.before, 0));
    writer.commit().unwrap();
    for (at, len) in life.first.iter().enumerate() {
        writer.stage_at(100 + at as u64, &fill(*len, 1 + at));
    }
    writer.write().unwrap();
    let image = fs.snapshot();
    let mut first = Scripted::default();
    loop {
        fs.restore(&image);
        match how {
            First::PowerCut => fs.power_cut(&mut first),
            First::Death => fs.process_death(),
        }
        let shown = recovered_records(&fs);
        assert!(!shown.is_empty(), "the confirmed record is lost");
        states += second_life(&fs, life, &shown);
        if !first.advance() {
            return states;
        }
    }
}

/// Goes on after the first recovery showed `shown`.
fn second_life(fs: &SimFileSystem, life: &Life, shown: &[Seen]) -> u64 {
    let mut states = 0;
    let found = recovered(fs);
    let mut writer = Writer::resume(fs, &found);
    let mut whole = shown.to_vec();
    let mut stage = |writer: &mut Writer, millis: u64, payload: Vec<u8>| {
        let offset = writer.next;
        writer.stage_at(millis, &payload);
        whole.push(Seen { offset, millis, payload });
    };
    // The client sends again what it got no answer for: the same payloads at the same places, with later stamps.
    stage(&mut writer, 200, fill(life.confirmed, 1));
    writer.commit().unwrap();
    for (at, len) in life.second.iter().enumerate() {
        stage(&mut writer, 201 + at as u64, fill(*len, 2 + at));
    }
    writer.write().unwrap();
    let confirmed = whole.len() - life.second.len();
    let image = fs.snapshot();
    let mut second = Scripted::default();
    loop {
        fs.restore(&image);
        fs.power_cut(&mut second);
        let seen = recovered_records(fs);
        assert!(is_prefix(&seen, &whole), "a ghost: {seen:?}\nafter {:?}", second.script());
        assert!(seen.len() >= confirmed, "a confirmed record is lost");
        // Recovery of what recovery left is the same.
        assert_eq!(recovered_records(fs), seen);
        states += 1;
        if !second.advance() {
            return states;
        }
    }
}

pub(super) fn a_record_of_the_same_length_fills_the_gap() {
    // Each record takes one sector.
    let life = Life { before: 480, first: vec![480, 480], confirmed: 480, second: vec![480] };
    assert!(explore(&life, First::PowerCut) >= 8);
}

pub(super) fn half_a_record_is_made_whole_by_the_next_one() {
    // The second record takes two sectors, and its lost half is written again with the same bytes.
    let life = Life { before: 480, first: vec![480, 992], confirmed: 480, second: vec![992] };
    assert!(explore(&life, First::PowerCut) >= 16);
}

#[test]
fn i2_a_record_behind_a_lost_one_does_not_come_back() {
    a_record_of_the_same_length_fills_the_gap();
}

#[test]
fn i2_half_a_record_does_not_come_back() {
    half_a_record_is_made_whole_by_the_next_one();
}

#[test]
fn i2_with_headers_across_sectors_and_other_lengths() {
    let lengths = [
        // Record headers that begin 8, 16 and 24 bytes before a sector's end.
        (472, vec![480, 992], 480, vec![992]),
        (464, vec![480, 480], 480, vec![480, 480]),
        (456, vec![992], 200, vec![248, 480]),
        (480, vec![8, 8, 480], 8, vec![8, 480]),
        (480, vec![0, 0, 0], 0, vec![0, 0]),
    ];
    for (before, first, confirmed, second) in lengths {
        let life = Life { before, first, confirmed, second };
        for how in [First::PowerCut, First::Death] {
            assert!(explore(&life, how) >= 2, "{life:?}");
        }
    }
}

#[test]
fn i2_what_recovery_showed_stays_whatever_the_second_power_cut_does() {
    let life = Life { before: 480, first: vec![480, 992], confirmed: 300, second: vec![1200] };
    assert!(explore(&life, First::Death) >= 4);
}

#[test]
fn the_zeroes_reach_exactly_the_window() {
    use crate::format::WINDOW;
    let mut file = begin(0);
    file.capacity = 4 * WINDOW;
    let fs = machine(1);
    let mut writer = file.take(&fs);
    writer.append_all(1);
    let end = writer.position;
    for at in [end, end + 8, end + 4096, end + WINDOW - 8, end + WINDOW, end + WINDOW + 40] {
        // Only the generation, where a header would have it.
        fs.overwrite(path_of(0), at + 12, &[3, 0, 9]).unwrap();
    }
    fs.process_death();
    let found = try_recover(&fs, file.capacity).unwrap();
    assert_eq!(found.report.positions_zeroed, 3, "one of two that overlap takes the other with it");
    fs.power_cut(&mut AllPersisted);
    let bytes = fs.open_read(&path_of(0)).unwrap();
    let mut left = [0; 3];
    for at in [end, end + 8, end + 4096, end + WINDOW - 8, end + WINDOW] {
        bytes.read_at(at + 12, &mut left).unwrap();
        assert_eq!(left, [0; 3], "at {at}");
    }
    bytes.read_at(end + WINDOW + 40 + 12, &mut left).unwrap();
    assert_eq!(left, [3, 0, 9], "nothing can start there");
    assert!(matches!(found.tail, Tail::Open { .. }));
}
