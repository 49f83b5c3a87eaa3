//! Which room of the engine may know which: the table of ARCHITECTURE.md, held against every path in `src/`.
//!
//! Modules cannot enforce a direction, and one convenient `use` is all it takes to turn layers into a knot. So this reads
//! the sources as tokens (comments and literals left out), resolves every path that begins with `crate`, `self` or
//! `super`, in `use` trees and in line, and names file, line and rule for each one that the table does not allow.
//! What is compiled for tests only (`#[cfg(test)]`) may use anything.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "not the engine: reads its sources"
)]

#[path = "rooms/source.rs"]
mod source;

use source::Source;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// A room, and what it may use beyond itself and what is open to all. `room::Item` grants one item of a room.
const TABLE: &[(&str, &[&str])] = &[
    ("fs", &[]),
    ("format", &[]),
    ("segment", &["fs", "format"]),
    ("recovery", &["fs", "format", "segment"]),
    ("log", &["fs", "segment", "recovery", "format"]),
    // Of segments, only how files are asked for and given back.
    (
        "pool",
        &[
            "fs",
            "format",
            "segment::source",
            "segment::SegmentSource",
            "segment::Spare",
            "segment::Reuse",
            "segment::Want",
            "segment::GivenUp",
            "segment::TakeError",
        ],
    ),
    // Plain data.
    ("limits", &[]),
    // Of the disk, only how much is free, and the kernel's files about memory.
    ("pressure", &["fs::FileSystem", "fs::Space", "fs::is_no_space", "fs::File", "limits"]),
    // Of pressure, its reading.
    ("admission", &["pressure"]),
    ("inspect", &["fs", "format", "segment", "recovery"]),
    ("repair", &["fs", "format", "segment", "recovery", "inspect"]),
    (
        "node",
        &["fs", "format", "segment", "recovery", "log", "pool", "pressure", "admission", "inspect"],
    ),
];

/// What every room may use. The permit is how admission's answer travels to the log.
const OPEN_TO_ALL: &[&str] = &["types", "error", "clock", "planted", "permit", "limits", "signal"];

/// What only some rooms may name, however they came by it.
const RESERVED: &[(&str, &[&str], &str)] = &[
    ("OsFileSystem", &["fs", "node"], "the real disk is handed in; only fs and node name it"),
    ("SystemClock", &["clock", "node"], "the real clock is handed in; only clock and node name it"),
    ("Instant", &[], "elapsed time comes from clock::Clock"),
    ("SystemTime", &["clock"], "stamps come from clock::Clock"),
];

/// Paths that only some rooms may take: one part names a crate, several stand anywhere in a path.
const PATHS: &[(&[&str], &[&str], &str)] = &[
    (
        &["Permit", "new"],
        &["admission"],
        "only admission makes a permit, so no write goes round it",
    ),
    (&["process", "id"], &[], "a process number outlives its process; locks are the kernel's"),
    (&["std", "fs"], &["fs"], "disk calls go through fs::FileSystem"),
    (&["nix"], &["fs", "clock"], "system calls have their room: fs, clock or signal"),
];

const LINES_WARN: usize = 500;
const LINES_MAX: usize = 700;

/// Crates that would make the engine choose its users' runtime for them.
const RUNTIMES: &[&str] = &["tokio", "async-std", "smol", "futures-executor", "embassy-executor"];

#[derive(Debug, PartialEq, Eq)]
struct Breach {
    file: PathBuf,
    line: usize,
    rule: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.rule)
    }
}

/// Names that `lib.rs` hands on, with the room that each comes from: `crate::Name` is a way into that room too.
fn handed_on(root: &Source) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (_, path) in root.paths() {
        if let [first, .., last] = path.as_slice() {
            let room = if first == "crate" { path.get(1) } else { Some(first) };
            if let Some(room) = room.filter(|room| *room != last) {
                found.insert(last.clone(), room.clone());
            }
        }
    }
    found
}

fn allowed(room: &str, path: &[String]) -> bool {
    let target = path[0].as_str();
    let row = TABLE.iter().find(|(name, _)| *name == room).map_or(&[][..], |(_, row)| row);
    let open = target == room || OPEN_TO_ALL.contains(&target);
    open || row.iter().chain(OPEN_TO_ALL).any(|grant| match grant.split_once("::") {
        None => *grant == target,
        Some((granted, item)) => granted == target && path.get(1).is_some_and(|part| part == item),
    })
}

fn known(room: &str) -> bool {
    TABLE.iter().any(|(name, _)| *name == room) || OPEN_TO_ALL.contains(&room)
}

/// Every breach of the rules in `sources`, given as paths below `src/` and their text.
fn check(sources: &[(&str, &str)]) -> Vec<Breach> {
    let sources: Vec<Source> =
        sources.iter().map(|(file, text)| Source::new(Path::new(file), text)).collect();
    let tests: Vec<Vec<String>> = sources.iter().flat_map(Source::test_modules).collect();
    let root = sources.iter().find(|source| source.module.is_empty());
    let handed_on = root.map(handed_on).unwrap_or_default();
    let mut breaches = Vec::new();
    for source in &sources {
        let mut breach = |line, rule: String| {
            breaches.push(Breach { file: source.file.clone(), line, rule });
        };
        if source.lines > LINES_MAX {
            breach(
                LINES_MAX,
                format!("{} lines; {LINES_MAX} at most: one file, one job", source.lines),
            );
        }
        if tests.iter().any(|test| source.module.starts_with(test)) {
            continue;
        }
        // The root only names the rooms and hands their items on.
        let Some(room) = source.module.first().map(String::as_str) else { continue };
        if !known(room) {
            breach(
                1,
                format!("room {room} is not in the table of tests/rooms.rs and ARCHITECTURE.md"),
            );
            continue;
        }
        for (line, path) in source.paths() {
            for rule in path_breaches(room, &path, &handed_on) {
                breach(line, rule);
            }
        }
    }
    breaches
}

/// The rules that a path written in `room` breaks.
fn path_breaches(room: &str, path: &[String], handed_on: &BTreeMap<String, String>) -> Vec<String> {
    let mut rules = Vec::new();
    let shown = path.join("::");
    if path[0] == "crate" && path.len() > 1 {
        let mut inside = path[1..].to_vec();
        if let Some(from) = handed_on.get(&inside[0]) {
            inside.insert(0, from.clone());
        }
        if !allowed(room, &inside) {
            rules.push(format!("{room} must not know {} ({shown})", inside[0]));
        }
        if inside.starts_with(&["fs".into(), "sim".into()]) && room != "fs" {
            rules.push(format!("{room} must not know the simulator ({shown}); tests may"));
        }
    }
    for (name, rooms, why) in RESERVED {
        if path.iter().any(|part| part == name) && !rooms.contains(&room) {
            rules.push(format!("{room} must not name {name} ({shown}): {why}"));
        }
    }
    for (parts, rooms, why) in PATHS {
        let hit = if parts.len() == 1 {
            path[0] == parts[0]
        } else {
            path.windows(parts.len()).any(|window| window == *parts)
        };
        if hit && !rooms.contains(&room) {
            rules.push(format!("{room} must not use {shown}: {why}"));
        }
    }
    // Numbers of errors are what errors are told apart by; everything else of libc is a system call.
    if path[0] == "libc" && !["fs", "clock", "signal"].contains(&room) {
        let errno = path.get(1).is_some_and(|name| {
            name.starts_with('E')
                && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        });
        if !errno && path.len() > 1 {
            rules.push(format!(
                "{room} must not use {shown}: system calls have their room: fs, clock or signal"
            ));
        }
    }
    rules
}

/// All Rust files below `dir`, as paths below it and their text, sorted.
fn read_sources(dir: &Path) -> Vec<(String, String)> {
    let (mut dirs, mut found) = (vec![dir.to_path_buf()], Vec::new());
    while let Some(next) = dirs.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn engine() -> Vec<(String, String)> {
    read_sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
}

#[test]
fn rooms_keep_to_the_table() {
    let sources = engine();
    assert!(sources.len() > 10, "found only {} files", sources.len());
    let borrowed: Vec<_> =
        sources.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
    for (file, text) in &sources {
        if text.lines().count() > LINES_WARN {
            println!("warning: src/{file}: {} lines, over {LINES_WARN}", text.lines().count());
        }
    }
    let breaches = check(&borrowed);
    let shown: Vec<String> = breaches.iter().map(|breach| format!("src/{breach}")).collect();
    assert!(breaches.is_empty(), "{} breaches:\n{}", breaches.len(), shown.join("\n"));
}

/// The rows of the table that ARCHITECTURE.md shows, as room and what it may use.
fn documented(text: &str) -> Vec<(String, Vec<String>)> {
    let ticked = |cell: &str| -> Vec<String> {
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("| room |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        (ticked(cells[1]).concat(), ticked(cells[3]))
    })
    .collect()
}

#[test]
fn the_table_is_the_one_that_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md");
    let documented = documented(&std::fs::read_to_string(path).unwrap());
    let table: Vec<(String, Vec<String>)> = TABLE
        .iter()
        .map(|(room, row)| (room.to_string(), row.iter().map(ToString::to_string).collect()))
        .collect();
    assert_eq!(documented, table);
}

#[test]
fn no_room_waits_on_another_that_waits_on_it() {
    // The table itself has a direction: taking away rooms that use nobody left ends with none.
    let mut left: Vec<&(&str, &[&str])> = TABLE.iter().collect();
    while !left.is_empty() {
        let names: Vec<&str> = left.iter().map(|(name, _)| *name).collect();
        let before = left.len();
        left.retain(|(_, row)| {
            row.iter().any(|used| names.contains(&used.split("::").next().unwrap()))
        });
        assert!(left.len() < before, "these use each other in a ring: {names:?}");
    }
}

#[test]
fn the_engine_knows_no_runtime() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap();
    let dependencies = dependencies.split("\n[").next().unwrap();
    assert!(dependencies.contains("libc"), "the section was not found");
    for line in dependencies.lines() {
        let name = line.split(['=', '.', ' ']).next().unwrap();
        assert!(!RUNTIMES.contains(&name), "the engine depends on a runtime: {line}");
    }
}

mod alarm {
    //! The check itself: each made-up source breaks one rule, and must be caught at its line.

    use super::{LINES_MAX, check};

    /// Checks one file beside a root, and gives what is reported as `line: rule`.
    fn report(file: &str, text: &str) -> Vec<String> {
        let root =
            "pub mod fs;\npub mod node;\npub use node::Node;\npub use crate::fs::OsFileSystem;\n";
        let breaches = check(&[("lib.rs", root), (file, text)]);
        breaches.iter().map(|breach| format!("{}: {}", breach.line, breach.rule)).collect()
    }

    #[track_caller]
    fn caught(file: &str, text: &str, expected: &str) {
        let report = report(file, text);
        assert_eq!(report.len(), 1, "{report:?}");
        assert!(report[0].starts_with(expected), "{report:?}");
    }

    #[track_caller]
    fn fine(file: &str, text: &str) {
        assert_eq!(report(file, text), Vec::<String>::new());
    }

    #[test]
    fn a_use_line() {
        caught("log/append.rs", "\nuse crate::pool::Pool;\n", "2: log must not know pool");
        caught("pool/worker.rs", "use crate::log;", "1: pool must not know log");
        caught("format/record.rs", "use crate::fs::File;", "1: format must not know fs");
        caught("inspect.rs", "use crate::node::Settings;", "1: inspect must not know node");
        fine("log/append.rs", "use crate::{types::Offset, recovery, permit::Permit};");
        fine("node/mod.rs", "use crate::{pool, log, fs::OsFileSystem, clock::SystemClock};");
    }

    #[test]
    fn one_branch_of_a_tree() {
        let tree = "use crate::{\n    fs::{self, File},\n    recovery::{scan, decide::*},\n    pool::budget as b,\n};";
        caught("log/mod.rs", tree, "4: log must not know pool");
    }

    #[test]
    fn a_path_in_line() {
        let text = "fn f() {\n    let _ = crate::pressure::level::<u8>(1);\n}";
        caught("log/mod.rs", text, "2: log must not know pressure");
    }

    #[test]
    fn a_path_through_super() {
        caught("log/commit.rs", "use super::super::pool;", "1: log must not know pool");
        let inner = "mod inner {\n    use super::super::super::pool;\n}\nuse super::super::fs;";
        caught("log/commit.rs", inner, "2: log must not know pool");
        fine("log/commit.rs", "use super::pool_of_buffers;");
    }

    #[test]
    fn a_name_that_the_root_hands_on() {
        caught("log/mod.rs", "use crate::Node;", "1: log must not know node");
        caught(
            "recovery/scan.rs",
            "use crate::OsFileSystem;",
            "1: recovery must not name OsFileSystem",
        );
    }

    #[test]
    fn one_item_of_a_room() {
        fine("pool/mod.rs", "use crate::segment::{SegmentSource, Spare, source};");
        caught(
            "pool/mod.rs",
            "use crate::segment::{Spare, Walker};",
            "1: pool must not know segment",
        );
        caught("log/mod.rs", "use crate::admission::Policy;", "1: log must not know admission");
    }

    #[test]
    fn what_is_reserved() {
        caught(
            "log/mod.rs",
            "fn f(x: crate::fs::OsFileSystem) {}",
            "1: log must not name OsFileSystem",
        );
        caught("log/mod.rs", "use std::time::{Duration, Instant};", "1: log must not name Instant");
        caught(
            "fs/os.rs",
            "fn f() -> u32 { std::process::id() }",
            "1: fs must not use std::process::id",
        );
        caught(
            "fs/os.rs",
            "use std::process;\nfn f() -> u32 { process::id() }",
            "2: fs must not use process::id",
        );
        caught(
            "log/mod.rs",
            "fn f() { crate::permit::Permit::new(1) }",
            "1: log must not use crate::permit::Permit::new",
        );
        caught("pool/mod.rs", "use std::{fs, io};", "1: pool must not use std::fs");
        caught("pool/mod.rs", "use nix::unistd::fsync;", "1: pool must not use nix::unistd::fsync");
        caught(
            "pool/mod.rs",
            "fn f() { unsafe { libc::fsync(3) }; }",
            "1: pool must not use libc::fsync",
        );
        caught(
            "recovery/mod.rs",
            "use crate::fs::sim::Sim;",
            "1: recovery must not know the simulator",
        );
        fine("pool/mod.rs", "fn f(e: i32) -> bool { e == libc::ENOSPC }");
    }

    #[test]
    fn what_is_not_code_is_not_read() {
        fine(
            "log/mod.rs",
            "//! See [`crate::pool`].\n/* crate::pool /* crate::node */ */\n\
             const A: &str = \"crate::pool \\\" crate::node\";\nconst B: &str = r#\"crate::pool \" \"#;\n\
             const C: &[u8] = b\"crate::pool\";\nfn f<'a>(c: &'a char) -> bool { *c == '\"' || *c == '\\'' }",
        );
        // A quote that was taken for the start of a string would hide what follows.
        caught(
            "log/mod.rs",
            "const C: char = '\"';\nuse crate::pool;",
            "2: log must not know pool",
        );
        caught("log/mod.rs", "fn f<'a>() {}\nuse crate::pool;", "2: log must not know pool");
        caught(
            "log/mod.rs",
            "const R: &str = r\"\\\";\nuse crate::pool;",
            "2: log must not know pool",
        );
    }

    #[test]
    fn tests_may_use_anything_and_only_tests() {
        fine("log/mod.rs", "#[cfg(test)]\nmod tests {\n    use crate::pool::Pool;\n}");
        caught(
            "log/mod.rs",
            "#[cfg(test)]\nuse crate::pool;\nuse crate::pool;",
            "3: log must not know pool",
        );
        fine(
            "log/mod.rs",
            "#[cfg(all(test, feature = \"sim\"))]\nfn f(x: [u8; 3]) { crate::pool::f() }",
        );
        caught("log/mod.rs", "#[cfg(not(test))]\nuse crate::pool;", "2: log must not know pool");
        let declared =
            [("log/mod.rs", "#[cfg(test)]\nmod tests;"), ("log/tests.rs", "use crate::pool;")];
        assert_eq!(check(&declared), vec![]);
        let not_declared = [("log/mod.rs", "mod tests;"), ("log/tests.rs", "use crate::pool;")];
        assert_eq!(check(&not_declared).len(), 1);
    }

    #[test]
    fn a_room_that_nobody_placed() {
        caught("helpers/mod.rs", "", "1: room helpers is not in the table");
    }

    #[test]
    fn a_file_that_grew() {
        let long = "// one job\n".repeat(LINES_MAX + 1);
        caught("log/mod.rs", &long, "700: 701 lines");
        fine("log/mod.rs", &"// one job\n".repeat(LINES_MAX));
    }
}
