//! What marks take of memory.

use super::*;

const MIB: usize = 1 << 20;

/// What is taken when nothing is: a first step of growth.
const BASE: usize = 16 << 10;

#[test]
fn case_g8_many_keys_used_once_take_what_is_allowed_and_give_it_back() {
    let mut marks = Marks::new(KEY, 8 * MIB, WINDOW);
    for key in 0..1_000_000_u64 {
        let key_text = key.to_string();
        marks.claim(Q, &key_text);
        marks.stored(Q, &key_text, at(key), key / 100);
        if key % 10_000 == 0 {
            assert!(marks.bytes() <= 8 * MIB + BASE, "{} at {key}", marks.bytes());
        }
    }
    // A hard cap with a defined answer: the latest are there, the others are as new, and it is known how many.
    let kept = marks.len();
    assert!(kept >= 60_000, "{kept}");
    assert_eq!(marks.dropped() + kept as u64, 1_000_000);
    // A hundred of them have the same millisecond.
    let oldest = 1_000_000 - kept as u64;
    assert_eq!(marks.look(Q, &(oldest + 100).to_string(), 7, 10_000), stored(oldest + 100));
    assert_eq!(marks.look(Q, &(oldest - 100).to_string(), 7, 10_000), Look::New);
    marks.expire(10_000 + 2 * WINDOW);
    assert_eq!(marks.len(), 0);
    assert!(marks.bytes() <= BASE, "{}", marks.bytes());
}

#[test]
fn what_is_counted_is_what_is_taken_at_every_size() {
    let mut marks = Marks::new(KEY, 64 * MIB, WINDOW);
    for key in 0..200_000_usize {
        // Half of them in queues of their own, which have a list each.
        let queue = QueueId(if key % 2 == 0 { 1 } else { key as u64 });
        marks.stored(queue, "K", at(key as u64), 0);
        marks.stored(Q, &key.to_string(), at(key as u64), 0);
        if key % 97 == 0 {
            let counted = marks.store.cost() + BASE;
            assert!(marks.bytes() <= counted, "{} of {counted} at {key}", marks.bytes());
        }
    }
}

#[test]
fn keys_that_are_used_again_and_again_leave_nothing_behind() {
    let mut marks = marks();
    for round in 0..100_000 {
        let key = (round % 10).to_string();
        marks.claim(Q, &key);
        if round % 3 == 0 {
            marks.release(Q, &key);
        } else {
            marks.stored(Q, &key, at(round), round);
        }
    }
    assert!(marks.len() <= 10);
    assert!(marks.bytes() <= BASE, "{}", marks.bytes());
}
