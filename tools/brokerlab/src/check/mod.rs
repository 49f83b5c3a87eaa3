//! The checker: keeps what was confirmed and what was seen, and says where the broker broke a promise.
//!
//! It is told in the order in which its clients learn things, with times of one clock in milliseconds, and takes nothing
//! for a breach that an honest broker could have shown to clients that are slow. What it keeps is 16 bytes a message, taken
//! at the start; one bit for each number given out; and an entry for each lease that a client holds.

mod ids;
mod lease;
mod publish;
mod settle;
#[cfg(test)]
mod tests;

pub use settle::{Told, Verb};

use ids::Ids;
use lease::Lease;
use std::collections::HashMap;
use std::fmt;

/// So many breaches are told in words; the rest are counted.
const TOLD: usize = 20;
/// How much later than it ends a lease may be taken for running: the broker looks at its clock when it answers.
const GRACE_MS: u64 = 250;

/// A promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Breach {
    /// Q1: confirmed and never delivered, or never to be acknowledged.
    Lost,
    /// Acknowledged, and delivered after it.
    Risen,
    /// Q2: refused, and there all the same.
    RefusedAppears,
    /// Never published, or with other bytes, or in another queue.
    Invented,
    /// Stored twice, or two messages with one number.
    Twice,
    /// An idempotency key answered wrongly.
    Key,
    /// Q5: attempts did not rise.
    Attempts,
    /// Q5: delivered while leased.
    Lease,
    /// Q6: a receipt answered wrongly.
    Settle,
    /// Not in the order of publishing.
    Order,
}

/// What is known of one message.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Its number; 0 as long as it is not known (numbers are kept one higher).
    id: u64,
    /// When the latest delivery was got, or its acknowledgement was answered.
    seen_ms: u32,
    /// The most attempts seen.
    attempts: u16,
    queue: u8,
    flags: u8,
}

const SENT: u8 = 1;
const CONFIRMED: u8 = 2;
const REFUSED: u8 = 4;
/// It may have been stored: a publish of it had no definite answer.
const UNKNOWN: u8 = 8;
const DELIVERED: u8 = 16;
/// Finished by an answer.
const FINISHED: u8 = 32;
/// Perhaps finished: an acknowledgement had no answer, and its repetition came too late to tell.
const PERHAPS: u8 = 64;

impl Known {
    fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn id(&self) -> Option<u64> {
        self.id.checked_sub(1)
    }
}

#[derive(Debug, Default)]
struct Queue {
    ids: Ids,
    /// The highest number whose first delivery was got; kept one higher.
    first: u64,
    /// Of each publisher, the highest number that it was told; kept one higher.
    told: HashMap<u32, u64>,
}

/// What was known when messages were asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    queue: u8,
    ms: u64,
    first: u64,
}

/// A delivery, as its receiver got it.
#[derive(Clone, Copy, Debug)]
pub struct Got {
    /// Which message it says it is; none if its bytes are nobody's.
    pub slot: Option<u64>,
    /// Its number.
    pub id: u64,
    /// How often it was delivered.
    pub attempts: u32,
    /// How long it is leased.
    pub lease_ms: u64,
    /// When it came.
    pub at_ms: u64,
}

/// Counts of what was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Publishes confirmed, without those told again.
    pub confirmed: u64,
    /// Publishes refused.
    pub refused: u64,
    /// Publishes without a definite answer.
    pub unknown: u64,
    /// Of those, the ones that were stored.
    pub unknown_stored: u64,
    /// Publishes answered as duplicates.
    pub duplicates: u64,
    /// Deliveries.
    pub delivered: u64,
    /// Of those, the ones after the first.
    pub again: u64,
    /// Answers to receipts: done, already, late, gone.
    pub answers: [u64; 4],
    /// Deliveries read by a slow client after a later one of the same message.
    pub read_late: u64,
    /// The longest time from the end of a lease to the next delivery.
    pub lease_overrun_ms: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Checker {
    known: Vec<Known>,
    per_publisher: u64,
    queues: Vec<Queue>,
    leases: HashMap<u64, Lease>,
    /// Messages that are stored for certain and not finished.
    open: u64,
    /// Of those, the ones that are perhaps finished.
    perhaps: u64,
    seen: Seen,
    breaches: HashMap<Breach, u64>,
    told: Vec<String>,
}

impl Checker {
    /// For so many publishers with so many messages each, and so many queues (at most 256).
    #[must_use]
    pub fn new(publishers: u64, per_publisher: u64, queues: u8) -> Self {
        let messages = usize::try_from(publishers * per_publisher).unwrap_or(usize::MAX);
        Self {
            known: vec![Known::default(); messages],
            per_publisher,
            queues: (0..queues).map(|_| Queue::default()).collect(),
            leases: HashMap::new(),
            open: 0,
            perhaps: 0,
            seen: Seen::default(),
            breaches: HashMap::new(),
            told: Vec::new(),
        }
    }

    fn breach(&mut self, breach: Breach, what: impl fmt::Display) {
        *self.breaches.entry(breach).or_default() += 1;
        if self.told.len() < TOLD {
            self.told.push(format!("{breach:?}: {what}"));
        }
    }

    /// A breach that was found outside.
    pub fn found(&mut self, breach: Breach, what: impl fmt::Display) {
        self.breach(breach, what);
    }

    fn known(&mut self, slot: u64) -> &mut Known {
        let place = usize::try_from(slot).unwrap_or(usize::MAX);
        debug_assert!(place < self.known.len(), "the lab's own slots are within its count");
        &mut self.known[place]
    }

    /// Counts a message that has become certain, or finished.
    fn recount(&mut self, before: Known, after: Known) {
        let open = |known: Known| known.is(CONFIRMED | DELIVERED) && !known.is(FINISHED);
        let perhaps = |known: Known| open(known) && known.is(PERHAPS);
        self.open = self.open + u64::from(open(after)) - u64::from(open(before));
        self.perhaps = self.perhaps + u64::from(perhaps(after)) - u64::from(perhaps(before));
    }

    fn set(&mut self, slot: u64, add: u8, take: u8) {
        let known = self.known(slot);
        let before = *known;
        known.flags = (known.flags | add) & !take;
        let after = *known;
        self.recount(before, after);
    }

    /// Learns the number of a message: one message, one number, and one number, one message.
    fn learn(&mut self, slot: u64, id: u64, how: &str) {
        let known = *self.known(slot);
        match known.id() {
            Some(before) if before != id => {
                self.breach(
                    Breach::Twice,
                    format!("message {slot} has the numbers {before} and {id} ({how})"),
                );
            }
            Some(_) => {}
            None => {
                self.known(slot).id = id + 1;
                if !self.queues[usize::from(known.queue)].ids.take(id) {
                    self.breach(
                        Breach::Twice,
                        format!("number {id} is that of two messages, one of them {slot} ({how})"),
                    );
                }
            }
        }
    }

    /// Messages are asked for. To be called before the request is sent.
    #[must_use]
    pub fn asking(&self, queue: u8, now_ms: u64) -> Asked {
        Asked { queue, ms: now_ms, first: self.queues[usize::from(queue)].first }
    }

    /// A message has come. Those of one answer in its order, with the same `asked`.
    pub fn delivered(&mut self, asked: &mut Asked, got: Got) {
        self.seen.delivered += 1;
        let Got { slot, id, attempts, .. } = got;
        let slot = slot.filter(|slot| *slot < self.known.len() as u64);
        let Some(slot) = slot else {
            return self.breach(Breach::Invented, format!("number {id} is no message of this run"));
        };
        let known = *self.known(slot);
        if !known.is(SENT) || known.queue != asked.queue {
            return self.breach(
                Breach::Invented,
                format!("message {slot} comes from queue {}", asked.queue),
            );
        }
        if known.is(REFUSED) {
            self.breach(
                Breach::RefusedAppears,
                format!("message {slot} was refused, and is delivered"),
            );
        }
        self.learn(slot, id, "at a delivery");
        self.check_attempts(asked, slot, got);
        self.check_order(asked, slot, got);
        self.check_lease(asked, slot, got);
        if !known.is(DELIVERED) && known.is(UNKNOWN) && !known.is(CONFIRMED) {
            self.seen.unknown_stored += 1;
        }
        self.seen.again += u64::from(attempts > 1);
        // Whatever was perhaps acknowledged was not.
        self.set(slot, DELIVERED, PERHAPS);
    }

    fn check_attempts(&mut self, asked: &Asked, slot: u64, got: Got) {
        let attempts = u16::try_from(got.attempts).unwrap_or(u16::MAX);
        let known = *self.known(slot);
        let (before, seen) = (known.attempts, u64::from(known.seen_ms));
        if known.is(FINISHED) {
            // A client that reads slowly may show a delivery from before; not one that it asked for later.
            if attempts > before || asked.ms > seen {
                self.breach(Breach::Risen, format!("message {slot} (number {}) is finished, and delivered (attempt {attempts})", got.id));
            } else {
                self.seen.read_late += 1;
            }
            return;
        }
        if attempts == 0 || attempts == before || (attempts < before && asked.ms > seen) {
            self.breach(
                Breach::Attempts,
                format!(
                    "message {slot} (number {}) comes with attempts {attempts} after {before}",
                    got.id
                ),
            );
        } else if attempts < before {
            self.seen.read_late += 1;
        }
        if attempts > before {
            let known = self.known(slot);
            known.attempts = attempts;
            known.seen_ms = u32::try_from(got.at_ms).unwrap_or(u32::MAX);
        }
    }

    /// A first delivery comes after all those that had come when it was asked for.
    fn check_order(&mut self, asked: &mut Asked, slot: u64, got: Got) {
        if got.attempts != 1 {
            return;
        }
        let id = got.id + 1;
        if id <= asked.first {
            self.breach(
                Breach::Order,
                format!(
                    "message {slot} (number {}) comes for the first time after number {}",
                    got.id,
                    asked.first - 1
                ),
            );
        }
        asked.first = asked.first.max(id);
        let first = &mut self.queues[usize::from(asked.queue)].first;
        *first = (*first).max(id);
    }

    /// Messages that are stored for certain, and not finished for certain.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open
    }

    /// Of those, the ones that are perhaps finished: an acknowledgement of them had no answer.
    #[must_use]
    pub fn perhaps(&self) -> u64 {
        self.perhaps
    }

    /// Counts.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// Bytes that it takes, but for the leases.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let known = self.known.len() * size_of::<Known>();
        let ids: usize = self.queues.iter().map(|queue| queue.ids.memory()).sum();
        (known + ids) as u64
    }

    /// The queues were found empty: what is stored for certain must be finished now. To be called once, at the end.
    pub fn finish(&mut self) {
        for slot in 0..self.known.len() as u64 {
            let known = *self.known(slot);
            if known.is(CONFIRMED | DELIVERED) && !known.is(FINISHED | PERHAPS) {
                let said = if known.is(CONFIRMED) { "confirmed" } else { "delivered" };
                let id = known.id().unwrap_or(0);
                self.breach(Breach::Lost, format!("message {slot} (number {id}) was {said}, and is not to be had (attempts {})", known.attempts));
            }
        }
    }

    /// How many breaches there were.
    #[must_use]
    pub fn breaches(&self) -> u64 {
        self.breaches.values().sum()
    }

    /// How many of one kind.
    #[must_use]
    pub fn count(&self, breach: Breach) -> u64 {
        self.breaches.get(&breach).copied().unwrap_or(0)
    }

    /// Puts figures and breaches into a report.
    pub fn tell(&self, report: &mut crate::report::Report) {
        let seen = self.seen;
        let [done, already, late, gone] = seen.answers;
        report.line(
            "published",
            format!(
                "{} confirmed, {} refused, {} not known ({} of them stored), {} duplicates",
                seen.confirmed, seen.refused, seen.unknown, seen.unknown_stored, seen.duplicates
            ),
        );
        report.line(
            "delivered",
            format!(
                "{}, {} of them again, {} read late",
                seen.delivered, seen.again, seen.read_late
            ),
        );
        report
            .line("receipts", format!("{done} done, {already} already, {late} late, {gone} gone"));
        report.line("longest wait after a lease", format!("{} ms", seen.lease_overrun_ms));
        report.line("perhaps acknowledged", self.perhaps);
        report.line("the checker's memory", crate::stats::Mib(self.memory()));
        for told in &self.told {
            report.broken(told);
        }
        for _ in self.told.len() as u64..self.breaches() {
            report.broken("more of the checker's");
        }
    }
}
