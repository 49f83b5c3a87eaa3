//! See [`MemoryMonitor`].

use super::level::{Held, Lines};
use super::reading::{LimitFrom, MemoryReading, MemoryReason};
use super::{GroupMemory, MemorySample, MemorySource};
use crate::clock::Clock;
use crate::limits::{Limits, MemoryLimits, Size};
use crate::pressure::gauge::{Gauge, GaugeCell, is_old};
use crate::pressure::since::Since;
use crate::types::{Fraction, Level};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What of physical memory is taken for the limit where nothing else is one.
const OF_PHYSICAL: Fraction = Fraction::percent(60);

/// The pressure of memory.
///
/// Only [`MemoryMonitor::sample`] reads files; it holds no lock meanwhile. [`MemoryMonitor::gauge`] and
/// [`MemoryMonitor::set_buffers`] take none at all.
#[derive(Debug)]
pub struct MemoryMonitor {
    source: Arc<dyn MemorySource>,
    clock: Arc<dyn Clock>,
    gauge: GaugeCell,
    /// Buffers now, and at the last sample: what they grew by since is in no sample.
    buffers: AtomicU64,
    sampled: Sampled,
    state: Mutex<State>,
}

/// The last sample, for whoever holds no lock. A reader may see two of them mixed, for one answer.
#[derive(Debug)]
struct Sampled {
    buffers: AtomicU64,
    used: AtomicU64,
    soft: AtomicU64,
    hard: AtomicU64,
}

#[derive(Debug)]
struct State {
    limits: MemoryLimits,
    /// A start-up field: later limits do not change it.
    limit: Option<Size>,
    /// When it was begun, and what it gave.
    sample: Option<(Duration, MemorySample)>,
    bound: Option<Bound>,
    lines: Lines,
    held: Held,
    failed: Option<MemoryReason>,
    since: Since,
}

/// What use is held against.
#[derive(Clone, Debug)]
struct Bound {
    used: u64,
    limit: u64,
    from: LimitFrom,
}

/// The limit that is nearest: a configured one adds to those of groups and cannot lift them, as the kernel would not care.
fn bound(sample: &MemorySample, configured: Option<Size>) -> Bound {
    let physical = if sample.physical > 0 { sample.physical } else { u64::MAX };
    let configured = configured.map(|Size(limit)| GroupMemory {
        used: sample.process,
        limit: limit.min(physical),
        file: String::new(),
    });
    match (&sample.group, configured) {
        (Some(group), configured)
            if !configured.as_ref().is_some_and(|own| own.nearer_than(group)) =>
        {
            Bound {
                used: group.used,
                limit: group.limit,
                from: LimitFrom::Group(group.file.clone()),
            }
        }
        (_, Some(own)) => Bound { used: own.used, limit: own.limit, from: LimitFrom::Configured },
        _ => {
            let limit = OF_PHYSICAL.of(physical);
            Bound { used: sample.process, limit, from: LimitFrom::Physical }
        }
    }
}

impl State {
    fn judge(&self, now: Duration) -> (Gauge, MemoryReason) {
        let level = self.held.level;
        let unknown = match &self.sample {
            _ if self.failed.is_some() => self.failed.clone(),
            None => Some(MemoryReason::NoSample),
            Some((begun, _)) => is_old(*begun, now).then_some(MemoryReason::SampleOld),
        };
        if let Some(reason) = unknown {
            return (Gauge::unknown(level), reason);
        }
        let used = self.bound.as_ref().map_or(0, |bound| bound.used);
        match level {
            Level::Ok => (Gauge::default(), MemoryReason::Enough),
            Level::Soft => {
                (Gauge { level, permille: self.lines.permille(used) }, MemoryReason::Used)
            }
            _ => (Gauge { level, permille: 1000 }, MemoryReason::Used),
        }
    }
}

impl MemoryMonitor {
    /// A monitor that has not looked yet: until the first sample memory counts as soft.
    #[must_use]
    pub fn new(source: Arc<dyn MemorySource>, clock: Arc<dyn Clock>, limits: &Limits) -> Self {
        let state = State {
            limits: limits.memory,
            limit: limits.memory.limit,
            sample: None,
            bound: None,
            lines: Lines::default(),
            held: Held::default(),
            failed: None,
            since: Since::new(clock.unix_millis()),
        };
        let far = || AtomicU64::new(u64::MAX);
        let (buffers, used) = (AtomicU64::new(0), AtomicU64::new(0));
        let sampled = Sampled { buffers, used, soft: far(), hard: far() };
        let (gauge, buffers) = (GaugeCell::default(), AtomicU64::new(0));
        Self { source, clock, gauge, buffers, sampled, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The debit: growth since the sample may lift the level before the next one, and never lowers it.
    fn with_growth(&self, gauge: Gauge) -> Gauge {
        let used = self.used_now();
        let [soft, hard] = [&self.sampled.soft, &self.sampled.hard].map(|line| line.load(Relaxed));
        let lines = Lines { soft, hard, clear: 0 };
        let level = lines.begun(used);
        let permille = if level == Level::Ok { 0 } else { lines.permille(used) };
        gauge.max(Gauge { level, permille })
    }

    fn used_now(&self) -> u64 {
        let grown = self.buffers.load(Relaxed).saturating_sub(self.sampled.buffers.load(Relaxed));
        self.sampled.used.load(Relaxed).saturating_add(grown)
    }

    fn publish(&self, state: &mut State) -> Gauge {
        let now = self.clock.elapsed();
        let (gauge, reason) = state.judge(now);
        self.gauge.set(gauge, state.sample.as_ref().map(|(begun, _)| *begun));
        let seen = self.with_growth(gauge);
        // That nothing is known before the first sample is no change.
        if reason != MemoryReason::NoSample {
            state.since.note(seen.level, now, self.clock.unix_millis());
        }
        seen
    }

    /// Looks at memory, and gives the level that follows. Blocks for as long as the kernel takes.
    pub fn sample(&self) -> Level {
        let (begun, buffers) = (self.clock.elapsed(), self.buffers.load(Relaxed));
        let answer = self.source.read();
        let mut state = self.state();
        let newest = state.sample.as_ref().is_none_or(|(newest, _)| *newest <= begun);
        match answer {
            // A call that began before the last good one says nothing new.
            _ if !newest => {}
            Ok(sample) => {
                let said = state.sample.as_ref().and_then(|(_, sample)| sample.warning.clone());
                if let Some(warning) =
                    sample.warning.as_ref().filter(|new| said.as_ref() != Some(*new))
                {
                    tracing::warn!(warning, "memory: a limit or its use cannot be read");
                }
                let bound = bound(&sample, state.limit);
                state.failed = None;
                state.lines = Lines::of(&state.limits, bound.limit);
                state.held = state.held.next(bound.used, &state.lines, begun, state.limits.hold);
                self.sampled.buffers.store(buffers, Relaxed);
                self.sampled.used.store(bound.used, Relaxed);
                self.sampled.soft.store(state.lines.soft, Relaxed);
                self.sampled.hard.store(state.lines.hard, Relaxed);
                state.bound = Some(bound);
                state.sample = Some((begun, sample));
            }
            Err(error) => {
                let (errno, text) = (error.raw_os_error(), error.to_string());
                state.failed = Some(MemoryReason::SampleFailed { errno, text });
            }
        }
        self.publish(&mut state).level
    }

    /// Tells how many bytes the node's buffers hold now. What they grew by since the last sample counts as used.
    pub fn set_buffers(&self, bytes: u64) {
        self.buffers.store(bytes, Relaxed);
    }

    /// The level now, at [`Clock::elapsed`] `now`. Takes no lock: a few loads, for each append.
    #[must_use]
    pub fn gauge(&self, now: Duration) -> Gauge {
        self.with_growth(self.gauge.get(now))
    }

    /// Whether the level is ok, at so many milliseconds.
    #[inline]
    pub(crate) fn is_ok(&self, now_millis: u64) -> bool {
        self.gauge.is_ok(now_millis) && self.used_now() < self.sampled.soft.load(Relaxed)
    }

    /// Other limits from now on, which [`Limits::changed_live`] has passed; `limits.memory.limit` stays what it was.
    pub fn set_limits(&self, limits: &Limits) {
        let mut state = self.state();
        state.limits = limits.memory;
        if let Some(bound) = state.bound.clone() {
            state.lines = Lines::of(&state.limits, bound.limit);
            let now = self.clock.elapsed();
            state.held = state.held.next(bound.used, &state.lines, now, state.limits.hold);
            self.sampled.soft.store(state.lines.soft, Relaxed);
            self.sampled.hard.store(state.lines.hard, Relaxed);
        }
        self.publish(&mut state);
    }

    /// All that is known of memory, at [`Clock::elapsed`] `now`.
    #[must_use]
    pub fn reading(&self, now: Duration) -> MemoryReading {
        let mut state = self.state();
        self.publish(&mut state);
        let (gauge, mut reason) = state.judge(now);
        let seen = self.with_growth(gauge);
        if seen.level > gauge.level {
            reason = MemoryReason::Used;
        }
        let bound = state.bound.clone();
        let (sample, begun) = match &state.sample {
            Some((begun, sample)) => (sample.clone(), Some(*begun)),
            None => (MemorySample::default(), None),
        };
        MemoryReading {
            level: seen.level,
            permille: seen.permille,
            reason,
            since_unix_millis: state.since.unix_millis(),
            hard_for: state.since.hard_for(now),
            used: self.used_now(),
            limit: bound.as_ref().map_or(0, |bound| bound.limit),
            limit_from: bound.map(|bound| bound.from).unwrap_or_default(),
            soft: state.lines.soft,
            hard: state.lines.hard,
            clear: state.lines.clear,
            process: sample.process,
            physical: sample.physical,
            buffers: self.buffers.load(Relaxed),
            age: begun.map(|begun| now.saturating_sub(begun)),
            warning: sample.warning,
        }
    }
}
