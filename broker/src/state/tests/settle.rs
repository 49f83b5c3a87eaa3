//! What a receipt answers, cell by cell, and how each standing comes about.

use super::bench::{Bench, LEASE, LOW, QUEUE, id};
use crate::api::{Settled, Verb};
use crate::event::{DeadReason, DeliveryId, End};
use crate::state::{FINISHED_MAX, Standing, settled};
use std::time::Duration;

const EXTEND: Verb = Verb::Extend(Duration::from_millis(500));

#[test]
fn q6_every_standing_has_one_answer_to_each_verb() {
    use Settled::{Already, Done, Foreign, Gone, Late};
    let table = [
        (Standing::InFlight, [Done, Done, Done, Done]),
        (Standing::Late, [Late, Late, Late, Gone]),
        (Standing::Returned, [Gone, Already, Gone, Gone]),
        (Standing::Dead(DeadReason::Rejected), [Gone, Gone, Already, Gone]),
        (Standing::Dead(DeadReason::Attempts), [Gone, Already, Gone, Gone]),
        (Standing::Dead(DeadReason::Unreadable), [Gone, Gone, Gone, Gone]),
        (Standing::Acked, [Already, Gone, Gone, Gone]),
        (Standing::Gone, [Gone, Gone, Gone, Gone]),
        (Standing::Undone, [Gone, Gone, Gone, Gone]),
        (Standing::Forgotten, [Already, Already, Already, Gone]),
        (Standing::NeverDelivered, [Foreign, Foreign, Foreign, Foreign]),
    ];
    for (standing, answers) in table {
        for (verb, answer) in [Verb::Ack, Verb::Nack, Verb::Reject, EXTEND].into_iter().zip(answers)
        {
            assert_eq!(settled(verb, standing), answer, "{verb:?} of {standing:?}");
        }
    }
}

fn one() -> (Bench, DeliveryId) {
    let mut bench = Bench::with(1);
    let ids = bench.take(1);
    (bench, ids[0])
}

fn standing(bench: &Bench, id: &DeliveryId) -> Standing {
    bench.queue().check(id)
}

#[test]
fn q6_a_delivery_is_in_flight_until_its_lease_ends_and_late_until_the_next() {
    let (mut bench, first) = one();
    assert_eq!(standing(&bench, &first), Standing::InFlight);
    bench.expire_after(60_000);
    assert_eq!(standing(&bench, &first), Standing::Late);
    let second = bench.take(1)[0];
    assert_eq!(second.attempt, 2);
    assert_eq!(standing(&bench, &first), Standing::Gone);
    assert_eq!(standing(&bench, &second), Standing::InFlight);
}

#[test]
fn q6_a_late_ack_is_done_and_a_repeat_of_it_already() {
    let (mut bench, first) = one();
    bench.expire_after(60_000);
    assert_eq!(bench.settle(EXTEND, first), Settled::Gone);
    assert_eq!(bench.settle(Verb::Ack, first), Settled::Late);
    assert_eq!(bench.counts().depth(), 0);
    let written = bench.log.len();
    assert_eq!(bench.settle(Verb::Ack, first), Settled::Already);
    assert_eq!(bench.settle(Verb::Nack, first), Settled::Gone);
    assert_eq!(bench.log.len(), written, "a repeat writes nothing");
}

#[test]
fn q6_an_ack_after_the_last_attempt_counts_until_its_death_is_written() {
    let (mut bench, mut last) = one();
    for _ in 0..2 {
        bench.settle(Verb::Nack, last);
        last = bench.take(1)[0];
    }
    assert_eq!(bench.expire_after(60_000).exhausted, [last]);
    assert_eq!(bench.settle(Verb::Ack, last), Settled::Late);
    bench.end(last, End::Dead(DeadReason::Attempts));
    assert_eq!(bench.counts().dead, 0, "it was done before");
}

#[test]
fn q6_a_nack_is_already_until_the_next_delivery_and_then_gone() {
    let (mut bench, first) = one();
    assert_eq!(bench.settle(Verb::Nack, first), Settled::Done);
    assert_eq!(standing(&bench, &first), Standing::Returned);
    assert_eq!(bench.settle(Verb::Nack, first), Settled::Already);
    assert_eq!(bench.settle(Verb::Ack, first), Settled::Gone);
    bench.take(1);
    assert_eq!(bench.settle(Verb::Nack, first), Settled::Gone);
}

#[test]
fn q6_a_nack_of_the_last_attempt_is_a_death_and_a_repeat_already() {
    let (mut bench, mut last) = one();
    for _ in 0..2 {
        bench.settle(Verb::Nack, last);
        last = bench.take(1)[0];
    }
    assert_eq!(bench.queue().end_of(&last, Verb::Nack), Some(End::Dead(DeadReason::Attempts)));
    assert_eq!(bench.settle(Verb::Nack, last), Settled::Done);
    assert_eq!(standing(&bench, &last), Standing::Dead(DeadReason::Attempts));
    assert_eq!(bench.settle(Verb::Nack, last), Settled::Already);
    assert_eq!((bench.counts().dead, bench.counts().depth()), (1, 0));
}

#[test]
fn q6_a_dead_message_is_remembered_as_that_when_it_is_purged() {
    let (mut bench, first) = one();
    assert_eq!(bench.settle(Verb::Reject, first), Settled::Done);
    assert_eq!(bench.settle(Verb::Reject, first), Settled::Already);
    bench.purge(true);
    assert_eq!(bench.counts().dead, 0);
    assert_eq!(bench.settle(Verb::Reject, first), Settled::Already);
    assert_eq!(bench.settle(Verb::Ack, first), Settled::Gone);
}

#[test]
fn q6_what_was_purged_while_it_was_ready_again_is_gone() {
    let (mut bench, first) = one();
    bench.settle(Verb::Nack, first);
    bench.purge(false);
    for verb in [Verb::Ack, Verb::Nack, Verb::Reject, EXTEND] {
        assert_eq!(bench.settle(verb, first), Settled::Gone, "{verb:?}");
    }
}

#[test]
fn q6_what_was_never_delivered_is_foreign() {
    let (mut bench, first) = one();
    bench.publish(LOW, 1);
    for other in [id(LOW, 1, 1), id(LOW, 99, 1), DeliveryId { attempt: 0, ..first }] {
        assert_eq!(bench.settle(Verb::Ack, other), Settled::Foreign, "{other:?}");
    }
}

#[test]
fn q6_an_earlier_delivery_of_a_finished_message_is_gone() {
    let (mut bench, first) = one();
    bench.expire_after(60_000);
    let second = bench.take(1)[0];
    assert_eq!(bench.settle(Verb::Ack, second), Settled::Done);
    assert_eq!(bench.settle(Verb::Ack, first), Settled::Gone);
    assert_eq!(bench.settle(Verb::Ack, second), Settled::Already);
}

#[test]
fn q6_beyond_what_is_remembered_a_finished_message_is_already_done() {
    let count = FINISHED_MAX as u64 + 10;
    let mut bench = Bench::with(count);
    let ids = bench.take(FINISHED_MAX + 10);
    let items = ids.clone();
    bench.apply(crate::event::Event::Ended { queue: QUEUE, end: End::Acked, items });
    assert_eq!(bench.shard.finished.len(), FINISHED_MAX);
    assert_eq!(standing(&bench, &ids[9]), Standing::Forgotten);
    assert_eq!(standing(&bench, &ids[10]), Standing::Acked);
    assert_eq!(bench.settle(Verb::Ack, ids[0]), Settled::Already);
    bench.shard.remove(QUEUE);
    assert_eq!(bench.shard.finished.len(), 0, "a deleted queue takes no room from others");
}

#[test]
fn q6_extending_what_is_leased_may_be_repeated() {
    let (mut bench, first) = one();
    for _ in 0..2 {
        assert_eq!(bench.settle(EXTEND, first), Settled::Done);
    }
    assert_eq!(bench.queue().end_of(&first, EXTEND), None);
}

#[test]
fn q6_a_batch_settles_a_delivery_that_it_names_twice_once() {
    let mut bench = Bench::with(3);
    let ids = bench.take(3);
    bench.frame.now_ms += 60_000;
    let now = bench.frame.now_ms;
    assert_eq!(bench.queue_mut().expire(now, 1).ready, [ids[0]]);
    let named = [ids[0], ids[1], ids[0], ids[1], id(LOW, 50, 1)];
    let batch = bench.queue().settle_all(Verb::Ack, &named);
    let already = Settled::Already;
    assert_eq!(batch.answers, [Settled::Late, Settled::Done, already, already, Settled::Foreign]);
    assert_eq!(batch.ends, [(End::Acked, vec![ids[0], ids[1]])]);
    let batch = bench.queue().settle_all(EXTEND, &named);
    assert_eq!(batch.answers[1], Settled::Done);
    assert_eq!(batch.answers[3], Settled::Done);
    assert_eq!(batch.extended, [ids[1]]);
    assert_eq!(batch.ends, []);
}

#[test]
fn q6_a_batch_of_nacks_tells_the_last_attempts_from_the_others() {
    let mut bench = Bench::with(2);
    let (old, new) = (id(LOW, 0, 3), id(LOW, 1, 1));
    for attempt in 1..=3 {
        bench.deliver(&[id(LOW, 0, attempt)], None);
    }
    bench.deliver(&[new], None);
    let batch = bench.queue().settle_all(Verb::Nack, &[old, new]);
    assert_eq!(
        batch.ends,
        [(End::Dead(DeadReason::Attempts), vec![old]), (End::Nacked, vec![new])]
    );
    assert_eq!(bench.queue().next_deadline(), Some(bench.frame.now_ms + LEASE + 5_000));
}
