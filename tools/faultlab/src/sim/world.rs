//! One simulated machine with a node on it, driven in one thread. Whatever the engine answers goes to the oracle.

use super::aloud::{is_aloud, say, words};
use super::commits::CommitPath;
use super::crash::Point;
use super::oracle::Oracle;
use plimsoll::clock::ManualClock;
use plimsoll::error::{AppendError, CommitError, CommitFailure, Outcome, PublishError, Stopped};
use plimsoll::format::layout::{self, ClassSizes};
use plimsoll::fs::FileSystem;
use plimsoll::fs::sim::{Fault, SimFileSystem};
use plimsoll::permit::Decision;
use plimsoll::types::Generation;
use plimsoll::{
    Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, PoolStats, Size, Ticket,
    WriteClass,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub const DATA: &str = "/data";

/// Small enough that a few records fill a file: room for 4, 8 and 24 KiB of records.
pub const SIZES: ClassSizes = ClassSizes { tiny: 12288, small: 16384, main: 32768 };

/// Far more than any script leaves to do, so that a search ends whatever the engine does.
const MOST_STEPS: u64 = 100_000;
const MOST_CALLS: u64 = 100_000;

/// A batch that is staged.
#[derive(Debug)]
pub struct Staged {
    batch: usize,
    ticket: Ticket,
}

/// See the top of the file. Once the process is dead every call does nothing.
#[derive(Debug)]
pub struct World {
    pub fs: SimFileSystem,
    pub clock: Arc<ManualClock>,
    /// Whether levels have an effect: else what a full disk does is reached, before which they stand.
    pub pressure: bool,
    /// Whether the disk has an end, whatever it says.
    pub capped: bool,
    pub oracle: Oracle,
    /// Errors are expected, as something is being broken.
    pub faulty: bool,
    /// Calls were made to fail in this life, so it is more than a full disk.
    pub broken: bool,
    /// A commit has failed in this life, so a log may heal, which may take what is kept back.
    heals: bool,
    /// A log that had stopped was opened again in this life, so that recovery wrote and synced anew a file that had failed.
    pub reopened: bool,
    /// Of the nodes that are started.
    pub options: NodeOptions,
    /// The last generation of a file, where it is not the format's.
    pub last: Option<Generation>,
    /// See [`World::with_pool`].
    pub pooled: bool,
    /// How often something was compared with what must hold.
    pub checks: u64,
    /// How many calls were said.
    said: Cell<usize>,
    node: Option<Node>,
    /// Those that are open.
    pub(super) logs: BTreeMap<String, Log>,
}

/// An empty machine, its commits on the path of now.
fn machine(seed: u64) -> SimFileSystem {
    let fs = SimFileSystem::new(seed);
    CommitPath::now().set(&fs);
    fs
}

fn name(log: &str) -> LogName {
    LogName::new(log).unwrap()
}

impl World {
    /// A machine with an empty data directory of these class sizes.
    pub fn new(seed: u64, sizes: ClassSizes) -> Self {
        let fs = machine(seed);
        fs.prepare_dir(DATA).unwrap();
        let layout = Path::new(DATA).join("LAYOUT");
        let file = fs.create(&layout).unwrap();
        file.write_at(0, layout::encode(&sizes).as_bytes()).unwrap();
        file.sync().unwrap();
        fs.sync_dir(Path::new(DATA)).unwrap();
        drop(file);
        Self::of(fs, Oracle::default())
    }

    /// A machine without a data directory: the node makes it.
    pub fn bare(seed: u64) -> Self {
        let fs = machine(seed);
        fs.prepare_dir("/").unwrap();
        Self::of(fs, Oracle::default())
    }

    /// A machine of which nothing is known.
    pub fn over(fs: SimFileSystem) -> Self {
        Self::of(fs, Oracle::default())
    }

    fn of(fs: SimFileSystem, oracle: Oracle) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000));
        Self {
            fs,
            clock,
            pressure: false,
            capped: false,
            oracle,
            faulty: false,
            broken: false,
            heals: false,
            reopened: false,
            options: only_reuse(),
            last: None,
            pooled: false,
            checks: 0,
            said: Cell::new(0),
            node: None,
            logs: BTreeMap::new(),
        }
    }

    /// A copy of the machine without its process.
    pub fn fork(&self) -> Self {
        self.on(self.fs.fork())
    }

    /// As [`World::fork`], on another disk.
    pub fn on(&self, fs: SimFileSystem) -> Self {
        Self {
            faulty: self.faulty,
            broken: self.broken,
            pressure: self.pressure,
            capped: self.capped,
            options: self.options.clone(),
            last: self.last,
            pooled: self.pooled,
            ..Self::of(fs, self.oracle.clone())
        }
    }

    pub fn say(&self, what: std::fmt::Arguments<'_>) {
        if is_aloud() {
            self.say_calls();
            say(format_args!("{:>6} {what}", self.fs.ops()));
        }
    }

    /// Lets the process die at a point, or, so that every search ends, after more calls than any life makes.
    pub fn dies_at(&self, point: Option<Point>) {
        let Point { op, bytes } =
            point.unwrap_or(Point { op: self.fs.ops() + MOST_CALLS, bytes: 0 });
        self.fs.crash_in_write(op, bytes);
    }

    /// After a life that was to end by itself.
    pub fn came_to_an_end(&self) {
        assert!(!self.dead(), "the engine has no end of calls");
    }

    /// Notes the calls from here on, to say them.
    pub fn listen(&self) {
        if is_aloud() {
            self.fs.record(true);
            self.said.set(0);
        }
    }

    /// Says every call since the last time, where they are noted.
    pub fn say_calls(&self) {
        if is_aloud() {
            let trace = self.fs.trace();
            for op in trace.iter().skip(self.said.replace(trace.len())) {
                say(format_args!("{:>6}   {}", op.number, words(op)));
            }
        }
    }

    pub fn dead(&self) -> bool {
        self.fs.is_dead()
    }

    /// Forgets the node without closing it.
    pub fn abandon(&mut self) {
        self.logs.clear();
        self.node = None;
    }

    pub fn node(&self) -> &Node {
        self.node.as_ref().expect("the node was started")
    }

    pub fn log(&self, log: &str) -> &Log {
        self.logs.get(log).unwrap_or_else(|| panic!("log {log} is not open"))
    }

    /// Starts a node. One thread does everything.
    pub fn start(&mut self) {
        self.abandon();
        if self.dead() {
            return;
        }
        self.say(format_args!("start"));
        self.oracle.begin_life();
        (self.heals, self.reopened) = (false, false);
        let builder = Node::builder(DATA)
            .options(self.options.clone())
            .file_system(Arc::new(self.fs.process()))
            .clock(Arc::clone(&self.clock) as Arc<dyn plimsoll::clock::Clock>)
            .without_threads();
        let builder = if self.pressure { builder } else { builder.without_pressure() };
        let builder = match self.last {
            Some(last) => builder.last_generation(last),
            None => builder,
        };
        match builder.open() {
            Ok(node) => self.node = Some(node),
            Err(error) => self.expect_error("the node starts", &error),
        }
    }

    /// An error is a fault of the engine unless the process died or something was broken on purpose.
    pub fn expect_error(&self, what: &str, error: &dyn std::fmt::Display) {
        assert!(self.dead() || self.faulty, "nothing is broken, but {what}: {error}");
    }

    /// Whether a node is running.
    pub fn is_up(&self) -> bool {
        self.up()
    }

    fn up(&self) -> bool {
        !self.dead() && self.node.is_some()
    }

    pub fn open(&mut self, log: &str) {
        self.open_with(log, LogOptions::default());
    }

    pub fn open_with(&mut self, log: &str, options: LogOptions) {
        if !self.up() {
            return;
        }
        self.reopened |= self.logs.get(log).is_some_and(|log| log.stopped().is_some());
        self.oracle.opening(log);
        match self.node().open_log(&name(log), options) {
            Ok(open) => {
                self.say(format_args!(
                    "open {log}: {:?} {:?}",
                    open.stopped(),
                    open.recovery_report()
                ));
                // One that is open for reading only may have a name that is not durable, and shows less than it has.
                if !self.dead() && open.stopped().is_none() {
                    if open.durable() == Offset::ZERO {
                        self.oracle.opened_empty(log);
                    }
                    self.oracle.opened(log);
                }
                self.logs.insert(log.to_owned(), open);
            }
            Err(error) => self.expect_error("opening fails", &error),
        }
    }

    /// Whether the log is open.
    pub fn is_open(&self, log: &str) -> bool {
        self.has(log)
    }

    pub(super) fn has(&self, log: &str) -> bool {
        !self.dead() && self.logs.contains_key(log)
    }

    /// Appends a batch of records that take `lens` bytes each, and waits. Says whether it was confirmed.
    pub fn append(&mut self, log: &str, lens: &[usize]) -> bool {
        self.stage(log, lens).is_some_and(|staged| self.settle(staged))
    }

    /// As [`World::append`], where it must be confirmed whatever went wrong before.
    pub fn must_append(&mut self, log: &str, lens: &[usize]) {
        let confirmed = self.append(log, lens);
        assert!(confirmed || self.dead(), "log {log} does not go on");
    }

    /// As [`World::append`], where something was broken so that it cannot be.
    pub fn must_fail(&mut self, log: &str, lens: &[usize]) {
        let confirmed = self.append(log, lens);
        assert!(!confirmed || self.dead(), "log {log}: a broken append was confirmed");
    }

    /// Breaks something. From here on errors are expected.
    pub fn inject(&mut self, fault: Fault) {
        self.say(format_args!("{fault:?}"));
        (self.faulty, self.broken) = (true, true);
        self.fs.inject(fault);
    }

    /// Mends what was broken.
    pub fn mend(&mut self) {
        self.fs.clear_faults();
        self.capped = false;
        self.fs.set_capacity(None);
        self.fs.set_space(None);
    }

    /// Stages a batch and does not wait.
    pub fn stage(&mut self, log: &str, lens: &[usize]) -> Option<Staged> {
        self.stage_as(WriteClass::Publish, log, lens)
    }

    /// As [`World::stage`], for a class of writes.
    pub fn stage_as(&mut self, class: WriteClass, log: &str, lens: &[usize]) -> Option<Staged> {
        if !self.has(log) {
            return None;
        }
        let batch = self.oracle.appending(log, lens);
        self.say(format_args!("stage {batch} in {log} at {}: {lens:?}", self.log(log).tail()));
        self.stage_batch_as(class, log, batch)
    }

    /// Stages what the oracle has made.
    pub fn stage_batch(&mut self, log: &str, batch: usize) -> Option<Staged> {
        self.stage_batch_as(WriteClass::Publish, log, batch)
    }

    fn stage_batch_as(&mut self, class: WriteClass, log: &str, batch: usize) -> Option<Staged> {
        let records = self.oracle.batch(batch);
        let new: Vec<_> =
            records.iter().map(|(headers, payload)| NewRecord { headers, payload }).collect();
        let bytes = records.iter().map(|(headers, payload)| (headers.len() + payload.len()) as u64);
        let permit = match self.log(log).admit(class, bytes.sum()) {
            Decision::Admit(permit) => permit,
            Decision::Delay { wait, permit } => {
                self.clock.advance(wait);
                permit
            }
            Decision::Refuse(limited) => {
                self.say(format_args!("refused {batch}: {limited}"));
                super::weather::may_refuse(self, &limited);
                self.answered(batch, Outcome::NotWritten);
                return None;
            }
        };
        let watched = class == WriteClass::Publish && self.is_only_full();
        let before = watched.then(|| self.pool());
        let staged = match self.log(log).append(permit, &new) {
            Ok(ticket) => Some(Staged { batch, ticket }),
            Err(error) => {
                self.refused(batch, &error);
                None
            }
        };
        if let Some(before) = before.filter(|_| !self.dead()) {
            self.check_kept_back(&before);
        }
        staged
    }

    fn refused(&mut self, batch: usize, error: &AppendError) {
        self.say(format_args!("refused {batch}: {error}"));
        match error {
            AppendError::Limited(limited) => super::weather::may_refuse(self, limited),
            error => self.expect_error("an append is refused", error),
        }
        self.answered(batch, PublishError::Append(error.clone()).outcome());
    }

    fn answered(&mut self, batch: usize, outcome: Outcome) {
        // What a dead process says nobody hears.
        if !self.dead() {
            self.oracle.refused(batch, outcome);
        }
    }

    /// Whether nothing is wrong but that the disk is full.
    fn is_only_full(&self) -> bool {
        self.faulty && !self.broken && !self.heals && self.full()
    }

    /// Waits for a staged batch. Says whether it was confirmed.
    pub fn settle(&mut self, staged: Staged) -> bool {
        let Staged { batch, ticket } = staged;
        let answer: Result<_, CommitError> = ticket.wait();
        match answer {
            Ok(appended) => {
                self.say(format_args!("confirmed {batch} at {}", appended.first));
                self.oracle.confirmed(batch, appended.first.0);
                true
            }
            Err(error) => {
                self.say(format_args!("not confirmed {batch}: {error}"));
                self.heals = true;
                let stopped = matches!(error.reason, CommitFailure::Stopped(Stopped::Deleted));
                if !stopped {
                    self.expect_error("a commit fails", &error);
                }
                self.answered(batch, error.outcome);
                false
            }
        }
    }

    pub fn truncate(&mut self, log: &str, before: u64) {
        if !self.has(log) {
            return;
        }
        self.say(format_args!("truncate {log} before {before}"));
        self.oracle.truncating(log, before);
        let stopped = self.log(log).stopped().is_some();
        match self.log(log).truncate_before(Offset(before)) {
            Ok(done) => self.oracle.truncated(log, done.head.0),
            Err(error) => {
                self.expect_error("a truncation fails", &error);
                // What frees space needs none.
                assert!(
                    self.dead() || self.broken || stopped || !self.full(),
                    "I9: the disk is full, and a truncation fails: {error}"
                );
            }
        }
    }

    /// Truncates as much as can be.
    pub fn truncate_all(&mut self, log: &str) {
        if self.has(log) {
            self.truncate(log, self.log(log).durable().0);
        }
    }

    pub fn delete(&mut self, log: &str) {
        if !self.up() {
            return;
        }
        self.oracle.deleting(log);
        let deleted = self.node().delete_log(&name(log));
        self.say(format_args!("delete {log}: {deleted:?}"));
        self.logs.remove(log);
        match deleted {
            Ok(()) => self.oracle.deleted(log),
            Err(error) => self.expect_error("a deletion fails", &error),
        }
    }

    /// Ten quiet seconds, and the worker's turn.
    pub fn idle(&mut self) {
        if self.up() {
            self.say(format_args!("idle"));
            self.clock.advance(Duration::from_secs(11));
            self.work_off();
        }
    }

    /// What the node's threads would do now.
    pub fn work(&mut self) {
        if self.up() {
            self.work_off();
        }
    }

    fn work_off(&self) {
        let mut steps = 0;
        while self.node().step() {
            steps += 1;
            assert!(steps < MOST_STEPS, "the node's threads have no end of work");
        }
    }

    pub fn close(&mut self) {
        self.logs.clear();
        let Some(node) = self.node.take().filter(|_| !self.dead()) else { return };
        if let Err(error) = node.close() {
            self.expect_error("closing fails", &error);
        }
    }
}

/// The files that a pool holds.
pub fn in_pool(stats: &PoolStats) -> u64 {
    stats.ready.iter().chain(&stats.coming).sum()
}

/// A node with a small pool: two tiny files kept back, one of each class made ahead.
pub fn options() -> NodeOptions {
    let mut options = NodeOptions::default();
    options.limits.pool.kept_back = Size(2 * SIZES.tiny);
    options.limits.pool.prepared = 1;
    options
}

/// A node whose pool makes no file by itself: what it does beyond stamping has plans of its own.
pub fn only_reuse() -> NodeOptions {
    let mut options = NodeOptions::default();
    (options.limits.pool.kept_back, options.limits.pool.prepared) = (Size(0), 0);
    options
}

pub(super) fn existing() -> LogOptions {
    let mut options = LogOptions::default();
    options.create = false;
    options
}
