//! Short runs of the lab with real processes: with this engine, and with drivers that lie.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "not the engine: runs the lab and looks at what it says"
)]

#[path = "../../../tests/common/skip.rs"]
mod skip;

use faultlab::process::inject;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs `faultlab` to its end, at most two minutes; files below `dir`.
fn lab(dir: &Path, args: &[&str]) -> (i32, serde_json::Value, String) {
    lab_with(None, dir, args)
}

/// The same with a mistake in the engine.
fn lab_with(plant: Option<&str>, dir: &Path, args: &[&str]) -> (i32, serde_json::Value, String) {
    let mut command = Command::new("timeout");
    command.env_remove("FAULTLAB_PLANT");
    if let Some(fault) = plant {
        command.env("FAULTLAB_PLANT", fault);
    }
    command.args(["--kill-after=5", "120", env!("CARGO_BIN_EXE_faultlab"), "--json"]);
    let Output { status, stdout, stderr } =
        command.args(args).arg("--dir").arg(dir).output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned();
    let all = format!("{text}\n{}", String::from_utf8_lossy(&stderr));
    (status.code().unwrap_or(-1), serde_json::from_str(&text).unwrap_or_default(), all)
}

/// A driver as a shell script: `$1` is `driver` or `dump`, `$2` the directory.
fn script(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("driver.sh");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn kills_lose_nothing_that_was_confirmed() {
    let dir = tempfile::tempdir().unwrap();
    let (code, told, all) = lab(dir.path(), &["kill", "--rounds", "12"]);
    assert_eq!(code, 0, "{all}");
    let result = &told["result"];
    assert_eq!((&result["rounds"], &result["violations"]), (&12.into(), &serde_json::json!([])));
    for figure in ["acks", "records_checked", "file_checks"] {
        assert!(result[figure].as_u64().unwrap() > 0, "{figure}: {all}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "what held is removed");
}

/// Confirms everything and keeps nothing.
const FORGETFUL: &str = r#"
n=0
if [ "$1" = dump ]; then echo done; exit; fi
while read -r verb log id rest; do
    if [ "$verb" = append ]; then echo "ack $log $id $n"; n=$((n + 1)); else echo "truncated $log 0"; fi
done
"#;

#[test]
fn a_driver_that_keeps_nothing_is_found_and_its_history_says_so_again() {
    let dir = tempfile::tempdir().unwrap();
    let driver = format!("sh {}", script(dir.path(), FORGETFUL).display());
    let (code, told, all) =
        lab(dir.path(), &["kill", "--rounds", "5", "--seed", "1", "--driver", &driver]);
    assert_eq!(code, 1, "{all}");
    let found = told["result"]["violations"].as_array().unwrap();
    assert!(found.iter().any(|one| one.as_str().unwrap().starts_with("log is gone")), "{all}");
    let kept = PathBuf::from(told["result"]["kept"].as_str().unwrap());
    assert!(kept.join("violations.txt").is_file() && kept.join("data").parent().is_some());
    let history = kept.join("history.txt").display().to_string();
    let (code, again, all) = lab(dir.path(), &["kill", "--recheck", &history]);
    assert_eq!(code, 1, "{all}");
    assert!(!again["violations"].as_array().unwrap().is_empty());
}

/// Answers nothing and ends at once.
#[test]
fn a_driver_that_ends_by_itself_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let driver =
        script(dir.path(), "[ \"$1\" = dump ] && echo done || { echo broken >&2; exit 3; }");
    let driver = format!("sh {}", driver.display());
    let (code, told, all) = lab(dir.path(), &["kill", "--rounds", "3", "--driver", &driver]);
    assert_eq!(code, 1, "{all}");
    assert!(told["result"]["violations"].to_string().contains("broken"), "{all}");
}

#[test]
fn failing_calls_are_answered_and_a_lying_sync_is_found() {
    let name = "failing_calls_are_answered_and_a_lying_sync_is_found";
    if let Err(reason) = inject::usable() {
        return skip::skip(name, &reason);
    }
    let dir = tempfile::tempdir().unwrap();
    let calls = "fdatasync,rename,pwritev2";
    let (code, told, all) = lab(dir.path(), &["strace", "--calls", calls, "--short"]);
    assert_eq!(code, 0, "{all}");
    let results = told["results"].as_array().unwrap();
    let paths: Vec<_> = results.iter().map(|result| result["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["direct", "buffered"]);
    for result in results {
        let rows = result["rows"].as_array().unwrap();
        let direct = rows.iter().filter(|row| row["call"] == "pwritev2").count();
        assert_eq!(rows.len() - direct, 8, "{all}");
        // None where the place for temporary files has no direct writes.
        let most = if result["path"] == "direct" { 6 } else { 0 };
        assert!(direct == 0 || direct == most, "{all}");
        assert!(result["traced_acks"].as_u64().unwrap() > 0, "{all}");
    }
    let (code, told, all) = lab(dir.path(), &["strace", "--calls", "lying"]);
    assert_eq!(code, 0, "{all}");
    for result in told["results"].as_array().unwrap() {
        let lies = result["lies_found"].as_array().unwrap();
        assert_eq!(lies.len(), 2, "{all}");
        assert!(lies.iter().all(|lie| lie["acks"].as_u64().unwrap() > 0), "{all}");
    }
}

/// A file system that is killed on, and filled to the last byte: what frees space goes on, and publishes do when it is back.
#[test]
fn a_small_mount_loses_nothing_and_goes_on_when_it_was_full() {
    let name = "a_small_mount_loses_nothing_and_goes_on_when_it_was_full";
    let dir = tempfile::tempdir().unwrap();
    let (code, told, all) = lab(dir.path(), &["mounts", "--kinds", "tmpfs", "--rounds", "2"]);
    assert_eq!(code, 0, "{all}");
    if told["kinds"].as_array().is_none_or(Vec::is_empty) {
        return skip::skip(name, "no mount can be made here");
    }
    assert!(told["kinds"][0]["full"]["refused"].as_u64().unwrap() > 0, "{all}");
}

/// What only the order of system calls shows, as the page cache survives a kill; and what a restart shows too.
#[test]
fn known_mistakes_of_the_engine_are_found() {
    let name = "known_mistakes_of_the_engine_are_found";
    if let Err(reason) = inject::usable() {
        return skip::skip(name, &reason);
    }
    if !cfg!(debug_assertions) {
        return skip::skip(name, "a build without debug assertions makes no mistake");
    }
    for (fault, rule) in [
        ("ConfirmedBeforeSync", "not synced"),
        ("FirstCommitWithoutDirectory", "name not synced"),
        ("FirstCommitWithoutSparesDirectory", "name not synced"),
        ("FirstCommitWithoutHeader", "log is stopped"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let args = ["strace", "--calls", "lying", "--seed", "1"];
        let (code, told, all) = lab_with(Some(fault), dir.path(), &args);
        assert_eq!(code, 1, "{fault}: {all}");
        for result in told["results"].as_array().unwrap() {
            let wrong = result["violations"].as_array().unwrap();
            let expected = format!("no fault: {rule}: ");
            let found = |one: &serde_json::Value| one.as_str().unwrap().starts_with(&expected);
            assert!(wrong.iter().any(found), "{fault}: {all}");
        }
    }
}
