//! The broker as its callers see it: cheap to clone, every call may be made from any task.

use crate::api::{
    Consumer, Declared, Deleted, Delivered, Explained, Fault, NewMessage, Paused, PublishAnswer,
    Purged, QueueSettings, QueueSummary, QueueView, Receive, Settled, StoredMessage, Verb, Why,
};
use crate::name::QueueName;
use plimsoll::{Node, NodeOptions};
use std::path::PathBuf;
use std::sync::Arc;

/// How a broker is started.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// The data directories, each with storage, threads and limits of its own; the first holds the catalogue.
    pub data: Vec<PathBuf>,
    /// Settings of the storage, the same for each.
    pub node: NodeOptions,
    /// The most messages in flight in all queues together; 1,000,000 by default.
    pub in_flight_max: u64,
}

impl BrokerOptions {
    /// Defaults over these directories.
    #[must_use]
    pub fn new(data: Vec<PathBuf>) -> Self {
        Self { data, node: NodeOptions::default(), in_flight_max: 1_000_000 }
    }
}

/// Why a broker does not start.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The storage cannot be opened.
    #[error(transparent)]
    Open(#[from] plimsoll::error::OpenError),
    /// The directories are not those of one broker, or the catalogue cannot be read; a sentence.
    #[error("{0}")]
    Data(Arc<str>),
}

/// What a receive gets.
#[derive(Debug)]
pub struct Received {
    /// The messages, in order.
    pub messages: Vec<Delivered>,
    /// Why there is none.
    pub why: Option<Why>,
    /// Says that they have reached their receiver.
    pub hand_off: HandOff,
}

/// Deliveries on their way to their receiver. Dropped before [`HandOff::done`], they are undone: they cost no attempt, and
/// nothing is leased.
#[derive(Debug)]
pub struct HandOff(());

impl HandOff {
    /// They are with their receiver: the leases begin now.
    pub fn done(&mut self) {
        todo!()
    }
}

/// What the broker did since its start, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerStats {
    /// Queues.
    pub queues: u64,
    /// Confirmed publishes.
    pub published: u64,
    /// Duplicates answered from their key.
    pub duplicates: u64,
    /// Publishes refused because a queue was full.
    pub queue_full: u64,
    /// Deliveries.
    pub delivered: u64,
    /// Deliveries undone before their hand-off.
    pub undone: u64,
    /// Acks that finished a message.
    pub acked: u64,
    /// Leases that ended.
    pub expired: u64,
    /// Messages given up or rejected.
    pub dead: u64,
    /// Messages in flight now.
    pub in_flight: u64,
    /// Idempotency marks held now, and those that left before their time for want of room.
    pub marks: u64,
    /// See `marks`.
    pub marks_dropped: u64,
}

/// A running broker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Broker {
    _inner: Arc<()>,
}

impl Broker {
    /// Opens storage, catalogue, shards and queues. Accepts everything from when it returns.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(options: BrokerOptions) -> Result<Self, StartError> {
        let _ = options;
        todo!()
    }

    /// Takes no new work, answers what is under way, closes the storage clean. Calls made from now on are answered with
    /// [`Fault::Unavailable`].
    pub async fn stop(&self) {
        todo!()
    }

    /// The storage of each data directory: levels, statistics, limits.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        todo!()
    }

    /// Numbers. Reads memory only.
    #[must_use]
    pub fn stats(&self) -> BrokerStats {
        todo!()
    }

    /// Declares a queue; `if_match` is the revision that it must have to be changed.
    ///
    /// # Errors
    /// Other settings, another revision, settings out of bounds, or of storage.
    pub async fn declare(
        &self,
        name: &QueueName,
        settings: QueueSettings,
        if_match: Option<u64>,
    ) -> Result<Declared, Fault> {
        let _ = (name, settings, if_match);
        todo!()
    }

    /// Deletes a queue with all that it holds: gone for good when this returns.
    ///
    /// # Errors
    /// No such queue, another revision, or of storage.
    pub async fn delete(&self, name: &QueueName, if_match: Option<u64>) -> Result<Deleted, Fault> {
        let _ = (name, if_match);
        todo!()
    }

    /// At most `max` queues by name after `after`. Reads memory only and never waits.
    #[must_use]
    pub fn list(&self, after: Option<&str>, max: usize) -> Vec<QueueSummary> {
        let _ = (after, max);
        todo!()
    }

    /// All that can be seen of a queue.
    ///
    /// # Errors
    /// No such queue.
    pub async fn show(&self, name: &QueueName) -> Result<QueueView, Fault> {
        let _ = name;
        todo!()
    }

    /// Publishes messages in order; an answer for each. After the first refusal for pressure or fullness the rest is refused
    /// too. Goes on when the caller leaves.
    ///
    /// # Errors
    /// What holds for all of them: no such queue, too many.
    pub async fn publish(
        &self,
        name: &QueueName,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<PublishAnswer>, Fault> {
        let _ = (name, messages);
        todo!()
    }

    /// Waits for messages and leases them. Dropping the future undoes what it was about to get.
    ///
    /// # Errors
    /// No such queue, numbers out of bounds, or of storage.
    pub async fn receive(&self, name: &QueueName, ask: Receive) -> Result<Received, Fault> {
        let _ = (name, ask);
        todo!()
    }

    /// Settles deliveries by their receipts: one append, an answer for each. Goes on when the caller leaves.
    ///
    /// # Errors
    /// No such queue, too many, or of storage.
    pub async fn settle(
        &self,
        name: &QueueName,
        verb: Verb,
        receipts: Vec<String>,
    ) -> Result<Vec<Settled>, Fault> {
        let _ = (name, verb, receipts);
        todo!()
    }

    /// Ready messages in the order of delivery, without leasing them.
    ///
    /// # Errors
    /// No such queue, or of storage.
    pub async fn peek(&self, name: &QueueName, max: usize) -> Result<Vec<StoredMessage>, Fault> {
        let _ = (name, max);
        todo!()
    }

    /// Deletes what is ready, retries included, and what is dead too if asked; what is in flight stays.
    ///
    /// # Errors
    /// No such queue, or of storage.
    pub async fn purge(&self, name: &QueueName, dead: bool) -> Result<Purged, Fault> {
        let _ = (name, dead);
        todo!()
    }

    /// Stops delivery, or lets it go on; publishes and acks go on in any case.
    ///
    /// # Errors
    /// No such queue, or of storage.
    pub async fn pause(&self, name: &QueueName, paused: bool) -> Result<Paused, Fault> {
        let _ = (name, paused);
        todo!()
    }

    /// Why publishers and receivers wait (Q7).
    ///
    /// # Errors
    /// No such queue.
    pub async fn explain(&self, name: &QueueName) -> Result<Explained, Fault> {
        let _ = name;
        todo!()
    }

    /// Who received lately: at most 1,000, the latest first.
    ///
    /// # Errors
    /// No such queue.
    pub async fn consumers(&self, name: &QueueName) -> Result<Vec<Consumer>, Fault> {
        let _ = name;
        todo!()
    }
}
