//! When leases end, before and after a restart.

use super::bench::{Bench, LEASE, LOW, QUEUE, id};
use crate::api::Verb;
use crate::event::{DeadReason, End, Entry};
use crate::state::{Expired, Frame, HAND_OFF_MS, Standing};
use std::time::Duration;

#[test]
fn q5_a_lease_of_this_boot_ends_when_its_hand_off_at_the_latest_would_have_it_end() {
    let mut bench = Bench::with(1);
    let given = bench.frame.now_ms;
    bench.take(1);
    bench.restart(Frame { now_ms: given + 400, ..bench.frame });
    assert_eq!(bench.queue().next_deadline(), Some(given + LEASE + HAND_OFF_MS));
    assert_eq!(bench.shard.next_deadline(), Some((given + LEASE + HAND_OFF_MS, QUEUE)));
}

#[test]
fn q5_a_lease_of_another_boot_runs_in_full_from_the_start() {
    let mut bench = Bench::with(1);
    let first = bench.take(1)[0];
    bench.restart(Frame { boot: 2, now_ms: 70 });
    assert_eq!(bench.queue().next_deadline(), Some(70 + LEASE));
    assert_eq!(bench.queue().check(&first), Standing::InFlight);
}

#[test]
fn q5_attempts_survive_a_restart() {
    let mut bench = Bench::with(1);
    for attempt in 1..=2 {
        assert_eq!(bench.take(1), [id(LOW, 0, attempt)]);
        bench.restart(Frame { boot: u64::from(attempt) + 1, now_ms: 0 });
        assert_eq!(bench.expire_after(LEASE).ready, [id(LOW, 0, attempt)]);
    }
    assert_eq!(bench.take(1), [id(LOW, 0, 3)]);
    assert_eq!(bench.expire_after(60_000).exhausted, [id(LOW, 0, 3)]);
}

#[test]
fn q5_a_stamp_from_the_future_is_another_boots_and_does_not_lease_for_longer() {
    let mut bench = Bench::with(1);
    bench.take(1);
    let restart = Frame { now_ms: 30, ..bench.frame };
    bench.restart(restart);
    assert_eq!(bench.queue().next_deadline(), Some(30 + LEASE));
}

#[test]
fn a_lease_runs_from_the_hand_off() {
    let mut bench = Bench::with(2);
    let ids = bench.take(2);
    bench.queue_mut().begin_lease(&ids[0], u64::MAX);
    bench.queue_mut().begin_lease(&ids[1], 12_345);
    assert_eq!(bench.shard.next_deadline(), Some((12_345, QUEUE)));
    assert_eq!(bench.expire_after(1 << 40).ready, [ids[1]], "one that does not run does not end");
    bench.queue_mut().begin_lease(&ids[1], 1);
    assert_eq!(bench.queue().check(&ids[1]), Standing::Late, "what has ended does not begin");
    bench.queue_mut().begin_lease(&ids[0], 1);
    assert_eq!(bench.expire_after(0).ready, [ids[0]]);
}

#[test]
fn leases_end_in_order_and_not_before_their_time() {
    let mut bench = Bench::with(3);
    let ids = bench.take(3);
    for (id, until) in ids.iter().zip([30_000, 10_001, 20_000]) {
        bench.queue_mut().begin_lease(id, until);
    }
    assert_eq!(bench.expire_after(0), Expired::default());
    assert_eq!(bench.queue_mut().expire(u64::MAX, 1).ready, [ids[1]]);
    assert_eq!(bench.queue_mut().expire(u64::MAX, 0), Expired::default());
    assert_eq!(bench.queue_mut().expire(u64::MAX, 5).ready, [ids[2], ids[0]]);
    assert_eq!(bench.counts().in_flight, 0);
}

#[test]
fn q4_the_last_attempt_is_told_once_and_in_flight_until_its_death_is_written() {
    let mut bench = Bench::with(1);
    for _ in 0..2 {
        let id = bench.take(1)[0];
        bench.settle(Verb::Nack, id);
    }
    let last = bench.take(1)[0];
    let want = Expired { ready: vec![], exhausted: vec![last] };
    assert_eq!(bench.expire_after(60_000), want);
    assert_eq!(bench.expire_after(60_000), Expired::default());
    assert_eq!((bench.shard.in_flight(), bench.queue().next_deadline()), (1, None));
    assert_eq!(bench.planned(1), []);
    // A start in between tells it again: from the events, and from a snapshot.
    let mut other = bench.replayed(bench.frame);
    let mut queue = other.queue_mut(QUEUE).unwrap();
    assert_eq!(queue.expire(bench.frame.now_ms, 9), want);
    drop(queue);
    let parts = bench.shard.snapshot();
    bench.log = vec![Entry::SnapshotBegin { parts: 1 }, Entry::SnapshotPart(parts[0].clone())];
    bench.log.push(Entry::SnapshotEnd { parts: 1 });
    bench.restart(bench.frame);
    assert_eq!(bench.expire_after(0), want);
    bench.end(last, End::Dead(DeadReason::Attempts));
    assert_eq!((bench.shard.in_flight(), bench.counts().dead), (0, 1));
}

#[test]
fn q5_an_extended_lease_runs_from_when_it_was_extended() {
    let mut bench = Bench::with(1);
    let given = bench.frame.now_ms;
    let first = bench.take(1)[0];
    bench.frame.now_ms = given + 900;
    bench.settle(Verb::Extend(Duration::from_secs(20)), first);
    let want = Some(given + 900 + 20_000 + HAND_OFF_MS);
    assert_eq!(bench.queue().next_deadline(), want);
    assert_eq!(bench.replayed(bench.frame).queue(QUEUE).unwrap().next_deadline(), want);
}

#[test]
fn q5_a_delivery_whose_earlier_lease_had_ended_needs_no_event_of_that() {
    let mut bench = Bench::with(1);
    let first = bench.take(1)[0];
    bench.expire_after(60_000);
    let second = bench.take(1)[0];
    let replayed = bench.replayed(bench.frame);
    let queue = replayed.queue(QUEUE).unwrap();
    assert_eq!(queue.check(&first), Standing::Gone);
    assert_eq!(queue.check(&second), Standing::InFlight);
    assert_eq!(queue.counts(), bench.counts());
}

/// An extension that came before its delivery was told to be handed over was taken back by the shorter lease.
#[test]
fn q6_a_lease_that_was_extended_does_not_begin_again_at_its_hand_over() {
    let mut bench = Bench::with(2);
    let ids = bench.take(2);
    ids.iter().for_each(|id| bench.queue_mut().begin_lease(id, u64::MAX));
    bench.queue_mut().begin_lease(&ids[0], 90_000);
    ids.iter().for_each(|id| bench.queue_mut().handed_over(id, 30_000));
    assert_eq!(bench.queue().next_deadline(), Some(30_000));
    bench.end(ids[1], End::Acked);
    assert_eq!(bench.queue().next_deadline(), Some(90_000));
}
