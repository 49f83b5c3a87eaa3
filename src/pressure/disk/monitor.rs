//! See [`DiskMonitor`].

use super::account::Account;
use super::reading::{DiskReading, DiskReason, Shortage};
use crate::clock::Clock;
use crate::fs::{FileSystem, Space};
use crate::limits::Limits;
use crate::planted::{self, Fault};
use crate::pressure::forecast::Forecast;
use crate::pressure::gauge::{Gauge, GaugeCell, is_old};
use crate::pressure::hysteresis::{next, permille};
use crate::pressure::since::Since;
use crate::pressure::thresholds::Thresholds;
use crate::types::Level;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The pressure of one device (`st_dev`), whichever data directories are on it.
///
/// Only [`DiskMonitor::sample`] makes a call to the disk, and may hang in it; it holds no lock meanwhile. All others are
/// short, and [`DiskMonitor::gauge`] takes no lock at all.
#[derive(Debug)]
pub struct DiskMonitor {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    device: u64,
    clock: Arc<dyn Clock>,
    main_file: u64,
    gauge: GaugeCell,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limits: Limits,
    dirs: Vec<PathBuf>,
    account: Account,
    lines: Thresholds,
    inode_lines: Option<Thresholds>,
    /// By bytes alone, and by inodes alone, as of the last sample and the debits since.
    bytes: Level,
    inodes: Level,
    /// A file of so many bytes was refused, to keep the device above this level.
    short_of: Option<(u64, Level)>,
    /// Why the last call failed, if it did.
    failed: Option<DiskReason>,
    /// An allocation found no room, and none has succeeded since.
    no_space: bool,
    forecast: Forecast,
    since: Since,
}

/// A [`DiskReason::SampleFailed`].
fn failed(error: &io::Error) -> DiskReason {
    DiskReason::SampleFailed { errno: error.raw_os_error(), text: error.to_string() }
}

impl State {
    /// What follows from the books as they are now.
    fn judge(&mut self, now: Duration) -> (Gauge, DiskReason) {
        if let Some(free) = self.account.free(now) {
            self.bytes = self.by_bytes(free);
        }
        self.inodes = match (self.account.free_inodes(), &self.inode_lines) {
            (Some(free), Some(lines)) => next(self.inodes, free, lines),
            _ => Level::Ok,
        };
        let known = self.bytes.max(self.inodes);
        let unknown = match self.account.sample() {
            _ if self.failed.is_some() => self.failed.clone(),
            None => Some(DiskReason::NoSample),
            Some(sample) => is_old(sample.begun, now).then_some(DiskReason::SampleOld),
        };
        let (gauge, reason) = match unknown {
            Some(reason) => (Gauge::unknown(known), reason),
            None => (self.position(known, now), self.known_reason()),
        };
        // It is a fact, whatever the samples say (a quota is in none of them), and so is a worse level.
        if self.no_space && gauge.level <= Level::Hard {
            return (Gauge { level: Level::Hard, permille: 1000 }, DiskReason::NoSpace);
        }
        (gauge, reason)
    }

    /// The level at `free`. What was refused counts as if it had been made, until there is room for it: else the level would
    /// be soft for as long as nothing fits.
    fn by_bytes(&mut self, free: u64) -> Level {
        let level = next(self.bytes, free, &self.lines);
        let Some((bytes, refused_at)) = self.short_of else { return level };
        let with = next(self.bytes, free.saturating_sub(bytes), &self.lines).min(refused_at);
        if level > Level::Ok && with >= refused_at {
            return level.max(with);
        }
        self.short_of = None;
        level
    }

    fn position(&self, level: Level, now: Duration) -> Gauge {
        let permille = match level {
            Level::Ok => 0,
            Level::Soft => {
                let bytes = self.account.free(now).map_or(0, |free| permille(free, &self.lines));
                let inodes = self.account.free_inodes().zip(self.inode_lines.as_ref());
                bytes.max(inodes.map_or(0, |(free, lines)| permille(free, lines)))
            }
            Level::Hard | Level::Reserve => 1000,
        };
        Gauge { level, permille }
    }

    fn known_reason(&self) -> DiskReason {
        match (self.bytes, self.inodes) {
            (Level::Ok, Level::Ok) => DiskReason::Enough,
            (bytes, inodes) if bytes >= inodes => DiskReason::Bytes,
            _ => DiskReason::Inodes,
        }
    }

    fn draw_lines(&mut self, main_file: u64) {
        if let Some(sample) = self.account.sample() {
            // Of the whole size, an empty btrfs would be short for ever once metadata has been given most of it.
            let most = sample.space.attainable();
            self.lines = Thresholds::of_bytes(&self.limits, most, main_file);
            self.inode_lines = Thresholds::of_inodes(&self.limits, sample.space.inodes);
        }
    }
}

impl DiskMonitor {
    /// A monitor of the device that `dir` is on. It makes no call yet: until the first sample the device counts as soft.
    ///
    /// `main_file` is the size in bytes of the largest segment files there.
    #[must_use]
    pub fn new(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        device: u64,
        clock: Arc<dyn Clock>,
        main_file: u64,
        limits: &Limits,
    ) -> Self {
        let since = Since::new(clock.unix_millis());
        let state = State {
            limits: limits.clone(),
            dirs: vec![dir.to_path_buf()],
            account: Account::default(),
            lines: Thresholds::default(),
            inode_lines: None,
            bytes: Level::Ok,
            inodes: Level::Ok,
            short_of: None,
            failed: None,
            no_space: false,
            forecast: Forecast::default(),
            since,
        };
        let (dir, gauge) = (dir.to_path_buf(), GaugeCell::default());
        Self { fs, dir, device, clock, main_file, gauge, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Judges the books as they are, shows it to whoever reads the gauge, and notes a change.
    fn publish(&self, state: &mut State) -> Gauge {
        let now = self.clock.elapsed();
        let (gauge, reason) = state.judge(now);
        self.gauge.set(gauge, state.account.sample().map(|sample| sample.begun));
        // That nothing is known before the first sample is no change.
        if reason != DiskReason::NoSample {
            state.since.note(gauge.level, now, self.clock.unix_millis());
        }
        gauge
    }

    /// Asks for free space, and gives the level that follows. Blocks for as long as the file system takes.
    ///
    /// `reclaimable` gives the bytes of spares that could be released now; they count as free. Two calls may run at a time.
    pub fn sample(&self, reclaimable: impl FnOnce() -> u64) -> Level {
        let mark = self.state().account.mark(self.clock.elapsed());
        // Asked for after the mark: spares that are released from there on are taken off.
        let reclaimable = reclaimable();
        let answer = self.fs.space(&self.dir);
        let mut state = self.state();
        match answer {
            // Thresholds of nothing say nothing, and its free space says that it is full.
            Ok(space) if space.total == 0 => {
                let text = "the file system says that it has 0 bytes in all".to_owned();
                state.failed = Some(DiskReason::SampleFailed { errno: None, text });
            }
            Ok(space) => {
                let before = state.account.sample().map(|sample| sample.space.total);
                if state.account.take(mark, space, reclaimable) {
                    state.failed = None;
                    state.draw_lines(self.main_file);
                    if before.is_some_and(|total| total != space.total) {
                        state.forecast.forget();
                    }
                    let free = state.account.free(self.clock.elapsed()).unwrap_or(0);
                    state.forecast.note(mark.begun, free);
                }
            }
            // A call that began before the last good one says nothing new.
            Err(error) => {
                if state.account.sample().is_none_or(|sample| sample.begun <= mark.begun) {
                    state.failed = Some(failed(&error));
                }
            }
        }
        self.publish(&mut state).level
    }

    /// Asks for room for a file of `bytes`, before it is allocated, and takes it off what is free: the check and the debit
    /// are one step, so that two who ask at a time cannot both have the last of it.
    ///
    /// What is left must stay above the line of `keep_above`; with [`Level::Ok`] nothing is checked. What follows is to be
    /// told, with [`DiskMonitor::allocated`] or [`DiskMonitor::undo`]: until then it counts, whatever samples show.
    ///
    /// # Errors
    /// [`Shortage`]: nothing was debited, and nothing is to be allocated. Also before the first sample, unless with
    /// [`Level::Ok`].
    pub fn allocate(&self, keep_above: Level, bytes: u64) -> Result<(), Shortage> {
        let mut state = self.state();
        if keep_above > Level::Ok {
            let free = state.account.free(self.clock.elapsed()).unwrap_or(0);
            let line = state.lines.of(keep_above);
            let inode_line = state.inode_lines.map_or(0, |lines| lines.of(keep_above));
            let inodes = state.account.free_inodes().unwrap_or(0);
            let left = free.saturating_sub(bytes) > line;
            let inodes_left = state.inode_lines.is_none() || inodes.saturating_sub(1) > inode_line;
            let held = state.no_space && keep_above <= Level::Hard;
            if !left || !inodes_left || held {
                return Err(Shortage { bytes, free, line, inodes, inode_line, keep_above, held });
            }
        }
        state.account.debit(bytes);
        if !planted::is(Fault::LevelNotRecheckedAtDebit) {
            self.publish(&mut state);
        }
        Ok(())
    }

    /// An allocation of `bytes` that [`DiskMonitor::allocate`] had allowed has taken them: it counts until the next sample.
    pub fn allocated(&self, bytes: u64) {
        let mut state = self.state();
        state.account.ended(bytes);
        self.publish(&mut state);
    }

    /// Somebody was refused a file of `bytes`: what is left above the line of `level` is too little for it. The device has
    /// that level from now on, and until there is room for such a file and the margin, so that it is seen why publishes are
    /// refused, and that hints grow while they are.
    pub fn ran_short(&self, level: Level, bytes: u64) {
        let mut state = self.state();
        let free = state.account.free(self.clock.elapsed()).unwrap_or(0);
        if free.saturating_sub(bytes) <= state.lines.of(level) {
            let known = state.short_of.map_or(0, |(bytes, _)| bytes);
            state.short_of = Some((bytes.max(known), level));
        } else {
            // Then it was for want of inodes.
            state.inodes = state.inodes.max(level);
        }
        self.publish(&mut state);
    }

    /// An allocation of `bytes` that [`DiskMonitor::allocate`] had allowed took nothing.
    pub fn undo(&self, bytes: u64) {
        let mut state = self.state();
        state.account.undo(bytes);
        self.publish(&mut state);
    }

    /// Files of `bytes` in all were deleted that were no spares. They count as free until a sample shows them, 5 s at most.
    pub fn released(&self, bytes: u64) {
        self.release(bytes, 0);
    }

    /// As [`DiskMonitor::released`], for spares, which counted as free already as long as they were reclaimable.
    pub fn released_spares(&self, bytes: u64) {
        self.release(bytes, bytes);
    }

    fn release(&self, bytes: u64, spares: u64) {
        let mut state = self.state();
        state.account.release(self.clock.elapsed(), bytes, spares);
        self.publish(&mut state);
    }

    /// An allocation found no room (`ENOSPC`, `EDQUOT`): holds the device at hard, whatever the samples say, until
    /// [`DiskMonitor::space_again`].
    pub fn no_space(&self) {
        self.hold(true);
    }

    /// An allocation succeeded.
    pub fn space_again(&self) {
        self.hold(false);
    }

    fn hold(&self, no_space: bool) {
        let mut state = self.state();
        state.no_space = no_space;
        self.publish(&mut state);
    }

    /// Whether the device is held at hard since an allocation found no room: then one is to be tried once a second.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.state().no_space
    }

    /// The level now, at [`Clock::elapsed`] `now`. Takes no lock: one load, for each append.
    #[must_use]
    pub fn gauge(&self, now: Duration) -> Gauge {
        self.gauge.get(now)
    }

    /// Whether the level is ok, at so many milliseconds.
    #[inline]
    pub(crate) fn is_ok(&self, now_millis: u64) -> bool {
        self.gauge.is_ok(now_millis)
    }

    /// The device (`st_dev`).
    #[must_use]
    pub fn device(&self) -> u64 {
        self.device
    }

    /// What the last sample said, as it said it.
    #[must_use]
    pub fn space(&self) -> Option<Space> {
        self.state().account.sample().map(|sample| sample.space)
    }

    /// Another data directory on this device, to be shown. Free space is that of the device and is not counted again.
    pub fn add_dir(&self, dir: &Path) {
        let mut state = self.state();
        if !state.dirs.iter().any(|known| known == dir) {
            state.dirs.push(dir.to_path_buf());
        }
    }

    /// Other limits from now on, which [`Limits::check`] has passed.
    pub fn set_limits(&self, limits: &Limits) {
        let mut state = self.state();
        state.limits = limits.clone();
        state.draw_lines(self.main_file);
        self.publish(&mut state);
    }

    /// All that is known of the device, at [`Clock::elapsed`] `now`.
    #[must_use]
    pub fn reading(&self, now: Duration) -> DiskReading {
        let mut state = self.state();
        self.publish(&mut state);
        let (gauge, reason) = state.judge(now);
        let sample = state.account.sample();
        let nothing = Space::default();
        let space = sample.map_or(nothing, |sample| sample.space);
        DiskReading {
            device: self.device,
            dirs: state.dirs.clone(),
            level: gauge.level,
            permille: gauge.permille,
            reason,
            since_unix_millis: state.since.unix_millis(),
            hard_for: state.since.hard_for(now),
            total: space.total,
            available: space.available,
            withheld: space.withheld,
            free: state.account.free(now).unwrap_or(0),
            thresholds: state.lines,
            reclaimable: state.account.reclaimable(),
            released: state.account.unseen(now),
            debited: state.account.debited(),
            inodes: space.inodes,
            inodes_available: state.account.free_inodes().unwrap_or(0),
            inode_thresholds: state.inode_lines,
            hard_in: state.forecast.until(state.lines.hard),
            age: sample.map(|sample| now.saturating_sub(sample.begun)),
            no_space: state.no_space,
        }
    }
}
