//! The right to append, and what is said where there is none. Made by admission, consumed by a log; neither knows the
//! other.

mod limited;

pub use limited::{LimitReason, Limited};

use crate::planted::{self, Fault};
use crate::types::WriteClass;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How long a permit may be used, from when it is valid.
pub const PERMIT_LIFE: Duration = Duration::from_secs(5);

/// Bytes of batches that wait out a delay, which hold memory while they do.
#[derive(Debug, Default)]
pub(crate) struct Waiting(AtomicU64);

impl Waiting {
    /// Adds `bytes` if no more than `max` are waiting then; the share gives them back when it is dropped. A batch larger
    /// than `max` may wait alone.
    pub(crate) fn enter(self: &Arc<Self>, bytes: u64, max: u64) -> Option<Share> {
        let fits = |now: u64| {
            let then = now.saturating_add(bytes);
            (now == 0 || then <= max).then_some(then)
        };
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Share { of: Arc::clone(self), bytes })
    }

    /// Bytes that wait now.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// See [`Waiting::enter`].
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Waiting>,
    bytes: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a permit is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) class: WriteClass,
    /// Headers and payloads.
    pub(crate) bytes: u64,
    /// The device of the log (`st_dev`).
    pub(crate) device: u64,
}

/// The right to append once, to a log on one device. Dropping it gives it back.
#[must_use = "a permit that is not used is given back"]
pub struct Permit {
    grant: Grant,
    not_before: Duration,
    used: AtomicBool,
    /// Of the bytes that wait, of the log and of the node; given back with the permit.
    _share: Option<(Share, Share)>,
}

impl Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { grant, not_before, used, .. } = self;
        let mut shown = f.debug_struct("Permit");
        shown.field("grant", grant).field("not_before", not_before);
        shown.field("used", used).finish_non_exhaustive()
    }
}

impl Permit {
    /// Only admission makes one: valid from `not_before` for [`PERMIT_LIFE`].
    pub(crate) const fn new(
        grant: Grant,
        not_before: Duration,
        share: Option<(Share, Share)>,
    ) -> Self {
        Self { grant, not_before, used: AtomicBool::new(false), _share: share }
    }

    /// What the write is for.
    #[must_use]
    pub fn class(&self) -> WriteClass {
        self.grant.class
    }

    /// Bytes of headers and payloads that it is for.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.grant.bytes
    }

    /// Checks the permit at `now` of the same clock, for headers and payloads of `bytes` on `device`.
    ///
    /// # Errors
    /// Which limit of the permit is passed.
    pub fn check(&self, now: Duration, bytes: u64, device: u64) -> Result<(), PermitError> {
        let Grant { bytes: permitted, device: on, .. } = self.grant;
        if bytes > permitted {
            return Err(PermitError::TooSmall { permitted, asked: bytes });
        }
        if device != on {
            return Err(PermitError::OtherDevice);
        }
        if now < self.not_before {
            return Err(PermitError::TooEarly { wait: self.not_before.saturating_sub(now) });
        }
        self.check_age(now)
    }

    /// Checks only whether it has expired meanwhile.
    ///
    /// # Errors
    /// [`PermitError::Expired`].
    pub fn check_age(&self, now: Duration) -> Result<(), PermitError> {
        if now.saturating_sub(self.not_before) > PERMIT_LIFE {
            Err(PermitError::Expired)
        } else {
            Ok(())
        }
    }

    /// Uses it up, when all else that the batch needs is there. Two that try at once do not both get through.
    ///
    /// # Errors
    /// [`PermitError::Used`].
    pub(crate) fn use_up(&self) -> Result<(), PermitError> {
        let used = self.used.swap(true, Ordering::Relaxed);
        if used && !planted::is(Fault::PermitUsedTwice) { Err(PermitError::Used) } else { Ok(()) }
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
    /// It was given for a log on another device.
    #[error("the permit is for a log on another device")]
    OtherDevice,
    /// It was used already.
    #[error("the permit has been used")]
    Used,
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

/// Who decides about appends to one log: admission, as the log sees it.
pub trait Gate: Debug + Send + Sync {
    /// Decides about a write of `bytes` (headers and payloads). Never blocks.
    fn decide(&self, class: WriteClass, bytes: u64) -> Decision;

    /// Counts a refusal that [`Gate::decide`] did not make: of the new file that an append would have needed.
    fn refused(&self, limited: &Limited);

    /// The device of the log (`st_dev`), which a permit for it must be for.
    fn device(&self) -> u64;

    /// Waits out a delay, for a caller that may block.
    fn wait(&self, delay: Duration);
}
