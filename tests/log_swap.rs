//! A log that is idle and fully truncated holds a tiny file, however large its last one was.
#![allow(clippy::unwrap_used, missing_docs, non_snake_case)]

use plimsoll::clock::{Clock, ManualClock};
use plimsoll::fs::sim::{Fault, OpKind, SimFileSystem, What};
use plimsoll::types::SizeClass;
use plimsoll::{Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, Size, WriteClass};
use std::sync::Arc;
use std::time::Duration;

struct Machine {
    fs: SimFileSystem,
    clock: Arc<ManualClock>,
}

impl Machine {
    fn new() -> Self {
        let fs = SimFileSystem::new(3);
        fs.prepare_dir("/").unwrap();
        Self { fs, clock: Arc::new(ManualClock::new(1_700_000_000_000)) }
    }

    fn start(&self) -> Node {
        let mut options = NodeOptions::default();
        options.segment_size = 1 << 20;
        options.limits.pool.kept_back = Size(0);
        Node::builder("/data")
            .options(options)
            .file_system(Arc::new(self.fs.process()))
            .clock(Arc::clone(&self.clock) as Arc<dyn Clock>)
            .without_threads()
            .without_pressure()
            .open()
            .unwrap()
    }

    fn idle(&self, node: &Node) {
        self.clock.advance(Duration::from_secs(11));
        while node.step() {}
    }
}

fn open(node: &Node) -> Log {
    node.open_log(&LogName::new("quiet").unwrap(), LogOptions::default()).unwrap()
}

fn append(log: &Log, count: u64) {
    for _ in 0..count {
        log.publish(WriteClass::Publish, &[NewRecord::new(&[7; 4000])]).unwrap();
    }
}

fn classes(log: &Log) -> Vec<SizeClass> {
    log.segments().iter().map(|segment| segment.class).collect()
}

#[test]
fn i8_an_emptied_idle_log_swaps_its_large_file_for_a_tiny_one() {
    let machine = Machine::new();
    let node = machine.start();
    let log = open(&node);
    append(&log, 60);
    assert_eq!(classes(&log).last(), Some(&SizeClass::Main));

    // Records are left: the file stays.
    log.truncate_before(Offset(59)).unwrap();
    machine.idle(&node);
    assert_eq!(classes(&log), [SizeClass::Main]);

    log.truncate_before(log.durable()).unwrap();
    let given_up = node.stats().pools[0].given_up;
    machine.idle(&node);
    assert_eq!(classes(&log), [SizeClass::Tiny]);
    assert_eq!((log.head(), log.tail()), (Offset(60), Offset(60)));
    assert_eq!(node.stats().pools[0].given_up, given_up + 1, "others can use it");

    // It is not swapped again, goes on where it was, and does so after a restart.
    machine.idle(&node);
    append(&log, 1);
    assert_eq!(log.durable(), Offset(61));
    node.close().unwrap();
    let node = machine.start();
    let log = open(&node);
    assert_eq!((log.head(), log.durable()), (Offset(60), Offset(61)));
    assert_eq!(classes(&log), [SizeClass::Tiny]);
    assert_eq!(log.read_from(Offset(60)).unwrap().next().unwrap().unwrap().payload, [7; 4000]);
}

#[test]
fn a_reader_in_the_large_file_keeps_it_until_it_leaves() {
    let machine = Machine::new();
    let node = machine.start();
    let log = open(&node);
    append(&log, 60);
    let mut reader = log.read_from(Offset(50)).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().offset, Offset(50));
    log.truncate_before(log.durable()).unwrap();
    machine.idle(&node);
    assert_eq!(classes(&log), [SizeClass::Tiny]);
    assert_eq!(reader.next().unwrap().unwrap().offset, Offset(51));
    let before = node.stats().pools[0].given_up;
    drop(reader);
    machine.idle(&node);
    assert_eq!(node.stats().pools[0].given_up, before + 1);
}

#[test]
fn without_room_for_a_tiny_file_the_large_one_stays() {
    let machine = Machine::new();
    let node = machine.start();
    let log = open(&node);
    append(&log, 60);
    log.truncate_before(log.durable()).unwrap();
    let mut limits = node.limits();
    limits.pool.budget_cap = Size(0);
    node.set_limits(limits).unwrap();
    while node.step() {}
    assert_eq!(node.stats().pools[0].bytes, 0);
    let full = What::Errno(libc::ENOSPC);
    machine.fs.inject(Fault::nth(OpKind::Create, 0, full).forever());
    machine.idle(&node);
    assert_eq!(classes(&log), [SizeClass::Main]);
    append(&log, 1);
}
