//! Directories and disks that are not as they should be: each has a message of its own.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]
#![allow(non_snake_case, reason = "tests are named for the case they hold")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use support::{Dir, Mount, feed, run, segments};

/// Every subcommand that opens a data directory.
const OPENERS: [&str; 5] = [
    "append {} orders",
    "read {} orders",
    "logs {}",
    "truncate {} orders --before 0",
    "delete {} orders --yes",
];

#[test]
fn a_directory_that_is_missing_is_named_and_only_append_makes_it() {
    let dir = Dir::new();
    for line in &OPENERS[1..] {
        run(line, &dir.data())
            .exits(3)
            .says(&[dir.data().to_str().unwrap(), "No such file or directory"]);
        assert!(!dir.data().exists());
    }
    // Only the last part is made: a slip in a path makes no tree.
    run(OPENERS[0], &dir.path("no/such/data"))
        .exits(3)
        .says(&["no/such/data", "No such file or directory"]);
    run(OPENERS[0], &dir.data()).exits(0);
}

#[test]
fn a_directory_that_is_something_else_is_left_alone() {
    let dir = Dir::new();
    let other = dir.path("home");
    fs::create_dir(&other).unwrap();
    run("logs {}", &other).exits(3).says(&["home is empty", "expected a data directory"]);
    fs::write(other.join("letter.txt"), b"dear").unwrap();
    for line in OPENERS {
        run(line, &other).exits(3).says(&["home", "LAYOUT"]);
    }
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
    let file = dir.file("file", b"text");
    for line in OPENERS {
        run(line, &file).exits(3).says(&["/file", "not a directory"]);
    }
    assert_eq!(fs::read(file).unwrap(), b"text");
}

#[test]
fn a_newer_layout_is_named_with_what_this_release_reads() {
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), b"one\n").exits(0);
    let layout = dir.data().join("LAYOUT");
    // What a newer release writes behind the first line this one does not know; the CRC32 it does.
    let body = "plimsoll layout 2\nmain 67108864\nsomething new\n";
    let text = format!("{body}crc32 {:08x}\n", crc32fast::hash(body.as_bytes()));
    fs::write(&layout, &text).unwrap();
    for line in OPENERS {
        run(line, &dir.data()).exits(3).says(&["LAYOUT", "layout 2", "up to 1"]);
    }
    assert_eq!(fs::read_to_string(&layout).unwrap(), text);
    fs::write(&layout, "something else\n").unwrap();
    run("logs {}", &dir.data()).exits(1).says(&["LAYOUT", "line 1", "something else", "expected"]);
}

#[test]
fn a_directory_where_a_file_should_be_is_named() {
    for name in ["LOCK", "LAYOUT"] {
        let dir = Dir::new();
        feed("append {} orders", &dir.data(), b"one\n").exits(0);
        fs::remove_file(dir.data().join(name)).unwrap();
        fs::create_dir(dir.data().join(name)).unwrap();
        run("append {} orders", &dir.data()).exits(3).says(&[name]);
    }
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), b"one\n").exits(0);
    let segment = segments(&dir.data(), "orders").remove(0);
    fs::remove_file(&segment).unwrap();
    fs::create_dir(&segment).unwrap();
    for line in ["logs {}", "verify {}", "inspect {}"] {
        let told = run(line, &dir.data());
        let all = format!("{}{}", told.stderr, told.text());
        assert!(all.contains("00000000000000000000.seg"), "{line}: {all}");
    }
    assert_ne!(run("append {} orders", &dir.data()).code, 0);
}

#[test]
fn a_read_only_file_system_is_named_as_that() {
    let dir = Dir::new();
    let Some(mount) = Mount::tmpfs(&dir.path("disk"), "size=64m") else { return };
    let data = dir.path("disk/data");
    feed("append {} orders", &data, b"one\ntwo\n").exits(0);
    mount.read_only();
    for line in ["append {} orders", "truncate {} orders --before 0", "delete {} orders --yes"] {
        run(line, &data).exits(3).says(&[
            "disk/data",
            "Read-only file system",
            "mounted read-only",
        ]);
    }
    // Reading needs no writing.
    assert_eq!(run("read {} orders", &data).exits(0).text(), "one\ntwo\n");
    let logs = run("logs {} --json", &data).exits(0).json();
    assert_eq!(logs[0]["durable"], 2);
}

#[test]
fn a_full_disk_is_named_as_that_and_what_was_confirmed_is_told_and_kept() {
    let dir = Dir::new();
    let Some(_mount) = Mount::tmpfs(&dir.path("disk"), "size=16m") else { return };
    let data = dir.path("disk/data");
    run("append {} orders", &data).exits(0);
    let input: Vec<u8> = (0..40_000).flat_map(|n| format!("{n:01000}\n").into_bytes()).collect();
    let told = feed("append {} orders --json --timeout 1s", &data, &input);
    // Refused by the disk, or before it by the gate.
    assert!([3, 75].contains(&told.code), "{}: {}", told.code, told.stderr);
    if told.code == 3 {
        assert!(
            told.stderr.contains("No space left on device") && told.stderr.contains("free"),
            "{}",
            told.stderr
        );
    } else {
        assert_eq!(told.error()["error"], "ERR_LIMITED");
        assert!(told.error()["retry_after_ms"].as_u64().is_some());
    }
    let last = told.error()["last_confirmed"].as_u64().unwrap();
    let read = run("read {} orders", &data).exits(0);
    let kept = (last as usize + 1) * 1001;
    assert!(read.stdout.len() >= kept && read.stdout == input[..read.stdout.len()]);
    // What frees space works on a full disk, and then appends do again.
    run(&format!("truncate {{}} orders --before {last}"), &data).exits(0);
    feed("append {} orders", &data, b"again\n").exits(0);
}

/// Everything below a directory: names, and bytes of files.
fn picture(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(picture(&path));
        } else {
            found.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn case_J5_links_planted_in_the_data_directory_lead_nowhere() {
    let dir = Dir::new();
    let victim = dir.path("victim");
    fs::create_dir_all(victim.join("log")).unwrap();
    for name in ["a", "b", "c", "log/00000000000000000000.seg"] {
        fs::write(victim.join(name), name).unwrap();
    }
    let before = picture(&victim);
    let data = dir.data();
    let input: Vec<u8> = (0..50_000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    feed("append {} orders", &data, &input).exits(0);
    // A log's directory, a spare, what is being made, the trash's content, the layout being made.
    symlink(victim.join("log"), data.join("logs/evil")).unwrap();
    symlink(victim.join("a"), data.join("spares/0000000000000000.seg")).unwrap();
    symlink(victim.join("b"), data.join("spares/0000000000000001.tmp")).unwrap();
    symlink(&victim, data.join("spares/dir")).unwrap();
    symlink(&victim, data.join("trash/0123456789abcdef")).unwrap();
    symlink(victim.join("c"), data.join("LAYOUT.tmp")).unwrap();
    let segment = segments(&data, "orders").pop().unwrap();
    for line in [
        "logs {}",
        "append {} orders",
        "read {} orders --count 1",
        "append {} evil",
        "read {} evil",
        "delete {} evil --yes",
        "truncate {} evil --before 0",
        "truncate {} orders --before 49999",
        "repair {} orders --yes",
        "repair {} evil --yes",
        "repair {} --yes",
        "verify {}",
        "logs {}",
        "delete {} orders --yes",
        "append {} orders",
    ] {
        let told = run(line, &data);
        assert!([0, 3].contains(&told.code), "{line}: {}", told.stderr);
        if line.contains("evil") {
            assert_eq!(told.code, 3, "{line}");
            assert!(told.stderr.contains("symbolic link"), "{line}: {}", told.stderr);
        }
        assert_eq!(picture(&victim), before, "{line}");
    }
    drop(segment);
}

#[test]
fn case_J5_a_segment_or_a_directory_that_is_a_link_is_refused() {
    let replace = |path: &Path, target: &Path| {
        fs::rename(path, target).unwrap();
        symlink(target, path).unwrap();
    };
    for name in ["logs", "spares", "trash", "quarantine", "LOCK", "LAYOUT", "logs/orders", ""] {
        let dir = Dir::new();
        feed("append {} orders", &dir.data(), b"one\n").exits(0);
        let path = if name.is_empty() { dir.data() } else { dir.data().join(name) };
        replace(&path, &dir.path("moved"));
        let told = feed("append {} orders", &dir.data(), b"two\n");
        assert_eq!(told.code, 3, "{name}: {}", told.stderr);
        assert!(told.stderr.contains("symbolic link"), "{name}: {}", told.stderr);
    }
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), b"one\n").exits(0);
    let segment = segments(&dir.data(), "orders").remove(0);
    replace(&segment, &dir.path("moved.seg"));
    let before = fs::read(dir.path("moved.seg")).unwrap();
    let told = feed("append {} orders", &dir.data(), b"two\n");
    assert_eq!(told.code, 3, "{}", told.stderr);
    assert!(told.stderr.contains("symbolic link"), "{}", told.stderr);
    assert!(fs::read(dir.path("moved.seg")).unwrap() == before);
}
