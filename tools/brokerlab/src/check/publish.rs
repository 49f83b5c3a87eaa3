//! What publishers are told.

use super::{Breach, CONFIRMED, Checker, DELIVERED, FINISHED, REFUSED, SENT, UNKNOWN};
use crate::client::Stored;

impl Checker {
    /// The message `number` of `publisher`, as all other calls name it.
    #[must_use]
    pub fn slot(&self, publisher: u64, number: u64) -> u64 {
        publisher * self.per_publisher + number
    }

    /// A publish is about to be sent, for the first time or again.
    pub fn sending(&mut self, slot: u64, queue: u8) {
        let known = self.known(slot);
        known.queue = queue;
        // A retry of what was refused may be stored.
        self.set(slot, SENT, REFUSED);
    }

    /// It was confirmed.
    pub fn confirmed(&mut self, slot: u64, stored: Stored) {
        let Stored { id, duplicate } = stored;
        let known = *self.known(slot);
        let maybe = known.is(UNKNOWN | CONFIRMED | DELIVERED | FINISHED);
        if duplicate {
            self.seen.duplicates += 1;
            if !maybe {
                self.breach(
                    Breach::Key,
                    format!(
                        "message {slot} (number {id}) is called a duplicate and was never stored"
                    ),
                );
            }
        } else if known.is(CONFIRMED) {
            self.breach(
                Breach::Key,
                format!("message {slot} was confirmed, and is stored again as number {id}"),
            );
        }
        self.learn(slot, id, "at its confirmation");
        let publisher = u32::try_from(slot / self.per_publisher.max(1)).unwrap_or(u32::MAX);
        if !known.is(CONFIRMED) {
            self.seen.confirmed += 1;
            // A publisher sends one after the other, so that its numbers rise; what it sends again was stored before.
            let told = self.queues[usize::from(known.queue)].told.entry(publisher).or_default();
            let before = std::mem::replace(told, (*told).max(id + 1));
            if id < before {
                self.breach(
                    Breach::Order,
                    format!("publisher {publisher} is told number {id} after {}", before - 1),
                );
            }
        }
        self.set(slot, CONFIRMED, REFUSED);
    }

    /// It was refused, or never sent: it must not be there.
    pub fn refused(&mut self, slot: u64) {
        let known = *self.known(slot);
        self.seen.refused += 1;
        if known.is(CONFIRMED) {
            self.breach(
                Breach::Key,
                format!("message {slot} was confirmed, and its repetition is refused"),
            );
        } else if known.is(UNKNOWN) {
            // An earlier try may have stored it.
        } else {
            if known.is(DELIVERED) {
                self.breach(
                    Breach::RefusedAppears,
                    format!("message {slot} is refused, and was delivered"),
                );
            }
            self.set(slot, REFUSED, 0);
        }
    }

    /// It was not sent again, though it might have been: an earlier answer holds. As [`Checker::refused`], but a finished
    /// message's repetition may well find no broker.
    pub fn not_sent(&mut self, slot: u64) {
        if !self.known(slot).is(CONFIRMED) {
            self.refused(slot);
        }
    }

    /// It had no definite answer: it may be there, or not.
    pub fn unknown(&mut self, slot: u64) {
        self.seen.unknown += u64::from(!self.known(slot).is(UNKNOWN));
        self.set(slot, UNKNOWN, 0);
    }

    /// Whether an answer without loss allows to give it up: it was refused, each time.
    #[must_use]
    pub fn may_leave(&mut self, slot: u64) -> bool {
        self.known(slot).is(REFUSED)
    }

    pub(super) fn finished(&mut self, slot: u64) -> bool {
        self.known(slot).is(FINISHED)
    }
}
