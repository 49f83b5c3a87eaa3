//! What stands beyond the place where a file's records stop, within the window. Reads only.
//!
//! A record's header says how far its file was durable when the record was staged, and that is true whatever became of
//! the record's body. So the header alone counts here: its checksum is keyed by log, generation and position, and no
//! body needs to be read, however much a payload looks like records.

use super::STEP;
use crate::format::record::{self, GENERATION_AT, HEADER_LEN, Parsed};
use crate::format::{Key, RECORD_ALIGN, RECORDS_POSITION, WINDOW, u16_at, u32_at};
use crate::fs::File;
use crate::types::Generation;
use std::io;
use std::ops::RangeInclusive;

const CHUNK: usize = 256 * 1024;

/// The most bytes of records whose bodies are read to prove a key.
const KEY_BUDGET: u64 = 4 * WINDOW;

/// A record that says that bytes beyond Stop were durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Where the record stands.
    pub position: u64,
    /// Below this all bytes were durable when it was staged.
    pub durable: u64,
}

/// What stands beyond Stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beyond {
    /// Record headers that are valid but claim nothing: a crash left them of a batch that was not confirmed.
    pub leftovers: u64,
    /// The first record found whose claim reaches beyond Stop.
    pub claim: Option<Claim>,
    /// Positions from Stop to the window's end whose bytes carry the file's generation where a header would: they are
    /// zeroed before anything is appended.
    pub carrying: u64,
    /// Bytes read to find out.
    pub bytes_read: u64,
}

/// Where to look, and for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search<'a> {
    pub(crate) file: &'a dyn File,
    pub(crate) key: Key,
    pub(crate) generation: Generation,
    /// Where the records stop.
    pub(crate) stop: u64,
    /// The offset expected there, counted from the segment's base.
    pub(crate) expected: u64,
    /// The end of the file.
    pub(crate) end: u64,
}

/// The positions where a record may start that a commit after the one at `stop` left, none counted twice.
///
/// No record starts further than the window past what is durable; so one further on than `stop` + window would
/// claim. Where the length of the damaged record at `stop` can be told, the window is opened behind it once more, or a
/// record as large as the window would hide all that follows it.
fn windows(stop: u64, len_at_stop: u64, end: u64) -> [RangeInclusive<u64>; 2] {
    let last = end.saturating_sub(HEADER_LEN as u64);
    let first = stop..=stop.saturating_add(WINDOW).min(last);
    let behind = stop.saturating_add(len_at_stop);
    let from = behind.max(first.end().saturating_add(RECORD_ALIGN)).next_multiple_of(RECORD_ALIGN);
    let second = if len_at_stop == 0 || behind > last {
        RangeInclusive::new(1, 0)
    } else {
        from..=behind.saturating_add(WINDOW).min(last)
    };
    [first, second]
}

/// Calls `each` with every 8-byte position of `range` and the 32 bytes there, as far as the file has them.
pub(crate) fn positions(
    file: &dyn File,
    range: RangeInclusive<u64>,
    bytes_read: &mut u64,
    mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let (mut from, last) = range.into_inner();
    let mut buffer = Vec::new();
    while from <= last {
        let left = usize::try_from(last - from).unwrap_or(usize::MAX).saturating_add(HEADER_LEN);
        buffer.resize(left.min(CHUNK + HEADER_LEN), 0);
        let read = file.read_at(from, &mut buffer)?;
        *bytes_read += read as u64;
        let mut at = 0;
        while at + HEADER_LEN <= read && from + at as u64 <= last && at < CHUNK {
            each(from + at as u64, &buffer[at..at + HEADER_LEN])?;
            at += STEP;
        }
        if read < buffer.len() {
            return Ok(());
        }
        from += at as u64;
    }
    Ok(())
}

impl Search<'_> {
    /// The header at `position`, if it is valid and its offset could stand there.
    fn header(&self, position: u64, bytes: &[u8]) -> Option<Parsed> {
        // Most of what stands beyond the end is of another use of the file: told by two bytes, no checksum needed.
        if u16_at(bytes, GENERATION_AT) != self.generation.get() {
            return None;
        }
        let left = self.end.saturating_sub(position);
        let parsed = record::parse(bytes, left, self.key, position, self.generation).ok()?;
        // Each record between takes a header at least. What stands beyond has a later offset than what is missing.
        let most = self.expected + (position - self.stop) / HEADER_LEN as u64;
        let relative = u64::from(parsed.header.relative);
        (relative > self.expected && relative <= most).then_some(parsed)
    }

    /// Looks at every position where a record could stand.
    pub(crate) fn run(&self) -> io::Result<Beyond> {
        let mut found = Beyond::default();
        let mut bytes_read = 0;
        let mut at_stop = [0; HEADER_LEN];
        let read = self.file.read_at(self.stop, &mut at_stop)?;
        let len_at_stop = if read == HEADER_LEN {
            // Not trusted: a wrong length opens a window at a place where nothing valid is found.
            record::record_len(u16_at(&at_stop, 14).into(), u32_at(&at_stop, 8) as usize)
        } else {
            0
        };
        let [first, second] = windows(self.stop, len_at_stop, self.end);
        let window_end = *first.end();
        let mut furthest = 0;
        for range in [&first, &second] {
            positions(self.file, range.clone(), &mut bytes_read, |position, bytes| {
                if position <= window_end && u16_at(bytes, GENERATION_AT) == self.generation.get() {
                    found.carrying += 1;
                }
                self.note(position, bytes, &mut found, &mut furthest);
                Ok(())
            })?;
        }
        // The record after the last one in the window may be the first that claims.
        let last = self.end.saturating_sub(HEADER_LEN as u64);
        let seen = first.contains(&furthest) || second.contains(&furthest);
        if found.claim.is_none() && furthest != 0 && !seen && furthest <= last {
            positions(self.file, furthest..=furthest, &mut bytes_read, |position, bytes| {
                self.note(position, bytes, &mut found, &mut furthest);
                Ok(())
            })?;
        }
        found.bytes_read = bytes_read;
        Ok(found)
    }

    fn note(&self, position: u64, bytes: &[u8], found: &mut Beyond, furthest: &mut u64) {
        let Some(parsed) = self.header(position, bytes) else { return };
        *furthest = position + parsed.header.record_len();
        let durable = parsed.header.claim(position);
        if durable <= self.stop {
            found.leftovers += 1;
        } else if found.claim.is_none() {
            found.claim = Some(Claim { position, durable });
        }
    }
}

/// What stands behind a header that is not the log's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Behind {
    /// A valid record.
    pub(crate) valid: bool,
    /// One that says that bytes of this use of the file were durable.
    pub(crate) claims: bool,
    pub(crate) bytes_read: u64,
}

/// Whose records to look for behind a header that is not the log's own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose {
    /// Those of one key.
    Known(Key, Generation),
    /// Whoever's, of this generation, or of any if the header does not say.
    Anybody(Option<Generation>),
}

/// Looks for records in the window behind the header and checkpoint blocks of a file of `end` bytes.
pub(crate) fn behind(file: &dyn File, whose: Whose, end: u64) -> io::Result<Behind> {
    let mut found = Behind::default();
    let (key, generation) = match whose {
        Whose::Known(key, generation) => (key, generation),
        Whose::Anybody(generation) => {
            match prove_key(file, generation, end, &mut found.bytes_read)? {
                Some(proved) => proved,
                None => return Ok(found),
            }
        }
    };
    let search = Search { file, key, generation, stop: RECORDS_POSITION, expected: 0, end };
    let mut first = [0; HEADER_LEN];
    if file.read_at(RECORDS_POSITION, &mut first)? == HEADER_LEN {
        let left = end.saturating_sub(RECORDS_POSITION);
        let parsed = record::parse(&first, left, key, RECORDS_POSITION, generation);
        found.valid = parsed.is_ok_and(|parsed| parsed.header.relative == 0);
    }
    let beyond = search.run()?;
    found.bytes_read += beyond.bytes_read;
    found.claims = beyond.claim.is_some();
    found.valid |= found.claims || beyond.leftovers > 0;
    Ok(found)
}

/// Finds a key under which a record's header and body both fit.
///
/// Used where nothing says which log the file belonged to. A key derived from a header fits that header by
/// construction, so only the body proves it; and as a payload could be made to look like headers everywhere, the bytes
/// checksummed on the way are bounded. Where the bound is met nothing is proved.
fn prove_key(
    file: &dyn File,
    generation: Option<Generation>,
    end: u64,
    bytes_read: &mut u64,
) -> io::Result<Option<(Key, Generation)>> {
    let mut budget = KEY_BUDGET;
    let mut proved = None;
    let [window, _] = windows(RECORDS_POSITION, 0, end);
    let mut bodies_read = 0;
    positions(file, window, bytes_read, |position, bytes| {
        if proved.is_some() {
            return Ok(());
        }
        let Some((key, found)) = record::derive_key(bytes, position) else { return Ok(()) };
        if generation.is_some_and(|generation| generation != found) {
            return Ok(());
        }
        let left = end.saturating_sub(position);
        let Ok(parsed) = record::parse(bytes, left, key, position, found) else { return Ok(()) };
        let len = parsed.header.record_len();
        if !could_stand_at(position, parsed.header.relative) || len > budget {
            return Ok(());
        }
        budget -= len;
        bodies_read += len;
        if body_fits(file, &parsed, key, position)? {
            proved = Some((key, found));
        }
        Ok(())
    })?;
    *bytes_read += bodies_read;
    Ok(proved)
}

/// Whether the first record of a file of `end` bytes is whole under another key than `key`, though it carries `generation`.
///
/// A generation is used once and by one log, so then the header in front of it is not the one that it was written behind.
pub(crate) fn first_is_of_another(
    file: &dyn File,
    (key, generation): (Key, Generation),
    end: u64,
    bytes_read: &mut u64,
) -> io::Result<bool> {
    let mut bytes = [0; HEADER_LEN];
    let read = file.read_at(RECORDS_POSITION, &mut bytes)?;
    *bytes_read += read as u64;
    let Some((other, found)) = record::derive_key(&bytes[..read], RECORDS_POSITION) else {
        return Ok(false);
    };
    if found != generation || other == key {
        return Ok(false);
    }
    let left = end.saturating_sub(RECORDS_POSITION);
    let Ok(parsed) = record::parse(&bytes, left, other, RECORDS_POSITION, found) else {
        return Ok(false);
    };
    let len = parsed.header.record_len();
    if !could_stand_at(RECORDS_POSITION, parsed.header.relative) || len > KEY_BUDGET {
        return Ok(false);
    }
    *bytes_read += len;
    body_fits(file, &parsed, other, RECORDS_POSITION)
}

/// Whether a file's record with this relative offset can stand there. The first one stands at the first position, and no
/// other: what proves a key must be what the search counts, or it hides the records that do.
fn could_stand_at(position: u64, relative: u32) -> bool {
    let most = position.saturating_sub(RECORDS_POSITION) / HEADER_LEN as u64;
    (relative == 0) == (position == RECORDS_POSITION) && u64::from(relative) <= most
}

fn body_fits(file: &dyn File, parsed: &Parsed, key: Key, position: u64) -> io::Result<bool> {
    let mut crc = record::BodyCrc::new(key, position);
    let mut at = position + HEADER_LEN as u64;
    let body_end = at + parsed.header.body_len();
    let mut buffer = [0; 4096];
    while at < body_end {
        let want = usize::try_from(body_end - at).unwrap_or(usize::MAX).min(buffer.len());
        if file.read_at(at, &mut buffer[..want])? < want {
            return Ok(false);
        }
        crc.update(&buffer[..want]);
        at += want as u64;
    }
    let padding = &mut [0; STEP][..padding_len(parsed)];
    let whole = file.read_at(body_end, padding)? == padding.len();
    Ok(whole && crc.finish() == parsed.body_crc && record::check_padding(padding).is_ok())
}

#[allow(clippy::cast_possible_truncation, reason = "below 8")]
const fn padding_len(parsed: &Parsed) -> usize {
    (parsed.header.record_len() - HEADER_LEN as u64 - parsed.header.body_len()) as usize
}
