//! A shard from its log.

use super::bench::{Bench, LEASE, LOW, QUEUE, SIZE, id};
use crate::api::{Counts, QueueId, QueueSettings, Seq, Verb};
use crate::event::{DeadReason, End, Entry, Event, PART_MAX};
use crate::state::{Frame, HAND_OFF_MS, Replay, Shard, Standing};
use plimsoll::Offset;
use std::collections::BTreeMap;

/// What [`some`] is.
const GOLDEN: &str = "0101000000000000000107004602040490030304021c6401d0d23d02030402146401d0d23d04030402146401d0d23d00904ee807000407080100";

fn pieces(shard: &Shard) -> Vec<Entry> {
    let parts = shard.snapshot();
    let count = u32::try_from(parts.len()).unwrap();
    let mut pieces = vec![Entry::SnapshotBegin { parts: count }];
    pieces.extend(parts.into_iter().map(Entry::SnapshotPart));
    pieces.push(Entry::SnapshotEnd { parts: count });
    pieces
}

fn some() -> Bench {
    let mut bench = Bench::with(6);
    let ids = bench.take(4);
    bench.settle(Verb::Ack, ids[0]);
    bench.settle(Verb::Nack, ids[1]);
    bench.settle(Verb::Reject, ids[2]);
    bench
}

fn assert_same(bench: &Bench, shard: &Shard) {
    let queue = shard.queue(QUEUE).unwrap();
    assert_eq!(queue.counts(), bench.counts());
    assert_eq!(queue.bytes(), bench.queue().bytes());
    assert_eq!(queue.plan(99), bench.queue().plan(99));
    for offset in 0..6 {
        for attempt in 1..4 {
            let id = id(LOW, offset, attempt);
            assert_eq!(queue.check(&id), bench.queue().check(&id), "{id:?}");
        }
    }
}

#[test]
fn the_bytes_of_a_snapshot_are_those_of_the_format_page() {
    let part = some().shard.snapshot().remove(0);
    let hex: String = part.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, GOLDEN);
    assert!(include_str!("../../../FORMAT.md").contains(&format!("`{GOLDEN}`")));
}

#[test]
fn q5_a_snapshot_alone_is_the_state() {
    let mut bench = some();
    bench.log = pieces(&bench.shard);
    assert_same(&bench, &bench.replayed(bench.frame));
}

#[test]
fn what_died_unreadable_without_a_delivery_that_counts_is_kept_in_a_snapshot() {
    let mut bench = Bench::with(1);
    let first = bench.take(1)[0];
    bench.end(first, End::Undone);
    bench.end(first, End::Dead(DeadReason::Unreadable));
    assert_eq!(bench.queue().dead(9)[0].attempts, 0);
    bench.log = pieces(&bench.shard);
    assert_same(&bench, &bench.replayed(bench.frame));
}

#[test]
fn what_stands_before_a_whole_snapshot_counts_for_nothing() {
    let mut bench = some();
    let mut log = vec![Entry::Event(Event::Paused { queue: QUEUE, paused: true })];
    log.push(Entry::Event(Event::Ended { queue: QUEUE, end: End::Acked, items: vec![] }));
    log.extend(pieces(&bench.shard));
    bench.log = log;
    let replayed = bench.replayed(bench.frame);
    assert!(!replayed.queue(QUEUE).unwrap().paused());
    assert_same(&bench, &replayed);
}

#[test]
fn q5_events_between_the_pieces_of_a_snapshot_come_after_it() {
    let mut bench = some();
    let pieces = pieces(&bench.shard);
    bench.log.clear();
    bench.log.push(pieces[0].clone());
    bench.settle(Verb::Ack, id(LOW, 3, 1));
    bench.log.push(pieces[1].clone());
    bench.take(1);
    bench.log.push(pieces[2].clone());
    bench.take(1);
    assert_same(&bench, &bench.replayed(bench.frame));
}

#[test]
fn q5_an_unfinished_snapshot_counts_for_nothing() {
    let bench = some();
    let whole = pieces(&bench.shard);
    let part = whole[1].clone();
    let begin = |parts| Entry::SnapshotBegin { parts };
    let end = |parts| Entry::SnapshotEnd { parts };
    // An empty shard's, which would show.
    let void = Entry::SnapshotPart(Shard::new().snapshot().remove(0));
    let unfinished = [
        vec![begin(1), void.clone()],
        vec![begin(2), void.clone(), end(2)],
        vec![begin(1), void.clone(), end(2)],
        vec![begin(2), void.clone(), end(1)],
        vec![begin(1), void.clone(), void.clone(), end(1)],
        vec![void.clone(), end(1)],
        vec![begin(1), begin(2), void.clone(), end(1)],
        vec![end(0)],
    ];
    for tail in unfinished {
        let mut replay =
            Replay::new(BTreeMap::from([(QUEUE, bench.settings.clone())]), bench.frame);
        for entry in bench.log.iter().chain(&tail) {
            replay.take(entry.clone()).unwrap();
        }
        assert!(!replay.restored(), "{tail:?}");
        let mut shard = replay.finish();
        shard.queue_mut(QUEUE).unwrap().confirmed(LOW, Offset(6), 600, Seq(70));
        assert_same(&bench, &shard);
    }
    let mut replay = Replay::new(BTreeMap::from([(QUEUE, bench.settings.clone())]), bench.frame);
    for entry in [begin(1), begin(1), part, end(1)] {
        replay.take(entry).unwrap();
    }
    assert!(replay.restored(), "a begin makes void what was begun before it, and no more");
}

#[test]
fn a_queue_that_is_not_in_the_catalogue_is_left_out() {
    let mut bench = some();
    let other = QueueId(15);
    bench.shard.add(other, &QueueSettings::default());
    bench.log = pieces(&bench.shard);
    bench.log.push(Entry::Event(Event::Paused { queue: other, paused: true }));
    let replayed = bench.replayed(bench.frame);
    assert_eq!(replayed.queues().map(|(id, _)| id).collect::<Vec<_>>(), [QUEUE]);
    assert_eq!(replayed.queue(QUEUE).unwrap().settings(), &bench.settings);
}

#[test]
fn a_queue_that_is_newer_than_the_snapshot_gets_its_events() {
    let mut bench = Bench::with(3);
    bench.log = pieces(&Shard::new());
    bench.take(2);
    assert_same(&bench, &bench.replayed(bench.frame));
}

#[test]
fn a_whole_snapshot_that_cannot_be_read_is_an_error() {
    let frame = Frame { boot: 1, now_ms: 0 };
    let mut replay = Replay::new(BTreeMap::new(), frame);
    for entry in [Entry::SnapshotBegin { parts: 1 }, Entry::SnapshotPart(vec![99])] {
        replay.take(entry).unwrap();
    }
    assert!(replay.take(Entry::SnapshotEnd { parts: 1 }).is_err());
    assert!(Shard::restore(&[], &frame).is_err(), "no part is no snapshot");
}

#[test]
fn q5_leases_of_a_snapshot_end_as_those_of_events() {
    let mut bench = Bench::with(3);
    let given = bench.frame.now_ms;
    let ids = bench.take(2);
    bench.queue_mut().begin_lease(&ids[0], given + 20);
    bench.expire_after(20);
    bench.log = pieces(&bench.shard);
    let same = bench.replayed(Frame { now_ms: given + 50, ..bench.frame });
    let queue = same.queue(QUEUE).unwrap();
    assert_eq!(queue.next_deadline(), Some(given + LEASE + HAND_OFF_MS));
    assert_eq!(queue.check(&ids[0]), Standing::Late, "that it has ended is known");
    // In another boot it runs in full; a snapshot made there counts in that boot.
    bench.restart(Frame { boot: 2, now_ms: 500 });
    assert_eq!(bench.queue().next_deadline(), Some(500 + LEASE));
    bench.log = pieces(&bench.shard);
    bench.restart(Frame { boot: 2, now_ms: 900 });
    assert_eq!(bench.queue().next_deadline(), Some(500 + LEASE + HAND_OFF_MS));
}

#[test]
fn case_a11_a_large_snapshot_is_in_parts_that_fit_into_the_smallest_file() {
    let mut bench = Bench::with(3_000);
    for chunk in 0..30 {
        let ids: Vec<_> = (chunk * 100..chunk * 100 + 100).map(|at| id(LOW, at, 1)).collect();
        bench.deliver(&ids, Some(&"n".repeat(255)));
    }
    let parts = bench.shard.snapshot();
    assert!(parts.len() > 10, "{} parts", parts.len());
    assert!(parts.iter().all(|part| part.len() <= PART_MAX));
    bench.log = pieces(&bench.shard);
    let replayed = bench.replayed(bench.frame);
    assert_eq!(replayed.in_flight(), 3_000);
    assert_eq!(replayed.snapshot(), parts);
}

#[test]
fn what_a_log_has_lost_is_forgotten_so_that_what_comes_there_is_delivered() {
    let mut bench = Bench::with(6);
    let ids = bench.take(5);
    let mut replay = Replay::new(BTreeMap::from([(QUEUE, bench.settings.clone())]), bench.frame);
    bench.log.drain(..).for_each(|entry| replay.take(entry).unwrap());
    let mut shard = replay.finish();
    let mut queue = shard.queue_mut(QUEUE).unwrap();
    queue.confirmed(LOW, Offset(2), 200, Seq(1));
    assert_eq!(queue.counts(), Counts { ready: 0, in_flight: 2, redelivered: 0, dead: 0 });
    assert_eq!(queue.bytes(), 2 * u64::from(SIZE));
    assert_eq!(queue.check(&ids[2]), Standing::NeverDelivered);
    queue.confirmed(LOW, Offset(4), 400, Seq(1));
    assert_eq!((queue.counts().ready, queue.bytes()), (2, 4 * u64::from(SIZE)));
}
