//! Zeroes what could come back to life behind the end of a log: bytes only, no I/O.

use super::STEP;
use crate::format::record::{self, HEADER_LEN};
use crate::format::{BLOCK_LEN, Key};
use crate::planted::{self, Fault};
use crate::segment::carries_generation;
use crate::types::Generation;
use std::ops::Range;

/// Zeroes 32 bytes at every 8-byte position of `bytes` from `from` to `to`, both counted from the start of `bytes`,
/// that carry `generation` where a record's header would. Gives how many positions, and which whole blocks changed.
///
/// Of an unconfirmed batch a later record may have survived an earlier one. If it stays, it is valid again as soon as
/// the lost record's place is filled by a new record of the same length: a ghost that only a second crash shows [R].
/// And not only whole records: half of one may be made whole by what is written there next and torn in its turn [R].
pub(crate) fn headers(
    bytes: &mut [u8],
    from: usize,
    to: usize,
    generation: Generation,
    valid: impl Fn(usize, &[u8]) -> bool,
) -> (u64, Vec<Range<usize>>) {
    let (mut positions, mut changed) = (0, Vec::<Range<usize>>::new());
    for at in (from..=to).step_by(STEP) {
        let header = at..at + HEADER_LEN;
        if header.end > bytes.len() || !carries_generation(bytes, at, generation) {
            continue;
        }
        if planted::is(Fault::ZeroingOnlyValidRecords) && !valid(at, &bytes[at..]) {
            continue;
        }
        bytes[header.clone()].fill(0);
        positions += 1;
        let start = header.start / BLOCK_LEN * BLOCK_LEN;
        let end = header.end.next_multiple_of(BLOCK_LEN).min(bytes.len());
        match changed.last_mut() {
            Some(last) if last.end >= start => last.end = end.max(last.end),
            _ => changed.push(start..end),
        }
    }
    (positions, changed)
}

/// Whether `bytes` begin with a whole valid record of `position`.
pub(crate) fn whole_record(
    bytes: &[u8],
    key: Key,
    position: u64,
    generation: Generation,
    left: u64,
) -> bool {
    let Ok(parsed) = record::parse(bytes, left, key, position, generation) else { return false };
    let len = usize::try_from(parsed.header.record_len()).unwrap_or(usize::MAX);
    let body = bytes.get(HEADER_LEN..len);
    body.is_some_and(|body| record::check_body(&parsed, key, position, body).is_ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn no_position_is_left_that_carries_the_generation_and_only_changed_blocks_are_named() {
        let generation = Generation::new(0x0707).unwrap();
        for step in [2, 8, 16, 40, 4096, 5000] {
            let mut bytes = vec![1u8; 4 * BLOCK_LEN];
            for at in (0..bytes.len() - 1).step_by(step) {
                bytes[at..at + 2].fill(7);
            }
            let before = bytes.clone();
            let (from, to) = (4104, 3 * BLOCK_LEN);
            let (_, changed) = headers(&mut bytes, from, to, generation, |_, _| false);
            for at in (from..=to).step_by(8) {
                assert!(!carries_generation(&bytes, at, generation), "step {step}, at {at}");
            }
            assert_eq!(bytes[..from], before[..from]);
            for (at, (old, new)) in before.iter().zip(&bytes).enumerate() {
                assert!(old == new || changed.iter().any(|range| range.contains(&at)));
            }
        }
    }
}
