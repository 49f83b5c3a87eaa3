//! Time: leases go by the boot clock, whatever the wall clock does.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    missing_docs,
    reason = "a test: what it cannot have ends it"
)]

mod common;

use common::{ack, declare, name, options, publish, receive};
use plimsoll::clock::ManualClock;
use plimsoll_broker::api::Settled;
use plimsoll_broker::broker::Broker;
use std::sync::Arc;
use std::time::Duration;

const HOUR_MS: u64 = 3_600_000;
const WALL_MS: u64 = 1_800_000_000_000;

/// Ages came from the wall clock: a step of it made what was healthy look dead.
#[tokio::test(flavor = "multi_thread")]
async fn case_k1_a_step_of_the_wall_clock_ends_no_lease_and_keeps_none() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(WALL_MS));
    let mut with_clock = options(dir.path());
    with_clock.clock = Some(Arc::<ManualClock>::clone(&clock));
    let broker = Broker::start(with_clock).await.unwrap();
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    publish(&broker, &jobs, "one").await;
    let first = receive(&broker, &jobs, 1, Duration::ZERO).await;
    assert_eq!(first.len(), 1);
    for wall in [WALL_MS + HOUR_MS, WALL_MS - HOUR_MS] {
        clock.set_wall(wall);
        tokio::time::sleep(Duration::from_millis(150)).await;
        let counts = broker.show(&jobs).await.unwrap().summary.counts;
        assert_eq!((counts.in_flight, counts.ready), (1, 0), "the lease ended early");
    }
    // 30 s of lease, by the boot clock, and it is ready again.
    clock.advance(Duration::from_secs(31));
    let mut counts = broker.show(&jobs).await.unwrap().summary.counts;
    for _ in 0..100 {
        if counts.ready == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        counts = broker.show(&jobs).await.unwrap().summary.counts;
    }
    assert_eq!((counts.in_flight, counts.ready), (0, 1), "the lease does not end");
    let again = receive(&broker, &jobs, 1, Duration::ZERO).await;
    assert_eq!(again[0].attempts, 2);
    assert_eq!(ack(&broker, &jobs, &again[0].receipt).await, Settled::Done);
    broker.stop().await;
}
