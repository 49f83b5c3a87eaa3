//! The broker as its callers see it: cheap to clone, every call may be made from any task.

mod declare;
mod handoff;
mod registry;
mod start;

pub use handoff::HandOff;
pub(crate) use registry::Registry;

use crate::api::{
    Consumer, Declared, Deleted, Delivered, Explained, Fault, LEASE_MAX, LEASE_MIN, NewMessage,
    PUBLISH_MAX, Paused, PublishAnswer, Purged, QueueId, QueueSettings, QueueSummary, QueueView,
    RECEIVE_MAX, Receive, SETTLE_MAX, Settled, StoredMessage, Verb, WAIT_MAX, Why,
};
use crate::boot::Time;
use crate::catalogue::QueueMeta;
use crate::name::QueueName;
use crate::owner::{Command, Handle, Held, STOP_MAX, stopping};
use plimsoll::clock::Clock;
use plimsoll::fs::FileSystem;
use plimsoll::{Node, NodeOptions};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How a broker is started.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// The data directories, each with storage, threads and limits of its own; the first holds the catalogue.
    pub data: Vec<PathBuf>,
    /// Settings of the storage, the same for each.
    pub node: NodeOptions,
    /// The most messages in flight in all queues together; 1,000,000 by default.
    pub in_flight_max: u64,
    /// Bytes of events after which a shard writes a snapshot, so that older events can be freed; 4 MiB by default.
    pub snapshot_bytes: u64,
    /// How long an owner may take to answer, beside what a receive waits; 30 s by default. A disk that hangs, or has no
    /// space for an event, answers nobody.
    pub answer_max: Duration,
    /// The file system; the machine's if none is named.
    pub fs: Option<Arc<dyn FileSystem>>,
    /// The clock; the machine's if none is named.
    pub clock: Option<Arc<dyn Clock>>,
}

impl BrokerOptions {
    /// Defaults over these directories.
    #[must_use]
    pub fn new(data: Vec<PathBuf>) -> Self {
        Self {
            data,
            node: NodeOptions::default(),
            in_flight_max: 1_000_000,
            snapshot_bytes: 4 << 20,
            answer_max: Duration::from_secs(30),
            fs: None,
            clock: None,
        }
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
    /// How often a shard was loaded again because its event log failed.
    pub reloads: u64,
}

#[derive(Debug)]
struct Inner {
    nodes: Vec<Node>,
    registry: Arc<Registry>,
    /// By directory, then shard.
    owners: Vec<Handle>,
    shards: u8,
    keeper: tokio::sync::Mutex<declare::Keeper>,
    time: Time,
    stopping: AtomicBool,
    in_flight: Arc<AtomicU64>,
    answer_max: Duration,
}

impl Inner {
    fn check_running(&self) -> Result<(), Fault> {
        match self.stopping.load(Ordering::Acquire) {
            true => Err(stopping()),
            false => Ok(()),
        }
    }

    fn owner_of(&self, meta: &QueueMeta) -> Result<&Handle, Fault> {
        let shard = crate::logs::shard(meta.id, self.shards);
        let at =
            usize::from(meta.settings.data_dir) * usize::from(self.shards) + usize::from(shard);
        self.owners
            .get(at)
            .ok_or_else(|| Fault::Unavailable("the queue's directory is missing".into()))
    }
}

/// A running broker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Broker {
    inner: Arc<Inner>,
}

impl Broker {
    /// Opens storage, catalogue, shards and queues. Accepts everything from when it returns.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(options: BrokerOptions) -> Result<Self, StartError> {
        Ok(Self { inner: Arc::new(start::start(options).await?) })
    }

    /// Takes no new work, answers what is under way, closes the storage clean. Calls made from now on are answered with
    /// [`Fault::Unavailable`].
    pub async fn stop(&self) {
        let inner = &self.inner;
        inner.stopping.store(true, Ordering::Release);
        // A declaration that is under way ends first, if its disk lets it.
        let keeper = tokio::time::timeout(STOP_MAX, inner.keeper.lock()).await;
        let mut ending = Vec::new();
        for owner in &inner.owners {
            let (answer, ended) = tokio::sync::oneshot::channel();
            if owner.stop.send(answer).is_ok() {
                ending.push(ended);
            }
        }
        // Each ends in time by itself.
        for ended in ending {
            let _ = ended.await;
        }
        drop(keeper);
        let closing: Vec<_> = inner
            .nodes
            .iter()
            .map(|node| {
                let node = node.clone();
                tokio::task::spawn_blocking(move || node.close())
            })
            .collect();
        let until = tokio::time::Instant::now() + STOP_MAX;
        for node in closing {
            match tokio::time::timeout_at(until, node).await {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(error))) => tracing::error!(%error, "a log was not closed clean"),
                Ok(Err(error)) => tracing::error!(%error, "the storage was not closed"),
                Err(_) => tracing::error!("the disk hangs: the storage was not closed"),
            }
        }
    }

    /// The storage of each data directory: levels, statistics, limits.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.inner.nodes
    }

    /// Numbers. Reads memory only.
    #[must_use]
    pub fn stats(&self) -> BrokerStats {
        let mut sum = BrokerStats {
            queues: self.inner.registry.len() as u64,
            in_flight: self.inner.in_flight.load(Ordering::Relaxed),
            ..BrokerStats::default()
        };
        for owner in &self.inner.owners {
            let tally = *owner.tally.lock().unwrap_or_else(PoisonError::into_inner);
            sum.published += tally.published;
            sum.duplicates += tally.duplicates;
            sum.queue_full += tally.queue_full;
            sum.delivered += tally.delivered;
            sum.undone += tally.undone;
            sum.acked += tally.acked;
            sum.expired += tally.expired;
            sum.dead += tally.dead;
            sum.marks += tally.marks;
            sum.marks_dropped += tally.marks_dropped;
            sum.reloads += tally.reloads;
        }
        sum
    }

    /// Asks the owner of a queue. What it has not answered in time may be done all the same.
    async fn ask<T>(
        &self,
        name: &QueueName,
        command: impl FnOnce(QueueId, crate::owner::Answer<T>) -> Command,
    ) -> Result<T, Fault> {
        self.ask_within(name, self.inner.answer_max, command).await
    }

    async fn ask_within<T>(
        &self,
        name: &QueueName,
        time: Duration,
        command: impl FnOnce(QueueId, crate::owner::Answer<T>) -> Command,
    ) -> Result<T, Fault> {
        self.inner.check_running()?;
        let listed = self.inner.registry.find(name)?;
        let asked = declare::ask(&listed.owner, |answer| command(listed.id, answer));
        let answer = in_time(time, asked).await;
        answer.map_err(|fault| self.or_deleted(name, listed.id, fault))
    }

    /// Asks what changes nothing: without an answer nothing can have been done.
    async fn look<T>(
        &self,
        name: &QueueName,
        command: impl FnOnce(QueueId, crate::owner::Answer<T>) -> Command,
    ) -> Result<T, Fault> {
        self.ask(name, command).await.map_err(|fault| match fault {
            Fault::Unknown(why) => Fault::Unavailable(why),
            other => other,
        })
    }

    /// What was not done for a queue that was deleted meanwhile was not done for that.
    fn or_deleted(&self, name: &QueueName, id: QueueId, fault: Fault) -> Fault {
        let there = self.inner.registry.find(name).is_ok_and(|listed| listed.id == id);
        match fault {
            Fault::Unavailable(_) | Fault::Invalid(_) if !there => Fault::NoQueue(name.clone()),
            other => other,
        }
    }

    /// Declares a queue; `if_match` is the revision that it must have to be changed. Goes on when the caller leaves.
    ///
    /// # Errors
    /// Other settings, another revision, settings out of bounds, or of storage.
    pub async fn declare(
        &self,
        name: &QueueName,
        settings: QueueSettings,
        if_match: Option<u64>,
    ) -> Result<Declared, Fault> {
        let work = Arc::clone(&self.inner).declare(name.clone(), settings, if_match);
        in_time(self.inner.answer_max, detached(work)).await
    }

    /// Deletes a queue with all that it holds: gone for good when this returns. Goes on when the caller leaves.
    ///
    /// # Errors
    /// No such queue, another revision, or of storage.
    pub async fn delete(&self, name: &QueueName, if_match: Option<u64>) -> Result<Deleted, Fault> {
        let work = Arc::clone(&self.inner).delete(name.clone(), if_match);
        in_time(self.inner.answer_max, detached(work)).await
    }

    /// At most `max` queues by name after `after`. Reads memory only and never waits.
    #[must_use]
    pub fn list(&self, after: Option<&str>, max: usize) -> Vec<QueueSummary> {
        self.inner.registry.list(after, max)
    }

    /// All that can be seen of a queue.
    ///
    /// # Errors
    /// No such queue.
    pub async fn show(&self, name: &QueueName) -> Result<QueueView, Fault> {
        self.look(name, Command::Show).await
    }

    /// Publishes messages in order; an answer for each. After the first refusal for pressure or fullness the rest is refused
    /// too. Goes on when the caller leaves.
    ///
    /// # Errors
    /// What holds for all of them: no such queue, too many, one that is too large.
    pub async fn publish(
        &self,
        name: &QueueName,
        messages: Vec<NewMessage>,
    ) -> Result<Vec<PublishAnswer>, Fault> {
        self.publish_held(name, messages, None).await
    }

    /// The same; `held` is dropped when the messages leave memory, which may be after the answer: a publish whose caller has
    /// left, or has waited long enough, still has its bytes here until the disk takes them.
    pub(crate) async fn publish_held(
        &self,
        name: &QueueName,
        messages: Vec<NewMessage>,
        held: Held,
    ) -> Result<Vec<PublishAnswer>, Fault> {
        if messages.is_empty() || messages.len() > PUBLISH_MAX {
            let said = format!("{} messages, 1 to {PUBLISH_MAX} are allowed", messages.len());
            return Err(Fault::Invalid(said.into()));
        }
        messages.iter().try_for_each(crate::message::check)?;
        let id = self.inner.registry.find(name)?.id;
        let answers =
            self.ask(name, |queue, answer| Command::Publish(queue, messages, held, answer)).await?;
        let answers = answers.into_iter();
        Ok(answers.map(|answer| answer.map_err(|fault| self.or_deleted(name, id, fault))).collect())
    }

    /// Waits for messages and leases them. Dropping the future undoes what it was about to get.
    ///
    /// # Errors
    /// No such queue, numbers out of bounds, or of storage.
    pub async fn receive(&self, name: &QueueName, ask: Receive) -> Result<Received, Fault> {
        let invalid = |said: &str| Err(Fault::Invalid(said.into()));
        if !(1..=RECEIVE_MAX).contains(&ask.max) {
            return invalid("max: 1 to 32 are allowed");
        }
        if ask.wait > WAIT_MAX {
            return invalid("wait_ms: at most 60000 are allowed");
        }
        if ask.lease.is_some_and(|lease| !(LEASE_MIN..=LEASE_MAX).contains(&lease)) {
            return invalid("lease_ms: 100 to 43200000 are allowed");
        }
        if ask.concurrency.is_some() && ask.consumer.is_none() {
            return invalid("concurrency: needs the name of a consumer");
        }
        if ask.concurrency == Some(0) {
            return invalid("concurrency: at least 1 is needed");
        }
        // Given up, it is undone: nothing stays leased.
        let time = self.inner.answer_max + ask.wait;
        self.ask_within(name, time, |queue, answer| Command::Receive(queue, ask, answer)).await
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
        if receipts.is_empty() || receipts.len() > SETTLE_MAX {
            let said = format!("{} receipts, 1 to {SETTLE_MAX} are allowed", receipts.len());
            return Err(Fault::Invalid(said.into()));
        }
        if let Verb::Extend(lease) = verb
            && !(LEASE_MIN..=LEASE_MAX).contains(&lease)
        {
            return Err(Fault::Invalid("lease_ms: 100 to 43200000 are allowed".into()));
        }
        self.ask(name, |queue, answer| Command::Settle(queue, verb, receipts, answer)).await
    }

    /// Ready messages in the order of delivery, without leasing them.
    ///
    /// # Errors
    /// No such queue, or of storage.
    pub async fn peek(&self, name: &QueueName, max: usize) -> Result<Vec<StoredMessage>, Fault> {
        if !(1..=RECEIVE_MAX).contains(&max) {
            return Err(Fault::Invalid("max: 1 to 32 are allowed".into()));
        }
        self.look(name, |queue, answer| Command::Peek(queue, max, answer)).await
    }

    /// Deletes what is ready, retries included, and what is dead too if asked; what is in flight stays.
    ///
    /// # Errors
    /// No such queue, or of storage.
    pub async fn purge(&self, name: &QueueName, dead: bool) -> Result<Purged, Fault> {
        self.ask(name, |queue, answer| Command::Purge(queue, dead, answer)).await
    }

    /// Stops delivery, or lets it go on; publishes and acks go on in any case.
    ///
    /// # Errors
    /// No such queue, or of storage.
    pub async fn pause(&self, name: &QueueName, paused: bool) -> Result<Paused, Fault> {
        self.ask(name, |queue, answer| Command::Pause(queue, paused, answer)).await
    }

    /// Why publishers and receivers wait (Q7).
    ///
    /// # Errors
    /// No such queue.
    pub async fn explain(&self, name: &QueueName) -> Result<Explained, Fault> {
        self.look(name, Command::Explain).await
    }

    /// Who received lately: at most 1,000, the latest first.
    ///
    /// # Errors
    /// No such queue.
    pub async fn consumers(&self, name: &QueueName) -> Result<Vec<Consumer>, Fault> {
        self.look(name, Command::Consumers).await
    }
}

/// What is not answered in time may be done all the same.
async fn in_time<T>(
    time: Duration,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    tokio::time::timeout(time, work).await.unwrap_or_else(|_| {
        let said =
            format!("no answer within {} s: the disk hangs, or takes nothing", time.as_secs());
        Err(Fault::Unknown(said.into()))
    })
}

/// Runs to its end even if nobody waits for it any more.
async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|error| Err(Fault::Unknown(error.to_string().into())))
}
