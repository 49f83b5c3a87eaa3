//! What ten thousand open, idle logs of one record each take.

use crate::process;
use crate::report::{Goal, Report, Rounds};
use crate::setup::{self, Settings};
use plimsoll::{Log, LogOptions, NewRecord, Node, NodeOptions, WriteClass};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Descriptors beside those of segment files: standard streams, lock, what happens to be open.
const DESCRIPTORS_BESIDE: usize = 32;

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let logs = if settings.small { 1000 } else { 10_000 };
    let scratch = settings.scratch("footprint");
    let mut options = NodeOptions::default();
    options.idle_checkpoint = Duration::from_secs(1);
    let setting = options.open_files;
    let node = Node::open(scratch.path().join("data"), options).unwrap();
    // The node's own buffers and threads are there before the first log.
    let warm = make(&node, "warm", 16);
    let (memory, descriptors) = (process::memory(), process::descriptors());
    let begun = Instant::now();
    let open = make(&node, "log", logs);
    let made = begun.elapsed().as_secs_f64();
    let busy = process::memory();
    let begun = Instant::now();
    wait_until_idle(&node, scratch.path());
    let idle_after = begun.elapsed().as_secs_f64();
    let idle = process::memory();
    let open_files = process::descriptors();
    let per_log = |bytes: u64| bytes as f64 / logs as f64 / 1024.0;
    let kept = |after: u64| after.saturating_sub(memory);
    let one = |value| Rounds::new(vec![value]);
    let what = |part| format!("{logs} logs of one record, {part}");
    report.value(&what("made in"), "s", &one(made), Goal::None);
    report.value(&what("just made"), "KiB a log", &one(per_log(kept(busy))), Goal::None);
    report.value(&what("idle"), "KiB a log", &one(per_log(kept(idle))), Goal::AtMost(4.0));
    report.value(&what("all idle after"), "s", &one(idle_after), Goal::None);
    let most = (setting + DESCRIPTORS_BESIDE) as f64;
    report.value(&what("descriptors"), "open", &one(open_files as f64), Goal::AtMost(most));
    report.value(&what("before them"), "open", &one(descriptors as f64), Goal::None);
    let (disk, files) = disk_bytes(&scratch.path().join("data/logs"));
    assert!(files >= logs as u64);
    report.value(&what("disk"), "KiB a log", &one(per_log(disk)), Goal::None);
    let begun = Instant::now();
    drop((open, warm));
    node.close().unwrap();
    report.value(&what("closed in"), "s", &one(begun.elapsed().as_secs_f64()), Goal::None);
}

fn make(node: &Node, prefix: &str, logs: usize) -> Vec<Log> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        let mut open = Vec::new();
        loop {
            let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if number >= logs {
                return open;
            }
            let name = setup::name(&format!("{prefix}-{number:05}"));
            let log = node.open_log(&name, LogOptions::default()).unwrap();
            log.publish(WriteClass::Publish, &[NewRecord::new(b"the only record")]).unwrap();
            open.push(log);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Waits until the worker has no more idle log to write a checkpoint for: nothing has been written for two seconds.
fn wait_until_idle(node: &Node, dir: &Path) {
    let mut written = process::io()["wchar"];
    let mut quiet_since = Instant::now();
    let begun = Instant::now();
    while quiet_since.elapsed() < Duration::from_secs(2) {
        assert!(begun.elapsed() < Duration::from_secs(900), "{}: never idle", dir.display());
        std::thread::sleep(Duration::from_millis(200));
        let now = process::io()["wchar"];
        if now != written {
            (written, quiet_since) = (now, Instant::now());
        }
    }
    assert!(node.open_files() > 0);
}

/// Bytes on the disk of all files below, and how many files there are.
fn disk_bytes(dir: &Path) -> (u64, u64) {
    std::fs::read_dir(dir).unwrap().fold((0, 0), |(bytes, files), entry| {
        let entry = entry.unwrap();
        let found = entry.metadata().unwrap();
        let (more, count) = if found.is_dir() { disk_bytes(&entry.path()) } else { (0, 1) };
        (bytes + more + found.blocks() * 512, files + count)
    })
}
