//! The commands as a user runs them: figures, exit codes, and a case that replays.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Runs it in a directory of its own, so that no case is left anywhere else.
fn faultlab(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_faultlab")).current_dir(dir).args(args).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_script_is_exhausted_and_its_figures_are_printed() {
    let dir = tempfile::tempdir().unwrap();
    let output = faultlab(dir.path(), &["exhaustive", "append_single", "--json"]);
    let figures = json(&output);
    assert_eq!(code(&output), 0);
    assert_eq!(figures["violations"], 0);
    let paths: Vec<&Value> =
        figures["scripts"].as_array().unwrap().iter().map(|script| &script["path"]).collect();
    assert_eq!(paths, ["direct", "buffered"]);
    let script = &figures["scripts"][0];
    assert_eq!((&script["script"], &script["sampled"]), (&"append_single".into(), &false.into()));
    assert!(script["points"].as_u64().unwrap() > 5);
    assert!(script["states"].as_u64().unwrap() >= script["distinct"].as_u64().unwrap());
    let table = faultlab(dir.path(), &["exhaustive", "append_first"]);
    assert!(String::from_utf8(table.stdout).unwrap().contains("append_first"));
}

#[test]
fn lives_are_counted_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let output = faultlab(dir.path(), &["lives", "--nodes", "5", "--seed", "40", "--json"]);
    let figures = json(&output);
    assert_eq!(code(&output), 0);
    assert_eq!(
        (&figures["nodes"], &figures["calm"], &figures["compared"]),
        (&5.into(), &5.into(), &5.into())
    );
    assert!(figures["checks"].as_u64() > figures["crashes"].as_u64());
}

#[test]
fn wrong_use_is_told_from_a_violation() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("no.case"), "not a case").unwrap();
    for args in [
        &["exhaustive", "nosuch"][..],
        &["mutants", "NoSuch"],
        &["replay", "missing.case"],
        &["replay", "no.case"],
        &["lives", "--nodes", "1", "--seconds", "1"],
        &["nosuch"],
    ] {
        assert_eq!(code(&faultlab(dir.path(), args)), 2, "{args:?}");
    }
}

#[cfg(debug_assertions)]
#[test]
fn a_mistake_leaves_a_case_that_replays_and_is_replayed_first() {
    let dir = tempfile::tempdir().unwrap();
    let fault = ["mutants", "ConfirmedBeforeSync", "--path", "direct", "--cases", "kept", "--json"];
    let output = faultlab(dir.path(), &fault);
    let figures = json(&output);
    assert_eq!((code(&output), &figures["survived"]), (0, &0.into()));
    let case = figures["faults"][0]["case"].as_str().unwrap().to_owned();
    let violation = figures["faults"][0]["violation"].as_str().unwrap();

    let output = faultlab(dir.path(), &["replay", &case, "--verbose"]);
    let trace = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(code(&output), 1);
    assert!(trace.contains("crash: ") && trace.contains("Write /data/logs/a/"), "{trace}");
    assert!(trace.contains(violation.split(':').next().unwrap()), "{trace}");
    assert_eq!(code(&faultlab(dir.path(), &["replay", &case, "--clean"])), 0);

    // It is replayed with its fault, and holds as long as that is caught.
    let search = ["exhaustive", "append_first", "--cases", "kept", "--json"];
    let output = faultlab(dir.path(), &search);
    assert_eq!((code(&output), &json(&output)["kept_cases"]), (0, &1.into()));
    // One that no longer shows what it did is a failure.
    let path = dir.path().join(&case);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("\npath direct\n"), "{text}");
    std::fs::write(&path, text.replace("planted ConfirmedBeforeSync", "planted MadeWithoutSync"))
        .unwrap();
    let output = faultlab(dir.path(), &search);
    assert_eq!(code(&output), 1);
    assert!(String::from_utf8(output.stderr).unwrap().contains("MadeWithoutSync was not caught"));
}
