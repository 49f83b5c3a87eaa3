//! Readers that keep up read from memory, and read the same as from the file.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use plimsoll::fs::sim::{OpKind, SimFileSystem};
use plimsoll::{Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, WriteClass};
use std::sync::Arc;
use std::time::Duration;

fn node(recent_max: usize) -> (SimFileSystem, Node) {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/data").unwrap();
    let mut options = NodeOptions::default();
    options.segment_size = 1 << 20;
    options.recent_max = recent_max;
    let node = Node::builder("/data").options(options).file_system(Arc::new(fs.clone()));
    let node = node.without_threads().open().unwrap();
    (fs, node)
}

fn open(node: &Node, name: &str) -> Log {
    node.open_log(&LogName::new(name).unwrap(), LogOptions::default()).unwrap()
}

fn publish(log: &Log, len: usize) -> Vec<u8> {
    let number = log.tail().0;
    let mut payload = number.to_le_bytes().to_vec();
    payload.resize(len.max(8), u8::try_from(number % 251).unwrap());
    log.publish(WriteClass::Publish, &[NewRecord::new(&payload)]).unwrap();
    payload
}

/// How often the file system was asked for bytes of segment files.
fn reads(fs: &SimFileSystem) -> usize {
    let trace = fs.trace();
    trace.iter().filter(|op| op.kind == OpKind::Read && op.path.starts_with("/data/logs")).count()
}

#[test]
fn a_reader_that_keeps_up_reads_no_file() {
    let (fs, node) = node(32 << 20);
    let log = open(&node, "a");
    let mut reader = log.read_from(Offset::ZERO).unwrap();
    // Through all sizes of files, in commits that are copied and in such that are kept whole.
    for round in 0..600 {
        fs.record(round > 0);
        let expected = publish(&log, [20, 3000, 700, 90_000][round % 4]);
        assert_eq!(reader.next().unwrap().unwrap().payload, expected);
        assert_eq!(reader.next().unwrap(), None);
        // A second consumer that comes where the first one is.
        if round % 50 == 0 {
            let mut second = log.read_from(Offset(log.durable().0 - 1)).unwrap();
            assert_eq!(second.next().unwrap().unwrap().payload, expected);
        } else {
            assert_eq!(reads(&fs), 0, "round {round}");
        }
    }
    assert!(log.segments().len() > 5);
    assert!(node.stats().recent_bytes > 0);
}

#[test]
fn what_is_in_memory_is_what_is_in_the_file() {
    for lag in [1, 7, 100, 300] {
        let (_, node) = node(1 << 20);
        let log = open(&node, "a");
        let mut readers = vec![log.read_from(Offset::ZERO).unwrap()];
        let mut expected = Vec::new();
        for round in 0..400_usize {
            expected.push(publish(&log, round * 37 % 5000));
            if round % 11 == 0 {
                readers.push(log.read_from(Offset(expected.len() as u64 / 2)).unwrap());
            }
            if round % lag == 0 {
                for reader in &mut readers {
                    while let Some(record) = reader.next().unwrap() {
                        let at = usize::try_from(record.offset.0).unwrap();
                        assert_eq!(record.payload, expected[at]);
                    }
                    assert_eq!(reader.position().0, expected.len() as u64);
                }
            }
        }
    }
}

#[test]
fn i12_logs_share_what_is_kept_and_give_it_up() {
    let max = 1 << 20;
    let (_, node) = node(max);
    let mut open_logs = Vec::new();
    for number in 0..40 {
        let log = open(&node, &format!("log-{number}"));
        let reader = log.read_from(Offset::ZERO).unwrap();
        for _ in 0..50 {
            publish(&log, 3000);
        }
        // One piece of a log, and what a log had before the others came.
        assert!(node.stats().recent_bytes <= 2 * max as u64, "{}", node.stats().recent_bytes);
        open_logs.push((log, reader));
    }
    assert!(node.stats().recent_bytes > 0);
    drop(open_logs);
    node.clone().close().unwrap();
    assert_eq!(node.stats().recent_bytes, 0);
}

#[test]
fn a_log_that_nobody_reads_keeps_nothing() {
    let (_, node) = node(32 << 20);
    let log = open(&node, "a");
    for _ in 0..50 {
        publish(&log, 3000);
    }
    assert_eq!(node.stats().recent_bytes, 0);
    let none = self::node(0);
    let log = open(&none.1, "a");
    let mut reader = log.read_from(Offset::ZERO).unwrap();
    let expected = publish(&log, 3000);
    assert_eq!(none.1.stats().recent_bytes, 0);
    assert_eq!(reader.next().unwrap().unwrap().payload, expected);
}

#[test]
fn a_log_that_comes_when_all_is_taken_gets_its_share() {
    let (fs, node) = node(1 << 20);
    let mut logs = Vec::new();
    let round = |logs: &mut Vec<(Log, plimsoll::Reader)>| {
        for (log, reader) in logs {
            // Each keeps a buffer of 128 KiB.
            let expected = publish(log, 70_000);
            assert_eq!(reader.next().unwrap().unwrap().payload, expected);
        }
    };
    for number in 0..9 {
        let log = open(&node, &format!("log-{number}"));
        let reader = log.read_from(Offset::ZERO).unwrap();
        logs.push((log, reader));
        round(&mut logs);
    }
    for _ in 0..20 {
        round(&mut logs);
    }
    // Not all at a time fit; but none has nothing every time.
    let (mut from_file, rounds) = ([0; 9], 9);
    for _ in 0..rounds {
        for (number, (log, reader)) in logs.iter_mut().enumerate() {
            fs.record(true);
            let expected = publish(log, 70_000);
            assert_eq!(reader.next().unwrap().unwrap().payload, expected);
            from_file[number] += usize::from(reads(&fs) > 0);
        }
    }
    assert!(from_file.iter().all(|&count| count < rounds), "{from_file:?}");
}

#[test]
fn a_log_that_is_read_no_more_gives_up_what_it_kept() {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/data").unwrap();
    let clock = Arc::new(plimsoll::clock::ManualClock::new(1_700_000_000_000));
    let mut options = NodeOptions::default();
    options.idle_checkpoint = Duration::from_secs(3600);
    let node = Node::builder("/data").options(options).file_system(Arc::new(fs));
    let node = node.clock(Arc::clone(&clock) as Arc<_>).without_threads().open().unwrap();
    let log = open(&node, "a");
    let reader = log.read_from(Offset::ZERO).unwrap();
    publish(&log, 3000);
    assert!(node.stats().recent_bytes > 0);
    drop(reader);
    // Consumers come back.
    publish(&log, 3000);
    assert!(node.stats().recent_bytes > 0);
    clock.advance(Duration::from_secs(11));
    publish(&log, 3000);
    assert_eq!(node.stats().recent_bytes, 0);
}
