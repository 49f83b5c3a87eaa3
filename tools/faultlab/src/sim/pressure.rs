//! Checks of the levels: of one device, and of memory.

use plimsoll::clock::{Clock, ManualClock};
use plimsoll::fs::FileSystem;
use plimsoll::fs::sim::SimFileSystem;
use plimsoll::permit::Decision;
use plimsoll::pressure::{DiskMonitor, MemorySource, STALE, SystemMemory};
use plimsoll::{
    Level, Limits, LogName, LogOptions, NewRecord, Node, NodeOptions, Size, WriteClass,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;

struct Device {
    fs: SimFileSystem,
    clock: Arc<ManualClock>,
    monitor: DiskMonitor,
}

/// A device of 64 MiB, so hard at 12.8 MiB, and a first sample that leaves so much free.
fn device(free: u64) -> Device {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/data").unwrap();
    fs.set_capacity(Some(64 * MIB));
    let clock = Arc::new(ManualClock::new(0));
    let limits = Limits::default();
    let (dir, shared) = (Path::new("/data"), Arc::new(fs.clone()));
    let monitor = DiskMonitor::new(shared, dir, 1, clock.clone(), MIB, &limits);
    let device = Device { fs, clock, monitor };
    device.sample(free);
    device
}

impl Device {
    /// A second later, when others have left so much free.
    fn sample(&self, free: u64) -> Level {
        self.clock.advance(Duration::from_secs(1));
        let space = self.fs.space(Path::new("/data")).unwrap();
        self.fs.set_space(Some(plimsoll::fs::Space { available: free, ..space }));
        let level = self.monitor.sample(|| 0);
        self.fs.set_space(None);
        level
    }

    fn level(&self) -> Level {
        self.monitor.gauge(self.clock.elapsed()).level
    }

    fn free(&self) -> u64 {
        self.monitor.reading(self.clock.elapsed()).free
    }
}

/// A4: what only root may use is not free.
pub fn the_share_of_root_is_not_free() {
    let device = device(60 * MIB);
    device.fs.set_root_share(60 * MIB);
    device.monitor.sample(|| 0);
    assert!(device.free() <= 4 * MIB, "{} bytes free, 4 MiB are not root's", device.free());
}

/// Released bytes are free once: by themselves until a sample shows them, and then in it.
pub fn released_bytes_count_once() {
    let device = device(20 * MIB);
    device.monitor.released(10 * MIB);
    assert_eq!(device.free(), 30 * MIB);
    device.sample(30 * MIB);
    assert_eq!(device.free(), 30 * MIB, "counted in the sample and beside it");
}

/// A sample says nothing about five seconds later.
pub fn an_old_sample_counts_as_soft() {
    let device = device(60 * MIB);
    assert_eq!(device.level(), Level::Ok);
    device.clock.advance(STALE + Duration::from_secs(1));
    assert_eq!(device.level(), Level::Soft);
}

/// An allocation counts when it is made, and not with the next sample.
pub fn a_debit_raises_the_level() {
    let device = device(30 * MIB);
    device.monitor.allocate(Level::Ok, 20 * MIB).unwrap();
    assert_eq!(device.level(), Level::Hard);
}

/// Whatever a log writes between two samples, each of its files is asked for before it is made.
pub fn publishes_stay_above_hard_between_two_samples() {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/data").unwrap();
    fs.set_capacity(Some(64 * MIB));
    let mut options = NodeOptions::default();
    // Spares count as free.
    options.limits.pool.budget = "0%".parse().unwrap();
    options.limits.pool.kept_back = "0B".parse().unwrap();
    let builder = Node::builder("/data").options(options).file_system(Arc::new(fs.clone()));
    let node = builder.clock(Arc::new(ManualClock::new(0))).without_threads().open().unwrap();
    let log = node.open_log(&LogName::new("heap").unwrap(), LogOptions::default()).unwrap();
    let payload = vec![1; 60_000];
    while log.publish(WriteClass::Publish, &[NewRecord::new(&payload)]).is_ok() {}
    let hard = node.pressure().disks[0].thresholds.hard;
    let left = fs.space(Path::new("/data")).unwrap().available;
    assert!(left > hard, "{left} bytes are left, hard begins at {hard}");
}

/// A13: free space that goes up and down about a line changes the level once.
pub fn case_a13_a_level_does_not_flap() {
    let device = device(60 * MIB);
    let hard = device.monitor.reading(Duration::ZERO).thresholds.hard;
    let (mut level, mut changes) = (device.level(), 0);
    for probe in 0..100 {
        let next = device.sample(if probe % 2 == 0 { hard - MIB / 10 } else { hard + MIB / 10 });
        changes += u32::from(next != level);
        level = next;
    }
    assert_eq!(changes, 1, "{changes} changes of the level");
}

/// E4: the page cache is not used memory.
pub fn case_e4_the_page_cache_is_not_used() {
    let fs = SimFileSystem::new(1);
    for (path, text) in [
        ("/proc/meminfo", "MemTotal: 16777216 kB\n"),
        ("/proc/self/status", "RssAnon: 1024 kB\nRssShmem: 0 kB\n"),
        ("/proc/self/cgroup", "0::/a\n"),
        ("/proc/self/mountinfo", "30 27 0:26 / /cg rw - cgroup2 cgroup2 rw\n"),
        ("/cg/a/memory.max", "268435456\n"),
        ("/cg/a/memory.current", "262144000\n"),
        ("/cg/a/memory.stat", "anon 10485760\nfile 251658240\nkernel 1048576\n"),
    ] {
        fs.prepare_dir(Path::new(path).parent().unwrap()).unwrap();
        fs.create(Path::new(path)).unwrap().write_at(0, text.as_bytes()).unwrap();
    }
    let sample = SystemMemory::new(Path::new("/"), Arc::new(fs)).read().unwrap();
    assert_eq!(sample.group.map(|group| group.used), Some(11 * MIB));
}

/// A node over two data directories on a device of 64 MiB.
fn node(fs: &SimFileSystem, clock: &Arc<ManualClock>) -> Node {
    let mut options = NodeOptions::default();
    (options.limits.pool.kept_back, options.limits.pool.prepared) = (Size(0), 0);
    Node::builder("/data")
        .data_dir("/other")
        .options(options)
        .file_system(Arc::new(fs.process()))
        .clock(Arc::clone(clock) as Arc<dyn Clock>)
        .without_threads()
        .open()
        .unwrap()
}

fn machine() -> (SimFileSystem, Arc<ManualClock>) {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/data").unwrap();
    fs.prepare_dir("/other").unwrap();
    fs.set_capacity(Some(64 * MIB));
    (fs, Arc::new(ManualClock::new(1_700_000_000_000)))
}

/// Two directories on one device have one gauge and one budget.
pub fn a_device_is_counted_once() {
    let (fs, clock) = machine();
    let node = node(&fs, &clock);
    let disks = node.pressure().disks;
    assert_eq!(disks.len(), 1, "{disks:?}");
    assert_eq!(disks[0].dirs.len(), 2, "{disks:?}");
}

/// A permit is for one append.
pub fn a_permit_is_used_once() {
    let (fs, clock) = machine();
    let node = node(&fs, &clock);
    let log = node.open_log(&LogName::new("a").unwrap(), LogOptions::default()).unwrap();
    let records = [NewRecord::new(b"once")];
    log.publish(WriteClass::Publish, &records).unwrap();
    let Decision::Admit(permit) = log.admit(WriteClass::Publish, 4) else {
        panic!("there is room");
    };
    drop(log.try_append(&permit, &records).unwrap());
    assert!(log.try_append(&permit, &records).is_err(), "a permit was used twice");
}

/// Acknowledgements, coordination and recovery are admitted at every level.
pub fn what_frees_space_is_never_refused() {
    let (fs, clock) = machine();
    let node = node(&fs, &clock);
    let log = node.open_log(&LogName::new("a").unwrap(), LogOptions::default()).unwrap();
    let space = fs.space(Path::new("/data")).unwrap();
    fs.set_space(Some(plimsoll::fs::Space { available: 0, ..space }));
    clock.advance(Duration::from_secs(1));
    while node.step() {}
    assert_eq!(node.pressure().level, Level::Reserve);
    for class in WriteClass::ALL {
        let done = log.publish(class, &[NewRecord::new(b"an answer")]);
        assert_eq!(done.is_ok(), class.refused_from().is_none(), "{class}: {done:?}");
    }
}

/// From soft on spares are given up: the disk has their bytes, and who publishes is not refused for them.
pub fn spares_go_before_publishes_are_refused() {
    let (fs, clock) = machine();
    let node = node(&fs, &clock);
    let mut limits = node.limits();
    limits.pool.budget = plimsoll::types::Fraction::percent(20);
    node.set_limits(limits).unwrap();
    let log = node.open_log(&LogName::new("a").unwrap(), LogOptions::default()).unwrap();
    for _ in 0..300 {
        log.publish(WriteClass::Publish, &[NewRecord::new(&[7; 30_000])]).unwrap();
    }
    log.truncate_before(log.durable()).unwrap();
    clock.advance(Duration::from_secs(1));
    while node.step() {}
    assert!(node.stats().pools[0].bytes > MIB, "{:?}", node.stats().pools);
    let space = fs.space(Path::new("/data")).unwrap();
    fs.set_space(Some(plimsoll::fs::Space { available: 14 * MIB, ..space }));
    clock.advance(Duration::from_secs(1));
    while node.step() {}
    assert_eq!(node.stats().pools[0].bytes, 0, "{:?}", node.pressure());
}
