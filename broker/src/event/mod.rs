//! What happens to messages after their publish, as it is written to a shard's event log.

pub(crate) mod codec;
mod entry;
pub(crate) mod wire;

#[cfg(test)]
pub(crate) mod tests;

pub use codec::{decode, encode};
pub use entry::{Entry, PART_MAX};
pub use wire::BadEvent;

use crate::api::{Band, QueueId, Seq};
use crate::name::ConsumerName;
use plimsoll::Offset;

/// Where a message's record is in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The band, each of which has a log.
    pub band: Band,
    /// In that log.
    pub offset: Offset,
}

/// Names one delivery of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId {
    /// The message.
    pub seq: Seq,
    /// Where it was published.
    pub place: Place,
    /// Which delivery, from 1.
    pub attempt: u32,
}

/// A point in time, as it must be stored to be used after a restart (Q5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which boot of the machine: 64 bits of its id.
    pub boot: u64,
    /// Milliseconds of `CLOCK_BOOTTIME`.
    pub boot_ms: u64,
    /// Unix milliseconds of the wall clock.
    pub wall_ms: u64,
}

/// A message that is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveredItem {
    /// Which delivery. The first one (attempt 1) takes the message out of its band's range: all before it in that band
    /// was taken before.
    pub id: DeliveryId,
    /// Its size by the one rule.
    pub bytes: u32,
}

/// Why a message is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadReason {
    /// Its consumer rejected it.
    Rejected,
    /// Its attempts are used up.
    Attempts,
    /// Its record cannot be read.
    Unreadable,
}

/// How a delivery ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The message is done.
    Acked,
    /// It is ready again.
    Nacked,
    /// It is dead.
    Dead(DeadReason),
    /// It never reached its receiver: ready again, and the attempt does not count.
    Undone,
}

impl Event {
    /// The queue that it is about.
    #[must_use]
    pub const fn queue(&self) -> QueueId {
        match self {
            Self::Delivered { queue, .. }
            | Self::Ended { queue, .. }
            | Self::Extended { queue, .. }
            | Self::Purged { queue, .. }
            | Self::Paused { queue, .. } => *queue,
        }
    }
}

/// One event: written first, then applied. Applying is deterministic: time comes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Messages are leased. The end of an earlier lease needs no event of its own: this one with the next attempt says it.
    Delivered {
        /// The queue.
        queue: QueueId,
        /// When.
        at: Stamp,
        /// For how long.
        lease_ms: u64,
        /// To whom.
        consumer: Option<ConsumerName>,
        /// The number that the queue's next message had at least.
        next_seq: Seq,
        /// In order of delivery.
        items: Vec<DeliveredItem>,
    },
    /// Deliveries end.
    Ended {
        /// The queue.
        queue: QueueId,
        /// How.
        end: End,
        /// Which.
        items: Vec<DeliveryId>,
    },
    /// Leases run longer.
    Extended {
        /// The queue.
        queue: QueueId,
        /// When.
        at: Stamp,
        /// For how long, from then.
        lease_ms: u64,
        /// Which.
        items: Vec<DeliveryId>,
    },
    /// All that was ready before these ends is gone, and what was dead, if so; what was in flight stays.
    Purged {
        /// The queue.
        queue: QueueId,
        /// Of each band in use, the end of what is purged, and all bytes published to it before that.
        ends: Vec<(Band, Offset, u64)>,
        /// See [`Event::Delivered`].
        next_seq: Seq,
        /// The dead ones too.
        dead: bool,
    },
    /// Delivery stops, or goes on.
    Paused {
        /// The queue.
        queue: QueueId,
        /// Which of both.
        paused: bool,
    },
}
