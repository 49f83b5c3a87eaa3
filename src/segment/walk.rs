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
    /// Never shortened, so that reading into it again need not fill it with zeroes first.
    buffer: Vec<u8>,
    /// How much of it has been read.
    filled: usize,
    /// File position of the first byte in `buffer`.
    buffer_at: u64,
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
            buffer: Vec::new(),
            filled: 0,
            buffer_at: position,
            bytes_read: 0,
        }
    }

    /// Sets how many bytes are read at a time, at least.
    #[must_use]
    pub fn read_ahead(mut self, bytes: usize) -> Self {
        self.read_ahead = bytes.max(HEADER_LEN);
        self
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

    /// Makes `len` bytes from `self.position` available, as far as the file has them; gives their place in the buffer.
    fn fill(&mut self, len: u64) -> io::Result<std::ops::Range<usize>> {
        #[allow(clippy::cast_possible_truncation, reason = "bounded by the buffer's length")]
        let start = (self.position - self.buffer_at) as usize;
        #[allow(clippy::cast_possible_truncation, reason = "checked against the file's end before")]
        let want = len.min(self.end.saturating_sub(self.position)) as usize;
        if self.filled >= start + want {
            return Ok(start..start + want);
        }
        let kept = start.min(self.filled)..self.filled;
        let have = kept.len();
        self.buffer.copy_within(kept, 0);
        (self.buffer_at, self.filled) = (self.position, have);
        let left = usize::try_from(self.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let target = want.max(self.read_ahead.min(left));
        if self.buffer.len() < target {
            self.buffer.resize(target, 0);
        }
        let into = &mut self.buffer[have..target];
        let read = self.file.read_at(self.position + have as u64, into)?;
        self.bytes_read += read as u64;
        self.filled += read;
        Ok(0..want.min(self.filled))
    }

    /// The next record, or why there is none.
    ///
    /// A record whose bytes the file does not have, since it is shorter than it should be, is a [`Step::Stop`] too.
    ///
    /// # Errors
    /// Of reading the file.
    pub fn step(&mut self) -> io::Result<Step<'_>> {
        let head = self.fill(HEADER_LEN as u64)?;
        let left = self.end.saturating_sub(self.position);
        let position = self.position;
        let parsed =
            match record::parse(&self.buffer[head], left, self.key, position, self.generation) {
                Ok(parsed) => parsed,
                Err(error) => return Ok(Step::Stop(error)),
            };
        let expected = self.next.0.saturating_sub(self.base.0);
        if u64::from(parsed.header.relative) != expected {
            let found = parsed.header.relative;
            return Ok(Step::Stop(RecordError::Offset { found, expected }));
        }
        let len = parsed.header.record_len();
        let whole = self.fill(len)?;
        if (whole.len() as u64) < len {
            return Ok(Step::Stop(RecordError::Short(whole.len() as u64)));
        }
        let body = &self.buffer[whole.start + HEADER_LEN..whole.end];
        if let Err(error) = record::check_body(&parsed, self.key, position, body) {
            return Ok(Step::Stop(error));
        }
        let (offset, header) = (self.next, parsed.header);
        self.position += len;
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
