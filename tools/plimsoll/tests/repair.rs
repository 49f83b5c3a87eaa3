//! `plimsoll repair`.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]

mod support;

use serde_json::json;
use std::path::{Path, PathBuf};
use support::{Dir, feed, numbered, run, segments, spawn};

/// A log of 1,000 records of 40 bytes, of which one is damaged. Gives its file.
fn damaged(dir: &Dir, record: usize) -> PathBuf {
    feed("append {} numbers", &dir.data(), &numbered(1000)).exits(0);
    let segment = segments(&dir.data(), "numbers").remove(0);
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[8192 + record * 40 + 32] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    segment
}

/// Files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

#[test]
fn a_good_log_needs_none() {
    let dir = Dir::new();
    feed("append {} numbers", &dir.data(), &numbered(10)).exits(0);
    assert_eq!(run("repair {} numbers", &dir.data()).exits(0).text(), "nothing to repair\n");
    assert_eq!(run("repair {} --yes", &dir.data()).exits(0).text(), "nothing to repair\n");
    assert!(files(&dir.data().join("quarantine")).is_empty());
    run("repair {} nmubers --yes", &dir.data()).exits(3).says(&["similar names: numbers"]);
}

#[test]
fn without_yes_it_explains_and_changes_nothing() {
    let dir = Dir::new();
    let segment = damaged(&dir, 500);
    let before = std::fs::read(&segment).unwrap();
    let told =
        run("repair {} numbers", &dir.data()).exits(1).says(&["nothing was changed", "--yes"]);
    for text in ["byte 28192", "offsets 500 to 500", "to do", "quarantine"] {
        assert!(told.text().contains(text), "{text} is not in {}", told.text());
    }
    let plan = run("repair {} numbers --json", &dir.data()).exits(1).json();
    assert_eq!((&plan["done"], &plan["logs"][0]["lost"]), (&json!(false), &json!([[500, 501]])));
    assert!(std::fs::read(&segment).unwrap() == before);
    assert!(files(&dir.data().join("quarantine")).is_empty());
}

#[test]
fn with_yes_only_what_is_damaged_is_lost_and_a_copy_is_kept() {
    let dir = Dir::new();
    let segment = damaged(&dir, 500);
    let before = std::fs::read(&segment).unwrap();
    feed("append {} numbers", &dir.data(), b"more\n").exits(1);
    let told = run("repair {} numbers --yes", &dir.data()).exits(0);
    assert!(
        told.text().contains("offsets 500 to 500") && told.text().contains("quarantine"),
        "{}",
        told.text()
    );
    let kept = files(&dir.data().join("quarantine"));
    assert!(
        kept.iter().any(|path| std::fs::read(path).unwrap() == before),
        "the damaged file is kept as it was"
    );
    let read = run("read {} numbers", &dir.data()).exits(0).says(&["records 500 to 500 are gone"]);
    let expected: Vec<String> = (0..1000).filter(|&n| n != 500).map(|n| n.to_string()).collect();
    assert_eq!(read.text().lines().collect::<Vec<_>>(), expected);
    // Offsets go on where they were.
    let more = feed("append {} numbers", &dir.data(), b"more\n").exits(0);
    assert!(more.text().contains("offsets 1000 to 1000"), "{}", more.text());
    run("verify {}", &dir.data()).exits(0);
    assert_eq!(run("repair {} numbers --yes", &dir.data()).exits(0).text(), "nothing to repair\n");
    assert_eq!(run("read {} numbers --from 1000", &dir.data()).exits(0).text(), "more\n");
}

#[test]
fn a_directory_in_use_is_not_repaired() {
    use std::io::{BufRead, BufReader, Write};
    let dir = Dir::new();
    damaged(&dir, 500);
    let mut child = spawn("append {} other --confirm", &dir.data());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    run("repair {} numbers --yes", &dir.data()).exits(3).says(&["in use by another process"]);
    drop(stdin);
    child.wait().unwrap();
    run("repair {} numbers --yes", &dir.data()).exits(0);
}
