use super::*;
use crate::format::RECORDS_POSITION;
use crate::format::record::{encode, record_len};
use std::cell::RefCell;
use std::sync::Mutex;

/// Bytes in memory, and the reads of them: position, address and length.
#[derive(Debug, Default)]
struct Watched {
    bytes: Vec<u8>,
    reads: Mutex<Vec<(u64, usize, usize)>>,
}

impl File for Watched {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_raw(&self, position: u64, into: &mut [u8]) -> io::Result<usize> {
        self.reads.lock().unwrap().push((position, into.as_ptr().addr(), into.len()));
        let there = &self.bytes[(position as usize).min(self.bytes.len())..];
        let len = there.len().min(into.len());
        into[..len].copy_from_slice(&there[..len]);
        Ok(len)
    }

    fn write_raw(&self, _: u64, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

const KEY: Key = Key(0x1234_5678);

/// A file with records of these lengths.
fn file(lens: impl IntoIterator<Item = usize>) -> Watched {
    let mut bytes = vec![0; RECORDS_POSITION as usize];
    for (relative, len) in lens.into_iter().enumerate() {
        let payload: Vec<u8> = (0..len).map(|at| (at + relative) as u8).collect();
        let header = RecordHeader {
            payload_len: len as u32,
            headers_len: 0,
            generation: Generation::FIRST,
            unsynced: 0,
            relative: relative as u32,
            millis: 0,
        };
        let at = bytes.len();
        bytes.resize(at + record_len(0, len) as usize, 0);
        encode(&mut bytes[at..], KEY, at as u64, &header, &[], &payload);
    }
    Watched { bytes, reads: Mutex::default() }
}

fn walker(file: &Watched, end: u64) -> Walker<&Watched> {
    let from = (RECORDS_POSITION, Offset::ZERO);
    Walker::with_key(file, KEY, Generation::FIRST, Offset::ZERO, from, end)
}

fn walk(walker: &mut Walker<&Watched>) -> Vec<usize> {
    let lens = RefCell::new(Vec::new());
    while let Step::Record(found) = walker.step().unwrap() {
        let relative = lens.borrow().len();
        let right =
            found.payload.iter().enumerate().all(|(at, &byte)| byte == (at + relative) as u8);
        assert!(right, "record {relative}");
        lens.borrow_mut().push(found.payload.len());
    }
    lens.into_inner()
}

/// Lengths from nothing to several times what is read at first.
fn lens() -> Vec<usize> {
    (0..400).map(|at: usize| at * at % 1733 + if at % 97 == 5 { 100_000 } else { 0 }).collect()
}

#[test]
fn reads_begin_small_and_grow_to_the_read_ahead() {
    let file = file(vec![1000; 1000]);
    let mut walker = walker(&file, file.bytes.len() as u64).read_ahead(128 * 1024);
    assert!(matches!(walker.step().unwrap(), Step::Record(_)));
    assert_eq!(walker.bytes_read(), FIRST as u64, "for a look at one record");
    assert!(matches!(walker.step().unwrap(), Step::Record(_)));
    while let Step::Record(_) = walker.step().unwrap() {}
    let reads = file.reads.lock().unwrap();
    let lens: Vec<_> = reads.iter().map(|read| read.2).collect();
    assert!(lens.windows(2).take(4).all(|pair| pair[0] < pair[1]), "{lens:?}");
    assert!(lens.iter().all(|&len| len <= 128 * 1024), "{lens:?}");
    assert!(lens.len() < 14, "{lens:?}");
    assert_eq!(walker.bytes_read(), file.bytes.len() as u64 - RECORDS_POSITION, "each byte once");
}

#[test]
fn bytes_go_to_addresses_that_are_like_their_positions() {
    let file = file(lens());
    let mut walker = walker(&file, file.bytes.len() as u64).read_ahead(48 * 1024);
    assert_eq!(walk(&mut walker), lens());
    for &(position, address, _) in file.reads.lock().unwrap().iter() {
        assert_eq!(position % PAGE as u64, (address % PAGE) as u64, "read from {position}");
    }
}

#[test]
fn nothing_is_read_from_the_end_on_and_a_walk_goes_on_when_there_is_more() {
    let file = file(lens());
    let whole = file.bytes.len() as u64;
    let mut walker = walker(&file, RECORDS_POSITION);
    let mut found = Vec::new();
    // Ends between records and inside of them.
    for end in (RECORDS_POSITION..whole).step_by(777).chain([whole]) {
        walker.extend_to(end);
        while let Step::Record(record) = walker.step().unwrap() {
            found.push(record.payload.len());
        }
        for (position, _, len) in file.reads.lock().unwrap().drain(..) {
            assert!(
                position + len as u64 <= end,
                "{len} bytes from {position} with the end at {end}"
            );
        }
        walker.rest();
    }
    assert_eq!(found, lens());
    assert_eq!(walker.bytes_read(), whole - RECORDS_POSITION, "each byte once");
}

#[test]
fn memory_of_one_walk_serves_the_next() {
    let file = file(lens());
    let whole = file.bytes.len() as u64;
    let mut first = walker(&file, whole);
    assert_eq!(walk(&mut first), lens());
    let memory = first.into_memory();
    let (at, len) = (memory.buffer.as_ptr(), memory.buffer.len());
    let mut second = walker(&file, whole).with_memory(memory);
    assert_eq!(walk(&mut second), lens());
    assert_eq!((second.buffer.as_ptr(), second.buffer.len()), (at, len));
    second.rest();
    assert_eq!(second.buffer.len(), 0, "all of it was walked");
}
