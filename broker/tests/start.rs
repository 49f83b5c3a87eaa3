//! Starts on what is not whole: nothing is taken for new, and nothing is deleted, that somebody may miss.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a test: what it cannot have ends it"
)]

mod common;

use common::{declare, name, options, publish, start};
use plimsoll::clock::SystemClock;
use plimsoll::fs::OsFileSystem;
use plimsoll::{Log, LogName, LogOptions, NewRecord, Node, Offset, WriteClass};
use plimsoll_broker::api::{Fault, QueueSettings, Verb};
use plimsoll_broker::broker::{Broker, BrokerOptions};
use std::fs;
use std::path::Path;
use std::time::Duration;

async fn refused(options: BrokerOptions) -> String {
    match Broker::start(options).await {
        Ok(_) => panic!("it starts"),
        Err(error) => error.to_string(),
    }
}

fn two(dir: &Path) -> BrokerOptions {
    let mut both = options(dir);
    both.data = vec![dir.join("a"), dir.join("b")];
    both
}

/// Started with the second directory alone it was a new broker, and deleted the logs of queues that it did not know.
#[tokio::test(flavor = "multi_thread")]
async fn q1_a_part_of_the_directories_is_not_a_new_broker() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start(two(dir.path())).await.unwrap();
    let there = name("there");
    let settings = QueueSettings { data_dir: 1, ..QueueSettings::default() };
    broker.declare(&there, settings, None).await.unwrap();
    publish(&broker, &there, "kept").await;
    broker.stop().await;
    drop(broker);
    for part in ["a", "b"] {
        let mut one = options(dir.path());
        one.data = vec![dir.path().join(part)];
        let said = refused(one).await;
        assert!(said.contains("data directories"), "{said}");
    }
    // In another order they are the same broker.
    let mut turned = two(dir.path());
    turned.data.reverse();
    let broker = Broker::start(turned).await.unwrap();
    assert_eq!(broker.show(&there).await.unwrap().summary.counts.ready, 1);
    broker.stop().await;
}

/// Without its catalogue a broker knew no queue, and every queue's log was deleted.
#[tokio::test(flavor = "multi_thread")]
async fn q1_without_its_catalogue_a_broker_does_not_start_and_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    publish(&broker, &jobs, "kept").await;
    broker.stop().await;
    drop(broker);
    let logs = dir.path().join("data/logs/broker");
    fs::rename(logs.join("catalogue"), dir.path().join("away")).unwrap();
    let said = refused(options(dir.path())).await;
    assert!(said.contains("catalogue"), "{said}");
    // Nothing was made in its place.
    fs::rename(dir.path().join("away"), logs.join("catalogue")).unwrap();
    let broker = start(dir.path()).await;
    assert_eq!(broker.show(&jobs).await.unwrap().summary.counts.ready, 1);
    broker.stop().await;
}

/// The catalogue had lost its last record: the queue that it named was taken for deleted.
#[tokio::test(flavor = "multi_thread")]
async fn q1_a_queue_beyond_the_catalogues_end_is_not_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    declare(&broker, &name("first")).await;
    broker.stop().await;
    drop(broker);
    let catalogue = dir.path().join("data/logs/broker/catalogue");
    let before = dir.path().join("before");
    copy(&catalogue, &before);
    let broker = start(dir.path()).await;
    declare(&broker, &name("late")).await;
    publish(&broker, &name("late"), "kept").await;
    broker.stop().await;
    drop(broker);
    let after = dir.path().join("after");
    fs::rename(&catalogue, &after).unwrap();
    copy(&before, &catalogue);
    let said = refused(options(dir.path())).await;
    assert!(said.contains("catalogue"), "{said}");
    fs::remove_dir_all(&catalogue).unwrap();
    fs::rename(&after, &catalogue).unwrap();
    let broker = start(dir.path()).await;
    assert_eq!(broker.show(&name("late")).await.unwrap().summary.counts.ready, 1);
    broker.stop().await;
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// A log that somebody removed was made anew: its messages' numbers were given out again, and one was never delivered.
#[tokio::test(flavor = "multi_thread")]
async fn q1_a_queue_whose_log_is_missing_takes_nothing_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    publish(&broker, &jobs, "gone").await;
    common::receive(&broker, &jobs, 1, Duration::from_secs(5)).await;
    broker.stop().await;
    drop(broker);
    fs::remove_dir_all(dir.path().join("data/logs/broker/queue")).unwrap();
    let broker = start(dir.path()).await;
    let answers = broker.publish(&jobs, vec![common::message("new")]).await.unwrap();
    assert!(
        matches!(&answers[0], Err(Fault::Unavailable(why)) if why.contains("missing")),
        "{answers:?}"
    );
    broker.stop().await;
    drop(broker);
    // Without the events all that was acknowledged would come back.
    fs::remove_dir_all(dir.path().join("data/logs/broker/events")).unwrap();
    fs::create_dir_all(dir.path().join("data/logs/broker/queue/0000000000000001/4")).unwrap();
    let said = refused(options(dir.path())).await;
    assert!(said.contains("events"), "{said}");
}

/// An event log without its first segments was taken for the whole: leases and finished messages of the part that was gone
/// counted for neither.
#[tokio::test(flavor = "multi_thread")]
async fn q1_a_shard_whose_first_events_are_missing_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    publish(&broker, &jobs, "message").await;
    let got = common::receive(&broker, &jobs, 1, Duration::from_secs(5)).await;
    let longer = Verb::Extend(Duration::from_secs(600));
    broker.settle(&jobs, longer, vec![got[0].receipt.clone()]).await.unwrap();
    broker.stop().await;
    drop(broker);
    // The same extension again and again, until its files are many; then all but the last are gone.
    let node = Node::builder(dir.path().join("data")).open().unwrap();
    let is_events = |name: &LogName| name.as_str().starts_with("broker/events/");
    let logs = node.logs().unwrap().into_iter().filter(is_events);
    let logs = logs.map(|name| node.open_log(&name, LogOptions::default()).unwrap());
    let events = logs.max_by_key(Log::tail).unwrap();
    let last = Offset(events.tail().0 - 1);
    let record = events.read_from(last).unwrap().next().unwrap().unwrap();
    while events.segments().len() < 2 {
        let again = vec![NewRecord::new(&record.payload); 100];
        events.publish(WriteClass::Coordination, &again).unwrap();
    }
    events.truncate_before(Offset(events.tail().0 - 1)).unwrap();
    assert!(events.head() > last);
    drop(events);
    node.close().unwrap();
    let said = refused(options(dir.path())).await;
    assert!(said.contains("snapshot"), "{said}");
}

/// A queue's files were removed, and its directory was not: it was taken for a new one. What was published then got the places
/// of messages that were delivered before, and the next start took it for delivered.
#[tokio::test(flavor = "multi_thread")]
async fn q1_a_queue_whose_log_is_shorter_than_what_was_delivered_takes_nothing_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    for at in 0..10 {
        publish(&broker, &jobs, &format!("message {at}")).await;
    }
    common::receive(&broker, &jobs, 7, Duration::from_secs(5)).await;
    broker.stop().await;
    drop(broker);
    let files = dir.path().join("data/logs/broker/queue/0000000000000001/4");
    fs::rename(&files, dir.path().join("aside")).unwrap();
    fs::create_dir(&files).unwrap();
    let broker = start(dir.path()).await;
    let refused = broker.publish(&jobs, vec![common::message("new")]).await.unwrap();
    let says = |why: &str| why.contains("ends at 0") && why.contains("up to 7");
    assert!(matches!(&refused[0], Err(Fault::Unavailable(why)) if says(why)), "{refused:?}");
    let refused = broker.receive(&jobs, common::ask(1, Duration::ZERO)).await;
    assert!(matches!(&refused, Err(Fault::Unavailable(why)) if says(why)), "{refused:?}");
    broker.stop().await;
    drop(broker);
    // Brought back, it goes on.
    fs::remove_dir_all(&files).unwrap();
    fs::rename(dir.path().join("aside"), &files).unwrap();
    let broker = start(dir.path()).await;
    let got = common::receive(&broker, &jobs, 1, Duration::from_secs(5)).await;
    assert_eq!(common::text(&got[0]), "message 7");
    assert_eq!(publish(&broker, &jobs, "new").await, 11);
    broker.stop().await;
}

/// A repair declares a gap of as many offsets as the damaged file could have held. They counted as ready, nobody could publish
/// to the full queue, and a receive waited for what no record follows.
#[tokio::test(flavor = "multi_thread")]
async fn q8_a_gap_that_a_repair_declared_is_nobodys_depth() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let jobs = name("jobs");
    declare(&broker, &jobs).await;
    // More than the first, tiny file holds.
    for _ in 0..40 {
        broker.publish(&jobs, vec![common::message(&"x".repeat(4_000))]).await.unwrap();
    }
    loop {
        let got = common::receive(&broker, &jobs, 32, Duration::ZERO).await;
        if got.is_empty() && broker.show(&jobs).await.unwrap().summary.counts.ready == 0 {
            break;
        }
        for delivered in got {
            common::ack(&broker, &jobs, &delivered.receipt).await;
        }
    }
    broker.stop().await;
    drop(broker);
    let data = dir.path().join("data");
    let files = fs::read_dir(data.join("logs/broker/queue/0000000000000001/4")).unwrap();
    let last = files.map(|file| file.unwrap().path()).max().unwrap();
    fs::File::options().write(true).open(last).unwrap().set_len(4_096).unwrap();
    plimsoll::repair::repair(&OsFileSystem, &SystemClock, &data, None).unwrap();
    let broker = start(dir.path()).await;
    assert_eq!(broker.show(&jobs).await.unwrap().summary.counts.ready, 0);
    publish(&broker, &jobs, "behind").await;
    let got = common::receive(&broker, &jobs, 1, Duration::from_secs(5)).await;
    assert_eq!(common::text(&got[0]), "behind");
    broker.stop().await;
}
