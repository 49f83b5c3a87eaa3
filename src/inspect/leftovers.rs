//! Tells what the bytes are that no record of a file's present use accounts for: zeroes, records of earlier uses, or
//! something else.
//!
//! Nobody knows the key of an earlier use: it came from another log. It is derived from a record's header checksum, and
//! believed when the record behind has the same key and the next offset, or when the same record's body fits.

use super::cursor::check_body;
use super::window::{READ_LEN, Window};
use crate::format::record::{self, HEADER_LEN, Parsed, RecordHeader};
use crate::format::{Key, RECORD_ALIGN};
use crate::types::Generation;
use std::io;

/// The most uses that are told apart in one file; records of further ones count as other bytes.
const USES_MAX: usize = 64;

/// Records of one use of the file that still stand in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The use.
    pub generation: Generation,
    /// Records whose header is whole.
    pub records: u64,
    /// Of these, records whose body is whole too.
    pub whole: u64,
    /// Bytes of all of them, as far as they lie in the file.
    pub bytes: u64,
    /// Where the first one stands.
    pub first_position: u64,
}

/// What stands in a range of a file beside the records of its present use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beyond {
    /// The first byte of the range.
    pub from: u64,
    /// The byte behind its last.
    pub to: u64,
    /// Zeroes, counted in units of 8 bytes.
    pub zero_bytes: u64,
    /// Records of other uses of the file, or, in a spare, of any use; the latest use first. They are never messages.
    pub leftovers: Vec<Leftover>,
    /// All other bytes: what is left of records that were partly overwritten, cut off or zeroed.
    pub other_bytes: u64,
    /// Places where a record's header would carry the present generation: a start zeroes these 32 bytes, as a crash may
    /// have left records there that were never confirmed.
    pub own_places: u64,
    /// Runs of at least 32 zeroes with other bytes close behind: where an earlier start zeroed such a place, or where
    /// something was never written.
    pub holes: u64,
}

impl Beyond {
    /// Whether the range holds nothing but zeroes.
    #[must_use]
    pub fn all_zero(&self) -> bool {
        self.zero_bytes == self.to - self.from
    }
}

struct Survey<'w> {
    window: &'w mut Window,
    own: Option<Generation>,
    keys: Vec<(Generation, Key)>,
    /// How many bytes may still be hashed to prove keys, so that hostile bytes cannot make the survey quadratic.
    budget: u64,
    zero_run: u64,
    found: Beyond,
}

/// Looks through `from..to`. `own` is the file's present generation, whose records the caller accounts for.
pub(crate) fn survey(
    window: &mut Window,
    from: u64,
    to: u64,
    own: Option<Generation>,
) -> io::Result<Beyond> {
    let to = to.min(window.end()).max(from);
    let found = Beyond { from, to, ..Beyond::default() };
    let budget = 2 * (to - from) + 4 * READ_LEN as u64;
    let mut survey = Survey { window, own, keys: Vec::new(), budget, zero_run: 0, found };
    survey.run()?;
    survey.found.leftovers.sort_by_key(|leftover| std::cmp::Reverse(leftover.generation));
    Ok(survey.found)
}

impl Survey<'_> {
    fn run(&mut self) -> io::Result<()> {
        let (mut position, to) = (self.found.from, self.found.to);
        while position < to {
            let zeroes = self.zeroes(position)?;
            self.zero_run += zeroes;
            self.found.zero_bytes += zeroes;
            position += zeroes;
            if zeroes > 0 {
                continue;
            }
            if self.zero_run >= HEADER_LEN as u64 && self.zero_run < READ_LEN as u64 {
                self.found.holes += 1;
            }
            self.zero_run = 0;
            position = match self.leftover(position)? {
                Some(end) => end.min(to),
                None => {
                    let step = RECORD_ALIGN.min(to - position);
                    self.found.other_bytes += step;
                    position + step
                }
            };
        }
        Ok(())
    }

    /// How many whole units of zeroes stand at `position`, as far as one buffer shows.
    fn zeroes(&mut self, position: u64) -> io::Result<u64> {
        let left = usize::try_from(self.found.to - position).unwrap_or(READ_LEN);
        let bytes = self.window.bytes(position, left.min(READ_LEN))?;
        let count = bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len()) as u64;
        if bytes.is_empty() {
            self.found.to = position;
        }
        // A part of a unit counts only at the end of the range, where the unit is not whole.
        let whole = count - count % RECORD_ALIGN;
        Ok(if position + count == self.found.to { count } else { whole })
    }

    /// Accounts for the record of another use at `position`; gives where it ends.
    fn leftover(&mut self, position: u64) -> io::Result<Option<u64>> {
        let left = self.window.end() - position;
        let head = self.window.bytes(position, HEADER_LEN)?;
        let Some((key, generation)) = record::derive_key(head, position) else { return Ok(None) };
        if Some(generation) == self.own {
            self.found.own_places += 1;
            return Ok(None);
        }
        let Ok(parsed) = record::parse(head, left, key, position, generation) else {
            return Ok(None);
        };
        let known = self.keys.contains(&(generation, key));
        if !known && self.keys.len() >= USES_MAX {
            return Ok(None);
        }
        let followed = known || self.followed(position, generation, key, &parsed.header)?;
        let whole = self.body_fits(position, key, &parsed)?;
        if !followed && !whole {
            return Ok(None);
        }
        if !known {
            self.keys.push((generation, key));
        }
        let end = (position + parsed.header.record_len()).min(self.found.to);
        self.count(generation, position, end, whole);
        Ok(Some(end))
    }

    /// Whether the bytes behind a record look like the header of the same use's next record.
    fn followed(
        &mut self,
        position: u64,
        generation: Generation,
        key: Key,
        header: &RecordHeader,
    ) -> io::Result<bool> {
        let next = position + header.record_len();
        let head: [u8; HEADER_LEN] = self.window.peek(next)?;
        Ok(record::derive_key(&head, next) == Some((key, generation))
            && record::parse(&head, u64::MAX, key, next, generation)
                .is_ok_and(|next| next.header.relative.checked_sub(1) == Some(header.relative)))
    }

    /// Whether the body fits; `false` also when too much was hashed in vain already.
    fn body_fits(&mut self, position: u64, key: Key, parsed: &Parsed) -> io::Result<bool> {
        let len = parsed.header.record_len();
        let cost = if self.window.holds(position, len) { len } else { len + READ_LEN as u64 };
        let Some(rest) = self.budget.checked_sub(cost) else { return Ok(false) };
        let fits = check_body(self.window, key, parsed, position)?.is_ok();
        if !fits {
            self.budget = rest;
        }
        Ok(fits)
    }

    fn count(&mut self, generation: Generation, position: u64, end: u64, whole: bool) {
        let leftovers = &mut self.found.leftovers;
        let index = leftovers.iter().position(|known| known.generation == generation);
        let index = index.unwrap_or_else(|| {
            let (records, whole, bytes) = (0, 0, 0);
            leftovers.push(Leftover {
                generation,
                records,
                whole,
                bytes,
                first_position: position,
            });
            leftovers.len() - 1
        });
        let leftover = &mut leftovers[index];
        leftover.records += 1;
        leftover.whole += u64::from(whole);
        leftover.bytes += end - position;
    }
}
