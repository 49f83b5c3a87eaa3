//! A disk that fails for a while, or for good: what is asked is answered in time, nothing is promised that a crash takes back,
//! and what can go on goes on by itself.
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
use plimsoll_broker::api::{Fault, QueueSettings, Settled, Verb, Why};
use plimsoll_broker::broker::Broker;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const SOON: Duration = Duration::from_secs(5);
/// Longer than anything may take here.
const LONG: Duration = Duration::from_secs(25);

async fn start(fs: &SimFileSystem) -> Broker {
    let mut options = on_disk(fs);
    options.answer_max = Duration::from_secs(2);
    Broker::start(options).await.unwrap()
}

/// Started once more, a broker has its files open under the names that they have in their logs, which faults go by.
async fn restart(broker: Broker, fs: &SimFileSystem) -> Broker {
    broker.stop().await;
    drop(broker);
    start(fs).await
}

/// From now on each such call on paths with `part` fails: nothing is written there, healed or opened.
fn fails(fs: &SimFileSystem, part: &str) {
    for kind in [OpKind::Write, OpKind::Sync, OpKind::Rename, OpKind::List] {
        fs.inject(Bad::nth(kind, 0, What::Errno(5)).on(part).forever());
    }
}

/// The owner of a shard whose events fail took no command, and so never heard that it was to stop.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_whose_events_fail_stops_all_the_same() {
    let fs = disk(1);
    let broker = start(&fs).await;
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    publish(&broker, &jobs, "kept").await;
    let broker = restart(broker, &fs).await;
    fails(&fs, "events/");
    assert!(broker.pause(&jobs, true).await.is_err());
    timeout(LONG, broker.stop()).await.expect("it stops");
    fs.clear_faults();
    let broker = start(&fs).await;
    assert_eq!(text(&receive(&broker, &jobs, 1, SOON).await[0]), "kept");
    broker.stop().await;
}

/// A declaration waited for its shard with the catalogue in hand: one shard that failed kept all queues from being declared
/// and deleted, and nobody was answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_fails_keeps_no_other_queue_from_being_declared() {
    let fs = disk(2);
    let broker = restart(start(&fs).await, &fs).await;
    fails(&fs, "events/03");
    let mut sick = 0;
    for at in 0..40 {
        let queue = name(&format!("queue-{at}"));
        let declared = broker.declare(&queue, QueueSettings::default(), None);
        match timeout(LONG, declared).await.expect("it is answered") {
            // The first of the sick shard makes it fail.
            Ok(_) => sick += usize::from(broker.pause(&queue, false).await.is_err()),
            Err(Fault::Unknown(_)) => sick += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!((1..30).contains(&sick), "{sick} of 40");
    fs.clear_faults();
    // What was not known to be declared is, when the shard is there again.
    for at in 0..40 {
        let queue = name(&format!("queue-{at}"));
        for _ in 0..100 {
            if broker.pause(&queue, false).await.is_ok() {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
        publish(&broker, &queue, "there").await;
        assert_eq!(text(&receive(&broker, &queue, 1, SOON).await[0]), "there");
    }
    broker.stop().await;
}

/// An ack that was repeated before it was durable was answered at once with *already*, and then the message came again.
#[tokio::test(flavor = "multi_thread")]
async fn q6_already_is_said_only_of_what_is_durable() {
    let fs = disk(3);
    let mut broker = start(&fs).await;
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    for round in 0..5 {
        publish(&broker, &jobs, &format!("round {round}")).await;
        broker = restart(broker, &fs).await;
        let got = receive(&broker, &jobs, 1, SOON).await;
        let receipt = got[0].receipt.clone();
        fs.inject(Bad::nth(OpKind::Sync, 0, What::Errno(5)).on("events/"));
        let asked = || broker.settle(&jobs, Verb::Ack, vec![receipt.clone()]);
        let (first, second) = tokio::join!(asked(), asked());
        // One that is looked at only after the shard was loaded again may do it.
        let early =
            |told: &Result<Vec<Settled>, Fault>| matches!(told.as_deref(), Ok([Settled::Already]));
        assert!(first.is_err() || second.is_err(), "{first:?} {second:?}");
        assert!(!early(&first) && !early(&second), "{first:?} {second:?}");
        for _ in 0..100 {
            match broker.settle(&jobs, Verb::Ack, vec![receipt.clone()]).await {
                Ok(answers) => {
                    assert!(matches!(answers[..], [Settled::Done | Settled::Already]));
                    break;
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }
    broker.stop().await;
}

/// Whoever waited while the shard was loaded again was answered that its owner gave no answer.
#[tokio::test(flavor = "multi_thread")]
async fn q8_receivers_go_on_waiting_while_their_shard_is_loaded_again() {
    let fs = disk(4);
    let mut broker = start(&fs).await;
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    let mut reloads = 0;
    for round in 0..20 {
        broker = restart(broker, &fs).await;
        let waiting = {
            let (broker, jobs) = (broker.clone(), jobs.clone());
            tokio::spawn(async move { broker.receive(&jobs, ask(1, LONG)).await })
        };
        sleep(Duration::from_millis(20)).await;
        fs.inject(Bad::nth(OpKind::Sync, 0, What::Errno(5)).on("events/"));
        // Its event fails while the message is being stored.
        let payload = format!("round {round}");
        let (paused, stored) = tokio::join!(
            broker.pause(&jobs, false),
            broker.publish(&jobs, vec![message(&payload)])
        );
        let stored = stored.is_ok_and(|answers| answers[0].is_ok());
        assert!(paused.is_err() || stored);
        if !stored {
            publish_again(&broker, &payload).await;
        }
        let mut received = timeout(LONG, waiting).await.unwrap().unwrap();
        fs.clear_faults();
        for _ in 0..100 {
            // Its own delivery may be what failed, which it is told.
            match &received {
                Err(Fault::Unavailable(why)) if why.contains("event log") => {
                    sleep(Duration::from_millis(50)).await;
                    received = broker.receive(&jobs, ask(1, SOON)).await;
                }
                _ => break,
            }
        }
        let mut received = received.unwrap();
        received.hand_off.done();
        assert_eq!(text(&received.messages[0]), payload);
        let receipt = received.messages[0].receipt.clone();
        let mut settled = broker.settle(&jobs, Verb::Ack, vec![receipt.clone()]).await;
        for _ in 0..100 {
            if settled.is_ok() {
                break;
            }
            sleep(Duration::from_millis(50)).await;
            settled = broker.settle(&jobs, Verb::Ack, vec![receipt.clone()]).await;
        }
        assert!(settled.is_ok(), "{settled:?}");
        reloads += broker.stats().reloads;
    }
    assert!(reloads > 0, "no shard was loaded again: this shows nothing");
    broker.stop().await;
}

async fn publish_again(broker: &Broker, payload: &str) {
    let jobs = name("jobs");
    for _ in 0..100 {
        let answers = broker.publish(&jobs, vec![message(payload)]).await;
        if answers.is_ok_and(|answers| answers[0].is_ok()) {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("not stored");
}

/// A queue's log that could not be opened once, as its shard was loaded, was not tried again: its messages were there after
/// the next start.
#[tokio::test(flavor = "multi_thread")]
async fn q8_a_queues_log_that_cannot_be_opened_is_tried_again() {
    let fs = disk(5);
    let broker = start(&fs).await;
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    publish(&broker, &jobs, "one").await;
    publish(&broker, &jobs, "two").await;
    let one = receive(&broker, &jobs, 1, SOON).await;
    // The log's files cannot be opened for a while.
    fs.inject(Bad::nth(OpKind::Open, 0, What::Errno(5)).on("queue/0000000000000001/4/").forever());
    let broker = restart(broker, &fs).await;
    let told = timeout(LONG, broker.receive(&jobs, ask(1, Duration::ZERO))).await.unwrap();
    assert!(matches!(told, Err(Fault::Unavailable(_))), "{told:?}");
    let why = broker.explain(&jobs).await.unwrap();
    assert!(why.receive.iter().any(|waits| waits.reason == "unreadable"), "{why:?}");
    fs.clear_faults();
    let mut two = Vec::new();
    for _ in 0..100 {
        if let Ok(mut received) = broker.receive(&jobs, ask(1, Duration::ZERO)).await {
            received.hand_off.done();
            two = received.messages;
            if !two.is_empty() {
                break;
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(two.iter().map(text).collect::<Vec<_>>(), ["two"]);
    assert_eq!(ack(&broker, &jobs, &one[0].receipt).await, Settled::Done);
    assert_eq!(ack(&broker, &jobs, &two[0].receipt).await, Settled::Done);
    // Its numbers go on.
    assert_eq!(publish(&broker, &jobs, "three").await, 3);
    broker.stop().await;
}

/// A receive was answered that a message cannot be read long after that message was purged.
#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_read_is_forgotten_with_a_purge() {
    let fs = disk(6);
    let broker = start(&fs).await;
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    publish(&broker, &jobs, "bad").await;
    let broker = restart(broker, &fs).await;
    fs.inject(Bad::nth(OpKind::Read, 0, What::Errno(5)).on("queue/").forever());
    let told = broker.receive(&jobs, ask(1, Duration::ZERO)).await;
    assert!(matches!(told, Err(Fault::Unavailable(_))), "{told:?}");
    assert_eq!(broker.purge(&jobs, false).await.unwrap().purged, 1);
    let told = broker.receive(&jobs, ask(1, Duration::ZERO)).await.unwrap();
    assert_eq!((told.messages.len(), told.why), (0, Some(Why::Empty)));
    broker.stop().await;
}

/// After two failed commits in a row the catalogue's log stands, and nothing was declared any more until the next start.
#[tokio::test(flavor = "multi_thread")]
async fn q8_the_catalogue_goes_on_when_its_disk_does() {
    let fs = disk(7);
    let broker = restart(start(&fs).await, &fs).await;
    fails(&fs, "broker/catalogue");
    for at in 0..4 {
        let queue = name(&format!("refused-{at}"));
        let refused = broker.declare(&queue, QueueSettings::default(), None).await;
        assert!(refused.is_err(), "{refused:?}");
    }
    fs.clear_faults();
    declare(&broker, &name("jobs")).await;
    publish(&broker, &name("jobs"), "stored").await;
    broker.stop().await;
    let broker = start(&fs).await;
    assert_eq!(text(&receive(&broker, &name("jobs"), 1, SOON).await[0]), "stored");
    broker.stop().await;
}
