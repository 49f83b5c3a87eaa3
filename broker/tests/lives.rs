//! Many short lives of a broker on the simulated disk: publishers and consumers at work, a crash at any disk call (the death of
//! the process, or a power cut that keeps any part of what was not synced), syncs and writes that fail; and then the promises.

mod common;

use bytes::Bytes;
use common::name;
use futures_util::StreamExt;
use plimsoll::fs::sim::{Fault, OpKind, Reached, Seeded, SimFileSystem, What};
use plimsoll_broker::api::{Fault as Refused, NewMessage, QueueSettings, Receive, Settled, Verb};
use plimsoll_broker::broker::{Broker, BrokerOptions};
use plimsoll_broker::name::QueueName;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A small source of chance: everything but the threads' turns follows from the seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// What the clients know.
#[derive(Debug, Default)]
struct Known {
    /// Confirmed messages: text, with the number they got.
    confirmed: BTreeMap<String, u64>,
    /// Refused for good: never to be seen.
    refused: BTreeSet<String>,
    /// Acks that were answered *done* or *late*.
    acked: BTreeSet<String>,
    /// Acks that were asked for: the answer may be lost.
    ack_asked: BTreeSet<String>,
    /// The most attempts that were seen of a message.
    attempts: BTreeMap<String, u32>,
    faults: Vec<String>,
    trace: Vec<String>,
}

impl Known {
    fn fault(&mut self, said: String) {
        self.faults.push(said);
    }

    fn stored(&mut self, text: &str, seq: u64, duplicate: bool) {
        match self.confirmed.insert(text.to_owned(), seq) {
            Some(before) if before != seq => {
                self.fault(format!(
                    "Q2: {text} was stored as {before} and as {seq}, duplicate {duplicate}"
                ));
            }
            _ => {}
        }
    }
}

type Shared = Arc<Mutex<Known>>;

fn hold(known: &Shared) -> std::sync::MutexGuard<'_, Known> {
    known.lock().unwrap()
}

fn options(fs: &SimFileSystem) -> BrokerOptions {
    let mut options = BrokerOptions::new(vec!["/data".into()]);
    options.node.segment_size = 64 << 10;
    options.node.committers = 2;
    options.node.limits.pool.kept_back = plimsoll::Size(256 << 10);
    options.fs = Some(Arc::new(fs.clone()));
    options
}

/// Publishes until the broker is gone. A message whose outcome is not known is published again with its key, in the next life if
/// need be: it must be there once.
async fn publisher(
    broker: Broker,
    queue: QueueName,
    known: Shared,
    me: u64,
    life: u64,
    count: u64,
    open: Arc<Mutex<Vec<String>>>,
) {
    let mut chance = Chance(me * 31 + life);
    let mut retry: Vec<String> = std::mem::take(&mut open.lock().unwrap());
    for at in 0..count {
        let keyed = chance.below(2) == 0;
        let batch: Vec<String> = match retry.pop() {
            Some(text) => vec![text],
            None => (0..=chance.below(3))
                .map(|part| {
                    let pad = "x".repeat(usize::try_from(chance.below(3_000)).unwrap());
                    format!("{}{me}-{life}-{at}-{part}-{pad}", if keyed { "key-" } else { "" })
                })
                .collect(),
        };
        let messages = batch
            .iter()
            .map(|text| NewMessage {
                payload: Bytes::copy_from_slice(text.as_bytes()),
                key: text.starts_with("key-").then(|| text.split('x').next().unwrap().to_owned()),
                ..NewMessage::default()
            })
            .collect();
        let unknown = |texts: &[String]| {
            let keyed = texts.iter().filter(|text| text.starts_with("key-")).cloned();
            open.lock().unwrap().extend(keyed);
        };
        match broker.publish(&queue, messages).await {
            Ok(answers) => {
                for (text, answer) in batch.iter().zip(answers) {
                    match answer {
                        Ok(done) => hold(&known).stored(text, done.seq.0, done.duplicate),
                        Err(Refused::Unknown(_)) => unknown(std::slice::from_ref(text)),
                        Err(_) if text.starts_with("key-") => unknown(std::slice::from_ref(text)),
                        Err(_) => {
                            hold(&known).refused.insert(text.clone());
                        }
                    }
                }
            }
            Err(Refused::Unknown(_)) => return unknown(&batch),
            Err(_) => {
                unknown(&batch);
                let texts = batch.into_iter().filter(|text| !text.starts_with("key-"));
                hold(&known).refused.extend(texts);
                return;
            }
        }
    }
    open.lock().unwrap().append(&mut retry);
}

/// Receives and settles until the broker is gone, or nothing comes for a while.
async fn consumer(
    broker: Broker,
    queue: QueueName,
    known: Shared,
    me: u64,
    life: u64,
    patience: Duration,
    steady: bool,
) {
    let mut chance = Chance(me * 77 + life);
    let mut last_first = 0;
    loop {
        let ask = Receive {
            max: 1 + usize::try_from(chance.below(8)).unwrap(),
            wait: patience,
            lease: Some(Duration::from_millis(100 + chance.below(500))),
            consumer: None,
            concurrency: None,
        };
        let Ok(mut received) = broker.receive(&queue, ask).await else { return };
        if received.messages.is_empty() {
            return;
        }
        if !steady && chance.below(10) == 0 {
            // It vanishes: this must cost nothing.
            continue;
        }
        received.hand_off.done();
        let mut receipts = Vec::new();
        for delivered in &received.messages {
            let text = String::from_utf8(delivered.message.content.payload.to_vec()).unwrap();
            let mut known = hold(&known);
            if known.acked.contains(&text) {
                known.fault(format!("an acknowledged message came back: {text}"));
            }
            if known.refused.contains(&text) {
                known.fault(format!("Q2: a refused message was delivered: {text}"));
            }
            let seen = known.attempts.insert(text.clone(), delivered.attempts).unwrap_or(0);
            if delivered.attempts <= seen {
                let said =
                    format!("Q5: delivery {} of {text} after delivery {seen}", delivered.attempts);
                known.fault(said);
            }
            if steady && delivered.attempts == 1 && seen == 0 {
                // One consumer sees first deliveries in the order of publishing.
                if delivered.message.seq.0 <= last_first {
                    let said = format!("order: {} after {last_first}", delivered.message.seq.0);
                    known.fault(said);
                }
                last_first = delivered.message.seq.0;
            }
            receipts.push((delivered.receipt.clone(), text));
        }
        let verb = if chance.below(6) == 0 { Verb::Nack } else { Verb::Ack };
        if verb == Verb::Ack {
            hold(&known).ack_asked.extend(receipts.iter().map(|(_, text)| text.clone()));
        }
        let names = receipts.iter().map(|(receipt, _)| receipt.clone()).collect();
        let Ok(settled) = broker.settle(&queue, verb, names).await else { return };
        for ((_, text), settled) in receipts.iter().zip(settled) {
            match settled {
                Settled::Done | Settled::Late if verb == Verb::Ack => {
                    hold(&known).acked.insert(text.clone());
                }
                Settled::Foreign => {
                    hold(&known).fault(format!("Q6: a receipt is foreign, of {text}"))
                }
                Settled::Already => {
                    hold(&known).fault(format!("Q6: settled already, at once: {text}"))
                }
                _ => {}
            }
        }
    }
}

/// What stands on the disk, for a run that fails.
fn trace(fs: &SimFileSystem, known: &Shared) {
    let node = plimsoll::Node::builder("/data").options(options(fs).node);
    let Ok(node) = node.file_system(Arc::new(fs.process())).open() else { return };
    for log in node.logs().unwrap() {
        if log.as_str().contains("queue") || log.as_str().contains("events/01") {
            let log = node.open_log(&log, plimsoll::LogOptions::default()).unwrap();
            let said = format!("{} {} to {}", log.name(), log.head(), log.durable());
            hold(known).trace.push(said);
        }
    }
}

/// One disk through some lives. Gives what was found wrong.
async fn disk(seed: u64) -> Vec<String> {
    let mut chance = Chance(seed);
    let fs = SimFileSystem::new(seed);
    fs.prepare_dir("/").unwrap();
    let known = Shared::default();
    let queue = name("work");
    let settings = QueueSettings { max_attempts: 1_000, ..QueueSettings::default() };
    let open: Vec<_> = (0..3).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
    let lives = 2 + chance.below(4);
    for life in 0..lives {
        let process = fs.process();
        if life > 0 || chance.below(3) == 0 {
            process.crash_at(fs.ops() + 1 + chance.below(1_500));
        }
        // Without deliveries that are undone, first ones come in order.
        let steady = chance.below(3) == 0;
        for _ in 0..if steady { 0 } else { chance.below(3) } {
            let what = match chance.below(3) {
                0 => What::FailedSync { errno: 5, reached: Reached::Some(seed) },
                1 => What::Errno(5),
                _ => What::Errno(28),
            };
            let kind = if chance.below(2) == 0 { OpKind::Sync } else { OpKind::Write };
            process.inject(Fault::nth(kind, chance.below(400), what));
        }
        if let Ok(broker) = Broker::start(options(&process)).await {
            // It may be declared already; it may be dead.
            let _ = broker.declare(&queue, settings.clone(), None).await;
            let mut at_work = Vec::new();
            for (me, open) in (0..).zip(&open) {
                let (broker, queue, known) = (broker.clone(), queue.clone(), Arc::clone(&known));
                let count = 5 + chance.below(40);
                at_work.push(tokio::spawn(publisher(
                    broker,
                    queue,
                    known,
                    me,
                    life,
                    count,
                    Arc::clone(open),
                )));
            }
            for me in 0..2 {
                let (broker, queue, known) = (broker.clone(), queue.clone(), Arc::clone(&known));
                at_work.push(tokio::spawn(consumer(
                    broker,
                    queue,
                    known,
                    me,
                    life,
                    Duration::from_millis(20),
                    steady,
                )));
            }
            let hands: Vec<_> = at_work.iter().map(tokio::task::JoinHandle::abort_handle).collect();
            let all = futures_util::future::join_all(at_work);
            let died = async {
                while !process.is_dead() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            tokio::select! {
                _ = all => {}
                // Nobody hears from a dead process.
                () = died => hands.iter().for_each(tokio::task::AbortHandle::abort),
                () = tokio::time::sleep(Duration::from_secs(20)) => {
                    hold(&known).fault(format!("life {life}: work did not end"));
                    hands.iter().for_each(tokio::task::AbortHandle::abort);
                }
            }
            if !process.is_dead() && chance.below(3) == 0 {
                broker.stop().await;
            }
        }
        fs.clear_faults();
        match chance.below(2) {
            0 => fs.process_death(),
            _ => fs.power_cut(&mut Seeded::new(seed * 100 + life)),
        }
        hold(&known).trace.push(format!("life {life}, dead {}", process.is_dead()));
        trace(&fs.fork(), &known);
    }
    // A last one, on a disk that works: all that is left comes, and nothing else.
    let broker = match Broker::start(options(&fs.process())).await {
        Ok(broker) => broker,
        Err(error) => return vec![format!("it does not start: {error}")],
    };
    let _ = broker.declare(&queue, settings, None).await;
    for (me, open) in (0..).zip(&open) {
        let count = open.lock().unwrap().len() as u64;
        publisher(
            broker.clone(),
            queue.clone(),
            Arc::clone(&known),
            me,
            99,
            count,
            Arc::clone(open),
        )
        .await;
    }
    for round in 0..40 {
        consumer(
            broker.clone(),
            queue.clone(),
            Arc::clone(&known),
            9,
            99 + round,
            Duration::from_millis(600),
            false,
        )
        .await;
        let left = broker.show(&queue).await.unwrap().summary.counts;
        if left.depth() == 0 {
            break;
        }
    }
    let view = broker.show(&queue).await.unwrap();
    broker.stop().await;
    let mut known = hold(&known);
    if view.summary.counts.depth() > 0 || view.bytes > 0 {
        known.fault(format!("left: {view:?}"));
    }
    let lost: Vec<String> = known
        .confirmed
        .iter()
        .filter(|(text, _)| !known.acked.contains(*text) && !known.ack_asked.contains(*text))
        .map(|(text, seq)| format!("Q1: message {seq} was lost: {}", &text[..text.len().min(20)]))
        .collect();
    if !lost.is_empty() {
        let traced = known.trace.join("; ");
        known.fault(traced);
        let node = plimsoll::Node::builder("/data").options(options(&fs).node);
        let node = node.file_system(Arc::new(fs.process())).open().unwrap();
        for log in node.logs().unwrap() {
            let log = node.open_log(&log, plimsoll::LogOptions::default()).unwrap();
            known.fault(format!(
                "{} {} to {}: {:?}",
                log.name(),
                log.head(),
                log.durable(),
                log.recovery_report()
            ));
            let mut reader = log.read_from(log.head()).unwrap();
            while let Some(record) = reader.next().unwrap() {
                let text = String::from_utf8_lossy(&record.payload).into_owned();
                let short = &text[..text.len().min(20)];
                if log.name().as_str().contains("queue") {
                    let _ = short;
                } else if let Ok(entry) = plimsoll_broker::event::Entry::decode(&record.payload) {
                    known.fault(format!("  {} {entry:?}", record.offset));
                }
            }
        }
    }
    known.faults.extend(lost);
    std::mem::take(&mut known.faults)
}

#[tokio::test(flavor = "multi_thread")]
async fn q1_q2_q5_q6_hold_over_crashes_and_failing_disks() {
    let seeds = std::env::var("BROKER_LIVES").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let first = std::env::var("BROKER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    // Most of the time is waiting: for leases, and for their ends after a restart.
    let disks = (first..first + seeds).map(|seed| async move { (seed, disk(seed).await) });
    let found: Vec<_> = futures_util::stream::iter(disks)
        .buffer_unordered(16)
        .filter(|(_, faults)| std::future::ready(!faults.is_empty()))
        .collect()
        .await;
    assert!(found.is_empty(), "{found:#?}");
}
