//! Durable appends, by one writer and by many, beside a bare write and sync of the same bytes.

use crate::floor::{Merged, Written};
use crate::report::{Goal, Report};
use crate::setup::{self, Settings};
use plimsoll::{Log, NewRecord, WriteClass};
use std::time::{Duration, Instant};

/// Bytes of the floor's file: as many as a main segment has.
const FLOOR_LEN: u64 = 64 << 20;

pub(crate) fn run(settings: &Settings, report: &mut Report) {
    for (payload, appends) in [(128, 1600), (1 << 10, 1600), (16 << 10, 320)] {
        single(settings, report, payload, appends);
    }
    for writers in [16, 64] {
        many(settings, report, writers);
    }
    rolling(settings, report);
}

fn publish(log: &Log, payload: &[u8]) {
    log.publish(WriteClass::Publish, &[NewRecord::new(payload)]).unwrap();
}

/// Runs both in turns of a few milliseconds until each has done `appends`; gives appends a second of each.
fn in_turns(appends: u32, mut engine: impl FnMut(), mut floor: impl FnMut()) -> (f64, f64) {
    const TURN: u32 = 40;
    let (mut spent_engine, mut spent_floor) = (Duration::ZERO, Duration::ZERO);
    let timed = |run: &mut dyn FnMut()| {
        let begun = Instant::now();
        (0..TURN).for_each(|_| run());
        begun.elapsed()
    };
    let turns = appends.div_ceil(TURN);
    for turn in 0..turns {
        // Each goes first as often as the other.
        if turn % 2 == 0 {
            spent_engine += timed(&mut engine);
            spent_floor += timed(&mut floor);
        } else {
            spent_floor += timed(&mut floor);
            spent_engine += timed(&mut engine);
        }
    }
    let rate = |spent: Duration| f64::from(turns * TURN) / spent.as_secs_f64();
    (rate(spent_engine), rate(spent_floor))
}

fn single(settings: &Settings, report: &Report, payload: usize, appends: u32) {
    let scratch = settings.scratch("single");
    let node = setup::node(scratch.path());
    let log = setup::grown_log(&node, "single");
    let mut file = Written::new(&scratch.path().join("floor"), FLOOR_LEN);
    let payload = setup::noise(payload);
    let pairs: Vec<_> = (0..settings.rounds)
        .map(|_| in_turns(appends, || publish(&log, &payload), || file.append(&payload)))
        .collect();
    let what = format!("commit, 1 writer, {} B", payload.len());
    report.rate(&what, "appends/s", &pairs, Goal::AtLeast(0.9));
    node.close().unwrap();
}

/// One writer that goes through several files: what taking and making them costs on top.
fn rolling(settings: &Settings, report: &Report) {
    let scratch = settings.scratch("rolling");
    let node = setup::node(scratch.path());
    let log = setup::grown_log(&node, "rolling");
    let mut file = Written::new(&scratch.path().join("floor"), FLOOR_LEN);
    let payload = setup::noise(256 << 10);
    // A main file in each round.
    let appends = 256;
    let to_megabytes = payload.len() as f64 / 1e6;
    let rounds = if settings.small { 7 } else { settings.rounds };
    let pairs: Vec<_> = (0..rounds)
        .map(|_| in_turns(appends, || publish(&log, &payload), || file.append(&payload)))
        .map(|(engine, floor)| (engine * to_megabytes, floor * to_megabytes))
        .collect();
    report.rate("commit, 1 writer, 256 KiB, with rolls", "MB/s", &pairs, Goal::None);
    node.close().unwrap();
}

/// `writers` threads that append `each` one after the other; gives appends a second.
fn together(writers: u32, each: u32, append: impl Fn() + Sync) -> f64 {
    let start = std::sync::Barrier::new(writers as usize + 1);
    let begun = std::thread::scope(|scope| {
        for _ in 0..writers {
            scope.spawn(|| {
                start.wait();
                (0..each).for_each(|_| append());
            });
        }
        start.wait();
        Instant::now()
    });
    f64::from(writers * each) / begun.elapsed().as_secs_f64()
}

fn many(settings: &Settings, report: &Report, writers: u32) {
    let scratch = settings.scratch("many");
    let node = setup::node(scratch.path());
    let log = setup::grown_log(&node, "many");
    let floor = Merged::new(Written::new(&scratch.path().join("floor"), FLOOR_LEN));
    let payload = setup::noise(1 << 10);
    let each = 3200 / writers;
    let pairs: Vec<_> = (0..settings.rounds)
        .map(|round| {
            let engine = || together(writers, each, || publish(&log, &payload));
            let floor = || together(writers, each, || floor.append(&payload));
            if round % 2 == 0 {
                let engine = engine();
                (engine, floor())
            } else {
                let floor = floor();
                (engine(), floor)
            }
        })
        .collect();
    let what = format!("commit, {writers} writers, {} B", payload.len());
    report.rate(&what, "appends/s", &pairs, Goal::AtLeast(0.9));
    node.close().unwrap();
}
