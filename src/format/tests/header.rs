use super::{LOG, generation, sign};
use crate::format::header::{Header, HeaderError, InUse, MAGIC, Origin};
use crate::format::{BLOCK_LEN, CAPACITY_MAX, NO_BASE, SECTOR_LEN};
use crate::planted::{self, Fault};
use crate::types::{Offset, SizeClass};
use proptest::prelude::*;

fn in_use() -> Header {
    Header {
        generation: generation(7),
        class: SizeClass::Small,
        capacity: 65_536,
        created_millis: 1_767_225_600_000,
        in_use: Some(InUse {
            log: LOG,
            base: Offset(1_000),
            previous_end: Offset(1_000),
            previous_millis: 1_767_225_599_000,
            origin: Origin::Heal,
        }),
    }
}

fn spare() -> Header {
    Header { in_use: None, ..in_use() }
}

/// The block with `bytes` at `at` and a checksum that fits.
fn with(header: &Header, at: usize, bytes: &[u8]) -> [u8; BLOCK_LEN] {
    let mut block = header.encode();
    block[at..at + bytes.len()].copy_from_slice(bytes);
    sign(&mut block);
    block
}

#[test]
fn what_is_written_is_read_and_one_sector_is_enough() {
    let with_gap = |previous_end| {
        let old = in_use().in_use.unwrap();
        let gap = InUse { previous_end: Offset(previous_end), origin: Origin::Repair, ..old };
        Header { in_use: Some(gap), ..in_use() }
    };
    for header in [in_use(), spare(), with_gap(0), with_gap(999), with_gap(1_000)] {
        let block = header.encode();
        assert_eq!(Header::parse(&block), Ok(header));
        assert_eq!(Header::parse(&block[..SECTOR_LEN]), Ok(header));
        assert!(block[SECTOR_LEN..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn i4_every_flipped_bit_in_the_sector_is_noticed() {
    for header in [in_use(), spare()] {
        let block = header.encode();
        for at in 0..SECTOR_LEN {
            for bit in 0..8 {
                let mut damaged = block;
                damaged[at] ^= 1 << bit;
                match Header::parse(&damaged) {
                    Err(HeaderError::Magic(_)) if at < 8 => {}
                    Err(HeaderError::Crc { .. }) if at >= 8 => {}
                    other => panic!("byte {at}, bit {bit}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn bytes_behind_the_sector_do_not_count() {
    let mut block = in_use().encode();
    block[SECTOR_LEN..].fill(0xff);
    assert_eq!(Header::parse(&block), Ok(in_use()));
}

#[test]
fn case_I2_a_header_cut_at_each_byte_is_short() {
    let block = in_use().encode();
    for len in 0..SECTOR_LEN {
        assert_eq!(Header::parse(&block[..len]), Err(HeaderError::Short(len)));
    }
}

#[test]
fn case_I2_zeroes_are_told_from_damage() {
    assert_eq!(Header::parse(&[0; BLOCK_LEN]), Err(HeaderError::Zero));
    let mut block = [0; BLOCK_LEN];
    block[511] = 1;
    assert_eq!(Header::parse(&block), Err(HeaderError::Magic([0; 8])));
    // Zero is what stands in the sector; what a torn write left behind it does not count.
    block[511] = 0;
    block[512] = 1;
    assert_eq!(Header::parse(&block), Err(HeaderError::Zero));
}

#[test]
fn each_illegal_value_is_answered_with_field_place_and_value() {
    let field = |at, field, found, expected| HeaderError::Field { at, field, found, expected };
    let all = NO_BASE.to_le_bytes();
    let capacity = "a multiple of 4096, 12288 to 4294967296";
    let cases: &[(Header, usize, &[u8], HeaderError)] = &[
        (in_use(), 8, &[0, 0], field(8, "layout version", 0, "1")),
        (in_use(), 8, &[2, 0], HeaderError::Newer(2)),
        (in_use(), 8, &[0xff, 0xff], HeaderError::Newer(65_535)),
        (in_use(), 10, &[0], field(10, "state", 0, "1 or 2")),
        (in_use(), 10, &[3], field(10, "state", 3, "1 or 2")),
        (in_use(), 11, &[0], field(11, "size class", 0, "1 to 3")),
        (in_use(), 11, &[4], field(11, "size class", 4, "1 to 3")),
        (in_use(), 12, &[0, 0], field(12, "generation", 0, "1 to 65535")),
        (in_use(), 14, &[0], field(14, "origin", 0, "1 to 3")),
        (in_use(), 14, &[4], field(14, "origin", 4, "1 to 3")),
        (in_use(), 15, &[1], field(15, "reserved", 1, "0")),
        (in_use(), 23, &[9], field(23, "reserved", 9, "0")),
        (in_use(), 24, &8_192u64.to_le_bytes(), field(24, "capacity", 8_192, capacity)),
        (in_use(), 24, &12_289u64.to_le_bytes(), field(24, "capacity", 12_289, capacity)),
        (in_use(), 24, &[0; 8], field(24, "capacity", 0, capacity)),
        (in_use(), 24, &all, field(24, "capacity", u64::MAX, capacity)),
        (
            in_use(),
            24,
            &(CAPACITY_MAX + 4_096).to_le_bytes(),
            field(24, "capacity", CAPACITY_MAX + 4_096, capacity),
        ),
        (in_use(), 40, &all, field(40, "base offset", NO_BASE, "below all ones in a file in use")),
        (
            in_use(),
            48,
            &1_001u64.to_le_bytes(),
            field(48, "previous end", 1_001, "at most the base offset"),
        ),
        (
            in_use(),
            48,
            &999u64.to_le_bytes(),
            field(48, "previous end", 999, "the base offset, no repair made this"),
        ),
        (in_use(), 80, &[1], field(80, "reserved", 1, "0")),
        (in_use(), 507, &[0x80], field(507, "reserved", 0x80, "0")),
        (spare(), 14, &[1], field(14, "origin", 1, "0 in a spare")),
        (spare(), 40, &[0; 8], field(40, "base offset", 0, "all ones in a spare")),
        (spare(), 48, &[0; 8], field(48, "previous end", 0, "all ones in a spare")),
        (spare(), 56, &[5], field(56, "previous millis", 5, "0 in a spare")),
        (spare(), 79, &[6], field(64, "log id", 6, "0 in a spare")),
    ];
    for (header, at, bytes, expected) in cases {
        let answer = Header::parse(&with(header, *at, bytes)).unwrap_err();
        assert_eq!(answer, *expected, "byte {at}: {bytes:02x?}");
        if let HeaderError::Field { at, field, found, expected } = answer {
            let text = answer.to_string();
            assert_eq!(text, format!("offset {at}, {field}: found {found}, expected {expected}"));
        }
    }
}

#[test]
fn legal_extremes_are_read() {
    for capacity in [12_288, CAPACITY_MAX] {
        let header = Header { capacity, generation: generation(u16::MAX), ..in_use() };
        assert_eq!(Header::parse(&header.encode()), Ok(header));
    }
    let last = Offset(NO_BASE - 1);
    let extreme = InUse {
        log: crate::types::LogId([0; 16]),
        base: last,
        previous_end: last,
        previous_millis: u64::MAX,
        origin: Origin::Roll,
    };
    let header = Header { in_use: Some(extreme), created_millis: u64::MAX, ..in_use() };
    assert_eq!(Header::parse(&header.encode()), Ok(header));
}

#[test]
fn an_error_knows_where_the_field_stands() {
    let damaged = |at: usize| {
        let mut block = in_use().encode();
        block[at] ^= 1;
        Header::parse(&block).unwrap_err().position()
    };
    assert_eq!((damaged(0), damaged(100)), (0, 508));
    assert_eq!(Header::parse(&with(&in_use(), 11, &[9])).unwrap_err().position(), 11);
    assert_eq!(Header::parse(&with(&in_use(), 8, &[9])).unwrap_err().position(), 8);
}

#[test]
fn the_magic_is_no_text_and_breaks_when_line_ends_are_changed() {
    assert!(std::str::from_utf8(&MAGIC).is_err());
    assert!(MAGIC.ends_with(b"\r\n"));
}

#[test]
fn a_parser_that_skips_the_checksum_is_noticed() {
    let mut block = in_use().encode();
    block[32] ^= 1; // the creation time, where every value is legal
    assert!(Header::parse(&block).is_err());
    planted::with(Fault::HeaderCrcNotChecked, || assert!(Header::parse(&block).is_ok()));
}

proptest! {
    #[test]
    fn random_bytes_are_never_a_header(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(Header::parse(&bytes).is_err());
    }

    /// Damage under a checksum that fits: whatever is accepted is written back with the same bytes.
    #[test]
    fn what_is_accepted_is_what_would_be_written(
        spare_first in any::<bool>(),
        changes in prop::collection::vec((8_usize..508, any::<u8>()), 0..6),
    ) {
        let mut block = if spare_first { spare() } else { in_use() }.encode();
        for (at, byte) in changes {
            block[at] = byte;
        }
        sign(&mut block);
        if let Ok(header) = Header::parse(&block) {
            prop_assert_eq!(&header.encode()[..], &block[..]);
        }
    }
}
