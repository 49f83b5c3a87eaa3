//! The parsers that meet bytes from the disk ask for no memory, whatever the bytes say: a length field that lies cannot
//! make a reader allocate.
#![allow(clippy::unwrap_used, missing_docs)]

use plimsoll::format::checkpoint::Checkpoint;
use plimsoll::format::header::Header;
use plimsoll::format::{Key, record};
use plimsoll::types::{Generation, LogId, Offset};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is handed on to the system's allocator as it came; counting touches no memory of the heap.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(of: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    of();
    ALLOCATIONS.get() - before
}

/// A small generator of bytes that needs no memory (xorshift).
fn scramble(bytes: &mut [u8], state: &mut u64) {
    for byte in bytes {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *byte = state.to_le_bytes()[3];
    }
}

#[test]
fn the_count_counts() {
    assert!(allocations(|| drop(black_box(Vec::<u8>::with_capacity(64)))) > 0);
}

#[test]
fn parsing_allocates_nothing() {
    let generation = Generation::FIRST;
    let key = Key::new(LogId([5; 16]), generation, Offset(7));
    let mut block = [0; 4096];
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let count = allocations(|| {
        for round in 0..2_000_u32 {
            scramble(&mut block, &mut state);
            if round % 2 == 0 {
                // Right where a parser first looks, so that it goes on: magic, generation, a checksum that fits.
                block[..8].copy_from_slice(b"\x8ePLIMS\r\n");
                block[8..10].copy_from_slice(&[1, 0]);
                let crc = crc32fast::hash(&block[..508]);
                block[508..512].copy_from_slice(&crc.to_le_bytes());
            }
            black_box(Header::parse(&block).is_ok());
            black_box(Checkpoint::parse(&block).is_some());
            block[12..14].copy_from_slice(&[1, 0]);
            block[24..26].fill(0);
            block[14..20].fill(0);
            let (derived, _) = record::derive_key(&block, 8_192).unwrap();
            black_box(record::parse(&block, 4_096, key, 8_192, generation).is_ok());
            // Every length but 0 to 4,064 lies.
            let parsed = record::parse(&block, u64::MAX, derived, 8_192, generation).unwrap();
            if parsed.header.record_len() <= 4_096 {
                let body = &block[record::HEADER_LEN..];
                black_box(record::check_body(&parsed, derived, 8_192, body).is_ok());
            }
        }
    });
    assert_eq!(count, 0);
}
