//! `plimsoll logs`, `truncate` and `delete`.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]

mod support;

use serde_json::json;
use support::{Dir, feed, numbered, run};

#[test]
fn logs_are_listed_with_their_sizes() {
    let dir = Dir::new();
    feed("append {} numbers", &dir.data(), &numbered(1000)).exits(0);
    run("append {} empty/one", &dir.data()).exits(0);
    let logs = run("logs {} --json", &dir.data()).exits(0).json();
    let fields = [
        "name",
        "head",
        "tail",
        "durable",
        "held_bytes",
        "held_exact",
        "file_bytes",
        "disk_bytes",
        "used",
        "segments",
        "state",
    ];
    for log in logs.as_array().unwrap() {
        let mut found: Vec<&String> = log.as_object().unwrap().keys().collect();
        found.sort();
        let mut expected = fields.to_vec();
        expected.sort();
        assert_eq!(found, expected);
    }
    assert_eq!(logs[0]["name"], "empty/one");
    assert_eq!(
        (&logs[0]["tail"], &logs[0]["segments"], &logs[0]["disk_bytes"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert_eq!(logs[1]["name"], "numbers");
    let numbers = (&logs[1]["head"], &logs[1]["tail"], &logs[1]["durable"], &logs[1]["segments"]);
    assert_eq!(numbers, (&json!(0), &json!(1000), &json!(1000), &json!(1)));
    assert_eq!((&logs[0]["used"], &logs[1]["held_exact"]), (&json!(null), &json!(true)));
    assert_eq!(logs[1]["file_bytes"], 256 << 10);
    let file = std::fs::metadata(&support::segments(&dir.data(), "numbers")[0]).unwrap();
    let disk = std::os::unix::fs::MetadataExt::blocks(&file) * 512;
    assert_eq!(logs[1]["disk_bytes"], disk);
    let held = logs[1]["held_bytes"].as_u64().unwrap();
    assert!((1000 * 40..256 << 10).contains(&held), "{held}");
    let used = logs[1]["used"].as_f64().unwrap();
    assert!((used - held as f64 / disk as f64).abs() < 0.0001, "{used}");
    assert_eq!(logs[1]["state"], "ok");
    let table = run("logs {}", &dir.data()).exits(0);
    let lines: Vec<&str> = table.text().lines().collect();
    assert_eq!(lines.len(), 4);
    let titles: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(
        titles,
        [
            "NAME", "HEAD", "TAIL", "DURABLE", "HELD", "FILES", "ON", "DISK", "USED", "SEGMENTS",
            "STATE"
        ]
    );
    assert!(lines[3].starts_with("2 logs: ") && lines[3].ends_with("% used"), "{}", lines[3]);
    assert!(lines[2].contains("256 KiB") && lines[2].ends_with("ok"), "{}", lines[2]);
}

#[test]
fn truncating_frees_whole_segments_and_offsets_go_on() {
    let dir = Dir::new();
    feed("append {} numbers", &dir.data(), &numbered(50_000)).exits(0);
    let before = support::segments(&dir.data(), "numbers").len();
    let done = run("truncate {} numbers --before 49999 --json", &dir.data()).exits(0).json();
    let freed = done["segments_freed"].as_u64().unwrap();
    assert!(freed > 0 && done["bytes_freed"].as_u64().unwrap() >= 256 << 10);
    let files = support::segments(&dir.data(), "numbers");
    assert_eq!(files.len() as u64, before as u64 - freed);
    let told = run("truncate {} numbers --before 50000", &dir.data()).exits(0);
    assert!(
        told.text().contains("freed ") && told.text().contains("numbers begins at offset"),
        "{}",
        told.text()
    );
    run("truncate {} numbers --before 50001", &dir.data())
        .exits(2)
        .says(&["--before 50001", "50000"]);
    run("truncate {} nmubers --before 1", &dir.data()).exits(3).says(&["similar names: numbers"]);
    let more = feed("append {} numbers", &dir.data(), b"more\n").exits(0);
    assert!(more.text().contains("offsets 50000 to 50000"), "{}", more.text());
}

#[test]
fn deleting_wants_a_yes_and_the_right_name() {
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), b"one\n").exits(0);
    run("delete {} orders", &dir.data()).exits(2).says(&["--yes"]);
    assert_eq!(run("read {} orders", &dir.data()).exits(0).text(), "one\n");
    run("delete {} ordres --yes", &dir.data()).exits(3).says(&["similar names: orders"]);
    let told = run("delete {} orders --yes", &dir.data()).exits(0);
    assert!(
        told.text().starts_with("deleted orders with 1 records, ")
            || told.text().contains("1 record")
    );
    run("read {} orders", &dir.data())
        .exits(3)
        .says(&["there is no log orders", "it holds no logs"]);
    let again = feed("append {} orders", &dir.data(), b"new\n").exits(0);
    assert!(again.text().contains("offsets 0 to 0"), "{}", again.text());
    assert_eq!(run("read {} orders", &dir.data()).exits(0).text(), "new\n");
    let told = run("delete {} orders --yes --json", &dir.data()).exits(0).json();
    assert_eq!((&told["deleted"], &told["records"]), (&json!("orders"), &json!(1)));
}

#[test]
fn the_space_of_a_deleted_log_is_free_when_the_command_ends() {
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), &numbered(1000)).exits(0);
    run("delete {} orders --yes", &dir.data()).exits(0);
    let left: Vec<_> = std::fs::read_dir(dir.data().join("trash")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
