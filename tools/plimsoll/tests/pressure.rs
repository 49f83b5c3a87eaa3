//! `plimsoll pressure`: levels as they are, and nothing changed by looking.
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

use mounted::{Mount, filler, or_skip};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::Signal;
use plimsoll::fs::{FileSystem, OsFileSystem};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;
use support::{Dir, command, feed, finish, numbered, remember, run, signal, spawn, until};

const MIB: usize = 1 << 20;

/// Looks that go on, a JSON value each.
struct Watched {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watched {
    fn new(line: &str, dir: &std::path::Path) -> Self {
        let mut child = spawn(line, dir);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().unwrap().unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The device, once `holds` holds of it; 300 looks at most.
    #[track_caller]
    fn until(&mut self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..300 {
            last = self.next()["devices"][0].clone();
            if holds(&last) {
                return last;
            }
        }
        panic!("in vain for {what}: {last}");
    }

    fn end(self) {
        signal(&self.child, Signal::SIGINT);
        finish(self.child).exits(0);
    }
}

#[test]
fn i11_a_look_at_the_pressure_changes_nothing() {
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), &numbered(1000)).exits(0);
    let before = remember(&dir.data());
    for line in ["pressure {}", "pressure {} --json", "pressure {} --check"] {
        let code = run(line, &dir.data()).code;
        assert!(code == 0 || line.ends_with("check"), "{line}: {code}");
    }
    let mut watched = Watched::new("pressure {} --watch --json --interval 100ms", &dir.data());
    (0..5).for_each(|_| drop(watched.next()));
    watched.end();
    assert_eq!(remember(&dir.data()), before);
}

#[test]
fn i11_beside_a_running_node_nothing_is_changed_or_locked() {
    let dir = Dir::new();
    // It is there first: a lock of its own would keep the node out.
    feed("append {} orders", &dir.data(), b"0\n").exits(0);
    let mut watched = Watched::new("pressure {} --watch --json --interval 100ms", &dir.data());
    watched.next();
    let mut node = spawn("append {} orders --confirm", &dir.data());
    let mut stdin = node.stdin.take().unwrap();
    let mut told = BufReader::new(node.stdout.take().unwrap()).lines();
    stdin.write_all(&numbered(1000)).unwrap();
    assert!(told.next().unwrap().unwrap().starts_with("confirmed offsets 1 to"));
    // What the node makes ahead and its idle checkpoint, and then it rests.
    let mut before = remember(&dir.data());
    until("the node to rest", || {
        std::thread::sleep(Duration::from_millis(700));
        let now = remember(&dir.data());
        std::mem::replace(&mut before, now.clone()) == now
    });
    let seen = run("pressure {} --json", &dir.data()).exits(0).json();
    assert_eq!(seen["devices"][0]["dirs"][0], dir.data().to_str().unwrap());
    run("pressure {}", &dir.data()).exits(0);
    (0..5).for_each(|_| drop(watched.next()));
    assert_eq!(remember(&dir.data()), before);
    // Nothing below the directory is open for writing in it.
    let process = std::path::PathBuf::from(format!("/proc/{}", watched.child.id()));
    for entry in fs::read_dir(process.join("fd")).unwrap() {
        let name = entry.unwrap().file_name();
        let Ok(path) = fs::read_link(process.join("fd").join(&name)) else { continue };
        let info = fs::read_to_string(process.join("fdinfo").join(&name)).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.map_or(0, |flags| i32::from_str_radix(flags.trim(), 8).unwrap());
        assert!(!path.starts_with(dir.data()) || flags & 3 == 0, "{}: {flags:o}", path.display());
    }
    stdin.write_all(b"1000\n").unwrap();
    assert!(told.next().is_some(), "the node goes on");
    watched.end();
    drop(stdin);
    finish(node).exits(0);
}

#[test]
fn an_object_has_all_of_a_device_and_of_memory() {
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), b"one\n").exits(0);
    let report = run("pressure {} --json", &dir.data()).exits(0).json();
    let [device] = report["devices"].as_array().unwrap().as_slice() else { panic!("{report}") };
    let space = OsFileSystem.space(&dir.data()).unwrap();
    assert_eq!(device["total_bytes"], space.total);
    let number =
        |field: &str| device[field].as_u64().unwrap_or_else(|| panic!("{field}: {device}"));
    assert_eq!(
        number("free_bytes"),
        (number("available_bytes") + number("spare_bytes")).min(space.total)
    );
    assert!(
        number("soft_bytes") > number("hard_bytes")
            && number("hard_bytes") > number("reserve_bytes")
    );
    assert!(number("clear_bytes") > 0 && number("permille") <= 1000);
    assert_eq!(device["inodes"].is_null(), space.inodes == 0);
    // Not known from a single look.
    assert!(device["hard_in_seconds"].is_null() || device["hard_in_seconds"] == 0, "{device}");
    assert!(device["since_unix_ms"].is_null());
    let memory = &report["memory"];
    assert_eq!(memory["of"], "this command");
    for field in
        ["used_bytes", "limit_bytes", "soft_bytes", "hard_bytes", "clear_bytes", "physical_bytes"]
    {
        assert!(memory[field].as_u64().unwrap() > 0, "{field}: {memory}");
    }
    let from = memory["limit_from"].as_str().unwrap();
    assert!(["control group", "physical memory"].contains(&from), "{memory}");
    assert_eq!(memory["limit_file"].is_string(), from == "control group");
    assert_eq!((&report["settings"], &report["outcome"]), (&"default".into(), &"clean".into()));
    let shown = run("pressure {}", &dir.data()).exits(0);
    for text in [
        "device ",
        "level ",
        "FREE",
        "SOFT",
        "HARD",
        "RESERVE",
        "spares",
        "forecast",
        "memory",
        "USED",
        "this command",
    ] {
        assert!(shown.text().contains(text), "{text:?} is not in {}", shown.text());
    }
    assert!(!shown.text().contains('\u{1b}'), "no colour where there is no terminal");
}

#[test]
fn directories_on_one_device_are_one_and_spares_of_all_count() {
    let dir = Dir::new();
    let (one, two) = (dir.path("one"), dir.path("two"));
    for data in [&one, &two] {
        feed("append {} orders", data, b"one\n").exits(0);
    }
    let mut both = command("pressure {} --json", &one);
    let output = both.arg(&two).arg(one.join("../one")).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [device] = report["devices"].as_array().unwrap().as_slice() else { panic!("{report}") };
    let dirs = [one.to_str().unwrap(), two.to_str().unwrap()];
    assert_eq!(device["dirs"], serde_json::json!(dirs));
    let mut pool = command("pool {} --json", &one);
    let pool: Value = serde_json::from_slice(&pool.arg(&two).output().unwrap().stdout).unwrap();
    assert_eq!(device["spare_bytes"], pool["devices"][0]["counted_bytes"]);
}

#[test]
fn what_is_no_data_directory_ends_with_3_and_the_others_are_shown() {
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), b"one\n").exits(0);
    fs::create_dir(dir.path("other")).unwrap();
    for (name, told) in [("other", "not a data directory"), ("missing", "No such file")] {
        let mut command = command("pressure {} --json", &dir.data());
        let output = command.arg(dir.path(name)).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{name}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["devices"].as_array().unwrap().len(), 1, "{name}: {report}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(told) && stderr.contains("ERR_IO"), "{name}: {stderr}");
        // A watch does not begin.
        run("pressure {} --watch", &dir.path(name)).exits(3).says(&[told]);
    }
    fs::write(dir.data().join("LAYOUT"), b"plimsoll layout 1\nmain x\n").unwrap();
    run("pressure {}", &dir.data()).exits(1).says(&["LAYOUT", "line 2"]);
}

#[test]
fn the_level_follows_the_disk_and_a_check_ends_with_75() {
    let name = "the_level_follows_the_disk_and_a_check_ends_with_75";
    let Some(mount) = or_skip(name, Mount::tmpfs(64 << 20)) else { return };
    let data = mount.path().join("data");
    feed("append {} orders", &data, b"one\n").exits(0);
    let report = run("pressure {} --json", &data).exits(0).json();
    let number = |field: &str| report["devices"][0][field].as_u64().unwrap();
    let [soft, hard, reserve] = ["soft_bytes", "hard_bytes", "reserve_bytes"].map(number);
    for (left, level, code, shown) in [
        (2 * soft, "ok", 0, "publishes are admitted"),
        (soft.midpoint(hard), "soft", 0, "publishes are slowed by "),
        (hard.midpoint(reserve), "hard", 75, "publishes are refused"),
        (reserve / 2, "reserve", 75, "publishes and catch-up are refused"),
    ] {
        filler(mount.path(), number("free_bytes").saturating_sub(left) as usize);
        let report = run("pressure {} --json", &data).exits(0).json();
        assert_eq!(
            (&report["level"], &report["devices"][0]["level"]),
            (&level.into(), &level.into())
        );
        let told = run("pressure {} --check", &data).exits(code);
        assert!(told.text().contains(shown), "{}", told.text());
        assert_eq!(told.stderr.contains(&format!("level {level}")), code == 75, "{}", told.stderr);
        let told = run("pressure {} --check --json", &data).exits(code);
        if code == 75 {
            let error = told.error();
            assert_eq!((&error["error"], &error["level"]), (&"ERR_LIMITED".into(), &level.into()));
        }
    }
}

/// One line that both sets and clears a level makes whoever watches it go back and forth.
#[test]
fn case_A13_a_watched_level_ends_only_above_its_margin() {
    let name = "case_A13_a_watched_level_ends_only_above_its_margin";
    let Some(mount) = or_skip(name, Mount::tmpfs(64 << 20)) else { return };
    let data = mount.path().join("data");
    feed("append {} orders", &data, b"one\n").exits(0);
    let line = "pressure {} --watch --json --interval 100ms";
    let mut watched = Watched::new(line, &data);
    let device = watched.next()["devices"][0].clone();
    let number = |field: &str| device[field].as_u64().unwrap();
    let fill = |left: u64| drop(filler(mount.path(), (number("free_bytes") - left) as usize));
    let (soft, clear) = (number("soft_bytes"), number("clear_bytes"));
    fill(soft - (64 << 10));
    watched.until("soft", |device| device["level"] == "soft");
    // Truncated a little: above the line, and not above the margin.
    let path = mount.path().join("filler");
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(number("free_bytes") - soft - clear / 2).unwrap();
    let held = watched
        .until("free above the line", |device| device["free_bytes"].as_u64().unwrap() > soft);
    assert_eq!(held["level"], "soft", "{held}");
    assert_eq!(run("pressure {} --json", &data).exits(0).json()["level"], "ok", "a single look");
    file.set_len(0).unwrap();
    watched.until("ok", |device| device["level"] == "ok");
    watched.end();
}

#[test]
fn a_watch_forecasts_when_hard_is_reached() {
    let name = "a_watch_forecasts_when_hard_is_reached";
    let Some(mount) = or_skip(name, Mount::tmpfs(64 << 20)) else { return };
    let data = mount.path().join("data");
    feed("append {} orders", &data, b"one\n").exits(0);
    let mut watched = Watched::new("pressure {} --watch --json --interval 500ms", &data);
    let mut file = File::create(mount.path().join("filler")).unwrap();
    let forecast = (0..60).find_map(|_| {
        file.write_all(&vec![b'x'; MIB / 8]).unwrap();
        watched.next()["devices"][0]["hard_in_seconds"].as_u64()
    });
    // About 250 KiB a second, of more than 30 MiB.
    assert!(forecast.is_some_and(|seconds| seconds > 0), "{forecast:?}");
    watched.end();
}

#[test]
fn without_a_terminal_a_watch_is_a_block_each_time() {
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), b"one\n").exits(0);
    for end in [Signal::SIGINT, Signal::SIGTERM] {
        let mut child = spawn("pressure {} --watch --interval 100ms", &dir.data());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut all = Vec::new();
        while all.iter().filter(|line: &&String| line.is_empty()).count() < 3 {
            all.push(lines.next().unwrap().unwrap());
        }
        signal(&child, end);
        let told = finish(child).exits(0);
        assert_eq!(told.stderr, "");
        let devices = all.iter().filter(|line| line.starts_with("device ")).count();
        assert_eq!(devices, 3, "{all:#?}");
        assert!(all.iter().all(|line| !line.contains('\u{1b}')), "{all:#?}");
    }
}

#[test]
fn on_a_terminal_a_watch_is_drawn_in_place_and_gives_the_screen_back() {
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), b"one\n").exits(0);
    let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    let OpenptyResult { master, slave } = openpty(&size, None).unwrap();
    let mut command = command("pressure {} --watch --interval 100ms", &dir.data());
    command.env("TERM", "xterm-256color").stdout(Stdio::from(slave)).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    drop(command);
    let (mut person, mut all, mut part) = (File::from(master), Vec::new(), [0; 4096]);
    let mut ended = false;
    while let Ok(read @ 1..) = person.read(&mut part) {
        all.extend_from_slice(&part[..read]);
        let draws = String::from_utf8_lossy(&all).matches("\u{1b}[H").count();
        if draws >= 3 && !std::mem::replace(&mut ended, true) {
            signal(&child, Signal::SIGINT);
        }
    }
    assert_eq!(finish(child).exits(0).stderr, "");
    let all = String::from_utf8(all).unwrap();
    let (enter, leave) = ("\u{1b}[?1049h", "\u{1b}[?1049l");
    assert!(all.starts_with(enter) && all.matches(enter).count() == 1, "{all:?}");
    let (_, after) = all.split_once(leave).unwrap();
    // The last look stays.
    assert!(after.contains("device ") && after.contains("memory"), "{after:?}");
    assert!(!after.contains(leave) && !after.contains("\u{1b}[H"), "{after:?}");
}
