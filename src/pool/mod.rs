//! The node's spare pool: where segment files come from, and where they go.
//!
//! New logs and slow ones get files that are already written, so that a commit need not wait for the file system's journal
//! to note new blocks. One place owns the spare bytes: it keeps them within a budget for each device, keeps some back for
//! what must go on when the disk is full, and gives the rest up when they are wanted.
//!
//! A file is safe to use again, by any log, because each use has a generation of its own, in the header and in every
//! record: see `shelf` for the order of steps.

mod budget;
mod class;
mod device;
mod give;
mod ledger;
mod make;
mod names;
mod shelf;
mod stamp;
mod stats;
mod take;
mod worker;

pub use budget::Allowance;
pub(crate) use ledger::{Freed, Ledger};
pub(crate) use names::sync_below;
pub(crate) use shelf::Shelf;
pub use stats::PoolStats;

use crate::clock::Clock;
use crate::format::layout::ClassSizes;
use crate::fs::{FileSystem, Space};
use crate::limits::PoolLimits;
use device::Device;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

/// What a step of the worker did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There was nothing to do.
    Idle,
    /// A part of a file was written: the next step waits a little, so that commits are not held up.
    Paced,
    /// One thing; there may be more.
    Done,
}

/// The last generation that a file may have: [`u16::MAX`] but in tests.
type Last = Arc<AtomicU16>;

/// Wakes the worker.
#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<Rung>,
    heard: Condvar,
}

#[derive(Debug, Default)]
struct Rung {
    rung: bool,
    /// How many wait: to wake nobody is a system call too.
    waiting: usize,
}

impl Bell {
    fn ring(&self) {
        let mut state = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        state.rung = true;
        if state.waiting > 0 {
            self.heard.notify_all();
        }
    }

    fn wait(&self, timeout: Duration) {
        let mut state = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting += 1;
        let waited = self.heard.wait_timeout_while(state, timeout, |state| !state.rung);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.waiting -= 1;
        state.rung = false;
    }
}

/// The pool of one node. Two nodes share nothing.
#[derive(Debug)]
pub(crate) struct SparePool {
    options: Mutex<PoolLimits>,
    devices: Vec<Arc<Device>>,
    shelves: Vec<Arc<Shelf>>,
    bell: Arc<Bell>,
    ledger: Arc<dyn Ledger>,
    last: Last,
    /// Whose turn it is.
    turn: AtomicUsize,
    /// Held while something is done on the disk; false when the directories may be another node's.
    open: RwLock<bool>,
}

impl SparePool {
    pub(crate) fn new(options: PoolLimits, ledger: Arc<dyn Ledger>) -> Self {
        Self {
            options: Mutex::new(options),
            devices: Vec::new(),
            shelves: Vec::new(),
            bell: Arc::default(),
            ledger,
            last: Arc::new(AtomicU16::new(u16::MAX)),
            turn: AtomicUsize::new(0),
            open: RwLock::new(true),
        }
    }

    /// Adds the spares of a data directory, whose logs are below `logs`. Directories on one device share its budget. Reads
    /// a sector of each spare.
    ///
    /// # Errors
    /// If the directory cannot be listed or looked at.
    pub(crate) fn add(
        &mut self,
        fs: &Arc<dyn FileSystem>,
        clock: &Arc<dyn Clock>,
        dir: &Path,
        logs: &Path,
        sizes: ClassSizes,
    ) -> io::Result<Arc<Shelf>> {
        let id = fs.metadata(dir)?.device;
        let device = match self.devices.iter().find(|device| device.id == id) {
            Some(device) => Arc::clone(device),
            None => {
                // Its space comes with the first sample; there is no budget before.
                let device = Arc::new(Device::new(id, self.options()));
                self.devices.push(Arc::clone(&device));
                device
            }
        };
        let (bell, ledger) = (&self.bell, &self.ledger);
        let shelf = Shelf::open(fs, clock, dir, logs, sizes, &device, bell, ledger, &self.last)?;
        let shelf = Arc::new(shelf);
        self.shelves.push(Arc::clone(&shelf));
        Ok(shelf)
    }

    fn options(&self) -> PoolLimits {
        *self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes other settings; the worker deletes what they do not allow.
    pub(crate) fn set_options(&self, options: PoolLimits) {
        *self.options.lock().unwrap_or_else(PoisonError::into_inner) = options;
        for device in &self.devices {
            device.lock().options = options;
        }
        self.bell.ring();
    }

    /// Takes over a sample of a device's space.
    pub(crate) fn set_space(&self, device: u64, space: Space) {
        if let Some(device) = self.devices.iter().find(|known| known.id == device) {
            device.lock().space = Some(space);
        }
    }

    /// Bytes of spares on a device that can be deleted at any time.
    pub(crate) fn releasable(&self, device: u64) -> u64 {
        let device = self.devices.iter().find(|known| known.id == device);
        device.map_or(0, |device| device.lock().releasable())
    }

    /// Makes a tiny file on a device that had no room, to see whether it has some now; what comes of it the ledger is told.
    /// `false` where the pool has no directory on it. Blocks on the disk.
    pub(crate) fn try_room(&self, device: u64) -> bool {
        let open = self.open();
        let shelf = self.shelves.iter().find(|shelf| shelf.device.id == device);
        if let Some(shelf) = shelf.filter(|_| *open) {
            shelf.try_room();
        }
        shelf.is_some()
    }

    /// Has the worker look at once, as after a change of a level.
    pub(crate) fn wake(&self) {
        self.bell.ring();
    }

    /// For tests: a narrower generation, so that its end is reached.
    #[cfg(feature = "sim")]
    pub(crate) fn set_last_generation(&self, last: crate::types::Generation) {
        self.last.store(last.get(), Ordering::Relaxed);
    }

    /// Does one thing for one data directory, each in its turn.
    pub(crate) fn step(&self) -> Step {
        let open = self.open();
        if !*open {
            return Step::Idle;
        }
        let from = self.turn.fetch_add(1, Ordering::Relaxed);
        let count = self.shelves.len();
        for at in 0..count {
            let step = self.shelves[(from + at) % count].step();
            if step != Step::Idle {
                return step;
            }
        }
        Step::Idle
    }

    fn open(&self) -> RwLockReadGuard<'_, bool> {
        self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes who waits, and cuts short what would take long: the node closes.
    pub(crate) fn hurry(&self) {
        self.shelves.iter().for_each(|shelf| shelf.closing.store(true, Ordering::Relaxed));
        self.bell.ring();
    }

    /// Waits for something to do, at most `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        self.bell.wait(timeout);
    }

    /// Deletes every spare that is not kept back, and gives their bytes. Blocks on the disk.
    pub(crate) fn release(&self) -> u64 {
        let open = self.open();
        if !*open {
            return 0;
        }
        let each = |shelf: &Arc<Shelf>| std::iter::from_fn(|| shelf.release_one()).sum::<u64>();
        self.shelves.iter().map(each).sum()
    }

    pub(crate) fn stats(&self) -> Vec<PoolStats> {
        self.shelves.iter().map(|shelf| shelf.stats()).collect()
    }

    /// Waits for what is under way and ends what is half done; nothing is done after it.
    pub(crate) fn close(&self) {
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = false;
        self.shelves.iter().for_each(|shelf| shelf.stop());
    }
}
