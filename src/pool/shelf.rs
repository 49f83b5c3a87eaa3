//! The spares of one data directory, as its logs see them.
//!
//! # The order of steps
//!
//! Giving up: the file is renamed out of its log; both directories are synced; the spare header with the next generation
//! is written over the old one; that is synced; then the file can be taken. The directories come first, or a power cut
//! could bring the old name back with the new header behind it: a log whose segment is a spare [R]. Their syncs are the
//! caller's, as they also put one removal before the next.
//!
//! Taking: the file is renamed into the log, and the log's first commit in it makes that durable with its header. One that
//! was moved beside the log's segments ahead, and is given back, takes the steps of giving up.
//!
//! At the start every spare is stamped again: a crash between a taking and its first sync can leave a durable spare header
//! with records of its own generation behind it, which would be valid in the next use [R].

use super::device::{Device, DeviceState, Shelved};
use super::ledger::{Freed, Ledger};
use super::make::{Making, remove};
use super::names::sync_below;
use super::stamp::{self, Stamp, Unfit};
use super::{Bell, Last};
use crate::clock::Clock;
use crate::format::layout::ClassSizes;
use crate::format::name::SEGMENT_SUFFIX;
use crate::fs::{FileKind, FileSystem};
use crate::planted::{self, Fault};
use crate::segment::{GivenUp, Reuse, SegmentSource, Spare, TakeError, Want};
use crate::types::{Generation, SizeClass, WriteClass};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What became of a file that was to be stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamped {
    Ready,
    /// It cannot serve again, and was deleted.
    Gone,
    /// It could not be opened, and is still to be stamped.
    NotNow,
}

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
    pub(super) bell: Arc<Bell>,
    pub(super) ledger: Arc<dyn Ledger>,
    last: Last,
    next: AtomicU64,
    /// Held while the directories of the logs are synced for what an earlier life moved out of them.
    settling: Mutex<()>,
    /// The node closes: nothing long is begun or gone on with.
    pub(super) closing: AtomicBool,
    /// Directories that nothing can be renamed into.
    pub(super) apart: Mutex<BTreeSet<PathBuf>>,
    /// What the worker is making; held while it works on it.
    pub(super) making: Mutex<Option<Making>>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
        ledger: &Arc<dyn Ledger>,
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
            ledger: Arc::clone(ledger),
            last: Arc::clone(last),
            next: AtomicU64::new(0),
            settling: Mutex::default(),
            closing: AtomicBool::new(false),
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
                    next = stem
                        .parse::<u64>()
                        .map_or(next, |number| next.max(number.saturating_add(1)));
                    match stamp::class_of(&*self.fs, &path, &self.sizes) {
                        Ok(header) => found.push((path, header)),
                        Err(unfit) => self.delete(&path, &unfit),
                    }
                }
                _ if planted::is(Fault::UnfinishedNotRemoved) => {}
                // It was being made, or is a link, which is removed and not followed. What cannot be removed keeps no node
                // from starting.
                _ => {
                    if path.extension() != Some(OsStr::new("tmp")) {
                        tracing::warn!(path = %path.display(), "nobody's: removed from among the spares");
                    }
                    remove(&*self.fs, &path);
                }
            }
        }
        self.next.store(next, Ordering::Relaxed);
        let mut state = self.device.lock();
        let book = &mut state.books[self.at];
        for (path, header) in found {
            if planted::is(Fault::SparesNotStampedAtStart) && header.in_use.is_none() {
                let generation = header.generation;
                let shelved = Shelved { path, generation, prepared: false };
                book.ready.of_mut(header.class).push(shelved);
            } else if header.in_use.is_none() {
                book.waiting.of_mut(header.class).push_back(path);
            } else {
                book.doubtful.of_mut(header.class).push(path);
            }
        }
        Ok(())
    }

    pub(super) fn with<T>(&self, work: impl FnOnce(&mut DeviceState) -> T) -> T {
        work(&mut self.device.lock())
    }

    pub(super) fn last(&self) -> Generation {
        let raw = self.last.load(Ordering::Relaxed);
        Generation::new(raw).unwrap_or(Generation::FIRST)
    }

    pub(super) fn temporary(&self, dir: &Path) -> PathBuf {
        dir.join(format!("{:020}.tmp", self.next.fetch_add(1, Ordering::Relaxed)))
    }

    pub(super) fn name(&self) -> PathBuf {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.dir.join(format!("{number:020}{SEGMENT_SUFFIX}"))
    }

    fn delete(&self, path: &Path, why: &Unfit) {
        remove(&*self.fs, path);
        self.with(|state| {
            let counters = &mut state.books[self.at].counters;
            match why {
                Unfit::LastGeneration => counters.deleted_last_generation += 1,
                Unfit::Unreadable(error) | Unfit::Unopened(error) => {
                    tracing::warn!(path = %path.display(), %error, "a file that cannot serve again is deleted");
                    counters.deleted_unfit += 1;
                }
            }
        });
    }

    /// Makes sure that what an earlier life gave up, and did not stamp any more, has no other name that could come back:
    /// with a spare's header behind it that name would be a hole in a log [R]. Blocks on a sync of each log's directory,
    /// which may be thousands, so nobody waits for it who need not. Says whether there was something to do.
    ///
    /// What has a spare's header needs none of this: it was stamped when its names were durable, or it is one that was being
    /// taken, and is that again if its name comes back.
    pub(super) fn settle_doubtful(&self) -> bool {
        let _one_at_a_time = lock(&self.settling);
        if self.with(|state| !state.books[self.at].has_doubtful()) {
            return false;
        }
        let stop = || self.closing.load(Ordering::Relaxed);
        let synced = if planted::is(Fault::StampedAtStartBeforeNamesAreSynced) {
            Ok(true)
        } else {
            sync_below(&*self.fs, &self.logs, &stop)
        };
        match synced {
            Ok(true) => self.with(|state| state.books[self.at].settle()),
            Ok(false) => {}
            Err((path, error)) => {
                // A second sync would prove nothing. Without the file there is nothing behind the name.
                tracing::warn!(path = %path.display(), %error, "files that were given up are deleted");
                for path in self.with(|state| state.books[self.at].take_doubtful()) {
                    remove(&*self.fs, &path);
                    self.with(|state| state.books[self.at].counters.deleted_unfit += 1);
                }
            }
        }
        true
    }

    /// Stamps a file that was counted as coming, and makes it ready.
    pub(super) fn stamp(&self, class: SizeClass, path: PathBuf) -> Stamped {
        let now = self.clock.unix_millis();
        let stamped = stamp::stamp(&*self.fs, &path, &self.sizes, self.last(), now);
        if let Err(Unfit::Unopened(error)) = &stamped
            && error.kind() != io::ErrorKind::NotFound
        {
            // Descriptors may have run out, which says nothing against the file.
            tracing::warn!(path = %path.display(), %error, "a file that was given up cannot be opened");
            self.with(|state| {
                let book = &mut state.books[self.at];
                *book.coming.of_mut(class) -= 1;
                book.waiting.of_mut(class).push_back(path);
            });
            return Stamped::NotNow;
        }
        match stamped {
            Ok(Stamp { class: now, generation, again }) => self.with(|state| {
                let book = &mut state.books[self.at];
                *book.coming.of_mut(class) -= 1;
                book.counters.stamped += 1;
                book.counters.stamped_again += u64::from(again);
                book.ready.of_mut(now).push(Shelved { path, generation, prepared: false });
                Stamped::Ready
            }),
            Err(unfit) => {
                // After a failed write or sync of it, too: it is never written again.
                self.delete(&path, &unfit);
                self.with(|state| *state.books[self.at].coming.of_mut(class) -= 1);
                Stamped::Gone
            }
        }
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

    /// Deletes a file of `bytes` that is in no book any more.
    pub(super) fn remove(&self, path: &Path, bytes: u64, what: Freed) {
        self.ledger.freed(self.device.id, bytes, what);
        remove(&*self.fs, path);
        self.space_came_back();
    }

    /// The same for a file of a log.
    ///
    /// # Errors
    /// Of the removal; the books count its bytes as free for some seconds all the same.
    pub(super) fn remove_of_log(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let device = path.parent().map_or(self.device.id, |log| self.device_of(log));
        self.ledger.freed(device, bytes, Freed::File);
        self.fs.remove_file(path)?;
        self.space_came_back();
        Ok(())
    }

    /// What was deleted left room: a file that found none is tried again.
    fn space_came_back(&self) {
        self.with(|state| state.retry_at = Duration::ZERO);
        self.bell.ring();
    }

    /// The device that `dir` is on: another than that of the spares only where nothing can be renamed there.
    pub(super) fn device_of(&self, dir: &Path) -> u64 {
        if !lock(&self.apart).contains(dir) {
            return self.device.id;
        }
        self.fs.metadata(dir).map_or(self.device.id, |metadata| metadata.device)
    }
}

impl SegmentSource for Shelf {
    fn sizes(&self) -> ClassSizes {
        self.sizes
    }

    fn spares_dir(&self) -> &Path {
        &self.dir
    }

    fn take(&self, want: &Want<'_>) -> Result<Spare, TakeError> {
        self.take_spare(want)
    }

    fn make_room(&self, purpose: WriteClass) -> bool {
        self.release_one().is_some() || purpose.may_use_kept_back() && self.sacrifice()
    }

    fn give_back(&self, spare: Spare) {
        self.put_back(spare);
    }

    fn cannot_rename_into(&self, dir: &Path) {
        tracing::warn!(dir = %dir.display(), "on another mount than the spares: its files are made there, and not reused");
        lock(&self.apart).insert(dir.to_path_buf());
    }

    fn give_up(&self, path: &Path, reuse: Reuse) -> io::Result<GivenUp> {
        self.take_out(path, reuse)
    }

    fn lost(&self, file: GivenUp) {
        self.delete_lost(file);
    }

    fn given_up(&self, file: GivenUp) {
        self.take_in(file);
    }
}
