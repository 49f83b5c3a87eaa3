#![allow(clippy::disallowed_methods, reason = "tests: two threads at one monitor")]
//! A monitor over the simulated file system: what levels follow from what a device says and does.

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::fs::sim::{Fault as SimFault, OpKind, SimFileSystem, What};
use crate::fs::{FileSystem, Space};
use crate::limits::Limits;
use crate::planted::{self, Fault};
use crate::pressure::{Gauge, STALE, Thresholds};
use crate::types::Level;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Lines at 25.6, 12.8 and 3.2 MiB, as the floors count; the margin is two main files of 1 MiB.
const TOTAL: u64 = 64 * MIB;
const SECOND: Duration = Duration::from_secs(1);

struct Bench {
    fs: SimFileSystem,
    clock: Arc<ManualClock>,
    monitor: Arc<DiskMonitor>,
}

fn bench() -> Bench {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/data").unwrap();
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let monitor = new_monitor(&fs, &clock, &Limits::default());
    Bench { fs, clock, monitor }
}

fn new_monitor(fs: &SimFileSystem, clock: &Arc<ManualClock>, limits: &Limits) -> Arc<DiskMonitor> {
    let (dir, fs) = (Path::new("/data"), Arc::new(fs.clone()));
    Arc::new(DiskMonitor::new(fs, dir, 7, clock.clone(), MIB, limits))
}

impl Bench {
    /// What the file system says from now on.
    fn say(&self, total: u64, available: u64) {
        self.say_all(Space {
            total,
            available,
            inodes: 1000,
            inodes_available: 900,
            ..Space::default()
        });
    }

    fn say_all(&self, space: Space) {
        self.fs.set_space(Some(space));
    }

    /// A second later, with so much free.
    fn sample(&self, available: u64) -> Level {
        self.clock.advance(SECOND);
        self.say(TOTAL, available);
        self.monitor.sample(|| 0)
    }

    fn gauge(&self) -> Gauge {
        self.monitor.gauge(self.clock.elapsed())
    }

    fn reading(&self) -> DiskReading {
        self.monitor.reading(self.clock.elapsed())
    }

    fn fail_space(&self) {
        self.fs.inject(SimFault::nth(OpKind::Space, 0, What::Errno(libc::EIO)).forever());
    }
}

#[test]
fn each_level_at_its_line() {
    let bench = bench();
    assert_eq!(bench.sample(26 * MIB), Level::Ok);
    assert_eq!(bench.gauge(), Gauge::default());
    assert_eq!(bench.sample(25 * MIB), Level::Soft);
    assert_eq!(bench.sample(12 * MIB), Level::Hard);
    assert_eq!(bench.sample(3 * MIB), Level::Reserve);
    assert_eq!(bench.reading().reason, DiskReason::Bytes);
    assert_eq!(bench.sample(28 * MIB), Level::Ok, "in one sample");
}

#[test]
fn the_gauge_says_how_far_between_soft_and_hard() {
    let bench = bench();
    let lines = {
        bench.sample(TOTAL);
        bench.reading().thresholds
    };
    bench.sample((lines.soft + lines.hard) / 2);
    assert_eq!(bench.gauge(), Gauge { level: Level::Soft, permille: 500 });
    bench.sample(lines.soft + 1);
    assert_eq!(bench.gauge(), Gauge { level: Level::Soft, permille: 0 }, "held by the margin");
    assert_eq!(bench.reading().gauge(), bench.gauge());
}

#[test]
fn case_A13_free_space_about_hard_changes_the_level_once() {
    let bench = bench();
    bench.sample(TOTAL);
    let hard = bench.reading().thresholds.hard;
    for probe in 0..100 {
        let free = if probe % 2 == 0 { hard - MIB / 10 } else { hard + MIB / 10 };
        assert_eq!(bench.sample(free), Level::Hard, "probe {probe}");
    }
    assert_eq!(bench.reading().reason, DiskReason::Bytes);
    assert_eq!(bench.sample(hard + 2 * MIB + 1), Level::Soft);
}

/// Hysteresis has two sides: with the clearing line at the setting line the level flaps.
#[test]
fn planted_clear_line_same_as_set_line_is_caught() {
    planted::with(Fault::ClearLineSameAsSetLine, || {
        let bench = bench();
        bench.sample(TOTAL);
        let hard = bench.reading().thresholds.hard;
        let levels = [hard - 1, hard + 1, hard - 1].map(|free| bench.sample(free));
        assert_eq!(levels, [Level::Hard, Level::Soft, Level::Hard]);
    });
}

#[test]
fn case_A2_a_level_is_of_this_life_and_a_fresh_sample_ends_it() {
    let bench = bench();
    assert_eq!(bench.sample(10 * MIB), Level::Hard);
    assert_eq!(bench.sample(14 * MIB), Level::Hard, "within the margin");
    // Another start knows nothing of that.
    let monitor = new_monitor(&bench.fs, &bench.clock, &Limits::default());
    assert_eq!(monitor.gauge(bench.clock.elapsed()).level, Level::Soft, "nothing is known yet");
    assert_eq!(monitor.reading(bench.clock.elapsed()).reason, DiskReason::NoSample);
    assert_eq!(monitor.sample(|| 0), Level::Soft);
    bench.say(TOTAL, 40 * MIB);
    assert_eq!(monitor.sample(|| 0), Level::Ok);
}

#[test]
fn case_A4_the_share_of_root_is_not_free() {
    let bench = bench();
    bench.fs.set_capacity(Some(TOTAL));
    bench.fs.set_root_share(30 * MIB);
    let used = bench.fs.create(Path::new("/data/used")).unwrap();
    used.allocate(33 * MIB).unwrap();
    assert_eq!(bench.monitor.sample(|| 0), Level::Reserve);
    let reading = bench.reading();
    assert!(reading.available <= MIB && reading.withheld == 30 * MIB, "{reading:?}");
    planted::with(Fault::FreeSpaceFromRootsShare, || {
        assert_eq!(bench.monitor.sample(|| 0), Level::Ok, "the fault must show");
    });
}

#[test]
fn case_A8_a_resized_device_gets_other_lines_with_the_next_sample() {
    let bench = bench();
    bench.say(4 * TOTAL, 52 * MIB);
    assert_eq!(bench.monitor.sample(|| 0), Level::Soft);
    bench.say(TOTAL, 52 * MIB);
    bench.clock.advance(SECOND);
    assert_eq!(bench.monitor.sample(|| 0), Level::Ok);
    bench.say(4 * TOTAL, 51 * MIB);
    bench.clock.advance(SECOND);
    assert_eq!(bench.monitor.sample(|| 0), Level::Hard);
    let reading = bench.reading();
    assert_eq!((reading.total, reading.level), (4 * TOTAL, bench.gauge().level));
}

#[test]
fn case_A10_few_inodes_raise_the_level_and_are_the_reason() {
    let bench = bench();
    let with = |inodes, inodes_available| Space {
        total: TOTAL,
        available: 40 * MIB,
        inodes,
        inodes_available,
        ..Space::default()
    };
    bench.say_all(with(200, 3));
    assert_eq!(bench.monitor.sample(|| 0), Level::Hard);
    let reading = bench.reading();
    assert_eq!(reading.reason, DiskReason::Inodes);
    assert!(reading.reason.to_string().contains("inodes"));
    assert!(bench.monitor.allocate(Level::Hard, 1).is_err());
    assert_eq!(
        bench.monitor.allocate(Level::Reserve, 1),
        Err(Shortage {
            bytes: 1,
            free: 40 * MIB,
            line: reading.thresholds.reserve,
            inodes: 3,
            inode_line: 2,
            keep_above: Level::Reserve,
            held: false,
        })
    );
    // A file system that does not count them is not held to them.
    bench.clock.advance(SECOND);
    bench.say_all(with(0, 0));
    assert_eq!(bench.monitor.sample(|| 0), Level::Ok);
    assert_eq!(bench.monitor.allocate(Level::Hard, 1), Ok(()));
}

#[test]
fn a_failed_sample_counts_as_the_worse_of_soft_and_the_last_level() {
    let bench = bench();
    for (free, seen) in
        [(40 * MIB, Level::Soft), (12 * MIB, Level::Hard), (3 * MIB, Level::Reserve)]
    {
        bench.fs.clear_faults();
        bench.sample(free);
        bench.fail_space();
        assert_eq!(bench.sample(free), seen);
        assert_eq!(bench.gauge(), Gauge { level: seen, permille: 1000 });
        let DiskReason::SampleFailed { errno, text } = bench.reading().reason else { panic!() };
        assert_eq!(errno, Some(libc::EIO));
        assert!(!text.is_empty());
    }
    // And one good one ends it.
    bench.fs.clear_faults();
    assert_eq!(bench.sample(40 * MIB), Level::Ok);
}

#[test]
fn an_old_sample_counts_as_soft_and_is_seen_without_a_sample() {
    let bench = bench();
    bench.sample(40 * MIB);
    bench.clock.advance(STALE);
    assert_eq!(bench.gauge().level, Level::Ok);
    bench.clock.advance(Duration::from_millis(1));
    // Nobody called anything: the reader of the gauge sees it.
    assert_eq!(bench.gauge(), Gauge { level: Level::Soft, permille: 1000 });
    assert_eq!(bench.reading().reason, DiskReason::SampleOld);
    assert_eq!(bench.reading().age, Some(STALE + Duration::from_millis(1)));
    assert_eq!(bench.sample(40 * MIB), Level::Ok);
    planted::with(Fault::OldSampleTakenForGood, || {
        bench.clock.advance(STALE * 2);
        assert_eq!(bench.gauge().level, Level::Ok, "the fault must show");
    });
}

#[test]
fn calls_that_lie_are_survived() {
    let bench = bench();
    for (total, available) in
        [(0, 0), (0, u64::MAX), (u64::MAX, u64::MAX), (1, u64::MAX), (1, 0), (u64::MAX, 0)]
    {
        bench.clock.advance(SECOND);
        bench.say_all(Space {
            total,
            available,
            inodes: 1,
            inodes_available: u64::MAX,
            ..Space::default()
        });
        bench.monitor.sample(|| u64::MAX);
        let _ = bench.monitor.allocate(Level::Hard, u64::MAX);
        let _ = bench.monitor.allocate(Level::Ok, u64::MAX);
        bench.monitor.released(u64::MAX);
        bench.monitor.released_spares(u64::MAX);
        bench.monitor.undo(u64::MAX);
        let reading = bench.reading();
        assert!(reading.free <= reading.total && reading.permille <= 1000);
    }
    // 0 bytes in all is no answer: what was known stays, and it counts as failed.
    bench.sample(40 * MIB);
    bench.say(0, 0);
    assert_eq!(bench.monitor.sample(|| 0), Level::Soft);
    assert!(matches!(bench.reading().reason, DiskReason::SampleFailed { errno: None, .. }));
}

#[test]
fn one_allocation_cannot_jump_a_level() {
    let bench = bench();
    bench.sample(20 * MIB);
    let lines = bench.reading().thresholds;
    let room = 20 * MIB - lines.hard;
    assert!(bench.monitor.allocate(Level::Hard, room).is_err(), "it would be at hard");
    assert_eq!(bench.monitor.allocate(Level::Hard, room - 1), Ok(()));
    // Now one byte is left above hard: no publish, but catch-up goes on to the reserve.
    assert!(bench.monitor.allocate(Level::Hard, 1).is_err());
    assert_eq!(bench.gauge().level, Level::Soft);
    assert!(bench.monitor.allocate(Level::Reserve, lines.hard).is_err());
    assert_eq!(bench.monitor.allocate(Level::Reserve, MIB), Ok(()));
    // What frees space is not asked.
    assert_eq!(bench.monitor.allocate(Level::Ok, TOTAL), Ok(()));
    assert_eq!(bench.gauge().level, Level::Reserve);
    // What failed is given back.
    bench.monitor.undo(TOTAL);
    bench.monitor.undo(MIB);
    bench.monitor.undo(room - 1);
    assert_eq!(bench.reading().free, 20 * MIB);
}

#[test]
fn before_the_first_sample_nothing_is_allocated_that_has_to_be_checked() {
    let bench = bench();
    assert!(bench.monitor.allocate(Level::Hard, 1).is_err());
    assert!(bench.monitor.allocate(Level::Reserve, 1).is_err());
    assert_eq!(bench.monitor.allocate(Level::Ok, 1), Ok(()));
}

#[test]
fn a_debit_raises_the_level_at_once() {
    let check = || {
        let bench = bench();
        bench.sample(26 * MIB);
        assert_eq!(bench.monitor.allocate(Level::Ok, 14 * MIB), Ok(()));
        bench.gauge().level
    };
    assert_eq!(check(), Level::Hard);
    assert_eq!(
        planted::with(Fault::LevelNotRecheckedAtDebit, check),
        Level::Ok,
        "the fault must show"
    );
}

#[test]
fn threads_that_ask_at_a_time_do_not_share_the_last_of_it() {
    let bench = bench();
    bench.sample(TOTAL);
    let hard = bench.reading().thresholds.hard;
    let taken: u64 = std::thread::scope(|scope| {
        let take =
            || (0..100).filter(|_| bench.monitor.allocate(Level::Hard, MIB).is_ok()).count() as u64;
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(taken, (TOTAL - hard - 1) / MIB);
    assert!(bench.reading().free > hard);
}

#[test]
fn released_spares_count_as_free_before_and_after_and_once() {
    let check = || {
        let bench = bench();
        bench.say(TOTAL, 20 * MIB);
        bench.monitor.sample(|| 8 * MIB);
        let mut frees = vec![bench.reading().free];
        bench.monitor.released_spares(8 * MIB);
        frees.push(bench.reading().free);
        // The file system is late, and then it is not.
        for available in [20, 24, 28, 28] {
            bench.sample(available * MIB);
            frees.push(bench.reading().free);
        }
        frees.into_iter().all(|free| free == 28 * MIB)
    };
    assert!(check());
    assert!(!planted::with(Fault::ReleasedCountedTwice, check), "the fault must show");
}

#[test]
fn case_A1_no_space_holds_at_hard_until_an_allocation_succeeds() {
    let bench = bench();
    bench.sample(40 * MIB);
    bench.monitor.no_space();
    assert!(bench.monitor.holds());
    assert_eq!(bench.sample(40 * MIB), Level::Hard, "a quota is in no sample");
    assert_eq!(bench.reading().reason, DiskReason::NoSpace);
    assert!(bench.monitor.allocate(Level::Hard, 1).is_err());
    assert_eq!(bench.monitor.allocate(Level::Reserve, 1), Ok(()), "catch-up may try");
    assert_eq!(bench.sample(3 * MIB), Level::Reserve, "what is worse counts");
    bench.sample(40 * MIB);
    bench.monitor.space_again();
    assert_eq!(bench.gauge().level, Level::Ok);
    assert!(!bench.monitor.holds());
}

#[test]
fn limits_changed_live_count_at_once() {
    let bench = bench();
    bench.sample(30 * MIB);
    let mut limits = Limits::default();
    limits.disk.soft.share = "60%".parse().unwrap();
    bench.monitor.set_limits(&limits);
    assert_eq!(bench.gauge().level, Level::Soft);
    bench.monitor.set_limits(&Limits::default());
    assert_eq!(bench.gauge().level, Level::Ok);
    // And they are still those of before when the next sample draws lines.
    bench.monitor.set_limits(&limits);
    assert_eq!(bench.sample(38 * MIB), Level::Soft);
}

#[test]
fn a_reading_forecasts_and_names_all_directories() {
    let bench = bench();
    bench.monitor.add_dir(Path::new("/data"));
    bench.monitor.add_dir(Path::new("/data2"));
    for second in 0..30 {
        bench.sample(60 * MIB - second * MIB);
    }
    let reading = bench.reading();
    assert_eq!(reading.dirs.len(), 2);
    assert_eq!(reading.device, 7);
    let hard_in = reading.hard_in.unwrap().as_secs();
    assert!((17..=19).contains(&hard_in), "{hard_in}");
    assert_eq!(reading.since_unix_millis, 1_700_000_000_000, "ok from the start");
}

/// A call for free space that hangs must hold nobody up, neither readers nor allocations.
#[test]
fn a_call_that_hangs_only_ages_the_sample() {
    let bench = bench();
    let (fs, hanging) =
        super::only_space::hanging(Space { total: TOTAL, available: 40 * MIB, ..Space::default() });
    let clock: Arc<dyn Clock> = bench.clock.clone();
    let limits = Limits::default();
    let monitor = DiskMonitor::new(fs, Path::new("/data"), 7, clock, MIB, &limits);
    hanging.go();
    assert_eq!(monitor.sample(|| 0), Level::Ok);
    std::thread::scope(|scope| {
        let sampler = scope.spawn(|| monitor.sample(|| 0));
        hanging.wait_until_called();
        bench.clock.advance(STALE * 2);
        assert_eq!(monitor.gauge(bench.clock.elapsed()).level, Level::Soft);
        assert_eq!(monitor.reading(bench.clock.elapsed()).reason, DiskReason::SampleOld);
        assert_eq!(monitor.allocate(Level::Hard, MIB), Ok(()), "against what was last known");
        hanging.go();
        // What it answers now is from when it was called.
        assert_eq!(sampler.join().unwrap(), Level::Soft);
    });
    hanging.go();
    assert_eq!(monitor.sample(|| 0), Level::Ok);
}

/// A btrfs of 160 MiB with little on it, after its metadata was given all but 40 MiB.
#[test]
fn what_nobody_can_have_raises_no_line() {
    let bench = bench();
    let say = |available, withheld| {
        let total = 160 * MIB;
        bench.say_all(Space { total, available, withheld, ..Space::default() });
        bench.clock.advance(SECOND);
        bench.monitor.sample(|| 0)
    };
    assert_eq!(say(79 * MIB, 75 * MIB), Level::Ok);
    assert_eq!(say(27 * MIB, 114 * MIB), Level::Ok);
    let reading = bench.reading();
    assert_eq!((reading.total, reading.withheld), (160 * MIB, 114 * MIB));
    assert_eq!(reading.thresholds, Thresholds::of_bytes(&Limits::default(), 46 * MIB, MIB));
    // The lines are those of what can be had, and end where it does.
    assert_eq!(say(9 * MIB, 114 * MIB), Level::Hard);
    assert_eq!(say(0, 114 * MIB), Level::Reserve);
    // A lie moves no line below what is in use.
    assert!(say(27 * MIB, u64::MAX) <= Level::Soft);
    assert_eq!(bench.reading().withheld, 133 * MIB);
}
