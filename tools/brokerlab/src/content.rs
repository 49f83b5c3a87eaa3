//! Payloads that name their message and cannot be mistaken for another's.

use bytes::Bytes;

/// The shortest payload.
pub const LEAST: usize = 32;

/// The payload of message `slot` of run `run`: its number in text, and bytes that follow from it; text or binary, by its
/// number.
#[must_use]
pub fn payload(run: u64, slot: u64, len: usize) -> Bytes {
    let mut bytes = format!("{run:08x}:{slot:012}:").into_bytes();
    let mut chance = fastrand::Rng::with_seed(run ^ slot.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let binary = slot % 3 == 1;
    while bytes.len() < len.max(LEAST) {
        bytes.push(if binary { chance.u8(..) } else { chance.u8(b' '..=b'~') });
    }
    bytes.into()
}

/// The number that a payload names, if it is, byte for byte, a payload of this run.
#[must_use]
pub fn slot_of(run: u64, bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes.get(..22)?).ok()?;
    let (said, slot) = text.strip_suffix(':')?.split_once(':')?;
    let slot = slot.parse().ok()?;
    let same =
        u64::from_str_radix(said, 16).ok()? == run && payload(run, slot, bytes.len()) == bytes;
    same.then_some(slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_names_its_message_and_a_changed_one_none() {
        for (slot, len) in [(0, 0), (1, 100), (2, 5000), (999_999_999_999, 64)] {
            let bytes = payload(7, slot, len);
            assert_eq!(bytes.len(), len.max(LEAST));
            assert_eq!(slot_of(7, &bytes), Some(slot));
            assert_eq!(slot_of(8, &bytes), None);
            for at in [0, 10, 25, bytes.len() - 1] {
                let mut other = bytes.to_vec();
                other[at] ^= 1;
                assert_eq!(slot_of(7, &other), None, "byte {at} changed");
            }
        }
        assert_eq!(slot_of(7, b"short"), None);
    }
}
