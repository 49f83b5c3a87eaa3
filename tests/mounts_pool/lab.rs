//! A node on a real file system, its logs, and what must hold of its files whenever it is quiet.

use crate::ledger::Ledger;
use crate::outside::wait_for;
use plimsoll::error::{
    AppendError, CommitError, CommitFailure, DiskError, Outcome as WriteOutcome, PublishError,
};
use plimsoll::format::header::Header;
use plimsoll::fs::OsFileSystem;
use plimsoll::inspect::{self, Depth, NodeReport, Outcome};
use plimsoll::types::Fraction;
use plimsoll::{Log, LogName, LogOptions, Node, NodeOptions, PoolStats, WriteClass};
use std::collections::BTreeMap;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// In order.
    Closed,
    /// All handles are dropped, as the death of the process would.
    Dropped,
}

/// A log and what was appended to it.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) log: Log,
    pub(crate) ledger: Ledger,
}

impl Journal {
    /// Appends a batch; the error says what is certain.
    pub(crate) fn publish(
        &mut self,
        class: WriteClass,
        count: u64,
        len: usize,
    ) -> Result<(), PublishError> {
        self.ledger.publish(&self.log, class, count, len)
    }

    /// Truncates all but the last `keep` records; gives the number of segments that went.
    pub(crate) fn truncate(&mut self, keep: u64) -> u64 {
        self.ledger.truncate(&self.log, keep)
    }

    /// Truncates the oldest segment; gives whether there was one that could go.
    pub(crate) fn truncate_one(&mut self) -> u64 {
        let segments = self.log.segments();
        let Some(second) = segments.get(1) else { return 0 };
        self.ledger.truncate(&self.log, self.log.durable().0 - second.base.0)
    }
}

/// One node and its logs.
#[derive(Debug)]
pub(crate) struct Lab {
    dirs: Vec<PathBuf>,
    options: NodeOptions,
    node: Option<Node>,
    pub(crate) journals: BTreeMap<String, Journal>,
}

/// Small files, no threads more than the tests need, and no idle log that gets another file in the midst of one.
pub(crate) fn options() -> NodeOptions {
    let mut options = NodeOptions::default();
    options.segment_size = 1 << 20;
    options.committers = 2;
    options.idle_checkpoint = Duration::from_secs(3600);
    options
}

/// The same with so many hundredths of the device for spares.
pub(crate) fn with_budget(percent: u32) -> NodeOptions {
    let mut options = options();
    options.limits.pool.budget = Fraction::percent(percent);
    options
}

fn open(dirs: &[PathBuf], options: &NodeOptions) -> Node {
    let (first, rest) = dirs.split_first().unwrap();
    let mut builder = Node::builder(first).options(options.clone());
    for dir in rest {
        builder = builder.data_dir(dir);
    }
    // What the pool does where nothing stands before a full disk.
    builder.without_pressure().open().unwrap()
}

/// Whether an append was refused, for want of space and without a trace.
pub(crate) fn is_refused_for_space(error: &PublishError) -> bool {
    let disk = match error {
        PublishError::Append(AppendError::Disk(disk)) => Some(disk),
        PublishError::Commit(CommitError { reason: CommitFailure::Disk(disk), .. }) => Some(disk),
        _ => None,
    };
    error.outcome() == WriteOutcome::NotWritten && disk.is_some_and(DiskError::is_no_space)
}

impl Lab {
    pub(crate) fn open(dirs: &[&Path], options: NodeOptions) -> Self {
        let dirs: Vec<PathBuf> = dirs.iter().map(|dir| dir.to_path_buf()).collect();
        let node = open(&dirs, &options);
        Self { dirs, options, node: Some(node), journals: BTreeMap::new() }
    }

    pub(crate) fn node(&self) -> &Node {
        self.node.as_ref().unwrap()
    }

    /// Opens a log in the data directory `at`.
    pub(crate) fn add(&mut self, name: &str, at: usize) -> &mut Journal {
        let mut options = LogOptions::default();
        options.data_dir = at;
        let log = self.node().open_log(&LogName::new(name).unwrap(), options).unwrap();
        let journal = Journal { log, ledger: Ledger::default() };
        self.journals.entry(name.to_owned()).or_insert(journal)
    }

    pub(crate) fn journal(&mut self, name: &str) -> &mut Journal {
        self.journals.get_mut(name).unwrap()
    }

    /// The node's pool for the data directory `at`.
    pub(crate) fn pool(&self, at: usize) -> PoolStats {
        self.node().stats().pools.swap_remove(at)
    }

    /// Runs `work` for every log, several at a time.
    pub(crate) fn each(&mut self, work: impl Fn(&mut Journal) + Sync) {
        let mut journals: Vec<&mut Journal> = self.journals.values_mut().collect();
        let share = journals.len().div_ceil(4).max(1);
        std::thread::scope(|scope| {
            for some in journals.chunks_mut(share) {
                scope.spawn(|| some.iter_mut().for_each(|journal| work(journal)));
            }
        });
    }

    /// Everything that was confirmed is read back.
    pub(crate) fn check(&self) {
        self.journals.values().for_each(|journal| journal.ledger.check(&journal.log));
    }

    /// Ends the node and starts it again, all logs with it; and reads everything back.
    pub(crate) fn restart(&mut self, end: End) {
        let mut ledgers = BTreeMap::new();
        for (name, Journal { log, ledger }) in std::mem::take(&mut self.journals) {
            ledgers.insert(name, ledger);
            drop(log);
        }
        match (end, self.node.take().unwrap()) {
            (End::Closed, node) => node.close().unwrap(),
            (End::Dropped, node) => drop(node),
        }
        let node = open(&self.dirs, &self.options);
        for (name, log) in node.open_all().unwrap() {
            let name = name.to_string();
            let ledger = ledgers.remove(&name).unwrap_or_default();
            self.journals.insert(name, Journal { log: log.unwrap(), ledger });
        }
        self.node = Some(node);
        assert!(ledgers.is_empty(), "logs are gone: {:?}", ledgers.keys());
        self.check();
    }

    /// Waits until the worker has nothing to do, and holds all files of the data directory `at` against what the node
    /// says of them (I6): each is in a log, or a spare. Call it where no log has a file reserved: before its first append.
    pub(crate) fn settled(&self, at: usize) {
        let dir = &self.dirs[at];
        let report = wait_for("every file in one place", || {
            let before = self.pool(at);
            let report = inspect::node(&OsFileSystem, dir, Depth::Ends, &|| {});
            let spares: u64 = before.ready.iter().sum();
            let here = report.spares.len() as u64 == spares && before.coming == [0; 3];
            let all = files(dir).len() == in_logs(&report) + report.spares.len();
            // The worker goes on making files, one after the other.
            (here && all && before == self.pool(at)).then_some(report)
        });
        let findings: Vec<_> = report.all_findings().collect();
        assert!(report.outcome == Outcome::Clean, "{findings:?}");
        assert!(report.trash.is_empty() && report.quarantine.is_empty(), "{report:?}");
        let logs = report.logs.iter().map(|(name, log)| (name, log.segments.len()));
        for (name, segments) in logs {
            assert_eq!(self.journals[name].log.segments().len(), segments, "{name}");
        }
    }
}

fn in_logs(report: &NodeReport) -> usize {
    report.logs.iter().map(|(_, log)| log.segments.len()).sum()
}

/// All segment files below `dir`, those that were being made included.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![dir.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
            let extension = path.extension().and_then(|extension| extension.to_str());
            if metadata.is_dir() {
                folders.push(path);
            } else if matches!(extension, Some("seg" | "tmp")) {
                found.push(path);
            }
        }
    }
    found
}

/// The generations of files, told apart by their inodes and when they were made.
#[derive(Debug, Default)]
pub(crate) struct Generations(BTreeMap<(u64, u64, std::time::SystemTime), u16>);

impl Generations {
    /// Looks at all headers below `dir`: none may have fallen (I7). Gives the highest.
    pub(crate) fn look(&mut self, dir: &Path) -> u16 {
        let mut highest = 0;
        for path in files(dir) {
            let Ok(file) = std::fs::File::open(&path) else { continue };
            let metadata = file.metadata().unwrap();
            let mut sector = [0; 512];
            let read = file.read_at(&mut sector, 0).unwrap();
            // One that is being made has no header yet.
            let Ok(header) = Header::parse(&sector[..read]) else { continue };
            let now = header.generation.get();
            let id = (metadata.dev(), metadata.ino(), metadata.created().unwrap());
            let before = self.0.insert(id, now).unwrap_or(0);
            assert!(now >= before, "{}: {now} after {before}", path.display());
            highest = highest.max(now);
        }
        highest
    }
}
