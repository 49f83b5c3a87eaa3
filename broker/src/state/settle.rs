//! What a receipt still means (Q6): a pure table from a delivery's standing and a verb to an answer.

use super::live::State;
use super::queue::{How, Queue};
use crate::api::{Settled, Verb};
use crate::event::{DeadReason, DeliveryId, End};
use std::collections::BTreeSet;

/// Where a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Leased.
    InFlight,
    /// Its lease has ended; its message was not delivered again.
    Late,
    /// Its consumer gave the message back; it was not delivered again.
    Returned,
    /// Its message is dead, or was before a purge, and was not delivered again.
    Dead(DeadReason),
    /// It is done.
    Acked,
    /// Its message was delivered again, or is gone without it.
    Gone,
    /// It was taken back, since it did not reach its receiver as far as anyone knows.
    Undone,
    /// Its message is finished, so long ago that it is not known how.
    Forgotten,
    /// There was no such delivery.
    NeverDelivered,
}

/// The answer to a verb. [`Settled::Done`] and [`Settled::Late`] are to be written and applied; the others change nothing.
#[must_use]
pub const fn settled(verb: Verb, standing: Standing) -> Settled {
    match (standing, verb) {
        (Standing::NeverDelivered, _) => Settled::Foreign,
        (Standing::InFlight, _) => Settled::Done,
        (Standing::Late, Verb::Ack | Verb::Nack | Verb::Reject) => Settled::Late,
        (Standing::Acked, Verb::Ack)
        | (Standing::Returned, Verb::Nack)
        // Given back after its last attempt, or left to end by itself: for its message that is the same.
        | (Standing::Dead(DeadReason::Attempts), Verb::Nack)
        | (Standing::Dead(DeadReason::Rejected), Verb::Reject)
        | (Standing::Forgotten, Verb::Ack | Verb::Nack | Verb::Reject) => Settled::Already,
        (
            Standing::Late
            | Standing::Returned
            | Standing::Dead(_)
            | Standing::Acked
            | Standing::Gone
            | Standing::Undone
            | Standing::Forgotten,
            _,
        ) => Settled::Gone,
    }
}

/// What a request to settle comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// An answer for each, in order.
    pub answers: Vec<Settled>,
    /// What ends, and how: at most one list of each end.
    pub ends: Vec<(End, Vec<DeliveryId>)>,
    /// Whose lease is extended.
    pub extended: Vec<DeliveryId>,
}

impl Queue {
    /// Where a delivery stands.
    #[must_use]
    pub fn check(&self, id: &DeliveryId) -> Standing {
        if id.attempt == 0 || id.place.offset >= self.cursor(id.place.band) {
            return Standing::NeverDelivered;
        }
        if let Some(live) = self.live.get(&id.place).filter(|live| live.seq == id.seq) {
            if id.attempt > live.attempts {
                return Standing::Undone;
            }
            if id.attempt < live.attempts {
                return Standing::Gone;
            }
            return match live.state {
                State::Leased => Standing::InFlight,
                // Its death is not written yet.
                State::Exhausted | State::Late => Standing::Late,
                State::Returned => Standing::Returned,
                State::Untouched => Standing::Undone,
                State::Dead(reason) => Standing::Dead(reason),
            };
        }
        match self.finished.get(&id.seq) {
            None => Standing::Forgotten,
            Some(finished) if finished.attempt != id.attempt => Standing::Gone,
            Some(finished) => match finished.how {
                How::Acked => Standing::Acked,
                How::Purged => Standing::Gone,
                How::Dead(reason) => Standing::Dead(reason),
            },
        }
    }

    /// The answer to a verb.
    #[must_use]
    pub fn settle(&self, verb: Verb, id: &DeliveryId) -> Settled {
        settled(verb, self.check(id))
    }

    /// How a verb ends a delivery that it may end: given back after the last attempt, a message is dead. `None` if it ends
    /// nothing.
    #[must_use]
    pub const fn end_of(&self, id: &DeliveryId, verb: Verb) -> Option<End> {
        match verb {
            Verb::Ack => Some(End::Acked),
            Verb::Nack if id.attempt >= self.settings.max_attempts => {
                Some(End::Dead(DeadReason::Attempts))
            }
            Verb::Nack => Some(End::Nacked),
            Verb::Reject => Some(End::Dead(DeadReason::Rejected)),
            Verb::Extend(_) => None,
        }
    }

    /// Answers all of a request as if one after the other: a delivery that is named twice is settled once. Nothing changes.
    #[must_use]
    pub fn settle_all(&self, verb: Verb, ids: &[DeliveryId]) -> Batch {
        let mut batch = Batch::default();
        let mut seen = BTreeSet::new();
        for id in ids {
            let answer = self.settle(verb, id);
            let acts = matches!(answer, Settled::Done | Settled::Late);
            let end = self.end_of(id, verb);
            let repeated = acts && !seen.insert(*id);
            batch.answers.push(if repeated && end.is_some() { Settled::Already } else { answer });
            if !acts || repeated {
                continue;
            }
            match end {
                None => batch.extended.push(*id),
                Some(end) => match batch.ends.iter_mut().find(|(other, _)| *other == end) {
                    Some((_, ids)) => ids.push(*id),
                    None => batch.ends.push((end, vec![*id])),
                },
            }
        }
        batch
    }
}
