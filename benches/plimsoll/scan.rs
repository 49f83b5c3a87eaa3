//! Reading a whole log, beside reading the same files with `pread` alone, and with a checksum over what was read.

use crate::report::{Goal, Report, Rounds};
use crate::setup::{self, Settings};
use plimsoll::{Log, NewRecord, Offset, WriteClass};
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes at a time, as the engine's readers take them.
const READ: usize = 128 << 10;

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
    let (mut plain, mut summed) = (Vec::new(), Vec::new());
    for round in 0..settings.rounds {
        let engine = || held / timed(|| read_log(&log));
        let bare = || held / timed(|| read_files(&files, |_| {}));
        let sum = |bytes: &[u8]| {
            black_box(crc32fast::hash(bytes));
        };
        let crc = || held / timed(|| read_files(&files, sum));
        let (a, b, c) = if round % 2 == 0 {
            (engine(), bare(), crc())
        } else {
            let (c, b) = (crc(), bare());
            (engine(), b, c)
        };
        plain.push((a, b));
        summed.push((a, c));
    }
    let what = |beside| format!("scan, {} B, beside {beside}", payload);
    report.rate(&what("pread"), "GB/s", &plain, Goal::None);
    report.rate(&what("pread + crc32"), "GB/s", &summed, Goal::None);
    let records = log.durable().0 as f64 / held;
    let engine = plain.iter().map(|(engine, _)| engine * records / 1e6).collect();
    let what = format!("scan, {payload} B");
    report.value(&what, "million records/s", &Rounds::new(engine), Goal::None);
    node.close().unwrap();
}

fn timed(run: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    run();
    begun.elapsed().as_secs_f64()
}

/// Takes each record where it was read.
fn read_log(log: &Log) {
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

fn read_files(files: &[PathBuf], see: impl Fn(&[u8])) {
    let mut buffer = vec![0; READ];
    for path in files {
        let file = File::open(path).unwrap();
        let mut position = 0;
        loop {
            let read = file.read_at(&mut buffer, position).unwrap();
            if read == 0 {
                break;
            }
            see(black_box(&buffer[..read]));
            position += read as u64;
        }
    }
}
