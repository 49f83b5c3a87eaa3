//! Deliveries that reached nobody.

use super::bench::{Bench, LOW, QUEUE, id};
use crate::api::{Counts, Settled, Verb};
use crate::event::{End, Event};
use crate::state::{Next, Shard, Standing};

#[test]
fn q5_a_first_delivery_that_is_undone_costs_no_attempt_and_is_not_remembered_as_one() {
    let mut bench = Bench::with(2);
    let first = bench.take(1)[0];
    bench.end(first, End::Undone);
    assert_eq!(bench.counts(), Counts { ready: 2, in_flight: 0, redelivered: 0, dead: 0 });
    assert_eq!(bench.queue().floor(LOW), first.place.offset);
    let Some(Next::Again(ready)) = bench.queue().next() else { panic!("it is not ready") };
    assert_eq!((ready.id, ready.first_delivered_ms), (first, None));
    bench.frame.now_ms += 77;
    let now = bench.at().wall_ms;
    assert_eq!(bench.take(1), [first], "before newer ones");
    assert_eq!(bench.queue().known(&first).unwrap().1, Some(now), "first delivered only now");
}

#[test]
fn q6_a_receipt_of_an_undone_delivery_is_gone() {
    let mut bench = Bench::with(1);
    let first = bench.take(1)[0];
    bench.end(first, End::Undone);
    assert_eq!(bench.queue().check(&first), Standing::Undone);
    assert_eq!(bench.settle(Verb::Ack, first), Settled::Gone);
}

#[test]
fn q6_an_undone_delivery_leaves_what_was_before_it() {
    for returned in [true, false] {
        let mut bench = Bench::with(1);
        let first = bench.take(1)[0];
        let want = if returned {
            bench.settle(Verb::Nack, first);
            Standing::Returned
        } else {
            bench.expire_after(60_000);
            Standing::Late
        };
        for _ in 0..2 {
            let second = bench.take(1)[0];
            assert_eq!(second.attempt, 2);
            let leased = bench.shard.snapshot();
            let undone = Event::Ended { queue: QUEUE, end: End::Undone, items: vec![second] };
            bench.apply(undone.clone());
            assert_eq!(bench.queue().check(&first), want);
            assert_eq!(bench.queue().check(&second), Standing::Undone);
            let replayed = bench.replayed(bench.frame);
            assert_eq!(replayed.queue(QUEUE).unwrap().check(&first), want);
            let mut restored = Shard::restore(&leased, &bench.frame).unwrap();
            restored.apply(&undone, &bench.frame);
            assert_eq!(restored.queue(QUEUE).unwrap().check(&first), want, "after a snapshot");
        }
    }
}

#[test]
fn q5_undone_after_its_lease_has_ended_it_still_costs_no_attempt() {
    let mut bench = Bench::with(1);
    let first = bench.take(1)[0];
    bench.expire_after(60_000);
    bench.end(first, End::Undone);
    assert_eq!(bench.planned(1), [id(LOW, 0, 1)]);
    bench.end(first, End::Undone);
    assert_eq!(bench.planned(1), [id(LOW, 0, 1)], "undone once");
}
