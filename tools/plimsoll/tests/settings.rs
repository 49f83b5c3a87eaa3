//! `--settings`: which limits a command works with, and what it says about wrong ones.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "not the engine: a test plants files, and panics when it fails"
)]

mod support;

use std::path::Path;
use support::{Dir, feed, run};

const TAKERS: [&str; 5] = [
    "append {} orders",
    "truncate {} orders --before 0",
    "delete {} orders --yes",
    "pool {}",
    "pressure {}",
];

/// The command line with this file.
fn with(line: &str, file: &Path) -> String {
    format!("{line} --settings {}", file.display())
}

#[test]
fn wrong_settings_are_named_with_file_and_field_and_nothing_is_done() {
    let dir = Dir::new();
    for (text, field, allowed) in [
        ("[limits.disk]\nhard = { share = \"0%\" }\n", "limits.disk.hard.share", "more than 0%"),
        (
            "[limits.disk]\nhard = { share = \"10%\" }\n",
            "limits.disk.hard.share",
            "less than limits.disk.soft.share",
        ),
        ("[limits.disk]\nsoft = { share = \"101%\" }\n", "limits.disk.soft.share", "100% at most"),
        ("[limits.disk]\nsoft = { floor = \"4G\" }\n", "limits.disk.soft.floor", "GiB"),
        ("[limits.slow]\nmax_delay = 50\n", "limits.slow.max_delay", "such as \"50ms\""),
        ("[limits.retry]\nmax = \"1ms\"\n", "limits.retry.max", "at least limits.retry.first"),
        ("[limits.pool]\nbudget_size = \"1%\"\n", "limits.pool.budget_size", "unknown field"),
        ("[limit.pool]\n", "limit", "is `limits` meant?"),
    ] {
        let file = dir.file("wrong.toml", text.as_bytes());
        for line in TAKERS {
            let told = run(&format!("{} --json", with(line, &file)), &dir.data()).exits(2);
            let error = told.error();
            assert_eq!((&error["error"], &error["field"]), (&"ERR_USAGE".into(), &field.into()));
            assert_eq!(error["file"], file.to_str().unwrap());
            told.says(&[field, allowed, "wrong.toml"]);
            assert!(!dir.data().exists(), "{line}: {text}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_or_is_something_else_is_named() {
    let dir = Dir::new();
    let missing = dir.path("missing.toml");
    run(&with("append {} orders", &missing), &dir.data())
        .exits(3)
        .says(&["missing.toml", "No such file"]);
    run(&with("append {} orders", Path::new("/dev/zero")), &dir.data())
        .exits(2)
        .says(&["/dev/zero", "1 MiB"]);
    let binary = dir.file("binary", b"\xff\xfe");
    run(&with("append {} orders", &binary), &dir.data()).exits(2).says(&["UTF-8"]);
    let json = dir.file("a.json", b"{\"limits\": {\"disk\": {\"clear\": \"2\"}}}");
    run(&with("append {} orders", &json), &dir.data())
        .exits(2)
        .says(&["limits.disk.clear", "percent sign"]);
    assert!(!dir.data().exists());
}

#[test]
fn the_example_holds_the_defaults_and_is_taken_by_all() {
    let dir = Dir::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../limits.example.toml");
    feed(&with("append {} orders", &example), &dir.data(), b"one\n").exits(0);
    for line in TAKERS {
        if !line.starts_with("delete") {
            run(&with(line, &example), &dir.data()).exits(0);
        }
    }
    let lines = |line: &str| {
        let report = run(&format!("{line} --json"), &dir.data()).exits(0).json();
        let device = &report["devices"][0];
        ["soft_bytes", "hard_bytes", "reserve_bytes", "clear_bytes"]
            .map(|field| device[field].clone())
    };
    assert_eq!(lines(&with("pressure {}", &example)), lines("pressure {}"));
    run(&with("delete {} orders --yes", &example), &dir.data()).exits(0);
}

#[test]
fn what_is_set_counts() {
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), b"one\n").exits(0);
    let file = dir.file(
        "set.toml",
        b"[limits.disk]\nsoft = { share = \"12%\", floor = \"0B\" }\nhard = { share = \"6%\", floor = \"0B\" }\n\
          reserve = { floor = \"0B\" }\n[limits.pool]\nbudget = \"0%\"\nkept_back = \"0B\"\n",
    );
    let report =
        run(&format!("{} --json", with("pressure {}", &file)), &dir.data()).exits(0).json();
    let device = &report["devices"][0];
    // Of what can be had: without the share of root.
    let [total, withheld] =
        ["total_bytes", "withheld_bytes"].map(|field| device[field].as_u64().unwrap());
    let total = total - withheld;
    assert_eq!(device["hard_bytes"], total / 100 * 6 + total % 100 * 6 / 100);
    assert_eq!(report["settings"], file.to_str().unwrap());
    let pool = run(&format!("{} --json", with("pool {}", &file)), &dir.data()).exits(0).json();
    assert_eq!(
        (&pool["devices"][0]["budget_bytes"], &pool["devices"][0]["kept_back_bytes"]),
        (&0.into(), &0.into())
    );
    assert_eq!(pool["devices"][0]["settings"], file.to_str().unwrap());
    let shown = run(&with("pool {}", &file), &dir.data()).exits(0);
    assert!(shown.text().contains("set.toml; a running node may have others"), "{}", shown.text());
    // A node that is to keep nothing back makes nothing to keep.
    let other = dir.path("other");
    feed(&with("append {} orders", &file), &other, b"one\n").exits(0);
    let pool = run("pool {} --json", &other).exits(0).json();
    let classes = pool["devices"][0]["dirs"][0]["classes"].as_array().unwrap();
    assert!(classes.iter().all(|class| class["files"] == 0), "{pool}");
}
