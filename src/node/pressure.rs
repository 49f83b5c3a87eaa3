//! Gauges of a node's disks and memory: who samples them, who counts what is taken between two samples, who is told.

use super::board::{Attention, Board, PressureChanges};
use crate::admission::{Admission, LogGate};
use crate::clock::Clock;
use crate::fs::{FileSystem, is_no_space};
use crate::limits::Limits;
use crate::permit::{LimitReason, Limited};
use crate::planted::{self, Fault};
use crate::pool::{Freed, Ledger, SparePool};
use crate::pressure::{DiskMonitor, DiskReading, MemoryMonitor, MemoryReading};
use crate::types::{Level, WriteClass};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

/// How often each gauge is sampled.
pub(super) const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// The node's disks and memory, read at one moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Pressure {
    /// The highest of all levels below.
    pub level: Level,
    /// One entry for each device that holds logs, in the order in which they were met.
    pub disks: Vec<DiskReading>,
    /// The memory.
    pub memory: MemoryReading,
}

/// A device and its sampler.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) monitor: Arc<DiskMonitor>,
    /// The level that was told last, as its number.
    told: AtomicU8,
    /// A sample is wanted before its time.
    wanted: Mutex<bool>,
    bell: Condvar,
    /// When the last sample was taken.
    sampled: Mutex<Option<Duration>>,
    /// When an allocation was last tried, as one had found no room.
    tried: Mutex<Option<Duration>>,
    started: AtomicBool,
}

/// Whether what was done at `at` is due again.
fn is_due(at: &Mutex<Option<Duration>>, now: Duration) -> bool {
    let at = *at.lock().unwrap_or_else(PoisonError::into_inner);
    at.is_none_or(|at| now.saturating_sub(at) >= SAMPLE_EVERY)
}

fn done(at: &Mutex<Option<Duration>>, now: Duration) {
    *at.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
}

impl Disk {
    fn ring(&self) {
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }

    /// Waits until a sample is due.
    fn wait(&self) {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.bell.wait_timeout_while(wanted, SAMPLE_EVERY, |wanted| !*wanted);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// See the top of the file.
#[derive(Debug)]
pub(super) struct Watch {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    limits: Mutex<Limits>,
    disks: RwLock<Vec<Arc<Disk>>>,
    memory: Arc<MemoryMonitor>,
    memory_told: AtomicU8,
    /// Held while limits are changed, so that all gauges have the same.
    changing: Mutex<()>,
    /// Held while levels are told, so that the last that is told is the last that was seen.
    telling: Mutex<()>,
    memory_sampled: Mutex<Option<Duration>>,
    pub(super) admission: Arc<Admission>,
    pub(super) board: Board,
    pool: OnceLock<Weak<SparePool>>,
    closed: AtomicBool,
    /// For tests: nothing follows from the levels.
    #[cfg(feature = "sim")]
    without_effect: bool,
}

impl Watch {
    pub(super) fn new(
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        limits: Limits,
        memory: MemoryMonitor,
        first_refusal: u64,
    ) -> Self {
        let memory = Arc::new(memory);
        let of_node = Arc::clone(&memory);
        let admission = Admission::new(Arc::clone(&clock), of_node, &limits, first_refusal);
        Self {
            fs,
            clock,
            limits: Mutex::new(limits),
            disks: RwLock::default(),
            memory,
            memory_told: AtomicU8::new(Level::Ok as u8),
            changing: Mutex::default(),
            telling: Mutex::default(),
            memory_sampled: Mutex::default(),
            admission: Arc::new(admission),
            board: Board::default(),
            pool: OnceLock::new(),
            closed: AtomicBool::new(false),
            #[cfg(feature = "sim")]
            without_effect: false,
        }
    }

    #[cfg(feature = "sim")]
    pub(super) fn without_effect(self) -> Self {
        Self { without_effect: true, ..self }
    }

    #[cfg(feature = "sim")]
    fn has_effect(&self) -> bool {
        !self.without_effect
    }

    #[cfg(not(feature = "sim"))]
    #[allow(clippy::unused_self, reason = "it has one in tests")]
    fn has_effect(&self) -> bool {
        true
    }

    /// Ties the pool to it, whose ledger it is.
    pub(super) fn set_pool(&self, pool: &Arc<SparePool>) {
        // Once, when the node is built.
        let _ = self.pool.set(Arc::downgrade(pool));
    }

    fn pool(&self) -> Option<Arc<SparePool>> {
        self.pool.get()?.upgrade()
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over limits that were checked; they count from now on.
    pub(super) fn set_limits(&self, limits: Limits) {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        // First, for a device that is met at this moment.
        *self.limits.lock().unwrap_or_else(PoisonError::into_inner) = limits.clone();
        self.admission.set_limits(&limits);
        self.memory.set_limits(&limits);
        for disk in self.disks() {
            disk.monitor.set_limits(&limits);
        }
        if let Some(pool) = self.pool() {
            pool.set_options(limits.pool);
        }
        self.look();
    }

    pub(super) fn disks(&self) -> Vec<Arc<Disk>> {
        self.disks.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn disk(&self, device: u64) -> Option<Arc<Disk>> {
        let disks = self.disks.read().unwrap_or_else(PoisonError::into_inner);
        disks.iter().find(|disk| disk.monitor.device() == device).cloned()
    }

    /// The gauge of the device that `dir` is on, sampled at once if it is new: nothing is admitted before there was a sample.
    /// Blocks on the disk then. Two directories on one device have one.
    ///
    /// # Errors
    /// If the directory cannot be looked at; that its space cannot be told is none.
    pub(super) fn watch(&self, dir: &Path, main_file: u64) -> io::Result<Arc<Disk>> {
        let device = self.fs.metadata(dir)?.device;
        if let Some(known) = self.disk(device).filter(|_| !planted::is(Fault::DeviceCountedTwice)) {
            return Ok(known);
        }
        let (fs, clock) = (Arc::clone(&self.fs), Arc::clone(&self.clock));
        let disk = Arc::new(Disk {
            monitor: Arc::new(DiskMonitor::new(fs, dir, device, clock, main_file, &self.limits())),
            told: AtomicU8::new(Level::Ok as u8),
            wanted: Mutex::default(),
            bell: Condvar::new(),
            sampled: Mutex::default(),
            tried: Mutex::default(),
            started: AtomicBool::new(false),
        });
        self.sample(&disk);
        let mut disks = self.disks.write().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have met it meanwhile.
        let known = disks.iter().find(|known| known.monitor.device() == device);
        if let Some(known) = known.filter(|_| !planted::is(Fault::DeviceCountedTwice)) {
            return Ok(Arc::clone(known));
        }
        disks.push(Arc::clone(&disk));
        drop(disks);
        // They may have been changed while the first sample was taken.
        disk.monitor.set_limits(&self.limits());
        self.look();
        Ok(disk)
    }

    /// The gate of a log on `disk`.
    pub(super) fn gate(&self, disk: &Disk) -> LogGate {
        let gate = LogGate::new(Arc::clone(&self.admission), Arc::clone(&disk.monitor));
        if self.has_effect() { gate } else { gate.open_to_all() }
    }

    fn sample(&self, disk: &Disk) {
        let device = disk.monitor.device();
        let pool = self.pool();
        done(&disk.sampled, self.clock.elapsed());
        let spares = || pool.as_ref().map_or(0, |pool| pool.releasable(device));
        disk.monitor.sample(spares);
        if let (Some(pool), Some(space)) = (&pool, disk.monitor.space()) {
            pool.set_space(device, space);
        }
    }

    /// One turn of a device's sampler: the sample, and where an allocation has found no room, another try.
    pub(super) fn turn(&self, disk: &Disk) {
        self.sample(disk);
        let now = self.clock.elapsed();
        // Once a second, and not after each allocation: a try is one itself.
        if disk.monitor.holds()
            && is_due(&disk.tried, now)
            && let Some(pool) = self.pool()
        {
            done(&disk.tried, now);
            // Tells the ledger itself what came of it. Where it cannot try, the next file that is asked for is the try.
            if !pool.try_room(disk.monitor.device()) {
                disk.monitor.space_again();
            }
        }
        self.look();
    }

    /// What the thread of a device's sampler does, until the node closes. It may hang in a call that asks for free space;
    /// nobody waits for it.
    pub(super) fn run_sampler(&self, disk: &Disk) {
        while !self.is_closed() {
            disk.wait();
            if !self.is_closed() {
                self.turn(disk);
            }
        }
    }

    /// Whether the caller is to start the thread of a device's sampler.
    pub(super) fn begins(disk: &Disk) -> bool {
        !disk.started.swap(true, Ordering::Relaxed)
    }

    pub(super) fn sample_memory(&self, buffers: u64) {
        done(&self.memory_sampled, self.clock.elapsed());
        self.memory.set_buffers(buffers);
        self.memory.sample();
        self.look();
    }

    pub(super) fn set_buffers(&self, buffers: u64) {
        self.memory.set_buffers(buffers);
    }

    /// Takes the samples that are due, for a node without threads. Says whether there was one.
    pub(super) fn sample_what_is_due(&self, buffers: u64) -> bool {
        let now = self.clock.elapsed();
        let mut any = false;
        for disk in self.disks() {
            let wanted =
                std::mem::take(&mut *disk.wanted.lock().unwrap_or_else(PoisonError::into_inner));
            if wanted || is_due(&disk.sampled, now) {
                self.turn(&disk);
                any = true;
            }
        }
        if is_due(&self.memory_sampled, now) {
            self.sample_memory(buffers);
            any = true;
        }
        any
    }

    /// Tells of each level that is another one than was told last. Called after whatever may change one, and now and then,
    /// as a sample grows old by itself.
    pub(super) fn look(&self) {
        let telling = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.elapsed();
        let mut changed = false;
        for (at, disk) in self.disks().iter().enumerate() {
            let level = disk.monitor.gauge(now).level;
            let told = disk.told.swap(level as u8, Ordering::AcqRel);
            if told != level as u8 {
                let reading = disk.monitor.reading(now);
                let device = reading.dirs.first().cloned();
                self.tell(at + 1, LimitReason::Disk, device, level, reading.to_string());
                changed = true;
            }
        }
        let level = self.memory.gauge(now).level;
        if self.memory_told.swap(level as u8, Ordering::AcqRel) != level as u8 {
            let detail = self.memory.reading(now).to_string();
            self.tell(0, LimitReason::Memory, None, level, detail);
            changed = true;
        }
        drop(telling);
        if changed {
            self.board.wake();
            if let Some(pool) = self.pool() {
                // From soft on spares go, before anybody is refused for what they hold.
                pool.wake();
            }
        }
    }

    /// Has the sampler look at a device whose level is another one than was told: whoever is told runs code of its own, and
    /// the pool calls from under its locks.
    fn notice(&self, disk: &Disk) {
        let level = disk.monitor.gauge(self.clock.elapsed()).level;
        if disk.told.load(Ordering::Acquire) != level as u8 {
            disk.ring();
        }
    }

    fn tell(
        &self,
        subject: usize,
        reason: LimitReason,
        device: Option<std::path::PathBuf>,
        level: Level,
        detail: String,
    ) {
        match level {
            Level::Ok => tracing::info!(%reason, %level, detail, "pressure has eased"),
            _ => tracing::warn!(%reason, %level, detail, "pressure"),
        }
        let since_millis = self.clock.unix_millis();
        self.board.changed(subject, Attention { reason, device, level, since_millis, detail });
    }

    /// All gauges now. Reads memory only.
    pub(super) fn pressure(&self) -> Pressure {
        let now = self.clock.elapsed();
        let disks: Vec<_> = self.disks().iter().map(|disk| disk.monitor.reading(now)).collect();
        let memory = self.memory.reading(now);
        let level = disks.iter().map(|disk| disk.level).fold(memory.level, Level::max);
        Pressure { level, disks, memory }
    }

    pub(super) fn changes(self: &Arc<Self>) -> PressureChanges {
        PressureChanges::new(Arc::clone(self))
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.disks().iter().for_each(|disk| disk.ring());
        self.board.close();
    }
}

impl Ledger for Watch {
    fn begin(&self, device: u64, class: WriteClass, bytes: u64) -> Result<(), Limited> {
        let Some(disk) = self.disk(device) else { return Ok(()) };
        if planted::is(Fault::AllocatedWithoutAsking) {
            return Ok(());
        }
        let checked = self.has_effect() && !planted::is(Fault::AllocatedUnchecked);
        let refused_from = class.refused_from().filter(|_| checked);
        let keep_above = refused_from.unwrap_or(Level::Ok);
        let allowed = disk.monitor.allocate(keep_above, bytes);
        self.notice(&disk);
        allowed.map_err(|shortage| self.admission.refuse_file(&disk.monitor, class, &shortage))
    }

    fn ran_short(&self, device: u64, class: WriteClass, bytes: u64) {
        let Some(level) = class.refused_from() else { return };
        if let Some(disk) = self.disk(device) {
            disk.monitor.ran_short(level, bytes);
            self.notice(&disk);
        }
    }

    fn taken(&self, device: u64, bytes: u64) {
        if let Some(disk) = self.disk(device) {
            disk.monitor.allocated(bytes);
        }
    }

    fn ended(&self, device: u64, bytes: u64, taken: bool, made: Result<(), &io::Error>) {
        let Some(disk) = self.disk(device) else { return };
        match made {
            Ok(()) => {
                if !taken {
                    disk.monitor.allocated(bytes);
                }
                disk.monitor.space_again();
            }
            Err(error) => {
                if !taken {
                    disk.monitor.undo(bytes);
                }
                if is_no_space(error) {
                    disk.monitor.no_space();
                }
            }
        }
        // After a roll, and not only once a second.
        disk.ring();
    }

    fn is_short(&self, device: u64) -> bool {
        let gauge = self.disk(device).map(|disk| disk.monitor.gauge(self.clock.elapsed()));
        let short = gauge.is_some_and(|gauge| gauge.level >= Level::Soft && self.has_effect());
        short && !planted::is(Fault::SparesKeptWhenShort)
    }

    fn freed(&self, device: u64, bytes: u64, what: Freed) {
        let Some(disk) = self.disk(device) else { return };
        match what {
            Freed::Spare => disk.monitor.released_spares(bytes),
            Freed::File => disk.monitor.released(bytes),
        }
        self.notice(&disk);
    }
}
