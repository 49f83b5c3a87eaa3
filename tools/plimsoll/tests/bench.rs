//! `plimsoll bench`: what it tells, and that it leaves nothing behind. How fast anything is here is not asserted.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]

#[path = "support/mounted.rs"]
mod mounted;
mod support;

use mounted::{Mount, or_skip};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;
use support::{Dir, feed, finish, remember, run, signal, spawn, until};

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A row has numbers that fit together, or says why it has none.
#[track_caller]
fn check_row(row: &Value) {
    assert!(row["what"].is_string() && row["file"].is_string(), "{row}");
    if row["supported"] == false {
        assert!(row["why_not"].as_str().unwrap().starts_with('E'), "{row}");
        assert_eq!((&row["samples"], &row["ratio"]), (&Value::from(0), &Value::Null), "{row}");
        return;
    }
    assert!(row["samples"].as_u64().unwrap() >= 3, "each round has one at least: {row}");
    assert!(row["per_second"].as_f64().unwrap() > 0.0, "{row}");
    let known: Vec<f64> = ["p50_us", "p90_us", "p99_us", "p999_us", "max_us"]
        .iter()
        .filter_map(|name| row[name].as_f64())
        .collect();
    assert!(known.len() >= 2 && known.is_sorted(), "{row}");
    if row["beside"].is_string() {
        assert!(row["beside_per_second"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["ratio"].as_f64().unwrap() > 0.0, "{row}");
    }
}

fn rows(of: &Value) -> &[Value] {
    of.as_array().unwrap()
}

#[test]
fn it_tells_all_in_one_object_and_leaves_nothing_behind() {
    let dir = Dir::new();
    let disk = dir.path("");
    dir.file("mine", b"kept");
    let before = remember(&disk);
    let told = run("bench {} --seconds 5 --json", &disk).exits(0);
    assert_eq!(remember(&disk), before);
    assert!(!told.text().contains(disk.to_str().unwrap().trim_end_matches('/')), "no path is told");
    let told = told.json();
    assert!(told["rounds"].as_u64().unwrap() >= 3, "{told}");
    assert!(told["file_system"]["free_bytes"].as_u64().unwrap() > 0);
    assert!(told["meaning"].as_str().unwrap().contains("sync"));
    let (ways, engine) = (rows(&told["disk"]["ways"]), rows(&told["engine"]["cases"]));
    let parallel = rows(&told["disk"]["parallel"]);
    let sequential = rows(&told["disk"]["sequential"]);
    let counts = [ways.len(), parallel.len(), sequential.len(), engine.len()];
    assert_eq!(counts, [10, 3, 1, 5]);
    [ways, parallel, sequential, engine].into_iter().flatten().for_each(check_row);
    for row in engine {
        assert!(row["ratio"].is_f64(), "all of the engine is held against something: {row}");
    }
    // The floor is held against itself.
    assert_eq!(
        (&ways[0]["ratio"], &ways[0]["ratio_spread"]),
        (&Value::from(1.0), &Value::from(0.0))
    );
    // As the file system has direct writes or not.
    let by = told["engine"]["commits_by"].as_str().unwrap();
    assert!(["O_DIRECT + RWF_DSYNC", "pwrite + fdatasync"].contains(&by), "{by}");
    let histogram = rows(&told["sync_histogram"]);
    let counted: u64 = histogram.iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum();
    assert_eq!(Value::from(counted), ways[0]["samples"], "each sample is in one bucket");
}

#[test]
fn one_part_alone_is_told_as_a_text() {
    let dir = Dir::new();
    let disk = run("bench {} --seconds 5 --only disk", &dir.path("")).exits(0);
    let engine = run("bench {} --seconds 5 --only engine", &dir.path("")).exits(0);
    for text in ["file system", "one in a hundred", "half the time", "RATIO", "##"] {
        let both = [disk.text(), engine.text()];
        // The sentence is another where there are few samples, or no syncs.
        assert!(
            both.iter().all(|told| told.contains(text) || text == "one in a hundred"),
            "{text}"
        );
    }
    assert!(disk.text().contains("O_DIRECT + RWF_DSYNC"));
    assert!(disk.text().contains("Sequential") && !disk.text().contains("16 logs, a writer"));
    assert!(
        engine.text().contains("16 logs, a writer each") && engine.text().contains("commits by")
    );
    assert!(!engine.text().contains("Ways of committing"));
    assert_eq!(names(&dir.path("")), [""; 0]);
}

#[test]
fn a_signal_ends_it_and_its_folder_is_removed() {
    for (number, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let dir = Dir::new();
        let child = spawn("bench {} --seconds 600 --json", &dir.path(""));
        // In the middle: the node of its own has all its logs.
        let last = dir.path("plimsoll-bench.1/many/logs/log-15");
        until("the engine's turns", || last.is_dir());
        signal(&child, number);
        let told = finish(child).exits(code);
        assert_eq!(told.error()["error"], "ERR_INTERRUPTED");
        assert!(told.stdout.is_empty(), "no half of a report");
        assert_eq!(names(&dir.path("")), [""; 0]);
    }
}

#[test]
fn it_begins_nowhere_but_in_a_directory_that_is_there() {
    let dir = Dir::new();
    run("bench {}", &dir.path("none")).exits(3).says(&["none", "No such file or directory"]);
    assert!(!dir.path("none").exists());
    let file = dir.file("file", b"text");
    run("bench {}", &file).exits(3).says(&["/file", "not a directory"]);
    assert_eq!(fs::read(file).unwrap(), b"text");
}

#[test]
fn a_data_directory_and_what_is_in_it_are_left_to_their_node() {
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), b"one\n").exits(0);
    let before = remember(&dir.data());
    for inside in [dir.data(), dir.data().join("logs/orders")] {
        run("bench {}", &inside).exits(2).says(&["/data is a data directory", "beside it"]);
    }
    assert_eq!(remember(&dir.data()), before);
}

#[test]
fn another_runs_folder_is_left_alone() {
    let dir = Dir::new();
    fs::create_dir(dir.path("plimsoll-bench.1")).unwrap();
    dir.file("plimsoll-bench.1/theirs", b"kept");
    let told = run("bench {} --seconds 5 --only disk", &dir.path("")).exits(0);
    told.says(&["plimsoll-bench.1 is there"]);
    assert_eq!(names(&dir.path("")), ["plimsoll-bench.1"]);
    assert_eq!(fs::read(dir.path("plimsoll-bench.1/theirs")).unwrap(), b"kept");
}

#[test]
fn it_does_not_begin_where_less_than_twice_what_it_needs_is_free() {
    const NAME: &str = "it_does_not_begin_where_less_than_twice_what_it_needs_is_free";
    let Some(mount) = or_skip(NAME, Mount::tmpfs(64 << 20)) else { return };
    let told = run("bench {} --json", mount.path()).exits(3);
    assert_eq!(names(mount.path()), [""; 0]);
    let error = told.error();
    assert!(error["needed_bytes"].as_u64().unwrap() > error["free_bytes"].as_u64().unwrap());
    told.says(&["begins only where twice that is free"]);
}

#[test]
fn a_directory_that_cannot_be_written_to_is_named() {
    const NAME: &str = "a_directory_that_cannot_be_written_to_is_named";
    let Some(mount) = or_skip(NAME, Mount::tmpfs(64 << 20)) else { return };
    let remount = ["-o", "remount,ro"];
    let mut command = std::process::Command::new("mount");
    assert!(command.args(remount).arg(mount.path()).status().unwrap().success());
    let said = [mount.path().to_str().unwrap(), "Read-only file system"];
    run("bench {}", mount.path()).exits(3).says(&said);
}
