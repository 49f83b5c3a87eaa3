use super::{LOG, generation};
use crate::format::record::{
    HEADER_LEN, MILLIS_MAX, Parsed, RecordError, RecordHeader, check_body, derive_key, encode,
    parse, record_len,
};
use crate::format::{Key, RECORD_ALIGN, RECORDS_POSITION, WINDOW};
use crate::planted::{self, Fault};
use crate::types::{Generation, LogId, Offset};
use proptest::prelude::*;

const POSITION: u64 = RECORDS_POSITION + 4_096;
const BASE: Offset = Offset(70_000);

fn key() -> Key {
    Key::new(LOG, generation(3), BASE)
}

fn header(headers: &[u8], payload: &[u8]) -> RecordHeader {
    RecordHeader {
        payload_len: u32::try_from(payload.len()).unwrap(),
        headers_len: u16::try_from(headers.len()).unwrap(),
        generation: generation(3),
        unsynced: 4_096,
        relative: 17,
        millis: 1_767_225_600_000,
    }
}

fn encoded(
    key: Key,
    position: u64,
    header: &RecordHeader,
    headers: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = vec![0xee; usize::try_from(header.record_len()).unwrap()];
    encode(&mut bytes, key, position, header, headers, payload);
    bytes
}

fn record(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    encoded(key(), POSITION, &header(headers, payload), headers, payload)
}

/// All rules but that of the offset.
fn read(
    bytes: &[u8],
    key: Key,
    position: u64,
    generation: Generation,
) -> Result<Parsed, RecordError> {
    let parsed = parse(bytes, bytes.len() as u64, key, position, generation)?;
    let len = usize::try_from(parsed.header.record_len()).unwrap();
    check_body(&parsed, key, position, &bytes[HEADER_LEN..len])?;
    Ok(parsed)
}

fn read_here(bytes: &[u8]) -> Result<Parsed, RecordError> {
    read(bytes, key(), POSITION, generation(3))
}

/// Puts the header's checksum right.
fn sign(bytes: &mut [u8]) {
    let (wanted, _) = derive_key(bytes, POSITION).unwrap();
    let crc = u32::from_le_bytes(bytes[..4].try_into().unwrap()) ^ wanted.0 ^ key().0;
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn lengths_are_aligned_and_each_round_trips() {
    for headers_len in [0, 1, 7, 8, 65_535] {
        for payload_len in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 4_096, 70_001] {
            let (headers, payload) = (vec![1; headers_len], vec![2; payload_len]);
            let bytes = record(&headers, &payload);
            assert!((bytes.len() as u64).is_multiple_of(RECORD_ALIGN));
            assert_eq!(bytes.len() as u64, record_len(headers_len, payload_len));
            assert!(bytes.len() - (HEADER_LEN + headers_len + payload_len) < 8);
            let parsed = read_here(&bytes).unwrap();
            assert_eq!(parsed.header, header(&headers, &payload));
            assert_eq!(&bytes[32..32 + headers_len], headers);
            assert_eq!(&bytes[32 + headers_len..][..payload_len], payload);
            assert!(bytes[32 + headers_len + payload_len..].iter().all(|&byte| byte == 0));
        }
    }
}

#[test]
fn the_longest_lengths_that_the_fields_hold_do_not_overflow() {
    let longest = RecordHeader { payload_len: u32::MAX, headers_len: u16::MAX, ..header(b"", b"") };
    assert_eq!(longest.body_len(), 4_295_032_830);
    assert_eq!(longest.record_len(), 4_295_032_864);
    let mut bytes = record(b"", b"");
    bytes[8..12].fill(0xff);
    bytes[14..16].fill(0xff);
    sign(&mut bytes);
    let expected = RecordError::Length { len: 4_295_032_864, left: 32 };
    assert_eq!(read_here(&bytes), Err(expected));
}

#[test]
fn the_fields_stand_where_the_format_says() {
    let bytes = record(b"hh", b"ppp");
    let number = |at: usize, len: usize| {
        bytes[at..at + len].iter().rev().fold(0_u64, |sum, &byte| sum << 8 | u64::from(byte))
    };
    assert_eq!(number(8, 4), 3);
    assert_eq!(number(12, 2), 3);
    assert_eq!(number(14, 2), 2);
    assert_eq!(number(16, 4), 4_096);
    assert_eq!(number(20, 4), 17);
    assert_eq!(number(24, 2), 0);
    assert_eq!(number(26, 6), 1_767_225_600_000);
    // The checksums as a reader with a plain CRC32 computes them.
    let seeded = |bytes: &[u8]| crc32fast::hash(&[&POSITION.to_le_bytes(), bytes].concat());
    let plain_key = crc32fast::hash(&[&LOG.0[..], &[3, 0], &BASE.0.to_le_bytes()].concat());
    assert_eq!(number(0, 4), u64::from(seeded(&bytes[4..32]) ^ plain_key));
    assert_eq!(number(4, 4), u64::from(seeded(b"hhppp") ^ plain_key));
}

#[test]
fn i4_each_flipped_bit_makes_the_record_invalid() {
    let bytes = record(b"some headers", b"and a payload");
    assert_eq!(bytes.len(), 64, "with padding");
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let error = read_here(&damaged).unwrap_err();
            let fits = match error {
                RecordError::Generation { .. } => (12..14).contains(&at),
                RecordError::HeaderCrc { .. } => at < 12 || (14..32).contains(&at),
                RecordError::BodyCrc { .. } => (32..57).contains(&at),
                RecordError::Padding(byte) => (57..64).contains(&at) && byte == 1 << bit,
                _ => false,
            };
            assert!(fits, "byte {at}, bit {bit}: {error:?}");
        }
    }
}

#[test]
fn each_illegal_value_under_a_checksum_that_fits_is_named() {
    let window = u32::try_from(WINDOW).unwrap();
    let cases: &[(usize, &[u8], RecordError)] = &[
        (24, &[1, 0], RecordError::Flags(1)),
        (24, &[0, 0x80], RecordError::Flags(0x8000)),
        (8, &[1], RecordError::Length { len: 40, left: 32 }),
        (14, &[1], RecordError::Length { len: 40, left: 32 }),
        (16, &4_097u32.to_le_bytes(), RecordError::Unsynced(4_097)),
        (16, &(window + 8).to_le_bytes(), RecordError::Unsynced(window + 8)),
        (16, &u32::MAX.to_le_bytes(), RecordError::Unsynced(u32::MAX)),
    ];
    for (at, field, expected) in cases {
        let mut bytes = record(b"", b"");
        bytes[*at..at + field.len()].copy_from_slice(field);
        sign(&mut bytes);
        assert_eq!(read_here(&bytes), Err(*expected), "byte {at}");
    }
    // Far into a file it is the window that bounds the claim.
    let position = RECORDS_POSITION + 2 * WINDOW;
    let far = RecordHeader { unsynced: window, ..header(b"", b"") };
    let mut bytes = encoded(key(), position, &far, b"", b"");
    assert_eq!(
        read(&bytes, key(), position, generation(3)).unwrap().header.claim(position),
        position - WINDOW
    );
    bytes[16..20].copy_from_slice(&(window + 1).to_le_bytes());
    let (wanted, _) = derive_key(&bytes, position).unwrap();
    let crc = u32::from_le_bytes(bytes[..4].try_into().unwrap()) ^ wanted.0 ^ key().0;
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    let answer = read(&bytes, key(), position, generation(3));
    assert_eq!(answer, Err(RecordError::Unsynced(window + 1)));
}

#[test]
fn nothing_leftovers_and_short_are_told_apart() {
    assert_eq!(read_here(&[0; 64]), Err(RecordError::Nothing));
    assert_eq!(read_here(&record(b"", b"")[..31]), Err(RecordError::Short(31)));
    assert_eq!(read_here(&[]), Err(RecordError::Short(0)));
    let older = Key::new(LOG, generation(2), BASE);
    let left_over = RecordHeader { generation: generation(2), ..header(b"", b"x") };
    let bytes = encoded(older, POSITION, &left_over, b"", b"x");
    let expected = RecordError::Generation { found: 2, expected: 3 };
    assert_eq!(read_here(&bytes), Err(expected));
    assert!(read(&bytes, older, POSITION, generation(2)).is_ok());
}

#[test]
fn i2_a_record_moved_to_another_place_is_invalid() {
    let bytes = record(b"", b"payload");
    for position in (RECORDS_POSITION..POSITION + 8_192).step_by(8) {
        let moved = read(&bytes, key(), position, generation(3));
        assert_eq!(moved.is_ok(), position == POSITION, "{position}");
    }
    // And the check above would notice a checksum without the position.
    planted::with(Fault::CrcWithoutPosition, || {
        let bytes = record(b"", b"payload");
        assert!(read(&bytes, key(), POSITION + 8, generation(3)).is_ok());
    });
}

#[test]
fn i2_a_record_of_another_log_is_invalid() {
    let mut other = LOG;
    for bit in 0..128 {
        other.0[bit / 8] ^= 1 << (bit % 8);
        let foreign = Key::new(other, generation(3), BASE);
        let bytes = encoded(foreign, POSITION, &header(b"", b""), b"", b"");
        assert!(matches!(read_here(&bytes), Err(RecordError::HeaderCrc { .. })), "bit {bit}");
        other.0[bit / 8] ^= 1 << (bit % 8);
    }
    planted::with(Fault::CrcWithoutLogId, || {
        let foreign = Key::new(LogId([0; 16]), generation(3), BASE);
        let bytes = encoded(foreign, POSITION, &header(b"", b""), b"", b"");
        assert!(read(&bytes, Key::new(LOG, generation(3), BASE), POSITION, generation(3)).is_ok());
    });
}

/// Two segments of one log may have the same generation, and records in the same places with the same relative offsets.
#[test]
fn i2_a_record_of_another_segment_of_the_log_is_invalid() {
    let others = (0..64).map(|bit| BASE.0 ^ 1 << bit).chain([0, u64::MAX]);
    for other in others {
        let foreign = Key::new(LOG, generation(3), Offset(other));
        let bytes = encoded(foreign, POSITION, &header(b"", b"x"), b"", b"x");
        assert!(matches!(read_here(&bytes), Err(RecordError::HeaderCrc { .. })), "base {other}");
        assert!(read(&bytes, foreign, POSITION, generation(3)).is_ok());
    }
}

#[test]
fn i2_i7_a_record_of_another_generation_is_invalid() {
    for raw in (1..=u16::MAX).filter(|&raw| raw != 3) {
        let other = RecordHeader { generation: generation(raw), ..header(b"", b"") };
        let mut bytes = encoded(Key::new(LOG, generation(raw), BASE), POSITION, &other, b"", b"");
        let expected = RecordError::Generation { found: raw, expected: 3 };
        assert_eq!(read_here(&bytes), Err(expected));
        // Also when only its field says this generation: the key has the generation in it.
        bytes[12..14].copy_from_slice(&[3, 0]);
        assert!(matches!(read_here(&bytes), Err(RecordError::HeaderCrc { .. })));
    }
}

#[test]
fn i2_a_record_inside_a_payload_is_none() {
    let inner = record(b"", b"looks like a record");
    let outer = record(b"", &inner);
    for at in (8..outer.len() - HEADER_LEN).step_by(8) {
        let position = POSITION + at as u64;
        assert!(read(&outer[at..], key(), position, generation(3)).is_err(), "{at}");
    }
}

#[test]
fn a_key_derived_from_a_record_is_proved_by_its_body() {
    for (headers, payload) in [(&b""[..], &b""[..]), (b"h", b"payload")] {
        let mut bytes = record(headers, payload);
        assert_eq!(derive_key(&bytes, POSITION), Some((key(), generation(3))));
        let last = bytes.len() - 8;
        bytes[last] ^= 1; // a header field, or the payload
        let (wrong, _) = derive_key(&bytes, POSITION).unwrap();
        assert!(read(&bytes, wrong, POSITION, generation(3)).is_err());
    }
    assert_eq!(derive_key(&[0; 32], POSITION), None);
    assert_eq!(derive_key(&record(b"", b"")[..31], POSITION), None);
}

#[test]
fn a_stamp_that_does_not_fit_is_stored_as_the_largest() {
    for (millis, stored) in [(0, 0), (MILLIS_MAX, MILLIS_MAX), (u64::MAX, MILLIS_MAX)] {
        let stamped = RecordHeader { millis, ..header(b"", b"") };
        let bytes = encoded(key(), POSITION, &stamped, b"", b"");
        assert_eq!(read_here(&bytes).unwrap().header.millis, stored);
    }
}

#[test]
#[should_panic(expected = "a record starts within the window")]
fn a_record_that_no_reader_would_find_is_not_written() {
    let lost = RecordHeader { unsynced: u32::try_from(WINDOW).unwrap() + 8, ..header(b"", b"") };
    encoded(key(), RECORDS_POSITION + 2 * WINDOW, &lost, b"", b"");
}

#[test]
#[should_panic(expected = "length of the payload")]
fn a_record_with_a_wrong_length_is_not_written() {
    let wrong = RecordHeader { payload_len: 1, ..header(b"", b"") };
    let mut out = vec![0; 32];
    encode(&mut out, key(), POSITION, &wrong, b"", b"");
}

proptest! {
    #[test]
    fn records_round_trip(
        headers in prop::collection::vec(any::<u8>(), 0..200),
        payload in prop::collection::vec(any::<u8>(), 0..2_000),
        (place, raw, relative, unsynced, millis) in
            (0_u64..1 << 20, 1_u16.., any::<u32>(), any::<u32>(), 0..=MILLIS_MAX),
        (log, base) in any::<([u8; 16], u64)>(),
    ) {
        let position = RECORDS_POSITION + place * RECORD_ALIGN;
        let most = (position - RECORDS_POSITION).min(WINDOW);
        let unsynced = u32::try_from(u64::from(unsynced) % (most + 1)).unwrap();
        let generation = generation(raw);
        let header = RecordHeader {
            generation, unsynced, relative, millis, ..header(&headers, &payload)
        };
        let key = Key::new(LogId(log), generation, Offset(base));
        let bytes = encoded(key, position, &header, &headers, &payload);
        let parsed = read(&bytes, key, position, generation).unwrap();
        prop_assert_eq!(parsed.header, header);
        prop_assert_eq!(derive_key(&bytes, position), Some((key, generation)));
    }

    /// Random bytes, some with the right generation, at any place and with any length left.
    #[test]
    fn parsing_never_panics(
        mut bytes in prop::collection::vec(any::<u8>(), 0..128),
        right_generation in any::<bool>(),
        position in any::<u64>(),
        left in any::<u64>(),
    ) {
        if right_generation && bytes.len() > 13 {
            bytes[12..14].copy_from_slice(&[3, 0]);
        }
        prop_assert!(parse(&bytes, left, key(), position, generation(3)).is_err());
    }

    /// The same with a checksum that fits, so that every rule behind it is reached.
    #[test]
    fn parsing_never_panics_on_signed_fields(
        mut bytes in prop::collection::vec(any::<u8>(), 32),
        left in any::<u64>(),
        no_flags in any::<bool>(),
        position in any::<u64>(),
    ) {
        bytes[12..14].copy_from_slice(&[3, 0]);
        if no_flags {
            bytes[24..26].fill(0);
        }
        let (derived, found) = derive_key(&bytes, position).unwrap();
        match parse(&bytes, left, derived, position, found) {
            Ok(parsed) => {
                prop_assert!(parsed.header.record_len() <= left);
                prop_assert!(parsed.header.claim(position) >= RECORDS_POSITION);
            }
            Err(error) => {
                use RecordError::{Flags, Length, Unsynced};
                let late = matches!(error, Flags(_) | Length { .. } | Unsynced(_));
                prop_assert!(late, "{:?}", error);
            }
        }
    }
}
