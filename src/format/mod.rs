//! The bytes on disk, and nothing else: one encoder and one parser for each structure.
//!
//! `storage-format.md` is the normative text; the golden files in `tests/golden` hold both to it.
//! Nothing here does I/O, knows a clock or trusts a length.

pub mod checkpoint;
pub(crate) mod checksum;
pub mod header;
pub mod headers;
pub mod layout;
pub mod name;
pub mod record;

use crate::types::{Generation, LogId, Offset};

/// The version of everything in this room. A reader refuses what is newer.
pub const LAYOUT_VERSION: u16 = 1;

/// Size of the header block and of the checkpoint block: one page.
pub const BLOCK_LEN: usize = 4096;

/// The disk writes a sector of this size whole or not at all; nothing larger is taken to be atomic.
pub const SECTOR_LEN: usize = 512;

/// Where the checkpoint block stands.
pub const CHECKPOINT_POSITION: u64 = 4096;

/// Where a recovery that changes a file says so before it does; in the header block, behind what a header takes.
pub const SETTLING_POSITION: u64 = SECTOR_LEN as u64;

/// What stands there from before the first change until all of them are durable.
pub const SETTLING: [u8; 8] = *b"PLIMSETL";

/// Where the first record stands.
pub const RECORDS_POSITION: u64 = 8192;

/// Records, and the places where one may stand, are aligned to this.
pub const RECORD_ALIGN: u64 = 8;

/// W: no record starts further than this past what is durable, so recovery need not look further for what a crash left.
pub const WINDOW: u64 = 2 * 1024 * 1024;

/// The largest segment file. Every length inside a file then fits in 32 bits, the relative offset of a record too.
pub const CAPACITY_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// The base offset in the header of a spare file.
pub const NO_BASE: u64 = u64::MAX;

// The parsers of the two blocks index up to their checksum in the first sector.
const _: () = assert!(header::CRC_AT + 4 == SECTOR_LEN && checkpoint::CRC_AT + 4 == SECTOR_LEN);

/// What seeds the checksums of one use of one file: the log, the generation and the base, folded to 32 bits.
///
/// Without the base all files of a log with the same generation would share one key, and a block that was copied or
/// written into another of them at the same position would pass for its records.
///
/// It is combined by XOR, so that a tool which does not know the log's identity can derive the key from one record's
/// header checksum and prove it with the same record's body checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub u32);

impl Key {
    /// The key of a log's records in a file of this generation, whose first record has the offset `base`.
    #[must_use]
    pub fn new(log: LogId, generation: Generation, base: Offset) -> Self {
        let mut hasher = crc32fast::Hasher::new();
        if !crate::planted::is(crate::planted::Fault::CrcWithoutLogId) {
            hasher.update(&log.0);
        }
        hasher.update(&generation.get().to_le_bytes());
        hasher.update(&base.0.to_le_bytes());
        Self(hasher.finalize())
    }
}

/// Whether a segment file may have this size: whole blocks, room for a record, at most [`CAPACITY_MAX`].
#[must_use]
pub const fn is_capacity(len: u64) -> bool {
    len > RECORDS_POSITION && len <= CAPACITY_MAX && len.is_multiple_of(BLOCK_LEN as u64)
}

/// `len` rounded up to the place where a record may stand.
#[must_use]
pub const fn align_record(len: u64) -> u64 {
    len.next_multiple_of(RECORD_ALIGN)
}

// Readers of little-endian fields. They panic past the end, so callers hand in fixed-size arrays or checked slices.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

pub(crate) fn id_at(bytes: &[u8], at: usize) -> LogId {
    let mut id = [0; 16];
    id.copy_from_slice(&bytes[at..at + 16]);
    LogId(id)
}

pub(crate) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

#[cfg(test)]
mod tests;
