//! Leases, as their receivers can prove them.

use super::{Asked, Breach, Checker, Got};

/// The most that the broker allows from the event of a delivery to its hand-off.
const HAND_OFF_MS: u64 = 5_000;

/// A lease runs from some moment between asking and getting: until when for certain, and until when at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) attempts: u32,
    /// It runs until here at least.
    pub(super) surely_ms: u64,
    /// And until here at most.
    pub(super) perhaps_ms: u64,
    /// Given up by its receiver: nothing holds any more.
    pub(super) released: bool,
}

impl Checker {
    /// No other delivery comes while a lease runs for certain.
    pub(super) fn check_lease(&mut self, asked: &Asked, slot: u64, got: Got) {
        let before = self.leases.get(&slot).copied();
        if let Some(before) = before.filter(|before| before.attempts < got.attempts) {
            if !before.released && got.at_ms < before.surely_ms {
                self.breach(
                    Breach::Lease,
                    format!(
                        "message {slot} (number {}) comes with attempts {} at {} ms, and is leased until {} ms",
                        got.id, got.attempts, got.at_ms, before.surely_ms
                    ),
                );
            }
            if !before.released {
                let over = got.at_ms.saturating_sub(before.perhaps_ms);
                self.seen.lease_overrun_ms = self.seen.lease_overrun_ms.max(over);
            }
        }
        if before.is_none_or(|before| before.attempts < got.attempts) && !self.finished(slot) {
            let lease = Lease {
                attempts: got.attempts,
                surely_ms: asked.ms + got.lease_ms,
                perhaps_ms: got.at_ms + got.lease_ms,
                released: false,
            };
            self.leases.insert(slot, lease);
        }
    }

    /// The receiver gives a delivery up: from now on it may be delivered again. To be called before the request is sent.
    pub fn releasing(&mut self, slot: u64, attempts: u32) {
        if let Some(lease) = self.leases.get_mut(&slot).filter(|lease| lease.attempts == attempts) {
            lease.released = true;
        }
    }

    /// The receiver asks for another lease of `lease_ms`. To be called before the request is sent.
    pub fn extending(&mut self, slot: u64, attempts: u32, lease_ms: u64, now_ms: u64) {
        if let Some(lease) = self.leases.get_mut(&slot).filter(|lease| lease.attempts == attempts) {
            // As long as there is no answer it may be either.
            lease.surely_ms = lease.surely_ms.min(now_ms + lease_ms);
            lease.perhaps_ms = u64::MAX;
        }
    }

    /// The broker was killed and started again: it does not know any more when it handed a delivery off, so that its lease
    /// may run longer, by the most that a hand-off takes.
    pub fn restarted(&mut self) {
        for lease in self.leases.values_mut() {
            lease.perhaps_ms = lease.perhaps_ms.saturating_add(HAND_OFF_MS);
        }
    }

    /// Whether the lease of a delivery was surely running at a time; none if it is not known here.
    pub(super) fn lease_of(&self, slot: u64, attempts: u32) -> Option<Lease> {
        self.leases.get(&slot).copied().filter(|lease| lease.attempts == attempts)
    }
}
