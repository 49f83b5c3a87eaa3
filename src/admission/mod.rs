//! Who may append now: class and level of pressure give admit, delay or refuse.
//!
//! A permit is made only here and consumed by `append`, so no write goes round admission. Deciding never blocks and never
//! sleeps: who is delayed is told for how long, and waits.

mod hint;
mod stats;
mod verdict;

pub use stats::{AdmissionStats, ClassStats};

use crate::clock::Clock;
use crate::limits::{Limits, Size};
use crate::permit::{Decision, Gate, Grant, LimitReason, Limited, Permit, Waiting};
use crate::pressure::{DiskMonitor, DiskReading, MemoryMonitor, Shortage, millis};
use crate::types::{Level, WriteClass};
use hint::Bounds;
use stats::Counters;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use verdict::Verdict;

/// Bytes of batches of one log that may wait out a delay at a time; more is refused, as what waits holds memory.
const LOG_WAITING_MAX: u64 = 4 << 20;

/// The same for all logs of a node.
const NODE_WAITING_MAX: u64 = 64 << 20;

/// The gate of one node.
#[derive(Debug)]
pub(crate) struct Admission {
    clock: Arc<dyn Clock>,
    memory: Arc<MemoryMonitor>,
    counters: Counters,
    waiting: Arc<Waiting>,
    /// The delay at hard, in microseconds.
    max_delay: AtomicU64,
    bounds: Mutex<Bounds>,
    /// Numbers the refusals, for their spread.
    refusals: AtomicU64,
}

fn bounds(limits: &Limits) -> Bounds {
    Bounds { first: limits.retry.first, max: limits.retry.max }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Admission {
    /// `first` numbers the first refusal; it differs between nodes, so that their hints do too.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        memory: Arc<MemoryMonitor>,
        limits: &Limits,
        first: u64,
    ) -> Self {
        Self {
            clock,
            memory,
            counters: Counters::default(),
            waiting: Arc::default(),
            max_delay: AtomicU64::new(micros(limits.slow.max_delay)),
            bounds: Mutex::new(bounds(limits)),
            refusals: AtomicU64::new(first),
        }
    }

    pub(crate) fn set_limits(&self, limits: &Limits) {
        self.max_delay.store(micros(limits.slow.max_delay), Ordering::Relaxed);
        *self.bounds.lock().unwrap_or_else(PoisonError::into_inner) = bounds(limits);
    }

    pub(crate) fn stats(&self) -> AdmissionStats {
        self.counters.stats(self.waiting.bytes())
    }

    fn hint(&self, lasted: Duration) -> Duration {
        let bounds = *self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.refusals.fetch_add(1, Ordering::Relaxed);
        hint::spread(hint::base(bounds, lasted), number)
    }

    /// The refusal of a write at the level of its disk.
    fn refuse_for_disk(&self, disk: &DiskMonitor, class: WriteClass) -> Limited {
        let reading = disk.reading(self.clock.elapsed());
        let line = reading.thresholds.of(class.refused_from().unwrap_or(Level::Hard));
        let detail = reading.to_string();
        self.disk_limited(reading, class, line, detail)
    }

    /// The refusal of a new file that would take a disk down to that level. It is counted when somebody is refused for it: a
    /// file that was only to be there early is nobody's loss.
    pub(crate) fn refuse_file(
        &self,
        disk: &DiskMonitor,
        class: WriteClass,
        shortage: &Shortage,
    ) -> Limited {
        let reading = disk.reading(self.clock.elapsed());
        let (size, level) = (Size(shortage.bytes), shortage.keep_above);
        let then = if reading.level >= level { "is at" } else { "would then be at" };
        let detail = format!(
            "{reading}; the log needs a new file of {size}, and the device {then} level {level}"
        );
        self.disk_limited(reading, class, shortage.line, detail)
    }

    fn disk_limited(
        &self,
        reading: DiskReading,
        class: WriteClass,
        line: u64,
        detail: String,
    ) -> Limited {
        let hint = self.hint(reading.hard_for);
        let mut limited = Limited::new(LimitReason::Disk, class, reading.level, hint, detail);
        limited.free = Some(reading.free);
        limited.threshold = Some(line);
        limited.forecast = reading.hard_in;
        limited.device = reading.dirs.into_iter().next();
        limited
    }

    fn refuse_for_memory(&self, class: WriteClass) -> Limited {
        let reading = self.memory.reading(self.clock.elapsed());
        let hint = self.hint(reading.hard_for);
        let detail = reading.to_string();
        let mut limited = Limited::new(LimitReason::Memory, class, reading.level, hint, detail);
        limited.free = Some(reading.limit.saturating_sub(reading.used));
        limited.threshold = Some(reading.limit.saturating_sub(reading.hard));
        limited
    }
}

/// The gate of one log: the node's, with the log's device.
#[derive(Debug)]
pub(crate) struct LogGate {
    node: Arc<Admission>,
    disk: Arc<DiskMonitor>,
    waiting: Arc<Waiting>,
    /// For tests: it admits whatever the levels are.
    open: bool,
}

impl LogGate {
    pub(crate) fn new(node: Arc<Admission>, disk: Arc<DiskMonitor>) -> Self {
        Self { node, disk, waiting: Arc::default(), open: false }
    }

    pub(crate) fn open_to_all(self) -> Self {
        Self { open: true, ..self }
    }

    #[cold]
    fn refuse(&self, class: WriteClass, reason: LimitReason) -> Decision {
        let limited = match reason {
            LimitReason::Memory => self.node.refuse_for_memory(class),
            _ => self.node.refuse_for_disk(&self.disk, class),
        };
        self.refused(&limited);
        Decision::Refuse(limited)
    }

    fn delay(&self, grant: Grant, now: Duration, wait: Duration, reason: LimitReason) -> Decision {
        let node = &*self.node;
        let share = self.waiting.enter(grant.bytes, LOG_WAITING_MAX);
        let both =
            share.and_then(|log| Some((log, node.waiting.enter(grant.bytes, NODE_WAITING_MAX)?)));
        let Some(shares) = both else {
            let refused = self.refuse(grant.class, reason);
            let Decision::Refuse(mut limited) = refused else { return refused };
            // At soft nothing else would say why.
            let why = "as much as may wait out its delay does so already";
            limited.detail = format!("{}; {why}", limited.detail).into();
            return Decision::Refuse(limited);
        };
        node.counters.delayed(grant.class, reason, wait);
        Decision::Delay { wait, permit: Permit::new(grant, now.saturating_add(wait), Some(shares)) }
    }
}

impl Gate for LogGate {
    fn decide(&self, class: WriteClass, bytes: u64) -> Decision {
        let node = &*self.node;
        let now = node.clock.elapsed();
        let grant = Grant { class, bytes, device: self.disk.device() };
        let millis = millis(now);
        // Nearly always.
        if self.disk.is_ok(millis) && node.memory.is_ok(millis) || self.open {
            node.counters.admitted(class);
            return Decision::Admit(Permit::new(grant, now, None));
        }
        let (disk, memory) = (self.disk.gauge(now), node.memory.gauge(now));
        let max_delay = Duration::from_micros(node.max_delay.load(Ordering::Relaxed));
        match verdict::verdict(class, disk, memory, max_delay) {
            Verdict::Admit => {
                node.counters.admitted(class);
                Decision::Admit(Permit::new(grant, now, None))
            }
            Verdict::Delay(wait, reason) => self.delay(grant, now, wait, reason),
            Verdict::Refuse(reason) => self.refuse(class, reason),
        }
    }

    fn refused(&self, limited: &Limited) {
        self.node.counters.refused(limited.class, limited.reason);
    }

    fn device(&self) -> u64 {
        self.disk.device()
    }

    fn wait(&self, delay: Duration) {
        self.node.clock.sleep(delay);
    }
}
