//! walrus: `FsyncSchedule::SyncEach` on its default back end (`pwrite` to a file opened with `O_SYNC`, then `fsync`); its batches
//! go through io_uring. A log is a topic; writers of a topic take turns inside.
//!
//! Where its files are it takes from `WALRUS_DATA_DIR`, which the parent sets for each child.

use super::{Role, Shape, Store, System};
use crate::workload::Kind;
use std::path::Path;
use walrus_rust::{FsyncSchedule, ReadConsistency, Walrus};

struct Topics {
    walrus: Walrus,
    topics: Vec<String>,
}

fn open(_: &Path, shape: &Shape) -> Box<dyn Store> {
    // How often positions of readers are stored: nobody reads while it is measured.
    let readers = ReadConsistency::AtLeastOnce { persist_every: 1_000_000 };
    // What is only filled here is not measured, and outlives a kill in any case: with syncs a GiB takes minutes.
    let schedule = if shape.keeps { FsyncSchedule::NoFsync } else { FsyncSchedule::SyncEach };
    let walrus = Walrus::with_consistency_and_schedule(readers, schedule).unwrap();
    let topics = (0..shape.logs).map(|log| format!("log-{log:05}")).collect();
    Box::new(Topics { walrus, topics })
}

impl Store for Topics {
    fn append(&self, log: usize, payload: &[u8]) {
        self.walrus.append_for_topic(&self.topics[log], payload).unwrap();
    }

    fn batch(&self, log: usize, payload: &[u8], count: usize) {
        self.walrus.batch_append_for_topic(&self.topics[log], &vec![payload; count]).unwrap();
    }

    fn count(&self, log: usize) -> Option<u64> {
        // By reading, which takes the records: they are counted last.
        let mut count = 0;
        loop {
            let found = self.walrus.batch_read_for_topic(&self.topics[log], 1 << 20, true).unwrap();
            if found.is_empty() {
                return Some(count);
            }
            count += found.len() as u64;
        }
    }
}

fn leaves_out(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Growth => Some("the engine alone"),
        Kind::Scan => Some("reading takes the records away"),
        _ => None,
    }
}

pub(crate) fn systems() -> Vec<System> {
    vec![System {
        name: "walrus",
        role: Role::Peer,
        package: Some("walrus-rust"),
        mode: "SyncEach: O_SYNC pwrite and fsync for each record, io_uring for batches; never truncated",
        durable: true,
        unchecked: None,
        few_logs: true,
        slow_batches: true,
        leaves_out,
        open,
    }]
}
