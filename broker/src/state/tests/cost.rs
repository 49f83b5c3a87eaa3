//! What state costs, by size and not by time.

use super::bench::{Bench, LOW, QUEUE, id};
use crate::api::Verb;
use crate::state::live::Live;
use crate::state::queue::Finished;
use plimsoll::Offset;

#[test]
fn an_entry_is_small() {
    assert!(size_of::<Live>() <= 72, "{} bytes", size_of::<Live>());
    assert!(size_of::<Finished>() <= 8, "{} bytes", size_of::<Finished>());
}

#[test]
fn a_backlog_of_a_hundred_million_has_no_entries() {
    let count = 100_000_000;
    let mut bench = Bench::with(count);
    assert_eq!(bench.counts().ready, count);
    assert_eq!(bench.queue().plan(32).len(), 1);
    assert!(bench.queue().live.is_empty());
    let small = bench.shard.snapshot();
    assert_eq!(small.len(), 1);
    assert!(small[0].len() < 40, "{} bytes", small[0].len());
    // One behind all of them, and one before.
    bench.deliver(&[id(LOW, 0, 1)], None);
    bench.deliver(&[id(LOW, count - 1, 1)], None);
    assert_eq!(bench.queue().live.len(), 2);
    assert!(bench.shard.snapshot()[0].len() < 120);
    bench.settle(Verb::Ack, id(LOW, 0, 1));
    assert_eq!(bench.queue().floor(LOW), Offset(count - 1));
    bench.publish(LOW, count);
    bench.purge(true);
    assert_eq!(bench.queue().live.len(), 1, "a purge walks through no backlog");
    assert_eq!(bench.shard.queue(QUEUE).unwrap().counts().ready, 0);
}

#[test]
fn consumers_in_flight_share_their_name() {
    let mut bench = Bench::with(50);
    for offset in 0..50 {
        bench.deliver(&[id(LOW, offset, 1)], Some("somebody"));
    }
    let mut names =
        bench.queue().live.values().map(|live| live.consumer.as_ref().unwrap().as_str());
    let first = names.next().unwrap().as_ptr();
    assert!(names.all(|name| name.as_ptr() == first));
    bench.log.clear();
    let restored = crate::state::Shard::restore(&bench.shard.snapshot(), &bench.frame).unwrap();
    let queue = restored.queue(QUEUE).unwrap();
    let mut names = queue.live.values().map(|live| live.consumer.as_ref().unwrap().as_str());
    let first = names.next().unwrap().as_ptr();
    assert!(names.all(|name| name.as_ptr() == first), "after a snapshot too");
}
