//! One segment file: a walk gives the records that were written, up to the first changed byte and no further, however the
//! reads are cut up and wherever the walk begins; over any bytes at all it ends, and inside the file.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use plimsoll::format::checkpoint::Checkpoint;
use plimsoll::format::header::{Header, InUse, Origin};
use plimsoll::format::record::{self, MILLIS_MAX, RecordHeader};
use plimsoll::format::{BLOCK_LEN, Key, RECORD_ALIGN, RECORDS_POSITION, SECTOR_LEN};
use plimsoll::segment::{Step, Walker};
use plimsoll::types::{Generation, LogId, Offset, SizeClass};
use plimsoll_fuzz::MemoryFile;

#[derive(Arbitrary, Debug)]
struct Input {
    log: [u8; 16],
    generation: u16,
    base: u64,
    /// A byte of the header's sector, and how it is changed.
    header_change: (u16, u8),
    cut: Cut,
    file: Contents,
}

/// How the file is read.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Cut {
    transfer: u8,
    read_ahead: u16,
    /// How far the walk believes the file to reach beyond its true end.
    beyond: u8,
}

#[derive(Arbitrary, Debug)]
enum Contents {
    /// Records, perhaps with one byte changed, then anything.
    Written { records: Vec<Written>, change: Option<(u32, u8)>, resume: u8, tail: Tail },
    /// Any bytes as header and checkpoint, their checksums put right, and any bytes behind them.
    Bytes { header: Vec<u8>, checkpoint: Vec<u8>, rest: Vec<u8> },
}

#[derive(Arbitrary, Debug)]
struct Written {
    headers: Vec<u8>,
    payload: Vec<u8>,
    unsynced: u16,
    millis: u64,
}

/// What stands behind the last record.
#[derive(Arbitrary, Debug)]
enum Tail {
    Nothing,
    Zeroes(u16),
    Bytes(Vec<u8>),
    /// Records of the use before, at their true places and with the offsets that come next.
    EarlierUse(u8),
    /// Records of another log with the same generation, at their true places and with the offsets that come next.
    OtherLog(u8),
    /// A record of this log and use with the offset that comes next, from another place.
    Moved(u8),
}

fn append(
    file: &mut Vec<u8>,
    key: Key,
    generation: Generation,
    relative: u32,
    record: &Written,
) -> std::ops::Range<u64> {
    let position = file.len() as u64;
    let headers = &record.headers[..record.headers.len().min(u16::MAX.into())];
    let header = RecordHeader {
        payload_len: record.payload.len() as u32,
        headers_len: headers.len() as u16,
        generation,
        unsynced: u32::from(record.unsynced).min((position - RECORDS_POSITION) as u32),
        relative,
        millis: record.millis & MILLIS_MAX,
    };
    let len = record::record_len(headers.len(), record.payload.len());
    file.resize((position + len) as usize, 0xa5);
    let out = &mut file[position as usize..];
    record::encode(out, key, position, &header, headers, &record.payload);
    position..position + len
}

/// All that a walk gives: position and offset of each record, with its bytes.
fn walk(
    file: &MemoryFile,
    log: LogId,
    header: &Header,
    base: Offset,
    from: (u64, Offset),
    end: u64,
    read_ahead: usize,
) -> Vec<(u64, Offset, Vec<u8>, Vec<u8>)> {
    let mut walker = Walker::new(file, log, header, base, from, end).read_ahead(read_ahead);
    let mut found = Vec::new();
    loop {
        let before = walker.position();
        match walker.step().expect("a file in memory does not fail") {
            Step::Record(record) => {
                let bytes = (record.headers.to_vec(), record.payload.to_vec());
                found.push((record.position, record.offset, bytes.0, bytes.1));
            }
            Step::Stop(_) => break,
        }
        assert!(
            walker.position() > before && walker.position() <= end,
            "walks on, inside the file"
        );
        assert!(walker.position().is_multiple_of(RECORD_ALIGN));
    }
    assert_eq!(walker.next_offset(), from.1.plus(found.len() as u64));
    found
}

fn check_written(
    input: &Input,
    records: &[Written],
    change: Option<(u32, u8)>,
    resume: u8,
    tail: &Tail,
) {
    let log = LogId(input.log);
    let generation = Generation::new(input.generation).unwrap_or(Generation::FIRST);
    let base = Offset(input.base >> 1);
    let header = Header {
        generation,
        class: SizeClass::Tiny,
        capacity: 64 * 1024,
        created_millis: 0,
        in_use: Some(InUse {
            log,
            base,
            previous_end: base,
            previous_millis: 0,
            origin: Origin::Roll,
        }),
    };
    check_header(&header, input.header_change);
    let key = Key::new(log, generation, base);
    let mut file = header.encode().to_vec();
    file.resize(RECORDS_POSITION as usize, 0);
    let places: Vec<_> = records
        .iter()
        .zip(0..)
        .map(|(record, relative)| append(&mut file, key, generation, relative, record))
        .collect();
    let written = file.len();
    let empty = Written { headers: vec![], payload: vec![7; 9], unsynced: 0, millis: 1 };
    let mut next = places.len() as u32;
    // Nothing behind the last record may be taken for one, except where random bytes are.
    let mut exact = true;
    match tail {
        Tail::Nothing => {}
        Tail::Zeroes(count) => file.resize(written + usize::from(*count), 0),
        Tail::Bytes(bytes) => {
            file.extend_from_slice(bytes);
            exact = false;
        }
        Tail::EarlierUse(count) => {
            if let Some(earlier) = generation.get().checked_sub(1).and_then(Generation::new) {
                for _ in 0..*count {
                    append(&mut file, Key::new(log, earlier, base), earlier, next, &empty);
                    next += 1;
                }
            }
        }
        Tail::OtherLog(count) => {
            let mut other = log;
            other.0[3] ^= 0x40;
            for _ in 0..*count {
                append(&mut file, Key::new(other, generation, base), generation, next, &empty);
                next += 1;
            }
        }
        Tail::Moved(by) => {
            let mut elsewhere = file.clone();
            elsewhere.resize(written + (usize::from(*by) + 1) * RECORD_ALIGN as usize, 0);
            let place = append(&mut elsewhere, key, generation, next, &empty);
            file.extend_from_slice(&elsewhere[place.start as usize..]);
        }
    }
    let mut good = places.len();
    if let Some((at, xor)) = change
        && xor != 0
        && written > RECORDS_POSITION as usize
    {
        let at = RECORDS_POSITION as usize + at as usize % (written - RECORDS_POSITION as usize);
        file[at] ^= xor;
        good = places.iter().take_while(|place| place.end <= at as u64).count();
        exact = true;
    }
    let end = file.len() as u64 + u64::from(input.cut.beyond);
    let file = MemoryFile::new(file, input.cut.transfer.into());
    let start = (RECORDS_POSITION, base);
    let found = walk(&file, log, &header, base, start, end, input.cut.read_ahead.into());
    assert!(found.len() >= good, "a record is missing");
    assert!(!exact || found.len() == good, "a record too many");
    for (index, (found, place)) in found.iter().zip(&places).enumerate() {
        let Written { headers, payload, .. } = &records[index];
        let headers = &headers[..headers.len().min(u16::MAX.into())];
        assert_eq!((found.0, found.1), (place.start, base.plus(index as u64)));
        assert!(found.2 == headers && found.3 == *payload, "other bytes");
    }
    let whole = walk(&file, log, &header, base, start, end, 1 << 20);
    assert_eq!(found, whole, "read-ahead changes what is found");
    if let Some(resumed) = found.get(usize::from(resume)) {
        let from = (resumed.0, resumed.1);
        let rest = walk(&file, log, &header, base, from, end, 512);
        assert_eq!(found[usize::from(resume)..], rest, "the start changes what is found");
    }
}

/// A header is read back, and no single changed byte of it passes.
fn check_header(header: &Header, (at, xor): (u16, u8)) {
    let mut block = header.encode();
    assert_eq!(Header::parse(&block), Ok(*header));
    if xor != 0 {
        let at = usize::from(at) % SECTOR_LEN;
        block[at] ^= xor;
        assert!(Header::parse(&block).is_err(), "byte {at} of the header changed unnoticed");
    }
}

/// `bytes` as one block, with the checksum at the end of its first sector put right.
fn block(bytes: &[u8]) -> Vec<u8> {
    let mut block = bytes.to_vec();
    block.resize(BLOCK_LEN, 0);
    let crc = crc32(&block[..SECTOR_LEN - 4]);
    block[SECTOR_LEN - 4..SECTOR_LEN].copy_from_slice(&crc.to_le_bytes());
    block
}

/// CRC-32 (ISO-HDLC), bit by bit: a second opinion on the one that the format uses.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 }
        })
    })
}

fn check_bytes(input: &Input, header: &[u8], checkpoint: &[u8], rest: &[u8]) {
    let _ = Header::parse(header);
    let _ = Checkpoint::parse(checkpoint);
    let (header, checkpoint) = (block(header), block(checkpoint));
    if let Some(parsed) = Checkpoint::parse(&checkpoint) {
        assert_eq!(Checkpoint::parse(&parsed.encode()), Some(parsed));
    }
    let Ok(parsed) = Header::parse(&header) else { return };
    assert_eq!(Header::parse(&parsed.encode()), Ok(parsed));
    if parsed.in_use.is_some() {
        let again = parsed.encode();
        assert!(again[..SECTOR_LEN] == header[..SECTOR_LEN], "a header that no release writes");
    }
    let Some(in_use) = parsed.in_use else { return };
    let file = [&header, &checkpoint, rest].concat();
    let end = file.len() as u64 + u64::from(input.cut.beyond);
    let file = MemoryFile::new(file, input.cut.transfer.into());
    let read_ahead = input.cut.read_ahead.into();
    let from = (RECORDS_POSITION, in_use.base);
    walk(&file, in_use.log, &parsed, in_use.base, from, end, read_ahead);
}

fuzz_target!(|input: Input| match &input.file {
    Contents::Written { records, change, resume, tail } => {
        check_written(&input, records, *change, *resume, tail);
    }
    Contents::Bytes { header, checkpoint, rest } => check_bytes(&input, header, checkpoint, rest),
});
