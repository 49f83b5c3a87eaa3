//! What a log was told and what it answered, to be held against what it gives back.

use plimsoll::error::{Outcome, PublishError, Stopped};
use plimsoll::{Log, NewRecord, Offset, WriteClass};
use std::collections::{BTreeMap, BTreeSet};

/// One log's appends. Every record has a serial number of its own, whatever became of it.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    next: u64,
    /// Serial numbers and lengths by offset.
    confirmed: BTreeMap<u64, (u64, usize)>,
    refused: BTreeSet<u64>,
    /// The log's head may not fall below it.
    head: Offset,
    /// Bytes of payloads that were confirmed.
    pub(crate) bytes: u64,
}

fn payload(name: &str, serial: u64, len: usize) -> Vec<u8> {
    let mut bytes = format!("{name}#{serial}#").into_bytes();
    let mut state = serial.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

impl Ledger {
    /// Appends a batch of `count` records of `len` bytes each and notes the answer.
    pub(crate) fn publish(
        &mut self,
        log: &Log,
        class: WriteClass,
        count: u64,
        len: usize,
    ) -> Result<(), PublishError> {
        assert!(len >= 40, "long enough for the name and the serial number");
        let (serials, name) = (self.next..self.next + count, log.name().as_str());
        self.next += count;
        let payloads: Vec<Vec<u8>> =
            serials.clone().map(|serial| payload(name, serial, len)).collect();
        let records: Vec<_> = payloads.iter().map(|bytes| NewRecord::new(bytes)).collect();
        match log.publish(class, &records) {
            Ok(appended) => {
                assert_eq!(appended.count, count);
                let offsets = appended.first.0..;
                self.confirmed.extend(offsets.zip(serials.map(|serial| (serial, len))));
                self.bytes += count * len as u64;
                Ok(())
            }
            Err(error) => {
                if error.outcome() == Outcome::NotWritten {
                    self.refused.extend(serials);
                }
                Err(error)
            }
        }
    }

    /// Truncates all but the last `keep` confirmed records.
    pub(crate) fn truncate(&mut self, log: &Log, keep: u64) -> u64 {
        let before = Offset(log.durable().0.saturating_sub(keep));
        let freed = log.truncate_before(before).unwrap();
        assert!(freed.head <= before && freed.head >= self.head);
        self.head = freed.head;
        freed.segments_freed
    }

    /// Reads the log from its head: everything that was confirmed is there, in its place, and nothing that was refused.
    ///
    /// A log that is open for reading only, as its end could not be written again, shows what is vouched for: the rest
    /// must be there in a later life.
    pub(crate) fn check(&self, log: &Log) {
        let name = log.name().as_str();
        assert!(log.head() >= self.head, "{name}: truncated records are back");
        let mut reader = log.read_from(log.head()).unwrap();
        let mut next = log.head().0;
        while next < log.durable().0 {
            let record = reader.next().unwrap().unwrap();
            assert_eq!(record.offset.0, next, "{name}");
            let text = String::from_utf8_lossy(&record.payload);
            let mut parts = text.split('#');
            assert_eq!(parts.next(), Some(name), "another log's record at {next}");
            let serial: u64 = parts.next().unwrap().parse().unwrap();
            if let Some((expected, len)) = self.confirmed.get(&next) {
                assert_eq!((serial, record.payload.len()), (*expected, *len), "{name}, {next}");
            }
            assert!(!self.refused.contains(&serial), "{name}: {serial} was refused");
            assert_eq!(
                record.payload,
                payload(name, serial, record.payload.len()),
                "{name}, {next}"
            );
            next += 1;
        }
        if let Some(Stopped::ReadOnly(_)) = log.stopped() {
            return;
        }
        let last = self.confirmed.last_key_value().map(|(offset, _)| *offset);
        assert!(
            last.is_none_or(|last| last < next),
            "{name}: {last:?} was confirmed, end is {next}"
        );
    }
}
