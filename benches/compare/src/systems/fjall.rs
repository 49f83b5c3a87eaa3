//! fjall, of which the journal is used: an insert, and `persist(SyncData)`, which is what its documentation names for data that
//! must be durable. Its buffer goes to the system by the persist alone (`manual_journal_persist`), so that an append is one
//! write. All logs are in one keyspace, the cheapest there: keys are log and number.

use super::{Role, Scanned, Shape, Store, System};
use crate::workload::Kind;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

struct Fjall {
    database: Database,
    records: Keyspace,
    next: Vec<AtomicU64>,
}

fn key(log: usize, number: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&(log as u32).to_be_bytes());
    key[4..].copy_from_slice(&number.to_be_bytes());
    key
}

fn open(dir: &Path, shape: &Shape) -> Box<dyn Store> {
    let database =
        Database::builder(dir.join("fjall")).manual_journal_persist(true).open().unwrap();
    let records = database.keyspace("records", KeyspaceCreateOptions::default).unwrap();
    let next = (0..shape.logs).map(|_| AtomicU64::new(0)).collect();
    Box::new(Fjall { database, records, next })
}

impl Store for Fjall {
    fn append(&self, log: usize, payload: &[u8]) {
        let number = self.next[log].fetch_add(1, Ordering::Relaxed);
        self.records.insert(key(log, number), payload).unwrap();
        self.database.persist(PersistMode::SyncData).unwrap();
    }

    fn batch(&self, log: usize, payload: &[u8], count: usize) {
        let first = self.next[log].fetch_add(count as u64, Ordering::Relaxed);
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for number in first..first + count as u64 {
            batch.insert(&self.records, key(log, number), payload);
        }
        batch.commit().unwrap();
    }

    fn scan(&self) -> Scanned {
        let mut seen = Scanned::default();
        for found in self.records.prefix(&key(0, 0)[..4]) {
            seen.records += 1;
            seen.bytes += found.value().unwrap().len() as u64;
        }
        seen
    }

    fn count(&self, log: usize) -> Option<u64> {
        Some(self.records.prefix(&key(log, 0)[..4]).count() as u64)
    }

    fn truncate(&self) {
        self.records.clear().unwrap();
    }

    /// Until it has sorted what it was given, which it does behind its users' backs.
    fn rest(&self) {
        let mut quiet = 0;
        while quiet < 5 {
            std::thread::sleep(Duration::from_millis(10));
            let busy = self.database.outstanding_flushes() + self.database.active_compactions();
            quiet = if busy == 0 { quiet + 1 } else { 0 };
        }
    }
}

fn leaves_out(kind: Kind) -> Option<&'static str> {
    matches!(kind, Kind::Growth).then_some("the engine alone")
}

pub(crate) fn systems() -> Vec<System> {
    vec![System {
        name: "fjall",
        role: Role::Peer,
        package: Some("fjall"),
        mode: "insert, persist(SyncData); batches with durability(SyncData); one keyspace, no compression",
        durable: true,
        unchecked: None,
        few_logs: false,
        slow_batches: false,
        leaves_out,
        open,
    }]
}
