//! One record: whatever the bytes, the parser answers and does not panic; what it takes for a record is exactly what the
//! encoder writes; and no single changed byte, no other place and no other log passes.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use plimsoll::format::record::{self, HEADER_LEN, MILLIS_MAX, RecordHeader};
use plimsoll::format::{Key, RECORD_ALIGN, RECORDS_POSITION, WINDOW, headers};
use plimsoll::types::{Generation, LogId, Offset};

#[derive(Arbitrary, Debug)]
enum Input {
    /// Any bytes, as they are.
    Bytes { place: Place, left: u64, bytes: Vec<u8> },
    /// Any bytes, with the checksums put right, so that the rules behind them are reached.
    Sealed { place: Place, left: u64, bytes: Vec<u8> },
    /// A record of the encoder's own.
    Written(Written),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct Place {
    log: [u8; 16],
    generation: u16,
    position: u32,
    base: u64,
}

impl Place {
    fn generation(self) -> Generation {
        Generation::new(self.generation).unwrap_or(Generation::FIRST)
    }

    fn key(self) -> Key {
        Key::new(LogId(self.log), self.generation(), Offset(self.base))
    }

    fn position(self) -> u64 {
        RECORDS_POSITION + u64::from(self.position) * RECORD_ALIGN
    }
}

#[derive(Arbitrary, Debug)]
struct Written {
    place: Place,
    headers: Vec<u8>,
    payload: Vec<u8>,
    unsynced: u32,
    relative: u32,
    millis: u64,
    /// Which byte is changed, and how.
    change: (u16, u8),
    /// Four bytes of the log's identity in which another log differs: so few always change the key.
    other_log: (u8, [u8; 4]),
    /// Bits of the base in which another segment differs: so few always change the key.
    other_base: u32,
    /// How far off the record is read, in places where a record may stand.
    elsewhere: u16,
}

/// The parsed record and the length it takes, if `bytes` begin with a whole valid one.
fn whole(bytes: &[u8], left: u64, key: Key, place: Place) -> Option<(RecordHeader, usize)> {
    let position = place.position();
    let parsed = record::parse(bytes, left, key, position, place.generation()).ok()?;
    let len = usize::try_from(parsed.header.record_len()).ok()?;
    let body = bytes.get(HEADER_LEN..len)?;
    record::check_body(&parsed, key, position, body).ok()?;
    Some((parsed.header, len))
}

/// What is valid is canonical: encoding the fields again gives the same bytes.
fn check_canonical(bytes: &[u8], left: u64, place: Place) {
    let key = place.key();
    let Some((header, len)) = whole(bytes, left, key, place) else { return };
    assert!(len as u64 <= left, "a record reaches over the end of its file");
    assert!(header.claim(place.position()) >= RECORDS_POSITION);
    let (head, payload) = bytes[HEADER_LEN..].split_at(header.headers_len.into());
    let payload = &payload[..header.payload_len as usize];
    let mut again = vec![0xa5; len];
    record::encode(&mut again, key, place.position(), &header, head, payload);
    assert!(again == bytes[..len], "a valid record that the encoder would not write");
}

/// Puts both checksums right.
fn seal(bytes: &mut [u8], place: Place) {
    if bytes.len() < HEADER_LEN {
        return;
    }
    let (key, position) = (place.key(), place.position());
    bytes[12..14].copy_from_slice(&place.generation().get().to_le_bytes());
    let payload_len = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize;
    let headers_len = usize::from(u16::from_le_bytes([bytes[14], bytes[15]]));
    if let Some(body) = bytes.get(HEADER_LEN..HEADER_LEN + headers_len + payload_len) {
        let mut crc = record::BodyCrc::new(key, position);
        crc.update(body);
        let crc = crc.finish().to_le_bytes();
        bytes[4..8].copy_from_slice(&crc);
    }
    // The key that fits a stored checksum of 0 is the checksum without a key.
    bytes[..4].fill(0);
    if let Some((unkeyed, _)) = record::derive_key(bytes, position) {
        bytes[..4].copy_from_slice(&(unkeyed.0 ^ key.0).to_le_bytes());
    }
}

fn check_written(input: Written) {
    let Written { place, mut headers, payload, .. } = input;
    headers.truncate(u16::MAX.into());
    let (key, position) = (place.key(), place.position());
    let before = position - RECORDS_POSITION;
    let header = RecordHeader {
        payload_len: u32::try_from(payload.len()).unwrap(),
        headers_len: u16::try_from(headers.len()).unwrap(),
        generation: place.generation(),
        // Not more than the window, nor than the bytes before: the encoder refuses that.
        unsynced: input.unsynced % (before.min(WINDOW) as u32 + 1),
        relative: input.relative,
        millis: input.millis & MILLIS_MAX,
    };
    let len = usize::try_from(record::record_len(headers.len(), payload.len())).unwrap();
    let mut bytes = vec![0xa5; len];
    record::encode(&mut bytes, key, position, &header, &headers, &payload);
    assert_eq!(whole(&bytes, len as u64, key, place), Some((header, len)), "not read back");
    assert_eq!(whole(&bytes, len as u64 - 1, key, place), None, "reaches over the end");
    let derived = record::derive_key(&bytes, position);
    assert_eq!(derived, Some((key, place.generation())), "another key fits");

    let mut other = place;
    let (at, xor) = (usize::from(input.other_log.0 % 13), input.other_log.1);
    other.log[at..at + 4].iter_mut().zip(xor).for_each(|(byte, xor)| *byte ^= xor);
    if other.log != place.log {
        let key = other.key();
        assert_eq!(whole(&bytes, len as u64, key, place), None, "a record of another log");
    }
    let other = Place { base: place.base ^ u64::from(input.other_base), ..place };
    if other.base != place.base {
        let key = other.key();
        assert_eq!(whole(&bytes, len as u64, key, place), None, "a record of another segment");
    }
    let moved = Place { position: place.position ^ u32::from(input.elsewhere), ..place };
    if moved.position != place.position {
        assert_eq!(whole(&bytes, len as u64, key, moved), None, "a record of another place");
    }
    let (at, change) = (usize::from(input.change.0) % len, input.change.1);
    if change != 0 {
        bytes[at] ^= change;
        assert_eq!(whole(&bytes, len as u64, key, place), None, "byte {at} changed unnoticed");
    }
}

fuzz_target!(|input: Input| match input {
    Input::Bytes { place, left, bytes } => {
        check_canonical(&bytes, left, place);
        let _ = headers::parse(&bytes);
    }
    Input::Sealed { place, left, mut bytes } => {
        seal(&mut bytes, place);
        check_canonical(&bytes, left, place);
    }
    Input::Written(written) => check_written(written),
});
