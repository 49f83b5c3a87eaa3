//! The spare pool where a log's directory is another mount, and where a start finds the disk full: what real file systems
//! show only by chance, step by step.
#![allow(clippy::unwrap_used, missing_docs, non_snake_case)]

use plimsoll::clock::{Clock, ManualClock};
use plimsoll::error::{AppendError, CommitError, CommitFailure, PublishError};
use plimsoll::fs::sim::{Fault, OpKind, SimFileSystem, What};
use plimsoll::fs::{File, FileSystem};
use plimsoll::types::Fraction;
use plimsoll::{Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, Size, WriteClass};
use std::path::Path;
use std::sync::Arc;

const TINY: u64 = 64 << 10;

struct Machine {
    fs: SimFileSystem,
    clock: Arc<ManualClock>,
    options: NodeOptions,
    /// A second data directory, on the same device.
    two: bool,
}

impl Machine {
    fn new() -> Self {
        let fs = SimFileSystem::new(5);
        fs.prepare_dir("/data").unwrap();
        fs.prepare_dir("/other").unwrap();
        let mut options = NodeOptions::default();
        options.segment_size = 1 << 20;
        (options.limits.pool.budget, options.limits.pool.prepared) = (Fraction::percent(2), 0);
        options.limits.pool.kept_back = Size(0);
        Self { fs, clock: Arc::new(ManualClock::new(1_700_000_000_000)), options, two: false }
    }

    /// A node whose threads are the test's: nothing is done that is not asked for.
    fn start(&self) -> Node {
        let builder = Node::builder("/data");
        let builder = if self.two { builder.data_dir("/other") } else { builder };
        builder
            .options(self.options.clone())
            .file_system(Arc::new(self.fs.process()))
            .clock(Arc::clone(&self.clock) as Arc<dyn Clock>)
            .without_threads()
            .without_pressure()
            .open()
            .unwrap()
    }
}

fn open(node: &Node, name: &str) -> Log {
    open_in(node, name, 0)
}

fn open_in(node: &Node, name: &str, data_dir: usize) -> Log {
    let mut options = LogOptions::default();
    options.data_dir = data_dir;
    node.open_log(&LogName::new(name).unwrap(), options).unwrap()
}

fn publish(log: &Log, class: WriteClass, len: usize) -> Result<Offset, PublishError> {
    let payload = vec![7; len];
    log.publish(class, &[NewRecord::new(&payload)]).map(|appended| appended.first)
}

fn is_full(error: &PublishError) -> bool {
    matches!(error, PublishError::Append(AppendError::Disk(disk)) if disk.is_no_space())
}

/// Takes all space with a file; gives it, of this life, and its length.
fn fill(machine: &Machine) -> (Arc<dyn File>, u64) {
    let (fs, path) = (machine.fs.process(), Path::new("/filler"));
    let file = fs.open_write(path).or_else(|_| fs.create(path)).unwrap();
    let mut len = file.len().unwrap();
    for step in [1 << 20, 4096] {
        while file.allocate(len + step).is_ok() {
            len += step;
        }
    }
    (file, len)
}

/// A machine on which the log `apart` has a mount of its own, and spares lie ready.
fn with_a_mount() -> Machine {
    let machine = Machine::new();
    let node = machine.start();
    let beside = open(&node, "beside");
    (0..100).for_each(|_| _ = publish(&beside, WriteClass::Publish, 16_000).unwrap());
    beside.truncate_before(beside.durable()).unwrap();
    while node.step() {}
    assert!(node.stats().pools[0].ready.iter().sum::<u64>() > 1);
    node.close().unwrap();
    machine.fs.prepare_dir("/data/logs/apart").unwrap();
    machine.fs.mount("/data/logs/apart").unwrap();
    machine
}

#[test]
fn i9_no_batch_fails_half_way_where_no_spare_can_be_renamed_into_the_log() {
    let machine = with_a_mount();
    let node = machine.start();
    let log = open(&node, "apart");
    let records = vec![NewRecord::new(&[7; 16_000]); 8];
    for batch in 0..20 {
        let appended = log.publish(WriteClass::Publish, &records).unwrap();
        assert_eq!(appended.first, Offset(batch * 8));
        while node.step() {}
    }
    let spares = node.stats().pools[0].ready;
    log.truncate_before(log.durable()).unwrap();
    assert_eq!(node.stats().pools[0].ready, spares);
    assert!(node.stats().pools[0].deleted_not_renamed > 1, "{:?}", node.stats());
}

#[test]
fn a_log_heals_where_no_spare_can_be_renamed_into_it() {
    let machine = with_a_mount();
    let node = machine.start();
    let log = open(&node, "apart");
    publish(&log, WriteClass::Publish, 100).unwrap();
    drop((log, node));
    // Another life, which has taken no file for it yet.
    machine.fs.process_death();
    let node = machine.start();
    let log = open(&node, "apart");
    let failing = Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO)).on("apart/");
    machine.fs.inject(failing);
    publish(&log, WriteClass::Publish, 100).unwrap_err();
    assert_eq!(machine.fs.faults_waiting(), 0);
    assert!(log.stopped().is_none(), "{:?}", log.stopped());
    assert_eq!(publish(&log, WriteClass::Publish, 100).unwrap(), Offset(1));
}

#[test]
fn right_after_a_start_on_a_full_disk_what_is_kept_back_comes_before_a_publish() {
    let mut machine = Machine::new();
    machine.fs.set_capacity(Some(64 << 20));
    machine.options.limits.pool.budget = Fraction::percent(0);
    machine.options.limits.pool.kept_back = Size(4 * TINY);
    let node = machine.start();
    let giver = open(&node, "giver");
    (0..20).for_each(|_| _ = publish(&giver, WriteClass::Publish, 16_000).unwrap());
    while node.step() {}
    assert_eq!(node.stats().pools[0].kept_back_missing, 0);
    fill(&machine);
    for number in 0..4 {
        let log = open(&node, &format!("acknowledged-{number}"));
        publish(&log, WriteClass::Acknowledge, 100).unwrap();
    }
    assert_eq!(node.stats().pools[0].kept_back_bytes, 0);
    drop((giver, node));
    machine.fs.process_death();
    // What had been reserved goes at the start.
    drop(machine.start());
    machine.fs.process_death();
    let (filler, len) = fill(&machine);

    // No step of the worker has found out yet that there is no room.
    let node = machine.start();
    let (giver, publisher) = (open(&node, "giver"), open(&node, "publisher"));
    let second = giver.segments()[1].base;
    let third = giver.segments()[2].base;
    // A tiny file and a small one: more than the publisher needs, less than is to be kept back.
    for before in [second, third] {
        giver.truncate_before(before).unwrap();
        let error = publish(&publisher, WriteClass::Publish, 100).unwrap_err();
        assert!(is_full(&error), "{error:?}");
    }
    let stats = node.stats().pools.swap_remove(0);
    assert_eq!((stats.kept_back_bytes, stats.taken_fresh), (3 * TINY, 0), "{stats:?}");
    filler.set_len(len - TINY).unwrap();
    publish(&publisher, WriteClass::Publish, 100).unwrap_err();
    assert_eq!(node.stats().pools[0].kept_back_missing, 0);
    filler.set_len(len - 2 * TINY).unwrap();
    publish(&publisher, WriteClass::Publish, 100).unwrap();
}

/// A machine that keeps eight files back and has room for no other; how many are left.
fn with_kept_back() -> (Machine, Node) {
    let mut machine = Machine::new();
    machine.fs.set_capacity(Some(64 << 20));
    machine.options.limits.pool.budget = Fraction::percent(0);
    machine.options.limits.pool.kept_back = Size(8 * TINY);
    let node = machine.start();
    while node.step() {}
    fill(&machine);
    assert_eq!(kept_back(&node), 8);
    (machine, node)
}

fn kept_back(node: &Node) -> u64 {
    node.stats().pools[0].kept_back_bytes / TINY
}

/// No room for a name in that directory, the next `times` times, as XFS answers where the directory must grow. The first rename
/// there asks only whether it is another mount.
fn no_room_for_names(machine: &Machine, dir: &str, times: u64) {
    for at in 1..=times {
        machine.fs.inject(Fault::nth(OpKind::Rename, at, What::Errno(libc::ENOSPC)).on(dir));
    }
}

fn had_no_room(error: &PublishError) -> bool {
    matches!(error, PublishError::Commit(CommitError { reason: CommitFailure::Disk(disk), .. }) if disk.is_no_space())
}

/// A directory that had to grow for a file's name found no room on a full disk, and the acknowledgement failed though its
/// file was there.
#[test]
fn i9_a_directory_that_must_grow_for_an_acknowledgement_is_given_room_of_what_is_kept_back() {
    for times in 0..3 {
        let (machine, node) = with_kept_back();
        let log = open(&node, "events");
        no_room_for_names(&machine, "logs/events", times);
        publish(&log, WriteClass::Acknowledge, 100).unwrap();
        assert_eq!(machine.fs.faults_waiting(), 0);
        assert_eq!(kept_back(&node), 8 - 1 - times, "its own, and one for each time");
        publish(&log, WriteClass::Acknowledge, 100).unwrap();
        assert_eq!(kept_back(&node), 8 - 1 - times);
    }
}

#[test]
fn i9_what_is_kept_back_makes_no_room_for_the_name_of_a_publish() {
    let (machine, node) = with_kept_back();
    let (filler, len) = fill(&machine);
    filler.set_len(len - (2 << 20)).unwrap();
    let log = open(&node, "queue");
    no_room_for_names(&machine, "logs/queue", 1);
    let error = publish(&log, WriteClass::Publish, 100).unwrap_err();
    assert!(had_no_room(&error), "{error:?}");
    assert_eq!((kept_back(&node), machine.fs.faults_waiting()), (8, 0));
    publish(&log, WriteClass::Publish, 100).unwrap();
}

#[test]
fn a_name_that_never_finds_room_costs_half_of_what_is_kept_back_and_no_more() {
    let (machine, node) = with_kept_back();
    let log = open(&node, "events");
    let never = Fault::nth(OpKind::Rename, 0, What::Errno(libc::ENOSPC)).on("logs/events");
    machine.fs.inject(never.forever());
    for _ in 0..10 {
        let error = publish(&log, WriteClass::Acknowledge, 100).unwrap_err();
        assert!(had_no_room(&error), "{error:?}");
    }
    assert!(kept_back(&node) >= 4, "{}", kept_back(&node));
    assert!(log.stopped().is_none(), "{:?}", log.stopped());
    machine.fs.clear_faults();
    assert_eq!(publish(&log, WriteClass::Acknowledge, 100).unwrap(), Offset(0));
    // Another one's directory has room.
    publish(&open(&node, "others"), WriteClass::Acknowledge, 100).unwrap();
}

#[test]
fn a_log_heals_where_the_name_of_its_new_file_finds_no_room() {
    for again in [false, true] {
        let (machine, node) = with_kept_back();
        let log = open(&node, "events");
        publish(&log, WriteClass::Acknowledge, 100).unwrap();
        let before = kept_back(&node);
        machine.fs.inject(Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO)));
        no_room_for_names(&machine, "logs/events", 2);
        publish(&log, WriteClass::Acknowledge, 100).unwrap_err();
        assert!(log.stopped().is_none() && machine.fs.faults_waiting() == 0);
        assert_eq!(kept_back(&node), before - 1 - 2);
        if again {
            // In another life, with a tail to be carried.
            drop((log, node));
            machine.fs.process_death();
            let node = machine.start();
            assert_eq!(
                publish(&open(&node, "events"), WriteClass::Acknowledge, 9).unwrap(),
                Offset(1)
            );
        } else {
            assert_eq!(publish(&log, WriteClass::Acknowledge, 100).unwrap(), Offset(1));
        }
    }
}

/// Two directories on one full device: the second has used up what is kept back in it, and the first has a log with a
/// tiny, a small and a main file that can go.
fn with_two_directories(budget: u32) -> (Machine, Node) {
    let mut machine = Machine::new();
    machine.two = true;
    machine.fs.set_capacity(Some(64 << 20));
    machine.options.limits.pool.budget = Fraction::percent(budget);
    machine.options.limits.pool.kept_back = Size(8 * TINY);
    let node = machine.start();
    let giver = open(&node, "giver");
    (0..100).for_each(|_| _ = publish(&giver, WriteClass::Publish, 16_000).unwrap());
    while node.step() {}
    drop((giver, node));
    machine.fs.process_death();
    let node = machine.start();
    while node.step() {}
    fill(&machine);
    for number in 0..4 {
        let log = open_in(&node, &format!("acknowledged-{number}"), 1);
        publish(&log, WriteClass::Acknowledge, 100).unwrap();
    }
    let missing: Vec<_> = node.stats().pools.iter().map(|pool| pool.kept_back_missing).collect();
    assert_eq!(missing, [0, 4 * TINY]);
    drop(node);
    machine.fs.process_death();
    let node = machine.start();
    (machine, node)
}

#[test]
fn what_another_directory_on_the_device_keeps_back_comes_before_a_publish_too() {
    let (_machine, node) = with_two_directories(0);
    let (giver, publisher) = (open(&node, "giver"), open(&node, "publisher"));
    giver.truncate_before(giver.segments()[2].base).unwrap();
    let error = publish(&publisher, WriteClass::Publish, 100).unwrap_err();
    assert!(is_full(&error), "{error:?}");
    while node.step() {}
    let error = publish(&publisher, WriteClass::Publish, 100).unwrap_err();
    assert!(is_full(&error), "{error:?}");
    assert_eq!(node.stats().pools[1].kept_back_missing, TINY, "{:?}", node.stats());
    giver.truncate_before(giver.segments()[1].base).unwrap();
    while node.step() {}
    assert_eq!(node.stats().pools[1].kept_back_missing, 0, "{:?}", node.stats());
    publish(&publisher, WriteClass::Publish, 100).unwrap();
}

#[test]
fn a_spare_is_released_for_what_another_directory_on_the_device_keeps_back() {
    let (_machine, node) = with_two_directories(2);
    let giver = open(&node, "giver");
    giver.truncate_before(giver.durable()).unwrap();
    while node.step() {}
    let stats = node.stats();
    assert_eq!(stats.pools[1].kept_back_missing, 0, "{stats:?}");
    assert!(stats.pools[0].given_up > 0 && stats.pools[0].deleted_released > 0, "{stats:?}");
    assert_eq!(stats.pools[0].kept_back_missing, 0, "{stats:?}");
}

/// Appends until the file that was reserved early waits beside the segments of `a`.
fn until_reserved(node: &Node, log: &Log, beside: &dyn Fn() -> usize) {
    for _ in 0..2_000 {
        if beside() == 1 {
            return;
        }
        publish(log, WriteClass::Publish, 1_000).unwrap();
        while node.step() {}
    }
    assert_eq!(beside(), 1, "no file was reserved early");
}

#[test]
fn i6_a_reserved_file_waits_beside_the_segments_and_is_begun_given_back_or_removed() {
    let machine = Machine::new();
    let count = |dir: &str, end: &str| {
        let files = machine.fs.files();
        files
            .iter()
            .filter(|path| path.starts_with(dir) && path.extension() == Some(end.as_ref()))
            .count()
    };
    let beside = || count("/data/logs/a", "tmp");
    let node = machine.start();
    let log = open(&node, "a");
    until_reserved(&node, &log, &beside);

    // A roll renames it where it is: its move out of the spares is durable already, and syncs nothing more.
    machine.fs.record(true);
    let files = log.segments().len();
    while log.segments().len() == files {
        publish(&log, WriteClass::Publish, 1_000).unwrap();
    }
    let trace = machine.fs.trace();
    machine.fs.record(false);
    let synced: Vec<_> = trace.iter().filter(|op| op.kind == OpKind::SyncDir).collect();
    assert!(synced.len() == 1 && synced[0].path.ends_with("logs/a"), "{synced:?}");
    assert_eq!(beside(), 0);

    // A log that closes gives it back.
    until_reserved(&node, &log, &beside);
    assert_eq!(count("/data/spares", "seg"), 0);
    drop(log);
    node.close().unwrap();
    assert_eq!((beside(), count("/data/spares", "seg")), (0, 1));

    // One that died does not, and its next start removes it: nobody knows any more whose it is.
    let node = machine.start();
    let log = open(&node, "a");
    until_reserved(&node, &log, &beside);
    let held = log.durable();
    drop((log, node));
    machine.fs.process_death();
    let node = machine.start();
    assert_eq!((open(&node, "a").durable(), beside()), (held, 0));
}
