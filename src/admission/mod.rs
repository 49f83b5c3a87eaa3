//! Who may append now. A permit is made only here and consumed by `append`, so no write goes round admission.
//!
//! At present the gate admits everything; classes, refusals and permits have their final shape.

use crate::clock::Clock;
use crate::types::WriteClass;
use std::sync::Arc;
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

/// The gate of one node.
#[derive(Clone, Debug)]
pub struct Admission {
    clock: Arc<dyn Clock>,
}

impl Admission {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock }
    }

    /// Decides about a write of `bytes` (headers and payloads). Never blocks.
    pub fn decide(&self, class: WriteClass, bytes: u64) -> Decision {
        let now = self.clock.elapsed();
        Decision::Admit(Permit { class, bytes, not_before: now, expires: now + PERMIT_LIFE })
    }

    /// Waits out a delay for a caller that may block.
    pub(crate) fn wait(&self, delay: Duration) {
        self.clock.sleep(delay);
    }
}
