//! Queues: their settings, and what can be seen of them.

use super::Why;
use crate::name::QueueName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a queue is declared with. Written as JSON; a field that is not known is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSettings {
    /// How often a message is delivered before it is dead, 1 to 1,000.
    pub max_attempts: u32,
    /// How long a delivery is leased where the receiver does not say, in milliseconds.
    pub lease_ms: u64,
    /// Publishes are refused at so many messages, ready, in flight or being stored; 0 for no such limit.
    pub max_queue_depth: u64,
    /// The most messages in flight, 1 to 100,000.
    pub max_in_flight: u32,
    /// Which of the broker's data directories holds it, from 0; fixed when it is declared.
    pub data_dir: u16,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            lease_ms: 30_000,
            max_queue_depth: 10_000,
            max_in_flight: 100_000,
            data_dir: 0,
        }
    }
}

/// A setting that is out of its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct SettingsError {
    /// The field.
    pub field: &'static str,
    /// What is allowed.
    pub reason: &'static str,
}

impl QueueSettings {
    /// Checks the bounds.
    ///
    /// # Errors
    /// The first field that is out of them.
    pub fn check(&self) -> Result<(), SettingsError> {
        let refuse = |field, reason| Err(SettingsError { field, reason });
        if !(1..=1_000).contains(&self.max_attempts) {
            return refuse("max_attempts", "1 to 1000 are allowed");
        }
        let lease = Duration::from_millis(self.lease_ms);
        if !(super::LEASE_MIN..=super::LEASE_MAX).contains(&lease) {
            return refuse("lease_ms", "100 to 43200000 are allowed");
        }
        if !(1..=100_000).contains(&self.max_in_flight) {
            return refuse("max_in_flight", "1 to 100000 are allowed");
        }
        Ok(())
    }
}

/// What a declaration did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// There is a new queue, at revision 1.
    Created,
    /// It was there, with these settings; its revision.
    Same(u64),
    /// It has these settings now; its new revision.
    Changed(u64),
}

/// What a deletion took along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Deleted {
    /// What it held.
    pub messages: Counts,
}

/// What a purge took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Purged {
    /// Messages that were ready.
    pub purged: u64,
    /// Messages in flight, which stay.
    pub in_flight: u64,
}

/// What a pause or its end changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Paused {
    /// How it is now.
    pub paused: bool,
    /// It was not so before.
    pub changed: bool,
}

/// How many messages a queue holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counts {
    /// Waiting for delivery, first or again.
    pub ready: u64,
    /// Leased.
    pub in_flight: u64,
    /// Of the ready ones, those that were delivered before.
    pub redelivered: u64,
    /// Given up after their last attempt, or rejected.
    pub dead: u64,
}

impl Counts {
    /// What `max_queue_depth` bounds.
    #[must_use]
    pub const fn depth(&self) -> u64 {
        self.ready + self.in_flight
    }
}

/// A queue in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSummary {
    /// Its name.
    pub name: QueueName,
    /// Its revision.
    pub revision: u64,
    /// How many messages it holds.
    pub counts: Counts,
    /// It is paused.
    pub paused: bool,
}

/// All that can be seen of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueView {
    /// Its name, revision, counts.
    pub summary: QueueSummary,
    /// Its settings.
    pub settings: QueueSettings,
    /// Bytes of the messages that it holds, by the one rule of size.
    pub bytes: u64,
    /// Bytes of its files.
    pub bytes_on_disk: u64,
    /// The number that the next message has at least.
    pub next_seq: u64,
    /// Receivers that wait now.
    pub waiting: u64,
    /// Since the start of the process: confirmed publishes, deliveries, acks.
    pub published: u64,
    /// See `published`.
    pub delivered: u64,
    /// See `published`.
    pub acked: u64,
}

/// Who received lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// The name that it gives, or none.
    pub name: Option<String>,
    /// How many it holds.
    pub in_flight: u64,
    /// Receives of it that wait now.
    pub waiting: u64,
    /// How long ago it last asked.
    pub idle: Duration,
}

/// One reason for waiting, and when it may end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The reason: `disk`, `memory`, `queue_full`, `delayed`, or a [`Why`].
    pub reason: &'static str,
    /// A sentence.
    pub detail: String,
    /// When it may end, where that is known.
    pub ends_in: Option<Duration>,
}

/// Why publishers and receivers of a queue wait (Q7); nothing if they do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    /// What holds publishes.
    pub publish: Vec<Waits>,
    /// What holds receives.
    pub receive: Vec<Waits>,
    /// What a receive would be told now.
    pub would: Option<Why>,
}
