//! What the pool knows of one device: its spares, whichever data directory they are in, and the budget that they share.
//! No I/O happens under its lock.

use super::budget::{Allowance, Holding};
use super::class::ByClass;
use super::stats::Counters;
use crate::format::layout::ClassSizes;
use crate::fs::Space;
use crate::limits::PoolLimits;
use crate::planted::{self, Fault};
use crate::types::{Generation, SizeClass};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A spare whose header is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shelved {
    pub(super) path: PathBuf,
    pub(super) generation: Generation,
    /// It was made ahead, and never used.
    pub(super) prepared: bool,
}

/// The spares of one data directory.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) sizes: ClassSizes,
    /// The one given back last is taken first: it may still be in the page cache.
    pub(super) ready: ByClass<Vec<Shelved>>,
    /// To be stamped.
    pub(super) waiting: ByClass<VecDeque<PathBuf>>,
    /// On their way: being made, being stamped, or moved out of a log whose directory is not yet synced.
    pub(super) coming: ByClass<u64>,
    /// Classes that logs have asked for.
    pub(super) in_use: ByClass<bool>,
    /// Of an earlier life, with a log's header still: to be stamped when the logs' directories are synced.
    pub(super) doubtful: ByClass<Vec<PathBuf>>,
    /// Nothing is stamped before.
    pub(super) stamp_at: Duration,
    pub(super) counters: Counters,
}

impl Book {
    pub(super) fn new(sizes: ClassSizes) -> Self {
        Self {
            sizes,
            ready: ByClass::default(),
            waiting: ByClass::default(),
            coming: ByClass::default(),
            in_use: ByClass::default(),
            doubtful: ByClass::default(),
            stamp_at: Duration::ZERO,
            counters: Counters::default(),
        }
    }

    fn held(&self, class: SizeClass) -> u64 {
        let waiting = self.waiting.of(class).len() + self.doubtful.of(class).len();
        (self.ready.of(class).len() + waiting) as u64 + self.coming.of(class)
    }

    pub(super) fn has_doubtful(&self) -> bool {
        SizeClass::ALL.iter().any(|&class| !self.doubtful.of(class).is_empty())
    }

    /// The names of what an earlier life moved are durable.
    pub(super) fn settle(&mut self) {
        for class in SizeClass::ALL {
            let settled = std::mem::take(self.doubtful.of_mut(class));
            self.waiting.of_mut(class).extend(settled);
        }
    }

    pub(super) fn take_doubtful(&mut self) -> Vec<PathBuf> {
        SizeClass::ALL
            .iter()
            .flat_map(|&class| std::mem::take(self.doubtful.of_mut(class)))
            .collect()
    }
}

/// See the top of the file.
#[derive(Debug)]
pub(super) struct Device {
    /// `st_dev`.
    pub(super) id: u64,
    state: Mutex<DeviceState>,
}

#[derive(Debug)]
pub(super) struct DeviceState {
    pub(super) options: PoolLimits,
    /// As last sampled.
    pub(super) space: Option<Space>,
    /// So little is left of it that nothing is kept but what is kept back.
    pub(super) short: bool,
    /// Whether the space of a file can be counted on when it is overwritten; `None` until that was tried.
    pub(super) reserves: Option<bool>,
    /// Not tried before.
    pub(super) probe_at: Duration,
    /// The last file that was to be made ahead could not be: until then no other is begun.
    pub(super) retry_at: Duration,
    /// It found no room.
    pub(super) full: bool,
    pub(super) books: Vec<Book>,
}

/// What `take` is given.
#[derive(Debug)]
pub(super) enum Found {
    Ready(Shelved),
    /// To be stamped first; it counts as coming.
    Waiting(PathBuf),
}

impl Device {
    pub(super) fn new(id: u64, options: PoolLimits) -> Self {
        let state = DeviceState {
            options,
            space: None,
            short: false,
            reserves: None,
            probe_at: Duration::ZERO,
            retry_at: Duration::ZERO,
            full: false,
            books: Vec::new(),
        };
        Self { id, state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, DeviceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeviceState {
    pub(super) fn allowance(&self) -> Allowance {
        let mut allowance = self.options.allowance(self.space.map_or(0, |space| space.total));
        if self.short {
            allowance.budget = 0;
        }
        if self.reserves == Some(false) {
            // An overwrite may find no space there, so nothing could be promised with them.
            allowance.kept_back = 0;
        }
        allowance
    }

    /// How many files may be kept back on the device for its inodes' sake: the share that counts for bytes counts for them,
    /// or what is kept back would itself be what the device is short of. Where inodes are made of free blocks the count falls as
    /// the device fills, and with it would what is kept back, just when it is needed.
    fn kept_back_files(&self) -> u64 {
        match self.space {
            Some(space) if space.inodes > 0 && !space.inodes_from_blocks => {
                self.options.kept_back_share.of(space.inodes)
            }
            _ => u64::MAX,
        }
    }

    /// The share of one data directory, with the whole budget.
    fn alone(&self, at: usize, allowance: Allowance) -> Holding {
        let book = &self.books[at];
        let held = ByClass {
            tiny: book.held(SizeClass::Tiny),
            small: book.held(SizeClass::Small),
            main: book.held(SizeClass::Main),
        };
        let prepared = u64::from(self.options.prepared);
        Holding {
            sizes: book.sizes,
            held,
            wanted: book.in_use.each(|&in_use| if in_use { prepared } else { 0 }),
            kept_back: (allowance.kept_back / book.sizes.tiny).min(self.kept_back_files())
                / self.books.len() as u64,
            budget: allowance.budget,
        }
    }

    /// Bytes of spares that can be deleted at any time.
    pub(super) fn releasable(&self) -> u64 {
        if self.space.is_none() {
            // How many are kept back follows from the size: a start on a full disk would take those for free, and publish.
            return 0;
        }
        let allowance = self.allowance();
        (0..self.books.len()).map(|at| self.alone(at, allowance).counted_bytes()).sum()
    }

    /// What one data directory holds, and what the others leave it of the device's budget.
    pub(super) fn holding(&self, at: usize) -> Holding {
        let allowance = self.allowance();
        let others: u64 = (0..self.books.len())
            .filter(|&other| other != at)
            .map(|other| self.alone(other, allowance).counted_bytes())
            .sum();
        let alone = self.alone(at, allowance);
        Holding { budget: alone.budget.saturating_sub(others), ..alone }
    }

    /// Takes a spare of `class` out of the book; with `kept_back` also one of those that are kept back.
    pub(super) fn find(&mut self, at: usize, class: SizeClass, kept_back: bool) -> Option<Found> {
        let only_kept_back = self.holding(at).counted(class) == 0;
        if only_kept_back && !kept_back && !planted::is(Fault::KeptBackGivenToPublish) {
            return None;
        }
        let book = &mut self.books[at];
        if let Some(ready) = book.ready.of_mut(class).pop() {
            return Some(Found::Ready(ready));
        }
        let path = book.waiting.of_mut(class).pop_front()?;
        *book.coming.of_mut(class) += 1;
        Some(Found::Waiting(path))
    }

    /// Takes out a file that is to be deleted, those not stamped yet first.
    pub(super) fn give_away(&mut self, at: usize, class: SizeClass) -> Option<PathBuf> {
        let book = &mut self.books[at];
        let doubtful = book.doubtful.of_mut(class).pop();
        let waiting = doubtful.or_else(|| book.waiting.of_mut(class).pop_back());
        waiting.or_else(|| {
            let ready = book.ready.of_mut(class);
            // The one that was given back first: its pages have long left the cache.
            (!ready.is_empty()).then(|| ready.remove(0).path)
        })
    }

    /// The next file to be stamped, the smallest first: those that are kept back are among them.
    pub(super) fn next_waiting(
        &mut self,
        at: usize,
        now: Duration,
    ) -> Option<(SizeClass, PathBuf)> {
        let book = &mut self.books[at];
        if now < book.stamp_at {
            return None;
        }
        for class in SizeClass::ALL {
            if let Some(path) = book.waiting.of_mut(class).pop_front() {
                *book.coming.of_mut(class) += 1;
                return Some((class, path));
            }
        }
        None
    }

    /// Bytes that are missing of what is to be kept back on the device, in whichever directory.
    pub(super) fn kept_back_missing(&self) -> u64 {
        let missing = |at| {
            let holding = self.holding(at);
            holding.kept_back_missing() * holding.sizes.tiny
        };
        (0..self.books.len()).map(missing).sum()
    }

    /// Whether what is kept back is short, and a file of `size` bytes for somebody else would take the space that it lacks:
    /// then it comes first. Where a file found no room just now this is known; right after a start only the sample tells.
    pub(super) fn starved(&self, size: u64) -> bool {
        let missing = self.kept_back_missing();
        let short = || self.space.is_some_and(|space| space.available < missing + size);
        missing > 0 && (self.full || short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_its_size_is_known_no_spare_of_a_device_counts_as_free() {
        let device = Device::new(7, PoolLimits::default());
        let mut state = device.lock();
        let mut book = Book::new(ClassSizes { tiny: 64 << 10, small: 512 << 10, main: 1 << 20 });
        book.waiting.tiny = (0..102).map(|number| PathBuf::from(number.to_string())).collect();
        state.books.push(book);
        assert_eq!(state.releasable(), 0, "before the first sample all of them are kept back");
        let (total, available) = (128 << 20, 0);
        state.space = Some(Space { total, available, withheld: 98 << 20, ..Space::default() });
        assert_eq!(state.releasable(), 0);
        state.books[0].waiting.main.push_back(PathBuf::from("main"));
        assert_eq!(state.releasable(), 1 << 20);
    }

    #[test]
    fn inodes_bound_what_is_kept_back_only_where_their_number_is_fixed() {
        for (inodes_from_blocks, kept) in [(false, 5), (true, 102)] {
            let device = Device::new(7, PoolLimits::default());
            let mut state = device.lock();
            let sizes = ClassSizes { tiny: 64 << 10, small: 512 << 10, main: 1 << 20 };
            state.books.push(Book::new(sizes));
            // As XFS says when it is nearly full: it has few inodes as it has few free blocks.
            state.space = Some(Space {
                total: 128 << 20,
                inodes: 100,
                inodes_available: 4,
                inodes_from_blocks,
                ..Space::default()
            });
            assert_eq!(state.holding(0).kept_back, kept);
        }
    }
}
