//! How far below hard a writer at full speed gets on a disk in memory, and what the books are worth that the engine keeps
//! between two samples: the same run with each of their rules taken out.

use crate::place::{Lowest, MIB, Place, available, open, options, tmpfs, wait_for_kept_back};
use plimsoll::error::{AppendError, PublishError};
use plimsoll::planted::{self, Fault};
use plimsoll::{Level, Log, NewRecord, Node, NodeOptions, WriteClass};
use std::time::{Duration, Instant};

const SIZE: u64 = 512 * MIB;
const RECORD: usize = 64_000;

/// What is promised: what publishes take comes to no less than hard, but for the spares. They count as free until they are
/// taken or released, which is when the next sample at the latest shows.
fn bound(node: &Node) -> u64 {
    node.limits().pool.budget.of(node.pressure().disks[0].total)
}

#[derive(Debug)]
struct Run {
    hard: u64,
    bound: u64,
    lowest: u64,
    written: u64,
    took: Duration,
    /// It met a full disk, and no refusal.
    full: bool,
}

impl Run {
    fn below(&self) -> u64 {
        self.hard.saturating_sub(self.lowest)
    }

    fn show(&self, how: &str) {
        let mib = |bytes: u64| bytes as f64 / MIB as f64;
        let speed = mib(self.written) / self.took.as_secs_f64();
        let ended = if self.full { "met a full disk" } else { "was refused" };
        println!(
            "{how:<52} {:>7.2} MiB below hard ({:.2} of {:.0} MiB free); {speed:.0} MiB/s, {ended}",
            mib(self.below()),
            mib(self.lowest),
            mib(SIZE)
        );
    }
}

/// No delay, which would slow the writer down.
fn at_full_speed() -> NodeOptions {
    let mut options = options();
    options.limits.slow.max_delay = Duration::ZERO;
    options
}

/// Publishes until there is an answer that is no success. `between` is called after each.
fn write(log: &Log, mut between: impl FnMut()) -> (u64, bool) {
    let bytes = vec![0x5a; RECORD];
    let batch = [NewRecord::new(&bytes); 16];
    let mut written = 0;
    while written < 2 * SIZE {
        match log.publish(WriteClass::Publish, &batch) {
            Ok(_) => written += (RECORD * batch.len()) as u64,
            Err(PublishError::Limited(_) | PublishError::Append(AppendError::Limited(_))) => {
                return (written, false);
            }
            Err(PublishError::Append(AppendError::Disk(error))) if error.is_no_space() => {
                return (written, true);
            }
            Err(error) => panic!("{error:?}"),
        }
        between();
    }
    panic!("never refused");
}

/// No sample at all, as if the next one were late: what happens meanwhile is up to the books. Not one a second, or a slow machine
/// would be sampled just where it comes to hard.
fn between_samples(place: &Place) -> Run {
    let node = Node::builder(place.data()).options(at_full_speed()).without_threads();
    let node = node.open().unwrap();
    let log = open(&node, "heap");
    while node.step() || node.stats().pools[0].kept_back_missing > 0 {}
    let mut lowest = u64::MAX;
    let begun = Instant::now();
    let (written, full) = write(&log, || lowest = lowest.min(available(place.path())));
    let took = begun.elapsed();
    lowest = lowest.min(available(place.path()));
    let hard = node.pressure().disks[0].thresholds.hard;
    let run = Run { hard, bound: bound(&node), lowest, written, took, full };
    drop(log);
    node.close().unwrap();
    run
}

#[test]
fn a_writer_at_full_speed_stays_above_hard_between_two_samples() {
    let name = "a_writer_at_full_speed_stays_above_hard_between_two_samples";
    let run = |fault: Option<Fault>| {
        let place = tmpfs(name, SIZE)?;
        Some(match fault {
            Some(fault) => planted::with(fault, || between_samples(&place)),
            None => between_samples(&place),
        })
    };
    let Some(clean) = run(None) else { return };
    clean.show("with the books");
    assert!(!clean.full && clean.below() <= clean.bound, "{clean:?}");
    let unseen = run(Some(Fault::LevelNotRecheckedAtDebit)).unwrap();
    unseen.show("debited, and the level not looked at again");
    assert!(unseen.below() <= unseen.bound, "an allocation is checked all the same: {unseen:?}");
    let unchecked = run(Some(Fault::AllocatedUnchecked)).unwrap();
    unchecked.show("debited, and no allocation is checked");
    let unasked = run(Some(Fault::AllocatedWithoutAsking)).unwrap();
    unasked.show("samples only: neither debited nor checked");
    assert!(unchecked.below() > clean.below(), "{unchecked:?}");
    assert!(unasked.below() > unasked.bound && unasked.below() > unchecked.below(), "{unasked:?}");
}

/// The same as users have it: threads, a sample after each roll as well, several writers.
#[test]
fn writers_at_full_speed_stay_above_hard() {
    let name = "writers_at_full_speed_stay_above_hard";
    let run = |fault: Option<Fault>| {
        let place = tmpfs(name, SIZE)?;
        let node = Node::open(place.data(), at_full_speed()).unwrap();
        wait_for_kept_back(&node);
        let logs: Vec<_> = (0..4).map(|number| open(&node, &format!("heap-{number}"))).collect();
        let lowest = Lowest::of(place.path());
        let begun = Instant::now();
        let each = |log: &Log| match fault {
            Some(fault) => planted::with(fault, || write(log, || {})),
            None => write(log, || {}),
        };
        let all: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = logs.iter().map(|log| scope.spawn(|| each(log))).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let (took, lowest) = (begun.elapsed(), lowest.end());
        let hard = node.pressure().disks[0].thresholds.hard;
        let (written, full) = (all.iter().map(|one| one.0).sum(), all.iter().any(|one| one.1));
        let run = Run { hard, bound: bound(&node), lowest, written, took, full };
        assert!(node.pressure().level >= Level::Soft);
        drop(logs);
        node.close().unwrap();
        Some(run)
    };
    let Some(clean) = run(None) else { return };
    clean.show("four writers, with the books");
    assert!(!clean.full && clean.below() <= clean.bound, "{clean:?}");
    let unasked = run(Some(Fault::AllocatedWithoutAsking)).unwrap();
    unasked.show("four writers, samples only");
}
