//! From claim to end.

use super::*;

#[test]
fn case_f7_a_refused_publish_leaves_no_trace_and_its_retry_is_stored() {
    let mut marks = marks();
    // Refused for the disk, then for the queue, then by a failed write.
    for _ in 0..3 {
        assert_eq!(marks.look(Q, "K1", 7, 0), Look::New);
        marks.claim(Q, "K1");
        assert_eq!(marks.look(Q, "K1", 7, 0), Look::InProgress);
        marks.release(Q, "K1");
        assert!(marks.is_empty() && all(&marks, 0).is_empty());
    }
    // Not even its content: the retry may bring another.
    assert_eq!(marks.look(Q, "K1", 8, 0), Look::New);
    marks.claim(Q, "K1");
    marks.stored(Q, "K1", at(3), 0);
    assert_eq!(marks.look(Q, "K1", 7, 1), stored(3));
    assert_eq!(marks.look(Q, "K1", 8, 1), Look::OtherContent(Seq(30)));
}

#[test]
fn a_stored_key_is_not_released() {
    let mut marks = marks();
    marks.claim(Q, "K1");
    marks.stored(Q, "K1", at(3), 0);
    marks.release(Q, "K1");
    assert_eq!(marks.look(Q, "K1", 7, 1), stored(3));
    marks.release(Q, "never claimed");
}

#[test]
fn a_key_is_its_queues_own() {
    let mut marks = marks();
    marks.stored(Q, "K1", at(3), 0);
    assert_eq!(marks.look(QueueId(2), "K1", 7, 0), Look::New);
    assert_eq!(marks.look(Q, "K", 7, 0), Look::New);
}

#[test]
fn a_mark_lives_for_the_window_whether_swept_or_not() {
    let mut marks = marks();
    marks.stored(Q, "K1", at(3), 1_000);
    assert_eq!(marks.next_expiry(), Some(1_000 + WINDOW));
    marks.expire(999 + WINDOW);
    assert_eq!(marks.look(Q, "K1", 7, 999 + WINDOW), stored(3));
    assert_eq!(marks.look(Q, "K1", 7, 1_000 + WINDOW), Look::New);
    assert!(all(&marks, 1_000 + WINDOW).is_empty());
    // Used again before it was swept: the sweep of the first must not take the second.
    marks.claim(Q, "K1");
    marks.expire(1_000 + WINDOW);
    assert_eq!(marks.look(Q, "K1", 7, 1_000 + WINDOW), Look::InProgress);
    marks.stored(Q, "K1", at(4), 1_000 + WINDOW);
    marks.expire(1_001 + WINDOW);
    assert_eq!(marks.look(Q, "K1", 7, 1_001 + WINDOW), stored(4));
    assert_eq!(offsets(&all(&marks, 1_001 + WINDOW)), [4]);
    marks.expire(u64::MAX);
    assert!(marks.is_empty() && marks.next_expiry().is_none());
}

#[test]
fn a_deleted_queues_keys_are_forgotten_and_no_others() {
    let mut marks = marks();
    for offset in 0..100 {
        let queue = QueueId(offset % 3);
        marks.stored(queue, &offset.to_string(), at(offset), 0);
    }
    marks.claim(Q, "under way");
    marks.remove_queue(Q);
    assert_eq!(marks.len(), 67);
    assert_eq!(marks.look(Q, "under way", 7, 0), Look::New);
    for offset in 0..100 {
        let queue = QueueId(offset % 3);
        let expected = if queue == Q { Look::New } else { stored(offset) };
        assert_eq!(marks.look(queue, &offset.to_string(), 7, 0), expected);
    }
    assert!(all(&marks, 0).is_empty());
    marks.expire(u64::MAX);
    assert!(marks.is_empty());
}

#[test]
fn a_mark_is_carried_once_and_before_its_record_is_freed() {
    let mut marks = marks();
    let other = Band::new(9).unwrap();
    for offset in 0..10 {
        marks.stored(Q, &offset.to_string(), at(offset), offset);
        let place = Place { band: other, offset: Offset(offset) };
        marks.stored(Q, &format!("other {offset}"), Mark { place, ..at(offset) }, offset);
    }
    let first = marks.carry(Q, Band::DEFAULT, Offset(4), 50);
    assert_eq!(offsets(&first), [0, 1, 2, 3]);
    assert_eq!(first.iter().map(|carried| carried.age_ms).collect::<Vec<_>>(), [50, 49, 48, 47]);
    // Not durable yet: they come again.
    assert_eq!(marks.carry(Q, Band::DEFAULT, Offset(4), 50), first);
    marks.carried(&first);
    assert_eq!(offsets(&marks.carry(Q, Band::DEFAULT, Offset(6), 50)), [4, 5]);
    assert_eq!(marks.carry(Q, other, Offset(4), 50).len(), 4);
    // Still known, and carried for good.
    assert_eq!(marks.look(Q, "0", 7, 50), stored(0));
    assert_eq!(marks.len(), 20);
}

#[test]
fn noting_what_was_carried_of_an_earlier_use_changes_nothing() {
    let mut marks = marks();
    marks.stored(Q, "K1", at(3), 0);
    let carried = all(&marks, 0);
    marks.stored(Q, "K1", at(4), WINDOW);
    marks.carried(&carried);
    assert_eq!(offsets(&all(&marks, WINDOW)), [4]);
}

#[test]
fn the_oldest_leave_first_and_are_counted() {
    let mut marks = Marks::new(KEY, 100 * MARK_BYTES + 64, WINDOW);
    for offset in 0..150 {
        marks.stored(Q, &offset.to_string(), at(offset), offset);
    }
    assert_eq!((marks.len(), marks.dropped()), (100, 50));
    assert_eq!(marks.look(Q, "49", 7, 150), Look::New);
    assert_eq!(marks.look(Q, "50", 7, 150), stored(50));
    assert_eq!(all(&marks, 150).len(), 100);
    // Marks that end in their time are not counted.
    marks.expire(u64::MAX);
    assert_eq!(marks.dropped(), 50);
}

#[test]
fn claims_are_never_dropped() {
    let mut marks = Marks::new(KEY, 2 * MARK_BYTES, WINDOW);
    for key in 0..10 {
        marks.claim(Q, &key.to_string());
    }
    marks.stored(Q, "3", at(3), 0);
    assert_eq!(marks.look(Q, "2", 7, 0), Look::InProgress);
    assert_eq!((marks.len(), marks.dropped()), (0, 1));
}
