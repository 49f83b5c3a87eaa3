//! Marks in a shard's marks log: those whose message's record is freed before their time.

use super::Mark;
use crate::api::{Band, QueueId, Seq};
use crate::event::{Place, Stamp};
use crate::wire::Bytes;
use plimsoll::Offset;

/// The first byte of a record of marks.
pub const VERSION: u8 = 1;
/// The most bytes of a record of marks. It must fit into the storage's smallest file, which has 64 KiB: while nothing is
/// free there are no others, and what must be carried first keeps its messages' files.
pub const RECORD_MAX: usize = 32 << 10;

/// Version and stamp.
const HEAD_LEN: usize = 1 + 24;
const MARK_LEN: usize = 16 + 8 + 8 + 8 + 4 + 1 + 8 + 8;
const MARKS_MAX: usize = (RECORD_MAX - HEAD_LEN) / MARK_LEN;

/// A mark on its way to the marks log, or from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedMark {
    /// The keyed hash of queue and idempotency key.
    pub id: u128,
    /// The queue.
    pub queue: QueueId,
    /// What was published.
    pub mark: Mark,
    /// How old it was at the stamp of its record, in milliseconds.
    pub age_ms: u64,
}

/// A record of marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedMarks {
    /// When the ages were taken.
    pub at: Stamp,
    /// The marks.
    pub marks: Vec<CarriedMark>,
}

/// Bytes that are no record of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadMarks {
    /// Written by another version of the format.
    #[error("version {0} is not known to this program")]
    Version(u8),
    /// It ends too early, or has something behind its last mark.
    #[error("the length is not that of a record of marks")]
    Length,
    /// There is no such band.
    #[error("there is no band {0}")]
    Band(u8),
}

/// The payloads of the records that hold these marks, each at most [`RECORD_MAX`] bytes; `at` is when
/// [`Marks::carry`](super::Marks::carry) gave them.
#[must_use]
pub fn encode(at: &Stamp, marks: &[CarriedMark]) -> Vec<Vec<u8>> {
    marks.chunks(MARKS_MAX).map(|marks| encode_one(at, marks)).collect()
}

fn encode_one(at: &Stamp, marks: &[CarriedMark]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_LEN + marks.len() * MARK_LEN);
    out.push(VERSION);
    for part in [at.boot, at.boot_ms, at.wall_ms] {
        out.extend(part.to_le_bytes());
    }
    for CarriedMark { id, queue, mark, age_ms } in marks {
        out.extend(id.to_le_bytes());
        out.extend(queue.0.to_le_bytes());
        out.extend(mark.content.to_le_bytes());
        out.extend(mark.seq.0.to_le_bytes());
        out.extend(mark.bytes.to_le_bytes());
        out.push(mark.place.band.get());
        out.extend(mark.place.offset.0.to_le_bytes());
        out.extend(age_ms.to_le_bytes());
    }
    out
}

/// Reads what [`encode`] wrote.
///
/// # Errors
/// [`BadMarks`], whatever the bytes.
pub fn decode(payload: &[u8]) -> Result<CarriedMarks, BadMarks> {
    let mut bytes = Bytes(payload);
    let version = bytes.u8().ok_or(BadMarks::Length)?;
    if version != VERSION {
        return Err(BadMarks::Version(version));
    }
    let at = stamp(&mut bytes).ok_or(BadMarks::Length)?;
    let mut marks = Vec::with_capacity(bytes.0.len() / MARK_LEN);
    while !bytes.is_empty() {
        let (mark, band) = mark(&mut bytes).ok_or(BadMarks::Length)?;
        marks.push(mark.ok_or(BadMarks::Band(band))?);
    }
    Ok(CarriedMarks { at, marks })
}

fn stamp(bytes: &mut Bytes<'_>) -> Option<Stamp> {
    Some(Stamp { boot: bytes.u64()?, boot_ms: bytes.u64()?, wall_ms: bytes.u64()? })
}

/// A mark, or none where its band is none; and that band.
fn mark(bytes: &mut Bytes<'_>) -> Option<(Option<CarriedMark>, u8)> {
    let id = u128::from_le_bytes(bytes.array()?);
    let queue = QueueId(bytes.u64()?);
    let (content, seq, len) = (bytes.u64()?, Seq(bytes.u64()?), bytes.u32()?);
    let (band, offset, age_ms) = (bytes.u8()?, Offset(bytes.u64()?), bytes.u64()?);
    let mark = Band::new(band).map(|found| {
        let place = Place { band: found, offset };
        CarriedMark { id, queue, mark: Mark { content, seq, bytes: len, place }, age_ms }
    });
    Some((mark, band))
}
