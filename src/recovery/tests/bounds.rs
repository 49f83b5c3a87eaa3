//! What recovery may cost, and what it must survive whatever the bytes are.

use super::support::*;
use crate::format::WINDOW;
use crate::fs::FileSystem;
use crate::fs::sim::SimFileSystem;
use crate::recovery::Tail;

#[test]
fn i12_what_is_read_does_not_grow_with_the_log() {
    let mut reads = Vec::new();
    for records in [100, 700] {
        let fs = machine(1);
        let mut file = begin(0);
        file.capacity = 16 << 20;
        let mut writer = file.take(&fs);
        for at in 0..records {
            writer.append(&[1; 16_000]);
            // As the format asks: where a megabyte was written since the last one.
            if at % 60 == 59 {
                writer.checkpoint();
            }
        }
        fs.process_death();
        let found = try_recover(&fs, file.capacity).unwrap();
        assert_eq!(next_of(&found), records);
        // The records since the checkpoint, the window behind the end, and the block of the end again.
        assert!(found.report.bytes_read <= (1 << 20) + WINDOW + 300_000, "{:?}", found.report);
        assert!(found.report.bytes_written_again <= 32 * 1024, "{:?}", found.report);
        reads.push(found.report.bytes_read);
    }
    assert!(reads[1] <= reads[0] + 300_000, "{reads:?}");
}

#[test]
fn i12_of_a_sealed_segment_only_the_header_is_read() {
    let fs = machine(1);
    let mut next = 0;
    for _ in 0..200 {
        let mut writer = begin(next).take(&fs);
        writer.append_all(3);
        next = writer.next;
    }
    fs.process_death();
    let found = recovered(&fs);
    assert_eq!((found.segments.len(), next_of(&found)), (200, 600));
    assert!(found.report.bytes_read < 200 * 512 + 3 * CAPACITY, "{:?}", found.report);
}

/// Numbers good enough to vary a test (xorshift).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn spoil(fs: &SimFileSystem, state: &mut u64) {
    for _ in 0..=next(state) % 4 {
        let path = path_of([0, 6, 9][(next(state) % 3) as usize]);
        let position = next(state) % CAPACITY;
        match next(state) % 6 {
            0 => fs.zero(&path, position..position + next(state) % 3000).unwrap(),
            1 => fs.flip(&path, next(state) % 512, 1 << (next(state) % 8)).unwrap(),
            2 => fs.open_write(&path).unwrap().set_len(position).unwrap(),
            3 => {
                let other = fs.cached(path_of(0)).unwrap();
                let from = (position as usize).min(other.len());
                fs.overwrite(&path, (next(state) % CAPACITY) & !7, &other[from..]).unwrap();
            }
            _ => fs.flip(&path, position, 1 << (next(state) % 8)).unwrap(),
        }
    }
}

#[test]
fn whatever_the_bytes_are_it_answers_twice_the_same_and_changes_nothing_that_is_damaged() {
    let fs = machine(1);
    begin(0).take(&fs).append_all(6);
    begin(6).take(&fs).append_all(3);
    let mut last = begin(9).take(&fs);
    last.append_all(12);
    for at in 0..4 {
        last.stage(&[at; 700]);
    }
    last.commit().unwrap();
    let whole = fs.snapshot();
    let mut state = 0x1234_5678_9abc_def1;
    let (mut damaged, mut open) = (0, 0);
    for round in 0..600 {
        fs.restore(&whole);
        spoil(&fs, &mut state);
        fs.process_death();
        let before = fs.fingerprint();
        let first = try_recover(&fs, CAPACITY).unwrap();
        match first.tail {
            Tail::Damaged { .. } => {
                damaged += 1;
                assert_eq!(fs.fingerprint(), before, "round {round}");
            }
            _ => open += 1,
        }
        let again = try_recover(&fs, CAPACITY).unwrap();
        assert_eq!((&again.tail, &again.segments), (&first.tail, &first.segments), "{round}");
    }
    assert!(damaged > 100 && open > 100, "{damaged} damaged, {open} open");
}
