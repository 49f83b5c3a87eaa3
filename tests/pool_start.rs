//! What a start with many logs and spares costs whoever comes first.
#![allow(clippy::unwrap_used, missing_docs)]

use plimsoll::clock::{Clock, ManualClock};
use plimsoll::fs::sim::{OpKind, SimFileSystem};
use plimsoll::{LogName, LogOptions, NewRecord, Node, NodeOptions, WriteClass};
use std::sync::Arc;
use std::time::Duration;

const LOGS: usize = 200;

fn start(fs: &SimFileSystem, clock: &Arc<ManualClock>) -> Node {
    let mut options = NodeOptions::default();
    options.segment_size = 1 << 20;
    options.pool.kept_back = 1 << 20;
    Node::builder("/data")
        .options(options)
        .file_system(Arc::new(fs.process()))
        .clock(Arc::clone(clock) as Arc<dyn Clock>)
        .without_threads()
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
