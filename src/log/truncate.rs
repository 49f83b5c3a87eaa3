//! Truncation: whole segments go, oldest first.

use super::state::{Segment, Status};
use super::{Shared, Truncated};
use crate::error::{DiskContext, DiskError, Stopped, TruncateError};
use crate::planted::{self, Fault};
use crate::segment::{GivenUp, Reuse};
use crate::types::Offset;
use std::sync::{Arc, PoisonError, Weak};

impl Shared {
    /// Bytes of truncated files that take space all the same, as readers have them open.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        let state = self.lock();
        let pinned = state.pinned.iter().filter_map(Weak::upgrade).map(|segment| segment.capacity);
        pinned.chain(state.retired.iter().map(|segment| segment.capacity)).sum()
    }

    pub(super) fn truncate_before(&self, offset: Offset) -> Result<Truncated, TruncateError> {
        let (segments_freed, bytes_freed, head) = {
            let mut state = self.lock();
            if let Status::Stopped(why @ (Stopped::Closed | Stopped::Deleted)) = &state.status {
                return Err(why.clone().into());
            }
            let keep_from = offset.min(state.durable);
            state.truncated = state.truncated.max(keep_from);
            let (mut freed, mut bytes) = (0, 0);
            // What was found at open could not be made durable: neither the last one's header, which holds the next offset,
            // nor any name may be there after a power cut (I8). It cuts nothing until it is opened anew.
            let unproved = matches!(state.status, Status::Stopped(Stopped::ReadOnly(_)))
                && !planted::is(Fault::ReadOnlyTruncated);
            // The last one always stays, and it must be a durable one: its header holds the log's next offset (I8).
            while !unproved
                && state
                    .segments
                    .get(1)
                    .is_some_and(|next| next.base <= keep_from && may_be_the_last(next))
            {
                let Some(segment) = state.segments.pop_front() else { break };
                self.files.forget(segment.id);
                self.indexes.forget(segment.id);
                freed += 1;
                bytes += segment.capacity;
                state.retired.push_back(segment);
            }
            (freed, bytes, state.head())
        };
        self.give_up_retired()?;
        Ok(Truncated { head, segments_freed, bytes_freed })
    }

    /// Gives up what was truncated, oldest first. The last one of it waits for the readers that have it open, to serve
    /// again; the worker calls this again for it.
    ///
    /// One that newer ones wait behind is deleted under its readers, who read on in what they have open: it cannot stay, or
    /// a restart would find a hole behind it, and if the newer ones stayed too, a reader that stands still would keep all
    /// that is truncated from then on.
    pub(crate) fn give_up_retired(&self) -> Result<(), DiskError> {
        let _one_at_a_time = self.truncating.lock().unwrap_or_else(PoisonError::into_inner);
        // Held on while files are removed; without it the directory may be another's, and the names another log's.
        let Some(_lock) = self.lock().lock.clone() else { return Ok(()) };
        if planted::is(Fault::TruncateInAnyOrder) {
            return self.give_up_backwards();
        }
        loop {
            let (segment, read) = {
                let mut state = self.lock();
                let Some(oldest) = state.retired.pop_front() else { return Ok(()) };
                let read = Arc::strong_count(&oldest) > 1;
                if read && state.retired.is_empty() {
                    state.retired.push_front(oldest);
                    return Ok(());
                }
                (oldest, read)
            };
            if let Err(error) = self.give_up(&segment, read) {
                self.lock().retired.push_front(segment);
                return Err(error);
            }
            if read {
                let mut state = self.lock();
                state.pinned.retain(|pinned| pinned.strong_count() > 0);
                state.pinned.push(Arc::downgrade(&segment));
            }
        }
    }

    /// Takes a file out of the log for good. A power cut may keep any of the removals that are not yet durable, and a newer
    /// file gone while an older one stays is a log with a hole: so one is durable before the next begins. For a file that
    /// serves again that takes the syncs of both its directories, and only then may the pool write to it [R].
    fn give_up(&self, segment: &Segment, read: bool) -> Result<(), DiskError> {
        let mut gone = self.take_out(segment, read)?;
        // A reader that came late may have had it opened again; nobody else can.
        self.files.forget(segment.id);
        if planted::is(Fault::StampedBeforeNamesAreSynced) {
            gone.take().into_iter().for_each(|gone| self.source.given_up(gone));
        }
        // An earlier try may have renamed it.
        let renamed = gone.as_ref().is_none_or(|gone| gone.kept.is_some());
        let synced = self.sync_names(renamed);
        if let Some(file) = gone {
            match synced {
                Ok(()) => self.source.given_up(file),
                Err(_) => self.source.lost(file),
            }
        }
        synced
    }

    fn sync_names(&self, renamed: bool) -> Result<(), DiskError> {
        if renamed {
            let spares = self.source.spares_dir();
            // The new name first, or there may be none.
            self.fs.sync_dir(spares).disk("sync", spares)?;
        }
        self.fs.sync_dir(&self.dir).disk("sync", &self.dir)
    }

    /// `None`: it was not there any more, as an earlier try got as far as this before a sync failed.
    fn take_out(&self, segment: &Segment, read: bool) -> Result<Option<GivenUp>, DiskError> {
        let failed = segment.is_failed() && !planted::is(Fault::FailedFileReused);
        let reuse = if failed || read { Reuse::Never } else { Reuse::Allowed };
        match self.source.give_up(&segment.path, reuse) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            other => other.disk("give up", &segment.path).map(Some),
        }
    }

    fn give_up_backwards(&self) -> Result<(), DiskError> {
        let retired = std::mem::take(&mut self.lock().retired);
        let gone: Result<Vec<_>, _> =
            retired.iter().rev().map(|one| self.take_out(one, false)).collect();
        for dir in [self.source.spares_dir(), &self.dir] {
            self.fs.sync_dir(dir).disk("sync", dir)?;
        }
        gone?.into_iter().flatten().for_each(|file| self.source.given_up(file));
        Ok(())
    }
}

/// Whether a segment may be all that is left of the log: its header must be durable, as it holds the next offset.
fn may_be_the_last(segment: &Segment) -> bool {
    segment.is_committed() || planted::is(Fault::TruncateToUncommitted)
}
