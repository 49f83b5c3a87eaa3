//! What an owner is asked.

use crate::api::{
    Consumer, Counts, Deleted, Explained, Fault, NewMessage, Paused, PublishAnswer, Purged,
    QueueId, QueueView, Receive, Settled, StoredMessage, Verb,
};
use crate::broker::Received;
use crate::catalogue::QueueMeta;
use crate::event::DeliveryId;
use std::fmt;
use tokio::sync::oneshot;

/// Where an answer goes. Whoever asked may have left.
pub(crate) type Answer<T> = oneshot::Sender<Result<T, Fault>>;

/// What is given back when a publish's messages leave memory.
pub(crate) type Held = Option<Box<dyn fmt::Debug + Send + Sync>>;

/// One command to a shard's owner. Those about a queue name it by its number: a queue that was deleted and declared again is
/// another one.
#[derive(Debug)]
pub(crate) enum Command {
    Publish(QueueId, Vec<NewMessage>, Held, Answer<Vec<PublishAnswer>>),
    Receive(QueueId, Receive, Answer<Received>),
    Settle(QueueId, Verb, Vec<String>, Answer<Vec<Settled>>),
    Peek(QueueId, usize, Answer<Vec<StoredMessage>>),
    Purge(QueueId, bool, Answer<Purged>),
    Pause(QueueId, bool, Answer<Paused>),
    Show(QueueId, Answer<QueueView>),
    Explain(QueueId, Answer<Explained>),
    Consumers(QueueId, Answer<Vec<Consumer>>),
}

impl Command {
    /// Answers that it was not done.
    pub(crate) fn refuse(self, fault: &Fault) {
        fn no<T>(answer: Answer<T>, fault: &Fault) {
            let _ = answer.send(Err(fault.clone()));
        }
        match self {
            Self::Publish(_, _, _, answer) => no(answer, fault),
            Self::Receive(_, _, answer) => no(answer, fault),
            Self::Settle(_, _, _, answer) => no(answer, fault),
            Self::Peek(_, _, answer) => no(answer, fault),
            Self::Purge(_, _, answer) => no(answer, fault),
            Self::Pause(_, _, answer) => no(answer, fault),
            Self::Show(_, answer) => no(answer, fault),
            Self::Explain(_, answer) => no(answer, fault),
            Self::Consumers(_, answer) => no(answer, fault),
        }
    }
}

/// What the catalogue tells a shard's owner, durable already.
#[derive(Debug)]
pub(crate) enum Change {
    /// There is a new queue, or it has other settings.
    Declare(QueueMeta, Answer<()>),
    /// A queue was deleted; forget it, and give its logs up.
    Delete(QueueId, Answer<Deleted>),
}

/// What became of deliveries on their way to their receiver. Never refused and never waits: a receiver that is gone must
/// not keep its messages.
#[derive(Debug)]
pub(crate) struct Handed {
    pub(crate) queue: QueueId,
    pub(crate) items: Vec<DeliveryId>,
    /// The lease begins now; else the deliveries are undone.
    pub(crate) lease_ms: Option<u64>,
    /// When their lease was written, in boot time.
    pub(crate) leased_ms: u64,
}

/// What a deletion says of a queue that held nothing, or was not there.
pub(super) const NOTHING: Counts = Counts { ready: 0, in_flight: 0, redelivered: 0, dead: 0 };
