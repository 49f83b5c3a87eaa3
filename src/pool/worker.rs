//! What the pool does by itself, off the write path: one thing in one step, so that a simulator can crash between any two.

use super::Step;
use super::ledger::Freed;
use super::make::Making;
use super::shelf::{Shelf, Stamped};
use crate::fs::{is_no_space, reserves};
use crate::planted::{self, Fault};
use crate::types::{Fraction, Generation, SizeClass, WriteClass};
use std::io;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

/// Files are made ahead only while this much of the device stays free: below it they would be released again.
const FREE_FOR_MAKING: Fraction = Fraction::percent(10);

/// When a file that found no room, or could not be opened, is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// When a probe that failed is tried again.
const PROBE_AGAIN: Duration = Duration::from_secs(60);

impl Shelf {
    /// One step, the most urgent first.
    pub(super) fn step(&self) -> Step {
        let short = self.ledger.is_short(self.device.id);
        self.with(|state| state.short = short);
        if self.probe() {
            return Step::Done;
        }
        if let Some((class, path)) =
            self.with(|state| state.next_waiting(self.at, self.clock.elapsed()))
        {
            // Above the budget it would be stamped only to be deleted.
            if self.with(|state| state.holding(self.at).over() == Some(class)) {
                self.with(|state| *state.books[self.at].coming.of_mut(class) -= 1);
                self.delete_over(class, &path);
            } else if self.stamp(class, path) == Stamped::NotNow {
                let again = self.clock.elapsed() + TRY_AGAIN;
                self.with(|state| state.books[self.at].stamp_at = again);
            }
            return Step::Done;
        }
        if self.settle_doubtful() {
            return Step::Done;
        }
        if self.trim() {
            return Step::Done;
        }
        self.make_ahead()
    }

    /// Finds out, once for each device, whether its spares are a reserve: where some are to be kept back, as a promise
    /// hangs on it.
    fn probe(&self) -> bool {
        let now = self.clock.elapsed();
        let due = self.with(|state| {
            let promised = state.options.kept_back.0 > 0 && now >= state.probe_at;
            promised && state.reserves.is_none()
        });
        if !due {
            return false;
        }
        // On an error, as on a full disk, it is tried again: until then it is taken for one, as most are.
        self.with(|state| state.probe_at = now + PROBE_AGAIN);
        match reserves(&*self.fs, &self.dir) {
            Ok(reserves) => self.with(|state| state.reserves = Some(reserves)),
            Err(error) => {
                tracing::debug!(dir = %self.dir.display(), %error, "not known whether spares are a reserve");
            }
        }
        true
    }

    /// Deletes one file that the budget does not allow, as after a change of the settings.
    fn trim(&self) -> bool {
        let over = self.with(|state| {
            let class = state.holding(self.at).over()?;
            Some((class, state.give_away(self.at, class)?))
        });
        let Some((class, path)) = over else { return false };
        self.delete_over(class, &path);
        true
    }

    fn delete_over(&self, class: SizeClass, path: &Path) {
        self.with(|state| {
            let counters = &mut state.books[self.at].counters;
            match state.short {
                true => counters.deleted_released += 1,
                false => counters.deleted_over_budget += 1,
            }
        });
        self.remove(path, self.sizes.of(class), Freed::Spare);
    }

    /// Deletes one spare that can be released; gives its size.
    pub(super) fn release_one(&self) -> Option<u64> {
        self.release_at(self.at)
    }

    /// Deletes one of the files that are kept back, for something that frees space as they do. Half of them stay: what does
    /// not fit with the others gone would not with these, and they serve logs whose directory has room.
    pub(super) fn sacrifice(&self) -> bool {
        let path = self.with(|state| {
            let holding = state.holding(self.at);
            let spared = holding.held.tiny > holding.kept_back.div_ceil(2);
            if spared { state.give_away(self.at, SizeClass::Tiny) } else { None }
        });
        let Some(path) = path else { return false };
        self.with(|state| state.books[self.at].counters.deleted_released += 1);
        self.remove(&path, self.sizes.of(SizeClass::Tiny), Freed::File);
        true
    }

    /// The same of one of the device's directories.
    fn release_at(&self, at: usize) -> Option<u64> {
        let (bytes, path) = self.with(|state| {
            let holding = state.holding(at);
            let mut classes = SizeClass::ALL.into_iter().rev();
            classes.find_map(|class| {
                let counted = holding.counted(class) > 0 || planted::is(Fault::KeptBackReleased);
                let path = if counted { state.give_away(at, class) } else { None };
                Some((holding.sizes.of(class), path?))
            })
        })?;
        self.with(|state| state.books[at].counters.deleted_released += 1);
        self.remove(&path, bytes, Freed::Spare);
        Some(bytes)
    }

    /// Goes on with the file that is being made, or begins one.
    fn make_ahead(&self) -> Step {
        let mut slot = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let making = match slot.take() {
            Some(making) => making,
            None => match self.begin() {
                None => return Step::Idle,
                Some(Ok(making)) => making,
                Some(Err(error)) => return self.not_made(&error),
            },
        };
        let class = making.class;
        match self.go_on(making) {
            Ok(half_made) => {
                *slot = half_made;
                Step::Paced
            }
            Err(error) => {
                self.with(|state| *state.books[self.at].coming.of_mut(class) -= 1);
                self.not_made(&error)
            }
        }
    }

    /// The next file that is to be there ahead, if the disk has room for it.
    fn begin(&self) -> Option<io::Result<Making>> {
        let now = self.clock.elapsed();
        let class = self.with(|state| {
            let holding = state.holding(self.at);
            state.full &= state.kept_back_missing() > 0;
            let class = holding.next_to_make()?;
            if now < state.retry_at {
                return None;
            }
            let space = state.space?;
            let left = space.available.saturating_sub(self.sizes.of(class));
            let kept_back = holding.kept_back_missing() > 0;
            let room = kept_back || left >= FREE_FOR_MAKING.of(space.total);
            room.then(|| {
                *state.books[self.at].coming.of_mut(class) += 1;
                class
            })
        })?;
        let begun = self.begin_making(&self.dir, class, WriteClass::Recovery);
        if begun.is_err() {
            self.with(|state| *state.books[self.at].coming.of_mut(class) -= 1);
        }
        Some(begun.map_err(io::Error::from))
    }

    /// Gives the file back while it is not finished.
    fn go_on(&self, mut making: Making) -> io::Result<Option<Making>> {
        let result = match making.step() {
            Ok(false) => return Ok(Some(making)),
            Ok(true) => making.finish(Generation::FIRST, self.clock.unix_millis()),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            self.discard(making, &error);
            return Err(error);
        }
        self.made(&making);
        let Making { path, class, .. } = making;
        // A failure counts as one of making it: else the next step would begin another at once, and a rename that goes on
        // failing would keep the worker writing files and deleting them.
        self.shelve(&path, class, true)?;
        self.with(|state| {
            let book = &mut state.books[self.at];
            *book.coming.of_mut(class) -= 1;
            book.counters.made += 1;
        });
        Ok(None)
    }

    fn not_made(&self, error: &io::Error) -> Step {
        let (again, full) = (self.clock.elapsed() + TRY_AGAIN, is_no_space(error));
        self.with(|state| {
            state.retry_at = again;
            state.full |= full;
        });
        if !full {
            tracing::warn!(dir = %self.dir.display(), %error, "no file is made ahead");
            return Step::Idle;
        }
        // What is kept back comes before what can be released, in whichever directory of the device that is.
        let (short, count) =
            self.with(|state| (state.holding(self.at).kept_back_missing() > 0, state.books.len()));
        let mut places = std::iter::once(self.at).chain(0..count);
        let released = short && places.any(|at| self.release_at(at).is_some());
        if released { Step::Done } else { Step::Idle }
    }

    /// Removes the file that was being made.
    pub(super) fn stop(&self) {
        let making = self.making.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(making) = making {
            self.with(|state| *state.books[self.at].coming.of_mut(making.class) -= 1);
            self.discard(making, &io::ErrorKind::Interrupted.into());
        }
    }
}
