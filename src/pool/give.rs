//! A log gives a file up.

use super::device::Shelved;
use super::make::remove;
use super::shelf::Shelf;
use super::stamp::{self, Unfit};
use crate::format::header::Header;
use crate::fs::is_no_space;
use crate::planted::{self, Fault};
use crate::segment::{GivenUp, Reuse};
use crate::types::SizeClass;
use std::io;
use std::path::Path;

impl Shelf {
    /// Takes a file out of its log, to serve again or to be deleted. Neither needs room.
    pub(super) fn take_out(&self, path: &Path, reuse: Reuse) -> io::Result<GivenUp> {
        if reuse == Reuse::Never {
            // How much it was the next sample shows.
            self.remove_of_log(path, 0)?;
            self.with(|state| state.books[self.at].counters.deleted_unfit += 1);
            return Ok(GivenUp::DELETED);
        }
        let header = stamp::class_of(&*self.fs, path, &self.sizes);
        if let Err(Unfit::Unreadable(error)) = &header
            && error.kind() == io::ErrorKind::NotFound
        {
            return Err(io::ErrorKind::NotFound.into());
        }
        let size = header.as_ref().map_or(0, |header| header.capacity);
        if let Some(class) = self.keeps(header) {
            return self.rename_out(path, class);
        }
        self.remove_of_log(path, size)?;
        Ok(GivenUp::DELETED)
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
                self.remove_of_log(path, self.sizes.of(class))?;
                self.with(|state| state.books[self.at].counters.deleted_not_renamed += 1);
                Ok(GivenUp::DELETED)
            }
        }
    }

    /// Whether a file of this header serves again; if so it counts as coming.
    fn keeps(&self, header: Result<Header, Unfit>) -> Option<SizeClass> {
        let fit = header.and_then(|header| {
            stamp::next(header.generation, self.last())?;
            Ok(header.class)
        });
        let short = self.ledger.is_short(self.device.id);
        self.with(|state| {
            state.short = short;
            let fitting = fit.as_ref().ok().copied();
            let kept = fitting.filter(|class| state.holding(self.at).keeps(*class));
            let book = &mut state.books[self.at];
            match (fit, kept) {
                (_, Some(class)) => *book.coming.of_mut(class) += 1,
                (Ok(_), None) => book.counters.deleted_over_budget += 1,
                (Err(Unfit::LastGeneration), None) => book.counters.deleted_last_generation += 1,
                (Err(_), None) => book.counters.deleted_unfit += 1,
            }
            kept
        })
    }

    /// Queues a file whose old name is gone for good, to be stamped.
    pub(super) fn take_in(&self, file: GivenUp) {
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

    /// Deletes a file whose old name may come back: without it there is nothing behind that name but what was there.
    pub(super) fn delete_lost(&self, file: GivenUp) {
        let Some((path, class)) = file.kept else { return };
        remove(&*self.fs, &path);
        self.with(|state| {
            let book = &mut state.books[self.at];
            *book.coming.of_mut(class) -= 1;
            book.counters.deleted_unfit += 1;
        });
    }
}
