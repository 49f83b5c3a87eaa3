//! A message below its band's cursor that still matters.

use super::{Frame, HAND_OFF_MS};
use crate::api::Seq;
use crate::event::{DeadReason, Stamp};
use crate::name::ConsumerName;

/// Where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Leased until its deadline.
    Leased,
    /// Its lease has ended, and it was the last attempt: its owner was told, and will say that it is dead.
    Exhausted,
    /// Its lease has ended; ready again.
    Late,
    /// Its consumer gave it back; ready again.
    Returned,
    /// Its first delivery reached nobody; ready, as if never delivered.
    Untouched,
    /// Dead.
    Dead(DeadReason),
}

impl State {
    /// It is in flight.
    pub(super) const fn in_flight(self) -> bool {
        matches!(self, Self::Leased | Self::Exhausted)
    }

    /// Its last delivery was not ended by a word of its consumer. No event tells these three apart: after a restart all are
    /// leased, so what an event does must not depend on which of them it is.
    pub(super) const fn held(self) -> bool {
        matches!(self, Self::Leased | Self::Exhausted | Self::Late)
    }
}

/// A message that is leased, ready again or dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) seq: Seq,
    /// When it was first delivered, by the wall clock.
    pub(super) first_ms: u64,
    /// When its lease was given, in this boot's time.
    pub(super) at_ms: u64,
    /// When its lease ends; `u64::MAX` while that is not known. Counts only while leased.
    pub(super) until_ms: u64,
    pub(super) consumer: Option<ConsumerName>,
    /// Its size.
    pub(super) bytes: u32,
    /// How often it was delivered.
    pub(super) attempts: u32,
    pub(super) lease_ms: u32,
    pub(super) state: State,
    /// The delivery before the last was given back: what an undone delivery goes back to.
    pub(super) returned_before: bool,
}

impl Live {
    /// When it was first delivered, if it was.
    pub(super) fn first(&self) -> Option<u64> {
        (self.attempts > 0).then_some(self.first_ms)
    }

    /// Leases it as an event says.
    pub(super) fn lease(&mut self, at: &Stamp, lease_ms: u64, frame: &Frame) {
        self.lease_ms = u32::try_from(lease_ms).unwrap_or(u32::MAX);
        self.state = State::Leased;
        if at.boot == frame.boot {
            self.lease_since(at.boot_ms, frame);
        } else {
            self.lease_again(frame);
        }
    }

    /// Leases it since a time of this boot.
    pub(super) fn lease_since(&mut self, at_ms: u64, frame: &Frame) {
        // A stamp from the future would keep it from being delivered for as long.
        self.at_ms = at_ms.min(frame.now_ms);
        self.until_ms = self.at_ms.saturating_add(u64::from(self.lease_ms) + HAND_OFF_MS);
    }

    /// Leases it in full, from now: how long the machine was off is not known.
    pub(super) fn lease_again(&mut self, frame: &Frame) {
        self.at_ms = frame.now_ms;
        self.until_ms = frame.now_ms.saturating_add(u64::from(self.lease_ms));
    }

    /// Takes its last delivery back.
    pub(super) fn undo(&mut self) {
        self.attempts = self.attempts.saturating_sub(1);
        self.state = match (self.attempts, self.returned_before) {
            (0, _) => State::Untouched,
            (_, true) => State::Returned,
            (_, false) => State::Late,
        };
        self.returned_before = false;
    }
}
