//! The same through the engine.

use super::withheld::{Lacks, Withheld};
use super::{APPEND, Kind, Size, Writer};
use crate::setup;
use plimsoll::types::SizeClass;
use plimsoll::{Log, LogOptions, NewRecord, Node, NodeOptions, PoolStats, WriteClass};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Spares that the worker has ready.
const PREPARED: u32 = 3;

/// What was taken once the log had its main files: by kind, as the kind wants it, and all.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally(Arc<Mutex<Vec<(Kind, u64, u64)>>>);

impl Tally {
    pub(super) fn shares(&self) -> Vec<(Kind, f64)> {
        let rows = self.0.lock().unwrap();
        let share = |kind| {
            let of_kind = rows.iter().filter(|row| row.0 == kind);
            let (fit, all) = of_kind.fold((0, 0), |sum, row| (sum.0 + row.1, sum.1 + row.2));
            (kind, fit as f64 / all as f64)
        };
        Kind::ALL.map(share).to_vec()
    }
}

#[derive(Debug)]
pub(super) struct Engine {
    kind: Kind,
    node: Option<Node>,
    log: Log,
    payload: Vec<u8>,
    /// Bytes that the last file has left for records.
    left: u64,
    base: u64,
    /// To the thread that truncates; it counts what it has done.
    truncate: Option<Sender<()>>,
    asked: u64,
    done: Arc<AtomicU64>,
    consumer: Option<JoinHandle<()>>,
    before: Option<PoolStats>,
    tally: Tally,
}

fn record(payload: usize) -> u64 {
    (payload as u64 + 32).next_multiple_of(8)
}

impl Engine {
    pub(super) fn new(dir: &Path, kind: Kind, size: Size, tally: &Tally) -> Self {
        let lacks = match kind {
            Kind::Reused => Lacks::default(),
            Kind::Prepared => Lacks { reuse: true, ..Lacks::default() },
            Kind::Preallocated => Lacks { reuse: true, zeroes: true, ..Lacks::default() },
            Kind::Growing => Lacks { reuse: true, zeroes: true, allocation: true },
        };
        let mut options = NodeOptions::default();
        options.segment_size = size.file;
        // Nothing happens to a log because others have their turns.
        options.idle_checkpoint = Duration::from_secs(24 * 60 * 60);
        // They are made at the start, and nobody takes them here.
        options.limits.pool.kept_back = plimsoll::Size(0);
        let ahead = matches!(kind, Kind::Reused | Kind::Prepared);
        options.limits.pool.prepared = if ahead { PREPARED } else { 0 };
        let builder = Node::builder(dir.join(kind.name())).options(options);
        let node = builder.file_system(Arc::new(Withheld::new(lacks))).open().unwrap();
        let log = node.open_log(&setup::name("roll"), LogOptions::default()).unwrap();
        let (truncate, wanted) = mpsc::channel::<()>();
        let done = Arc::new(AtomicU64::new(0));
        let (behind, count) = (log.clone(), Arc::clone(&done));
        let consumer = std::thread::spawn(move || {
            while wanted.recv().is_ok() {
                behind.truncate_before(behind.durable()).unwrap();
                count.fetch_add(1, Ordering::Release);
            }
        });
        let this = Self {
            kind,
            node: Some(node),
            log,
            payload: setup::noise(APPEND),
            left: 0,
            base: u64::MAX,
            truncate: Some(truncate),
            asked: 0,
            done,
            consumer: Some(consumer),
            before: None,
            tally: tally.clone(),
        };
        // Up to the first main file.
        let batch = vec![0x5a; 32 << 10];
        while this.log.segments().last().is_none_or(|last| last.class != SizeClass::Main) {
            this.log.publish(WriteClass::Publish, &[NewRecord::new(&batch)]).unwrap();
        }
        this
    }

    fn stats(&self) -> PoolStats {
        self.node.as_ref().unwrap().stats().pools.remove(0)
    }

    /// Whether the record at `offset` began a file; keeps count of what is left in it.
    fn began(&mut self, offset: u64, bytes: u64) -> bool {
        let last = *self.log.segments().last().unwrap();
        let began = last.base.0 == offset;
        if last.base.0 != self.base {
            self.base = last.base.0;
            self.left = last.capacity - (8 << 10);
        }
        self.left = self.left.saturating_sub(bytes);
        began
    }
}

impl Writer for Engine {
    fn append(&mut self) -> bool {
        let done = self.log.publish(WriteClass::Publish, &[NewRecord::new(&self.payload)]).unwrap();
        self.began(done.first.0, record(APPEND))
    }

    fn truncate(&mut self) {
        self.truncate.as_ref().unwrap().send(()).unwrap();
        self.asked += 1;
    }

    fn skip(&mut self) {
        let bytes = vec![0x5a; 256 << 10];
        while self.left > Size::TIMED_END {
            let done = self.log.publish(WriteClass::Publish, &[NewRecord::new(&bytes)]).unwrap();
            self.began(done.first.0, record(bytes.len()));
        }
    }

    fn settle(&mut self) {
        let (main, begun) = (2, Instant::now());
        let at_rest = |stats: &PoolStats| {
            let wanted = self.node.as_ref().unwrap().limits().pool.prepared.into();
            stats.coming == [0; 3] && stats.ready[main] >= wanted
        };
        while self.done.load(Ordering::Acquire) < self.asked || !at_rest(&self.stats()) {
            // The worker makes no file ahead while less than a tenth of the disk is free.
            assert!(begun.elapsed().as_secs() < 120, "the pool is not at rest: {:?}", self.stats());
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.before.is_none() {
            self.before = Some(self.stats());
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.truncate.take());
        self.consumer.take().unwrap().join().unwrap();
        let (after, before) = (self.stats(), self.before.take());
        if let Some(before) = before {
            let (reused, prepared, fresh) = (
                after.taken_reused - before.taken_reused,
                after.taken_prepared - before.taken_prepared,
                after.taken_fresh - before.taken_fresh,
            );
            let fit = match self.kind {
                Kind::Reused => reused,
                Kind::Prepared => prepared,
                Kind::Preallocated | Kind::Growing => fresh,
            };
            self.tally.0.lock().unwrap().push((self.kind, fit, reused + prepared + fresh));
        }
        self.node.take().unwrap().close().unwrap();
    }
}
