//! The gauges: for each device one, as a node has it, and that of memory.

use crate::failure::Failure;
use crate::inspect::settle;
use plimsoll::Limits;
use plimsoll::clock::{Clock, SystemClock};
use plimsoll::fs::OsFileSystem;
use plimsoll::inspect::{self as engine, DeviceSpares, Finding, Outcome, PoolReport};
use plimsoll::pressure::{DiskMonitor, DiskReading, MemoryMonitor, MemoryReading, SystemMemory};
use plimsoll::types::SizeClass;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often a device is looked at, as a node does it.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// For so long no rate is known.
const NO_RATE_BEFORE: Duration = Duration::from_secs(10);

/// All of them.
#[derive(Debug)]
pub(crate) struct Gauges {
    clock: Arc<dyn Clock>,
    disks: Vec<Arc<Disk>>,
    memory: Arc<MemoryMonitor>,
    begun: Duration,
    findings: Vec<Finding>,
    watched: bool,
}

#[derive(Debug)]
struct Disk {
    monitor: DiskMonitor,
    dirs: Vec<PathBuf>,
    limits: Limits,
}

/// What they show at one moment.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) disks: Vec<DiskReading>,
    pub(crate) memory: MemoryReading,
    /// For how long they have been looked at, once it is long enough for rates.
    pub(crate) rates_over: Option<Duration>,
    /// Whether this is one of several looks.
    pub(crate) watched: bool,
    /// What is wrong with the directories.
    pub(crate) findings: Vec<Finding>,
    pub(crate) unix_millis: u64,
}

impl Look {
    /// The worst of the findings.
    pub(crate) fn outcome(&self) -> Outcome {
        let outcomes = self.findings.iter().map(|finding| finding.outcome);
        outcomes.max().unwrap_or(Outcome::Clean)
    }
}

impl Disk {
    /// Takes a sample, with the spares as `report` has them.
    fn sample(&self, report: &PoolReport) {
        let found = report.devices.iter().find(|found| found.device == self.monitor.device());
        self.monitor.sample(|| found.map_or(0, |found| releasable(found, &self.limits)));
    }

    /// What its thread does.
    fn run(&self, every: Duration) {
        loop {
            std::thread::sleep(every);
            self.sample(&engine::pool(&OsFileSystem, &self.dirs, &settle));
        }
    }
}

/// Bytes of spares that a node would release: all but those that are kept back.
fn releasable(device: &DeviceSpares, limits: &Limits) -> u64 {
    let kept_back = |total| limits.pool.allowance(total).kept_back;
    device.space.map_or(0, |space| device.usage(kept_back(space.total)).counted_bytes)
}

impl Gauges {
    /// The gauges for `dirs`, each with its first sample. Blocks on the disks.
    pub(crate) fn new(dirs: &[PathBuf], limits: &Limits) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let report = engine::pool(&OsFileSystem, dirs, &settle);
        let disk = |device: &DeviceSpares| {
            let dirs: Vec<PathBuf> = device.dirs.iter().map(|dir| dir.dir.clone()).collect();
            let main_file = device.dirs.iter().map(|dir| dir.sizes.of(SizeClass::Main)).max();
            let first = dirs.first().map_or(Path::new(""), PathBuf::as_path);
            let (fs, main_file) = (Arc::new(OsFileSystem), main_file.unwrap_or(0));
            let (id, clock) = (device.device, Arc::clone(&clock));
            let monitor = DiskMonitor::new(fs, first, id, clock, main_file, limits);
            dirs.iter().for_each(|dir| monitor.add_dir(dir));
            let disk = Disk { monitor, dirs, limits: limits.clone() };
            disk.sample(&report);
            Arc::new(disk)
        };
        let disks = report.devices.iter().map(disk).collect();
        let source = Arc::new(SystemMemory::new(Path::new("/"), Arc::new(OsFileSystem)));
        let memory = Arc::new(MemoryMonitor::new(source, Arc::clone(&clock), limits));
        memory.sample();
        let begun = clock.elapsed();
        Self { clock, disks, memory, begun, findings: report.findings, watched: false }
    }

    /// Takes samples from now on, each device on a thread of its own: one that hangs keeps neither the others nor whoever
    /// looks, and nobody waits for the threads.
    pub(crate) fn start(&mut self, interval: Duration) -> Result<(), Failure> {
        self.watched = true;
        let every = interval.min(SAMPLE_EVERY);
        let fail = |error| Failure::io("start a thread for", "samples", &error);
        for disk in &self.disks {
            let disk = Arc::clone(disk);
            let thread = std::thread::Builder::new().name("disk".into());
            thread.spawn(move || disk.run(every)).map_err(fail)?;
        }
        let memory = Arc::clone(&self.memory);
        let sample = move || {
            loop {
                std::thread::sleep(every);
                memory.sample();
            }
        };
        std::thread::Builder::new().name("memory".into()).spawn(sample).map_err(fail)?;
        Ok(())
    }

    /// What they show. Makes no call to a disk.
    pub(crate) fn look(&self) -> Look {
        let now = self.clock.elapsed();
        let since = now.saturating_sub(self.begun);
        Look {
            disks: self.disks.iter().map(|disk| disk.monitor.reading(now)).collect(),
            memory: self.memory.reading(now),
            rates_over: (since >= NO_RATE_BEFORE).then_some(since),
            watched: self.watched,
            findings: self.findings.clone(),
            unix_millis: self.clock.unix_millis(),
        }
    }
}
