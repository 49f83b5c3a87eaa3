//! One family of refusals and errors.

use crate::api::Seq;
use crate::name::{BadName, QueueName};
use plimsoll::Limited;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A queue that takes no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Full {
    /// The queue.
    pub queue: QueueName,
    /// Which limit: a setting's name.
    pub limit: &'static str,
    /// What there is.
    pub depth: u64,
    /// What is allowed.
    pub max: u64,
    /// When to try again.
    pub retry_after: Duration,
}

/// Why something was not done, or perhaps not done.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A name that cannot be one. 400.
    #[error(transparent)]
    Name(#[from] BadName),
    /// What was asked for makes no sense; a sentence. 400.
    #[error("{0}")]
    Invalid(Arc<str>),
    /// There is no such queue. 404.
    #[error("there is no queue {:?}", .0.as_str())]
    NoQueue(QueueName),
    /// It is declared with other settings; the revision it has. 409.
    #[error("queue {:?} has other settings, at revision {revision}", .queue.as_str())]
    OtherSettings {
        /// The queue.
        queue: QueueName,
        /// Its revision.
        revision: u64,
    },
    /// `If-Match` names another revision than it has. 412.
    #[error("queue {:?} is at revision {revision}", .queue.as_str())]
    OtherRevision {
        /// The queue.
        queue: QueueName,
        /// Its revision; 0 if there is no such queue.
        revision: u64,
    },
    /// The idempotency key was used for another content. 409.
    #[error("the idempotency key was used for other content, in message {0}")]
    KeyReused(Seq),
    /// A payload over the limit. 413.
    #[error("the payload has {len} bytes, at most {max} are allowed")]
    PayloadTooLarge {
        /// Its length.
        len: u64,
        /// What is allowed.
        max: u64,
    },
    /// Headers over the limit. 400.
    #[error("the headers have {len} bytes, at most {max} are allowed")]
    HeadersTooLarge {
        /// Their length.
        len: u64,
        /// What is allowed.
        max: u64,
    },
    /// Refused for disk or memory; nothing was applied. 429 `ERR_LIMITED`.
    #[error(transparent)]
    Limited(#[from] Limited),
    /// Refused for the queue's own limits; nothing was applied. 429 `QUEUE_FULL`.
    #[error("queue {:?} holds {} of at most {} ({})", .0.queue.as_str(), .0.depth, .0.max, .0.limit)]
    Full(Box<Full>),
    /// Not done: the storage cannot, or the broker is starting or stopping. Nothing was applied. 503.
    #[error("{0}")]
    Unavailable(Arc<str>),
    /// Perhaps done. 504.
    #[error("it is not known whether this was done: {0}")]
    Unknown(Arc<str>),
}

/// A fault's kind: what its code and status follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// See [`Fault::Name`].
    Name,
    /// See [`Fault::Invalid`].
    Invalid,
    /// See [`Fault::NoQueue`].
    NoQueue,
    /// See [`Fault::OtherSettings`].
    OtherSettings,
    /// See [`Fault::OtherRevision`].
    OtherRevision,
    /// See [`Fault::KeyReused`].
    KeyReused,
    /// See [`Fault::PayloadTooLarge`].
    PayloadTooLarge,
    /// See [`Fault::HeadersTooLarge`].
    HeadersTooLarge,
    /// See [`Fault::Limited`].
    Limited,
    /// See [`Fault::Full`].
    Full,
    /// See [`Fault::Unavailable`].
    Unavailable,
    /// See [`Fault::Unknown`].
    Unknown,
}

impl Fault {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> FaultKind {
        match self {
            Self::Name(_) => FaultKind::Name,
            Self::Invalid(_) => FaultKind::Invalid,
            Self::NoQueue(_) => FaultKind::NoQueue,
            Self::OtherSettings { .. } => FaultKind::OtherSettings,
            Self::OtherRevision { .. } => FaultKind::OtherRevision,
            Self::KeyReused(_) => FaultKind::KeyReused,
            Self::PayloadTooLarge { .. } => FaultKind::PayloadTooLarge,
            Self::HeadersTooLarge { .. } => FaultKind::HeadersTooLarge,
            Self::Limited(_) => FaultKind::Limited,
            Self::Full(_) => FaultKind::Full,
            Self::Unavailable(_) => FaultKind::Unavailable,
            Self::Unknown(_) => FaultKind::Unknown,
        }
    }
}

impl FaultKind {
    /// The status of HTTP.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Name | Self::Invalid | Self::HeadersTooLarge => 400,
            Self::NoQueue => 404,
            Self::OtherSettings | Self::KeyReused => 409,
            Self::OtherRevision => 412,
            Self::PayloadTooLarge => 413,
            Self::Limited | Self::Full => Limited::STATUS,
            Self::Unavailable => 503,
            Self::Unknown => 504,
        }
    }

    /// The code that programs go by.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Name => "INVALID_NAME",
            Self::Invalid => "INVALID_REQUEST",
            Self::NoQueue => "QUEUE_NOT_FOUND",
            Self::OtherSettings => "QUEUE_EXISTS",
            Self::OtherRevision => "REVISION_MISMATCH",
            Self::KeyReused => "IDEMPOTENCY_KEY_REUSED",
            Self::PayloadTooLarge => "PAYLOAD_TOO_LARGE",
            Self::HeadersTooLarge => "HEADERS_TOO_LARGE",
            Self::Limited => Limited::CODE,
            Self::Full => "QUEUE_FULL",
            Self::Unavailable => "ERR_UNAVAILABLE",
            Self::Unknown => "ERR_OUTCOME_UNKNOWN",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_its_queue_as_it_is_called() {
        let queue = QueueName::new("orders/eu").unwrap();
        let full = Full {
            queue: queue.clone(),
            limit: "max_queue_depth",
            depth: 2,
            max: 2,
            retry_after: Duration::from_secs(5),
        };
        let faults = [
            Fault::NoQueue(queue.clone()),
            Fault::OtherSettings { queue: queue.clone(), revision: 1 },
            Fault::OtherRevision { queue, revision: 1 },
            Fault::Full(Box::new(full)),
        ];
        for fault in faults {
            let said = fault.to_string();
            assert!(said.contains("queue \"orders/eu\""), "{said}");
        }
    }
}
