//! The last file is empty and the next record does not fit it: a larger file takes its place and its name.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, non_snake_case)]

use plimsoll::clock::ManualClock;
use plimsoll::format::layout::{self, ClassSizes};
use plimsoll::fs::FileSystem;
use plimsoll::fs::sim::{
    AllPersisted, Chooser, Fault, NothingPersisted, OpKind, Seeded, SimFileSystem, What,
};
use plimsoll::{Log, LogName, LogOptions, NewRecord, Node, WriteClass};
use std::path::Path;
use std::sync::Arc;

const SIZES: ClassSizes = ClassSizes { tiny: 12 << 10, small: 16 << 10, main: 32 << 10 };

fn new_disk() -> SimFileSystem {
    let fs = SimFileSystem::new(11);
    fs.prepare_dir("/data").unwrap();
    let file = fs.create(Path::new("/data/LAYOUT")).unwrap();
    file.write_at(0, layout::encode(&SIZES).as_bytes()).unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new("/data")).unwrap();
    fs
}

fn open(fs: &SimFileSystem) -> (Node, Log) {
    let node = Node::builder("/data")
        .file_system(Arc::new(fs.process()))
        .clock(Arc::new(ManualClock::new(1000)))
        .without_threads()
        .open()
        .unwrap();
    let log = node.open_log(&LogName::new("log").unwrap(), LogOptions::default()).unwrap();
    (node, log)
}

fn publish(log: &Log, payload: &[u8]) -> bool {
    log.publish(WriteClass::Publish, &[NewRecord::new(payload)]).is_ok()
}

/// A log with three records, all truncated, whose only file is empty: the one that it went on in after a failed sync.
fn log_with_one_empty_file(fs: &SimFileSystem) -> (Node, Log) {
    let (node, log) = open(fs);
    for _ in 0..3 {
        assert!(publish(&log, b"small"));
    }
    fs.inject(Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO)).on(".seg"));
    while publish(&log, b"small") {}
    fs.clear_faults();
    log.truncate_before(log.durable()).unwrap();
    let segments = log.segments();
    assert_eq!(segments.len(), 1);
    assert_eq!(segments[0].base, log.durable());
    assert_eq!(log.read_from(log.durable()).unwrap().next().unwrap(), None);
    (node, log)
}

const LARGE: [u8; 9000] = [7; 9000];

#[test]
fn i1_truncation_leaves_the_file_that_replaced_an_empty_one() {
    let fs = new_disk();
    let (node, log) = log_with_one_empty_file(&fs);
    let offset = log.durable();
    assert!(publish(&log, &LARGE));
    assert!(publish(&log, &LARGE));
    assert_eq!(log.segments().len(), 1, "the empty one is forgotten");
    let done = log.truncate_before(offset).unwrap();
    assert_eq!((done.segments_freed, done.head), (0, offset));
    for _ in 0..2 {
        let mut reader = log.read_from(offset).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().payload, LARGE);
    }
    node.close().unwrap();
    drop(log);
    let (_node, log) = open(&fs);
    assert_eq!((log.head(), log.durable()), (offset, offset.plus(2)));
    let mut reader = log.read_from(offset).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().payload, LARGE);
}

#[test]
fn i8_offsets_survive_a_crash_at_any_call_while_the_empty_file_is_replaced() {
    let disk = new_disk();
    let (node, log) = log_with_one_empty_file(&disk);
    let offset = log.durable();
    let start = disk.ops();
    assert!(publish(&log, &LARGE));
    let calls = disk.ops() - start;
    drop((node, log));
    assert!(calls > 5);
    for call in 0..=calls {
        let choosers: [&mut dyn Chooser; 4] = [
            &mut AllPersisted,
            &mut NothingPersisted,
            &mut Seeded::new(call),
            &mut Seeded::new(!call),
        ];
        for chooser in choosers {
            let fs = new_disk();
            let (node, log) = log_with_one_empty_file(&fs);
            assert_eq!((log.durable(), fs.ops()), (offset, start));
            fs.crash_at(start + call);
            let confirmed = publish(&log, &LARGE);
            fs.power_cut(chooser);
            drop((node, log));
            let (_node, log) = open(&fs);
            assert!(log.stopped().is_none());
            let next = log.durable();
            assert!(next >= offset, "crash at call {call}: next is {next}, was {offset}");
            assert!(!confirmed || next == offset.plus(1), "crash at call {call}");
            assert!(log.head() == offset || log.head() < offset && next == offset);
            assert!(publish(&log, &LARGE));
            assert_eq!(log.durable(), next.plus(1));
        }
    }
}

#[test]
fn i5_a_failure_while_the_empty_file_is_replaced_keeps_its_word() {
    for kind in [OpKind::Write, OpKind::Sync, OpKind::Rename, OpKind::SyncDir] {
        for what in [What::Errno(libc::EIO), What::DoneThen(libc::EIO)] {
            for nth in 0..6 {
                let fs = new_disk();
                let (node, log) = log_with_one_empty_file(&fs);
                let offset = log.durable();
                fs.inject(Fault::nth(kind, nth, what));
                let first = log.publish(WriteClass::Publish, &[NewRecord::new(&LARGE)]);
                fs.clear_faults();
                if log.stopped().is_none() {
                    assert!(publish(&log, b"after"), "{kind:?} {what:?} {nth}");
                }
                fs.power_cut(&mut Seeded::new(nth));
                drop((node, log));
                let (_node, log) = open(&fs);
                assert!(log.durable() >= offset);
                let mut reader = log.read_from(log.head().max(offset)).unwrap();
                let mut found = Vec::new();
                while let Some(record) = reader.next().unwrap() {
                    found.push(record.payload);
                }
                let large = found.iter().filter(|payload| **payload == LARGE).count();
                match first {
                    Ok(_) => assert_eq!(large, 1, "confirmed: {kind:?} {what:?} {nth}"),
                    Err(error) if error.outcome() == plimsoll::error::Outcome::NotWritten => {
                        assert_eq!(large, 0, "refused: {kind:?} {what:?} {nth}");
                    }
                    Err(_) => assert!(large <= 1),
                }
            }
        }
    }
}
