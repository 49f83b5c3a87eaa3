//! Walks the records of a segment file, one after the other, from a position where one is expected.

use crate::format::record::{self, GENERATION_AT, HEADER_LEN, RecordError, RecordHeader};
use crate::format::{Key, header::Header};
use crate::fs::File;
use crate::types::{Generation, LogId, Offset};
use std::io;
use std::ops::Deref;

/// A valid record.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Where it stands in the file.
    pub position: u64,
    /// Its offset.
    pub offset: Offset,
    /// Its fields.
    pub header: RecordHeader,
    /// Its headers.
    pub headers: &'a [u8],
    /// Its payload.
    pub payload: &'a [u8],
}

/// What stands at the next position.
#[derive(Debug)]
pub enum Step<'a> {
    /// The record that was expected.
    Record(Found<'a>),
    /// Anything else: the walk is over.
    Stop(RecordError),
}

/// How much is read first. A walk that goes on reads twice as much each time, up to its read-ahead, so that a look at one
/// record is cheap and a long walk makes few calls.
const FIRST: usize = 16 * 1024;

/// Bytes of the file stand in memory at addresses that are the same modulo this. Without it the kernel may copy to an address
/// a few bytes behind its source's, modulo a page, and then some processors take four times as long.
const PAGE: usize = 4096;

/// What a walk leaves to the next one.
#[derive(Debug, Default)]
pub struct Memory {
    buffer: Vec<u8>,
    ahead: usize,
}

/// A walk over one file, borrowed or shared. Holds one buffer, as large as the read-ahead or the largest record met.
#[derive(Debug)]
pub struct Walker<F> {
    file: F,
    key: Key,
    generation: Generation,
    base: Offset,
    end: u64,
    position: u64,
    next: Offset,
    read_ahead: usize,
    /// How much is read at a time now.
    ahead: usize,
    /// Kept at its full length, so that reading into it again need not fill it with zeroes first.
    buffer: Vec<u8>,
    /// Where the byte at `position` stands in it.
    start: usize,
    /// Where what has been read ends in it.
    filled: usize,
    bytes_read: u64,
}

impl<F> Walker<F>
where
    F: Deref,
    F::Target: File,
{
    /// A walk over the records of `log` in `file`, from the record `next` at `position` to `end`, where no record
    /// reaches beyond.
    #[must_use]
    pub fn new(
        file: F,
        log: LogId,
        header: &Header,
        base: Offset,
        (position, next): (u64, Offset),
        end: u64,
    ) -> Self {
        let generation = header.generation;
        Self::with_key(
            file,
            Key::new(log, generation, base),
            generation,
            base,
            (position, next),
            end,
        )
    }

    /// The same for a caller that has the key and not the header.
    #[must_use]
    pub fn with_key(
        file: F,
        key: Key,
        generation: Generation,
        base: Offset,
        (position, next): (u64, Offset),
        end: u64,
    ) -> Self {
        Self {
            file,
            key,
            generation,
            base,
            end,
            position,
            next,
            read_ahead: 128 * 1024,
            ahead: FIRST,
            buffer: Vec::new(),
            start: 0,
            filled: 0,
            bytes_read: 0,
        }
    }

    /// Sets how many bytes are read at a time once the walk has gone on for a while. A larger record is read whole.
    #[must_use]
    pub fn read_ahead(mut self, bytes: usize) -> Self {
        self.read_ahead = bytes.max(HEADER_LEN);
        self.ahead = self.ahead.min(self.read_ahead);
        self
    }

    /// Goes on with the memory of a walk that is over, and reads as much at a time as that one did.
    #[must_use]
    pub fn with_memory(mut self, memory: Memory) -> Self {
        self.ahead = memory.ahead.max(self.ahead).min(self.read_ahead);
        self.buffer = memory.buffer;
        self
    }

    /// Ends the walk, and leaves its memory to the next one.
    #[must_use]
    pub fn into_memory(self) -> Memory {
        Memory { buffer: self.buffer, ahead: self.ahead }
    }

    /// Gives the buffer back, if it is large and all that is in it was walked.
    pub fn rest(&mut self) {
        if self.start == self.filled && self.buffer.len() > FIRST + PAGE {
            self.buffer = Vec::new();
            (self.start, self.filled) = (0, 0);
            self.ahead = FIRST.min(self.read_ahead);
        }
    }

    /// Lets the walk go on to `end`, where more has become readable. Never goes back.
    pub fn extend_to(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// Where the next record is expected.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The offset of the next record.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.next
    }

    /// How much was read from the file so far.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The first `len` bytes of those from `position` on, or as many as the file has before the walk's end.
    #[inline]
    fn bytes(&mut self, len: u64) -> io::Result<&[u8]> {
        if len > (self.filled - self.start) as u64 {
            self.fill(len)?;
        }
        let there = &self.buffer[self.start..self.filled];
        #[allow(clippy::cast_possible_truncation, reason = "no more than a length in memory")]
        let len = len.min(there.len() as u64) as usize;
        Ok(&there[..len])
    }

    /// Reads on, so that `len` bytes from `position` are in the buffer, if the file has them.
    #[cold]
    fn fill(&mut self, len: u64) -> io::Result<()> {
        let kept = self.start..self.filled;
        let left = usize::try_from(self.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let want = usize::try_from(len).unwrap_or(usize::MAX).min(left);
        if want <= kept.len() {
            return Ok(());
        }
        let target = want.max(self.ahead.min(left));
        if self.ahead < left {
            self.ahead = (self.ahead * 2).min(self.read_ahead);
        }
        let have = kept.len();
        if self.buffer.len() < target + PAGE {
            let grown = vec![0; target.max(FIRST.min(self.read_ahead)) + PAGE];
            let old = std::mem::replace(&mut self.buffer, grown);
            self.start = self.place();
            self.buffer[self.start..self.start + have].copy_from_slice(&old[kept]);
        } else {
            self.start = self.place();
            self.buffer.copy_within(kept, self.start);
        }
        self.filled = self.start + have;
        let into = &mut self.buffer[self.filled..self.start + target];
        let read = self.file.read_at(self.position + have as u64, into)?;
        self.bytes_read += read as u64;
        self.filled += read;
        Ok(())
    }

    /// Where in the buffer the byte at `position` is to stand, see [`PAGE`].
    fn place(&self) -> usize {
        #[allow(clippy::cast_possible_truncation, reason = "below a page")]
        let in_page = (self.position % PAGE as u64) as usize;
        in_page.wrapping_sub(self.buffer.as_ptr().addr()) % PAGE
    }

    /// The next record, or why there is none.
    ///
    /// A record whose bytes the file does not have, since it is shorter than it should be, is a [`Step::Stop`] too.
    ///
    /// # Errors
    /// Of reading the file.
    pub fn step(&mut self) -> io::Result<Step<'_>> {
        let left = self.end.saturating_sub(self.position);
        let (key, position, generation) = (self.key, self.position, self.generation);
        let head = self.bytes(HEADER_LEN as u64)?;
        let parsed = match record::parse(head, left, key, position, generation) {
            Ok(parsed) => parsed,
            Err(error) => return Ok(Step::Stop(error)),
        };
        let expected = self.next.0.saturating_sub(self.base.0);
        if u64::from(parsed.header.relative) != expected {
            let found = parsed.header.relative;
            return Ok(Step::Stop(RecordError::Offset { found, expected }));
        }
        let len = parsed.header.record_len();
        let whole = self.bytes(len)?.len();
        if (whole as u64) < len {
            return Ok(Step::Stop(RecordError::Short(whole as u64)));
        }
        let body = &self.buffer[self.start + HEADER_LEN..self.start + whole];
        if let Err(error) = record::check_body(&parsed, key, position, body) {
            return Ok(Step::Stop(error));
        }
        let (offset, header) = (self.next, parsed.header);
        self.position += len;
        self.start += whole;
        self.next = offset.plus(1);
        let (headers, rest) = body.split_at(usize::from(header.headers_len));
        let payload = &rest[..header.payload_len as usize];
        Ok(Step::Record(Found { position, offset, header, headers, payload }))
    }
}

/// Whether a record's header at `at` in `bytes` would carry `generation`.
pub(crate) fn carries_generation(bytes: &[u8], at: usize, generation: Generation) -> bool {
    let field = bytes.get(at + GENERATION_AT..at + GENERATION_AT + 2);
    field == Some(&generation.get().to_le_bytes())
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, reason = "small numbers")]
mod tests;
