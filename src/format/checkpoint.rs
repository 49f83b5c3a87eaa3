//! The checkpoint block: the second 4 KiB of a segment file, with every field in its first sector.
//!
//! It says: up to here all was durable when this was written. It bounds what recovery reads, and vouches for the last
//! batch, behind which no record stands that could. It is advice: where it is missing, torn or of another use of the
//! file, it is ignored and more is read.

use super::header::Header;
use super::record::HEADER_LEN;
use super::{
    BLOCK_LEN, RECORD_ALIGN, RECORDS_POSITION, SECTOR_LEN, id_at, put, u16_at, u32_at, u64_at,
};
use crate::planted::{self, Fault};
use crate::types::{Generation, LogId, Offset};

/// The first bytes of a checkpoint block.
pub const MAGIC: [u8; 8] = *b"PLIMCKPT";

pub(crate) const CRC_AT: usize = 508;

/// A valid checkpoint block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The use of the file that it belongs to.
    pub generation: Generation,
    /// The log that it belongs to.
    pub log: LogId,
    /// Every byte of the file below this was durable: the header, and whole records.
    pub position: u64,
    /// Offset of the record that comes at `position`.
    pub next: Offset,
    /// The largest stamp of any record before `next`, Unix milliseconds.
    pub millis: u64,
}

impl Checkpoint {
    /// The checkpoint block.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_LEN] {
        let mut block = [0; BLOCK_LEN];
        put(&mut block, 0, &MAGIC);
        put(&mut block, 8, &self.generation.get().to_le_bytes());
        put(&mut block, 16, &self.position.to_le_bytes());
        put(&mut block, 24, &self.next.0.to_le_bytes());
        put(&mut block, 32, &self.millis.to_le_bytes());
        put(&mut block, 40, &self.log.0);
        let crc = crc32fast::hash(&block[..CRC_AT]);
        put(&mut block, CRC_AT, &crc.to_le_bytes());
        debug_assert_eq!(Self::parse(&block).as_ref(), Some(self), "what is written can be read");
        block
    }

    /// Whether this is the checkpoint of the use of the file that `header` began, and possible there.
    ///
    /// Any other is ignored: a reused file keeps the checkpoint of its earlier use until it gets one of its own.
    #[must_use]
    pub fn belongs_to(&self, header: &Header) -> bool {
        header.in_use.is_some_and(|in_use| {
            self.is_of(header.generation, in_use.log, in_use.base, header.capacity)
        })
    }

    /// The same for a caller that has of the header only what counts.
    pub(crate) fn is_of(
        &self,
        generation: Generation,
        log: LogId,
        base: Offset,
        capacity: u64,
    ) -> bool {
        if planted::is(Fault::ForeignCheckpointBelieved) {
            return true;
        }
        let records = self.next.0.checked_sub(base.0);
        self.generation == generation
            && self.log == log
            && self.position <= capacity
            // A record takes 32 bytes at least, and only one behind another adds to the position.
            && records.is_some_and(|records| {
                let room = self.position.saturating_sub(RECORDS_POSITION);
                records <= room / HEADER_LEN as u64 && (records == 0) == (room == 0)
            })
    }

    /// Reads a checkpoint block; `None` for anything but a whole one with legal values.
    #[must_use]
    pub fn parse(block: &[u8]) -> Option<Self> {
        let sector = block.get(..SECTOR_LEN)?;
        let position = u64_at(sector, 16);
        let legal = sector[..8] == MAGIC
            && u32_at(sector, CRC_AT) == crc32fast::hash(&sector[..CRC_AT])
            && position >= RECORDS_POSITION
            && position.is_multiple_of(RECORD_ALIGN)
            && sector[10..16].iter().chain(&sector[56..CRC_AT]).all(|&byte| byte == 0);
        legal.then_some(())?;
        Some(Self {
            generation: Generation::new(u16_at(sector, 8))?,
            log: id_at(sector, 40),
            position,
            next: Offset(u64_at(sector, 24)),
            millis: u64_at(sector, 32),
        })
    }
}
