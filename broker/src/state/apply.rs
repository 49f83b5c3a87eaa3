//! How events change a queue. Total: an event that fits nothing changes nothing, since it may come from a disk.

use super::Frame;
use super::live::{Live, State};
use super::queue::{Finished, How, Queue, places};
use crate::api::{Band, Seq};
use crate::event::{DeadReason, DeliveredItem, DeliveryId, End, Event, Place, Stamp};
use crate::name::ConsumerName;
use plimsoll::Offset;

impl Queue {
    /// Applies an event that is about this queue. Messages that it finishes go to `finished`.
    pub(super) fn apply(&mut self, event: &Event, frame: &Frame, finished: &mut Vec<Seq>) {
        match event {
            Event::Delivered { at, lease_ms, consumer, next_seq, items, .. } => {
                self.next_seq = self.next_seq.max(next_seq.0);
                let consumer = consumer.as_ref().map(|name| self.index.share(name));
                for item in items {
                    self.deliver(item, at, *lease_ms, consumer.as_ref(), frame);
                }
            }
            Event::Ended { end, items, .. } => {
                for id in items {
                    self.ended(id, *end, finished);
                }
            }
            Event::Extended { at, lease_ms, items, .. } => {
                for id in items {
                    if self.entry(id).is_some_and(|live| live.state == State::Leased) {
                        self.update(id.place, |live| live.lease(at, *lease_ms, frame));
                    }
                }
            }
            Event::Purged { ends, next_seq, dead, .. } => {
                self.next_seq = self.next_seq.max(next_seq.0);
                for (band, end, total) in ends {
                    self.purge(*band, *end, *total, *dead, finished);
                }
            }
            Event::Paused { paused, .. } => self.paused = *paused,
        }
    }

    /// The entry whose last delivery this is.
    pub(super) fn entry(&self, id: &DeliveryId) -> Option<&Live> {
        let live = self.live.get(&id.place)?;
        (live.seq == id.seq && live.attempts == id.attempt).then_some(live)
    }

    fn deliver(
        &mut self,
        item: &DeliveredItem,
        at: &Stamp,
        lease_ms: u64,
        consumer: Option<&ConsumerName>,
        frame: &Frame,
    ) {
        let DeliveredItem { id, bytes } = *item;
        if let Some(live) = self.live.get(&id.place) {
            let next = live.seq == id.seq && live.attempts.checked_add(1) == Some(id.attempt);
            if next && !matches!(live.state, State::Dead(_)) {
                self.update(id.place, |live| {
                    live.returned_before = live.state == State::Returned;
                    live.attempts = id.attempt;
                    live.consumer = consumer.cloned();
                    if id.attempt == 1 {
                        live.first_ms = at.wall_ms;
                    }
                    live.lease(at, lease_ms, frame);
                });
            }
            return;
        }
        let band = self.band_mut(id.place.band);
        // The last offset of all has none behind it where the cursor could stand.
        if id.place.offset < band.cursor || id.place.offset.0 == u64::MAX || id.attempt == 0 {
            return;
        }
        band.cursor = id.place.offset.plus(1);
        band.consumed = band.consumed.saturating_add(u64::from(bytes));
        let mut live = Live {
            seq: id.seq,
            first_ms: at.wall_ms,
            at_ms: 0,
            until_ms: 0,
            consumer: consumer.cloned(),
            bytes,
            attempts: id.attempt,
            lease_ms: 0,
            state: State::Leased,
            returned_before: false,
        };
        live.lease(at, lease_ms, frame);
        self.insert(id.place, live);
    }

    fn ended(&mut self, id: &DeliveryId, end: End, finished: &mut Vec<Seq>) {
        let Some(live) = self.live.get(&id.place).filter(|live| live.seq == id.seq) else {
            return;
        };
        // What cannot be read dies when it was to be delivered once more; its event may name that delivery or the last.
        let unreadable =
            end == End::Dead(DeadReason::Unreadable) && !matches!(live.state, State::Dead(_));
        let attempt = live.attempts == id.attempt
            || (unreadable && live.attempts.checked_add(1) == Some(id.attempt));
        if !attempt || !(live.state.held() || unreadable) {
            return;
        }
        match end {
            End::Acked => self.finish(id.place, How::Acked, finished),
            End::Nacked => self.leave(id.place, |live| live.state = State::Returned),
            End::Dead(reason) => self.leave(id.place, |live| live.state = State::Dead(reason)),
            End::Undone => self.leave(id.place, Live::undo),
        }
    }

    /// A delivery ends, and its message stays.
    pub(super) fn leave(&mut self, place: Place, change: impl FnOnce(&mut Live)) {
        self.update(place, |live| {
            live.consumer = None;
            change(live);
        });
    }

    fn finish(&mut self, place: Place, how: How, finished: &mut Vec<Seq>) {
        let Some(live) = self.drop_entry(place) else { return };
        let done = Finished { attempt: live.attempts, how };
        // A number finishes once; twice in the order of leaving, it would leave too early.
        if live.attempts > 0 && self.finished.insert(live.seq, done).is_none() {
            finished.push(live.seq);
        }
    }

    fn purge(&mut self, band: Band, end: Offset, total: u64, dead: bool, finished: &mut Vec<Seq>) {
        let state = self.band_mut(band);
        if end >= state.cursor {
            (state.cursor, state.consumed) = (end, total);
        }
        let before = |places: &std::collections::BTreeSet<Place>| -> Vec<Place> {
            let all = self::places(band);
            places.range(*all.start()..Place { band, offset: end }).copied().collect()
        };
        for place in before(&self.index.again) {
            self.finish(place, How::Purged, finished);
        }
        if !dead {
            return;
        }
        for place in before(&self.index.dead) {
            if let Some(State::Dead(reason)) = self.live.get(&place).map(|live| live.state) {
                self.finish(place, How::Dead(reason), finished);
            }
        }
    }
}
