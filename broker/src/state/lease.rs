//! Leases that end, begin and last.

use super::live::State;
use super::queue::Queue;
use crate::event::{DeliveryId, Place};

/// Deliveries whose leases have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Ready again.
    pub ready: Vec<DeliveryId>,
    /// Their last attempt is over: to be ended as dead by an event, until which they count as in flight. They are not told
    /// again.
    pub exhausted: Vec<DeliveryId>,
}

impl Queue {
    /// When the next lease ends, in the boot clock's milliseconds.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.index.leases.first().map(|(until, _)| *until)
    }

    /// Ends at most `max` leases that have run out by `now_ms`. In memory only.
    pub fn expire(&mut self, now_ms: u64, max: usize) -> Expired {
        let mut expired = Expired::default();
        for _ in 0..max {
            let Some((_, place)) = self.index.leases.first().filter(|(until, _)| *until <= now_ms)
            else {
                break;
            };
            let place = *place;
            let Some(id) = self.last_delivery(place) else { break };
            if id.attempt >= self.settings.max_attempts {
                self.update(place, |live| live.state = State::Exhausted);
                expired.exhausted.push(id);
            } else {
                self.leave(place, |live| live.state = State::Late);
                expired.ready.push(id);
            }
        }
        expired
    }

    /// A delivery reached its receiver, or was extended: its lease runs until then. `u64::MAX` stands for a lease that does not run yet, for
    /// a delivery whose event takes longer to be durable than [`HAND_OFF_MS`](super::HAND_OFF_MS). In memory only; nothing
    /// happens to what is not leased.
    pub fn begin_lease(&mut self, id: &DeliveryId, deadline_ms: u64) {
        if self.entry(id).is_some_and(|live| live.state == State::Leased) {
            self.update(id.place, |live| live.until_ms = deadline_ms);
        }
    }

    /// A delivery reached its receiver: its lease begins, unless it was extended by a receipt that came before.
    pub fn handed_over(&mut self, id: &DeliveryId, deadline_ms: u64) {
        if self.entry(id).is_some_and(|live| live.until_ms == u64::MAX) {
            self.begin_lease(id, deadline_ms);
        }
    }

    /// Names an entry's last delivery.
    pub(super) fn last_delivery(&self, place: Place) -> Option<DeliveryId> {
        let live = self.live.get(&place)?;
        Some(DeliveryId { seq: live.seq, place, attempt: live.attempts })
    }
}
