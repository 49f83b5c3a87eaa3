//! The refusal.

use crate::types::{Level, WriteClass};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What there is too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LimitReason {
    /// Space or inodes of a disk.
    Disk,
    /// Memory.
    Memory,
    /// Room in a queue; said by brokers, never by the engine.
    QueueFull,
}

impl LimitReason {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::Disk, Self::Memory, Self::QueueFull];

    /// The name as it goes over the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Memory => "memory",
            Self::QueueFull => "queue_full",
        }
    }
}

impl fmt::Display for LimitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A refusal, before anything was written: trying again is always safe.
///
/// Its `Display` is a sentence for operators; programs go by the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limited {
    /// What there is too little of.
    pub reason: LimitReason,
    /// What was to be written.
    pub class: WriteClass,
    /// The level that refuses.
    pub level: Level,
    /// How long to wait before trying again. It grows while the level lasts, and differs between refusals, so that not
    /// all come back at once.
    pub retry_after: Duration,
    /// The data directory whose device is short; `None` for memory and queues.
    pub device: Option<PathBuf>,
    /// Bytes that are left: free on the device, or below the memory limit. Not told for queues.
    pub free: Option<u64>,
    /// Bytes that must be left for this write.
    pub threshold: Option<u64>,
    /// How long, at the present rate, until publishes are refused: only said where they are not yet, as when the next
    /// file would not fit.
    pub forecast: Option<Duration>,
    /// Why, as a sentence without its subject: "on /data 1.9 GiB are free, …".
    pub detail: Arc<str>,
}

impl Limited {
    /// The code of a refusal.
    pub const CODE: &'static str = "ERR_LIMITED";

    /// The same as a status of HTTP (RFC 6585).
    pub const STATUS: u16 = 429;

    /// A refusal with what every one has.
    #[must_use]
    pub fn new(
        reason: LimitReason,
        class: WriteClass,
        level: Level,
        retry_after: Duration,
        detail: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            reason,
            class,
            level,
            retry_after,
            device: None,
            free: None,
            threshold: None,
            forecast: None,
            detail: detail.into(),
        }
    }

    /// [`Limited::retry_after`] in whole milliseconds, rounded up and never 0: a hint that is rounded down, or to
    /// nothing, makes clients hammer.
    #[must_use]
    pub fn retry_after_ms(&self) -> u64 {
        let millis = self.retry_after.as_nanos().div_ceil(1_000_000);
        u64::try_from(millis).unwrap_or(u64::MAX).max(1)
    }

    /// The same in whole seconds, for a `Retry-After` header (RFC 9110, 10.2.3): rounded up, so that who waits as long as
    /// it says has waited out [`Limited::retry_after_ms`] too.
    #[must_use]
    pub fn retry_after_secs(&self) -> u64 {
        self.retry_after_ms().div_ceil(1_000)
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, class, detail, .. } = self;
        let retry = self.retry_after_ms();
        write!(f, "{}: {class} refused for {reason}: {detail}; try again in {retry} ms", Self::CODE)
    }
}

impl std::error::Error for Limited {}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(retry_after: Duration) -> Limited {
        let full = LimitReason::QueueFull;
        Limited::new(full, WriteClass::Publish, Level::Hard, retry_after, "the queue is full")
    }

    /// A wait of 200 ms that becomes `Retry-After: 0` makes clients hammer; one that is rounded down sends them back
    /// before the time.
    #[test]
    fn case_g5_the_hint_is_rounded_up_and_never_nothing() {
        let millis = [1, 200, 999, 1_000, 1_001];
        let hints = millis.map(|millis| after(Duration::from_millis(millis)));
        assert_eq!(hints.each_ref().map(Limited::retry_after_ms), millis);
        assert_eq!(hints.each_ref().map(Limited::retry_after_secs), [1, 1, 1, 1, 2]);
        let odd = [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(1_001)];
        assert_eq!(odd.map(|time| after(time).retry_after_ms()), [1, 1, 2]);
        assert_eq!(after(Duration::MAX).retry_after_ms(), u64::MAX);
        for hint in &hints {
            assert!(hint.retry_after_ms() <= hint.retry_after_secs() * 1_000);
        }
    }

    #[test]
    fn the_sentence_names_code_reason_and_hint() {
        let text = after(Duration::from_millis(1_250)).to_string();
        let whole =
            "ERR_LIMITED: publish refused for queue_full: the queue is full; try again in 1250 ms";
        assert_eq!(text, whole);
    }
}
