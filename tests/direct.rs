//! Which way commits go, and what happens where a file cannot be opened for direct writes.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use plimsoll::error::{Outcome, PublishError};
use plimsoll::fs::sim::{Fault, NothingPersisted, OpKind, SimFileSystem, What};
use plimsoll::permit::Decision;
use plimsoll::{
    CommitStats, Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, WriteClass,
};
use std::sync::Arc;

fn machine() -> SimFileSystem {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/data").unwrap();
    fs
}

fn options() -> NodeOptions {
    let mut options = NodeOptions::default();
    options.segment_size = 1 << 20;
    options.recent_max = 0;
    // Nothing is made beside the files that logs ask for.
    options.limits.pool.prepared = 0;
    options
}

fn start(fs: &SimFileSystem, options: &NodeOptions) -> (Node, Log) {
    let node = Node::builder("/data").options(options.clone()).file_system(Arc::new(fs.clone()));
    let node = node.without_threads().without_pressure().open().unwrap();
    let log = node.open_log(&LogName::new("a").unwrap(), LogOptions::default()).unwrap();
    (node, log)
}

fn publish(log: &Log, len: usize) -> Result<(), PublishError> {
    let fill = u8::try_from(log.durable().0 % 251).unwrap();
    log.publish(WriteClass::Publish, &[NewRecord::new(&vec![fill; len])]).map(drop)
}

fn read_back(log: &Log) {
    let mut reader = log.read_from(Offset::ZERO).unwrap();
    for number in 0..log.durable().0 {
        let record = reader.next().unwrap().unwrap();
        assert!(record.payload.iter().all(|byte| u64::from(*byte) == number % 251));
    }
    assert_eq!(reader.next().unwrap(), None);
}

fn commits(node: &Node) -> (u64, u64) {
    let CommitStats { direct, buffered, .. } = node.stats().commits;
    (direct, buffered)
}

/// Commits into the first file, over rolls, and after a start.
fn counted(fs: &SimFileSystem, options: &NodeOptions) -> (u64, u64) {
    let (node, log) = start(fs, options);
    for _ in 0..20 {
        publish(&log, 9_000).unwrap();
    }
    assert!(log.segments().len() > 1);
    read_back(&log);
    let first = commits(&node);
    drop(log);
    node.close().unwrap();
    fs.power_cut(&mut NothingPersisted);
    let (node, log) = start(fs, options);
    publish(&log, 9_000).unwrap();
    assert_eq!(log.durable(), Offset(21));
    read_back(&log);
    let second = commits(&node);
    (first.0 + second.0, first.1 + second.1)
}

#[test]
fn commits_are_counted_by_their_path() {
    assert_eq!(counted(&machine(), &options()), (21, 0));
    let without = machine();
    without.set_direct(false);
    assert_eq!(counted(&without, &options()), (0, 21), "the file system has none");
    let mut off = options();
    off.direct_writes = false;
    assert_eq!(counted(&machine(), &off), (0, 21), "they are switched off");
}

/// Where there are no direct writes no file is open twice: the descriptors of a node are counted.
#[test]
fn a_file_is_opened_once_where_there_are_no_direct_writes() {
    for direct in [true, false] {
        let fs = machine();
        fs.set_direct(direct);
        let (_node, log) = start(&fs, &options());
        publish(&log, 100).unwrap();
        fs.record(true);
        for _ in 0..3 {
            publish(&log, 100).unwrap();
        }
        let opens =
            |fs: &SimFileSystem| fs.trace().iter().filter(|op| op.kind == OpKind::Open).count();
        assert_eq!(opens(&fs), 0, "a commit finds its file open");
        fs.record(true);
        // Into the next file.
        for _ in 0..8 {
            publish(&log, 9_000).unwrap();
        }
        let rolls = log.segments().len() - 1;
        assert!(rolls > 0);
        assert_eq!(opens(&fs), if direct { rolls } else { 0 });
    }
}

/// The next open of a file of the log fails so.
fn fail_open(fs: &SimFileSystem, code: i32) {
    fs.inject(Fault::nth(OpKind::Open, 0, What::Errno(code)).on("/data/logs/"));
}

/// The first commit in a file holds it open for ordinary writes already.
#[test]
fn a_direct_open_that_fails_at_a_first_commit_leaves_it_buffered() {
    for code in [libc::EMFILE, libc::ENFILE, libc::EINVAL, libc::EIO, libc::EACCES] {
        let fs = machine();
        let (node, log) = start(&fs, &options());
        fail_open(&fs, code);
        if code == libc::EMFILE {
            // Once more: it is tried again with files closed.
            fs.inject(Fault::nth(OpKind::Open, 1, What::Errno(code)).on("/data/logs/"));
        }
        publish(&log, 100).unwrap();
        assert_eq!(fs.faults_waiting(), 0, "{code}");
        assert_eq!(commits(&node), (0, 1), "{code}");
        publish(&log, 100).unwrap();
        assert_eq!(log.durable(), Offset(2));
        read_back(&log);
        fs.power_cut(&mut NothingPersisted);
        let (_node, log) = start(&fs, &options());
        assert_eq!(log.durable(), Offset(2), "{code}");
        read_back(&log);
    }
}

#[test]
fn a_direct_open_that_finds_no_descriptor_is_tried_again() {
    let fs = machine();
    let (node, log) = start(&fs, &options());
    fail_open(&fs, libc::EMFILE);
    publish(&log, 100).unwrap();
    assert_eq!((fs.faults_waiting(), commits(&node)), (0, (1, 0)));
}

/// At a later commit there is no file at hand: nothing was written, and the log says so and goes on.
#[test]
fn a_direct_open_that_fails_at_a_later_commit_writes_nothing() {
    for code in [libc::EMFILE, libc::ENFILE, libc::EINVAL, libc::EIO] {
        let fs = machine();
        let (_node, log) = start(&fs, &options());
        publish(&log, 100).unwrap();
        drop(log);
        drop(_node);
        fs.process_death();
        let (node, log) = start(&fs, &options());
        // Of its opens the first one reads the block that the next record begins in.
        for nth in 1..3 {
            fs.inject(Fault::nth(OpKind::Open, nth, What::Errno(code)).on("/data/logs/"));
        }
        let before = fs.cached("/data/logs/a/00000000000000000000.seg").unwrap();
        let error = publish(&log, 100).unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotWritten, "{code}: {error}");
        assert!(fs.cached("/data/logs/a/00000000000000000000.seg").unwrap() == before);
        assert_eq!(log.stopped().map(|why| why.to_string()), None);
        fs.clear_faults();
        publish(&log, 100).unwrap();
        assert_eq!(log.durable(), Offset(2));
        assert_eq!(log.segments().len(), 1, "nothing was healed");
        assert_eq!(commits(&node), (1, 0));
        read_back(&log);
    }
}

/// A file system may take the flag and refuse the writes: then each file that the log heals into would refuse them too.
#[test]
fn a_log_whose_direct_writes_are_refused_goes_on_without_them() {
    let fs = machine();
    let (node, log) = start(&fs, &options());
    publish(&log, 100).unwrap();
    assert_eq!(commits(&node), (1, 0));
    let refused = What::Errno(libc::EINVAL);
    fs.inject(Fault::nth(OpKind::Write, 0, refused).on("/data/logs/"));
    assert_eq!(publish(&log, 100).unwrap_err().outcome(), Outcome::Unknown);
    for _ in 0..20 {
        publish(&log, 9_000).unwrap();
    }
    assert_eq!(commits(&node), (1, 20));
    read_back(&log);
}

#[test]
fn a_started_ticket_is_committed_by_a_committer() {
    let fs = machine();
    let (node, log) = start(&fs, &options());
    let admit = || match log.admit(WriteClass::Publish, 1) {
        Decision::Admit(permit) | Decision::Delay { permit, .. } => permit,
        Decision::Refuse(limited) => panic!("{limited}"),
    };
    // One that is only held waits for the next one.
    let held = log.append(admit(), &[NewRecord::new(b"a")]).unwrap();
    while node.step() {}
    assert_eq!(log.durable(), Offset(0));
    let started = log.append(admit(), &[NewRecord::new(b"b")]).unwrap();
    started.start();
    while node.step() {}
    assert_eq!(log.durable(), Offset(2));
    assert_eq!(held.wait().unwrap().first, Offset(0));
    assert_eq!(started.wait().unwrap().first, Offset(1));
}
