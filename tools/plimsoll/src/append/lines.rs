//! Lines: bytes up to a newline.

use super::decode::{Decoder, Sink, Wrong, payload_max};
use crate::failure::Failure;
use crate::numbers::thousands;

/// Takes lines apart.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    splitter: Splitter,
}

impl Decoder for Lines {
    fn feed(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), Wrong> {
        self.splitter.feed(bytes, payload_max(), |number, line| sink.push(number, &[], line))
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Wrong> {
        self.splitter.finish(|number, line| sink.push(number, &[], line))
    }
}

/// Splits pieces of input at newlines.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    /// The begin of a line whose end has not come yet.
    partial: Vec<u8>,
    lines: u64,
}

impl Splitter {
    /// Gives each line that is complete to `take`, with its number from 1. A line longer than `len_max` is refused before
    /// it is held in memory.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        len_max: usize,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            let piece = &bytes[start..end];
            start = end + 1;
            self.check_len(piece.len(), len_max)?;
            self.lines += 1;
            if self.partial.is_empty() {
                take(self.lines, piece)?;
            } else {
                self.partial.extend_from_slice(piece);
                take(self.lines, &self.partial)?;
                self.partial.clear();
                self.partial.shrink_to(1024 * 1024);
            }
        }
        let rest = &bytes[start..];
        self.check_len(rest.len(), len_max)?;
        self.partial.extend_from_slice(rest);
        Ok(())
    }

    /// Gives a last line that has no newline.
    pub(crate) fn finish(
        &mut self,
        mut take: impl FnMut(u64, &[u8]) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        if self.partial.is_empty() {
            return Ok(());
        }
        self.lines += 1;
        take(self.lines, &self.partial)
    }

    fn check_len(&self, more: usize, len_max: usize) -> Result<(), Wrong> {
        if self.partial.len() + more <= len_max {
            return Ok(());
        }
        let line = self.lines + 1;
        let sentence = format!(
            "standard input, line {line}: longer than {} bytes, the most that a record can hold",
            thousands(len_max as u64)
        );
        Err(Failure::usage(sentence).with("line", line).with("max_bytes", len_max).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&[u8]], len_max: usize) -> (Vec<Vec<u8>>, Option<String>) {
        let mut out = Vec::new();
        let mut splitter = Splitter::default();
        let mut take = |number: u64, line: &[u8]| {
            out.push(line.to_vec());
            assert_eq!(number, out.len() as u64);
            Ok(())
        };
        let mut result = Ok(());
        for piece in pieces {
            result = result.and_then(|()| splitter.feed(piece, len_max, &mut take));
        }
        let result = result.and_then(|()| splitter.finish(&mut take));
        let message = match result {
            Ok(()) => None,
            Err(Wrong::Input(failure)) => Some(failure.message().to_owned()),
            Err(Wrong::Unwanted) => unreachable!("the test takes all"),
        };
        (out, message)
    }

    #[test]
    fn a_line_is_what_stands_before_a_newline_however_the_input_is_cut() {
        let input = b"one\n\n\xff\x00\r\nlast";
        let expected: [&[u8]; 4] = [b"one", b"", b"\xff\x00\r", b"last"];
        for cut in 0..=input.len() {
            let (lines, message) = split(&[&input[..cut], &input[cut..]], 100);
            assert_eq!(lines, expected, "cut at {cut}");
            assert_eq!(message, None);
        }
        assert_eq!(split(&[b""], 1).0.len(), 0);
        assert_eq!(split(&[b"\n"], 1).0, [b""]);
    }

    #[test]
    fn a_line_that_is_too_long_is_named_and_the_ones_before_it_are_kept() {
        let (lines, message) = split(&[b"ab\nabc", b"d"], 3);
        assert_eq!(lines, [b"ab"]);
        assert!(message.unwrap().contains("line 2: longer than 3 bytes"));
        assert_eq!(split(&[b"abc\n"], 3).1, None);
    }
}
