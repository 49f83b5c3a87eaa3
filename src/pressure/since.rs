//! Since when a level is what it is.

use crate::types::Level;
use std::time::Duration;

/// The level as last noticed.
#[derive(Debug)]
pub(super) struct Since {
    level: Level,
    unix_millis: u64,
    /// Since when publishes are refused, by the clock that does not step.
    hard: Option<Duration>,
}

impl Since {
    pub(super) fn new(unix_millis: u64) -> Self {
        Self { level: Level::Ok, unix_millis, hard: None }
    }

    /// When it became this level, in milliseconds since the Unix epoch.
    pub(super) fn unix_millis(&self) -> u64 {
        self.unix_millis
    }

    /// For how long it has been hard or worse.
    pub(super) fn hard_for(&self, now: Duration) -> Duration {
        self.hard.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// Notes the level at `now`.
    pub(super) fn note(&mut self, level: Level, now: Duration, unix_millis: u64) {
        self.hard = if level < Level::Hard { None } else { self.hard.or(Some(now)) };
        if level != self.level {
            (self.level, self.unix_millis) = (level, unix_millis);
        }
    }
}
