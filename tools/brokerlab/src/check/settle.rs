//! What consumers are told of their receipts.

use super::{Breach, Checker, FINISHED, GRACE_MS, PERHAPS};
use crate::client::Settled;

/// What was asked to become of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Done.
    Ack,
    /// Again.
    Nack,
    /// Never.
    Reject,
    /// Longer, by so many milliseconds.
    Extend(u64),
}

/// A definite answer for one receipt.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// The message.
    pub slot: u64,
    /// Its attempts in the delivery that the receipt names.
    pub attempts: u32,
    /// What was asked.
    pub verb: Verb,
    /// The answer.
    pub answer: Settled,
    /// The definite answer that the same question had before.
    pub before: Option<Settled>,
    /// The same question was sent before and had no answer.
    pub cut: bool,
    /// When it was sent.
    pub sent_ms: u64,
    /// When the answer came.
    pub at_ms: u64,
}

impl Checker {
    /// Whether a message is finished, and this was its last delivery: then that delivery's receipt finished it.
    #[must_use]
    pub fn finished_by(&mut self, slot: u64, attempts: u32) -> bool {
        let known = *self.known(slot);
        known.is(FINISHED) && u32::from(known.attempts) == attempts
    }

    /// A receipt of this queue has its answer.
    pub fn settled(&mut self, told: Told) {
        let place = match told.answer {
            Settled::Done => 0,
            Settled::Already => 1,
            Settled::Late => 2,
            Settled::Gone => 3,
            Settled::Foreign => {
                return self.wrong(told, "is a receipt of this queue");
            }
        };
        self.seen.answers[place] += 1;
        match told.verb {
            Verb::Ack | Verb::Reject => self.finishing(told),
            Verb::Nack => self.nacked(told),
            Verb::Extend(lease_ms) => self.extended(told, lease_ms),
        }
    }

    fn wrong(&mut self, told: Told, why: &str) {
        let Told { slot, attempts, verb, answer, before, cut, .. } = told;
        self.breach(
            Breach::Settle,
            format!("message {slot}, attempt {attempts}: {verb:?} is answered {answer:?} (before {before:?}, cut {cut}), and {why}"),
        );
    }

    fn finishing(&mut self, told: Told) {
        let Told { slot, attempts, .. } = told;
        let success = matches!(told.before, Some(Settled::Done | Settled::Late | Settled::Already));
        let known = *self.known(slot);
        match told.answer {
            Settled::Done | Settled::Late => {
                if success {
                    self.wrong(told, "it was done before: repeats change nothing");
                } else if known.is(FINISHED) {
                    self.wrong(told, "the message was finished before");
                } else if u32::from(known.attempts) > attempts {
                    self.wrong(told, "the message was delivered again since");
                }
                self.check_lateness(told);
                self.finished_now(told);
            }
            Settled::Already => {
                if !success && !told.cut {
                    self.wrong(told, "nobody asked before");
                }
                if !known.is(FINISHED) {
                    self.finished_now(told);
                }
            }
            Settled::Gone => {
                if success {
                    self.wrong(told, "it was done before");
                } else {
                    self.check_gone(told);
                }
                if told.cut && !known.is(FINISHED) && u32::from(known.attempts) == attempts {
                    self.set(slot, PERHAPS, 0);
                }
            }
            Settled::Foreign => {}
        }
    }

    fn finished_now(&mut self, told: Told) {
        self.leases.remove(&told.slot);
        self.set(told.slot, FINISHED, PERHAPS);
        self.known(told.slot).seen_ms = u32::try_from(told.at_ms).unwrap_or(u32::MAX);
    }

    /// `late` and `done` are told apart by the lease.
    fn check_lateness(&mut self, told: Told) {
        let Some(lease) = self.lease_of(told.slot, told.attempts) else { return };
        if lease.released {
            return;
        }
        if told.answer == Settled::Late && told.at_ms < lease.surely_ms {
            self.wrong(told, "its lease runs");
        }
        if told.answer == Settled::Done && told.sent_ms > lease.perhaps_ms + GRACE_MS {
            self.wrong(told, "its lease was over");
        }
    }

    /// `gone` needs a lease that may be over, or a delivery that came after.
    fn check_gone(&mut self, told: Told) {
        let Some(lease) = self.lease_of(told.slot, told.attempts) else { return };
        if !lease.released && !told.cut && told.before.is_none() && told.at_ms < lease.surely_ms {
            self.wrong(told, "its lease runs");
        }
    }

    fn nacked(&mut self, told: Told) {
        let success = matches!(told.before, Some(Settled::Done | Settled::Late | Settled::Already));
        match told.answer {
            Settled::Done | Settled::Late if success => {
                self.wrong(told, "it was done before: repeats change nothing");
            }
            Settled::Done | Settled::Late
                if u32::from(self.known(told.slot).attempts) > told.attempts =>
            {
                // The next delivery may have come before this answer did: it follows from it.
            }
            Settled::Already if !success && !told.cut => self.wrong(told, "nobody asked before"),
            _ => {}
        }
    }

    fn extended(&mut self, told: Told, lease_ms: u64) {
        match told.answer {
            Settled::Done => {
                let finished = self.finished(told.slot);
                if finished {
                    self.wrong(told, "the message was finished before");
                }
                if u32::from(self.known(told.slot).attempts) > told.attempts {
                    self.wrong(told, "the message was delivered again since");
                }
                let lease = self.leases.get_mut(&told.slot);
                if let Some(lease) = lease.filter(|lease| lease.attempts == told.attempts) {
                    lease.surely_ms = told.sent_ms + lease_ms;
                    lease.perhaps_ms = told.at_ms + lease_ms;
                }
            }
            Settled::Gone => self.check_gone(told),
            _ => self.wrong(told, "that is no answer to it"),
        }
    }
}
