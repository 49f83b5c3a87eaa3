//! `plimsoll read`.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use support::{Dir, command, feed, numbered, run, spawn};

#[test]
fn a_range_is_printed() {
    let dir = Dir::new();
    feed("append {} numbers", &dir.data(), &numbered(1000)).exits(0);
    assert_eq!(
        run("read {} numbers --from 10 --count 3", &dir.data()).exits(0).text(),
        "10\n11\n12\n"
    );
    assert_eq!(run("read {} numbers --from 998", &dir.data()).exits(0).text(), "998\n999\n");
    assert_eq!(run("read {} numbers --count 1", &dir.data()).exits(0).text(), "0\n");
    assert_eq!(run("read {} numbers --count 0", &dir.data()).exits(0).text(), "");
    assert_eq!(
        run("read {} numbers --from 1000", &dir.data()).exits(0).text(),
        "",
        "the end itself"
    );
    run("read {} numbers --from 1001", &dir.data())
        .exits(3)
        .says(&["record 1001", "durable end is 1000"]);
}

#[test]
fn since_a_time_prints_what_was_appended_then() {
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), b"early\n").exits(0);
    std::thread::sleep(std::time::Duration::from_millis(1200));
    feed("append {} orders", &dir.data(), b"late\n").exits(0);
    let stamps = run("read {} orders --json", &dir.data()).exits(0).json_lines();
    let late = stamps[1]["time"].as_str().unwrap();
    assert_eq!(
        run(&format!("read {{}} orders --since {late}"), &dir.data()).exits(0).text(),
        "late\n"
    );
    assert_eq!(run("read {} orders --since 10m", &dir.data()).exits(0).text(), "early\nlate\n");
    assert_eq!(run("read {} orders --since 0s", &dir.data()).exits(0).text(), "");
    assert_eq!(
        run("read {} orders --since 2001-02-03T04:05:06Z", &dir.data()).exits(0).text(),
        "early\nlate\n"
    );
}

#[test]
fn a_log_that_is_not_there_is_told_with_similar_names() {
    let dir = Dir::new();
    for log in ["orders", "orders-eu", "payments"] {
        run(&format!("append {{}} {log}"), &dir.data()).exits(0);
    }
    let told = run("read {} ordres --json", &dir.data()).exits(3);
    assert!(told.stderr.contains("there is no log ordres"), "{}", told.stderr);
    assert!(told.stderr.contains("similar names: orders, orders-eu"), "{}", told.stderr);
    assert_eq!(told.error()["similar"], serde_json::json!(["orders", "orders-eu"]));
    run("read {} zzz", &dir.data()).exits(3).says(&["none of its 3 has a similar name"]);
    assert!(!dir.data().join("logs/ordres").exists(), "reading makes no log");
}

#[test]
fn records_that_were_truncated_are_told_and_skipped() {
    let dir = Dir::new();
    feed("append {} numbers", &dir.data(), &numbered(50_000)).exits(0);
    run("truncate {} numbers --before 40000", &dir.data()).exits(0);
    let head: u64 = run("logs {} --json", &dir.data()).exits(0).json()[0]["head"].as_u64().unwrap();
    assert!(head > 0);
    let told = run("read {} numbers --from 0 --count 1", &dir.data()).exits(0);
    assert_eq!(told.text(), format!("{head}\n"));
    assert!(
        told.stderr.contains(&format!("records 0 to {} are gone", head - 1)),
        "{}",
        told.stderr
    );
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let dir = Dir::new();
    feed("append {} numbers", &dir.data(), &numbered(200_000)).exits(0);
    let mut child = command("read {} numbers", &dir.data())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "0\n");
    let mut told = String::new();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    child.wait().unwrap();
    assert_eq!(told, "");
}

#[test]
fn an_empty_input_of_lines_can_be_told_from_an_empty_record() {
    let dir = Dir::new();
    feed("append {} log", &dir.data(), b"\n\n").exits(0);
    assert_eq!(run("read {} log", &dir.data()).exits(0).text(), "\n\n");
    assert_eq!(run("read {} log --raw", &dir.data()).exits(0).text(), "");
    assert_eq!(run("read {} log --length-prefixed", &dir.data()).exits(0).stdout, [0; 8]);
}

#[test]
fn following_prints_what_comes_and_ends_well_at_a_signal() {
    use nix::sys::signal::Signal;
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let dir = Dir::new();
        feed("append {} orders", &dir.data(), b"one\ntwo\n").exits(0);
        let mut child = spawn("read {} orders --follow", &dir.data());
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut next = || {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            line
        };
        assert_eq!((next().as_str(), next().as_str()), ("one\n", "two\n"));
        // It holds no lock, or nothing could come.
        feed("append {} orders", &dir.data(), b"three\n").exits(0);
        assert_eq!(next(), "three\n");
        support::signal(&child, signal);
        support::finish(child).exits(0);
    }
}

#[test]
fn beside_a_process_at_work_only_durable_records_show() {
    let dir = Dir::new();
    let mut child = spawn("append {} orders --confirm", &dir.data());
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for line in ["one\n", "two\n", "three\n"] {
        stdin.write_all(line.as_bytes()).unwrap();
        let mut confirmed = String::new();
        stdout.read_line(&mut confirmed).unwrap();
    }
    // The third is durable, but nothing on disk says so yet.
    let shown = run("read {} orders", &dir.data()).exits(0);
    assert_eq!(shown.text(), "one\ntwo\n");
    assert!(
        shown.stderr.contains("orders: 1 more record is still being written"),
        "{}",
        shown.stderr
    );
    let all = run("read {} orders --unconfirmed", &dir.data()).exits(0);
    assert_eq!(all.text(), "one\ntwo\nthree\n");
    assert!(
        all.stderr.contains("orders: 1 record at the end is still being written"),
        "{}",
        all.stderr
    );
    let logs = run("logs {} --json", &dir.data()).exits(0).json();
    assert_eq!((&logs[0]["tail"], &logs[0]["durable"]), (&3.into(), &2.into()));
    assert_eq!(logs[0]["state"], "being written");
    drop(stdin);
    child.wait().unwrap();
    let shown = run("read {} orders", &dir.data()).exits(0);
    assert_eq!((shown.text(), shown.stderr.as_str()), ("one\ntwo\nthree\n", ""));
}

#[test]
fn reading_beside_a_process_that_appends_and_rolls_shows_a_prefix() {
    let dir = Dir::new();
    let mut child = spawn("append {} numbers", &dir.data());
    let mut stdin = child.stdin.take().unwrap();
    let enough = std::sync::atomic::AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut next = 0u64;
            while !enough.load(std::sync::atomic::Ordering::Relaxed) || next < 8_000 {
                let block: Vec<u8> =
                    (next..next + 500).flat_map(|n| format!("{n}\n").into_bytes()).collect();
                stdin.write_all(&block).unwrap();
                next += 500;
                std::thread::sleep(std::time::Duration::from_millis(3));
            }
            drop(stdin);
            next
        });
        support::until("the log", || dir.data().join("logs/numbers").exists());
        let mut longest = 0;
        // On a slow machine the first looks may come before the first commit.
        for look in 0..500 {
            if look >= 5 && longest > 0 {
                break;
            }
            let shown = run("read {} numbers", &dir.data()).exits(0);
            // As many lines as there are, and each is the number of its place.
            let lines = shown.text().lines().enumerate();
            assert!(
                lines.into_iter().all(|(at, line)| line == at.to_string()),
                "a prefix of the input"
            );
            longest = longest.max(shown.text().lines().count());
        }
        enough.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(longest > 0, "something was shown while it was written");
        writer.join().unwrap()
    });
    assert!(child.wait().unwrap().success());
    assert!(run("read {} numbers", &dir.data()).exits(0).stdout == numbered(written));
}

#[test]
fn what_a_killed_process_confirmed_is_recovered_before_it_is_shown() {
    let dir = Dir::new();
    let mut child = spawn("append {} orders --confirm", &dir.data());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    let mut confirmed = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut confirmed).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let shown = run("read {} orders", &dir.data()).exits(0);
    assert_eq!((shown.text(), shown.stderr.as_str()), ("one\n", ""));
}

#[test]
fn damage_is_told_after_what_stands_before_it() {
    let dir = Dir::new();
    feed("append {} numbers", &dir.data(), &numbered(1000)).exits(0);
    let segment = support::segments(&dir.data(), "numbers").remove(0);
    let mut bytes = std::fs::read(&segment).unwrap();
    // Record 500: each takes 40 bytes.
    bytes[8192 + 500 * 40 + 33] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let shown = run("read {} numbers --json", &dir.data()).exits(1);
    assert_eq!(shown.json_lines().len(), 500);
    let error = shown.error();
    assert_eq!(
        (&error["error"], &error["position"], &error["offset"]),
        (&"ERR_DAMAGED".into(), &28192.into(), &500.into())
    );
    assert!(shown.stderr.contains(segment.to_str().unwrap()), "{}", shown.stderr);
    let logs = run("logs {} --json", &dir.data()).exits(1).json();
    assert_eq!((&logs[0]["state"], &logs[0]["tail"]), (&"damaged".into(), &500.into()));
    feed("append {} numbers", &dir.data(), b"more\n").exits(1).says(&["damaged at byte 28192"]);
    // Nor does it deny what was confirmed behind the damage.
    for from in ["501", "999", "5000"] {
        let told = run(&format!("read {{}} numbers --from {from}"), &dir.data()).exits(1);
        told.says(&["damaged at byte 28192"]);
    }
}
