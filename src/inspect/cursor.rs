//! Goes over the records of one use of a file, and finds the next good one behind a bad one.
//!
//! Unlike the walk that recovery and readers use, it goes on after damage, needs no log identity but only the key, and
//! holds no body: a length that a damaged or hostile file names costs no memory.

use super::window::{READ_LEN, Window};
use crate::format::record::{
    self, BodyCrc, GENERATION_AT, HEADER_LEN, Parsed, RecordError, RecordHeader,
};
use crate::format::{Key, RECORD_ALIGN, RECORDS_POSITION, u16_at};
use crate::types::Generation;
use std::io;

/// Distance of the places where a record may stand, as an index.
const STEP: usize = 8;
const _: () = assert!(STEP as u64 == RECORD_ALIGN);

/// What is known of the records of one use of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) key: Key,
    pub(crate) generation: Generation,
}

/// A valid record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) position: u64,
    pub(crate) header: RecordHeader,
}

impl At {
    pub(crate) fn end(&self) -> u64 {
        self.position + self.header.record_len()
    }

    pub(crate) fn claim(&self) -> u64 {
        self.header.claim(self.position)
    }
}

/// What stands where a record is expected.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    Record(At),
    Stop(RecordError),
}

#[derive(Debug)]
pub(crate) struct Cursor {
    window: Window,
    frame: Frame,
    position: u64,
    /// The next record's offset, counted from the base.
    next: u64,
    /// The furthest claim of any record met so far, and where that record stands. A valid header is enough: what it says
    /// was true when it was written, whatever became of the body.
    claim: Option<(u64, u64)>,
}

impl Cursor {
    /// Begins at the file's first record.
    pub(crate) fn new(window: Window, frame: Frame) -> Self {
        Self { window, frame, position: RECORDS_POSITION, next: 0, claim: None }
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn next_relative(&self) -> u64 {
        self.next
    }

    pub(crate) fn claim(&self) -> Option<(u64, u64)> {
        self.claim
    }

    fn note_claim(&mut self, header: &RecordHeader, position: u64) {
        let claim = header.claim(position);
        if self.claim.is_none_or(|(known, _)| known < claim) {
            self.claim = Some((claim, position));
        }
    }

    pub(crate) fn frame(&self) -> Frame {
        self.frame
    }

    pub(crate) fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    /// Goes on at `position`, where the record with the relative offset `next` is expected.
    pub(crate) fn seek(&mut self, position: u64, next: u64) {
        self.position = position;
        self.next = next;
    }

    /// The record at the cursor, or why there is none. The cursor moves behind a record and stays at a stop.
    pub(crate) fn step(&mut self) -> io::Result<Next> {
        let at = match self.valid(self.position)? {
            Ok(at) => at,
            Err(error) => return Ok(Next::Stop(error)),
        };
        let found = at.header.relative;
        if u64::from(found) != self.next {
            return Ok(Next::Stop(RecordError::Offset { found, expected: self.next }));
        }
        self.seek(at.end(), self.next + 1);
        Ok(Next::Record(at))
    }

    /// The whole record at a place where there was a valid one; `None` if it is not what it was.
    pub(crate) fn read(&self, at: &At) -> io::Result<Option<Vec<u8>>> {
        let len = usize::try_from(at.header.record_len()).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len];
        if self.window.read_whole(at.position, &mut bytes)? < len {
            return Ok(None);
        }
        let left = at.header.record_len();
        let frame = self.frame;
        let parsed = record::parse(&bytes, left, frame.key, at.position, frame.generation);
        let same = parsed.is_ok_and(|parsed| {
            parsed.header == at.header
                && record::check_body(&parsed, frame.key, at.position, &bytes[HEADER_LEN..]).is_ok()
        });
        Ok(same.then_some(bytes))
    }

    /// The first valid record at or behind `from`, whatever its offset. Linear: a record whose header is right and
    /// whose body is not is left behind as a whole.
    pub(crate) fn find(&mut self, from: u64) -> io::Result<Option<At>> {
        let mut position = from.next_multiple_of(RECORD_ALIGN);
        while let Some((candidate, parsed)) = self.find_header(position)? {
            self.note_claim(&parsed.header, candidate);
            match self.check_body(&parsed, candidate)? {
                Ok(()) => return Ok(Some(At { position: candidate, header: parsed.header })),
                Err(_) => position = candidate + parsed.header.record_len(),
            }
        }
        Ok(None)
    }

    /// The next valid record behind a stop at `position` whose offset can be right: higher than `expected`, and no higher
    /// than what the bytes between can have held. `strays` counts the valid
    /// records on the way that do not fit.
    pub(crate) fn find_fitting(
        &mut self,
        position: u64,
        expected: u64,
        strays: &mut u64,
    ) -> io::Result<Option<At>> {
        let mut from = position;
        while let Some(at) = self.find(from)? {
            let lost_at_most = (at.position - position) / HEADER_LEN as u64;
            let fits = expected + 1..=expected + lost_at_most;
            if fits.contains(&at.header.relative.into()) {
                return Ok(Some(at));
            }
            *strays += 1;
            from = at.end();
        }
        Ok(None)
    }

    fn find_header(&mut self, from: u64) -> io::Result<Option<(u64, Parsed)>> {
        let (end, frame) = (self.window.end(), self.frame);
        let mut position = from;
        loop {
            let chunk = self.window.bytes(position, READ_LEN)?;
            if chunk.len() < HEADER_LEN {
                return Ok(None);
            }
            let last = chunk.len() - HEADER_LEN;
            for at in (0..=last).step_by(STEP) {
                if u16_at(chunk, at + GENERATION_AT) != frame.generation.get() {
                    continue;
                }
                let (here, head) = (position + at as u64, &chunk[at..at + HEADER_LEN]);
                if let Ok(parsed) =
                    record::parse(head, end - here, frame.key, here, frame.generation)
                {
                    return Ok(Some((here, parsed)));
                }
            }
            position += (last as u64 / RECORD_ALIGN + 1) * RECORD_ALIGN;
        }
    }

    fn valid(&mut self, position: u64) -> io::Result<Result<At, RecordError>> {
        let left = self.window.end().saturating_sub(position);
        let frame = self.frame;
        let head = self.window.bytes(position, HEADER_LEN)?;
        let parsed = match record::parse(head, left, frame.key, position, frame.generation) {
            Ok(parsed) => parsed,
            Err(error) => return Ok(Err(error)),
        };
        self.note_claim(&parsed.header, position);
        let body = self.check_body(&parsed, position)?;
        Ok(body.map(|()| At { position, header: parsed.header }))
    }

    fn check_body(
        &mut self,
        parsed: &Parsed,
        position: u64,
    ) -> io::Result<Result<(), RecordError>> {
        check_body(&mut self.window, self.frame.key, parsed, position)
    }
}

/// Checks a record's body piece by piece.
pub(crate) fn check_body(
    window: &mut Window,
    key: Key,
    parsed: &Parsed,
    position: u64,
) -> io::Result<Result<(), RecordError>> {
    let body_end = position + HEADER_LEN as u64 + parsed.header.body_len();
    let record_end = position + parsed.header.record_len();
    let mut crc = BodyCrc::new(key, position);
    let mut at = position + HEADER_LEN as u64;
    while at < body_end {
        let want = usize::try_from(body_end - at).unwrap_or(READ_LEN);
        let piece = window.bytes(at, want)?;
        if piece.is_empty() {
            return Ok(Err(RecordError::Short(at - position)));
        }
        crc.update(piece);
        at += piece.len() as u64;
    }
    let expected = crc.finish();
    if parsed.body_crc != expected {
        return Ok(Err(RecordError::BodyCrc { found: parsed.body_crc, expected }));
    }
    let want = usize::try_from(record_end - body_end).unwrap_or(0);
    let padding = window.bytes(body_end, want)?;
    if padding.len() < want {
        return Ok(Err(RecordError::Short(body_end + padding.len() as u64 - position)));
    }
    Ok(record::check_padding(padding))
}
