//! What admission costs: its instructions, of all those of a durable append of 128 bytes in this process.
//!
//! Instructions, as callgrind (valgrind) counts them, and not time: the same on a busy machine. Those of the kernel are in
//! neither number, so the share of the whole is smaller.

use crate::report::{Goal, Report, Rounds};
use crate::setup::{self, Settings};
use plimsoll::{LogOptions, NewRecord, Node, NodeOptions, WriteClass};
use std::path::Path;
use std::process::Command;

/// Says that this process is the one that is counted; holds its directory.
pub(crate) const CHILD: &str = "PLIMSOLL_BENCH_ADMISSION";

const APPENDS: usize = 4_000;

/// Appends, one writer, one record at a time.
pub(crate) fn child(dir: &Path) {
    let node = Node::open(dir, NodeOptions::default()).unwrap();
    let log = node.open_log(&setup::name("counted"), LogOptions::default()).unwrap();
    let payload = setup::noise(128);
    for _ in 0..APPENDS {
        log.publish(WriteClass::Publish, &[NewRecord::new(&payload)]).unwrap();
    }
    node.close().unwrap();
}

/// Instructions of all functions with such a name, what they call included.
fn inclusive(table: &str, names: &[&str]) -> f64 {
    let of_line = |line: &str| -> Option<f64> {
        let named = names.iter().any(|name| line.contains(name));
        let count = line.trim().split([' ', '(']).next()?.replace(',', "");
        if named { count.parse().ok() } else { None }
    };
    // Of a function and its inlined or shortened twins the largest counts: the others are within it.
    table.lines().filter_map(of_line).fold(0.0, f64::max)
}

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("admission: skipped, as valgrind is not there");
        return;
    }
    let scratch = settings.scratch("admission");
    let out = scratch.path().join("callgrind.out");
    let program = std::env::current_exe().unwrap();
    let counted = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(&program)
        .env(CHILD, scratch.path().join("data"))
        .output()
        .unwrap();
    assert!(counted.status.success(), "{}", String::from_utf8_lossy(&counted.stderr));
    let table = Command::new("callgrind_annotate")
        .args(["--inclusive=yes", "--threshold=100", "--show-percs=no", "--auto=no"])
        .arg(&out)
        .output()
        .unwrap();
    let table = String::from_utf8_lossy(&table.stdout);
    let publish = inclusive(&table, &["log::Log::publish"]);
    let decide = inclusive(&table, &["permit::Gate>::decide"]);
    assert!(publish > 0.0 && decide > 0.0, "functions are missing:\n{table}");
    let each = |count: f64| Rounds::new(vec![count / APPENDS as f64]);
    println!("\nadmission: instructions of a durable append of 128 bytes, one writer");
    report.value("a publish, all of it", "instructions", &each(publish), Goal::None);
    report.value("of those, admission", "instructions", &each(decide), Goal::None);
    let share = Rounds::new(vec![decide / publish]);
    report.value("admission's share", "share", &share, Goal::AtMost(0.02));
}
