//! Inspection beside a running node.

use plimsoll::fs::OsFileSystem;
use plimsoll::inspect::{self, Outcome};
use plimsoll::{LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, WriteClass};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn case_I1_verify_never_calls_a_healthy_live_store_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = NodeOptions::default();
    options.segment_size = 1 << 20;
    let node = Node::open(dir.path(), options).unwrap();
    let logs: Vec<_> = (0..3)
        .map(|at| LogName::new(&format!("live{at}")).unwrap())
        .map(|name| node.open_log(&name, LogOptions::default()).unwrap())
        .collect();
    let stop = AtomicBool::new(false);
    let settle = || std::thread::sleep(Duration::from_millis(2));
    std::thread::scope(|scope| {
        for (at, log) in logs.iter().enumerate() {
            let stop = &stop;
            scope.spawn(move || {
                let bytes = vec![at as u8; 3000 + 900 * at];
                let mut count = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    let records = [NewRecord::new(&bytes); 3];
                    count = log.publish(WriteClass::Publish, &records).unwrap().first.0;
                    if count.is_multiple_of(30) {
                        log.truncate_before(Offset(count.saturating_sub(60))).unwrap();
                    }
                }
                assert!(count > 0);
            });
        }
        for round in 0..200 {
            let report = inspect::verify(Arc::new(OsFileSystem), dir.path(), &settle, &mut |_| ());
            let files = report.files_with_findings.iter().flat_map(|file| &file.findings);
            let all: Vec<_> =
                report.findings.iter().chain(files).map(ToString::to_string).collect();
            if report.outcome > Outcome::TornTail {
                stop.store(true, Ordering::Relaxed);
                panic!("round {round}: {}: {all:#?}", report.outcome);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let tails: u64 = logs.iter().map(|log| log.tail().0).sum();
    assert!(tails > 1000, "{tails}: nothing happened meanwhile");
    drop(logs);
    node.close().unwrap();
    let report = inspect::verify(Arc::new(OsFileSystem), dir.path(), &settle, &mut |_| ());
    assert_eq!(report.outcome, Outcome::Clean, "{:?}", report.findings);
}
