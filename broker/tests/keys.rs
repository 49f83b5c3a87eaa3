//! Idempotency keys: a refusal leaves no mark, what is stored is stored once, over restarts too.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    missing_docs,
    reason = "a test: what it cannot have ends it"
)]

mod common;

use common::{ack, declare, message, name, options, receive, start, text};
use plimsoll::fs::Space;
use plimsoll::fs::sim::{Fault as Bad, OpKind, SimFileSystem, What};
use plimsoll_broker::api::{Fault, NewMessage, PublishAnswer, QueueSettings};
use plimsoll_broker::broker::{Broker, BrokerOptions};
use plimsoll_broker::name::QueueName;
use std::sync::Arc;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(5);

fn keyed(key: &str, payload: &str) -> NewMessage {
    NewMessage { key: Some(key.to_owned()), ..message(payload) }
}

async fn publish(broker: &Broker, queue: &QueueName, message: NewMessage) -> PublishAnswer {
    broker.publish(queue, vec![message]).await.unwrap().pop().unwrap()
}

/// Waits for what the node's threads do by themselves.
async fn until(mut there: impl FnMut() -> bool) {
    for _ in 0..500 {
        if there() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it does not come");
}

/// The mark was set before the message was stored; the store failed, and the retry was told "duplicate": the message existed
/// nowhere.
#[tokio::test(flavor = "multi_thread")]
async fn case_f7_a_refused_publish_leaves_no_mark() {
    let fs = SimFileSystem::new(7);
    fs.prepare_dir("/").unwrap();
    let sim = |fs: &SimFileSystem| {
        let mut options = BrokerOptions::new(vec!["/data".into()]);
        options.node.segment_size = 64 << 10;
        options.fs = Some(Arc::new(fs.process()));
        options
    };
    let broker = Broker::start(sim(&fs)).await.unwrap();
    let queue = name("orders");
    let settings = QueueSettings { max_queue_depth: 1, ..QueueSettings::default() };
    broker.declare(&queue, settings, None).await.unwrap();
    publish(&broker, &queue, message("in the way")).await.unwrap();
    // The queue is full.
    let refused = publish(&broker, &queue, keyed("K1", "pay")).await;
    assert!(matches!(refused, Err(Fault::Full(_))), "{refused:?}");
    let got = receive(&broker, &queue, 1, SOON).await;
    ack(&broker, &queue, &got[0].receipt).await;
    // The disk does not take it.
    fs.inject(Bad::nth(OpKind::Write, 0, What::Errno(5)).forever());
    fs.inject(Bad::nth(OpKind::Sync, 0, What::Errno(5)).forever());
    let failed = publish(&broker, &queue, keyed("K1", "pay")).await;
    assert!(matches!(failed, Err(Fault::Unknown(_) | Fault::Unavailable(_))), "{failed:?}");
    fs.clear_faults();
    // The disk is nearly full.
    let total = 1 << 40;
    let full = Space { total, available: total / 50, ..Space::default() };
    fs.set_space(Some(full));
    until(|| broker.nodes()[0].pressure().level == plimsoll::Level::Hard).await;
    let refused = publish(&broker, &queue, keyed("K1", "pay")).await;
    assert!(matches!(refused, Err(Fault::Limited(_))), "{refused:?}");
    fs.set_space(None);
    until(|| broker.nodes()[0].pressure().level == plimsoll::Level::Ok).await;
    // The retry stores it, once; the third is told so, also after the process was killed.
    let mut stored = publish(&broker, &queue, keyed("K1", "pay")).await;
    for _ in 0..100 {
        // The log is opened again meanwhile.
        if stored.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        stored = publish(&broker, &queue, keyed("K1", "pay")).await;
    }
    let stored = stored.unwrap();
    assert!(!stored.duplicate);
    let again = publish(&broker, &queue, keyed("K1", "pay")).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (stored.seq, true));
    drop(broker);
    fs.process_death();
    let broker = Broker::start(sim(&fs)).await.unwrap();
    let again = publish(&broker, &queue, keyed("K1", "pay")).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (stored.seq, true));
    let other = publish(&broker, &queue, keyed("K1", "pay twice")).await;
    assert!(matches!(other, Err(Fault::KeyReused(seq)) if seq == stored.seq), "{other:?}");
    let got = receive(&broker, &queue, 5, SOON).await;
    assert_eq!(got.iter().map(text).collect::<Vec<_>>(), ["pay"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_with_one_key_at_once_are_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let queue = name("orders");
    declare(&broker, &queue).await;
    let at_once = (0..50).map(|_| publish(&broker, &queue, keyed("same", "pay")));
    let answers = futures_util::future::join_all(at_once).await;
    let first = answers[0].as_ref().unwrap().seq;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().seq == first));
    let new = answers.iter().filter(|answer| !answer.as_ref().unwrap().duplicate).count();
    assert_eq!(new, 1);
    // Within one publish too.
    let twice =
        broker.publish(&queue, vec![keyed("k", "a"), keyed("k", "a"), keyed("l", "b")]).await;
    let twice: Vec<_> =
        twice.unwrap().into_iter().map(|answer| answer.unwrap().duplicate).collect();
    assert_eq!(twice, [false, true, false]);
    assert_eq!(broker.show(&queue).await.unwrap().summary.counts.ready, 3);
    broker.stop().await;
}

/// A duplicate counted each time that its publish was looked at: after a delay, and where the queue had no room for all.
#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let queue = name("orders");
    let settings = QueueSettings { max_queue_depth: 2, ..QueueSettings::default() };
    broker.declare(&queue, settings, None).await.unwrap();
    publish(&broker, &queue, keyed("k", "a")).await.unwrap();
    // There is room for the first; so that the second can be refused, what comes behind it is looked at again.
    let answers = vec![message("b"), message("c"), keyed("k", "a")];
    let answers = broker.publish(&queue, answers).await.unwrap();
    assert!(answers[0].is_ok() && matches!(answers[1], Err(Fault::Full(_))), "{answers:?}");
    assert!(matches!(&answers[2], Ok(stored) if stored.duplicate), "{answers:?}");
    assert_eq!(broker.stats().duplicates, 1);
    broker.stop().await;
}

/// A message that is acknowledged is freed with its segment; its key stays known all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_known_after_its_message_is_freed() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let queue = name("orders");
    declare(&broker, &queue).await;
    let first = publish(&broker, &queue, keyed("first", "x")).await.unwrap();
    let big = "y".repeat(60_000);
    for _ in 0..40 {
        publish(&broker, &queue, message(&big)).await.unwrap();
    }
    let mut left = 41;
    while left > 0 {
        let got = receive(&broker, &queue, 32, SOON).await;
        left -= got.len();
        for one in got {
            ack(&broker, &queue, &one.receipt).await;
        }
    }
    // Its segment goes.
    for _ in 0..200 {
        if broker.show(&queue).await.unwrap().bytes_on_disk <= 1 << 20 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(broker.show(&queue).await.unwrap().bytes_on_disk <= 1 << 20);
    for _ in 0..2 {
        let again = publish(&broker, &queue, keyed("first", "x")).await.unwrap();
        assert_eq!((again.seq, again.duplicate), (first.seq, true));
    }
    broker.stop().await;
    drop(broker);
    let broker = Broker::start(options(dir.path())).await.unwrap();
    let again = publish(&broker, &queue, keyed("first", "x")).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (first.seq, true));
    broker.stop().await;
}

/// One queue may use what the others do not: an eighth of the room was full after some 62,000 keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_has_the_room_for_keys_that_others_do_not_use() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path()).await;
    let queue = name("orders");
    let settings = QueueSettings { max_queue_depth: 0, ..QueueSettings::default() };
    broker.declare(&queue, settings, None).await.unwrap();
    let first = publish(&broker, &queue, keyed("first", "x")).await.unwrap();
    for batch in 0..80 {
        let batch = (0..1_000).map(|at| keyed(&format!("{batch}-{at}"), "x")).collect();
        broker.publish(&queue, batch).await.unwrap();
    }
    let again = publish(&broker, &queue, keyed("first", "x")).await.unwrap();
    assert_eq!((again.seq, again.duplicate), (first.seq, true));
    assert_eq!(broker.stats().marks_dropped, 0);
    broker.stop().await;
}
