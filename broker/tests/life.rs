//! A message's life in a broker in this process, restarts included.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    missing_docs,
    reason = "a test: what it cannot have ends it"
)]

mod common;

use common::{ack, declare, name, publish, receive, start, text};
use plimsoll_broker::api::{QueueSettings, Settled, Verb, Why};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn q1_what_was_confirmed_is_delivered_in_order_and_is_gone_when_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let orders = name("orders/eu");
    declare(&broker, &orders).await;
    for at in 0..100 {
        publish(&broker, &orders, &format!("message {at}")).await;
    }
    let mut next = 0;
    while next < 100 {
        let got = receive(&broker, &orders, 32, SOON).await;
        assert!(!got.is_empty());
        for delivered in got {
            assert_eq!(text(&delivered), format!("message {next}"));
            assert_eq!(delivered.attempts, 1);
            next += 1;
            assert_eq!(ack(&broker, &orders, &delivered.receipt).await, Settled::Done);
            assert_eq!(ack(&broker, &orders, &delivered.receipt).await, Settled::Already);
        }
    }
    let nothing = broker.receive(&orders, common::ask(1, Duration::ZERO)).await.unwrap();
    assert_eq!(nothing.why, Some(Why::Empty));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn q5_attempts_and_leases_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    for at in 0..3 {
        publish(&broker, &jobs, &format!("{at}")).await;
    }
    let first = receive(&broker, &jobs, 2, SOON).await;
    assert_eq!(first.iter().map(text).collect::<Vec<_>>(), ["0", "1"]);
    let back = broker.settle(&jobs, Verb::Nack, vec![first[1].receipt.clone()]).await.unwrap();
    assert_eq!(back, [Settled::Done]);
    broker.stop().await;
    drop(broker);

    let broker = start(dir.path()).await;
    let view = broker.show(&jobs).await.unwrap();
    assert_eq!((view.summary.counts.in_flight, view.summary.counts.ready), (1, 2));
    // What comes back comes before what is new, and counts its attempts.
    let mut again = receive(&broker, &jobs, 3, SOON).await;
    while again.len() < 2 {
        // What has been read already does not wait for what has not.
        again.extend(receive(&broker, &jobs, 3, SOON).await);
    }
    let seen: Vec<_> = again.iter().map(|one| (text(one), one.attempts)).collect();
    assert_eq!(seen, [("1", 2), ("2", 1)]);
    assert_eq!(ack(&broker, &jobs, &first[0].receipt).await, Settled::Done);
    assert_eq!(ack(&broker, &jobs, &first[1].receipt).await, Settled::Gone);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn q6_a_late_ack_is_accepted_and_one_after_another_delivery_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let jobs = name("jobs");
    let settings = QueueSettings { lease_ms: 100, ..QueueSettings::default() };
    broker.declare(&jobs, settings, None).await.unwrap();
    publish(&broker, &jobs, "late").await;
    publish(&broker, &jobs, "gone").await;
    let first = receive(&broker, &jobs, 2, SOON).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(ack(&broker, &jobs, &first[0].receipt).await, Settled::Late);
    let again = receive(&broker, &jobs, 2, SOON).await;
    assert_eq!(again.iter().map(text).collect::<Vec<_>>(), ["gone"]);
    assert_eq!(ack(&broker, &jobs, &first[1].receipt).await, Settled::Gone);
    assert_eq!(ack(&broker, &jobs, "nonsense").await, Settled::Foreign);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_gone_before_the_hand_off_costs_no_attempt() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    publish(&broker, &jobs, "once").await;
    // Received, and dropped before it reached anybody.
    drop(broker.receive(&jobs, common::ask(1, SOON)).await.unwrap());
    let got = receive(&broker, &jobs, 1, SOON).await;
    assert_eq!((got[0].attempts, text(&got[0])), (1, "once"));
    broker.stop().await;
}

/// Redelivery must come when the lease that was asked for is over, not seconds later.
#[tokio::test(flavor = "multi_thread")]
async fn q5_an_extended_lease_runs_as_long_as_it_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let jobs = name("jobs");
    let settings = QueueSettings { lease_ms: 200, ..QueueSettings::default() };
    broker.declare(&jobs, settings, None).await.unwrap();
    publish(&broker, &jobs, "slow").await;
    let first = receive(&broker, &jobs, 1, SOON).await;
    let receipts = vec![first[0].receipt.clone()];
    let longer = Verb::Extend(Duration::from_millis(1_000));
    let begun = tokio::time::Instant::now();
    assert_eq!(broker.settle(&jobs, longer, receipts).await.unwrap(), [Settled::Done]);
    let again = receive(&broker, &jobs, 1, Duration::from_secs(20)).await;
    assert_eq!((text(&again[0]), again[0].attempts), ("slow", 2));
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1_000), "it came back after {took:?}");
    assert!(took < Duration::from_secs(5), "it came back after {took:?}");
    broker.stop().await;
}

/// The queue is deleted and declared again: another one, whose receipts and messages are its own.
#[tokio::test(flavor = "multi_thread")]
async fn q6_a_queue_that_is_declared_again_knows_nothing_of_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    publish(&broker, &jobs, "old").await;
    publish(&broker, &jobs, "older").await;
    let old = receive(&broker, &jobs, 1, SOON).await;
    let deleted = broker.delete(&jobs, None).await.unwrap();
    assert_eq!((deleted.messages.ready, deleted.messages.in_flight), (1, 1));
    declare(&broker, &jobs).await;
    assert_eq!(ack(&broker, &jobs, &old[0].receipt).await, Settled::Foreign);
    assert!(receive(&broker, &jobs, 1, Duration::ZERO).await.is_empty());
    publish(&broker, &jobs, "new").await;
    broker.stop().await;
    drop(broker);
    let broker = start(dir.path()).await;
    let got = receive(&broker, &jobs, 5, SOON).await;
    assert_eq!(got.iter().map(text).collect::<Vec<_>>(), ["new"]);
    broker.stop().await;
}

/// With everything consumed, freed and the process killed, numbers go on: a new message is above all earlier ones.
#[tokio::test(flavor = "multi_thread")]
async fn case_b11_numbers_go_on_after_all_was_consumed() {
    let dir = tempfile::tempdir().unwrap();
    let jobs = name("jobs");
    let mut last = 0;
    for _ in 0..3 {
        let broker = start(dir.path()).await;
        declare(&broker, &jobs).await;
        for _ in 0..10 {
            let seq = publish(&broker, &jobs, "x").await;
            assert!(seq > last, "{seq} after {last}");
            last = seq;
            let got = receive(&broker, &jobs, 1, SOON).await;
            assert_eq!(ack(&broker, &jobs, &got[0].receipt).await, Settled::Done);
        }
        broker.stop().await;
    }
}
