//! Builds a node.

use super::data_dir::DataDir;
use super::pressure::Watch;
use super::threads::Threads;
use super::{Inner, Node, NodeOptions};
use crate::clock::{Clock, SystemClock};
use crate::error::{DiskContext, OpenError};
use crate::fs::{FileSystem, OsFileSystem};
use crate::log::{BufferPool, Indexes, RecentBudget};
use crate::pool::{Ledger, SparePool};
use crate::pressure::{MemoryMonitor, MemorySource, NoMemory, SystemMemory};
use crate::segment::Files;
use crate::types::SizeClass;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};

/// How many sparse indexes a node keeps, of at most 1,024 entries each in a file of 64 MiB.
const INDEXES: usize = 256;
/// Builds a [`Node`].
#[derive(Debug)]
pub struct NodeBuilder {
    dirs: Vec<PathBuf>,
    options: NodeOptions,
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    memory: Option<Arc<dyn MemorySource>>,
    threads: bool,
    #[cfg(feature = "sim")]
    last_generation: Option<crate::types::Generation>,
    #[cfg(feature = "sim")]
    pressure: bool,
}

impl NodeBuilder {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dirs: vec![dir],
            options: NodeOptions::default(),
            fs: Arc::new(OsFileSystem),
            clock: Arc::new(SystemClock),
            memory: None,
            threads: true,
            #[cfg(feature = "sim")]
            last_generation: None,
            #[cfg(feature = "sim")]
            pressure: true,
        }
    }

    /// Adds another data directory. Logs are found in any; new ones are made in the first unless their options say
    /// otherwise.
    #[must_use]
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dirs.push(dir.into());
        self
    }

    /// Sets the options.
    #[must_use]
    pub fn options(mut self, options: NodeOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the file system; the machine's by default.
    #[must_use]
    pub fn file_system(mut self, fs: Arc<dyn FileSystem>) -> Self {
        self.fs = fs;
        self
    }

    /// Sets the clock; the machine's by default.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets where the use of memory is read; the machine's control files by default, and nowhere without threads.
    #[must_use]
    pub fn memory(mut self, memory: Arc<dyn MemorySource>) -> Self {
        self.memory = Some(memory);
        self
    }

    /// Starts no threads: whoever built the node calls [`Node::step`]. For simulation.
    #[must_use]
    pub fn without_threads(mut self) -> Self {
        self.threads = false;
        self
    }

    /// For tests: files are deleted at this generation, so that the end of a file's uses is reached.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn last_generation(mut self, last: crate::types::Generation) -> Self {
        self.last_generation = Some(last);
        self
    }

    /// For tests of what a disk does that is full before its free space says so: samples are taken, and nothing follows from
    /// them.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn without_pressure(mut self) -> Self {
        self.pressure = false;
        self
    }

    /// Opens the node: takes the locks, reads or makes the layouts, removes what an earlier life left half made. Logs are
    /// recovered when they are opened.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(self) -> Result<Node, OpenError> {
        #[cfg(feature = "sim")]
        let (last_generation, pressure) = (self.last_generation, self.pressure);
        let Self { dirs, options, fs, clock, memory, threads, .. } = self;
        options.check()?;
        let memory = memory.unwrap_or_else(|| match threads {
            true => Arc::new(SystemMemory::new(Path::new("/"), Arc::new(OsFileSystem))),
            false => Arc::new(NoMemory),
        });
        let memory = MemoryMonitor::new(memory, Arc::clone(&clock), &options.limits);
        let mut first_refusal = [0; 8];
        // Only how hints are spread hangs on it.
        let _ = fs.random(&mut first_refusal);
        let (of_fs, of_clock) = (Arc::clone(&fs), Arc::clone(&clock));
        let limits = options.limits.clone();
        let first_refusal = u64::from_le_bytes(first_refusal);
        let watch = Watch::new(of_fs, of_clock, limits, memory, first_refusal);
        #[cfg(feature = "sim")]
        let watch = if pressure { watch } else { watch.without_effect() };
        let watch = Arc::new(watch);
        let ledger = Arc::clone(&watch) as Arc<dyn Ledger>;
        let mut pool = SparePool::new(options.limits.pool, ledger);
        #[cfg(feature = "sim")]
        if let Some(last) = last_generation {
            pool.set_last_generation(last);
        }
        let mut open = |dir: &PathBuf| {
            DataDir::open(&fs, &clock, dir, options.segment_size, options.create, &mut pool)
        };
        let dirs = dirs.iter().map(&mut open).collect::<Result<Vec<_>, _>>()?;
        let pool = Arc::new(pool);
        watch.set_pool(&pool);
        watch.sample_memory(0);
        for dir in &dirs {
            let main_file = dir.source.sizes().of(SizeClass::Main);
            let disk = watch.watch(&dir.path, main_file).disk("look at", &dir.path)?;
            disk.monitor.add_dir(&dir.path);
        }
        let inner = Arc::new(Inner {
            dirs,
            files: Arc::new(Files::new(Arc::clone(&fs), options.open_files)),
            pool,
            buffers: Arc::new(BufferPool::new(options.buffers_kept)),
            indexes: Arc::new(Indexes::new(INDEXES)),
            counts: Arc::default(),
            recent: Arc::new(RecentBudget::new(options.recent_max)),
            hub: Arc::default(),
            watch,
            slots: Mutex::default(),
            closed: AtomicBool::new(false),
            threads,
            turn: AtomicUsize::new(0),
            options,
            fs,
            clock,
        });
        let threads = if threads { Threads::start(&inner)? } else { Threads::default() };
        Ok(Node { inner, threads: Arc::new(Mutex::new(threads)) })
    }
}
