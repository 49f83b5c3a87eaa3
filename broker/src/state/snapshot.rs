//! A shard as bytes, in parts, and back. What the logs and the catalogue know better, ends and settings, is not in it.

use super::live::{Live, State};
use super::queue::{BandState, Finished, How, Queue};
use super::{Frame, Shard};
use crate::api::{QueueId, QueueSettings, Seq};
use crate::event::codec::{band, reason, reason_code};
use crate::event::wire::{self, Reader};
use crate::event::{BadEvent, PART_MAX, Place};
use plimsoll::Offset;

/// The first byte of a first part: the version.
const VERSION: u8 = 1;

const QUEUE: u8 = 1;
const BAND: u8 = 2;
const LIVE: u8 = 3;
const FINISHED: u8 = 4;

const LEASED: u8 = 0;
const LATE: u8 = 1;
const RETURNED: u8 = 2;
const UNTOUCHED: u8 = 3;
const DEAD: u8 = 4;
/// Added to a state: see `returned_before`.
const RETURNED_BEFORE: u8 = 0x80;

const ACKED: u8 = 0;
const PURGED: u8 = 1;
const DIED: u8 = 2;

/// Fills parts with items, none of which is cut.
struct Writer {
    parts: Vec<Vec<u8>>,
    item: Vec<u8>,
}

impl Writer {
    fn end_item(&mut self) {
        let fits = |part: &&mut Vec<u8>| part.len() + self.item.len() <= PART_MAX;
        match self.parts.last_mut().filter(fits) {
            Some(part) => part.append(&mut self.item),
            None => self.parts.push(std::mem::take(&mut self.item)),
        }
    }
}

impl Shard {
    /// The state as the bodies of a snapshot's parts, in order, each at most [`PART_MAX`] bytes; at least one.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Vec<u8>> {
        let mut to = Writer { parts: Vec::new(), item: Vec::new() };
        to.item.push(VERSION);
        wire::put_fixed(&mut to.item, self.boot);
        to.end_item();
        for (id, queue) in &self.queues {
            to.item.push(QUEUE);
            wire::put_number(&mut to.item, id.0);
            to.item.push(u8::from(queue.paused));
            wire::put_number(&mut to.item, queue.next_seq);
            to.end_item();
            for (band, state) in queue.bands() {
                to.item.push(BAND);
                to.item.push(band.get());
                wire::put_number(&mut to.item, state.cursor.0);
                wire::put_number(&mut to.item, state.consumed);
                to.end_item();
            }
            let mut before = (0, 0);
            for (place, live) in &queue.live {
                to.item.push(LIVE);
                put_live(&mut to.item, *place, live, before);
                to.end_item();
                before = (place.offset.0, live.seq.0);
            }
        }
        let mut before = 0;
        for (id, seq) in &self.finished {
            let finished = self.queues.get(id).and_then(|queue| queue.finished.get(seq));
            let Some(finished) = finished else { continue };
            to.item.push(FINISHED);
            wire::put_number(&mut to.item, id.0);
            wire::put_step(&mut to.item, before, seq.0);
            wire::put_number(&mut to.item, u64::from(finished.attempt));
            to.item.push(match finished.how {
                How::Acked => ACKED,
                How::Purged => PURGED,
                How::Dead(reason) => DIED + reason_code(reason),
            });
            to.end_item();
            before = seq.0;
        }
        to.parts
    }

    /// Reads a snapshot's parts. Queues have default settings until they are [added](Self::add), and bands no end until
    /// their logs [say it](super::Queue::confirmed). Leases end as after a replay.
    ///
    /// # Errors
    /// [`BadEvent`], for bytes that [`Shard::snapshot`] does not write; its place is that in the part.
    pub fn restore(parts: &[Vec<u8>], frame: &Frame) -> Result<Self, BadEvent> {
        let mut shard = Self { boot: frame.boot, ..Self::default() };
        let mut first = parts.first().map_or(Reader::new(&[]), |part| Reader::new(part));
        if first.byte()? != VERSION {
            return Err(BadEvent { at: 0, reason: "a snapshot of another version" });
        }
        let mut load = Load {
            same_boot: first.fixed()? == frame.boot,
            frame,
            queue: None,
            offset: 0,
            seq: 0,
            finished: 0,
        };
        load.part(&mut shard, first)?;
        for part in parts.iter().skip(1) {
            load.part(&mut shard, Reader::new(part))?;
        }
        load.end_queue(&mut shard);
        Ok(shard)
    }
}

/// Where reading is: items are about what was named before, in this part or an earlier one.
struct Load<'a> {
    same_boot: bool,
    frame: &'a Frame,
    queue: Option<(QueueId, Queue)>,
    offset: u64,
    seq: u64,
    finished: u64,
}

impl Load<'_> {
    fn end_queue(&mut self, shard: &mut Shard) {
        if let Some((id, queue)) = self.queue.take() {
            shard.put(id, queue);
        }
        (self.offset, self.seq) = (0, 0);
    }

    fn part(&mut self, shard: &mut Shard, mut from: Reader<'_>) -> Result<(), BadEvent> {
        while from.left() > 0 {
            match from.byte()? {
                QUEUE => {
                    self.end_queue(shard);
                    let id = QueueId(from.number()?);
                    if shard.queue(id).is_some() {
                        return Err(from.bad("a queue stands there twice"));
                    }
                    let mut queue = Queue::new(&QueueSettings::default());
                    queue.paused = from.flag()?;
                    queue.next_seq = from.number()?;
                    self.queue = Some((id, queue));
                }
                BAND => {
                    let band = band(&mut from)?;
                    let (cursor, consumed) = (Offset(from.number()?), from.number()?);
                    let queue = self.queue(&from)?;
                    *queue.band_mut(band) = BandState { cursor, consumed, ..BandState::default() };
                }
                LIVE => {
                    let (place, live) = self.live(&mut from)?;
                    let queue = self.queue(&from)?;
                    if place.offset >= queue.cursor(place.band) || queue.live.contains_key(&place) {
                        return Err(from.bad("a message where none can be"));
                    }
                    queue.insert(place, live);
                }
                FINISHED => {
                    self.end_queue(shard);
                    self.finished(shard, &mut from)?;
                }
                _ => return Err(from.bad("an item that is not known")),
            }
        }
        Ok(())
    }

    fn queue(&mut self, from: &Reader<'_>) -> Result<&mut Queue, BadEvent> {
        let queue = self.queue.as_mut().map(|(_, queue)| queue);
        queue.ok_or_else(|| from.bad("an item of no queue"))
    }

    fn live(&mut self, from: &mut Reader<'_>) -> Result<(Place, Live), BadEvent> {
        let band = band(from)?;
        self.offset = from.step(self.offset)?;
        self.seq = from.step(self.seq)?;
        let place = Place { band, offset: Offset(self.offset) };
        let (bytes, attempts) = (from.small()?, from.small()?);
        let first_ms = from.number()?;
        let code = from.byte()?;
        let state = match code & !RETURNED_BEFORE {
            LEASED => State::Leased,
            LATE => State::Late,
            RETURNED => State::Returned,
            UNTOUCHED => State::Untouched,
            code => {
                let reason = code.checked_sub(DEAD).and_then(reason);
                State::Dead(reason.ok_or_else(|| from.bad("no state of a message"))?)
            }
        };
        // What is found unreadable may be dead without ever having been delivered.
        let untouched = attempts == 0 && !matches!(state, State::Dead(_));
        if (state == State::Untouched) != untouched {
            return Err(from.bad("attempts that do not fit"));
        }
        let mut live = Live {
            seq: Seq(self.seq),
            first_ms,
            at_ms: 0,
            until_ms: 0,
            consumer: None,
            bytes,
            attempts,
            lease_ms: 0,
            state,
            returned_before: code & RETURNED_BEFORE != 0,
        };
        if state == State::Leased {
            let at_ms = from.number()?;
            live.lease_ms = from.small()?;
            live.consumer = from.name()?;
            if let (Some(name), Some((_, queue))) = (&live.consumer, &self.queue) {
                live.consumer = Some(queue.index.share(name));
            }
            if self.same_boot {
                live.lease_since(at_ms, self.frame);
            } else {
                live.lease_again(self.frame);
            }
        }
        Ok((place, live))
    }

    fn finished(&mut self, shard: &mut Shard, from: &mut Reader<'_>) -> Result<(), BadEvent> {
        let id = QueueId(from.number()?);
        self.finished = from.step(self.finished)?;
        let seq = Seq(self.finished);
        let attempt = from.small()?;
        let how = match from.byte()? {
            ACKED => How::Acked,
            PURGED => How::Purged,
            code => {
                let reason = code.checked_sub(DIED).and_then(reason);
                How::Dead(reason.ok_or_else(|| from.bad("no end of a message"))?)
            }
        };
        let queue = shard.queues.get_mut(&id);
        let queue = queue.ok_or_else(|| from.bad("an item of no queue"))?;
        if queue.finished.insert(seq, Finished { attempt, how }).is_some() {
            return Err(from.bad("a message finished twice"));
        }
        shard.remember(std::iter::once((id, seq)));
        Ok(())
    }
}

fn put_live(out: &mut Vec<u8>, place: Place, live: &Live, before: (u64, u64)) {
    out.push(place.band.get());
    wire::put_step(out, before.0, place.offset.0);
    wire::put_step(out, before.1, live.seq.0);
    wire::put_number(out, u64::from(live.bytes));
    wire::put_number(out, u64::from(live.attempts));
    wire::put_number(out, live.first_ms);
    let state = match live.state {
        // That its lease has ended is told once more: nothing is written of it yet.
        State::Leased | State::Exhausted => LEASED,
        State::Late => LATE,
        State::Returned => RETURNED,
        State::Untouched => UNTOUCHED,
        State::Dead(reason) => DEAD + reason_code(reason),
    };
    out.push(state | if live.returned_before { RETURNED_BEFORE } else { 0 });
    if state == LEASED {
        wire::put_number(out, live.at_ms);
        wire::put_number(out, u64::from(live.lease_ms));
        wire::put_name(out, live.consumer.as_ref());
    }
}
