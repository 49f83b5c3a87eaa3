//! Binary records: a length, `u32` little-endian, then the payload.

use super::decode::{Decoder, Sink, Wrong, payload_max};
use crate::failure::Failure;

const PREFIX_LEN: usize = 4;

/// Takes length-prefixed records apart.
#[derive(Debug, Default)]
pub(crate) struct Prefixed {
    /// The begin of a record whose end has not come yet, its length included.
    partial: Vec<u8>,
    /// Where `partial` begins in the input.
    position: u64,
    records: u64,
}

impl Decoder for Prefixed {
    fn feed(&mut self, mut bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), Wrong> {
        if !self.partial.is_empty() {
            let missing = self.fill(&mut bytes, PREFIX_LEN);
            if missing > 0 {
                return Ok(());
            }
            let len = self.checked_len(&self.partial)?;
            if self.fill(&mut bytes, PREFIX_LEN + len) > 0 {
                return Ok(());
            }
            sink.push(self.records + 1, &[], &self.partial[PREFIX_LEN..])?;
            self.advance(len);
            self.partial.clear();
            self.partial.shrink_to(1024 * 1024);
        }
        while bytes.len() >= PREFIX_LEN {
            let len = self.checked_len(bytes)?;
            let Some(payload) = bytes.get(PREFIX_LEN..PREFIX_LEN + len) else { break };
            sink.push(self.records + 1, &[], payload)?;
            self.advance(len);
            bytes = &bytes[PREFIX_LEN + len..];
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self, _: &mut Sink<'_>) -> Result<(), Wrong> {
        let have = self.partial.len();
        if have == 0 {
            return Ok(());
        }
        let found = if have < PREFIX_LEN {
            format!("the input ends after {have} of the 4 bytes of a length")
        } else {
            let len = self.checked_len(&self.partial)?;
            format!("the input ends after {} of {len} bytes of payload", have - PREFIX_LEN)
        };
        Err(self.wrong(&found).into())
    }
}

impl Prefixed {
    /// Moves bytes into `partial` until it has `want`; gives how many are missing.
    fn fill(&mut self, bytes: &mut &[u8], want: usize) -> usize {
        let take = want.saturating_sub(self.partial.len()).min(bytes.len());
        self.partial.extend_from_slice(&bytes[..take]);
        *bytes = &bytes[take..];
        want.saturating_sub(self.partial.len())
    }

    /// The length at the begin of `bytes`, checked before anything of that size is held in memory.
    fn checked_len(&self, bytes: &[u8]) -> Result<usize, Failure> {
        let len =
            bytes.iter().take(PREFIX_LEN).rev().fold(0u64, |len, &byte| len << 8 | u64::from(byte));
        let max = payload_max();
        match usize::try_from(len) {
            Ok(len) if len <= max => Ok(len),
            _ => {
                let found = format!("length: found {len}, expected at most {max}");
                Err(self
                    .wrong(&found)
                    .with("field", "length")
                    .with("value", len)
                    .with("max_bytes", max))
            }
        }
    }

    fn advance(&mut self, len: usize) {
        self.records += 1;
        self.position += (PREFIX_LEN + len) as u64;
    }

    fn wrong(&self, found: &str) -> Failure {
        let (position, record) = (self.position, self.records + 1);
        Failure::usage(format!("standard input, byte {position} (record {record}): {found}"))
            .with("position", position)
            .with("record", record)
    }
}

#[cfg(test)]
mod tests {
    use super::super::handover::{Handover, Taken};
    use super::*;

    fn decode(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Option<String>) {
        let handover = Handover::default();
        let mut sink = Sink::new(&handover);
        let mut decoder = Prefixed::default();
        let mut result = Ok(());
        for piece in pieces {
            result = result.and_then(|()| decoder.feed(piece, &mut sink));
        }
        let message = match result.and_then(|()| decoder.finish(&mut sink)) {
            Ok(()) => None,
            Err(Wrong::Input(failure)) => Some(failure.message().to_owned()),
            Err(Wrong::Unwanted) => unreachable!("the test takes all"),
        };
        sink.flush().unwrap();
        handover.end(Ok(()));
        let Taken::Batch(batch) = handover.take(Default::default()) else {
            return (Vec::new(), message);
        };
        (batch.records().iter().map(|record| record.payload.to_vec()).collect(), message)
    }

    #[test]
    fn records_come_whole_however_the_input_is_cut() {
        let input = b"\x03\0\0\0one\0\0\0\0\x05\0\0\0three";
        let expected: [&[u8]; 3] = [b"one", b"", b"three"];
        for first in 0..=input.len() {
            for second in first..=input.len() {
                let (records, message) =
                    decode(&[&input[..first], &input[first..second], &input[second..]]);
                assert_eq!(records, expected, "cut at {first} and {second}");
                assert_eq!(message, None);
            }
        }
    }

    #[test]
    fn a_cut_input_and_a_length_that_no_record_has_are_named_with_their_place() {
        let cases: [(&[u8], &str); 4] = [
            (
                b"\x01\0\0\0a\x02\0",
                "byte 5 (record 2): the input ends after 2 of the 4 bytes of a length",
            ),
            (b"\x04\0\0\0ab", "byte 0 (record 1): the input ends after 2 of 4 bytes of payload"),
            (b"\x04\0\0\0", "byte 0 (record 1): the input ends after 0 of 4 bytes of payload"),
            (
                b"\xff\xff\xff\xff",
                "byte 0 (record 1): length: found 4294967295, expected at most 8388576",
            ),
        ];
        for (input, expected) in cases {
            let message = decode(&[input]).1.unwrap();
            assert!(message.contains(expected), "{message}");
        }
        assert_eq!(decode(&[b"\x01\0\0\0a\x02\0"]).0, [b"a"]);
    }
}
