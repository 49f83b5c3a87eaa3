//! The right to append, and what is said where there is none. Made by admission, consumed by a log; neither knows the
//! other.

use crate::types::WriteClass;
use std::fmt::Debug;
use std::time::Duration;

/// How long a permit may be used, from its making.
pub const PERMIT_LIFE: Duration = Duration::from_secs(5);

/// The right to append once. Dropping it gives it back.
#[derive(Debug)]
#[must_use = "a permit that is not used is given back"]
pub struct Permit {
    class: WriteClass,
    bytes: u64,
    not_before: Duration,
    expires: Duration,
}

impl Permit {
    /// Only admission makes one.
    pub(crate) const fn new(
        class: WriteClass,
        bytes: u64,
        not_before: Duration,
        expires: Duration,
    ) -> Self {
        Self { class, bytes, not_before, expires }
    }

    /// What the write is for.
    #[must_use]
    pub fn class(&self) -> WriteClass {
        self.class
    }

    /// Checks the permit when it is used, at `now` of the same clock, for headers and payloads of `bytes`.
    ///
    /// # Errors
    /// Which limit of the permit is passed.
    pub fn check(&self, now: Duration, bytes: u64) -> Result<(), PermitError> {
        if bytes > self.bytes {
            return Err(PermitError::TooSmall { permitted: self.bytes, asked: bytes });
        }
        if now < self.not_before {
            return Err(PermitError::TooEarly { wait: self.not_before.saturating_sub(now) });
        }
        if now > self.expires {
            return Err(PermitError::Expired);
        }
        Ok(())
    }
}

/// Why a permit does not allow an append. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PermitError {
    /// The batch is larger than what was admitted.
    #[error("the permit is for {permitted} bytes, the batch has {asked}")]
    TooSmall {
        /// What was admitted.
        permitted: u64,
        /// What the batch has: headers and payloads.
        asked: u64,
    },
    /// The delay is not over.
    #[error("the permit is not valid for another {} ms", wait.as_millis())]
    TooEarly {
        /// How long.
        wait: Duration,
    },
    /// Older than [`PERMIT_LIFE`].
    #[error("the permit has expired")]
    Expired,
}

/// A refusal: code `ERR_LIMITED` (429). Nothing was written; trying again is safe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ERR_LIMITED: {reason}, try again in {} ms", retry_after.as_millis())]
pub struct Limited {
    /// `disk`, `memory` or `queue_full`.
    pub reason: &'static str,
    /// How long to wait before trying again.
    pub retry_after: Duration,
}

/// What the gate says.
#[derive(Debug)]
#[must_use]
pub enum Decision {
    /// Append now.
    Admit(Permit),
    /// Append after `wait`; the permit is not valid before.
    Delay {
        /// How long the caller waits; the gate never sleeps.
        wait: Duration,
        /// The permit.
        permit: Permit,
    },
    /// Do not append.
    Refuse(Limited),
}

/// Who decides about appends: admission, as a log sees it.
pub trait Gate: Debug + Send + Sync {
    /// Decides about a write of `bytes` (headers and payloads). Never blocks.
    fn decide(&self, class: WriteClass, bytes: u64) -> Decision;

    /// Waits out a delay, for a caller that may block.
    fn wait(&self, delay: Duration);
}
