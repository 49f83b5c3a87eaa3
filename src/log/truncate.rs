//! Truncation: whole segments go, oldest first.

use super::state::{Segment, Status};
use super::{Shared, Truncated};
use crate::error::{DiskContext, DiskError, Stopped, TruncateError};
use crate::planted::{self, Fault};
use crate::segment::{GivenUp, Reuse};
use crate::types::Offset;
use std::sync::{Arc, PoisonError};

impl Shared {
    pub(super) fn truncate_before(&self, offset: Offset) -> Result<Truncated, TruncateError> {
        let (segments_freed, bytes_freed, head) = {
            let mut state = self.lock();
            if let Status::Stopped(why @ (Stopped::Closed | Stopped::Deleted)) = &state.status {
                return Err(why.clone().into());
            }
            let keep_from = offset.min(state.durable);
            state.truncated = state.truncated.max(keep_from);
            let (mut freed, mut bytes) = (0, 0);
            // The last one always stays, and it must be a durable one: its header holds the log's next offset (I8).
            while state
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

    /// Gives up what was truncated and that no reader has open any more. The worker calls it again for the rest.
    pub(crate) fn give_up_retired(&self) -> Result<(), DiskError> {
        let _one_at_a_time = self.truncating.lock().unwrap_or_else(PoisonError::into_inner);
        // Held on while files are removed; without it the directory may be another's, and the names another log's.
        let Some(_lock) = self.lock().lock.clone() else { return Ok(()) };
        if planted::is(Fault::TruncateInAnyOrder) {
            return self.give_up_backwards();
        }
        loop {
            let oldest = {
                let mut state = self.lock();
                // Behind one that a reader still has open the newer ones wait: else a restart would find a hole.
                let free =
                    state.retired.front().is_some_and(|oldest| Arc::strong_count(oldest) == 1);
                if !free {
                    return Ok(());
                }
                state.retired.pop_front()
            };
            let Some(segment) = oldest else { return Ok(()) };
            if let Err(error) = self.give_up(&segment) {
                self.lock().retired.push_front(segment);
                return Err(error);
            }
        }
    }

    /// Takes a file out of the log for good. A power cut may keep any of the removals that are not yet durable, and a newer
    /// file gone while an older one stays is a log with a hole: so one is durable before the next begins. For a file that
    /// serves again that takes the syncs of both its directories, and only then may the pool write to it [R].
    fn give_up(&self, segment: &Segment) -> Result<(), DiskError> {
        let mut gone = self.take_out(segment)?;
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
    fn take_out(&self, segment: &Segment) -> Result<Option<GivenUp>, DiskError> {
        let failed = segment.is_failed() && !planted::is(Fault::FailedFileReused);
        let reuse = if failed { Reuse::Never } else { Reuse::Allowed };
        match self.source.give_up(&segment.path, reuse) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            other => other.disk("give up", &segment.path).map(Some),
        }
    }

    fn give_up_backwards(&self) -> Result<(), DiskError> {
        let retired = std::mem::take(&mut self.lock().retired);
        let gone: Result<Vec<_>, _> = retired.iter().rev().map(|one| self.take_out(one)).collect();
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
