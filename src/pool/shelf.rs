//! The spares of one data directory, as its logs see them.
//!
//! # The order of steps
//!
//! Giving up: the file is renamed out of its log; both directories are synced; the spare header with the next generation
//! is written over the old one; that is synced; then the file can be taken. The directories come first, or a power cut
//! could bring the old name back with the new header behind it: a log whose segment is a spare [R]. Their syncs are the
//! caller's, as they also put one removal before the next.
//!
//! Taking: the file is renamed into the log, and the log's first commit in it makes that durable with its header.
//!
//! At the start every spare is stamped again: a crash between a taking and its first sync can leave a durable spare header
//! with records of its own generation behind it, which would be valid in the next use [R].

use super::device::{Device, DeviceState, Found, Shelved};
use super::make::{Making, remove};
use super::names::sync_below;
use super::stamp::{self, Unfit};
use super::stats::PoolStats;
use super::{Bell, Last};
use crate::clock::Clock;
use crate::format::layout::ClassSizes;
use crate::format::name::SEGMENT_SUFFIX;
use crate::fs::{FileKind, FileSystem, is_no_space};
use crate::planted::{self, Fault};
use crate::segment::{GivenUp, Reuse, SegmentSource, Spare, Want};
use crate::types::{Generation, SizeClass};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// See the top of the file.
#[derive(Debug)]
pub(crate) struct Shelf {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) dir: PathBuf,
    logs: PathBuf,
    pub(super) sizes: ClassSizes,
    pub(super) device: Arc<Device>,
    /// Its place among the device's books.
    pub(super) at: usize,
    bell: Arc<Bell>,
    last: Last,
    next: AtomicU64,
    /// The directories of the logs are still to be synced, for what an earlier life moved out of them; held while they are.
    unsynced: Mutex<bool>,
    /// Spares that were there at the start.
    found: AtomicU64,
    /// Directories that nothing can be renamed into.
    apart: Mutex<BTreeSet<PathBuf>>,
    /// What the worker is making; held while it works on it.
    pub(super) making: Mutex<Option<Making>>,
}

/// A name that no file has: what an earlier life left under it, a start removes.
const NOTHING: &str = "nothing.tmp";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shelf {
    /// Looks at what an earlier life left in `dir`: spares are to be stamped again, anything else goes.
    ///
    /// # Errors
    /// Of listing the directory.
    #[allow(clippy::too_many_arguments, reason = "the pool's parts, handed on")]
    pub(super) fn open(
        fs: &Arc<dyn FileSystem>,
        clock: &Arc<dyn Clock>,
        dir: &Path,
        logs: &Path,
        sizes: ClassSizes,
        device: &Arc<Device>,
        bell: &Arc<Bell>,
        last: &Last,
    ) -> io::Result<Self> {
        let mut state = device.lock();
        state.books.push(super::device::Book::new(sizes));
        let at = state.books.len() - 1;
        drop(state);
        let this = Self {
            fs: Arc::clone(fs),
            clock: Arc::clone(clock),
            dir: dir.to_path_buf(),
            logs: logs.to_path_buf(),
            sizes,
            device: Arc::clone(device),
            at,
            bell: Arc::clone(bell),
            last: Arc::clone(last),
            next: AtomicU64::new(0),
            unsynced: Mutex::default(),
            found: AtomicU64::new(0),
            apart: Mutex::default(),
            making: Mutex::default(),
        };
        this.look()?;
        Ok(this)
    }

    fn look(&self) -> io::Result<()> {
        let (mut found, mut next) = (Vec::new(), 0);
        for entry in self.fs.list(&self.dir)? {
            let path = self.dir.join(&entry.name);
            let stem = entry.name.to_str().and_then(|name| name.strip_suffix(SEGMENT_SUFFIX));
            match (entry.kind, stem) {
                // Not ours, and in nobody's way.
                (FileKind::Directory, _) => {}
                (FileKind::File, Some(stem)) => {
                    next = stem.parse::<u64>().map_or(next, |number| next.max(number + 1));
                    match stamp::class_of(&*self.fs, &path, &self.sizes) {
                        Ok(header) => found.push((path, header)),
                        Err(unfit) => self.delete(&path, &unfit),
                    }
                }
                _ if planted::is(Fault::UnfinishedNotRemoved) => {}
                // It was being made, or is a link, which is removed and not followed.
                _ => self.fs.remove_file(&path)?,
            }
        }
        self.next.store(next, Ordering::Relaxed);
        self.found.store(found.len() as u64, Ordering::Relaxed);
        *lock(&self.unsynced) = !found.is_empty();
        let mut state = self.device.lock();
        let book = &mut state.books[self.at];
        for (path, header) in found {
            if planted::is(Fault::SparesNotStampedAtStart) && header.in_use.is_none() {
                let generation = header.generation;
                let shelved = Shelved { path, generation, prepared: false };
                book.ready.of_mut(header.class).push(shelved);
            } else {
                book.waiting.of_mut(header.class).push_back(path);
            }
        }
        Ok(())
    }

    pub(super) fn with<T>(&self, work: impl FnOnce(&mut DeviceState) -> T) -> T {
        work(&mut self.device.lock())
    }

    fn last(&self) -> Generation {
        let raw = self.last.load(Ordering::Relaxed);
        Generation::new(raw).unwrap_or(Generation::FIRST)
    }

    pub(super) fn temporary(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{:020}.tmp", self.next.fetch_add(1, Ordering::Relaxed)))
    }

    fn name(&self) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.dir.join(format!("{number:020}{SEGMENT_SUFFIX}"))
    }

    fn delete(&self, path: &Path, why: &Unfit) {
        remove(&*self.fs, path);
        self.with(|state| {
            let counters = &mut state.books[self.at].counters;
            match why {
                Unfit::LastGeneration => counters.deleted_last_generation += 1,
                Unfit::Unreadable(error) => {
                    tracing::warn!(path = %path.display(), %error, "a file that cannot serve again is deleted");
                    counters.deleted_unfit += 1;
                }
            }
        });
    }

    /// Makes sure that no spare of an earlier life has another name that could come back. After a failed sync nothing is
    /// known, and a second one would prove nothing: what waits then waits for the next start.
    fn sync_names(&self) -> bool {
        let mut unsynced = lock(&self.unsynced);
        if std::mem::take(&mut *unsynced)
            && !planted::is(Fault::StampedAtStartBeforeNamesAreSynced)
            && let Err((path, error)) = sync_below(&*self.fs, &self.logs)
        {
            tracing::warn!(path = %path.display(), %error, "spares wait for the next start");
            self.with(|state| state.books[self.at].frozen = true);
        }
        !self.with(|state| state.books[self.at].frozen)
    }

    /// Stamps a file that was counted as coming, and makes it ready. Says whether it is.
    pub(super) fn stamp(&self, class: SizeClass, path: PathBuf) -> bool {
        if !self.sync_names() {
            self.with(|state| {
                let book = &mut state.books[self.at];
                *book.coming.of_mut(class) -= 1;
                book.waiting.of_mut(class).push_back(path);
            });
            return false;
        }
        let now = self.clock.unix_millis();
        let stamped = stamp::stamp(&*self.fs, &path, &self.sizes, self.last(), now);
        // Those of an earlier life are the first in their queues.
        let again = self
            .found
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok();
        match stamped {
            Ok((now, generation)) => self.with(|state| {
                let book = &mut state.books[self.at];
                *book.coming.of_mut(class) -= 1;
                book.counters.stamped += 1;
                book.counters.stamped_again += u64::from(again);
                book.ready.of_mut(now).push(Shelved { path, generation, prepared: false });
                true
            }),
            Err(unfit) => {
                // After a failed write or sync of it, too: it is never written again.
                self.delete(&path, &unfit);
                self.with(|state| *state.books[self.at].coming.of_mut(class) -= 1);
                false
            }
        }
    }

    /// Opens a spare that was taken out of the book.
    fn open_ready(&self, class: SizeClass, shelved: Shelved, kept_back: bool) -> Option<Spare> {
        let Shelved { path, generation, prepared } = shelved;
        let file = match self.fs.open_write(&path) {
            Ok(file) => file,
            Err(error) => {
                // Descriptors may have run out, which says nothing against the file.
                tracing::warn!(path = %path.display(), %error, "a spare cannot be opened");
                let missing = error.kind() == io::ErrorKind::NotFound;
                if !missing {
                    let shelved = Shelved { path, generation, prepared };
                    self.with(|state| state.books[self.at].ready.of_mut(class).insert(0, shelved));
                }
                return None;
            }
        };
        self.with(|state| {
            let counters = &mut state.books[self.at].counters;
            match (kept_back, prepared) {
                (true, _) => counters.taken_kept_back += 1,
                (false, true) => counters.taken_prepared += 1,
                (false, false) => counters.taken_reused += 1,
            }
        });
        self.bell.ring();
        let capacity = self.sizes.of(class);
        Some(Spare { path, file, generation, class, capacity, kept_back })
    }

    /// A spare of `class`, stamped now if none is ready.
    fn find(&self, class: SizeClass, kept_back: bool) -> Option<Spare> {
        loop {
            match self.with(|state| state.find(self.at, class, kept_back))? {
                Found::Ready(shelved) => return self.open_ready(class, shelved, kept_back),
                Found::Waiting(path) => {
                    if !self.stamp(class, path) && self.with(|state| state.books[self.at].frozen) {
                        return None;
                    }
                }
            }
        }
    }

    /// Whether files for the log's directory `dir` are made there, as none can be renamed into it.
    ///
    /// Another mount is found out before a file is taken, and not at its rename: a commit would fail then, and a batch of
    /// which the first part stands in the file before would be there in part; a healing that fails stops the log. The
    /// kernel compares the mounts before it looks for the file, so a name that nobody has tells.
    fn is_apart(&self, dir: &Path) -> bool {
        if lock(&self.apart).contains(dir) {
            return true;
        }
        let told = self.fs.rename(&self.dir.join(NOTHING), &dir.join(NOTHING));
        let apart = told.is_err_and(|error| error.raw_os_error() == Some(libc::EXDEV));
        if apart {
            self.cannot_rename_into(dir);
        }
        apart
    }

    /// One that is made now.
    fn take_fresh(&self, dir: &Path, class: SizeClass) -> io::Result<Spare> {
        let spare = self.make(dir, class)?;
        self.with(|state| state.books[self.at].counters.taken_fresh += 1);
        self.bell.ring();
        Ok(spare)
    }

    /// Makes what is missing of the files that are kept back.
    ///
    /// # Errors
    /// Of making one, that there is no room above all; or of giving it its name: tried again at once, a rename that goes on
    /// failing would keep an append here for ever, making and deleting files. No room, too, while another directory on the
    /// device lacks some, which its own turn of the worker makes.
    fn fill_kept_back(&self) -> io::Result<()> {
        while self.with(|state| state.holding(self.at).kept_back_missing() > 0) {
            let spare = self.make(&self.dir, SizeClass::Tiny)?;
            self.shelve(&spare.path, SizeClass::Tiny, true)?;
        }
        if self.with(|state| state.kept_back_missing() > 0) {
            self.bell.ring();
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        Ok(())
    }

    fn make(&self, dir: &Path, class: SizeClass) -> io::Result<Spare> {
        let mut making = self.begin_making(dir, class)?;
        let made = loop {
            match making.step() {
                Ok(true) => break making.finish(Generation::FIRST, self.clock.unix_millis()),
                Ok(false) => {}
                Err(error) => break Err(error),
            }
        };
        if let Err(error) = made {
            // A failed roll leaves nothing behind.
            making.discard(&*self.fs);
            return Err(error);
        }
        let Making { path, file, class, capacity, .. } = making;
        let generation = Generation::FIRST;
        Ok(Spare { path, file, generation, class, capacity, kept_back: false })
    }

    pub(super) fn begin_making(&self, dir: &Path, class: SizeClass) -> io::Result<Making> {
        loop {
            let path = self.temporary(dir);
            match Making::begin(&*self.fs, path, class, self.sizes.of(class)) {
                // A name may be taken by what could not be removed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => return other,
            }
        }
    }

    /// What there is when no file of the class can be had: a smaller one made now, a spare of another class, and last one
    /// of those that are kept back.
    fn take_any(&self, want: &Want<'_>, error: io::Error) -> io::Result<Spare> {
        let holds = |class: &SizeClass| self.sizes.room(*class) >= want.room;
        let smaller = SizeClass::ALL.into_iter().find(|class| holds(class) && *class < want.class);
        // Not while those that are kept back are short: the space that there is belongs to them.
        let free = |class: &SizeClass| !self.with(|state| state.starved(self.sizes.of(*class)));
        if let Some(class) = smaller.filter(free)
            && let Ok(spare) = self.take_fresh(&self.dir, class)
        {
            return Ok(spare);
        }
        let there =
            SizeClass::ALL.into_iter().filter(holds).find_map(|class| self.find(class, false));
        if let Some(spare) = there {
            return Ok(spare);
        }
        if holds(&SizeClass::Tiny)
            && let Some(spare) = self.find(SizeClass::Tiny, true)
        {
            return Ok(spare);
        }
        Err(error)
    }

    /// Puts a spare that belongs to nobody into the book under a name of its own.
    ///
    /// # Errors
    /// Of the rename; the file is deleted then.
    pub(super) fn shelve(&self, path: &Path, class: SizeClass, prepared: bool) -> io::Result<()> {
        let name = self.name();
        if let Err(error) = self.fs.rename(path, &name) {
            remove(&*self.fs, path);
            return Err(error);
        }
        self.with(|state| {
            let shelved = Shelved { path: name, generation: Generation::FIRST, prepared };
            state.books[self.at].ready.of_mut(class).push(shelved);
        });
        Ok(())
    }

    /// What was deleted left room: a file that found none is tried again.
    pub(super) fn space_came_back(&self) {
        self.with(|state| state.retry_at = Duration::ZERO);
        self.bell.ring();
    }

    fn rename_out(&self, path: &Path, class: SizeClass) -> io::Result<GivenUp> {
        let name = self.name();
        match self.fs.rename(path, &name) {
            Ok(()) => {
                self.with(|state| state.books[self.at].counters.given_up += 1);
                Ok(GivenUp { kept: Some((name, class)) })
            }
            Err(error) => {
                self.with(|state| *state.books[self.at].coming.of_mut(class) -= 1);
                let no_room = is_no_space(&error) || error.raw_os_error() == Some(libc::EXDEV);
                if !no_room || planted::is(Fault::GiveUpNeedsRoom) {
                    return Err(error);
                }
                self.fs.remove_file(path)?;
                self.with(|state| state.books[self.at].counters.deleted_not_renamed += 1);
                self.space_came_back();
                Ok(GivenUp::DELETED)
            }
        }
    }

    /// Whether a file of this header serves again; if so it counts as coming.
    fn keeps(&self, header: Result<crate::format::header::Header, Unfit>) -> Option<SizeClass> {
        let fit = header.and_then(|header| {
            stamp::next(header.generation, self.last())?;
            Ok(header.class)
        });
        self.with(|state| {
            let keeps = |class| !state.books[self.at].frozen && state.holding(self.at).keeps(class);
            let kept = match &fit {
                Ok(class) => keeps(*class).then_some(*class),
                Err(_) => None,
            };
            let book = &mut state.books[self.at];
            match (fit, kept) {
                (_, Some(class)) => *book.coming.of_mut(class) += 1,
                (Ok(_), None) => book.counters.deleted_over_budget += 1,
                (Err(Unfit::LastGeneration), None) => book.counters.deleted_last_generation += 1,
                (Err(Unfit::Unreadable(_)), None) => book.counters.deleted_unfit += 1,
            }
            kept
        })
    }

    /// What it holds and has done.
    pub(super) fn stats(&self) -> PoolStats {
        self.with(|state| {
            let (holding, allowance) = (state.holding(self.at), state.allowance());
            let book = &state.books[self.at];
            let each = |of: &dyn Fn(SizeClass) -> u64| SizeClass::ALL.map(of);
            let kept_back = holding.held.tiny.min(holding.kept_back);
            let counters = book.counters;
            PoolStats {
                dir: self.dir.clone(),
                device: self.device.id,
                ready: each(&|class| book.ready.of(class).len() as u64),
                coming: each(&|class| holding.held.of(class) - book.ready.of(class).len() as u64),
                bytes: holding.counted_bytes(),
                budget: allowance.budget,
                kept_back_bytes: kept_back * self.sizes.tiny,
                kept_back_missing: holding.kept_back_missing() * self.sizes.tiny,
                reserves: state.reserves,
                taken_reused: counters.taken_reused,
                taken_prepared: counters.taken_prepared,
                taken_fresh: counters.taken_fresh,
                taken_kept_back: counters.taken_kept_back,
                given_up: counters.given_up,
                given_back: counters.given_back,
                stamped: counters.stamped,
                stamped_again: counters.stamped_again,
                made: counters.made,
                deleted_over_budget: counters.deleted_over_budget,
                deleted_released: counters.deleted_released,
                deleted_last_generation: counters.deleted_last_generation,
                deleted_unfit: counters.deleted_unfit,
                deleted_not_renamed: counters.deleted_not_renamed,
            }
        })
    }
}

impl SegmentSource for Shelf {
    fn sizes(&self) -> ClassSizes {
        self.sizes
    }

    fn spares_dir(&self) -> &Path {
        &self.dir
    }

    fn take(&self, want: &Want<'_>) -> io::Result<Spare> {
        if self.is_apart(want.dir) {
            return self.take_fresh(want.dir, want.class);
        }
        let entitled = want.purpose.may_use_kept_back();
        let starved = self.with(|state| {
            let in_use = &mut state.books[self.at].in_use;
            *in_use.of_mut(want.class) = true;
            // The class that the log will be at next.
            *in_use.of_mut(want.class.up()) = true;
            state.starved(self.sizes.of(want.class))
        });
        if starved && !entitled && !planted::is(Fault::KeptBackFilledLast) {
            // What is kept back is filled again first: without it nothing would free space.
            self.fill_kept_back()?;
        }
        if let Some(spare) = self.find(want.class, false) {
            return Ok(spare);
        }
        match self.take_fresh(&self.dir, want.class) {
            Err(error) if is_no_space(&error) && entitled => self.take_any(want, error),
            other => other,
        }
    }

    fn give_back(&self, spare: Spare) {
        let Spare { path, file, generation, class, .. } = spare;
        drop(file);
        self.with(|state| state.books[self.at].counters.given_back += 1);
        if path.parent() != Some(&self.dir) {
            return remove(&*self.fs, &path);
        }
        if path.extension() == Some(OsStr::new("tmp")) {
            if self.with(|state| state.holding(self.at).keeps(class)) {
                if let Err(error) = self.shelve(&path, class, true) {
                    tracing::debug!(path = %path.display(), %error, "a spare cannot be named");
                }
            } else {
                self.with(|state| state.books[self.at].counters.deleted_over_budget += 1);
                remove(&*self.fs, &path);
            }
            return;
        }
        self.with(|state| {
            let prepared = generation == Generation::FIRST;
            let shelved = Shelved { path, generation, prepared };
            state.books[self.at].ready.of_mut(class).push(shelved);
        });
        self.bell.ring();
    }

    fn cannot_rename_into(&self, dir: &Path) {
        tracing::warn!(dir = %dir.display(), "on another mount than the spares: its files are made there, and not reused");
        lock(&self.apart).insert(dir.to_path_buf());
    }

    fn give_up(&self, path: &Path, reuse: Reuse) -> io::Result<GivenUp> {
        if reuse == Reuse::Never {
            self.fs.remove_file(path)?;
            self.with(|state| state.books[self.at].counters.deleted_unfit += 1);
            self.space_came_back();
            return Ok(GivenUp::DELETED);
        }
        let header = stamp::class_of(&*self.fs, path, &self.sizes);
        if let Err(Unfit::Unreadable(error)) = &header
            && error.kind() == io::ErrorKind::NotFound
        {
            return Err(io::ErrorKind::NotFound.into());
        }
        if let Some(class) = self.keeps(header) {
            return self.rename_out(path, class);
        }
        self.fs.remove_file(path)?;
        self.space_came_back();
        Ok(GivenUp::DELETED)
    }

    fn given_up(&self, file: GivenUp) {
        let Some((path, class)) = file.kept else { return };
        if planted::is(Fault::GivenUpNotStamped)
            && let Ok(header) = stamp::class_of(&*self.fs, &path, &self.sizes)
        {
            let shelved = Shelved { path, generation: header.generation, prepared: false };
            return self.with(|state| {
                let book = &mut state.books[self.at];
                *book.coming.of_mut(class) -= 1;
                book.ready.of_mut(class).push(shelved);
            });
        }
        self.with(|state| {
            let book = &mut state.books[self.at];
            *book.coming.of_mut(class) -= 1;
            book.waiting.of_mut(class).push_back(path);
        });
        self.bell.ring();
    }
}
