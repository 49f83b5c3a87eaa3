//! Records on their way from the input to the log: their bytes in one buffer, and where each ends.

use plimsoll::NewRecord;

/// The most payload and header bytes of a batch, one record aside that is larger by itself. Together with the records'
/// own headers it stays below the window of 2 MiB that the log sets.
pub(crate) const BYTES_MAX: usize = 1024 * 1024;
/// The most records of a batch.
pub(crate) const RECORDS_MAX: usize = 4096;

/// Some records that follow one another in the input.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// For each record: the length of its headers, and where it ends in `bytes`.
    ends: Vec<(usize, usize)>,
    first_item: u64,
}

impl Batch {
    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many records it has.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The line, or whatever the input has, of its first record.
    pub(crate) fn first_item(&self) -> u64 {
        self.first_item
    }

    /// Whether `records` more, with `bytes`, fit. An empty one takes anything.
    pub(crate) fn fits(&self, records: usize, bytes: usize) -> bool {
        self.is_empty()
            || (self.len() + records <= RECORDS_MAX && self.bytes.len() + bytes <= BYTES_MAX)
    }

    /// Adds a record, which is the `item`th of the input.
    pub(crate) fn push(&mut self, item: u64, headers: &[u8], payload: &[u8]) {
        if self.is_empty() {
            self.first_item = item;
        }
        self.bytes.extend_from_slice(headers);
        self.bytes.extend_from_slice(payload);
        self.ends.push((headers.len(), self.bytes.len()));
    }

    /// Moves all of `other`, which follows this one in the input, to the end of this one.
    pub(crate) fn absorb(&mut self, other: &mut Self) {
        if self.is_empty() {
            std::mem::swap(self, other);
        } else {
            let before = self.bytes.len();
            self.bytes.extend_from_slice(&other.bytes);
            self.ends.extend(other.ends.iter().map(|&(headers, end)| (headers, before + end)));
        }
        other.clear();
    }

    /// Empties it. What one large record took is given back to the system.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * BYTES_MAX);
        self.ends.clear();
    }

    /// How many bytes its records have.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Its records.
    pub(crate) fn records(&self) -> Vec<NewRecord<'_>> {
        let mut start = 0;
        let record = |&(headers_len, end): &(usize, usize)| {
            let (headers, payload) = self.bytes[start..end].split_at(headers_len);
            start = end;
            NewRecord { headers, payload }
        };
        self.ends.iter().map(record).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absorbing_keeps_order_and_bounds() {
        let (mut one, mut two) = (Batch::default(), Batch::default());
        one.push(7, b"h", b"a");
        one.push(8, b"", b"");
        two.push(9, b"hh", b"b");
        one.absorb(&mut two);
        assert!(two.is_empty());
        assert_eq!(one.first_item(), 7);
        let new = |headers, payload| NewRecord { headers, payload };
        assert_eq!(one.records(), [new(&b"h"[..], &b"a"[..]), new(b"", b""), new(b"hh", b"b")]);
    }

    #[test]
    fn a_batch_is_bounded_but_takes_one_record_of_any_size() {
        let mut batch = Batch::default();
        assert!(batch.fits(1, 8 << 20));
        batch.push(1, b"", &[0; 1000]);
        assert!(batch.fits(1, BYTES_MAX - 1000) && !batch.fits(1, BYTES_MAX - 999));
        assert!(batch.fits(RECORDS_MAX - 1, 0) && !batch.fits(RECORDS_MAX, 0));
    }
}
