//! What is delivered next.

use super::live::{Live, State};
use super::queue::{BandState, Queue, places};
use crate::api::{Band, QueueId};
use crate::event::{DeliveryId, End, Event, Place};
use plimsoll::Offset;

/// A message that is ready again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its next delivery.
    pub id: DeliveryId,
    /// Its size.
    pub bytes: u32,
    /// When it was first delivered, Unix milliseconds; `None` if that delivery reached nobody.
    pub first_delivered_ms: Option<u64>,
}

/// What is delivered next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A message once more.
    Again(Ready),
    /// What is in a band's log from one offset to before another, never delivered.
    Fresh {
        /// The band.
        band: Band,
        /// The first.
        from: Offset,
        /// The end.
        to: Offset,
    },
}

/// The most deliveries of one event that a purge writes.
const PURGE_ITEMS: usize = 1_000;

impl Queue {
    /// What is delivered next, whether or not it is paused.
    #[must_use]
    pub fn next(&self) -> Option<Next> {
        self.plan(1).pop()
    }

    /// At most `max` messages in the order of delivery: high bands first, and of a band what was delivered before what was
    /// not. A range of fresh ones is no longer than what is left of `max`. Nothing changes; applying a delivery of a part of
    /// it makes room for the next plan.
    #[must_use]
    pub fn plan(&self, max: usize) -> Vec<Next> {
        let mut left = max;
        let mut plan = Vec::new();
        for (band, state) in self.bands() {
            let again = self.index.again.range(places(band)).filter_map(|place| self.ready(*place));
            for ready in again.take(left) {
                plan.push(Next::Again(ready));
                left -= 1;
            }
            let count = state.fresh().min(left as u64);
            if count > 0 {
                let from = state.cursor;
                plan.push(Next::Fresh { band, from, to: from.plus(count) });
                left -= usize::try_from(count).unwrap_or(left);
            }
            if left == 0 {
                break;
            }
        }
        plan
    }

    fn ready(&self, place: Place) -> Option<Ready> {
        let live = self.live.get(&place)?;
        let attempt = live.attempts.saturating_add(1);
        let id = DeliveryId { seq: live.seq, place, attempt };
        Some(Ready { id, bytes: live.bytes, first_delivered_ms: Live::first(live) })
    }

    /// The events of a purge, in order, none of them long: to be staged together, with nothing between. A lease that has
    /// ended is known to memory only, and after a restart runs again: so what is ready for that is given back first, or it
    /// would outlive the purge.
    #[must_use]
    pub fn plan_purge(&self, queue: QueueId, dead: bool) -> Vec<Event> {
        let late = self.index.again.iter();
        let late =
            late.filter(|place| self.live.get(place).is_some_and(|live| live.state == State::Late));
        let late: Vec<_> = late.filter_map(|place| self.last_delivery(*place)).collect();
        let given_back = late.chunks(PURGE_ITEMS);
        let mut events: Vec<_> = given_back
            .map(|items| Event::Ended { queue, end: End::Nacked, items: items.to_vec() })
            .collect();
        let end = |(band, state): (Band, &BandState)| {
            // A cursor beyond the known end, while a load goes on, must not be taken back.
            (band, state.end.max(state.cursor), state.total.max(state.consumed))
        };
        let ends = self.bands().map(end).collect();
        events.push(Event::Purged { queue, ends, next_seq: self.next_seq(), dead });
        events
    }
}
