//! This engine.

use super::{Role, Scanned, Shape, Store, System};
use crate::workload::Kind;
use plimsoll::permit::Decision;
use plimsoll::types::SizeClass;
use plimsoll::{
    Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, Ticket, WriteClass,
};
use std::collections::VecDeque;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

struct Engine {
    node: Option<Node>,
    logs: Vec<Log>,
}

pub(crate) fn name(log: usize) -> LogName {
    LogName::new(&format!("log-{log:05}")).unwrap()
}

fn open(dir: &Path, shape: &Shape, mut options: NodeOptions) -> Box<dyn Store> {
    if shape.kind == Kind::Idle {
        // Ten seconds by default: so that it is idle sooner.
        options.idle_checkpoint = Duration::from_secs(1);
    }
    if matches!(shape.kind, Kind::Logs { .. }) {
        options.segment_size = u64::from(super::FILE_OF_MANY);
    }
    let node = Node::open(dir.join("data"), options).unwrap();
    let logs: Vec<Log> = if shape.logs == node.logs().unwrap().len() {
        node.open_all().unwrap().into_iter().map(|(_, log)| log.unwrap()).collect()
    } else {
        super::in_parallel(shape.logs, |log| {
            node.open_log(&name(log), LogOptions::default()).unwrap()
        })
    };
    let engine = Engine { node: Some(node), logs };
    if shape.prepared > 0 {
        engine.logs[..shape.prepared].iter().for_each(grow);
        engine.settle();
    }
    Box::new(engine)
}

/// Until it is in a file of full size: what is measured is not the first steps of a new log.
fn grow(log: &Log) {
    let payload = vec![0x5a; 64 << 10];
    let batch = [NewRecord::new(&payload); 16];
    while log.segments().last().is_none_or(|last| last.class != SizeClass::Main) {
        log.publish(WriteClass::Publish, &batch).unwrap();
    }
}

impl Engine {
    fn node(&self) -> &Node {
        self.node.as_ref().unwrap()
    }

    /// Waits until the files that were given up can serve again and those that are made ahead are there.
    fn settle(&self) {
        let begun = Instant::now();
        let look = || {
            let pools = self.node().stats().pools;
            let count = |counts: &[u64; 3]| counts.iter().sum::<u64>();
            let sum = |of: fn(&plimsoll::PoolStats) -> &[u64; 3]| -> u64 {
                pools.iter().map(|pool| count(of(pool))).sum()
            };
            (sum(|pool| &pool.coming), sum(|pool| &pool.ready))
        };
        let (mut last, mut since) = (look(), Instant::now());
        while begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
            let now = look();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if now.0 == 0 && since.elapsed() > Duration::from_millis(400) {
                return;
            }
        }
    }

    fn stage(&self, log: usize, batch: &[NewRecord<'_>]) -> Ticket {
        let bytes = batch.iter().map(|record| record.payload.len() as u64).sum();
        match self.logs[log].admit(WriteClass::Publish, bytes) {
            Decision::Admit(permit) => self.logs[log].append(permit, batch).unwrap(),
            Decision::Delay { wait, permit } => {
                std::thread::sleep(wait);
                self.logs[log].append(permit, batch).unwrap()
            }
            Decision::Refuse(limited) => panic!("refused: {limited}"),
        }
    }
}

impl Store for Engine {
    fn append(&self, log: usize, payload: &[u8]) {
        self.logs[log].publish(WriteClass::Publish, &[NewRecord::new(payload)]).unwrap();
    }

    fn batch(&self, log: usize, payload: &[u8], count: usize) {
        let batch = vec![NewRecord::new(payload); count];
        self.logs[log].publish(WriteClass::Publish, &batch).unwrap();
    }

    fn batches(&self, log: usize, payload: &[u8], count: usize, batches: usize) {
        // In quarters, of which seven are under way: 2 MiB may be, with headers, and what is staged while a commit is written
        // goes into the next one.
        let quarter = vec![NewRecord::new(payload); count / 4];
        let mut under_way = VecDeque::new();
        for _ in 0..batches * 4 {
            let ticket = self.stage(log, &quarter);
            ticket.start();
            under_way.push_back(ticket);
            if under_way.len() == 7 {
                under_way.pop_front().unwrap().wait().unwrap();
            }
        }
        for ticket in under_way {
            ticket.wait().unwrap();
        }
    }

    fn scan(&self) -> Scanned {
        let mut reader = self.logs[0].read_from(self.logs[0].head()).unwrap();
        let mut seen = Scanned::default();
        let all = reader.scan(|found| {
            seen.records += 1;
            seen.bytes += black_box(found.payload).len() as u64;
            ControlFlow::<()>::Continue(())
        });
        assert_eq!(all.unwrap(), None);
        seen
    }

    fn count(&self, log: usize) -> Option<u64> {
        Some(self.logs[log].durable().0 - self.logs[log].head().0)
    }

    fn truncate(&self) {
        for log in &self.logs {
            // The last file stays with the log.
            log.truncate_before(log.durable()).unwrap();
        }
        self.settle();
    }

    fn files(&self, dir: &Path) -> Vec<(PathBuf, u64)> {
        let mut files = super::files_below(&dir.join("data/logs").join(name(0).as_str()));
        // Full ones first, by name; of the last only what holds records.
        let held = self.logs[0].bytes().held;
        let mut left = held;
        for (_, len) in &mut files {
            *len = left.min(*len);
            left -= *len;
        }
        files.retain(|(_, len)| *len > 0);
        assert!(self.logs[0].head() == Offset::ZERO);
        files
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.logs.clear();
        if let Some(node) = self.node.take() {
            let _ = node.close();
        }
    }
}

fn leaves_out(_: Kind) -> Option<&'static str> {
    None
}

/// Of what is the same whichever way commits are written, one is enough.
fn leaves_out_same(kind: Kind) -> Option<&'static str> {
    matches!(kind, Kind::Scan | Kind::Reopen { .. } | Kind::Idle | Kind::Growth)
        .then_some("as plimsoll")
}

pub(crate) fn systems() -> Vec<System> {
    let system = |name, mode, leaves_out, open| System {
        name,
        role: Role::Engine,
        package: Some("plimsoll"),
        mode,
        durable: true,
        unchecked: None,
        few_logs: false,
        slow_batches: false,
        leaves_out,
        open,
    };
    // A variant is one more entry, with other options.
    vec![
        system(
            "plimsoll",
            "publish: one record, durable on return; default options",
            leaves_out,
            |dir: &Path, shape: &Shape| open(dir, shape, NodeOptions::default()),
        ),
        system(
            "plimsoll-buffered",
            "the same through the page cache (direct_writes off)",
            leaves_out_same,
            |dir: &Path, shape: &Shape| {
                let mut options = NodeOptions::default();
                options.direct_writes = false;
                open(dir, shape, options)
            },
        ),
    ]
}
