//! A log takes a spare, or gives back one that it did not use.

use super::device::{Found, Shelved};
use super::ledger::Freed;
use super::make::Making;
use super::shelf::{Shelf, Stamped, lock};
use crate::fs::is_no_space;
use crate::planted::{self, Fault};
use crate::segment::{Reuse, SegmentSource, Spare, TakeError, Want};
use crate::types::{Generation, SizeClass, WriteClass};
use std::ffi::OsStr;
use std::io;
use std::path::Path;

/// A name that no file has: what an earlier life left under it, a start removes.
const NOTHING: &str = "nothing.tmp";

impl Shelf {
    /// What is ready, or made now; for what may have it also what is kept back.
    pub(super) fn take_spare(&self, want: &Want<'_>) -> Result<Spare, TakeError> {
        if self.is_apart(want.dir) {
            return self
                .take_fresh(want.dir, want.class, want.purpose)
                .map_err(|error| self.short(want, error));
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
        if let Some(spare) = self.find(want.class, false, want.purpose) {
            return Ok(spare);
        }
        match self.take_fresh(&self.dir, want.class, want.purpose) {
            Err(TakeError::Disk(error)) if is_no_space(&error) && entitled => {
                Ok(self.take_any(want, error)?)
            }
            other => other.map_err(|error| self.short(want, error)),
        }
    }

    /// Tells that a file was refused to somebody. What is only to be there early nobody misses yet.
    fn short(&self, want: &Want<'_>, error: TakeError) -> TakeError {
        match error {
            TakeError::Limited(mut limited) if want.room > 0 => {
                let (device, bytes) = (self.device_of(want.dir), self.sizes.of(want.class));
                self.ledger.ran_short(device, want.purpose, bytes);
                limited.level = want.purpose.refused_from().unwrap_or_default();
                limited.into()
            }
            other => other,
        }
    }

    /// Puts a spare back that was not written.
    pub(super) fn put_back(&self, spare: Spare) {
        let Spare { path, file, generation, class, .. } = spare;
        drop(file);
        self.with(|state| state.books[self.at].counters.given_back += 1);
        if path.parent() != Some(&self.dir) {
            return self.put_back_from_log(&path);
        }
        if path.extension() == Some(OsStr::new("tmp")) {
            return self.put_in(&path, class);
        }
        self.with(|state| {
            let prepared = generation == Generation::FIRST;
            let shelved = Shelved { path, generation, prepared };
            state.books[self.at].ready.of_mut(class).push(shelved);
        });
        self.bell.ring();
    }

    /// Makes a spare of a file that has no name of one yet, or deletes it.
    fn put_in(&self, path: &Path, class: SizeClass) {
        if !self.with(|state| state.holding(self.at).keeps(class)) {
            self.with(|state| state.books[self.at].counters.deleted_over_budget += 1);
            return self.remove(path, self.sizes.of(class), Freed::File);
        }
        if let Err(error) = self.shelve(path, class, true) {
            tracing::debug!(path = %path.display(), %error, "a spare cannot be named");
        }
    }

    /// Makes a tiny file, to see whether there is room again.
    pub(super) fn try_room(&self) {
        match self.make(&self.dir, SizeClass::Tiny, WriteClass::Recovery) {
            Ok(spare) => self.put_in(&spare.path, spare.class),
            Err(error) => {
                tracing::debug!(dir = %self.dir.display(), %error, "there is still no room");
            }
        }
    }

    /// The same for one that stands in a log's directory: it leaves as a file does that the log gives up, stamped again
    /// when its name there is gone for good.
    fn put_back_from_log(&self, path: &Path) {
        let Some(log) = path.parent() else { return };
        let gone = match self.take_out(path, Reuse::Allowed) {
            Ok(gone) => gone,
            // Nothing in its place is a segment's: the log's next start removes it.
            Err(error) => {
                return tracing::debug!(path = %path.display(), %error, "stays until the next start");
            }
        };
        // The new name first, or there may be none.
        match self.fs.sync_dir(&self.dir).and_then(|()| self.fs.sync_dir(log)) {
            Ok(()) => self.take_in(gone),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a spare that was given back is deleted");
                self.delete_lost(gone);
            }
        }
    }

    /// Opens a spare that was taken out of the book.
    fn open_ready(
        &self,
        class: SizeClass,
        shelved: Shelved,
        kept_back: bool,
        purpose: WriteClass,
    ) -> Option<Spare> {
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
        Some(Spare { path, file, generation, class, capacity, kept_back, purpose })
    }

    /// A spare of `class`, stamped now if none is ready.
    fn find(&self, class: SizeClass, kept_back: bool, purpose: WriteClass) -> Option<Spare> {
        loop {
            match self.with(|state| state.find(self.at, class, kept_back))? {
                Found::Ready(shelved) => {
                    return self.open_ready(class, shelved, kept_back, purpose);
                }
                Found::Waiting(path) => {
                    if self.stamp(class, path) == Stamped::NotNow {
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
    fn take_fresh(
        &self,
        dir: &Path,
        class: SizeClass,
        purpose: WriteClass,
    ) -> Result<Spare, TakeError> {
        let spare = self.make(dir, class, purpose)?;
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
    fn fill_kept_back(&self) -> Result<(), TakeError> {
        while self.with(|state| state.holding(self.at).kept_back_missing() > 0) {
            let spare = self.make(&self.dir, SizeClass::Tiny, WriteClass::Recovery)?;
            self.shelve(&spare.path, SizeClass::Tiny, true)?;
        }
        if self.with(|state| state.kept_back_missing() > 0) {
            self.bell.ring();
            return Err(io::Error::from_raw_os_error(libc::ENOSPC).into());
        }
        Ok(())
    }

    fn make(&self, dir: &Path, class: SizeClass, purpose: WriteClass) -> Result<Spare, TakeError> {
        let mut making = self.begin_making(dir, class, purpose)?;
        let made = loop {
            match making.step() {
                Ok(true) => break making.finish(Generation::FIRST, self.clock.unix_millis()),
                Ok(false) => {}
                Err(error) => break Err(error),
            }
        };
        if let Err(error) = made {
            // A failed roll leaves nothing behind.
            self.discard(making, &error);
            return Err(error.into());
        }
        self.made(&making);
        let Making { path, file, class, capacity, .. } = making;
        let generation = Generation::FIRST;
        Ok(Spare { path, file, generation, class, capacity, kept_back: false, purpose })
    }

    pub(super) fn begin_making(
        &self,
        dir: &Path,
        class: SizeClass,
        purpose: WriteClass,
    ) -> Result<Making, TakeError> {
        let (device, size) = (self.device_of(dir), self.sizes.of(class));
        self.ledger.begin(device, purpose, size)?;
        loop {
            let path = self.temporary(dir);
            match Making::begin(&*self.fs, path, class, size, device) {
                Ok(making) => {
                    if making.reserved {
                        self.ledger.taken(device, size);
                    }
                    return Ok(making);
                }
                // A name may be taken by what could not be removed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    self.ledger.ended(device, size, false, Err(&error));
                    return Err(error.into());
                }
            }
        }
    }

    /// Gives up a file that cannot be made, or is not wanted any more.
    pub(super) fn discard(&self, making: Making, why: &io::Error) {
        let Making { device, capacity, reserved, .. } = making;
        if reserved {
            self.ledger.freed(device, capacity, Freed::File);
        }
        making.discard(&*self.fs);
        self.ledger.ended(device, capacity, reserved, Err(why));
    }

    pub(super) fn made(&self, making: &Making) {
        self.ledger.ended(making.device, making.capacity, making.reserved, Ok(()));
    }

    /// What there is when no file of the class can be had: a smaller one made now, a spare of another class, and last one
    /// of those that are kept back.
    fn take_any(&self, want: &Want<'_>, error: io::Error) -> io::Result<Spare> {
        let holds = |class: &SizeClass| self.sizes.room(*class) >= want.room;
        let smaller = SizeClass::ALL.into_iter().find(|class| holds(class) && *class < want.class);
        // Not while those that are kept back are short: the space that there is belongs to them.
        let free = |class: &SizeClass| !self.with(|state| state.starved(self.sizes.of(*class)));
        if let Some(class) = smaller.filter(free)
            && let Ok(spare) = self.take_fresh(&self.dir, class, want.purpose)
        {
            return Ok(spare);
        }
        // Now it is worth the wait.
        self.settle_doubtful();
        let there = SizeClass::ALL
            .into_iter()
            .filter(holds)
            .find_map(|class| self.find(class, false, want.purpose));
        if let Some(spare) = there {
            return Ok(spare);
        }
        if holds(&SizeClass::Tiny)
            && let Some(spare) = self.find(SizeClass::Tiny, true, want.purpose)
        {
            return Ok(spare);
        }
        Err(error)
    }
}
