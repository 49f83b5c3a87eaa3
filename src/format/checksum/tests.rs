use super::*;
use proptest::prelude::*;

fn plainly(position: u64, bytes: &[u8]) -> u32 {
    crc32fast::hash(&[&position.to_le_bytes(), bytes].concat())
}

proptest! {
    /// Lengths up to a few wide folds with every kind of rest, and bytes that begin anywhere.
    #[test]
    fn is_the_plain_crc_of_position_and_bytes(
        bytes in proptest::collection::vec(any::<u8>(), 32..1400),
        from in 0_usize..32,
        position: u64,
    ) {
        let bytes = &bytes[from..];
        prop_assert_eq!(body(position, bytes), plainly(position, bytes));
        if let Some(head) = bytes.first_chunk::<HEADER_LEN>() {
            prop_assert_eq!(header(position, head), plainly(position, &head[4..]));
        }
    }
}

#[test]
fn every_length_to_the_third_wide_fold() {
    let bytes: Vec<u8> = (0..800_u32).map(|at| (at * 167 + 13).to_le_bytes()[0]).collect();
    for len in 0..bytes.len() {
        for position in [0, 8192, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(body(position, &bytes[..len]), plainly(position, &bytes[..len]), "{len}");
        }
    }
}

#[test]
fn the_checksum_of_a_header_leaves_out_its_own_place() {
    let mut head = [0x5a; HEADER_LEN];
    let crc = header(0x0123_4567_89ab_cdef, &head);
    head[..4].fill(0xff);
    assert_eq!(header(0x0123_4567_89ab_cdef, &head), crc);
    for at in 4..HEADER_LEN {
        head[at] ^= 1;
        assert_ne!(header(0x0123_4567_89ab_cdef, &head), crc, "byte {at}");
        head[at] ^= 1;
    }
}
