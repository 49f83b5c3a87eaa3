//! `plimsoll read`.

mod support;

use std::io::{BufRead, BufReader, Read};
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
