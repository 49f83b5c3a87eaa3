//! `plimsoll verify`, and `plimsoll inspect` of logs and data directories.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]

mod support;

use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use support::{Dir, feed, numbered, run, segments, spawn};

/// A data directory with two logs, one of several segments.
fn filled(dir: &Dir) -> PathBuf {
    let input: Vec<u8> = (0..12_000).flat_map(|n| format!("{n:01000}\n").into_bytes()).collect();
    feed("append {} long --small", &dir.data(), &input).exits(0);
    feed("append {} short/one", &dir.data(), &numbered(10)).exits(0);
    dir.data()
}

/// Changes one byte of a file.
fn damage(path: &std::path::Path, position: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[position] ^= 0x55;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_good_directory_is_clean() {
    let dir = Dir::new();
    let data = filled(&dir);
    let told = run("verify {}", &data).exits(0);
    let files = segments(&data, "long").len() + 1;
    assert!(files > 2);
    let expected = format!("verified 2 logs, {files} files, 12,010 records, ");
    assert!(
        told.text().starts_with(&expected) && told.text().ends_with(": clean\n"),
        "{}",
        told.text()
    );
    assert_eq!(told.stderr, "", "no bar where there is no terminal");
    let report = run("verify {} --json --threads 1", &data).exits(0).json();
    assert_eq!((&report["outcome"], &report["records"]), (&json!("clean"), &json!(12_010)));
    let node = run("inspect {} --json", &data).exits(0).json();
    assert_eq!((&node["outcome"], &node["held"]), (&json!("clean"), &json!(false)));
    assert_eq!(node["logs"][0]["name"], "long");
    let log = run("inspect {} --json", &data.join("logs/long")).exits(0).json();
    assert_eq!(
        (&log["head"], &log["tail"], &log["durable"]),
        (&json!(0), &json!(12_000), &json!(12_000))
    );
    assert_eq!(log["segments"].as_array().unwrap().len(), files - 1);
    let listed = run("inspect {} --records", &data.join("logs/short/one")).exits(0);
    assert!(listed.text().contains("  9  byte "), "{}", listed.text());
    let dump = run("inspect {} --hex 11999", &data.join("logs/long")).exits(0);
    assert!(dump.text().contains("payload length: 1000"), "{}", dump.text());
    run("inspect {} --hex 12001", &data.join("logs/long")).exits(3);
    run("inspect {} --records", &data).exits(2).says(&["data directory", "logs"]);
}

#[test]
fn each_damage_is_told_with_its_file_and_byte() {
    let dir = Dir::new();
    let data = filled(&dir);
    let files = segments(&data, "long");
    damage(&files[0], 8192 + 5 * 1032 + 100);
    damage(&files[1], 8192 + 9 * 1032 + 100);
    let told = run("verify {} --json", &data).exits(1);
    let report = told.json();
    assert_eq!(report["outcome"], "damaged");
    let checks = report["files_with_findings"].as_array().unwrap();
    let place = |file: &PathBuf| {
        let check = checks.iter().find(|check| check["file"] == file.to_str().unwrap()).unwrap();
        check["findings"][0]["position"].as_u64().unwrap()
    };
    assert_eq!(place(&files[0]), 8192 + 5 * 1032);
    assert_eq!(place(&files[1]), 8192 + 9 * 1032);
    assert_eq!(told.error()["error"], "ERR_DAMAGED");
    let text = run("verify {}", &data).exits(1);
    assert!(text.text().contains(files[1].to_str().unwrap()), "{}", text.text());
    assert!(text.text().trim_end().ends_with("damaged"), "{}", text.text());
    assert!(text.stderr.contains("; and 1 more finding"), "{}", text.stderr);
}

#[test]
fn what_cannot_be_read_is_not_damage() {
    let dir = Dir::new();
    run("verify {}", &dir.data()).exits(3).says(&["No such file or directory"]);
    run("verify {}", &dir.file("file", b"text")).exits(3);
    std::fs::create_dir(dir.path("empty")).unwrap();
    run("verify {}", &dir.path("empty")).exits(3).says(&["not a data directory"]);
}

/// Many rounds with `PLIMSOLL_VERIFY_ROUNDS`.
#[test]
#[allow(non_snake_case, reason = "named for the case it holds")]
fn case_I1_a_directory_that_is_being_written_is_never_called_damaged() {
    let rounds = std::env::var("PLIMSOLL_VERIFY_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(4);
    let dir = Dir::new();
    let mut child = spawn("append {} busy --small --confirm", &dir.data());
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    stdin.write_all(b"first\n").unwrap();
    stdout.read_line(&mut first).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let line = [&[b'x'; 700][..], b"\n"].concat();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                stdin.write_all(&line.repeat(20)).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(8));
            }
            drop(stdin);
        });
        scope.spawn(|| {
            let mut line = String::new();
            while stdout.read_line(&mut line).unwrap() > 0 {
                line.clear();
            }
        });
        for round in 0..rounds {
            for line in ["verify {}", "inspect {}", "logs {}"] {
                let told = run(line, &dir.data());
                if told.code != 0 {
                    stop.store(true, std::sync::atomic::Ordering::Relaxed);
                }
                assert_eq!(told.code, 0, "round {round}, {line}: {}{}", told.text(), told.stderr);
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(child.wait().unwrap().success());
    let told = run("verify {}", &dir.data()).exits(0);
    assert!(told.text().ends_with(": clean\n"), "{}", told.text());
}
