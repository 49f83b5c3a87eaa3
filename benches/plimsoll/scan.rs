//! Reading a whole log, beside reading the same files with `pread` alone, and with a checksum over what was read.

use crate::report::{Goal, Report, Rounds};
use crate::setup::{self, Settings};
use plimsoll::{Log, NewRecord, Offset, WriteClass};
use std::fs::File;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes at a time: what stays in the second cache of most processors.
const READ: usize = 128 << 10;

/// Bytes at a time as the engine's readers take them when they read on: `pread` itself is faster so.
const LARGE: usize = 1 << 20;

/// Where the bare reads go is aligned to this: some processors are four times slower at copying to a few bytes behind it.
const PAGE: usize = 4096;

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let total: u64 = if settings.small { 64 << 20 } else { 1 << 30 };
    for payload in [1 << 10, 16 << 10] {
        scan(settings, report, payload, total);
    }
}

fn scan(settings: &Settings, report: &Report, payload: usize, total: u64) {
    let scratch = settings.scratch("scan");
    let node = setup::node(scratch.path());
    let log = node.open_log(&setup::name("scan"), plimsoll::LogOptions::default()).unwrap();
    let bytes = setup::noise(payload);
    let batch = vec![NewRecord::new(&bytes); (1 << 20) / payload];
    while log.bytes().held < total {
        log.publish(WriteClass::Publish, &batch).unwrap();
    }
    let files = segment_files(&scratch.path().join("data/logs/scan"));
    let held = log.bytes().held as f64 / 1e9;
    // Once without counting, so that no side finds the page cache colder than another.
    read_log(&log);
    let sum = |bytes: &[u8]| {
        black_box(crc32fast::hash(bytes));
    };
    let sides: [&dyn Fn(); 5] = [
        &|| read_log(&log),
        &|| read_one_by_one(&log),
        &|| read_files(&files, READ, |_| {}),
        &|| read_files(&files, READ, sum),
        &|| read_files(&files, LARGE, sum),
    ];
    let mut rates = [const { Vec::new() }; 5];
    for round in 0..settings.rounds {
        for at in 0..sides.len() {
            let at = if round % 2 == 0 { at } else { sides.len() - 1 - at };
            rates[at].push(held / timed(sides[at]));
        }
    }
    let [engine, single, bare, summed, large] = rates;
    let pairs = |own: &[f64], floor: &[f64]| -> Vec<(f64, f64)> {
        own.iter().copied().zip(floor.iter().copied()).collect()
    };
    let rate = |what: &str, beside: &str, own: &[f64], floor: &[f64], goal| {
        let what = format!("{what}, {payload} B, beside {beside}");
        report.rate(&what, "GB/s", &pairs(own, floor), goal);
    };
    rate("scan", "pread", &engine, &bare, Goal::None);
    rate("scan", "pread + crc32", &engine, &summed, Goal::AtLeast(0.9));
    rate("next", "pread + crc32", &single, &summed, Goal::AtLeast(0.9));
    rate("scan", "1 MiB + crc32", &engine, &large, Goal::None);
    let records = log.durable().0 as f64 / held;
    let engine = engine.iter().map(|engine| engine * records / 1e6).collect();
    let what = format!("scan, {payload} B");
    report.value(&what, "million records/s", &Rounds::new(engine), Goal::None);
    node.close().unwrap();
}

fn timed(run: &dyn Fn()) -> f64 {
    let begun = Instant::now();
    run();
    begun.elapsed().as_secs_f64()
}

/// Takes each record where it was read.
fn read_log(log: &Log) {
    let mut reader = log.read_from(Offset::ZERO).unwrap();
    let mut bytes = 0;
    let end = reader.scan(|found| {
        bytes += black_box(found.payload).len();
        ControlFlow::<()>::Continue(())
    });
    assert!(end.unwrap().is_none());
    black_box(bytes);
}

/// The same with a call for each record.
fn read_one_by_one(log: &Log) {
    let mut reader = log.read_from(Offset::ZERO).unwrap();
    let mut bytes = 0;
    while let Some(len) = reader.next_with(|found| black_box(found.payload).len()).unwrap() {
        bytes += len;
    }
    black_box(bytes);
}

fn segment_files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.collect();
    files.sort();
    files
}

fn read_files(files: &[PathBuf], len: usize, see: impl Fn(&[u8])) {
    let mut buffer = vec![0; len + PAGE];
    let from = buffer.as_ptr().align_offset(PAGE);
    let buffer = &mut buffer[from..from + len];
    for path in files {
        let file = File::open(path).unwrap();
        let mut position = 0;
        loop {
            let read = file.read_at(buffer, position).unwrap();
            if read == 0 {
                break;
            }
            see(black_box(&buffer[..read]));
            position += read as u64;
        }
    }
}
