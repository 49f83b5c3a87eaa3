//! What keys are answered, how marks end, how they are carried and come back, and what they cost.

mod cost;
mod life;
mod model;
mod stored;

use super::*;

const KEY: [u8; 16] = *b"0123456789abcdef";
const WINDOW: u64 = 300_000;
const Q: QueueId = QueueId(1);

fn marks() -> Marks {
    Marks::new(KEY, 8 << 20, WINDOW)
}

fn at(offset: u64) -> Mark {
    let place = Place { band: Band::DEFAULT, offset: Offset(offset) };
    Mark { content: 7, seq: Seq(offset * 10), bytes: 100, place }
}

fn stored(offset: u64) -> Look {
    Look::Stored { seq: Seq(offset * 10), bytes: 100 }
}

/// The offsets of what would be carried.
fn offsets(marks: &[CarriedMark]) -> Vec<u64> {
    marks.iter().map(|carried| carried.mark.place.offset.0).collect()
}

fn all(marks: &Marks, now: u64) -> Vec<CarriedMark> {
    marks.carry(Q, Band::DEFAULT, Offset(u64::MAX), now)
}

fn stamp(boot: u64, boot_ms: u64, wall_ms: u64) -> Stamp {
    Stamp { boot, boot_ms, wall_ms }
}
