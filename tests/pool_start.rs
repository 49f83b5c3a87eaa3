//! What a start with many logs and spares costs whoever comes first, and what is held without need.
#![allow(clippy::unwrap_used, missing_docs)]

use plimsoll::clock::{Clock, ManualClock};
use plimsoll::fs::sim::{Fault, OpKind, SimFileSystem, What};
use plimsoll::{LogName, LogOptions, NewRecord, Node, NodeOptions, Size, WriteClass};
use std::sync::Arc;
use std::time::Duration;

const LOGS: usize = 200;

fn start(fs: &SimFileSystem, clock: &Arc<ManualClock>) -> Node {
    let mut options = NodeOptions::default();
    options.segment_size = 1 << 20;
    options.limits.pool.kept_back = Size(1 << 20);
    Node::builder("/data")
        .options(options)
        .file_system(Arc::new(fs.process()))
        .clock(Arc::clone(clock) as Arc<dyn Clock>)
        .without_threads()
        .without_pressure()
        .open()
        .unwrap()
}

fn publish(node: &Node, name: &str, count: usize) {
    let log = node.open_log(&LogName::new(name).unwrap(), LogOptions::default()).unwrap();
    for _ in 0..count {
        log.publish(WriteClass::Publish, &[NewRecord::new(&[7; 4000])]).unwrap();
    }
}

fn machine() -> (SimFileSystem, Arc<ManualClock>) {
    let fs = SimFileSystem::new(9);
    fs.prepare_dir("/").unwrap();
    (fs, Arc::new(ManualClock::new(1_700_000_000_000)))
}

/// Directories synced while a new log gets its first record.
fn synced(fs: &SimFileSystem, node: &Node) -> usize {
    fs.record(true);
    publish(node, "new", 1);
    let trace = fs.trace();
    fs.record(false);
    trace.iter().filter(|op| op.kind == OpKind::SyncDir).count()
}

#[test]
fn the_first_append_after_a_start_syncs_no_other_logs_directory() {
    let (fs, clock) = machine();
    let node = start(&fs, &clock);
    for log in 0..LOGS {
        publish(&node, &format!("q/{log}"), 1);
    }
    while node.step() {}
    assert!(node.stats().pools[0].ready[0] > 0);
    node.close().unwrap();
    let node = start(&fs, &clock);
    assert!(node.stats().pools[0].coming[0] > 0, "spares of the earlier life are there");
    let synced = synced(&fs, &node);
    assert!(synced < 10, "{synced} directories were synced");
}

#[test]
fn the_first_append_does_not_wait_for_what_was_given_up_and_not_stamped() {
    let (fs, clock) = machine();
    let node = start(&fs, &clock);
    for log in 0..LOGS {
        publish(&node, &format!("q/{log}"), 1);
    }
    while node.step() {}
    let log = node.open_log(&LogName::new("q/0").unwrap(), LogOptions::default()).unwrap();
    for _ in 0..40 {
        log.publish(WriteClass::Publish, &[NewRecord::new(&[7; 4000])]).unwrap();
    }
    log.truncate_before(log.durable()).unwrap();
    drop((log, node));
    fs.process_death();
    let node = start(&fs, &clock);
    let synced = synced(&fs, &node);
    assert!(synced < 10, "{synced} directories were synced");
    // The worker does it, and then they serve.
    fs.record(true);
    clock.advance(Duration::from_secs(1));
    while node.step() {}
    let all = fs.trace().iter().filter(|op| op.kind == OpKind::SyncDir).count();
    assert!(all >= LOGS, "{all} directories were synced");
    assert_eq!(node.stats().pools[0].deleted_unfit, 0);
}

#[test]
fn a_slow_log_holds_no_file_in_reserve_and_a_fast_one_does() {
    for (pause, reserves) in [(0, true), (60, false)] {
        let (fs, clock) = machine();
        let node = start(&fs, &clock);
        let log = node.open_log(&LogName::new("q").unwrap(), LogOptions::default()).unwrap();
        // Fourteen records of one block fill a file of 64 KiB; after twelve it is full to three quarters.
        for _ in 0..12 {
            clock.advance(Duration::from_secs(pause));
            log.publish(WriteClass::Publish, &[NewRecord::new(&[7; 4000])]).unwrap();
        }
        // Not to the end: ten quiet seconds would give it back.
        for _ in 0..100 {
            node.step();
        }
        assert_eq!(log.segments().len(), 1);
        assert_eq!(node.stats().reserved_bytes > 0, reserves, "a record every {pause} s");
    }
}

#[test]
fn i6_a_file_whose_move_was_not_synced_is_not_counted_for_ever() {
    let (fs, clock) = machine();
    let node = start(&fs, &clock);
    while node.step() {}
    let before = node.stats().pools.remove(0);
    publish(&node, "q", 40);
    let log = node.open_log(&LogName::new("q").unwrap(), LogOptions::default()).unwrap();
    fs.inject(Fault::nth(OpKind::SyncDir, 0, What::Errno(libc::EIO)).on("spares"));
    assert!(log.truncate_before(log.durable()).is_err());
    fs.clear_faults();
    log.truncate_before(log.durable()).unwrap();
    // The log gives back what it had in reserve.
    clock.advance(Duration::from_secs(11));
    while node.step() {}
    while node.step() {}
    assert_eq!(node.stats().reserved_bytes, 0);
    let after = node.stats().pools.remove(0);
    assert_eq!(after.deleted_unfit, before.deleted_unfit + 1);
    assert_eq!(after.coming, [0; 3]);
    let files = fs.files();
    let spares = files.iter().filter(|path| path.starts_with("/data/spares")).count() as u64;
    assert_eq!(spares, after.ready.iter().sum::<u64>());
}
