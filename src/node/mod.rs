//! The node: the owner of data directories. It opens logs, and owns the threads that work for them.

mod board;
mod builder;
mod data_dir;
mod hub;
mod options;
mod pressure;
mod private;
mod stats;
mod threads;

pub use board::{Attention, PressureChanges};
pub use builder::NodeBuilder;
pub use options::NodeOptions;
pub use pressure::Pressure;
pub use private::PrivateLog;
pub use stats::NodeStats;

use crate::clock::Clock;
use crate::error::{DiskContext, DiskError, OpenError, Stopped};
use crate::format::name::LogName;
use crate::fs::FileSystem;
use crate::limits::{Limits, LimitsError};
use crate::log::{BufferPool, CommitCounts, Indexes, Log, LogOptions, Parts, RecentBudget, Shared};
use crate::planted::{self, Fault};
use crate::pool::{SparePool, Step};
use crate::segment::Files;
use crate::types::SizeClass;
use data_dir::DataDir;
use hub::{Hub, Job};
use pressure::{Disk, Watch};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use threads::Threads;

/// How many idle logs get their checkpoint in one turn of the worker, so that a sync of theirs does not stand before
/// those of busy logs.
const CHECKPOINTS_A_TURN: usize = 16;

type Slot = Arc<Mutex<Option<Log>>>;

#[derive(Debug)]
struct Inner {
    dirs: Vec<DataDir>,
    pool: Arc<SparePool>,
    options: NodeOptions,
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    files: Arc<Files>,
    buffers: Arc<BufferPool>,
    indexes: Arc<Indexes>,
    counts: Arc<CommitCounts>,
    recent: Arc<RecentBudget>,
    hub: Arc<Hub>,
    watch: Arc<Watch>,
    /// Open logs by name; a slot is locked while its log is being opened, so that others are not held up.
    slots: Mutex<BTreeMap<LogName, Slot>>,
    closed: AtomicBool,
    /// Whether it has threads, or is moved by steps.
    threads: bool,
    /// Which log the worker looks at next.
    turn: AtomicUsize,
}

/// The owner of one or more data directories. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Node {
    inner: Arc<Inner>,
    threads: Arc<Mutex<Threads>>,
}

impl Inner {
    fn slots(&self) -> MutexGuard<'_, BTreeMap<LogName, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on a log's slot while nobody else opens or deletes that log. An empty slot goes when nobody is left
    /// who waits for it.
    fn with_slot<T>(&self, name: &LogName, work: impl FnOnce(&mut Option<Log>) -> T) -> T {
        let slot = Arc::clone(self.slots().entry(name.clone()).or_default());
        let result = work(&mut slot.lock().unwrap_or_else(PoisonError::into_inner));
        let mut slots = self.slots();
        // Two: the map's and this one. Whoever else wants the slot takes it under the map's lock.
        let unused =
            Arc::strong_count(&slot) == 2 && slot.try_lock().is_ok_and(|open| open.is_none());
        if unused {
            slots.remove(name);
        }
        result
    }

    /// A log and a folder cannot have one name. On disk a log without records is only a directory, so the open ones are
    /// asked: a record in it later would make both unreadable.
    fn check_neighbours(&self, name: &LogName) -> Result<(), OpenError> {
        let taken = |reason: String| OpenError::NameTaken { name: name.clone(), reason };
        // Busy is being opened or deleted by somebody else.
        let is_open = |slot: &Slot| slot.try_lock().map_or(true, |open| open.is_some());
        let slots = self.slots();
        let text = name.as_str();
        for (at, _) in text.match_indices('/') {
            if slots.get(&text[..at]).is_some_and(is_open) {
                return Err(taken(format!("{} is a log", &text[..at])));
            }
        }
        let below = format!("{text}/");
        let from = (std::ops::Bound::Included(below.as_str()), std::ops::Bound::Unbounded);
        let mut inner =
            slots.range::<str, _>(from).take_while(|(other, _)| other.as_str().starts_with(&below));
        match inner.find(|(_, slot)| is_open(slot)) {
            Some((inner, _)) => {
                Err(taken(format!("it is a folder of other logs, {inner} among them")))
            }
            None => Ok(()),
        }
    }

    fn check_open(&self) -> Result<(), OpenError> {
        if self.closed.load(Ordering::Acquire) { Err(OpenError::Closed) } else { Ok(()) }
    }

    /// All open logs.
    fn open_logs(&self) -> Vec<Log> {
        let slots: Vec<Slot> = self.slots().values().cloned().collect();
        // A log that is being opened now needs nothing of the worker yet.
        slots.iter().filter_map(|slot| slot.try_lock().ok()?.clone()).collect()
    }

    /// One turn of the worker: checkpoints of idle logs, files whose last reader has left, the trash.
    fn take_turn(&self) {
        let logs = self.open_logs();
        let from = self.turn.load(Ordering::Relaxed) % logs.len().max(1);
        let mut left = CHECKPOINTS_A_TURN;
        let in_turn = logs[from..].iter().chain(&logs[..from]);
        for (at, log) in in_turn.enumerate() {
            let shared = log.shared();
            if shared.wants_checkpoint(self.options.idle_checkpoint) {
                if let Err(error) = shared.checkpoint() {
                    tracing::warn!(log = %log.name(), %error, "no checkpoint");
                }
                left = left.saturating_sub(1);
            }
            if shared.wants_swap(self.options.idle_checkpoint) {
                if let Err(error) = shared.swap_for_tiny(self.options.idle_checkpoint) {
                    tracing::warn!(log = %log.name(), %error, "no tiny file in the place of a large one");
                }
                left = left.saturating_sub(1);
            }
            match shared.give_up_retired() {
                // Once, and not four times a second for each log.
                Err(error) if !shared.told_retired.swap(true, Ordering::Relaxed) => {
                    tracing::warn!(log = %log.name(), %error, "truncated files are still there");
                }
                Err(_) => {}
                Ok(()) => shared.told_retired.store(false, Ordering::Relaxed),
            }
            if left == 0 {
                self.turn.store(from + at + 1, Ordering::Relaxed);
                break;
            }
        }
        for dir in &self.dirs {
            if let Err(error) = dir.empty_trash(&*self.fs) {
                tracing::warn!(%error, "the trash is not empty");
            }
        }
        // A sample that does not come grows old by itself.
        self.watch.set_buffers(self.buffers.bytes());
        self.watch.look();
    }

    /// Starts the thread that samples a device. Nobody waits for its end: it may hang in a call for as long as the device
    /// does.
    #[allow(clippy::disallowed_methods, reason = "the room that owns the threads")]
    fn start_sampler(&self, disk: &Arc<Disk>) -> Result<(), OpenError> {
        if !Watch::begins(disk) {
            return Ok(());
        }
        let (watch, disk) = (Arc::clone(&self.watch), Arc::clone(disk));
        let thread = std::thread::Builder::new().name("plimsoll-disk".to_owned());
        let started = thread.spawn(move || watch.run_sampler(&disk));
        let path = self.dirs.first().map_or(Path::new(""), |dir| &dir.path);
        Ok(started.map(drop).disk("start a thread for", path)?)
    }

    fn parts(&self, name: &LogName, dir: &DataDir, log_dir: PathBuf) -> Result<Parts, OpenError> {
        // A log may be on a mount of its own.
        let main_file = dir.source.sizes().of(SizeClass::Main);
        let disk = self.watch.watch(&log_dir, main_file).disk("look at", &log_dir)?;
        if self.threads {
            self.start_sampler(&disk)?;
        }
        Ok(Parts {
            lock: dir.lock()?,
            name: name.clone(),
            dir: log_dir,
            fs: Arc::clone(&self.fs),
            clock: Arc::clone(&self.clock),
            source: Arc::clone(&dir.source),
            files: Arc::clone(&self.files),
            buffers: Arc::clone(&self.buffers),
            indexes: Arc::clone(&self.indexes),
            helper: Arc::clone(&self.hub) as Arc<dyn crate::log::Helper>,
            gate: Arc::new(self.watch.gate(&disk)),
            record_max: self.options.record_max,
            gather: self.options.gather,
            direct: self.options.direct_writes,
            counts: Arc::clone(&self.counts),
            recent: Arc::clone(&self.recent),
        })
    }

    /// Finds the log's directory, or makes it in the data directory that the options name.
    fn find(
        &self,
        name: &LogName,
        options: &LogOptions,
    ) -> Result<(&DataDir, PathBuf, Vec<PathBuf>), OpenError> {
        for dir in &self.dirs {
            if let Some((log_dir, parents)) = dir.log_dir(&*self.fs, name, false)? {
                return Ok((dir, log_dir, parents));
            }
        }
        if !options.create {
            return Err(OpenError::Missing(name.clone()));
        }
        let dir = self.dirs.get(options.data_dir).ok_or_else(|| OpenError::Setting {
            field: "data_dir",
            reason: format!("the node has {} data directories", self.dirs.len()),
        })?;
        match dir.log_dir(&*self.fs, name, true)? {
            Some((log_dir, parents)) => Ok((dir, log_dir, parents)),
            None => Err(OpenError::Missing(name.clone())),
        }
    }
}

impl Node {
    /// Opens a node over one data directory with the machine's file system and clock. See [`NodeBuilder::open`].
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(dir: impl Into<PathBuf>, options: NodeOptions) -> Result<Self, OpenError> {
        Self::builder(dir).options(options).open()
    }

    /// A builder over one data directory.
    pub fn builder(dir: impl Into<PathBuf>) -> NodeBuilder {
        NodeBuilder::new(dir.into())
    }

    /// Opens a log, recovering it if it is not open yet. A log that has failed is opened anew. Blocks on the disk.
    ///
    /// A log with damage is opened too: it can be read up to there, and takes no appends; see [`Log::stopped`].
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_log(&self, name: &LogName, options: LogOptions) -> Result<Log, OpenError> {
        self.inner.with_slot(name, |open| {
            // Looked at under the slot's lock, which closing takes too.
            self.inner.check_open()?;
            // It stays here until it is open again, so that a second try knows that there was a first.
            let failed = match &*open {
                Some(log) => match log.stopped() {
                    Some(Stopped::Failed(_) | Stopped::Closed) => Some(log),
                    _ => return Ok(log.clone()),
                },
                None => None,
            };
            self.inner.check_neighbours(name)?;
            let (dir, log_dir, parents) = self.inner.find(name, &options)?;
            if let Some(log) = failed {
                if let Err(error) = log.shared().close(Stopped::Closed) {
                    tracing::debug!(log = %name, %error, "a failed log was left as it is");
                }
                // The sync that failed may have been that of the spares' directory, and a rename out of it is durable
                // only with that: else a file that is shown now is gone after a power cut.
                let spares = dir.source.spares_dir();
                if !planted::is(Fault::ReopenedWithoutSpares) {
                    self.inner.fs.sync_dir(spares).disk("sync", spares)?;
                }
            }
            let log = Shared::open(self.inner.parts(name, dir, log_dir)?, &parents, options)?;
            *open = Some(log.clone());
            Ok(log)
        })
    }

    /// The names of all logs on disk, sorted.
    ///
    /// # Errors
    /// If a directory cannot be listed, or holds something that is no log.
    pub fn logs(&self) -> Result<Vec<LogName>, OpenError> {
        let mut names = Vec::new();
        for dir in &self.inner.dirs {
            names.extend(dir.log_names(&*self.inner.fs)?);
        }
        names.sort();
        Ok(names)
    }

    /// Opens every log on disk, recovering many at a time. One that cannot be opened does not keep the others.
    ///
    /// # Errors
    /// As [`Node::logs`].
    #[allow(clippy::type_complexity, reason = "a list of names and results")]
    pub fn open_all(&self) -> Result<Vec<(LogName, Result<Log, OpenError>)>, OpenError> {
        let names = self.logs()?;
        let next = AtomicUsize::new(0);
        let open = || {
            let mut opened = Vec::new();
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                let options = LogOptions { create: false, ..LogOptions::default() };
                opened.push((name.clone(), self.open_log(name, options)));
            }
            opened
        };
        let threads = self.inner.options.recovery_threads.min(names.len());
        let mut opened = if threads <= 1 || self.threads().0.is_empty() {
            open()
        } else {
            in_threads(threads, &open)
        };
        opened.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(opened)
    }

    /// Deletes a log: when this returns, it is gone for good. Its files follow, by the worker or at the next start.
    ///
    /// # Errors
    /// [`OpenError::Missing`]; or of the rename or the syncs, and then it may be there after a restart.
    pub fn delete_log(&self, name: &LogName) -> Result<(), OpenError> {
        self.inner.with_slot(name, |open| {
            // Looked at under the slot's lock, which closing takes too.
            self.inner.check_open()?;
            let options = LogOptions { create: false, ..LogOptions::default() };
            let (dir, log_dir, parents) = self.inner.find(name, &options)?;
            if let Some(log) = open.take() {
                log.shared().close(Stopped::Deleted)?;
            }
            let fs = &*self.inner.fs;
            let mut unique = [0; 8];
            fs.random(&mut unique).disk("name the remains of", &log_dir)?;
            let parent = parents.first().unwrap_or(&dir.logs);
            dir.bury(fs, &log_dir, parent, u64::from_le_bytes(unique))?;
            Ok(dir.remove_folders(fs, &parents)?)
        })
    }

    /// The gauges of all disks and of the memory as they are now: levels, what is left, thresholds, forecasts. Reads memory
    /// only.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        self.inner.watch.pressure()
    }

    /// A subscription to changes of level, from now on.
    #[must_use]
    pub fn pressure_changes(&self) -> PressureChanges {
        self.inner.watch.changes()
    }

    /// What an operator should know now: one item for each disk, and for the memory, at soft or above. The node opens and
    /// clears them.
    #[must_use]
    pub fn attention(&self) -> Vec<Attention> {
        self.inner.watch.board.items()
    }

    /// Descriptors held open for segment files.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.inner.files.open_count()
    }

    /// What the node holds and has done, in numbers. Reads memory only; looks at each open log.
    #[must_use]
    pub fn stats(&self) -> NodeStats {
        let logs = self.inner.open_logs();
        NodeStats {
            pools: self.inner.pool.stats(),
            admission: self.inner.watch.admission.stats(),
            commits: self.inner.counts.stats(),
            reserved_bytes: logs.iter().map(|log| log.shared().reserved_bytes()).sum(),
            pinned_bytes: logs.iter().map(|log| log.shared().pinned_bytes()).sum(),
            recent_bytes: self.inner.recent.bytes(),
            open_files: self.open_files(),
        }
    }

    /// The limits as they are now.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.inner.watch.limits()
    }

    /// Changes the limits, all of them at once. Levels follow at once; spares that are not allowed any more are deleted soon
    /// after.
    ///
    /// # Errors
    /// [`LimitsError`] names the field and what is allowed, the limit of memory that is read only at the start included;
    /// then nothing is changed.
    pub fn set_limits(&self, limits: Limits) -> Result<(), LimitsError> {
        limits.check()?;
        self.limits().changed_live(&limits)?;
        self.inner.watch.set_limits(limits);
        Ok(())
    }

    /// Deletes every spare that is not kept back, and gives their sizes in bytes. New ones follow as the settings allow: to
    /// have none, set the budget to nothing. Blocks on the disk.
    pub fn release_spares(&self) -> u64 {
        self.inner.pool.release()
    }

    /// Does one thing that a thread would do; `false` if there was nothing asked for, and then a turn of the worker was
    /// taken. For nodes built without threads.
    pub fn step(&self) -> bool {
        match self.inner.hub.try_next() {
            Some(Job::Commit(log)) => log.commit_staged(),
            Some(Job::Prepare(log)) => log.prepare(),
            None if self.inner.watch.sample_what_is_due(self.inner.buffers.bytes()) => {}
            None if self.inner.pool.step() != Step::Idle => {}
            None => {
                self.inner.take_turn();
                return false;
            }
        }
        true
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes clean: commits what is staged, gives every log a durable checkpoint, ends the threads. Releases the
    /// locks of the data directories. A log takes no more appends from the moment on at which its closing begins.
    ///
    /// # Errors
    /// The first log that could not be closed clean; what was confirmed is durable all the same.
    pub fn close(self) -> Result<(), DiskError> {
        self.inner.closed.store(true, Ordering::Release);
        let slots: Vec<Slot> = self.inner.slots().values().cloned().collect();
        let next = AtomicUsize::new(0);
        let close = || {
            let mut results = Vec::new();
            while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
                // Held until the log is closed: who opens it meanwhile would recover a log that is still written.
                let mut open = slot.lock().unwrap_or_else(PoisonError::into_inner);
                results.extend(open.take().map(|log| log.shared().close(Stopped::Closed)));
            }
            results
        };
        let threads = self.inner.options.recovery_threads.min(slots.len());
        let results = if threads <= 1 || self.threads().0.is_empty() {
            close()
        } else {
            in_threads(threads, &close)
        };
        self.end_threads();
        self.inner.pool.close();
        let emptied = self.inner.dirs.iter().map(|dir| {
            let emptied = dir.empty_trash(&*self.inner.fs);
            dir.unlock();
            emptied
        });
        let emptied: Vec<_> = emptied.collect();
        results.into_iter().chain(emptied).collect()
    }

    fn end_threads(&self) {
        self.inner.hub.close();
        self.inner.watch.close();
        self.inner.pool.hurry();
        for thread in self.threads().0.drain(..) {
            // A thread that panicked has reported itself.
            let _ = thread.join();
        }
        self.inner.hub.end();
    }
}

/// Runs `work` in so many threads and gathers what they give.
#[allow(clippy::disallowed_methods, reason = "the room that owns the threads")]
fn in_threads<T: Send>(threads: usize, work: &(impl Fn() -> Vec<T> + Sync)) -> Vec<T> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().filter_map(|thread| thread.join().ok()).flatten().collect()
    })
}

impl Drop for Node {
    /// The last handle ends the threads; without [`Node::close`] the logs are left as a crash would leave them.
    fn drop(&mut self) {
        if Arc::strong_count(&self.threads) == 1 {
            self.end_threads();
        }
    }
}
