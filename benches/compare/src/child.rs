//! One system in a process of its own: memory, reopening and the shim are the same for all.
//!
//! It gets a job as its argument, prepares, and says so on standard output; then each line that it reads is a turn to take, and
//! each turn's result is a line that it writes. The end of its input is its own.

use crate::process;
use crate::stats::percentile;
use crate::systems::{self, Shape, Store, System};
use crate::workload::{Kind, Scale, WORKLOADS, noise};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Before each line that is meant for the parent: some libraries talk.
pub(crate) const MARK: &str = "@compare ";
/// Bytes of a batch.
const BATCH: usize = 1 << 20;
/// Records of each log of `reopen-1000`, and how many at a time.
const SHORT: (usize, usize) = (32, 4);
/// Appends that a proof counts the syncs of.
pub(crate) const PROOF: usize = 200;
/// Paths that do not exist: to look for them marks a place in a trace.
pub(crate) const PROOF_BEGINS: &str = "/plimsoll-compare-begins";
pub(crate) const PROOF_ENDS: &str = "/plimsoll-compare-ends";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) system: String,
    pub(crate) workload: String,
    pub(crate) dir: PathBuf,
    pub(crate) scale: Scale,
    pub(crate) phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// Prepares, then takes turns.
    Turns,
    /// At a point of `growth`.
    Point(usize),
    /// Fills logs that another child opens, and waits to be killed.
    Fill,
    /// Opens what was filled, once.
    Open,
    /// Opens as many logs and tells what memory it has.
    Hold(usize),
    /// Appends a few records, for a trace.
    Prove,
}

/// What one turn gave.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// In the unit of the workload.
    pub(crate) value: f64,
    /// Microseconds of an append.
    pub(crate) p50: Option<f64>,
    pub(crate) p99: Option<f64>,
    /// Appends (or batches, or records read or opened).
    pub(crate) done: u64,
    /// Syncs in that time, as the shim counts them.
    pub(crate) syncs: Option<u64>,
    /// What was measured beside it on the same files.
    pub(crate) beside: Option<f64>,
    /// What is to be said of it.
    pub(crate) note: Option<String>,
}

fn say(turn: &Turn) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{MARK}{}", serde_json::to_string(turn).unwrap()).unwrap();
    out.flush().unwrap();
}

/// Waits for the parent's word. False at the end.
fn told() -> bool {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap() > 0
}

pub(crate) fn main(job: &str) {
    let job: Job = serde_json::from_str(job).expect("a job");
    let system = systems::named(&job.system).expect("a system");
    let kind = WORKLOADS.iter().find(|known| known.id == job.workload).expect("a workload").kind;
    // Without it no sync would be slower, and none counted.
    assert!(process::syncs().is_some(), "the library that makes syncs slower is not loaded");
    process::raise_descriptors();
    match job.phase {
        Phase::Turns => turns(&job, &system, kind),
        Phase::Point(point) => growth(&job, &system, point),
        Phase::Fill => fill(&job, &system, kind),
        Phase::Open => open(&job, &system, kind),
        Phase::Hold(logs) => hold(&job, &system, logs),
        Phase::Prove => prove(&job, &system, kind),
    }
    // What a system does at its end is nobody's measurement.
    std::process::exit(0);
}

fn shape(kind: Kind, scale: &Scale) -> Shape {
    let logs = if let Kind::Logs { logs } = kind { logs } else { 1 };
    let keeps = matches!(kind, Kind::Scan | Kind::Reopen { .. } | Kind::Idle);
    let prepared = if keeps { 0 } else { logs };
    Shape { kind, logs, bytes: scale.long, keeps, prepared }
}

/// Fills the first log with batches of 1 KiB records.
fn fill_long(store: &dyn Store, bytes: u64) {
    let payload = noise(1 << 10);
    let count = BATCH / payload.len();
    store.batches(0, &payload, count, (bytes / BATCH as u64) as usize);
}

fn turns(job: &Job, system: &System, kind: Kind) {
    let store = (system.open)(&job.dir, &shape(kind, &job.scale));
    let store = &*store;
    let long = if system.slow_batches { job.scale.long / 64 } else { job.scale.long };
    match kind {
        Kind::Batches => {
            fill_long(store, long);
            store.truncate();
        }
        Kind::Scan => {
            fill_long(store, job.scale.long);
            store.rest();
            // Once without counting: from here on nobody's pages are colder.
            scan(store, &job.dir, 0);
        }
        _ => warm(store, kind, &job.scale),
    }
    process::sync_file_system(&job.dir);
    say(&Turn::default());
    let mut round = 0;
    while told() {
        let turn = match kind {
            Kind::Single { payload } => {
                single(store, &noise(payload), Duration::from_millis(job.scale.turn_ms))
            }
            Kind::Writers { writers, slow } => {
                let ms = if slow { job.scale.slow_turn_ms } else { job.scale.turn_ms };
                let payload = noise(kind.payload());
                let append = |writer: usize| store.append_as(writer, &payload);
                together(writers, Duration::from_millis(ms), append)
            }
            Kind::Logs { logs } => many_logs(store, logs, &job.scale),
            Kind::Batches => batches(store, long),
            Kind::Scan => scan(store, &job.dir, round),
            Kind::Reopen { .. } | Kind::Idle | Kind::Growth => unreachable!("other phases"),
        };
        say(&turn);
        // The parent waits for this line too: nobody else's turn begins while files are put back.
        if kind == Kind::Batches {
            store.truncate();
        } else {
            store.rest();
        }
        say(&Turn::default());
        round += 1;
    }
}

/// A little of the same before it counts.
fn warm(store: &dyn Store, kind: Kind, scale: &Scale) {
    let short = Duration::from_millis(scale.turn_ms / 4);
    match kind {
        Kind::Single { payload } => {
            single(store, &noise(payload), short);
        }
        Kind::Writers { writers, .. } => {
            let payload = noise(kind.payload());
            together(writers, short, |writer| store.append_as(writer, &payload));
        }
        Kind::Logs { logs } => {
            let payload = noise(kind.payload());
            if store.swarm(logs, &payload, Instant::now() + short).is_none() {
                together(logs, short, |log| store.append(log, &payload));
            }
        }
        _ => {}
    }
}

fn rate(done: u64, seconds: f64) -> f64 {
    done as f64 / seconds
}

/// A result of appends, their latencies in nanoseconds.
fn tally(mut latencies: Vec<u32>, seconds: f64, syncs: Option<u64>) -> Turn {
    let done = latencies.len() as u64;
    Turn {
        value: rate(done, seconds),
        p50: Some(percentile(&mut latencies, 0.5) / 1000.0),
        p99: Some(percentile(&mut latencies, 0.99) / 1000.0),
        done,
        syncs: syncs.zip(process::syncs()).map(|(before, after)| after - before),
        ..Turn::default()
    }
}

fn nanos(since: Instant) -> u32 {
    u32::try_from(since.elapsed().as_nanos()).unwrap_or(u32::MAX)
}

fn single(store: &dyn Store, payload: &[u8], length: Duration) -> Turn {
    let mut latencies = Vec::with_capacity(1 << 16);
    let syncs = process::syncs();
    let begun = Instant::now();
    while begun.elapsed() < length {
        let one = Instant::now();
        store.append(0, payload);
        latencies.push(nanos(one));
    }
    tally(latencies, begun.elapsed().as_secs_f64(), syncs)
}

/// As many threads, each of which appends again and again until the time is over.
fn together(writers: usize, length: Duration, append: impl Fn(usize) + Sync) -> Turn {
    let start = Barrier::new(writers + 1);
    let syncs = process::syncs();
    let (latencies, seconds) = std::thread::scope(|scope| {
        let append = &append;
        let start = &start;
        let work = move |writer: usize| {
            let mut latencies = Vec::with_capacity(1 << 14);
            start.wait();
            let begun = Instant::now();
            while begun.elapsed() < length {
                let one = Instant::now();
                append(writer);
                latencies.push(nanos(one));
            }
            latencies
        };
        let threads: Vec<_> =
            (0..writers).map(|writer| scope.spawn(move || work(writer))).collect();
        start.wait();
        let begun = Instant::now();
        let latencies: Vec<u32> =
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        (latencies, begun.elapsed().as_secs_f64())
    });
    tally(latencies, seconds, syncs)
}

fn many_logs(store: &dyn Store, logs: usize, scale: &Scale) -> Turn {
    let payload = noise(1 << 10);
    let length = Duration::from_millis(scale.turn_ms);
    let begun = Instant::now();
    if let Some(done) = store.swarm(logs, &payload, begun + length) {
        let value = rate(done, begun.elapsed().as_secs_f64());
        return Turn { value, done, ..Turn::default() };
    }
    together(logs, length, |log| store.append(log, &payload))
}

fn batches(store: &dyn Store, long: u64) -> Turn {
    let syncs = process::syncs();
    let begun = Instant::now();
    fill_long(store, long);
    let seconds = begun.elapsed().as_secs_f64();
    Turn {
        value: long as f64 / 1e6 / seconds,
        done: long / BATCH as u64,
        syncs: syncs.zip(process::syncs()).map(|(before, after)| after - before),
        ..Turn::default()
    }
}

/// All records, and beside it the bytes of the same files with a checksum over them; each goes first as often as the other.
fn scan(store: &dyn Store, dir: &Path, round: usize) -> Turn {
    let files = store.files(dir);
    let system = || {
        let begun = Instant::now();
        (store.scan(), begun.elapsed().as_secs_f64())
    };
    let floor = || {
        let begun = Instant::now();
        read_files(&files);
        begun.elapsed().as_secs_f64()
    };
    let (seen, seconds, floor) = if round.is_multiple_of(2) {
        let (seen, seconds) = system();
        (seen, seconds, floor())
    } else {
        let floor = floor();
        let (seen, seconds) = system();
        (seen, seconds, floor)
    };
    let megabytes = seen.bytes as f64 / 1e6;
    Turn {
        value: megabytes / seconds,
        beside: Some(megabytes / floor),
        done: seen.records,
        ..Turn::default()
    }
}

fn read_files(files: &[(PathBuf, u64)]) {
    let mut buffer = vec![0; 128 << 10];
    for (path, len) in files {
        // One that compaction removed in the meantime is nobody's file any more.
        let Ok(file) = File::open(path) else { continue };
        let mut position = 0;
        while position < *len {
            let wanted = buffer.len().min((len - position) as usize);
            let read = file.read_at(&mut buffer[..wanted], position).unwrap();
            if read == 0 {
                break;
            }
            black_box(crc32fast::hash(&buffer[..read]));
            position += read as u64;
        }
    }
}

fn reopen_shape(kind: Kind, scale: &Scale) -> Shape {
    let logs = if kind == (Kind::Reopen { many: true }) { scale.reopen_logs } else { 1 };
    Shape { logs, ..shape(kind, scale) }
}

fn fill(job: &Job, system: &System, kind: Kind) {
    let shape = reopen_shape(kind, &job.scale);
    let store = (system.open)(&job.dir, &shape);
    let payload = noise(1 << 10);
    let done = if shape.logs == 1 {
        fill_long(&*store, job.scale.long);
        job.scale.long / payload.len() as u64
    } else {
        systems::in_parallel(shape.logs, |log| {
            let (records, at_once) = SHORT;
            (0..records / at_once).for_each(|_| store.batch(log, &payload, at_once));
        });
        (shape.logs * SHORT.0) as u64
    };
    say(&Turn { done, ..Turn::default() });
    // Killed here.
    while told() {}
}

fn open(job: &Job, system: &System, kind: Kind) {
    let shape = reopen_shape(kind, &job.scale);
    let begun = Instant::now();
    let store = (system.open)(&job.dir, &shape);
    let value = begun.elapsed().as_secs_f64();
    let counts: Option<Vec<u64>> = (0..shape.logs).map(|log| store.count(log)).collect();
    let done = counts.as_ref().map_or(0, |counts| counts.iter().sum());
    say(&Turn { value, done, ..Turn::default() });
}

fn hold(job: &Job, system: &System, logs: usize) {
    let shape = Shape { logs, ..shape(Kind::Idle, &job.scale) };
    let store = (system.open)(&job.dir, &shape);
    let payload = noise(Kind::Idle.payload());
    systems::in_parallel(logs, |log| store.append(log, &payload));
    // Until nobody has anything to do any more: nothing was written for a second and a half, longer than
    // anybody waits before it tidies up.
    let (begun, mut since, mut written) = (Instant::now(), Instant::now(), process::written());
    while since.elapsed() < Duration::from_millis(1500)
        && begun.elapsed() < Duration::from_secs(300)
    {
        std::thread::sleep(Duration::from_millis(100));
        let now = process::written();
        if now != written {
            (since, written) = (Instant::now(), now);
        }
    }
    let value = process::memory() as f64 / 1024.0;
    say(&Turn { value, done: logs as u64, ..Turn::default() });
}

fn growth(job: &Job, system: &System, point: usize) {
    let stored = job.scale.stored.get(point).copied().unwrap_or(0);
    let logs = point.checked_sub(job.scale.stored.len()).map_or(1, |point| job.scale.logs[point]);
    let shape = Shape { kind: Kind::Growth, logs, bytes: stored, keeps: true, prepared: 1 };
    let store = (system.open)(&job.dir, &shape);
    fill_long(&*store, stored);
    let payload = noise(1 << 10);
    systems::in_parallel(logs, |log| store.append(log, &payload));
    process::sync_file_system(&job.dir);
    single(&*store, &payload, Duration::from_millis(job.scale.turn_ms));
    say(&Turn::default());
    while told() {
        say(&single(&*store, &payload, Duration::from_millis(job.scale.turn_ms)));
        say(&Turn::default());
    }
}

fn prove(job: &Job, system: &System, kind: Kind) {
    let store = (system.open)(&job.dir, &shape(kind, &job.scale));
    let payload = noise(kind.payload());
    (0..16).for_each(|_| store.append(0, &payload));
    // These paths are not there: a call that a trace shows.
    let mark = |path: &str| {
        let path = std::ffi::CString::new(path).unwrap();
        // SAFETY: a path with its zero.
        unsafe { libc::access(path.as_ptr(), libc::F_OK) };
    };
    mark(PROOF_BEGINS);
    (0..PROOF).for_each(|_| store.append(0, &payload));
    mark(PROOF_ENDS);
    say(&Turn { done: PROOF as u64, ..Turn::default() });
}
