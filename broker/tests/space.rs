//! A disk that takes no events for a while: who waits is told, nothing is promised that cannot be kept, and it goes on by itself.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test: what it cannot have ends it"
)]

mod common;

use common::{ack, ask, declare, disk, message, name, on_disk, publish, receive, text};
use plimsoll::fs::sim::{Fault as Bad, OpKind, SimFileSystem, What};
use plimsoll_broker::api::{Fault, NewMessage, QueueSettings, Settled, Verb};
use plimsoll_broker::broker::{Broker, BrokerOptions};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(5);

fn options(fs: &SimFileSystem) -> BrokerOptions {
    let mut options = on_disk(fs);
    // Nothing in reserve, so that a full disk is met at once.
    options.node.limits.pool.kept_back = plimsoll::Size(0);
    options.node.limits.pool.budget_cap = plimsoll::Size(0);
    options.node.limits.pool.prepared = 0;
    options.answer_max = Duration::from_secs(1);
    options
}

/// With no space for an event a receive had no answer, for as long as there was none, and its queue was said to have no
/// consumer.
#[tokio::test(flavor = "multi_thread")]
async fn q7_while_no_event_can_be_written_receivers_are_told_so() {
    let fs = disk(3);
    let broker = Broker::start(options(&fs)).await.unwrap();
    let jobs = name("jobs");
    let settings = QueueSettings { max_attempts: 1_000, ..QueueSettings::default() };
    broker.declare(&jobs, settings, None).await.unwrap();
    publish(&broker, &jobs, "held").await;
    publish(&broker, &jobs, "next").await;
    let held = receive(&broker, &jobs, 1, SOON).await;
    fs.inject(Bad::nth(OpKind::Create, 0, What::Errno(28)).forever());
    // Events go on until their file is full; the first that finds no other is answered, with what is certain.
    let longer = Verb::Extend(Duration::from_secs(600));
    let mut last = Ok(Vec::new());
    for _ in 0..10_000 {
        last = broker.settle(&jobs, longer, vec![held[0].receipt.clone()]).await;
        if last.is_err() {
            break;
        }
    }
    assert!(matches!(last, Err(Fault::Unknown(_))), "{last:?}");
    let told = broker.receive(&jobs, ask(1, Duration::ZERO)).await;
    assert!(matches!(&told, Err(Fault::Unavailable(why)) if why.contains("event log")), "{told:?}");
    let why = broker.explain(&jobs).await.unwrap();
    assert!(why.receive.iter().any(|waits| waits.reason == "storage"), "{why:?}");
    // Space comes back, and nobody has to do anything.
    fs.clear_faults();
    let next = receive(&broker, &jobs, 1, SOON).await;
    assert_eq!((text(&next[0]), next[0].attempts), ("next", 1));
    assert_eq!(ack(&broker, &jobs, &held[0].receipt).await, Settled::Done);
    broker.stop().await;
}

/// A shard whose events fail at once again was loaded again without a pause, tens of times a second.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_fails_again_and_again_is_loaded_with_pauses() {
    let fs = disk(4);
    let broker = Broker::start(options(&fs)).await.unwrap();
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    publish(&broker, &jobs, "kept").await;
    fs.inject(Bad::nth(OpKind::Write, 0, What::Errno(5)).forever());
    fs.inject(Bad::nth(OpKind::Sync, 0, What::Errno(5)).forever());
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        let refused = broker.pause(&jobs, true).await;
        assert!(refused.is_err(), "{refused:?}");
    }
    let reloads = broker.stats().reloads;
    assert!((1..=8).contains(&reloads), "{reloads} in 3 s");
    fs.clear_faults();
    for _ in 0..100 {
        if broker.pause(&jobs, false).await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let got = receive(&broker, &jobs, 1, Duration::from_secs(20)).await;
    assert_eq!(got.iter().map(text).collect::<Vec<_>>(), ["kept"]);
    broker.stop().await;
}

/// Keys whose messages are to be freed are written to a log of their own first. Where that found no space it was tried forty
/// times a second, with a warning each.
#[tokio::test(flavor = "multi_thread")]
async fn marks_that_find_no_space_are_tried_again_with_pauses() {
    let fs = disk(5);
    let broker = Broker::start(options(&fs)).await.unwrap();
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    // More than a file holds.
    for at in 0..40 {
        let keyed = NewMessage { key: Some(at.to_string()), ..message(&"x".repeat(4_000)) };
        broker.publish(&jobs, vec![keyed]).await.unwrap();
    }
    fs.inject(Bad::nth(OpKind::Create, 0, What::Errno(28)).forever());
    fs.record(true);
    loop {
        let got = receive(&broker, &jobs, 32, Duration::ZERO).await;
        if got.is_empty() {
            break;
        }
        let receipts = got.into_iter().map(|delivered| delivered.receipt).collect();
        broker.settle(&jobs, Verb::Ack, receipts).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let tries = fs.trace().iter().filter(|op| op.kind == OpKind::Create).count();
    assert!((1..20).contains(&tries), "{tries} in 2 s");
    fs.clear_faults();
    broker.stop().await;
}
