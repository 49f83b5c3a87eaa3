//! `plimsoll append` where space runs low: slowed, refused, and going on.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]
#![allow(non_snake_case, reason = "tests are named for the case they hold")]

#[path = "support/mounted.rs"]
mod mounted;
mod support;

use mounted::{Mount, filler, or_skip, with_inodes};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use support::{Dir, Run, feed, finish, run, signal, spawn, until};

const MIB: usize = 1 << 20;

/// Numbered lines of 1,000 bytes and a newline.
fn lines(count: u64) -> Vec<u8> {
    (0..count).flat_map(|number| format!("{number:01000}\n").into_bytes()).collect()
}

/// What a run with --json has told of one kind.
fn events(told: &Run, kind: &str) -> Vec<Value> {
    told.json_lines().into_iter().filter(|line| line["event"] == kind).collect()
}

/// The log holds what was confirmed, in order, each record once, and is clean.
fn holds(data: &Path, last: u64) {
    run("verify {}", data).exits(0);
    let read = run("read {} orders", data).exits(0);
    let numbers = read.text().lines().map(|line| line.parse::<u64>().unwrap());
    let all: Vec<u64> = numbers.collect();
    assert!(all.len() as u64 > last, "{} records, {last} was confirmed", all.len());
    let start = all.first().copied().unwrap_or(0);
    assert!(all.iter().copied().eq(start..start + all.len() as u64), "in order and once each");
}

fn slows_then_refuses(mount: &Mount) {
    let data = mount.path().join("data");
    run("append {} orders", &data).exits(0);
    let input = lines(70_000);
    let told = feed("append {} orders --timeout 2s", &data, &input).exits(75);
    for text in ["appends are slowed: ", "waiting, for 2s at most: ", "ERR_LIMITED", "for disk"] {
        assert!(told.stderr.contains(text), "{text:?} is not in {}", told.stderr);
    }
    assert_eq!(told.stderr.matches("appends are slowed").count(), 1, "{}", told.stderr);
    assert_eq!(told.stderr.matches("waiting, for").count(), 1, "{}", told.stderr);
    assert!(told.text().contains("; delayed "), "{}", told.text());
    assert!(told.text().contains("; refused "), "{}", told.text());
    let error = told.stderr.lines().last().unwrap();
    let last = error.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(error.contains("the last confirmed offset is"), "{error}");
    holds(&data, last);
    // Not at hard, but one file before it; and what frees space brings it back.
    run("append {} orders --timeout 0s", &data).exits(0);
    run(&format!("truncate {{}} orders --before {last}"), &data).exits(0);
    let told = feed("append {} orders --timeout 0s --json", &data, &lines(1000)).exits(0);
    assert_eq!(events(&told, "appended")[0]["refusals"], 0);
    run("verify {}", &data).exits(0);
}

#[test]
fn a_tmpfs_that_fills_up_slows_an_append_and_then_refuses_it() {
    let name = "a_tmpfs_that_fills_up_slows_an_append_and_then_refuses_it";
    let Some(mount) = or_skip(name, Mount::tmpfs(64 << 20)) else { return };
    slows_then_refuses(&mount);
}

#[test]
fn an_ext4_that_fills_up_slows_an_append_and_then_refuses_it() {
    let name = "an_ext4_that_fills_up_slows_an_append_and_then_refuses_it";
    let Some(mount) = or_skip(name, Mount::ext4(64 << 20)) else { return };
    slows_then_refuses(&mount);
}

/// A refused client that comes back at once, or is told to wait for nothing, hammers.
#[test]
fn case_G5_a_refused_append_waits_no_less_than_its_hint_and_gives_up_in_time() {
    let name = "case_G5_a_refused_append_waits_no_less_than_its_hint_and_gives_up_in_time";
    let Some(mount) = or_skip(name, Mount::tmpfs(64 << 20)) else { return };
    let data = mount.path().join("data");
    run("append {} orders", &data).exits(0);
    filler(mount.path(), 55 * MIB);
    let told = feed("append {} orders --timeout 4s --json", &data, b"0\n").exits(75);
    let waiting = events(&told, "waiting");
    assert_eq!(waiting.len(), 1, "told once: {}", told.text());
    assert_eq!((&waiting[0]["reason"], &waiting[0]["level"]), (&"disk".into(), &"hard".into()));
    assert!(waiting[0]["retry_after_ms"].as_u64().unwrap() >= 1000);
    let sum = &events(&told, "appended")[0];
    let (refusals, waited) =
        (sum["refusals"].as_u64().unwrap(), sum["waited_ms"].as_u64().unwrap());
    // The first hint is 1 s at least, the next ones longer; only the last wait may be cut short.
    assert!(refusals >= 2 && waited >= (refusals - 2) * 1000, "{sum}");
    let error = told.error();
    assert_eq!((&error["error"], &error["exit"]), (&"ERR_LIMITED".into(), &75.into()));
    assert_eq!(error["reason"], "disk");
    assert!(error["retry_after_ms"].as_u64().unwrap() >= 1000, "{error}");
    assert_eq!(error["last_confirmed"], Value::Null);
    // Told not to wait, it does not.
    let told = feed("append {} orders --timeout 0s --json", &data, b"0\n").exits(75);
    let sum = &events(&told, "appended")[0];
    assert_eq!((&sum["refusals"], &sum["waited_ms"]), (&1.into(), &0.into()), "{sum}");
    assert_eq!(events(&told, "waiting"), [] as [Value; 0]);
    holds_nothing(&data);
}

fn holds_nothing(data: &Path) {
    assert_eq!(run("read {} orders", data).exits(0).text(), "");
    run("verify {}", data).exits(0);
}

#[test]
fn an_append_that_waits_goes_on_by_itself_when_somebody_else_frees_space() {
    let name = "an_append_that_waits_goes_on_by_itself_when_somebody_else_frees_space";
    let Some(mount) = or_skip(name, Mount::tmpfs(64 << 20)) else { return };
    let data = mount.path().join("data");
    run("append {} orders", &data).exits(0);
    let filler = filler(mount.path(), 55 * MIB);
    let mut child = spawn("append {} orders --timeout 10m --json", &data);
    child.stdin.take().unwrap().write_all(&lines(3)).unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap());
    let mut event = |kind: &str| {
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["event"], kind, "{event}");
        event
    };
    event("waiting");
    std::fs::remove_file(filler).unwrap();
    event("confirmed");
    assert_eq!(event("resumed")["level"], "ok");
    assert_eq!(event("appended")["records"], 3);
    finish(child).exits(0);
    holds(&data, 2);
}

#[test]
fn an_append_that_waits_ends_at_a_signal_with_nothing_written() {
    let name = "an_append_that_waits_ends_at_a_signal_with_nothing_written";
    let Some(mount) = or_skip(name, Mount::tmpfs(64 << 20)) else { return };
    let data = mount.path().join("data");
    run("append {} orders", &data).exits(0);
    filler(mount.path(), 55 * MIB);
    let mut child = spawn("append {} orders --timeout 10m", &data);
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"0\n").unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("waiting, for 10m at most: ERR_LIMITED"), "{line}");
    signal(&child, nix::sys::signal::Signal::SIGTERM);
    let told = finish(child).exits(143);
    assert!(told.text().starts_with("appended 0 records; refused "), "{}", told.text());
    drop(stdin);
    holds_nothing(&data);
}

/// "No space" while bytes are plenty costs days: the reason says that inodes are short.
#[test]
fn case_A10_a_refusal_for_want_of_inodes_says_so() {
    let name = "case_A10_a_refusal_for_want_of_inodes_says_so";
    let Some(mount) = or_skip(name, Mount::tmpfs(640 << 20)) else { return };
    let data = mount.path().join("data");
    run("append {} orders", &data).exits(0);
    with_inodes(&mount, 400);
    let files = mount.path().join("files");
    std::fs::create_dir(&files).unwrap();
    let mut number = 0;
    // As many as there are, all but a few.
    while std::fs::write(files.join(number.to_string()), b"").is_ok() {
        number += 1;
    }
    for last in number - 5..number {
        std::fs::remove_file(files.join(last.to_string())).unwrap();
    }
    let told = feed("append {} orders --timeout 0s --json", &data, b"0\n").exits(75);
    let told = told.says(&["ERR_LIMITED", "few inodes are free", "however many bytes are"]);
    // And the lines are those of inodes, 20 or 4 of 400.
    let said = told.stderr.contains("hard begins at 20 inodes and ends above 24 inodes")
        || told.stderr.contains("reserve begins at 4 inodes and ends above 8 inodes");
    assert!(said, "{}", told.stderr);
    let report = run("pressure {} --json", &data).exits(0).json();
    let device = &report["devices"][0];
    assert!(["hard", "reserve"].contains(&device["level"].as_str().unwrap()), "{device}");
    assert!(device["reason"].as_str().unwrap().contains("inodes"), "{device}");
    assert!(device["free_bytes"].as_u64() > device["soft_bytes"].as_u64(), "{device}");
    let shown = run("pressure {}", &data).exits(0);
    assert!(shown.text().contains("few inodes are free"), "{}", shown.text());
    // Once they are there again, so are appends.
    std::fs::remove_dir_all(files).unwrap();
    feed("append {} orders --timeout 0s", &data, b"0\n").exits(0);
    holds(&data, 0);
}

/// The gate is for memory too; its limit is one of the settings.
#[test]
fn short_memory_is_named_as_that() {
    let dir = Dir::new();
    let settings = dir.file(
        "s.toml",
        b"[limits.memory]\nlimit = \"1MiB\"\nsoft = \"1%\"\nhard = \"2%\"\nclear = \"0.5%\"\n",
    );
    let line = format!("append {{}} orders --timeout 0s --settings {}", settings.display());
    feed(&line, &dir.data(), b"0\n").exits(75).says(&["refused for memory", "limits.memory.limit"]);
    until("the same without the limit", || feed("append {} orders", &dir.data(), b"0\n").code == 0);
}
