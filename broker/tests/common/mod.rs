//! A broker in this process, over a directory of its own.
#![allow(dead_code, reason = "each test uses a part of it")]

use bytes::Bytes;
use plimsoll::fs::sim::SimFileSystem;
use plimsoll_broker::api::{Delivered, NewMessage, QueueSettings, Receive, Settled, Verb};
use plimsoll_broker::broker::{Broker, BrokerOptions};
use plimsoll_broker::name::QueueName;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn options(dir: &Path) -> BrokerOptions {
    let mut options = BrokerOptions::new(vec![dir.join("data")]);
    options.node.segment_size = 1 << 20;
    options
}

/// A simulated disk with a place for data.
pub(crate) fn disk(seed: u64) -> SimFileSystem {
    let fs = SimFileSystem::new(seed);
    fs.prepare_dir("/data").unwrap();
    fs
}

/// A broker on it, with small files.
pub(crate) fn on_disk(fs: &SimFileSystem) -> BrokerOptions {
    let mut options = BrokerOptions::new(vec!["/data".into()]);
    options.node.segment_size = 64 << 10;
    options.fs = Some(Arc::new(fs.clone()));
    options
}

pub(crate) async fn start(dir: &Path) -> Broker {
    Broker::start(options(dir)).await.unwrap()
}

pub(crate) fn name(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub(crate) fn message(payload: &str) -> NewMessage {
    NewMessage { payload: Bytes::copy_from_slice(payload.as_bytes()), ..NewMessage::default() }
}

pub(crate) fn ask(max: usize, wait: Duration) -> Receive {
    Receive { max, wait, lease: None, consumer: None, concurrency: None }
}

pub(crate) async fn declare(broker: &Broker, queue: &QueueName) {
    broker.declare(queue, QueueSettings::default(), None).await.unwrap();
}

pub(crate) async fn publish(broker: &Broker, queue: &QueueName, payload: &str) -> u64 {
    let answers = broker.publish(queue, vec![message(payload)]).await.unwrap();
    answers[0].as_ref().unwrap().seq.0
}

/// Receives, and takes them over.
pub(crate) async fn receive(
    broker: &Broker,
    queue: &QueueName,
    max: usize,
    wait: Duration,
) -> Vec<Delivered> {
    let mut received = broker.receive(queue, ask(max, wait)).await.unwrap();
    received.hand_off.done();
    received.messages
}

pub(crate) async fn ack(broker: &Broker, queue: &QueueName, receipt: &str) -> Settled {
    broker.settle(queue, Verb::Ack, vec![receipt.to_owned()]).await.unwrap()[0]
}

pub(crate) fn text(delivered: &Delivered) -> &str {
    std::str::from_utf8(&delivered.message.content.payload).unwrap()
}
