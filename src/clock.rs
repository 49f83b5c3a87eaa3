//! Time, through a trait: elapsed time from `CLOCK_BOOTTIME`, stamps from the wall clock.
//!
//! `CLOCK_BOOTTIME` goes on while the machine sleeps and never steps, see `clock_gettime(2)`.

use std::fmt::Debug;
use std::time::Duration;

/// Where the engine takes time from.
pub trait Clock: Debug + Send + Sync {
    /// Time since some fixed point of this boot. Never goes back.
    fn elapsed(&self) -> Duration;

    /// Wall-clock milliseconds since the Unix epoch. May step in both directions.
    fn unix_millis(&self) -> u64;

    /// Blocks the calling thread for about `time`.
    fn sleep(&self, time: Duration);
}

/// One reading of a clock, for each append: no more instructions than it takes.
#[inline]
#[allow(clippy::disallowed_methods, reason = "the room that owns the clocks")]
fn read(clock: libc::clockid_t) -> Option<Duration> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours, which lives for the whole call.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut now) };
    #[allow(clippy::cast_possible_truncation, reason = "below a thousand million")]
    let nanos = now.tv_nsec.cast_unsigned() as u32;
    (answer == 0).then(|| Duration::new(now.tv_sec.cast_unsigned(), nanos))
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the room that owns the clocks")]
    fn elapsed(&self) -> Duration {
        // Fails only for a clock that the kernel does not have; boot time is in Linux since 2.6.39.
        read(libc::CLOCK_BOOTTIME).or_else(|| read(libc::CLOCK_MONOTONIC)).unwrap_or_default()
    }

    #[allow(clippy::disallowed_methods, reason = "the room that owns the clocks")]
    fn unix_millis(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    #[allow(clippy::disallowed_methods, reason = "the room that owns the clocks")]
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// A clock that stands still until it is moved; for tests and the simulator.
#[cfg(feature = "sim")]
#[derive(Debug, Default)]
pub struct ManualClock {
    elapsed: std::sync::atomic::AtomicU64,
    wall: std::sync::atomic::AtomicU64,
}

#[cfg(feature = "sim")]
impl ManualClock {
    /// A clock that shows `unix_millis`.
    #[must_use]
    pub fn new(unix_millis: u64) -> Self {
        let clock = Self::default();
        clock.set_wall(unix_millis);
        clock
    }

    /// Lets both clocks go on by `by` (to the nanosecond and to the millisecond).
    pub fn advance(&self, by: Duration) {
        use std::sync::atomic::Ordering::Relaxed;
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.elapsed.fetch_add(nanos, Relaxed);
        self.wall.fetch_add(millis, Relaxed);
    }

    /// Steps the wall clock, and only that, as NTP or an operator may.
    pub fn set_wall(&self, unix_millis: u64) {
        self.wall.store(unix_millis, std::sync::atomic::Ordering::Relaxed);
    }
}

#[cfg(feature = "sim")]
impl Clock for ManualClock {
    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed.load(std::sync::atomic::Ordering::Relaxed))
    }

    fn unix_millis(&self) -> u64 {
        self.wall.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Simulated time passes at once.
    fn sleep(&self, time: Duration) {
        self.advance(time);
    }
}
