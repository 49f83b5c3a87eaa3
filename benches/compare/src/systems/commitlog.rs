//! commitlog: its `flush` hands the records to the kernel and syncs full pages of the index, but never the records. So there are two of it: as
//! it is, which is not durable and never the best peer, and with an `fdatasync` of the segment that this program adds.
//!
//! It has no inner lock: writers take turns.

use super::{Role, Scanned, Shape, Store, System};
use crate::workload::Kind;
use commitlog::message::{MessageBuf, MessageSet};
use commitlog::{CommitLog, LogOptions, ReadLimit};
use std::fs::File;
use std::path::Path;
use std::sync::Mutex;

struct One {
    log: CommitLog,
    /// A second descriptor of its only segment: syncing works through any.
    segment: Option<File>,
}

struct Commitlog {
    logs: Vec<Mutex<One>>,
}

fn open(dir: &Path, shape: &Shape, syncs: bool) -> Box<dyn Store> {
    let one = |log: usize| {
        let dir = dir.join(format!("commitlog-{log}"));
        let mut options = LogOptions::new(&dir);
        // One segment, so that it is always the same file that is to be synced.
        options.segment_max_bytes(2 << 30);
        options.message_max_bytes(8 << 20);
        options.index_max_items(if shape.logs == 1 { 10_000_000 } else { 1024 });
        let log = CommitLog::new(options).unwrap();
        let segment = || {
            let files = super::files_below(&dir).into_iter().map(|(path, _)| path);
            let mut logs = files.filter(|path| path.extension().is_some_and(|ext| ext == "log"));
            File::open(logs.next_back().unwrap()).unwrap()
        };
        Mutex::new(One { log, segment: syncs.then(segment) })
    };
    Box::new(Commitlog { logs: super::in_parallel(shape.logs, one) })
}

impl One {
    fn flush(&mut self) {
        if let Some(segment) = &self.segment {
            segment.sync_data().unwrap();
        }
        self.log.flush().unwrap();
    }
}

impl Store for Commitlog {
    fn append(&self, log: usize, payload: &[u8]) {
        let mut one = self.logs[log].lock().unwrap();
        one.log.append_msg(payload).unwrap();
        one.flush();
    }

    fn batch(&self, log: usize, payload: &[u8], count: usize) {
        let mut batch = MessageBuf::default();
        (0..count).for_each(|_| batch.push(payload).unwrap());
        let mut one = self.logs[log].lock().unwrap();
        one.log.append(&mut batch).unwrap();
        one.flush();
    }

    fn scan(&self) -> Scanned {
        let one = self.logs[0].lock().unwrap();
        let mut seen = Scanned::default();
        let mut at = 0;
        loop {
            let found = one.log.read(at, ReadLimit::max_bytes(128 << 10)).unwrap();
            if found.is_empty() {
                return seen;
            }
            found.verify_hashes().unwrap();
            for message in found.iter() {
                seen.records += 1;
                seen.bytes += message.payload().len() as u64;
                at = message.offset() + 1;
            }
        }
    }

    fn count(&self, log: usize) -> Option<u64> {
        Some(self.logs[log].lock().unwrap().log.next_offset())
    }

    fn truncate(&self) {
        for one in &self.logs {
            one.lock().unwrap().log.truncate(0).unwrap();
        }
    }
}

fn leaves_out(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Growth => Some("the engine alone"),
        _ => None,
    }
}

pub(crate) fn systems() -> Vec<System> {
    vec![
        System {
            name: "commitlog-fdatasync",
            role: Role::Peer,
            package: Some("commitlog"),
            mode: "append, an fdatasync of the segment that this program adds, its own flush",
            durable: true,
            unchecked: Some("checks nothing that it opens"),
            few_logs: true,
            slow_batches: false,
            leaves_out,
            open: |dir, shape| open(dir, shape, true),
        },
        System {
            name: "commitlog-unsynced",
            role: Role::Peer,
            package: Some("commitlog"),
            mode: "append and its own flush, which never syncs the records: not durable",
            durable: false,
            unchecked: Some("checks nothing that it opens"),
            few_logs: true,
            slow_batches: false,
            leaves_out: |kind| match kind {
                Kind::Scan | Kind::Reopen { .. } | Kind::Idle => Some("as commitlog-fdatasync"),
                kind => leaves_out(kind),
            },
            open: |dir, shape| open(dir, shape, false),
        },
    ]
}
