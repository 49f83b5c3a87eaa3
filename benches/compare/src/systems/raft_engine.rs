//! raft-engine: a write with `sync`, which writers of any group share; a log is a raft group. Files are filled beforehand and
//! serve again, as its settings allow; compression is off, as the payload is noise.

use super::{Role, Scanned, Shape, Store, System};
use crate::workload::Kind;
use protobuf::well_known_types::BytesValue;
use raft_engine::{Config, Engine, LogBatch, MessageExt, ReadableSize};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A record is a message with its bytes, that begin with its index.
#[derive(Clone)]
struct Records;

const INDEX: usize = 8;

impl MessageExt for Records {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        u64::from_be_bytes(entry.value[..INDEX].try_into().unwrap())
    }
}

struct Raft {
    engines: Vec<Engine>,
    /// Of each log its next index. Groups of one engine are numbered from 1.
    next: Vec<AtomicU64>,
    keeps: bool,
}

fn open(dir: &Path, shape: &Shape, engines: usize) -> Box<dyn Store> {
    let file = 64 << 20_u64;
    let config = |engine: usize| {
        let mut config = Config {
            dir: dir.join(format!("engine-{engine}")).to_str().unwrap().to_owned(),
            batch_compression_threshold: ReadableSize(0),
            target_file_size: ReadableSize(file),
            ..Config::default()
        };
        if shape.prepared > 0 {
            let (file, hold) = match shape.kind {
                // What is truncated serves again only above this threshold.
                Kind::Batches => (file, (shape.bytes / 4 * 3).max(file)),
                _ if engines > 1 => {
                    (u64::from(super::FILE_OF_MANY), u64::from(super::FILE_OF_MANY))
                }
                _ => (file, 4 * file),
            };
            config.target_file_size = ReadableSize(file);
            config.purge_threshold = ReadableSize(hold);
            config.prefill_for_recycle = true;
            config.prefill_limit = Some(ReadableSize(hold));
        }
        config
    };
    let engines: Vec<Engine> =
        (0..engines).map(|engine| Engine::open(config(engine)).unwrap()).collect();
    let of = |log: usize| if engines.len() == 1 { (0, log as u64 + 1) } else { (log, 1) };
    let next = |log| {
        let (engine, group) = of(log);
        AtomicU64::new(engines[engine].last_index(group).map_or(1, |last| last + 1))
    };
    let groups = match shape.kind {
        Kind::Writers { writers, .. } => writers,
        _ => shape.logs,
    };
    let next = (0..groups).map(next).collect();
    Box::new(Raft { engines, next, keeps: shape.keeps })
}

impl Raft {
    fn of(&self, log: usize) -> (&Engine, u64) {
        if self.engines.len() == 1 {
            (&self.engines[0], log as u64 + 1)
        } else {
            (&self.engines[log], 1)
        }
    }

    fn write(&self, log: usize, payload: &[u8], count: usize) {
        let (engine, group) = self.of(log);
        let first = self.next[log].fetch_add(count as u64, Ordering::Relaxed);
        let entry = |index: u64| {
            let mut value = Vec::with_capacity(INDEX + payload.len());
            value.extend_from_slice(&index.to_be_bytes());
            value.extend_from_slice(payload);
            BytesValue { value, ..BytesValue::default() }
        };
        let entries: Vec<_> = (first..first + count as u64).map(entry).collect();
        let mut batch = LogBatch::with_capacity(1);
        batch.add_entries::<Records>(group, &entries).unwrap();
        engine.write(&mut batch, true).unwrap();
    }

    fn compact(&self) {
        for log in 0..self.next.len() {
            let (engine, group) = self.of(log);
            if let Some(last) = engine.last_index(group) {
                engine.compact_to(group, last);
            }
        }
        for engine in &self.engines {
            engine.sync().unwrap();
            engine.purge_expired_files().unwrap();
        }
    }
}

impl Store for Raft {
    fn append(&self, log: usize, payload: &[u8]) {
        self.write(log, payload, 1);
    }

    /// Entries of a group must be written in their order, so that writers who do not wait for each other have a group each.
    fn append_as(&self, writer: usize, payload: &[u8]) {
        self.write(writer, payload, 1);
    }

    fn batch(&self, log: usize, payload: &[u8], count: usize) {
        self.write(log, payload, count);
    }

    fn scan(&self) -> Scanned {
        let (engine, group) = self.of(0);
        let mut seen = Scanned::default();
        let (mut at, end) =
            (engine.first_index(group).unwrap(), engine.last_index(group).unwrap() + 1);
        let mut found = Vec::new();
        while at < end {
            found.clear();
            let upto = end.min(at + 1024);
            engine.fetch_entries_to::<Records>(group, at, upto, None, &mut found).unwrap();
            seen.records += found.len() as u64;
            seen.bytes += found.iter().map(|entry| (entry.value.len() - INDEX) as u64).sum::<u64>();
            at = upto;
        }
        seen
    }

    fn count(&self, log: usize) -> Option<u64> {
        let (engine, group) = self.of(log);
        let last = engine.last_index(group)?;
        Some(last + 1 - engine.first_index(group)?)
    }

    fn truncate(&self) {
        self.compact();
    }

    fn rest(&self) {
        if !self.keeps {
            self.compact();
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
            name: "raft-engine",
            role: Role::Peer,
            package: Some("raft-engine"),
            mode: "write with sync, a group for each log or writer; files of 64 MiB, filled beforehand; no compression",
            durable: true,
            unchecked: Some("checks its index of them, not the records"),
            few_logs: false,
            slow_batches: false,
            leaves_out,
            open: |dir, shape| open(dir, shape, 1),
        },
        System {
            name: "raft-engine-64",
            role: Role::Peer,
            package: Some("raft-engine"),
            mode: "an engine for each log",
            durable: true,
            unchecked: Some("checks its index of them, not the records"),
            few_logs: true,
            slow_batches: false,
            leaves_out: |kind| match kind {
                Kind::Logs { .. } => None,
                _ => Some("only where there are 64 logs"),
            },
            open: |dir, shape| open(dir, shape, shape.logs),
        },
    ]
}
