//! The command line itself.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]

mod support;

use std::path::Path;
use support::{Dir, command, run};

const SUBCOMMANDS: [&str; 12] = [
    "serve", "append", "read", "logs", "truncate", "delete", "inspect", "pool", "pressure",
    "verify", "repair", "bench",
];

#[test]
fn help_is_complete_and_has_an_example_each() {
    let path = Path::new("");
    let all = run("--help", path).exits(0);
    for subcommand in SUBCOMMANDS {
        assert!(all.text().contains(subcommand), "{subcommand}");
        let help = run(&format!("{subcommand} --help"), path).exits(0);
        assert!(help.text().contains("Example"), "{subcommand}: {}", help.text());
        assert!(
            help.text().contains(&format!("plimsoll {subcommand} ")),
            "{subcommand}: {}",
            help.text()
        );
        assert!(help.text().contains("--json"), "{subcommand}");
    }
    for code in ["75", "ERR_LIMITED"] {
        assert!(all.text().contains(code));
    }
}

#[test]
fn version_is_told() {
    let told = run("--version", Path::new("")).exits(0);
    assert_eq!(told.text(), format!("plimsoll {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_use_ends_with_2_and_changes_nothing() {
    let dir = Dir::new();
    for line in [
        "",
        "frobnicate",
        "append",
        "append {}",
        "append {} orders --colour",
        "append {} ../orders",
        "append {} a//b",
        "append {} .hidden",
        "append {} orders --ndjson --length-prefixed",
        "append {} orders --timeout 5",
        "append {} orders --timeout -1s",
        "pressure",
        "pressure {} --interval 1s",
        "pressure {} --watch --interval 10ms",
        "pressure {} --watch --check",
        "read {} orders --from x",
        "read {} orders --from 1 --since 10m",
        "read {} orders --since yesterday",
        "read {} orders --count -1",
        "read {} orders --json --raw",
        "bench",
        "bench {} --seconds 4",
        "bench {} --seconds 5s",
        "bench {} --only memory",
        "pool",
        "pool --json",
        "truncate {} orders",
        "truncate {} orders --before",
        "serve {}",
        "serve --data {} --listen 7272",
        "serve --data {} --listen 0.0.0.0:0",
        "serve --data {} --listen [::]:0",
        "serve --data {} --listen 192.0.2.1:7272",
    ] {
        run(line, &dir.data()).exits(2);
        assert!(!dir.data().exists(), "{line}");
    }
}

#[test]
fn with_json_wrong_use_is_an_object_too() {
    let told = run("--json append", Path::new("")).exits(2);
    assert_eq!(told.error()["error"], "ERR_USAGE");
    assert_eq!(told.error()["exit"], 2);
}

#[test]
fn names_that_lead_out_of_the_directory_are_refused() {
    let dir = Dir::new();
    for name in [
        "../x",
        "a/../../x",
        "/etc/x",
        ".",
        "..",
        "",
        "a\nb",
        "ä",
        "a b",
        "x.seg",
        &"n".repeat(201),
    ] {
        for subcommand in ["append", "read", "truncate", "delete", "repair"] {
            let mut command = command(&format!("{subcommand} {{}}"), &dir.data());
            command.arg(name);
            if subcommand == "truncate" {
                command.args(["--before", "1"]);
            }
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{subcommand} {name:?}");
        }
    }
    assert_eq!(std::fs::read_dir(dir.path("")).unwrap().count(), 0, "nothing was made");
}
