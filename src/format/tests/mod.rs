//! What each parser accepts and what it says of everything else.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, non_snake_case)]

mod checkpoint;
mod header;
mod headers;
mod layout;
mod name;
mod record;

use super::SECTOR_LEN;
use crate::types::{Generation, LogId};

const LOG: LogId = LogId(*b"sixteen bytes id");

fn generation(raw: u16) -> Generation {
    Generation::new(raw).unwrap()
}

/// Puts the checksum right that a block has in its first sector.
fn sign(block: &mut [u8]) {
    let crc = crc32fast::hash(&block[..508]);
    block[508..SECTOR_LEN].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn crc32_is_the_one_of_the_format() {
    assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
}
