//! What a purge takes and leaves.

use super::bench::{Bench, LOW, QUEUE, SIZE, high, id};
use crate::api::{Counts, Verb};
use crate::event::Event;
use crate::state::{Frame, Standing};
use plimsoll::Offset;

/// One in flight, one given back, one late, one dead, one fresh; and one fresh in another band.
fn mixed() -> Bench {
    let mut bench = Bench::with(5);
    bench.publish(high(), 1);
    let ids: Vec<_> = (0..4).map(|offset| id(LOW, offset, 1)).collect();
    bench.deliver(&ids, Some("c"));
    bench.queue_mut().begin_lease(&ids[0], u64::MAX);
    bench.settle(Verb::Nack, ids[1]);
    bench.settle(Verb::Reject, ids[3]);
    assert_eq!(bench.expire_after(60_000).ready, [ids[2]]);
    assert_eq!(bench.counts(), Counts { ready: 4, in_flight: 1, redelivered: 2, dead: 1 });
    bench
}

#[test]
fn a_purge_takes_what_is_ready_and_leaves_what_is_in_flight_or_dead() {
    let mut bench = mixed();
    bench.purge(false);
    assert_eq!(bench.counts(), Counts { ready: 0, in_flight: 1, redelivered: 0, dead: 1 });
    assert_eq!(bench.queue().bytes(), 2 * u64::from(SIZE));
    assert_eq!(bench.planned(9), []);
    assert_eq!(bench.queue().floor(LOW), Offset(0));
    bench.publish(LOW, 1);
    assert_eq!(bench.planned(9), [id(LOW, 5, 1)], "what is published behind it stays");
    assert_eq!(bench.queue().bytes(), 3 * u64::from(SIZE));
}

#[test]
fn a_purge_takes_the_dead_if_asked() {
    let mut bench = mixed();
    bench.purge(true);
    assert_eq!(bench.counts(), Counts { ready: 0, in_flight: 1, redelivered: 0, dead: 0 });
    bench.settle(Verb::Ack, id(LOW, 0, 1));
    assert_eq!(bench.queue().floor(LOW), Offset(5));
    assert_eq!(bench.queue().bytes(), 0);
}

#[test]
fn what_was_in_flight_comes_again_after_a_purge() {
    let mut bench = mixed();
    bench.purge(true);
    bench.settle(Verb::Nack, id(LOW, 0, 1));
    assert_eq!(bench.planned(9), [id(LOW, 0, 2)]);
}

#[test]
fn a_purge_holds_after_a_restart_for_leases_that_had_ended_too() {
    let mut bench = mixed();
    bench.purge(false);
    for frame in [bench.frame, Frame { boot: 9, now_ms: 0 }] {
        let mut shard = bench.replayed(frame);
        let mut queue = shard.queue_mut(QUEUE).unwrap();
        assert_eq!(queue.counts(), bench.counts());
        assert_eq!(queue.bytes(), bench.queue().bytes());
        assert_eq!(queue.expire(u64::MAX - 1, 99).ready, [id(LOW, 0, 1)]);
        assert_eq!(queue.check(&id(LOW, 2, 1)), Standing::Gone);
    }
}

#[test]
fn the_events_of_a_purge_are_short() {
    let mut bench = Bench::with(2_500);
    bench.take(2_500);
    bench.expire_after(60_000);
    let events = bench.queue().plan_purge(QUEUE, false);
    let items = events.iter().map(|event| match event {
        Event::Ended { items, .. } => items.len(),
        _ => 0,
    });
    assert_eq!(items.collect::<Vec<_>>(), [1_000, 1_000, 500, 0]);
    bench.purge(false);
    assert_eq!(bench.counts(), Counts::default());
}

#[test]
fn an_end_behind_the_cursor_takes_nothing_back() {
    let mut bench = Bench::with(5);
    let ids = bench.take(4);
    bench.settle(Verb::Nack, ids[0]);
    bench.settle(Verb::Nack, ids[3]);
    let next_seq = bench.queue().next_seq();
    let ends = vec![(LOW, Offset(2), 200)];
    bench.apply(Event::Purged { queue: QUEUE, ends, next_seq, dead: false });
    assert_eq!(bench.planned(9), [id(LOW, 3, 2), id(LOW, 4, 1)]);
    assert_eq!(bench.queue().bytes(), 4 * u64::from(SIZE));
}
