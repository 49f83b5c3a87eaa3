//! What is asked of a broker and what it answers, whatever the wire. Plain data; the bounds are the broker's promises.

mod fault;
mod queue;

pub use fault::{Fault, FaultKind, Full};
pub use queue::{
    Consumer, Counts, Declared, Deleted, Explained, Paused, Purged, QueueSettings, QueueSummary,
    QueueView, SettingsError, Waits,
};

use crate::name::ConsumerName;
use bytes::Bytes;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The most bytes of one payload.
pub const PAYLOAD_MAX: usize = 262_144;
/// The most bytes of one message's headers: names, values, content type, correlation id and key together.
pub const HEADERS_MAX: usize = 4_096;
/// The most bytes of an idempotency key.
pub const KEY_MAX: usize = 255;
/// The most messages of one publish.
pub const PUBLISH_MAX: usize = 1_000;
/// The most receipts of one ack, nack, reject or extend.
pub const SETTLE_MAX: usize = 1_000;
/// The most messages of one receive or peek.
pub const RECEIVE_MAX: usize = 32;
/// The most bytes of payloads of one receive or peek; one message always fits.
pub const RECEIVE_BYTES_MAX: usize = 1 << 20;
/// The longest wait of one receive.
pub const WAIT_MAX: Duration = Duration::from_secs(60);
/// The shortest and the longest lease.
pub const LEASE_MIN: Duration = Duration::from_millis(100);
/// See [`LEASE_MIN`].
pub const LEASE_MAX: Duration = Duration::from_secs(12 * 60 * 60);

/// A queue's number, for ever; directories are named by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u64);

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A message's number in its queue: its identity and its order. Rises for ever, with gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Seq {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// A priority band, 0 to 9; the higher goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Band(u8);

impl Band {
    /// Where a message goes that names none.
    pub const DEFAULT: Self = Self(4);
    /// How many there are.
    pub const COUNT: usize = 10;

    /// A band; `None` above 9.
    #[must_use]
    pub const fn new(band: u8) -> Option<Self> {
        if (band as usize) < Self::COUNT { Some(Self(band)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// A message to publish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewMessage {
    /// At most [`PAYLOAD_MAX`] bytes.
    pub payload: Bytes,
    /// The publisher's own names and values, in its order.
    pub headers: Vec<(String, String)>,
    /// Of the payload; given back as it came.
    pub content_type: Option<String>,
    /// Given back as it came.
    pub correlation_id: Option<String>,
    /// Idempotency key: published again with the same within five minutes, a message is not stored twice.
    pub key: Option<String>,
}

impl NewMessage {
    /// Its size by the one rule of 413, `max_bytes` and receipts: payload and headers, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        (self.payload.len() + self.headers_size()) as u64
    }

    /// The bytes that [`HEADERS_MAX`] bounds.
    #[must_use]
    pub fn headers_size(&self) -> usize {
        let pairs: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        pairs + len(&self.content_type) + len(&self.correlation_id) + len(&self.key)
    }
}

/// What became of one message of a publish: its number, or why it was not stored.
pub type PublishAnswer = Result<Published, Fault>;

/// A stored message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its number.
    pub seq: Seq,
    /// Its size, see [`NewMessage::size`].
    pub bytes: u64,
    /// It was stored before, with the same key and content.
    pub duplicate: bool,
}

/// Asks for messages.
#[derive(Clone, Debug)]
pub struct Receive {
    /// At most so many, 1 to [`RECEIVE_MAX`].
    pub max: usize,
    /// How long to wait while there is none, at most [`WAIT_MAX`].
    pub wait: Duration,
    /// How long they are leased, from hand-off; the queue's lease by default.
    pub lease: Option<Duration>,
    /// Who asks.
    pub consumer: Option<ConsumerName>,
    /// The most that this consumer wants in flight: it gets no more than what is left of that. Needs a name.
    pub concurrency: Option<u32>,
}

/// A message handed to a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The message.
    pub message: StoredMessage,
    /// Names this delivery in acks; opaque text.
    pub receipt: String,
    /// How often it was delivered, this time included.
    pub attempts: u32,
    /// When it was first delivered, Unix milliseconds.
    pub first_delivered_ms: u64,
    /// How long the lease runs, from now.
    pub lease: Duration,
}

/// A message as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMessage {
    /// Its number.
    pub seq: Seq,
    /// When it was published, by the broker's wall clock, Unix milliseconds.
    pub published_ms: u64,
    /// As it was published.
    pub content: NewMessage,
}

/// What a receiver, or a publisher, waits for (Q7). Serialized as `snake_case`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Why {
    /// There is no message that could be delivered.
    Empty,
    /// The queue is paused.
    Paused,
    /// As many are in flight as the queue allows.
    InFlightCap,
    /// As many are in flight as the node allows.
    NodeInFlightCap,
    /// As many are in flight as this consumer asked for.
    Concurrency,
    /// The disk takes no deliveries for now.
    Storage,
}

impl Why {
    /// The name as it goes over the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Paused => "paused",
            Self::InFlightCap => "in_flight_cap",
            Self::NodeInFlightCap => "node_in_flight_cap",
            Self::Concurrency => "concurrency",
            Self::Storage => "storage",
        }
    }
}

/// What is to become of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Done: the message goes for good.
    Ack,
    /// Not done: it is delivered again, before newer ones, or is dead after its last attempt.
    Nack,
    /// Never to be done: it is dead at once.
    Reject,
    /// Still at it: the lease runs so long from now.
    Extend(Duration),
}

/// What became of one receipt (Q6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// Done now.
    Done,
    /// The same was done before; nothing changed.
    Already,
    /// The lease had ended, but the message was not delivered again: done now. A late extend is refused as [`Settled::Gone`].
    Late,
    /// The message was delivered to another since, or is finished in another way.
    Gone,
    /// No receipt of this queue.
    Foreign,
}

impl Settled {
    /// The name as it goes over the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Already => "already",
            Self::Late => "late",
            Self::Gone => "gone",
            Self::Foreign => "foreign",
        }
    }
}
