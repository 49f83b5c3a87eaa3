//! Golden lines, the answers of declarations and deletions, and that what is written is what is loaded.

mod answers;
mod lines;
mod log;

use super::*;
use crate::api::QueueSettings;

fn format() -> Format {
    Format {
        broker: Id(*b"broker-number-01"),
        shards: 8,
        receipt_key: [0xab; 16],
        directories: vec![Id([1; 16]), Id([2; 16])],
    }
}

fn name(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn settings(lease_ms: u64) -> QueueSettings {
    QueueSettings { lease_ms, ..QueueSettings::default() }
}

/// A catalogue and its log.
struct Written {
    catalogue: Catalogue,
    log: Vec<Vec<u8>>,
}

impl Written {
    fn new() -> Self {
        let log = vec![Record::Format(format()).encode()];
        Self { catalogue: Catalogue::new(format()).unwrap(), log }
    }

    fn write(&mut self, record: &Record) {
        self.log.push(record.encode());
    }

    fn declare(&mut self, queue: &str, settings: &QueueSettings, if_match: Option<u64>) {
        let planned = self.catalogue.plan_declare(&name(queue), settings, if_match, 5).unwrap();
        if let Some(record) = planned.1 {
            self.catalogue.apply(&record).unwrap();
            self.write(&record);
        }
    }

    fn delete(&mut self, queue: &str) {
        let (_, record) = self.catalogue.plan_delete(&name(queue), None, 6).unwrap();
        self.catalogue.apply(&record).unwrap();
        self.write(&record);
    }

    fn compact(&mut self) {
        self.catalogue.compaction().iter().for_each(|record| self.write(record));
    }

    fn load_from(&self, from: usize) -> Result<Catalogue, BadCatalogue> {
        Catalogue::load(
            self.log.iter().enumerate().skip(from).map(|(at, record)| (Offset(at as u64), record)),
        )
    }

    fn load(&self) -> Result<Catalogue, BadCatalogue> {
        self.load_from(0)
    }

    /// The catalogue cannot be read, because of the record at the end.
    fn ends_badly(&self, reason: &str) {
        let last = Offset(self.log.len() as u64 - 1);
        match self.load() {
            Err(BadCatalogue::Record { offset, reason: said }) => {
                assert_eq!(offset, last);
                assert!(said.contains(reason), "{said:?} does not say {reason:?}");
            }
            other => panic!("{reason}: {other:?}"),
        }
    }
}
