//! A log without a shared node: the same engine, with a pool of its own.
#![allow(clippy::unwrap_used, missing_docs)]

use plimsoll::error::OpenError;
use plimsoll::{NewRecord, NodeOptions, Offset, PrivateLog, WriteClass};

fn options() -> NodeOptions {
    let mut options = NodeOptions::private();
    options.segment_size = 256 << 10;
    options
}

fn append(log: &PrivateLog, count: u64) {
    for _ in 0..count {
        log.publish(WriteClass::Publish, &[NewRecord::new(&[7; 4000])]).unwrap();
    }
}

#[test]
fn a_private_log_reuses_its_files_and_keeps_nothing_back() {
    let dir = tempfile::tempdir().unwrap();
    let log = PrivateLog::open(dir.path(), options()).unwrap();
    for round in 1..20 {
        append(&log, 50);
        log.truncate_before(log.durable()).unwrap();
        assert_eq!(log.tail(), Offset(round * 50));
    }
    let stats = log.node().stats().pools.remove(0);
    assert!(stats.given_up > 0 && stats.taken_reused > 0, "{stats:?}");
    assert_eq!((stats.kept_back_bytes, stats.kept_back_missing), (0, 0));
    log.close().unwrap();
    let log = PrivateLog::open(dir.path(), options()).unwrap();
    assert_eq!(log.durable(), Offset(19 * 50));
    append(&log, 1);
}

#[test]
fn two_private_logs_cannot_have_one_directory() {
    let dir = tempfile::tempdir().unwrap();
    let log = PrivateLog::open(dir.path(), options()).unwrap();
    let second = PrivateLog::open(dir.path(), options()).unwrap_err();
    assert!(matches!(second, OpenError::Locked { .. }), "{second}");
    drop(log);
    assert!(PrivateLog::open(dir.path(), options()).is_ok());
}
