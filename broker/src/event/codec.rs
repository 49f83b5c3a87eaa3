//! Events as bytes: the layout is in `FORMAT.md`, which the tests hold to these lines.

use super::wire::{self, BadEvent, Reader};
use super::{DeadReason, DeliveredItem, DeliveryId, End, Event, Place, Stamp};
use crate::api::{Band, QueueId, Seq};
use plimsoll::Offset;

/// The first byte: the version of this layout in its upper half, the kind in its lower.
const VERSION: u8 = 0x10;
pub(super) const DELIVERED: u8 = VERSION | 1;
pub(super) const ENDED: u8 = VERSION | 2;
pub(super) const EXTENDED: u8 = VERSION | 3;
pub(super) const PURGED: u8 = VERSION | 4;
pub(super) const PAUSED: u8 = VERSION | 5;
pub(super) const SNAPSHOT_BEGIN: u8 = VERSION | 8;
pub(super) const SNAPSHOT_PART: u8 = VERSION | 9;
pub(super) const SNAPSHOT_END: u8 = VERSION | 10;

/// The least bytes of a delivery's id, of a delivered item and of a purged band's end.
const ID_LEAST: usize = 4;
const ITEM_LEAST: usize = 5;
const PURGED_LEAST: usize = 3;

const ACKED: u8 = 0;
const NACKED: u8 = 1;
const UNDONE: u8 = 2;
const DEAD: u8 = 4;

/// Appends an event's bytes to `out`.
pub fn encode(event: &Event, out: &mut Vec<u8>) {
    match event {
        Event::Delivered { queue, at, lease_ms, consumer, next_seq, items } => {
            out.push(DELIVERED);
            wire::put_number(out, queue.0);
            put_stamp(out, at);
            wire::put_number(out, *lease_ms);
            wire::put_name(out, consumer.as_ref());
            wire::put_number(out, next_seq.0);
            wire::put_count(out, items.len());
            let mut before = Before::default();
            for item in items {
                before.put(out, &item.id);
                wire::put_number(out, u64::from(item.bytes));
            }
        }
        Event::Ended { queue, end, items } => {
            out.push(ENDED);
            wire::put_number(out, queue.0);
            out.push(end_code(*end));
            put_ids(out, items);
        }
        Event::Extended { queue, at, lease_ms, items } => {
            out.push(EXTENDED);
            wire::put_number(out, queue.0);
            put_stamp(out, at);
            wire::put_number(out, *lease_ms);
            put_ids(out, items);
        }
        Event::Purged { queue, ends, next_seq, dead } => {
            out.push(PURGED);
            wire::put_number(out, queue.0);
            wire::put_number(out, next_seq.0);
            out.push(u8::from(*dead));
            wire::put_count(out, ends.len());
            for (band, end, total) in ends {
                out.push(band.get());
                wire::put_number(out, end.0);
                wire::put_number(out, *total);
            }
        }
        Event::Paused { queue, paused } => {
            out.push(PAUSED);
            wire::put_number(out, queue.0);
            out.push(u8::from(*paused));
        }
    }
}

/// Reads an event's bytes.
///
/// # Errors
/// [`BadEvent`] for all that [`encode`] does not write, an unknown kind and bytes that follow among it.
pub fn decode(bytes: &[u8]) -> Result<Event, BadEvent> {
    let mut from = Reader::new(bytes);
    let kind = from.byte()?;
    let event = match kind {
        DELIVERED => Event::Delivered {
            queue: QueueId(from.number()?),
            at: stamp(&mut from)?,
            lease_ms: from.number()?,
            consumer: from.name()?,
            next_seq: Seq(from.number()?),
            items: items(&mut from)?,
        },
        ENDED => Event::Ended {
            queue: QueueId(from.number()?),
            end: end(&mut from)?,
            items: ids(&mut from)?,
        },
        EXTENDED => Event::Extended {
            queue: QueueId(from.number()?),
            at: stamp(&mut from)?,
            lease_ms: from.number()?,
            items: ids(&mut from)?,
        },
        PURGED => {
            let queue = QueueId(from.number()?);
            let next_seq = Seq(from.number()?);
            let dead = from.flag()?;
            Event::Purged { queue, ends: ends(&mut from)?, next_seq, dead }
        }
        PAUSED => Event::Paused { queue: QueueId(from.number()?), paused: from.flag()? },
        _ => return Err(BadEvent { at: 0, reason: "a kind that is not known" }),
    };
    from.end()?;
    Ok(event)
}

/// The item before: neighbours differ by little, so only the difference is written.
#[derive(Default)]
struct Before {
    offset: u64,
    seq: u64,
}

impl Before {
    fn put(&mut self, out: &mut Vec<u8>, id: &DeliveryId) {
        out.push(id.place.band.get());
        wire::put_step(out, self.offset, id.place.offset.0);
        wire::put_step(out, self.seq, id.seq.0);
        wire::put_number(out, u64::from(id.attempt));
        *self = Self { offset: id.place.offset.0, seq: id.seq.0 };
    }

    fn read(&mut self, from: &mut Reader<'_>) -> Result<DeliveryId, BadEvent> {
        let band = band(from)?;
        self.offset = from.step(self.offset)?;
        self.seq = from.step(self.seq)?;
        let attempt = from.small()?;
        let place = Place { band, offset: Offset(self.offset) };
        Ok(DeliveryId { seq: Seq(self.seq), place, attempt })
    }
}

fn put_ids(out: &mut Vec<u8>, ids: &[DeliveryId]) {
    wire::put_count(out, ids.len());
    let mut before = Before::default();
    for id in ids {
        before.put(out, id);
    }
}

fn ids(from: &mut Reader<'_>) -> Result<Vec<DeliveryId>, BadEvent> {
    let count = from.count(ID_LEAST)?;
    let mut before = Before::default();
    (0..count).map(|_| before.read(from)).collect()
}

fn items(from: &mut Reader<'_>) -> Result<Vec<DeliveredItem>, BadEvent> {
    let count = from.count(ITEM_LEAST)?;
    let mut before = Before::default();
    let mut item = || Ok(DeliveredItem { id: before.read(from)?, bytes: from.small()? });
    (0..count).map(|_| item()).collect()
}

fn ends(from: &mut Reader<'_>) -> Result<Vec<(Band, Offset, u64)>, BadEvent> {
    let count = from.count(PURGED_LEAST)?;
    let mut end = || Ok((band(from)?, Offset(from.number()?), from.number()?));
    (0..count).map(|_| end()).collect()
}

pub(crate) fn band(from: &mut Reader<'_>) -> Result<Band, BadEvent> {
    let byte = from.byte()?;
    Band::new(byte).ok_or_else(|| from.bad("no band"))
}

fn put_stamp(out: &mut Vec<u8>, at: &Stamp) {
    wire::put_fixed(out, at.boot);
    wire::put_number(out, at.boot_ms);
    wire::put_number(out, at.wall_ms);
}

fn stamp(from: &mut Reader<'_>) -> Result<Stamp, BadEvent> {
    Ok(Stamp { boot: from.fixed()?, boot_ms: from.number()?, wall_ms: from.number()? })
}

const fn end_code(end: End) -> u8 {
    match end {
        End::Acked => ACKED,
        End::Nacked => NACKED,
        End::Undone => UNDONE,
        End::Dead(reason) => DEAD + reason_code(reason),
    }
}

fn end(from: &mut Reader<'_>) -> Result<End, BadEvent> {
    Ok(match from.byte()? {
        ACKED => End::Acked,
        NACKED => End::Nacked,
        UNDONE => End::Undone,
        code => {
            let reason = code.checked_sub(DEAD).and_then(reason);
            End::Dead(reason.ok_or_else(|| from.bad("no end of a delivery"))?)
        }
    })
}

/// A reason as a number from 0 to 2.
pub(crate) const fn reason_code(reason: DeadReason) -> u8 {
    match reason {
        DeadReason::Rejected => 0,
        DeadReason::Attempts => 1,
        DeadReason::Unreadable => 2,
    }
}

pub(crate) const fn reason(code: u8) -> Option<DeadReason> {
    match code {
        0 => Some(DeadReason::Rejected),
        1 => Some(DeadReason::Attempts),
        2 => Some(DeadReason::Unreadable),
        _ => None,
    }
}
