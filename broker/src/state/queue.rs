//! One queue: what it holds, and what can be asked of it.

use super::index::Index;
use super::live::{Live, State};
use crate::api::{Band, Counts, QueueSettings, Seq};
use crate::event::{DeadReason, DeliveryId, Place};
use crate::name::ConsumerName;
use plimsoll::Offset;
use std::collections::BTreeMap;

/// The range of one band's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandState {
    pub(super) cursor: Offset,
    pub(super) end: Offset,
    pub(super) total: u64,
    pub(super) consumed: u64,
    /// The end is known: the log said so.
    pub(super) known: bool,
}

impl BandState {
    /// The first message that was never delivered, or the end.
    #[must_use]
    pub const fn cursor(&self) -> Offset {
        self.cursor
    }

    /// The end of what is durably published; 0 until the log says it.
    #[must_use]
    pub const fn end(&self) -> Offset {
        self.end
    }

    /// Bytes of all messages that were ever published to it, up to the end.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Bytes of all messages before the cursor, without those that were skipped as unreadable.
    #[must_use]
    pub const fn consumed(&self) -> u64 {
        self.consumed
    }

    /// How many were never delivered; a record that cannot be read counts until it is passed.
    #[must_use]
    pub const fn fresh(&self) -> u64 {
        self.end.0.saturating_sub(self.cursor.0)
    }

    /// Their bytes.
    #[must_use]
    pub const fn fresh_bytes(&self) -> u64 {
        // Where nothing is left, nothing is: what was skipped does not stay behind.
        if self.fresh() == 0 { 0 } else { self.total.saturating_sub(self.consumed) }
    }
}

/// How a message was finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Acked,
    /// While it was ready again.
    Purged,
    /// It was dead, and then purged.
    Dead(DeadReason),
}

/// A finished message that is still remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Finished {
    /// Its last delivery.
    pub(super) attempt: u32,
    pub(super) how: How,
}

/// A dead message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dead {
    /// The message.
    pub seq: Seq,
    /// Where it is.
    pub place: Place,
    /// Why it is dead.
    pub reason: DeadReason,
    /// How often it was delivered.
    pub attempts: u32,
    /// Its size.
    pub bytes: u32,
}

/// A queue's state.
#[derive(Debug, Default)]
pub struct Queue {
    pub(super) settings: QueueSettings,
    pub(super) paused: bool,
    pub(super) next_seq: u64,
    pub(super) bands: [Option<BandState>; Band::COUNT],
    pub(super) live: BTreeMap<Place, Live>,
    pub(super) index: Index,
    pub(super) finished: BTreeMap<Seq, Finished>,
}

/// All places of a band.
pub(super) const fn places(band: Band) -> std::ops::RangeInclusive<Place> {
    Place { band, offset: Offset::ZERO }..=Place { band, offset: Offset(u64::MAX) }
}

impl Queue {
    pub(super) fn new(settings: &QueueSettings) -> Self {
        Self { settings: settings.clone(), ..Self::default() }
    }

    /// Its settings.
    #[must_use]
    pub const fn settings(&self) -> &QueueSettings {
        &self.settings
    }

    /// Delivery is stopped.
    #[must_use]
    pub const fn paused(&self) -> bool {
        self.paused
    }

    /// The number that its next message has at least.
    #[must_use]
    pub const fn next_seq(&self) -> Seq {
        Seq(self.next_seq)
    }

    /// The bands in use, the high ones first.
    pub fn bands(&self) -> impl Iterator<Item = (Band, &BandState)> {
        let bands = (0..=9).rev().filter_map(Band::new);
        bands.filter_map(|band| Some((band, self.band(band)?)))
    }

    /// A band, if it is in use.
    #[must_use]
    pub fn band(&self, band: Band) -> Option<&BandState> {
        self.bands.get(usize::from(band.get()))?.as_ref()
    }

    pub(super) fn band_mut(&mut self, band: Band) -> &mut BandState {
        // A band's number is below their count.
        self.bands[usize::from(band.get())].get_or_insert_default()
    }

    /// Where a reader of a band begins: the first message that was never delivered.
    #[must_use]
    pub fn cursor(&self, band: Band) -> Offset {
        self.band(band).map_or(Offset::ZERO, BandState::cursor)
    }

    /// All of a band before this is finished, and can be truncated. A dead message holds it as any other does.
    #[must_use]
    pub fn floor(&self, band: Band) -> Offset {
        let first = self.live.range(places(band)).next();
        let cursor = self.cursor(band);
        first.map_or(cursor, |(place, _)| place.offset.min(cursor))
    }

    /// How many messages it holds.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let fresh = self.bands().map(|(_, band)| band.fresh());
        let fresh = fresh.fold(0, u64::saturating_add);
        Counts {
            ready: fresh.saturating_add(self.index.again.len() as u64),
            in_flight: self.index.in_flight,
            redelivered: self.index.redelivered,
            dead: self.index.dead.len() as u64,
        }
    }

    /// Bytes of all messages that it holds, the dead ones too.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bands().map(|(_, band)| band.fresh_bytes()).fold(self.index.bytes, u64::saturating_add)
    }

    /// Bytes of the dead ones.
    #[must_use]
    pub const fn dead_bytes(&self) -> u64 {
        self.index.dead_bytes
    }

    /// How many a consumer has in flight: one of this name, or those without a name together.
    #[must_use]
    pub fn in_flight_of(&self, consumer: Option<&ConsumerName>) -> u64 {
        self.index.held_by(consumer)
    }

    /// At most `max` dead messages, by band and place.
    #[must_use]
    pub fn dead(&self, max: usize) -> Vec<Dead> {
        let dead = self.index.dead.iter().filter_map(|place| {
            let live = self.live.get(place)?;
            let State::Dead(reason) = live.state else { return None };
            let Live { seq, attempts, bytes, .. } = *live;
            Some(Dead { seq, place: *place, reason, attempts, bytes })
        });
        dead.take(max).collect()
    }

    /// The size of a live message, and when it was first delivered in Unix milliseconds, if it was.
    #[must_use]
    pub fn known(&self, id: &DeliveryId) -> Option<(u32, Option<u64>)> {
        let live = self.live.get(&id.place).filter(|live| live.seq == id.seq)?;
        Some((live.bytes, live.first()))
    }

    /// Publishes to a band are durable up to `end`. `total` is the bytes of all that was ever published to it before `end`,
    /// `next_seq` the number that the queue's next message has at least. The band is in use from now on. Older news than
    /// what is known changes nothing.
    ///
    /// At a load, call it after the events were applied, with the log's end: what they say of messages beyond it, which the
    /// log lost, is forgotten, since other messages will stand there.
    pub fn confirmed(&mut self, band: Band, end: Offset, total: u64, next_seq: Seq) {
        self.next_seq = self.next_seq.max(next_seq.0);
        let state = self.band_mut(band);
        let first = !std::mem::replace(&mut state.known, true);
        if !first && end <= state.end {
            return;
        }
        // Nothing was left before: then all that there was is consumed, what was skipped too.
        if !first && state.fresh() == 0 {
            state.consumed = state.total;
        }
        (state.end, state.total) = (end, total);
        if first && state.cursor >= end {
            (state.cursor, state.consumed) = (end, total);
            self.forget_from(Place { band, offset: end });
        }
    }

    fn forget_from(&mut self, from: Place) {
        let lost = self.live.range(from..=*places(from.band).end());
        for place in lost.map(|(place, _)| *place).collect::<Vec<_>>() {
            self.drop_entry(place);
        }
    }

    /// Sets the bytes before a band's cursor, where a load has read them from the record there. Messages that were skipped
    /// as unreadable are missing in what the events say.
    pub fn correct(&mut self, band: Band, consumed: u64) {
        self.band_mut(band).consumed = consumed;
    }

    /// Passes over records that cannot be read: what is before `to` is not delivered. Kept in memory only; the next delivery
    /// behind it makes it last.
    pub fn skip(&mut self, band: Band, to: Offset) {
        let state = self.band_mut(band);
        state.cursor = state.cursor.max(to.min(state.end));
    }

    /// Changes an entry, and all orders and sums with it.
    pub(super) fn update(&mut self, place: Place, change: impl FnOnce(&mut Live)) {
        if let Some(live) = self.live.get_mut(&place) {
            self.index.unlink(place, live);
            change(live);
            self.index.link(place, live);
        }
    }

    pub(super) fn insert(&mut self, place: Place, live: Live) {
        self.drop_entry(place);
        self.index.link(place, &live);
        self.live.insert(place, live);
    }

    pub(super) fn drop_entry(&mut self, place: Place) -> Option<Live> {
        let live = self.live.remove(&place)?;
        self.index.unlink(place, &live);
        Some(live)
    }
}
