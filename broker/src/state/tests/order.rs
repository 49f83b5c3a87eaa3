//! What is delivered next, and how much there is.

use super::bench::{Bench, LOW, QUEUE, SIZE, high, id};
use crate::api::{Counts, Seq, Verb};
use crate::event::{DeadReason, End};
use crate::name::ConsumerName;
use crate::state::{Next, Ready};
use plimsoll::Offset;

#[test]
fn high_bands_first_and_of_a_band_what_comes_again_before_what_is_new() {
    let mut bench = Bench::with(4);
    let low = bench.take(2);
    bench.publish(high(), 2);
    let first = bench.take(1);
    assert_eq!(first, [id(high(), 0, 1)]);
    // Given back in the wrong order, they come in the right one.
    for id in [low[1], low[0], first[0]] {
        bench.settle(Verb::Nack, id);
    }
    let want = [
        id(high(), 0, 2),
        id(high(), 1, 1),
        id(LOW, 0, 2),
        id(LOW, 1, 2),
        id(LOW, 2, 1),
        id(LOW, 3, 1),
    ];
    assert_eq!(bench.planned(10), want);
    for max in 0..6 {
        assert_eq!(bench.planned(max), want[..max], "at most {max}");
    }
    let bands: Vec<_> = bench.queue().bands().map(|(band, _)| band).collect();
    assert_eq!(bands, [high(), LOW]);
}

#[test]
fn a_plan_names_what_is_known_and_ranges_of_what_is_not() {
    let mut bench = Bench::with(1_000);
    let first = bench.take(1)[0];
    let first_ms = bench.at().wall_ms;
    bench.settle(Verb::Nack, first);
    bench.frame.now_ms += 50;
    let again = Ready { id: id(LOW, 0, 2), bytes: SIZE, first_delivered_ms: Some(first_ms) };
    assert_eq!(bench.queue().next(), Some(Next::Again(again)));
    let fresh = Next::Fresh { band: LOW, from: Offset(1), to: Offset(32) };
    assert_eq!(bench.queue().plan(32), [Next::Again(again), fresh]);
    let second = bench.take(1)[0];
    assert_eq!(bench.queue().known(&second), Some((SIZE, Some(first_ms))), "the first stays");
    assert_eq!(bench.queue().known(&id(LOW, 1, 1)), None);
    assert_eq!(Bench::new().queue().next(), None);
}

#[test]
fn q4_counts_and_bytes_are_those_of_what_is_held() {
    let mut bench = Bench::with(10);
    let ids = bench.take(4);
    bench.settle(Verb::Ack, ids[0]);
    bench.settle(Verb::Nack, ids[1]);
    bench.settle(Verb::Reject, ids[2]);
    let want = Counts { ready: 7, in_flight: 1, redelivered: 1, dead: 1 };
    assert_eq!(bench.counts(), want);
    assert_eq!(bench.queue().bytes(), 9 * u64::from(SIZE));
    assert_eq!(bench.queue().dead_bytes(), u64::from(SIZE));
    assert_eq!(bench.shard.in_flight(), 1);
    assert_eq!(bench.shard.remove(QUEUE), Some(want));
    assert_eq!(bench.shard.in_flight(), 0);
    assert_eq!(bench.shard.next_deadline(), None);
}

#[test]
fn q4_skipped_records_never_make_bytes_too_few() {
    let mut bench = Bench::with(10);
    let size = u64::from(SIZE);
    bench.deliver(&[id(LOW, 4, 1)], None);
    assert_eq!(bench.counts().ready, 5);
    // The four before it are counted until it is known that they are gone.
    assert_eq!(bench.queue().bytes(), 10 * size);
    bench.queue_mut().correct(LOW, 5 * size);
    assert_eq!(bench.queue().bytes(), 6 * size);
    bench.queue_mut().correct(LOW, 0);
    bench.deliver(&[id(LOW, 9, 1)], None);
    assert_eq!(bench.queue().bytes(), 2 * size, "nothing is left but what is in flight");
    bench.publish(LOW, 3);
    assert_eq!(bench.queue().bytes(), 5 * size, "what was skipped does not come back");
}

#[test]
fn q4_bytes_do_not_underflow_where_the_log_says_less_than_was_consumed() {
    let mut bench = Bench::with(3);
    bench.queue_mut().correct(LOW, u64::MAX);
    assert_eq!(bench.queue().bytes(), 0);
    bench.take(1);
    assert_eq!(bench.queue().bytes(), u64::from(SIZE));
}

#[test]
fn older_news_of_what_is_confirmed_changes_nothing() {
    let mut bench = Bench::with(5);
    bench.queue_mut().confirmed(LOW, Offset(3), 300, Seq(1));
    let band = *bench.queue().band(LOW).unwrap();
    assert_eq!((band.end(), band.total()), (Offset(5), 500));
    assert_eq!(bench.queue().next_seq(), Seq(60));
}

#[test]
fn records_that_cannot_be_read_are_passed_over_up_to_the_end_and_not_back() {
    let mut bench = Bench::with(5);
    bench.queue_mut().skip(LOW, Offset(3));
    assert_eq!(bench.planned(9), [id(LOW, 3, 1), id(LOW, 4, 1)]);
    bench.queue_mut().skip(LOW, Offset(1));
    assert_eq!(bench.queue().cursor(LOW), Offset(3));
    bench.queue_mut().skip(LOW, Offset(100));
    assert_eq!(bench.queue().cursor(LOW), Offset(5), "what is not published yet is not skipped");
    assert_eq!(bench.counts().ready, 0);
}

#[test]
fn the_floor_is_the_first_message_that_still_matters() {
    let mut bench = Bench::with(4);
    assert_eq!(bench.queue().floor(LOW), Offset(0));
    let ids = bench.take(3);
    bench.settle(Verb::Ack, ids[1]);
    assert_eq!(bench.queue().floor(LOW), Offset(0));
    bench.settle(Verb::Reject, ids[0]);
    assert_eq!(bench.queue().floor(LOW), Offset(0), "a dead message keeps its place");
    bench.purge(true);
    assert_eq!(bench.queue().floor(LOW), Offset(2));
    bench.settle(Verb::Ack, ids[2]);
    assert_eq!(bench.queue().floor(LOW), Offset(4));
    assert_eq!(bench.queue().floor(high()), Offset(0), "of a band that is not in use");
}

#[test]
fn consumers_are_counted_by_their_names() {
    let mut bench = Bench::with(6);
    let name = ConsumerName::new("a").unwrap();
    bench.deliver(&[id(LOW, 0, 1), id(LOW, 1, 1)], Some("a"));
    bench.deliver(&[id(LOW, 2, 1)], Some("b"));
    bench.deliver(&[id(LOW, 3, 1)], None);
    let of = |bench: &Bench, name: Option<&ConsumerName>| bench.queue().in_flight_of(name);
    assert_eq!((of(&bench, Some(&name)), of(&bench, None)), (2, 1));
    bench.settle(Verb::Ack, id(LOW, 0, 1));
    bench.settle(Verb::Nack, id(LOW, 1, 1));
    assert_eq!((of(&bench, Some(&name)), of(&bench, None)), (0, 1));
    bench.deliver(&[id(LOW, 1, 2)], Some("a"));
    assert_eq!(of(&bench, Some(&name)), 1);
    bench.expire_after(60_000);
    assert_eq!((of(&bench, Some(&name)), of(&bench, None)), (0, 0));
    let mut ready = bench.queue().live.values();
    assert!(ready.all(|live| live.consumer.is_none()), "what nobody holds keeps no name");
}

#[test]
fn dead_messages_are_listed_with_their_reasons() {
    let mut bench = Bench::with(4);
    let ids = bench.take(3);
    bench.settle(Verb::Reject, ids[0]);
    bench.settle(Verb::Nack, ids[1]);
    // Found unreadable when it was to be delivered again: its event may name that delivery.
    bench.end(id(LOW, 1, 2), End::Dead(DeadReason::Unreadable));
    bench.end(ids[2], End::Dead(DeadReason::Attempts));
    let dead = bench.queue().dead(10);
    let told: Vec<_> = dead.iter().map(|dead| (dead.seq, dead.reason, dead.attempts)).collect();
    assert_eq!(
        told,
        [
            (ids[0].seq, DeadReason::Rejected, 1),
            (ids[1].seq, DeadReason::Unreadable, 1),
            (ids[2].seq, DeadReason::Attempts, 1),
        ]
    );
    assert_eq!(bench.queue().dead(2), dead[..2]);
}

#[test]
fn a_pause_is_kept_and_settings_change_at_once() {
    let mut bench = Bench::with(1);
    bench.apply(crate::event::Event::Paused { queue: QUEUE, paused: true });
    assert!(bench.queue().paused());
    assert!(bench.replayed(bench.frame).queue(QUEUE).unwrap().paused());
    let mut settings = bench.settings.clone();
    settings.max_attempts = 1;
    bench.shard.add(QUEUE, &settings);
    assert_eq!(
        bench.queue().end_of(&id(LOW, 0, 1), Verb::Nack),
        Some(End::Dead(DeadReason::Attempts))
    );
    bench.shard.add(QUEUE, &bench.settings);
    assert!(bench.queue().paused(), "added again, it keeps its state");
    assert_eq!(bench.queue().settings(), &bench.settings);
}
