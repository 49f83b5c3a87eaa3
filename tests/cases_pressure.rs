//! Pressure and admission of a whole node on the simulated file system: what a disk says, what follows from it, and that
//! what frees space goes on.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    non_snake_case,
    reason = "tests; cases are named by their ids"
)]

use plimsoll::LimitsError;
use plimsoll::clock::{Clock, ManualClock};
use plimsoll::error::{AppendError, Outcome, PublishError};
use plimsoll::fs::Space;
use plimsoll::fs::sim::SimFileSystem;
use plimsoll::permit::{Decision, PermitError};
use plimsoll::planted::{self, Fault};
use plimsoll::pressure::DiskReason;
use plimsoll::types::Fraction;
use plimsoll::{
    Level, LimitReason, Limited, Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Offset,
    Size, WriteClass,
};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const DATA: &str = "/data";

/// A machine with a device of 64 MiB, soft at 20, hard at 12 and reserve at 3 MiB, each of which ends 4 MiB above.
struct Machine {
    fs: SimFileSystem,
    clock: Arc<ManualClock>,
    options: NodeOptions,
}

impl Machine {
    fn new() -> Self {
        let fs = SimFileSystem::new(11);
        fs.prepare_dir(DATA).unwrap();
        let mut options = NodeOptions::default();
        let disk = &mut options.limits.disk;
        for (line, floor) in [(&mut disk.soft, 20), (&mut disk.hard, 12), (&mut disk.reserve, 3)] {
            line.floor = Size(floor * MIB);
        }
        disk.clear = Fraction::millionths(62_500);
        (options.limits.pool.kept_back, options.limits.pool.prepared) = (Size(0), 0);
        let this = Self { fs, clock: Arc::new(ManualClock::new(1_700_000_000_000)), options };
        this.says(64 * MIB, 60 * MIB);
        this
    }

    /// What free-space queries answer from now on.
    fn says(&self, total: u64, available: u64) {
        let inodes = 1 << 20;
        self.fs.set_space(Some(Space {
            total,
            available,
            inodes,
            inodes_available: inodes,
            ..Space::default()
        }));
    }

    fn start(&self) -> Node {
        Node::builder(DATA)
            .options(self.options.clone())
            .file_system(Arc::new(self.fs.process()))
            .clock(Arc::clone(&self.clock) as Arc<dyn Clock>)
            .without_threads()
            .open()
            .unwrap()
    }

    /// A second goes by, and all that is due is done.
    fn tick(&self, node: &Node) {
        self.clock.advance(Duration::from_secs(1));
        (0..10_000).find(|_| !node.step()).unwrap();
    }

    /// The level once so many MiB are free.
    fn at(&self, node: &Node, free: u64) -> Level {
        self.says(64 * MIB, free * MIB);
        self.tick(node);
        node.pressure().level
    }
}

fn open(node: &Node, name: &str) -> Log {
    node.open_log(&LogName::new(name).unwrap(), LogOptions::default()).unwrap()
}

fn publish(log: &Log, class: WriteClass, len: usize) -> Result<Offset, PublishError> {
    log.publish(class, &[NewRecord::new(&vec![7; len])]).map(|done| done.first)
}

fn limited(result: Result<Offset, PublishError>) -> Limited {
    match result {
        Err(error @ PublishError::Limited(_)) => {
            assert_eq!(error.outcome(), Outcome::NotWritten);
            let PublishError::Limited(limited) = error else { unreachable!() };
            limited
        }
        other => panic!("not refused for pressure: {other:?}"),
    }
}

/// A remembered "read-only" that no reading can clear leaves a node that only an operator gets going again.
#[test]
fn case_A2_a_level_is_of_the_reading_and_not_of_an_earlier_life() {
    let machine = Machine::new();
    let node = machine.start();
    assert_eq!(machine.at(&node, 10), Level::Hard);
    assert_eq!(machine.at(&node, 14), Level::Hard, "within the margin");
    node.close().unwrap();
    // Nothing of it is stored: 14 MiB are below soft, and above hard.
    let node = machine.start();
    assert_eq!(node.pressure().level, Level::Soft);
    assert_eq!(machine.at(&node, 40), Level::Ok);
    assert!(node.attention().is_empty());
    publish(&open(&node, "a"), WriteClass::Publish, 100).unwrap();
}

/// Below its threshold a server refused even deletes, with the advice to delete something.
#[test]
fn case_A5_what_frees_space_goes_on_at_every_level_and_at_0_bytes() {
    let machine = Machine::new();
    let node = machine.start();
    let logs = ["a", "b", "c"].map(|name| open(&node, name));
    for log in &logs {
        for _ in 0..700 {
            publish(log, WriteClass::Publish, 4_000).unwrap();
        }
    }
    for (at, free) in [14, 5, 2, 0].into_iter().enumerate() {
        let level = machine.at(&node, free);
        assert_eq!(level, Level::ALL[(at + 1).min(3)]);
        if level >= Level::Hard {
            let refused = limited(publish(&logs[0], WriteClass::Publish, 100));
            assert_eq!((refused.reason, refused.level), (LimitReason::Disk, level));
            assert_eq!(refused.device.as_deref(), Some(DATA.as_ref()));
            assert_eq!(refused.free, Some(free * MIB));
        }
        for class in [WriteClass::Acknowledge, WriteClass::Coordination, WriteClass::Recovery] {
            publish(&logs[0], class, 100).unwrap();
        }
    }
    // Not a byte is left in truth, either.
    machine.fs.set_capacity(Some(0));
    let freed = logs[0].truncate_before(logs[0].durable()).unwrap();
    assert!(freed.segments_freed > 0);
    node.delete_log(logs[1].name()).unwrap();
    for _ in 0..10 {
        publish(&logs[2], WriteClass::Acknowledge, 100).unwrap();
    }
    // The disk says so: all goes on by itself.
    machine.fs.set_capacity(None);
    assert_eq!(machine.at(&node, 50), Level::Ok);
    publish(&logs[0], WriteClass::Publish, 100).unwrap();
}

/// Percentages that became bytes once, at the start, are wrong for a volume that was resized.
#[test]
fn case_A8_thresholds_follow_a_device_that_is_resized() {
    let mut machine = Machine::new();
    machine.options.limits = plimsoll::Limits::default();
    let node = machine.start();
    let read = |total: u64, free: u64| {
        machine.says(total * MIB, free * MIB);
        machine.tick(&node);
        let disk = node.pressure().disks.remove(0);
        assert_eq!(disk.total, total * MIB);
        (disk.level, disk.thresholds.hard)
    };
    let (level, small) = read(64, 40);
    assert_eq!(level, Level::Ok);
    let (level, large) = read(256, 40);
    assert_eq!((level, small, large), (Level::Hard, 64 * MIB / 5, 256 * MIB / 5));
    assert_eq!(read(64, 40), (Level::Ok, small));
}

/// Inserts failed with "no space" while bytes were plentiful, as the inodes were gone.
#[test]
fn case_A10_few_inodes_raise_the_level_and_are_named() {
    let machine = Machine::new();
    let node = machine.start();
    let log = open(&node, "a");
    publish(&log, WriteClass::Publish, 100).unwrap();
    let space = Space {
        total: 64 * MIB,
        available: 40 * MIB,
        inodes: 200,
        inodes_available: 3,
        ..Space::default()
    };
    machine.fs.set_space(Some(space));
    machine.tick(&node);
    let disk = node.pressure().disks.remove(0);
    assert_eq!((disk.level, &disk.reason), (Level::Hard, &DiskReason::Inodes));
    let refused = limited(publish(&log, WriteClass::Publish, 100));
    assert!(refused.to_string().contains("inodes"), "{refused}");
    let item = node.attention().remove(0);
    assert!(item.to_string().contains("inodes"), "{item}");
    publish(&log, WriteClass::Acknowledge, 100).unwrap();
    // A file system that counts none has none too few.
    machine.fs.set_space(Some(Space { inodes: 0, inodes_available: 0, ..space }));
    machine.tick(&node);
    assert_eq!(node.pressure().level, Level::Ok);
}

/// What is kept back takes inodes: it must not be what uses them up.
#[test]
fn case_A10_what_is_kept_back_takes_a_twentieth_of_the_inodes_at_most() {
    let mut machine = Machine::new();
    machine.options.limits.pool.kept_back = Size(16 * MIB);
    machine.options.limits.pool.kept_back_share = Fraction::percent(5);
    machine.options.limits.pool.budget = Fraction::percent(1);
    let (total, available) = (64 * MIB, 60 * MIB);
    machine.fs.set_space(Some(Space {
        total,
        available,
        inodes: 200,
        inodes_available: 190,
        ..Space::default()
    }));
    let node = machine.start();
    for _ in 0..3 {
        machine.tick(&node);
    }
    let pool = node.stats().pools.remove(0);
    assert_eq!((pool.ready[0], pool.kept_back_missing), (10, 0), "{pool:?}");
    assert_eq!(node.pressure().level, Level::Ok);
}

/// One line that both sets and clears a guard makes each clearing trip it again.
#[test]
fn case_A13_free_space_about_a_line_is_one_change() {
    let machine = Machine::new();
    let node = machine.start();
    let mut changes = node.pressure_changes();
    assert_eq!(machine.at(&node, 18), Level::Soft);
    assert_eq!(changes.wait(Duration::ZERO).unwrap().level, Level::Soft);
    let since = node.attention()[0].since_millis;
    let mut told = 0;
    for probe in 0..100 {
        let tenth = if probe % 2 == 0 { 119 } else { 121 };
        machine.says(64 * MIB, tenth * MIB / 10);
        machine.tick(&node);
        told += usize::from(changes.wait(Duration::ZERO).is_some());
    }
    assert_eq!((node.pressure().level, told), (Level::Hard, 1));
    let items = node.attention();
    assert_eq!((items.len(), items[0].level, items[0].since_millis), (1, Level::Hard, since));
    assert_eq!(machine.at(&node, 16), Level::Hard);
    assert!(changes.wait(Duration::ZERO).is_none());
    assert_eq!(machine.at(&node, 17), Level::Soft);
    assert_eq!(changes.wait(Duration::ZERO).unwrap().level, Level::Soft);
    assert_eq!(machine.at(&node, 30), Level::Ok);
    assert!(node.attention().is_empty());
}

/// With the physical store full, publishing failed as with an error of the server.
#[test]
fn case_F11_past_hard_and_reserve_a_publish_is_limited_and_never_an_error() {
    let machine = Machine::new();
    machine.fs.set_space(None);
    machine.fs.set_capacity(Some(64 * MIB));
    let node = machine.start();
    let log = open(&node, "a");
    let mut delays = Vec::new();
    let refused = (0..100_000).find_map(|_| {
        machine.clock.advance(Duration::from_millis(1));
        while node.step() {}
        let permit = match log.admit(WriteClass::Publish, 4_000) {
            Decision::Admit(permit) => permit,
            Decision::Delay { wait, permit } => {
                delays.push(wait);
                machine.clock.advance(wait);
                permit
            }
            Decision::Refuse(limited) => return Some(limited),
        };
        match log.append(permit, &[NewRecord::new(&[7; 4_000])]) {
            Ok(ticket) => drop(ticket.wait().unwrap()),
            Err(AppendError::Limited(limited)) => return Some(limited),
            Err(error) => panic!("{error}"),
        }
        None
    });
    let refused = refused.expect("the disk has an end");
    assert_eq!(refused.reason, LimitReason::Disk);
    assert!(log.stopped().is_none());
    // Also where it was the next file that did not fit, the level says so, and hints grow.
    assert_eq!(node.pressure().level, Level::Hard);
    assert!(refused.retry_after < Duration::from_millis(1_250), "{refused:?}");
    machine.clock.advance(Duration::from_secs(4));
    while node.step() {}
    let later = limited(publish(&log, WriteClass::Publish, 4_000));
    assert!(later.retry_after >= Duration::from_secs(4), "{later:?}");
    // From nothing at soft to all at hard; between two of them lies a file at most.
    assert!(delays[0] < Duration::from_millis(10), "{:?}", delays[0]);
    assert!(*delays.last().unwrap() > Duration::from_millis(40), "{:?}", delays.last());
    assert!(delays.is_sorted());
    let left = node.pressure().disks[0].available;
    assert!(left > 12 * MIB, "{left} bytes are left");
    // What frees space fills the rest of it, and still nothing is an error.
    while node.pressure().level < Level::Reserve {
        publish(&log, WriteClass::Acknowledge, 60_000).unwrap();
        machine.tick(&node);
        limited(publish(&log, WriteClass::Publish, 4_000));
    }
    let caught_up = limited(publish(&log, WriteClass::Replicate, 4_000));
    assert_eq!((caught_up.level, caught_up.class), (Level::Reserve, WriteClass::Replicate));
    log.truncate_before(log.durable()).unwrap();
    machine.tick(&node);
    assert_eq!(node.pressure().level, Level::Ok);
    publish(&log, WriteClass::Publish, 4_000).unwrap();
    let stats = node.stats().admission;
    assert_eq!(stats.classes[0].delayed[LimitReason::Disk as usize], delays.len() as u64);
    assert!(stats.classes[0].refused[LimitReason::Disk as usize] > 1);
    assert_eq!(stats.classes[1].refused[LimitReason::Disk as usize], 1);
    assert_eq!(stats.waiting_bytes, 0);
}

#[test]
fn catching_up_goes_on_at_hard_and_stops_at_reserve() {
    let machine = Machine::new();
    let node = machine.start();
    let log = open(&node, "a");
    publish(&log, WriteClass::Replicate, 100).unwrap();
    assert_eq!(machine.at(&node, 8), Level::Hard);
    publish(&log, WriteClass::Replicate, 100).unwrap();
    assert_eq!(machine.at(&node, 2), Level::Reserve);
    assert_eq!(limited(publish(&log, WriteClass::Replicate, 100)).threshold, Some(3 * MIB));
}

/// Hints grow while the level lasts, and begin anew with the next one.
#[test]
fn the_hint_doubles_while_hard_lasts_and_starts_again_after_it() {
    let machine = Machine::new();
    let node = machine.start();
    let log = open(&node, "a");
    let hint = || {
        let hint = limited(publish(&log, WriteClass::Publish, 100)).retry_after;
        // Without what spreads them: up to a quarter.
        [1, 2, 4, 8, 16, 30].into_iter().find(|&base| {
            (Duration::from_secs(base)..Duration::from_millis(base * 1_250)).contains(&hint)
        })
    };
    for _ in 0..2 {
        machine.at(&node, 8);
        assert_eq!(hint(), Some(1));
        for (second, base) in [(1, 2), (2, 2), (3, 4), (7, 8), (15, 16), (31, 30), (99, 30)] {
            let until = node.pressure().disks[0].hard_for;
            machine.clock.advance(Duration::from_secs(second).saturating_sub(until));
            while node.step() {}
            assert_eq!(hint(), Some(base), "after {second} s");
        }
        assert_eq!(machine.at(&node, 40), Level::Ok);
    }
}

#[test]
fn limits_change_live_as_a_whole_or_not_at_all() {
    let machine = Machine::new();
    let node = machine.start();
    assert_eq!(machine.at(&node, 15), Level::Soft);
    let mut limits = node.limits();
    limits.disk.hard.floor = Size(18 * MIB);
    limits.disk.soft.floor = Size(17 * MIB);
    let wrong: LimitsError = node.set_limits(limits.clone()).unwrap_err();
    assert!(wrong.to_string().contains("limits.disk.hard.floor"), "{wrong}");
    assert_eq!(
        (node.pressure().level, node.limits()),
        (Level::Soft, machine.options.limits.clone())
    );
    limits.disk.soft.floor = Size(19 * MIB);
    // 18 MiB are more than a fifth of the device: the floor counts for that.
    node.set_limits(limits.clone()).unwrap();
    assert_eq!(node.pressure().disks[0].thresholds.hard, 64 * MIB / 5);
    limits.disk.hard.share = Fraction::percent(25);
    limits.disk.soft.share = Fraction::percent(30);
    node.set_limits(limits.clone()).unwrap();
    assert_eq!(node.pressure().level, Level::Hard, "at once");
    limits.memory.limit = Some(Size(1 << 30));
    let wrong = node.set_limits(limits).unwrap_err();
    assert!(wrong.to_string().contains("limits.memory.limit"), "{wrong}");
}

#[test]
fn two_directories_on_one_device_have_one_gauge() {
    let machine = Machine::new();
    machine.fs.prepare_dir("/other").unwrap();
    let node = Node::builder(DATA)
        .data_dir("/other")
        .options(machine.options.clone())
        .file_system(Arc::new(machine.fs.process()))
        .clock(Arc::clone(&machine.clock) as Arc<dyn Clock>)
        .without_threads()
        .open()
        .unwrap();
    let disks = node.pressure().disks;
    assert_eq!(disks.len(), 1);
    assert_eq!(disks[0].dirs.len(), 2);
    assert_eq!(disks[0].free, 60 * MIB);
}

/// A permit is for one append, of so many bytes, on one device, from its delay on and for five seconds.
#[test]
fn a_permit_that_was_used_is_good_for_nothing() {
    let used_twice = || {
        let machine = Machine::new();
        let node = machine.start();
        let log = open(&node, "a");
        let permit = || match log.admit(WriteClass::Publish, 3) {
            Decision::Admit(permit) => permit,
            other => panic!("{other:?}"),
        };
        let records = [NewRecord::new(b"one")];
        log.publish(WriteClass::Publish, &records).unwrap();
        let permit = permit();
        drop(log.try_append(&permit, &records).unwrap());
        log.try_append(&permit, &records).map(drop)
    };
    assert!(matches!(used_twice(), Err(AppendError::Permit(PermitError::Used))));
    planted::with(Fault::PermitUsedTwice, || used_twice().unwrap());
}

#[test]
fn a_permit_after_a_delay_is_not_valid_before_and_holds_its_bytes() {
    let machine = Machine::new();
    let node = machine.start();
    let log = open(&node, "a");
    publish(&log, WriteClass::Publish, 100).unwrap();
    assert_eq!(machine.at(&node, 16), Level::Soft);
    let delayed = |bytes| match log.admit(WriteClass::Publish, bytes) {
        Decision::Delay { wait, permit } => Ok((wait, permit)),
        Decision::Refuse(limited) => Err(limited),
        Decision::Admit(_) => panic!("admitted at soft"),
    };
    let (wait, permit) = delayed(2 * MIB).unwrap();
    // Half of the way from 20 to 12.
    assert_eq!(wait, Duration::from_millis(25));
    let record = vec![7; 900_000];
    let records = [NewRecord::new(&record)];
    let early = log.try_append(&permit, &records).unwrap_err();
    assert!(matches!(early, AppendError::Permit(PermitError::TooEarly { .. })), "{early}");
    // What waits holds memory: 4 MiB of a log, and no more.
    let (_, second) = delayed(2 * MIB).unwrap();
    assert_eq!(node.stats().admission.waiting_bytes, 4 * MIB);
    let limited = delayed(1).unwrap_err();
    assert_eq!((limited.reason, limited.level), (LimitReason::Disk, Level::Soft));
    assert!(limited.detail.contains("may wait out its delay"), "{limited}");
    drop(second);
    assert_eq!(node.stats().admission.waiting_bytes, 2 * MIB);
    machine.clock.advance(wait);
    log.append(permit, &records).unwrap().wait().unwrap();
    assert_eq!(node.stats().admission.waiting_bytes, 0);
    // Five seconds after its delay it is nothing any more.
    let (wait, permit) = delayed(3).unwrap();
    machine.clock.advance(wait + Duration::from_millis(5_001));
    let late = log.append(permit, &[NewRecord::new(b"old")]).unwrap_err();
    assert!(matches!(late, AppendError::Permit(PermitError::Expired)), "{late}");
}

/// A call for free space that fails, or hangs, or lies, is said and never makes the node think that all is well.
#[test]
fn a_free_space_call_that_fails_or_grows_old_counts_as_soft_and_is_named() {
    use plimsoll::fs::sim::{Fault, OpKind, What};
    let machine = Machine::new();
    let node = machine.start();
    machine.tick(&node);
    assert_eq!(node.pressure().level, Level::Ok);
    machine.fs.inject(Fault::nth(OpKind::Space, 0, What::Errno(libc::EIO)).forever());
    machine.tick(&node);
    let disk = node.pressure().disks.remove(0);
    assert_eq!(disk.level, Level::Soft);
    assert!(matches!(disk.reason, DiskReason::SampleFailed { errno: Some(libc::EIO), .. }));
    assert!(node.attention()[0].detail.contains("free space cannot be asked for"));
    machine.fs.clear_faults();
    machine.tick(&node);
    assert_eq!(node.pressure().level, Level::Ok);
    // Nobody samples, as a call that hangs: the reading grows old by itself.
    machine.clock.advance(Duration::from_secs(6));
    let disk = node.pressure().disks.remove(0);
    assert_eq!((disk.level, disk.reason), (Level::Soft, DiskReason::SampleOld));
}

#[test]
fn an_allocation_without_room_holds_the_device_at_hard_until_one_succeeds() {
    let machine = Machine::new();
    let node = machine.start();
    let log = open(&node, "a");
    // The disk says that it has room, and has none.
    machine.fs.set_capacity(Some(0));
    let error = publish(&log, WriteClass::Publish, 100).unwrap_err();
    assert!(matches!(error, PublishError::Append(AppendError::Disk(_))), "{error}");
    let disk = node.pressure().disks.remove(0);
    assert_eq!((disk.level, disk.reason), (Level::Hard, DiskReason::NoSpace));
    limited(publish(&log, WriteClass::Publish, 100));
    for _ in 0..3 {
        machine.tick(&node);
        assert_eq!(node.pressure().level, Level::Hard);
    }
    machine.fs.set_capacity(None);
    machine.tick(&node);
    assert_eq!(node.pressure().level, Level::Ok);
    publish(&log, WriteClass::Publish, 100).unwrap();
}

/// Spares are given up before anybody is slowed for what they hold.
#[test]
fn at_soft_the_pool_gives_up_its_spares_and_keeps_what_is_kept_back() {
    let mut machine = Machine::new();
    machine.options.limits.pool.budget = Fraction::percent(20);
    machine.options.limits.pool.prepared = 2;
    machine.options.limits.pool.kept_back = Size(2 * MIB);
    let node = machine.start();
    let log = open(&node, "a");
    for _ in 0..1_000 {
        publish(&log, WriteClass::Publish, 4_000).unwrap();
    }
    log.truncate_before(log.durable()).unwrap();
    for _ in 0..3 {
        machine.tick(&node);
    }
    let before = node.stats().pools.remove(0);
    assert!(before.bytes >= 2 * MIB && before.kept_back_bytes == 2 * MIB, "{before:?}");
    // 17 free, and the spares count as free: not yet soft.
    assert_eq!(machine.at(&node, 21 - before.bytes / MIB), Level::Ok);
    assert_eq!(node.stats().pools[0].bytes, before.bytes);
    assert_eq!(machine.at(&node, 19 - before.bytes / MIB), Level::Soft);
    machine.tick(&node);
    let after = node.stats().pools.remove(0);
    assert_eq!((after.bytes, after.kept_back_bytes), (0, before.kept_back_bytes));
    assert!(after.deleted_released > 0);
    // A truncation now gives its files to the disk.
    for _ in 0..600 {
        publish(&log, WriteClass::Acknowledge, 4_000).unwrap();
    }
    log.truncate_before(log.durable()).unwrap();
    machine.tick(&node);
    assert_eq!(node.stats().pools[0].bytes, 0);
}

/// Two tasks wait for a file, and there is none for one of them: that is not the other's answer.
#[test]
fn case_A11_an_acknowledgement_is_not_refused_for_the_file_of_a_publish() {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    for acknowledged_first in [true, false] {
        let machine = Machine::new();
        let node = machine.start();
        let log = open(&node, "a");
        // Above hard, and less above than the smallest file takes.
        machine.says(64 * MIB, 12 * MIB + 32_768);
        machine.tick(&node);
        assert_eq!(node.pressure().level, Level::Soft);
        let permit = |class| match log.admit(class, 3) {
            Decision::Admit(permit) => permit,
            Decision::Delay { wait, permit } => {
                machine.clock.advance(wait);
                permit
            }
            Decision::Refuse(limited) => panic!("{limited}"),
        };
        let records = [NewRecord::new(b"one")];
        let mut publish = pin!(log.append_async(permit(WriteClass::Publish), &records));
        let mut acknowledge = pin!(log.append_async(permit(WriteClass::Acknowledge), &records));
        let mut context = Context::from_waker(Waker::noop());
        let (mut refused, mut staged) = (None, None);
        for turn in 0..20 {
            let mut ask = || {
                if staged.is_none()
                    && let Poll::Ready(answer) = acknowledge.as_mut().poll(&mut context)
                {
                    staged = Some(answer.map(drop));
                }
            };
            if acknowledged_first || turn > 0 {
                ask();
            }
            let mut other = Context::from_waker(Waker::noop());
            if refused.is_none()
                && let Poll::Ready(answer) = publish.as_mut().poll(&mut other)
            {
                refused = Some(answer);
            }
            if !acknowledged_first && turn == 0 {
                ask();
            }
            while node.step() {}
        }
        staged.expect("an answer").expect("an acknowledgement is not refused");
        // It may have found room in the file of the other.
        if let Some(Err(error)) = refused {
            assert!(matches!(error, AppendError::Limited(_)), "{error}");
        }
    }
}

/// A task that stopped waiting is not kept.
#[test]
fn a_subscription_keeps_one_waker_and_none_when_it_is_dropped() {
    use std::pin::pin;
    use std::task::{Context, Wake, Waker};
    struct Task;
    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }
    let machine = Machine::new();
    let node = machine.start();
    let mut changes = node.pressure_changes();
    let tasks: Vec<_> = (0..10).map(|_| Arc::new(Task)).collect();
    for task in &tasks {
        let waker = Waker::from(Arc::clone(task));
        let polled = pin!(changes.changed()).as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    }
    let held: usize = tasks.iter().map(|task| Arc::strong_count(task) - 1).sum();
    assert_eq!(held, 1);
    drop(changes);
    assert!(tasks.iter().all(|task| Arc::strong_count(task) == 1));
}

/// A log on a mount of its own: what it takes and frees there is that device's, and so is the level that refuses it.
#[test]
fn the_books_of_a_log_on_another_mount_are_those_of_its_device() {
    let machine = Machine::new();
    machine.fs.prepare_dir("/data/logs/apart").unwrap();
    machine.fs.mount("/data/logs/apart").unwrap();
    let inodes = 1 << 20;
    // A tiny and a small file fit above hard at 12 MiB, and no main one of 1 MiB.
    let available = 12 * MIB + 500_000;
    let space =
        Space { total: 64 * MIB, available, inodes, inodes_available: inodes, ..Space::default() };
    machine.fs.set_space_at("/data/logs/apart", Some(space)).unwrap();
    let node = machine.start();
    let log = open(&node, "apart");
    let refused = (0..1_000).find_map(|_| publish(&log, WriteClass::Publish, 4_000).err());
    let refused = limited(Err(refused.expect("its device has an end")));
    assert_eq!(refused.level, Level::Hard);
    assert_eq!(refused.device.as_deref(), Some("/data/logs/apart".as_ref()));
    let levels = || node.pressure().disks.iter().map(|disk| disk.level).collect::<Vec<_>>();
    assert_eq!(levels(), [Level::Ok, Level::Hard]);
    publish(&open(&node, "beside"), WriteClass::Publish, 4_000).unwrap();
    publish(&log, WriteClass::Acknowledge, 4_000).unwrap();
    let freed = log.truncate_before(log.durable()).unwrap();
    assert!(freed.segments_freed > 0, "{freed:?}");
    let released: Vec<u64> = node.pressure().disks.iter().map(|disk| disk.released).collect();
    assert_eq!(released, [0, freed.bytes_freed]);
}
