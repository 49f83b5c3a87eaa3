//! Whatever a disk may hold: nothing panics, and what is counted stays right.

use super::bench::{Bench, LOW, QUEUE, SIZE, audit, id, seq_at};
use crate::api::{QueueId, Seq};
use crate::event::tests::events;
use crate::event::{DeliveryId, End, Event, Place};
use crate::state::{Frame, Shard};
use plimsoll::Offset;
use proptest::collection::vec;
use proptest::prelude::*;

#[test]
fn events_that_fit_nothing_change_nothing() {
    let mut bench = Bench::with(5);
    let ids = bench.take(2);
    bench.end(ids[1], End::Nacked);
    let before = bench.shard.snapshot();
    let other = DeliveryId { seq: Seq(99), ..ids[0] };
    for odd in [other, id(LOW, 0, 2), id(LOW, 3, 1), id(LOW, 1, 2)] {
        for end in [End::Acked, End::Nacked, End::Undone] {
            bench.end(odd, end);
            assert_eq!(bench.shard.snapshot(), before, "{end:?} of {odd:?}");
        }
    }
    // Given back, it is over: not a second time in another way.
    for end in [End::Acked, End::Nacked, End::Undone] {
        bench.end(ids[1], end);
        assert_eq!(bench.shard.snapshot(), before, "{end:?}");
    }
    // Delivered already; another attempt than the next; another message at its place; none at all.
    for odd in [ids[0], id(LOW, 0, 3), DeliveryId { attempt: 2, ..other }, id(LOW, 4, 0)] {
        bench.deliver(&[odd], None);
        assert_eq!(bench.shard.snapshot(), before, "{odd:?}");
    }
    bench.apply(Event::Paused { queue: QueueId(8), paused: true });
    assert_eq!(bench.shard.snapshot(), before);
}

#[test]
fn no_message_stands_at_the_last_offset_of_all() {
    let mut bench = Bench::with(1);
    bench.deliver(&[], None);
    let before = bench.shard.snapshot();
    let place = Place { band: LOW, offset: Offset(u64::MAX) };
    bench.deliver(&[DeliveryId { seq: Seq(1), place, attempt: 1 }], None);
    assert_eq!(bench.shard.snapshot(), before);
}

#[test]
fn what_is_finished_or_dead_is_not_delivered_again_by_an_old_event() {
    let mut bench = Bench::with(3);
    let ids = bench.take(2);
    bench.end(ids[0], End::Acked);
    bench.end(ids[1], End::Dead(crate::event::DeadReason::Rejected));
    let before = bench.shard.snapshot();
    bench.deliver(&[ids[0], ids[1], id(LOW, 1, 2)], None);
    assert_eq!(bench.shard.snapshot(), before);
    assert_eq!(bench.queue().bytes(), 2 * u64::from(SIZE));
}

/// Ids near each other, so that events meet.
fn near() -> impl Strategy<Value = DeliveryId> {
    (0..12u64, 1..4u32, prop::bool::weighted(0.05)).prop_map(|(offset, attempt, odd)| {
        let place = Place { band: LOW, offset: Offset(offset) };
        let seq = if odd { Seq(3) } else { seq_at(place) };
        DeliveryId { seq, place, attempt }
    })
}

/// Events of one queue about few messages, whatever their order.
fn near_events() -> impl Strategy<Value = Event> {
    (events(), vec(near(), 0..6)).prop_map(|(mut event, ids)| {
        match &mut event {
            Event::Delivered { queue, items, .. } => {
                *queue = QUEUE;
                items.truncate(ids.len());
                items.iter_mut().zip(ids).for_each(|(item, id)| item.id = id);
            }
            Event::Ended { queue, items, .. } | Event::Extended { queue, items, .. } => {
                *queue = QUEUE;
                *items = ids;
            }
            Event::Purged { queue, ends, .. } => {
                *queue = QUEUE;
                ends.truncate(1);
                ends.iter_mut().for_each(|end| (end.0, end.1) = (LOW, Offset(ids.len() as u64)));
            }
            Event::Paused { .. } => {}
        }
        event
    })
}

proptest! {
    #[test]
    fn any_events_in_any_order_leave_a_sound_state(
        log in vec(prop_oneof![4 => near_events(), 1 => events()], 0..60),
        now_ms: u64,
        end in 0..20u64,
        until: u64,
    ) {
        let mut bench = Bench::new();
        bench.frame = Frame { boot: 1, now_ms };
        for queue in 0..4 {
            bench.shard.add(QueueId(queue), &bench.settings);
        }
        for (step, event) in log.into_iter().enumerate() {
            bench.apply(event);
            if step == 20 {
                bench.queue_mut().confirmed(LOW, Offset(end), end * 100, Seq(end));
                audit(&bench.shard);
            }
            if step % 8 == 7 {
                bench.queue_mut().expire(until, 3);
                audit(&bench.shard);
                prop_assert!(bench.queue().plan(10).len() <= 10);
            }
        }
        // Sums of sizes of 64 bits may stand in an odd event: they must not overflow.
        let _ = (bench.queue().bytes(), bench.counts(), bench.queue().plan_purge(QUEUE, true));
        let restored = Shard::restore(&bench.shard.snapshot(), &bench.frame).unwrap();
        audit(&restored);
        prop_assert_eq!(restored.snapshot(), Shard::restore(&restored.snapshot(), &bench.frame).unwrap().snapshot());
    }

    #[test]
    fn any_bytes_are_a_bad_snapshot_or_a_sound_state(
        mut parts in vec(vec(any::<u8>(), 0..60), 0..4),
        good: bool,
    ) {
        if let (true, Some(first)) = (good, parts.first_mut()) {
            first.splice(0..0, [1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 7, 0, 9, 2, 4, 50, 0]);
        }
        if let Ok(shard) = Shard::restore(&parts, &Frame { boot: 1, now_ms: 5 }) {
            audit(&shard);
        }
    }

    #[test]
    fn a_changed_snapshot_is_bad_or_a_sound_state(
        log in vec(near_events(), 0..30),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bench = Bench::new();
        log.into_iter().for_each(|event| bench.apply(event));
        let mut parts = bench.shard.snapshot();
        for (at, to) in changes {
            let at = at.index(parts[0].len());
            parts[0][at] = to;
        }
        if let Ok(shard) = Shard::restore(&parts, &bench.frame) {
            audit(&shard);
        }
    }
}
