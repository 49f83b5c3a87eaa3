//! The systems that are measured, behind one trait.

#[cfg(feature = "peers")]
mod commitlog;
#[cfg(feature = "peers")]
mod fjall;
mod floor;
mod merged;
#[cfg(feature = "peers")]
mod okaywal;
mod plimsoll;
#[cfg(feature = "peers")]
mod raft_engine;
mod raw;
mod uring;
#[cfg(feature = "peers")]
mod walrus;

use crate::workload::Kind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What a store is opened for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    pub(crate) logs: usize,
    /// Bytes of payload that it will hold at most before somebody truncates.
    pub(crate) bytes: u64,
    /// Whether it is filled here and opened again later, so that nothing may be truncated.
    #[cfg_attr(not(feature = "peers"), allow(dead_code, reason = "asked by peers only"))]
    pub(crate) keeps: bool,
    /// How many of the logs, from the first, are to be as they are after a while: in files of full size that were written
    /// before, where the system has such.
    pub(crate) prepared: usize,
}

/// What a scan saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// Bytes of the files of each of many logs, of all systems that have a size of files. Full ones would be prepared for minutes.
pub(crate) const FILE_OF_MANY: u32 = 8 << 20;

/// An open system with its logs. What cannot go on panics: the child ends, and the parent says so.
pub(crate) trait Store: Send + Sync {
    /// A record, durable when this returns.
    fn append(&self, log: usize, payload: &[u8]);

    /// As one of several writers of the first log.
    fn append_as(&self, _writer: usize, payload: &[u8]) {
        self.append(0, payload);
    }

    /// As many of the same record, all durable when this returns.
    fn batch(&self, log: usize, payload: &[u8], count: usize);

    /// As many batches one after the other, durable when this returns. Where a system can stage one while another is on
    /// its way, it does so with one.
    fn batches(&self, log: usize, payload: &[u8], count: usize, batches: usize) {
        (0..batches).for_each(|_| self.batch(log, payload, count));
    }

    /// All records of the first log.
    fn scan(&self) -> Scanned {
        unimplemented!("the table says who has no scan")
    }

    /// How many records a log has, where the system says so without reading them.
    fn count(&self, _log: usize) -> Option<u64> {
        None
    }

    /// Drops all records, so that their files can serve again. Not timed.
    fn truncate(&self) {}

    /// What an owner would do now and then beside appending. Not timed.
    fn rest(&self) {}

    /// The files that hold the records, and as far as they do.
    fn files(&self, dir: &Path) -> Vec<(PathBuf, u64)> {
        files_below(dir)
    }

    /// Appends to all logs at once in its own way until then, and says how many; where a thread for each log is not the way.
    fn swarm(&self, _logs: usize, _payload: &[u8], _until: Instant) -> Option<u64> {
        None
    }
}

/// Who it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Engine,
    Floor,
    Peer,
}

/// A system by name.
pub(crate) struct System {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    /// Its package in the lock file.
    pub(crate) package: Option<&'static str>,
    /// How it is used.
    pub(crate) mode: &'static str,
    /// Whether an append that returned outlives a power cut.
    pub(crate) durable: bool,
    /// Why it is no measure for opening: what it takes on trust then.
    pub(crate) unchecked: Option<&'static str>,
    /// Whether each log takes a thread or files of its own.
    pub(crate) few_logs: bool,
    /// Whether a batch costs it so much that a 64th of the bytes must do.
    pub(crate) slow_batches: bool,
    /// Why it has no part in a workload.
    pub(crate) leaves_out: fn(Kind) -> Option<&'static str>,
    pub(crate) open: fn(&Path, &Shape) -> Box<dyn Store>,
}

/// In the order of the table.
pub(crate) fn all() -> Vec<System> {
    let mut all = Vec::new();
    all.extend(plimsoll::systems());
    all.extend(floor::systems());
    all.extend(uring::systems());
    #[cfg(feature = "peers")]
    {
        all.extend(okaywal::systems());
        all.extend(raft_engine::systems());
        all.extend(fjall::systems());
        all.extend(commitlog::systems());
        all.extend(walrus::systems());
    }
    all
}

pub(crate) fn named(name: &str) -> Option<System> {
    all().into_iter().find(|system| system.name == name)
}

impl System {
    /// Whether `wanted` names it or the family that it is of.
    pub(crate) fn is(&self, wanted: &str) -> bool {
        self.name.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }

    /// The version that was built, from the lock file.
    pub(crate) fn version(&self) -> Option<String> {
        let lock = include_str!("../../Cargo.lock");
        let (_, behind) =
            lock.split_once(&format!("name = \"{}\"\nversion = \"", self.package?))?;
        Some(behind.split_once('"')?.0.to_owned())
    }
}

/// Every file below a directory, with its length.
pub(crate) fn files_below(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let about = entry.metadata().unwrap();
            if about.is_dir() {
                dirs.push(entry.path());
            } else {
                files.push((entry.path(), about.len()));
            }
        }
    }
    files.sort();
    files
}

/// What `make` gives for each number, sixteen at a time: most of it is waiting for the disk.
pub(crate) fn in_parallel<T: Send>(count: usize, make: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut made = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return made;
            }
            made.push((number, make(number)));
        }
    };
    let mut all: Vec<(usize, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count.min(16)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, made)| made).collect()
}
