//! Builds the bytes of a segment file with the crate's encoder.

use plimsoll::format::checkpoint::Checkpoint;
use plimsoll::format::header::{Header, InUse, Origin};
use plimsoll::format::record::{self, RecordHeader};
use plimsoll::format::{CHECKPOINT_POSITION, Key, RECORDS_POSITION};
use plimsoll::types::{Generation, LogId, Offset, SizeClass};

/// The log of all files but the leftovers.
pub(crate) const LOG: LogId = LogId([
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f,
]);

/// The log that used a file before.
pub(crate) const EARLIER_LOG: LogId = LogId([0xab; 16]);

/// 2026-01-01 00:00:00 UTC.
pub(crate) const MILLIS: u64 = 1_767_225_600_000;

/// The smallest capacity: one block for records.
pub(crate) const CAPACITY: u64 = 12_288;

pub(crate) fn generation(raw: u16) -> Generation {
    Generation::new(raw).unwrap()
}

pub(crate) fn in_use(base: u64) -> InUse {
    InUse {
        log: LOG,
        base: Offset(base),
        previous_end: Offset(base),
        previous_millis: if base == 0 { 0 } else { MILLIS - 1_000 },
        origin: Origin::Roll,
    }
}

pub(crate) fn header(raw_generation: u16, in_use: Option<InUse>) -> Header {
    Header {
        generation: generation(raw_generation),
        class: SizeClass::Tiny,
        capacity: CAPACITY,
        created_millis: MILLIS,
        in_use,
    }
}

/// A segment file in the making.
pub(crate) struct Image {
    pub(crate) bytes: Vec<u8>,
    key: Key,
    header: Header,
    base: u64,
    next: u64,
    position: u64,
    durable: u64,
}

impl Image {
    /// A file of zeroes with this header.
    pub(crate) fn new(header: &Header) -> Self {
        let mut image = Self {
            bytes: vec![0; usize::try_from(header.capacity).unwrap()],
            key: Key(0),
            header: *header,
            base: 0,
            next: 0,
            position: 0,
            durable: 0,
        };
        image.use_again(header);
        image
    }

    /// Writes another header over the first; all else stays.
    pub(crate) fn use_again(&mut self, header: &Header) {
        self.put(0, &header.encode());
        let log = header.in_use.map_or(LogId([0; 16]), |in_use| in_use.log);
        self.base = header.in_use.map_or(0, |in_use| in_use.base.0);
        self.key = Key::new(log, header.generation, Offset(self.base));
        self.header = *header;
        self.next = self.base;
        self.position = RECORDS_POSITION;
        self.durable = RECORDS_POSITION;
    }

    pub(crate) fn put(&mut self, position: u64, bytes: &[u8]) {
        let at = usize::try_from(position).unwrap();
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn flip(&mut self, position: u64, mask: u8) {
        self.bytes[usize::try_from(position).unwrap()] ^= mask;
    }

    /// Appends a record, which claims what is durable; gives its position.
    pub(crate) fn record(&mut self, headers: &[u8], payload: &[u8]) -> u64 {
        let position = self.position;
        let header = RecordHeader {
            payload_len: u32::try_from(payload.len()).unwrap(),
            headers_len: u16::try_from(headers.len()).unwrap(),
            generation: self.header.generation,
            unsynced: u32::try_from(position - self.durable).unwrap(),
            relative: u32::try_from(self.next - self.base).unwrap(),
            millis: MILLIS + (self.next - self.base),
        };
        let mut bytes = vec![0; usize::try_from(header.record_len()).unwrap()];
        record::encode(&mut bytes, self.key, position, &header, headers, payload);
        self.put(position, &bytes);
        self.position += header.record_len();
        self.next += 1;
        position
    }

    /// What the writer does when a sync has returned: all records so far are durable.
    pub(crate) fn synced(&mut self) {
        self.durable = self.position;
    }

    /// Writes the checkpoint of what is durable.
    pub(crate) fn checkpoint(&mut self) {
        let checkpoint = Checkpoint {
            generation: self.header.generation,
            log: self.header.in_use.unwrap().log,
            position: self.durable,
            next: Offset(self.next),
            millis: MILLIS + (self.next - self.base) - 1,
        };
        self.put(CHECKPOINT_POSITION, &checkpoint.encode());
    }
}
