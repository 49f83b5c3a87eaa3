//! Which real file systems have direct writes, and that what was written so is read back through the page cache.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]
#![allow(clippy::disallowed_methods, reason = "not the engine: a test")]

#[path = "common/skip.rs"]
mod skip;

use faultlab::mounts::{ENOUGH, Mount, run};
use plimsoll::{
    CommitStats, Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, WriteClass,
};
use std::path::Path;
use std::process::Command;

/// The mount, or `None` after saying that the test `name` was skipped.
fn or_skip(name: &str, mount: Result<Mount, String>) -> Option<Mount> {
    mount.inspect_err(|reason| skip::skip(name, reason)).ok()
}

fn open(dir: &Path, direct_writes: bool) -> (Node, Log) {
    let mut options = NodeOptions::default();
    options.segment_size = 1 << 20;
    options.direct_writes = direct_writes;
    // Readers are to read the files.
    options.recent_max = 0;
    let node = Node::builder(dir.join("data")).options(options).without_pressure().open().unwrap();
    let log = node.open_log(&LogName::new("a").unwrap(), LogOptions::default()).unwrap();
    (node, log)
}

fn payload(number: u64) -> Vec<u8> {
    let len = usize::try_from([20, 700, 5_000, 40_000][usize::try_from(number % 4).unwrap()]);
    let mut payload = number.to_le_bytes().to_vec();
    payload.resize(len.unwrap(), u8::try_from(number % 251).unwrap());
    payload
}

fn publish(log: &Log, count: u64) {
    for _ in 0..count {
        let number = log.durable().0;
        log.publish(WriteClass::Publish, &[NewRecord::new(&payload(number))]).unwrap();
    }
}

fn read_back(log: &Log) {
    let mut reader = log.read_from(Offset::ZERO).unwrap();
    for number in 0..log.durable().0 {
        assert_eq!(reader.next().unwrap().unwrap().payload, payload(number), "record {number}");
    }
    assert_eq!(reader.next().unwrap(), None);
}

fn commits(node: &Node) -> CommitStats {
    node.stats().commits
}

/// Drops what the file system has in memory, as far as it is on the disk.
fn remount(mount: &Mount) -> Result<(), String> {
    run(Command::new("mount").args(["-o", "remount,ro"]).arg(mount.path()))?;
    run(Command::new("mount").args(["-o", "remount,rw"]).arg(mount.path()))
}

/// A log written on a path, then on the other one, with reads in between; gives what the first node counted.
fn written_and_read(mount: &Mount, direct: bool) -> CommitStats {
    let (node, log) = open(mount.path(), direct);
    for _ in 0..6 {
        publish(&log, 10);
        read_back(&log);
    }
    let stats = commits(&node);
    assert_eq!(stats.direct + stats.buffered, 60);
    drop(log);
    node.close().unwrap();
    if let Err(reason) = remount(mount) {
        skip::skip("remount", &reason);
    }
    // What one path wrote the other goes on from.
    let (node, log) = open(mount.path(), !direct);
    read_back(&log);
    publish(&log, 30);
    read_back(&log);
    drop(log);
    node.close().unwrap();
    let (node, log) = open(mount.path(), direct);
    assert_eq!(log.durable().0, 90);
    read_back(&log);
    drop(log);
    node.close().unwrap();
    stats
}

fn test(name: &str, make: impl Fn() -> Result<Mount, String>, has_direct: Option<bool>) {
    for direct in [true, false] {
        let Some(mount) = or_skip(name, make()) else { return };
        let stats = written_and_read(&mount, direct);
        println!("{name}, direct_writes {direct}: {stats:?}");
        match (direct, has_direct) {
            (false, _) => assert_eq!(stats.direct, 0),
            (true, Some(true)) => assert_eq!(stats.buffered, 0),
            (true, Some(false)) => assert_eq!(stats.direct, 0),
            (true, None) => assert!(stats.direct == 0 || stats.buffered == 0, "{stats:?}"),
        }
    }
}

#[test]
fn a_log_on_ext4_is_written_directly_and_read_back() {
    test("a_log_on_ext4_is_written_directly_and_read_back", || Mount::ext4(96 << 20), Some(true));
}

#[test]
fn a_log_on_xfs_is_written_directly_and_read_back() {
    test("a_log_on_xfs_is_written_directly_and_read_back", || Mount::xfs(ENOUGH), Some(true));
}

/// Whether it has them is the kernel's.
#[test]
fn a_log_on_btrfs_is_read_back_however_it_was_written() {
    test("a_log_on_btrfs_is_read_back_however_it_was_written", || Mount::btrfs(ENOUGH), None);
}

/// Some kernels take the flag on a file system in memory, where it means nothing.
#[test]
fn a_log_in_memory_is_written_through_the_page_cache() {
    test(
        "a_log_in_memory_is_written_through_the_page_cache",
        || Mount::tmpfs(96 << 20),
        Some(false),
    );
}
