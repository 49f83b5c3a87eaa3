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

/// Something in the place of what the engine expects.
fn plant(kind: &str, path: &std::path::Path) {
    match kind {
        "file" => std::fs::write(path, b"text").unwrap(),
        "directory" => std::fs::create_dir(path).unwrap(),
        "link" => std::os::unix::fs::symlink("/nowhere", path).unwrap(),
        _ => {
            nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        }
    }
}

#[test]
fn what_stands_in_the_way_of_a_log_is_told_and_not_clean() {
    let segment = "00000000000000000010.seg";
    for (kind, name) in [
        ("directory", segment),
        ("link", segment),
        ("fifo", segment),
        ("file", "notes.txt"),
        ("link", "notes.txt"),
    ] {
        let dir = Dir::new();
        feed("append {} a/good", &dir.data(), &numbered(3)).exits(0);
        feed("append {} odd", &dir.data(), &numbered(3)).exits(0);
        let planted = dir.data().join("logs/odd").join(name);
        plant(kind, &planted);
        let path = planted.to_str().unwrap();
        let told = run("verify {}", &dir.data()).exits(3).says(&[path]);
        assert!(told.text().trim_end().ends_with(": foreign"), "{kind} {name}: {}", told.text());
        run("inspect {}", &dir.data()).exits(3).says(&[path]);
        run("append {} odd", &dir.data()).exits(3).says(&[path]);
        run("read {} odd", &dir.data()).exits(3).says(&[path]);
        let listed = run("logs {} --json", &dir.data()).exits(3).says(&[path]).json();
        assert_eq!((&listed[0]["name"], &listed[0]["state"]), (&json!("a/good"), &json!("ok")));
        assert_eq!((&listed[1]["name"], &listed[1]["state"]), (&json!("odd"), &json!("foreign")));
        // The others are there.
        assert_eq!(run("read {} a/good", &dir.data()).exits(0).text(), "0\n1\n2\n");
    }
}

#[test]
fn what_stands_in_the_place_of_the_directorys_own_files_is_told() {
    for (name, kind, says) in [
        ("LAYOUT", "directory", "is a directory, expected a file"),
        ("LAYOUT", "link", "symbolic link"),
        ("LOCK", "directory", "is a directory, expected a file"),
        ("LOCK", "link", "symbolic link"),
        ("spares", "file", "is a file, expected a directory"),
    ] {
        let dir = Dir::new();
        feed("append {} a", &dir.data(), &numbered(3)).exits(0);
        let path = dir.data().join(name);
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
        plant(kind, &path);
        for line in ["verify {}", "inspect {}"] {
            run(line, &dir.data()).exits(3).says(&[path.to_str().unwrap(), says]);
        }
    }
}

#[test]
fn what_is_in_nobodys_way_is_told_and_no_failure() {
    let dir = Dir::new();
    feed("append {} a", &dir.data(), &numbered(3)).exits(0);
    plant("file", &dir.data().join("notes.txt"));
    plant("directory", &dir.data().join("lost+found"));
    let told = run("verify {}", &dir.data()).exits(0);
    assert!(told.text().contains("notes.txt: stray: is no file of this engine"), "{}", told.text());
    assert!(told.text().trim_end().ends_with(": stray"), "{}", told.text());
}

#[test]
fn missing_logs_beside_a_layout_are_told() {
    let dir = Dir::new();
    feed("append {} a", &dir.data(), &numbered(3)).exits(0);
    std::fs::rename(dir.data().join("logs"), dir.path("elsewhere")).unwrap();
    run("verify {}", &dir.data()).exits(3).says(&["logs", "is missing, though there is a LAYOUT"]);
}

#[test]
fn a_damaged_layout_is_damage_and_a_newer_one_is_refused() {
    let dir = Dir::new();
    feed("append {} a", &dir.data(), &numbered(3)).exits(0);
    let path = dir.data().join("LAYOUT");
    let good = std::fs::read_to_string(&path).unwrap();
    damage(&path, good.len() - 3);
    for line in ["verify {}", "inspect {}", "logs {}", "read {} a", "repair {}"] {
        run(line, &dir.data()).exits(1);
    }
    let body = "plimsoll layout 2\nsomething else\n";
    let newer = format!("{body}crc32 {:08x}\n", crc32fast::hash(body.as_bytes()));
    std::fs::write(&path, &newer).unwrap();
    for line in ["verify {}", "logs {}", "read {} a", "repair {}", "repair {} --yes"] {
        run(line, &dir.data()).exits(3).says(&["LAYOUT", "layout 2"]);
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
}

#[test]
fn a_recovery_that_was_cut_off_is_shown() {
    let dir = Dir::new();
    feed("append {} a", &dir.data(), &numbered(3)).exits(0);
    let file = &segments(&dir.data(), "a")[0];
    let told = run("inspect {}", file).exits(0);
    assert!(!told.text().contains("a recovery was under way"), "{}", told.text());
    let mut bytes = std::fs::read(file).unwrap();
    bytes[512..520].copy_from_slice(b"PLIMSETL");
    std::fs::write(file, bytes).unwrap();
    let told = run("inspect {}", file).exits(0);
    assert!(told.text().contains("a recovery was under way"), "{}", told.text());
    assert_eq!(run("inspect {} --json", file).json()["recovery_under_way"], true);
}

#[test]
fn another_logs_header_over_a_logs_only_file_is_damage() {
    let dir = Dir::new();
    feed("append {} a", &dir.data(), &numbered(3)).exits(0);
    feed("append {} b", &dir.data(), &numbered(3)).exits(0);
    let (a, b) = (&segments(&dir.data(), "a")[0], &segments(&dir.data(), "b")[0]);
    let mut bytes = std::fs::read(a).unwrap();
    bytes[..4096].copy_from_slice(&std::fs::read(b).unwrap()[..4096]);
    std::fs::write(a, bytes).unwrap();
    let path = a.to_str().unwrap();
    // Verifying finds the copied header in two places besides.
    run("verify {}", &dir.data()).exits(1).says(&[path]);
    for line in ["logs {}", "read {} a"] {
        run(line, &dir.data()).exits(1).says(&[path, "8192"]);
    }
    feed("append {} a", &dir.data(), b"more\n").exits(1).says(&[path, "8192"]);
    run("inspect {}", a).exits(1).says(&[path, "8192"]);
}

#[test]
fn a_last_segment_cut_below_its_header_is_damage_and_stays() {
    let dir = Dir::new();
    let data = filled(&dir);
    let files = segments(&data, "long");
    let last = files.last().unwrap();
    std::fs::OpenOptions::new().write(true).open(last).unwrap().set_len(165).unwrap();
    let path = last.to_str().unwrap();
    for line in ["verify {}", "logs {}", "read {} long"] {
        run(line, &data).exits(1).says(&[path]);
    }
    feed("append {} long", &data, b"more\n").exits(1).says(&[path]);
    assert_eq!(std::fs::metadata(last).unwrap().len(), 165);
}
