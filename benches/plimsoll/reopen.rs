//! Opening a thousand logs whose process was killed.

use crate::process;
use crate::report::{Goal, Report, Rounds};
use crate::setup::{self, Settings};
use plimsoll::{LogOptions, NewRecord, WriteClass};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Set for the child, to its directory.
pub(crate) const CHILD: &str = "PLIMSOLL_BENCH_CHILD";

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let logs = if settings.small { 100 } else { 1000 };
    let (mut seconds, mut read, mut through, mut again) = (vec![], vec![], vec![], vec![]);
    // Each round makes all logs anew, which takes longer than what is measured.
    for _ in 0..3 {
        let scratch = settings.scratch("reopen");
        make_and_kill(scratch.path(), logs);
        let before = process::io();
        let begun = Instant::now();
        let node = setup::node(scratch.path());
        let opened = node.open_all().unwrap();
        seconds.push(begun.elapsed().as_secs_f64());
        let after = process::io();
        assert_eq!(opened.len(), logs);
        let logs = logs as f64;
        let reports = opened.iter().map(|(_, log)| log.as_ref().unwrap().recovery_report());
        let (bytes, written) = reports.fold((0, 0), |(read, written), report| {
            (read + report.bytes_read, written + report.bytes_written_again)
        });
        read.push(bytes as f64 / logs / 1024.0);
        again.push(written as f64 / logs / 1024.0);
        through.push((after["rchar"] - before["rchar"]) as f64 / logs / 1024.0);
        drop(opened);
        node.close().unwrap();
    }
    let what = |part| format!("{logs} logs after a kill, {part}");
    report.value(&what("open all"), "s", &Rounds::new(seconds), Goal::None);
    report.value(&what("read, as reported"), "KiB a log", &Rounds::new(read), Goal::None);
    report.value(&what("read, as counted"), "KiB a log", &Rounds::new(through), Goal::None);
    report.value(&what("written again"), "KiB a log", &Rounds::new(again), Goal::None);
}

fn make_and_kill(dir: &Path, logs: usize) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(CHILD, dir)
        .arg(logs.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n", "the child failed");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What the child does: makes the logs, appends to each, says so, and waits to be killed.
pub(crate) fn child(dir: &Path, logs: usize) {
    let node = setup::node(dir);
    let payload = setup::noise(1 << 10);
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if number >= logs {
                        break;
                    }
                    let name = setup::name(&format!("log-{number:05}"));
                    let log = node.open_log(&name, LogOptions::default()).unwrap();
                    for _ in 0..8 {
                        let batch = [NewRecord::new(&payload); 4];
                        log.publish(WriteClass::Publish, &batch).unwrap();
                    }
                }
            });
        }
    });
    println!("ready");
    std::io::stdout().flush().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(600));
}
