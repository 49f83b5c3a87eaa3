//! Processes that die or are told to end, at any moment: what was confirmed stays, nothing comes twice.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]
#![allow(non_snake_case, reason = "tests are named for the case they hold")]

mod support;

use nix::sys::signal::Signal;
use plimsoll::format::layout::ClassSizes;
use plimsoll::{Node, NodeOptions, PoolLimits};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin};
use std::time::{Duration, Instant};
use support::{Dir, command, finish, run, spawn};

/// A small generator, so that a failed run can be told by its seed; the timing is the machine's all the same.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let seed = std::env::var("PLIMSOLL_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or_else(|| {
                let mut bytes = [0; 8];
                std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
                u64::from_le_bytes(bytes)
            });
        eprintln!("PLIMSOLL_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The line of a record: its number, and as much more as makes lines of all lengths.
fn line(number: u64) -> Vec<u8> {
    let mut line = format!("{number}:").into_bytes();
    let len = (number.wrapping_mul(2_654_435_761) >> 7) % 400;
    line.extend((0..len).map(|at| b'a' + ((number + at) % 26) as u8));
    line.push(b'\n');
    line
}

/// Writes the lines from `first` to `until`, or until the reader is gone. Gives the pipe back, which is then still open.
fn write_lines(mut stdin: ChildStdin, first: u64, until: u64) -> ChildStdin {
    let mut buffer = Vec::new();
    for number in first..until {
        buffer.extend(line(number));
        if buffer.len() > 1 << 15 || number + 1 == until {
            if stdin.write_all(&buffer).is_err() {
                break;
            }
            buffer.clear();
        }
    }
    stdin
}

/// Reads confirmations to the end; gives the offset after the last. A line that was cut was not printed.
fn confirmed(child: &mut Child) -> Option<u64> {
    confirmed_in(&mut BufReader::new(child.stdout.take().unwrap()))
}

fn confirmed_in(stdout: &mut impl BufRead) -> Option<u64> {
    let mut next = None;
    let mut expected: Option<u64> = None;
    let mut text = String::new();
    while stdout.read_line(&mut text).unwrap() > 0 && text.ends_with('\n') {
        if let Some(range) = text.trim_end().strip_prefix("confirmed offsets ") {
            let (first, last) = range.split_once(" to ").unwrap();
            let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
            assert!(
                expected.is_none_or(|expected| expected == first),
                "no gap between batches: {text}"
            );
            expected = Some(last + 1);
            next = expected;
        }
        text.clear();
    }
    next
}

fn durable(data: &Path) -> u64 {
    let logs = run("logs {} --json", data).exits(0).json();
    logs[0]["durable"].as_u64().unwrap_or(0)
}

/// `PLIMSOLL_KILLS` and `PLIMSOLL_KILL_LINES` make it longer.
#[test]
fn i1_a_loop_of_kills_loses_nothing_that_was_confirmed_and_doubles_nothing() {
    let number = |name, default| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (kills, total): (u64, u64) =
        (number("PLIMSOLL_KILLS", 20), number("PLIMSOLL_KILL_LINES", 60_000));
    let mut random = Random::new();
    let dir = Dir::new();
    std::fs::create_dir(dir.data()).unwrap();
    run("append {} lines", &dir.data()).exits(0);
    let (mut next, mut done) = (0u64, 0u64);
    for kill in 0..=kills {
        let mut child = spawn("append {} lines --confirm", &dir.data());
        let stdin = child.stdin.take().unwrap();
        let last = kill == kills;
        // Twice the share of the kills that are left, so that some come while lines go in and some when all are in. The
        // input stays open: only a kill ends the process.
        let until =
            if last { total } else { total.min(next + 2 * (total - next).div_ceil(kills - kill)) };
        let told = std::thread::scope(|scope| {
            let first = next;
            let writer = scope.spawn(move || write_lines(stdin, first, until));
            if !last {
                std::thread::sleep(Duration::from_micros(random.below(80_000)));
                child.kill().unwrap();
            }
            let reader = scope.spawn(|| confirmed(&mut child));
            drop(writer.join().unwrap());
            reader.join().unwrap()
        });
        let status = child.wait().unwrap();
        done += u64::from(status.code().is_none());
        // Now and then the recovery that follows is killed as well.
        for _ in 0..random.below(3) {
            let mut recovering = command("logs {}", &dir.data())
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_micros(random.below(20_000)));
            let _ = recovering.kill();
            recovering.wait().unwrap();
        }
        let now = durable(&dir.data());
        assert!(now >= told.unwrap_or(next), "confirmed up to {told:?}, there up to {now}");
        assert!(now <= total);
        next = now;
        if last {
            break;
        }
    }
    assert_eq!(next, total, "all lines went in");
    assert_eq!(done, kills, "each process but the last was killed");
    let read = run("read {} lines", &dir.data()).exits(0);
    let expected: Vec<u8> = (0..total).flat_map(line).collect();
    assert!(read.stdout == expected, "the log is the input, byte for byte");
}

/// Every file below a directory, and the bytes that they take there.
fn files_below(dir: &Path) -> (BTreeSet<PathBuf>, u64) {
    use std::os::unix::fs::MetadataExt;
    let (mut files, mut bytes, mut dirs) = (BTreeSet::new(), 0, vec![dir.to_path_buf()]);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() {
                dirs.push(entry.path());
            } else {
                bytes += metadata.blocks() * 512;
                files.insert(entry.path());
            }
        }
    }
    (files, bytes)
}

/// What may be among the spares: what is kept back, two files of each class made ahead, the one that is being made and
/// the two that a batch may begin.
fn spares_max(sizes: &ClassSizes) -> u64 {
    let pool = PoolLimits::default();
    let ahead = pool.prepared as u64 * (sizes.tiny + sizes.small + sizes.main);
    pool.kept_back.0 + ahead + sizes.main + 2 * sizes.main
}

/// Files of a log that is truncated after every ten starts, each of which appends 500 records of 230 bytes at most: what
/// is held, the last file, and the next one.
const LIVE_MAX: u64 = 5;

/// `PLIMSOLL_START_KILLS` makes it longer.
#[test]
fn case_D2_two_hundred_kills_while_starting_leak_nothing() {
    let kills = std::env::var("PLIMSOLL_START_KILLS").map_or(200, |kills| kills.parse().unwrap());
    let mut random = Random::new();
    let dir = Dir::new();
    // Small files, so that there are many: 256 are kept back, and a few dozen records fill one.
    let mut options = NodeOptions::default();
    options.segment_size = 1 << 20;
    Node::open(dir.data(), options).unwrap().close().unwrap();
    let sizes = ClassSizes::from_main(1 << 20);
    run("append {} lines", &dir.data()).exits(0);
    let (mut next, mut most) = (0u64, 0);
    for kill in 0..kills {
        let mut child = spawn("append {} lines --confirm", &dir.data());
        let stdin = child.stdin.take().unwrap();
        let told = std::thread::scope(|scope| {
            let first = next;
            let writer = scope.spawn(move || write_lines(stdin, first, first + 500));
            // A start that finds all its spares takes some tens of milliseconds to stamp them.
            std::thread::sleep(Duration::from_micros(random.below(50_000)));
            child.kill().unwrap();
            let told = confirmed(&mut child);
            drop(writer.join().unwrap());
            told
        });
        assert_eq!(child.wait().unwrap().code(), None, "it was killed");
        let spares = files_below(&dir.data().join("spares")).1;
        let live = files_below(&dir.data().join("logs")).1;
        most = most.max(spares);
        assert!(spares <= spares_max(&sizes), "kill {kill}: {spares} bytes of spares");
        assert!(live <= LIVE_MAX * sizes.main, "kill {kill}: {live} bytes of the log");
        let now = durable(&dir.data());
        assert!(now >= told.unwrap_or(next), "confirmed up to {told:?}, there up to {now}");
        next = now;
        if kill % 10 == 9 {
            let line = format!("truncate {{}} lines --before {next}");
            run(&line, &dir.data()).exits(0);
        }
    }
    // A life that nothing disturbs, and that ends by itself.
    let mut child = spawn("append {} lines", &dir.data());
    let stdin = child.stdin.take().unwrap();
    let stdin = write_lines(stdin, next, next + 10);
    std::thread::sleep(Duration::from_millis(200));
    drop(stdin);
    finish(child).exits(0);
    run("verify {}", &dir.data()).exits(0);
    // Each file is a log's, or a spare, and none of these is half made.
    let seen = run("inspect {} --json", &dir.data()).exits(0).json();
    let file = |one: &serde_json::Value| PathBuf::from(one["file"].as_str().unwrap());
    let spares = seen["spares"].as_array().unwrap();
    assert!(spares.iter().all(|spare| spare["temporary"] == false), "{spares:?}");
    let mut known: BTreeSet<PathBuf> = spares.iter().map(file).collect();
    known.extend(seen["logs"][0]["segments"].as_array().unwrap().iter().map(file));
    known.extend(["LAYOUT", "LOCK"].map(|name| dir.data().join(name)));
    let (found, bytes) = files_below(&dir.data());
    assert_eq!(found, known);
    let head = seen["logs"][0]["head"].as_u64().unwrap();
    let expected: Vec<u8> = (head..next + 10).flat_map(line).collect();
    assert!(run("read {} lines", &dir.data()).exits(0).stdout == expected, "byte for byte");
    let (count, bound) = (found.len(), spares_max(&sizes));
    eprintln!(
        "{kills} kills, {next} records; {count} files, {bytes} bytes; at most {most} bytes of spares, bound {bound}"
    );
}

fn interrupted(signal: Signal, code: i32) {
    let dir = Dir::new();
    let mut child = spawn("append {} lines --confirm --json", &dir.data());
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdin.write_all(b"one\ntwo\npart of a line").unwrap();
    let mut next = 0;
    while next < 2 {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let confirmed: serde_json::Value = serde_json::from_str(&line).unwrap();
        next = confirmed["last"].as_u64().unwrap() + 1;
    }
    support::signal(&child, signal);
    // Its input stays open: it ends for the signal.
    let told = finish(child).exits(code).says(&["interrupted", "the last confirmed offset is 1"]);
    assert_eq!(
        (&told.error()["error"], &told.error()["last_confirmed"]),
        (&"ERR_INTERRUPTED".into(), &1.into())
    );
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert!(
        rest.contains("\"appended\"") && rest.contains("\"records\":2"),
        "the sum is told: {rest}"
    );
    assert_eq!(run("read {} lines", &dir.data()).exits(0).text(), "one\ntwo\n");
}

#[test]
fn sigint_ends_after_the_last_confirmed_batch() {
    interrupted(Signal::SIGINT, 130);
}

#[test]
fn sigterm_ends_after_the_last_confirmed_batch() {
    interrupted(Signal::SIGTERM, 143);
}

#[test]
fn a_signal_in_the_middle_of_a_stream_tells_the_truth() {
    let dir = Dir::new();
    for round in 0..5 {
        let mut child = spawn("append {} lines --confirm", &dir.data());
        let stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(move || drop(write_lines(stdin, 0, u64::MAX)));
            let mut first = String::new();
            stdout.read_line(&mut first).unwrap();
            assert!(first.starts_with("confirmed offsets "), "{first}");
            std::thread::sleep(Duration::from_millis(20 * round));
            support::signal(&child, Signal::SIGINT);
            let rest = confirmed_in(&mut stdout);
            let told = rest.unwrap_or_else(|| {
                first.trim_end().rsplit(' ').next().unwrap().parse::<u64>().unwrap() + 1
            });
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(130), "{stderr}");
            // In order: nothing is there that was not told.
            assert_eq!(durable(&dir.data()), told, "{stderr}");
            assert!(
                stderr.contains(&format!("the last confirmed offset is {}", told - 1)),
                "{stderr}"
            );
        });
    }
}

#[test]
fn case_J2_the_lock_is_free_after_a_kill_and_held_while_the_process_lives() {
    let dir = Dir::new();
    let mut child = spawn("append {} lines --confirm", &dir.data());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "confirmed offsets 0 to 0\n");
    let second = run("append {} lines --json", &dir.data()).exits(3);
    assert!(second.stderr.contains("in use by another process"), "{}", second.stderr);
    assert_eq!(second.error()["error"], "ERR_IO");
    child.kill().unwrap();
    child.wait().unwrap();
    run("append {} lines", &dir.data()).exits(0);
    assert_eq!(run("read {} lines", &dir.data()).exits(0).text(), "one\n");
}

#[test]
fn case_J2_whatever_is_left_in_the_lock_file_is_harmless() {
    let dir = Dir::new();
    support::feed("append {} lines", &dir.data(), b"one\n").exits(0);
    for left in [
        std::process::id().to_string(),
        "1".to_owned(),
        "\0".repeat(5000),
        "owner: nobody".to_owned(),
    ] {
        std::fs::write(dir.data().join("LOCK"), &left).unwrap();
        assert_eq!(run("read {} lines", &dir.data()).exits(0).text(), "one\n");
        run("append {} lines", &dir.data()).exits(0);
    }
}

#[test]
fn case_J2_a_process_that_was_number_1_in_its_namespace_leaves_no_lock() {
    let dir = Dir::new();
    let unshared = |input: &str| {
        std::process::Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", env!("CARGO_BIN_EXE_plimsoll"), "append"])
            .arg(dir.data())
            .args(["lines", "--confirm"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .map(|mut child| {
                let mut stdin = child.stdin.take().unwrap();
                let _ = stdin.write_all(input.as_bytes());
                (child, stdin)
            })
    };
    let Ok((mut child, stdin)) = unshared("one\n") else {
        eprintln!("skipped: there is no unshare here");
        return;
    };
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.is_empty() {
        eprintln!("skipped: namespaces are not allowed here");
        return;
    }
    assert_eq!(line, "confirmed offsets 0 to 0\n");
    // The end of its parent is the kernel's SIGKILL for it.
    child.kill().unwrap();
    child.wait().unwrap();
    drop(stdin);
    let start = Instant::now();
    loop {
        let (child, stdin) = unshared("two\n").unwrap();
        drop(stdin);
        let told = child.wait_with_output().unwrap();
        if told.status.success() {
            break;
        }
        // The kill is on its way for a moment.
        let said = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(said.contains("in use") && start.elapsed() < Duration::from_secs(10), "{said}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(run("read {} lines", &dir.data()).exits(0).text(), "one\ntwo\n");
}
