//! The marks log, and the way back from it and from messages.

use super::*;
use proptest::prelude::*;

fn golden() -> (Stamp, CarriedMark, Vec<u8>) {
    let at = stamp(0x0101, 0x0202, 0x0303);
    let mark = Mark { content: 0x0404, seq: Seq(0x0505), bytes: 0x0606, ..at_place() };
    let carried = CarriedMark { id: 0x0707, queue: QueueId(0x0808), mark, age_ms: 0x0909 };
    let le = |number: u64| number.to_le_bytes();
    let bytes = [
        &[1][..],
        &le(0x0101),
        &le(0x0202),
        &le(0x0303),
        &le(0x0707),
        &le(0),
        &le(0x0808),
        &le(0x0404),
        &le(0x0505),
        &[6, 6, 0, 0],
        &[4],
        &le(0x0a0a),
        &le(0x0909),
    ];
    (at, carried, bytes.concat())
}

fn at_place() -> Mark {
    at(0x0a0a)
}

#[test]
fn the_bytes_are_those_of_the_format_page() {
    let (at, carried, bytes) = golden();
    assert_eq!(bytes.len(), 25 + 61);
    assert_eq!(encode(&at, &[carried]), std::slice::from_ref(&bytes));
    assert_eq!(decode(&bytes), Ok(CarriedMarks { at, marks: vec![carried] }));
}

#[test]
fn the_hashes_are_those_of_the_format_page() {
    let digests = Digests::new(KEY);
    assert_eq!(digests.key(Q, "k-1"), 0x5534_6031_0162_a48f_600d_c9a8_0166_6575);
    let message = crate::api::NewMessage {
        payload: bytes::Bytes::from_static(b"hello"),
        headers: vec![("a".into(), "1".into()), ("a".into(), String::new())],
        content_type: Some("text/plain".into()),
        correlation_id: Some("any".into()),
        key: Some("k-1".into()),
    };
    assert_eq!(digests.content(&message), 0x1813_b23a_b204_4581);
}

#[test]
fn what_two_messages_must_have_in_common_is_in_the_hash() {
    let digests = Digests::new(KEY);
    let one = crate::api::NewMessage {
        payload: bytes::Bytes::from_static(b"hello"),
        headers: vec![("ab".into(), "c".into())],
        ..Default::default()
    };
    let hash = digests.content(&one);
    let mut other = one.clone();
    other.correlation_id = Some("the second try".into());
    other.key = Some("K1".into());
    assert_eq!(digests.content(&other), hash);
    let changes: [fn(&mut crate::api::NewMessage); 5] = [
        |message| message.payload = bytes::Bytes::from_static(b"hell"),
        |message| message.headers = vec![("a".into(), "bc".into())],
        |message| message.headers.push((String::new(), String::new())),
        |message| message.headers.clear(),
        |message| message.content_type = Some("x".into()),
    ];
    for change in changes {
        let mut other = one.clone();
        change(&mut other);
        assert_ne!(digests.content(&other), hash, "{other:?}");
    }
}

#[test]
fn what_is_no_record_of_marks_is_an_error() {
    let (_, _, bytes) = golden();
    for len in 0..bytes.len() {
        let expected = if len == 25 { Ok(0) } else { Err(BadMarks::Length) };
        assert_eq!(decode(&bytes[..len]).map(|read| read.marks.len()), expected, "{len}");
    }
    let changed = |at: usize, byte| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        decode(&bytes).unwrap_err()
    };
    assert_eq!(changed(0, 2), BadMarks::Version(2));
    assert_eq!(changed(25 + 44, 10), BadMarks::Band(10));
    assert_eq!(decode(&[&bytes[..], &[0]].concat()), Err(BadMarks::Length));
}

#[test]
fn many_marks_are_many_records_that_fit_into_the_smallest_file() {
    let (at, carried, _) = golden();
    let many = vec![carried; 2_500];
    let records = encode(&at, &many);
    assert_eq!(records.len(), 5);
    assert!(records.iter().all(|record| record.len() <= RECORD_MAX));
    // Of 64 KiB, a block is the file's own.
    const { assert!(RECORD_MAX < 56 << 10) };
    let back: Vec<_> = records.iter().flat_map(|record| decode(record).unwrap().marks).collect();
    assert_eq!(back, many);
    assert!(encode(&at, &[]).is_empty());
}

/// A mark of age 10 s, carried in boot 5 at 100 s, and restored at this time: when it is over.
fn restored(now: &Stamp) -> Option<u64> {
    let mut marks = marks();
    let carried =
        CarriedMark { id: Digests::new(KEY).key(Q, "K1"), queue: Q, mark: at(3), age_ms: 10_000 };
    marks.restore_carried(&stamp(5, 100_000, 1_000_000), &carried, now);
    marks.next_expiry().inspect(|&expires| {
        assert_eq!(marks.look(Q, "K1", 7, expires - 1), stored(3));
        assert_eq!(marks.look(Q, "K1", 7, expires), Look::New);
        assert!(all(&marks, 0).is_empty(), "it is in the marks log already");
    })
}

#[test]
fn q5_case_k1_a_carried_marks_age_survives_a_restart_whatever_the_wall_clock_says() {
    // The process alone: boot time counts, and 40 s have passed.
    for wall in [0, 1_040_000, 9_000_000_000] {
        assert_eq!(restored(&stamp(5, 140_000, wall)), Some(140_000 + WINDOW - 50_000));
    }
    // The machine: the wall clock counts, within the window. The new boot may be younger than the mark.
    assert_eq!(restored(&stamp(6, 1_000, 1_040_000)), Some(1_000 + WINDOW - 50_000));
    assert_eq!(restored(&stamp(6, 1_000, 0)), Some(1_000 + WINDOW - 10_000));
    assert_eq!(restored(&stamp(6, 1_000, 9_000_000_000)), None);
    // Over since.
    assert_eq!(restored(&stamp(5, 100_000 + WINDOW - 10_000, 0)), None);
}

#[test]
fn a_messages_own_record_gives_its_mark_back() {
    let restored = |published_ms| {
        let mut marks = marks();
        marks.restore_message(Q, "K1", at(3), published_ms, &stamp(5, 1_000, 1_000_000));
        marks.next_expiry().inspect(|_| assert_eq!(offsets(&all(&marks, 0)), [3]))
    };
    assert_eq!(restored(990_000), Some(1_000 + WINDOW - 10_000));
    // Published in a future that the clock was set back from: the whole window, and no more.
    assert_eq!(restored(9_000_000_000), Some(1_000 + WINDOW));
    assert_eq!(restored(1_000_000 - WINDOW), None);
}

#[test]
fn of_two_records_of_one_key_the_later_message_counts_in_either_order() {
    let now = stamp(5, 0, 1_000_000);
    let id = Digests::new(KEY).key(Q, "K1");
    let carried = CarriedMark { id, queue: Q, mark: at(3), age_ms: 0 };
    for first in [true, false] {
        let mut marks = marks();
        if first {
            marks.restore_carried(&now, &carried, &now);
        }
        marks.restore_message(Q, "K1", at(4), 1_000_000, &now);
        if !first {
            marks.restore_carried(&now, &carried, &now);
        }
        assert_eq!(marks.look(Q, "K1", 7, 0), stored(4));
        assert_eq!((marks.len(), offsets(&all(&marks, 0))), (1, vec![4]));
    }
}

#[test]
fn a_mark_that_is_found_twice_is_carried_and_has_the_age_that_boot_time_gave() {
    let now = stamp(5, 20_000, 9_000_000);
    let id = Digests::new(KEY).key(Q, "K1");
    let carried = CarriedMark { id, queue: Q, mark: at(3), age_ms: 5_000 };
    for first in [true, false] {
        let mut marks = marks();
        if first {
            marks.restore_carried(&stamp(5, 20_000, 0), &carried, &now);
        }
        marks.restore_message(Q, "K1", at(3), 9_000_000, &now);
        if !first {
            marks.restore_carried(&stamp(5, 20_000, 0), &carried, &now);
        }
        assert_eq!((marks.len(), all(&marks, 0).len()), (1, 0));
        marks.expire(20_000 + WINDOW - 5_001);
        assert_eq!(marks.len(), 1);
        marks.expire(20_000 + WINDOW - 5_000);
        assert_eq!(marks.len(), 0);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_marks_or_an_error_and_have_one_form(mut bytes: Vec<u8>, marks in 0_usize..3) {
        // Of a right length now and then.
        bytes.resize(25 + 61 * marks + bytes.len() % 2, 4);
        bytes[0] %= 2;
        if let Ok(read) = decode(&bytes) {
            prop_assert_eq!(read.marks.len(), marks);
            if marks > 0 {
                prop_assert_eq!(encode(&read.at, &read.marks), [bytes]);
            }
        }
    }
}
