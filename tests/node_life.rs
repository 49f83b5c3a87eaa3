//! Handles that outlive their log or node, and calls that race closing and deleting.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use plimsoll::error::{OpenError, Stopped, TruncateError};
use plimsoll::{Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, WriteClass};
use std::path::Path;
use std::sync::Mutex;

fn node(dir: &Path) -> Node {
    let mut options = NodeOptions::default();
    options.segment_size = 1 << 20;
    Node::open(dir, options).unwrap()
}

fn open(node: &Node, name: &str) -> Result<Log, OpenError> {
    node.open_log(&LogName::new(name).unwrap(), LogOptions::default())
}

fn fill(log: &Log, records: u64) {
    let payload = vec![7; 3000];
    for _ in 0..records {
        log.publish(WriteClass::Publish, &[NewRecord::new(&payload)]).unwrap();
    }
}

fn count(log: &Log) -> usize {
    let mut reader = log.read_from(log.head()).unwrap();
    std::iter::from_fn(|| reader.next().unwrap()).count()
}

#[test]
fn a_handle_of_a_deleted_log_does_not_touch_the_new_one_of_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let old = open(&node, "q").unwrap();
    fill(&old, 400);
    node.delete_log(old.name()).unwrap();
    let new = open(&node, "q").unwrap();
    fill(&new, 400);
    let refused = old.truncate_before(Offset(1000)).unwrap_err();
    assert!(matches!(refused, TruncateError::Stopped(Stopped::Deleted)), "{refused}");
    assert_eq!((new.head(), count(&new)), (Offset(0), 400));
    drop(new);
    node.close().unwrap();
    let node = self::node(dir.path());
    assert_eq!(count(&open(&node, "q").unwrap()), 400);
}

#[test]
fn a_handle_of_a_closed_node_does_not_touch_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let first = node(dir.path());
    let stale = open(&first, "q").unwrap();
    fill(&stale, 400);
    first.close().unwrap();
    let second = node(dir.path());
    let log = open(&second, "q").unwrap();
    let refused = stale.truncate_before(Offset(1000)).unwrap_err();
    assert!(matches!(refused, TruncateError::Stopped(Stopped::Closed)), "{refused}");
    assert_eq!(count(&log), 400);
}

#[test]
fn i1_a_log_that_is_opened_while_its_node_closes_has_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let confirmed = Mutex::new(Vec::new());
    for life in 0..30u64 {
        let node = node(dir.path());
        std::thread::scope(|scope| {
            for writer in 0..4u64 {
                let (node, confirmed) = (node.clone(), &confirmed);
                scope.spawn(move || {
                    for number in 0.. {
                        let bytes = format!("{life} {writer} {number}").into_bytes();
                        let Ok(log) = open(&node, "raced") else { break };
                        let done = log.publish(WriteClass::Publish, &[NewRecord::new(&bytes)]);
                        if let Ok(done) = done {
                            confirmed.lock().unwrap().push((done.first.0, bytes));
                        }
                    }
                });
            }
            std::thread::sleep(std::time::Duration::from_millis(2 + life % 7));
            node.clone().close().unwrap();
        });
    }
    let node = node(dir.path());
    let log = open(&node, "raced").unwrap();
    let mut reader = log.read_from(Offset(0)).unwrap();
    let read: Vec<_> =
        std::iter::from_fn(|| reader.next().unwrap().map(|r| (r.offset.0, r.payload))).collect();
    let mut confirmed = confirmed.into_inner().unwrap();
    confirmed.sort();
    assert!(confirmed.len() > 30, "something was appended in each life");
    for (offset, bytes) in confirmed {
        assert_eq!(read[usize::try_from(offset).unwrap()], (offset, bytes));
    }
}

#[test]
fn an_open_log_is_no_folder_and_a_folder_no_log() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let log = open(&node, "e").unwrap();
    assert!(matches!(open(&node, "e/f"), Err(OpenError::NameTaken { .. })));
    fill(&log, 1);
    let inner = open(&node, "g/h").unwrap();
    assert!(matches!(open(&node, "g"), Err(OpenError::NameTaken { .. })));
    fill(&inner, 1);
    drop((log, inner));
    node.close().unwrap();
    let node = self::node(dir.path());
    assert_eq!(count(&open(&node, "e").unwrap()), 1);
    assert_eq!(count(&open(&node, "g/h").unwrap()), 1);
}

#[test]
fn a_deleted_log_has_given_its_space_back_when_the_node_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    fill(&open(&node, "q").unwrap(), 100);
    node.delete_log(&LogName::new("q").unwrap()).unwrap();
    node.close().unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join("trash")).unwrap().count(), 0);
}

#[test]
fn logs_in_one_new_folder_can_be_opened_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    for folder in 0..50 {
        let all = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for log in 0..4 {
                let (all, node) = (&all, &node);
                scope.spawn(move || {
                    all.wait();
                    fill(&open(node, &format!("folder-{folder}/log-{log}")).unwrap(), 1);
                });
            }
        });
    }
    assert_eq!(node.logs().unwrap().len(), 200);
}

/// A folder that had just lost its last log was removed while another log was being made in it, and that failed for no reason
/// that its caller could know.
#[test]
fn a_log_is_made_in_a_folder_that_another_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let come_and_go = |name: &str| {
        for _ in 0..300 {
            let log = open(&node, name).unwrap();
            node.delete_log(log.name()).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for name in ["f/g/a", "f/g/b", "f/c"] {
            scope.spawn(move || come_and_go(name));
        }
    });
    node.close().unwrap();
}
