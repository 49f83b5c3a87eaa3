//! Checkpoints of idle logs, and closing.

use super::Shared;
use super::state::{Segment, State, Status};
use crate::error::{DiskContext, DiskError, Outcome, Stopped};
use crate::format::CHECKPOINT_POSITION;
use crate::format::checkpoint::Checkpoint;
use crate::fs::Write;
use crate::segment::Access;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

impl Shared {
    /// Whether the log has had no append for `idle` and has something that a checkpoint would vouch for, or holds a file
    /// in reserve that others could use.
    pub(crate) fn wants_checkpoint(&self, idle: Duration) -> bool {
        let state = self.lock();
        let quiet = self.clock.elapsed().saturating_sub(state.last_append) >= idle;
        quiet && (Self::checkpoint_due(&state).is_some() || !state.reserved.is_empty())
    }

    fn checkpoint_due(state: &State) -> Option<(Arc<Segment>, Checkpoint)> {
        let free = matches!(state.status, Status::Open) && !state.leader && state.chunks.is_empty();
        let active = state.active.as_ref().filter(|_| free)?;
        let segment = &active.segment;
        let position = segment.durable();
        let known = active.checkpoint == position && active.checkpoint_durable;
        let due = active.checkpointing && segment.is_committed() && !known;
        due.then(|| {
            let checkpoint = Checkpoint {
                generation: segment.generation,
                log: segment.log,
                position,
                next: state.durable,
                millis: state.durable_millis,
            };
            (Arc::clone(segment), checkpoint)
        })
    }

    /// Writes a durable checkpoint: it vouches for the last batch, and the next start reads little. Then lets go of what
    /// an idle log does not need. Blocks on one sync.
    ///
    /// # Errors
    /// If the sync failed: then the log has gone on in another file.
    pub(crate) fn checkpoint(self: &Arc<Self>) -> Result<(), DiskError> {
        self.recent.forget();
        let mut state = self.lock();
        let reserved = std::mem::take(&mut state.reserved);
        if !reserved.is_empty() {
            drop(state);
            reserved.into_iter().for_each(|spare| self.source.give_back(spare));
            state = self.lock();
        }
        let Some((segment, checkpoint)) = Self::checkpoint_due(&state) else { return Ok(()) };
        state.leader = true;
        drop(state);
        let written = self.write_checkpoint(&segment, &checkpoint);
        let mut state = self.lock();
        let result = match written {
            Ok(true) => {
                if let Some(active) = state.active.as_mut().filter(|a| a.segment.id == segment.id) {
                    active.checkpoint = checkpoint.position;
                    active.checkpoint_durable = true;
                    if !active.staged.is_multiple_of(crate::format::BLOCK_LEN as u64)
                        && active.staged == checkpoint.position
                    {
                        active.tail.forget();
                        active.file = None;
                    }
                }
                Ok(())
            }
            Ok(false) => {
                if let Some(active) = state.active.as_mut().filter(|a| a.segment.id == segment.id) {
                    active.checkpointing = false;
                }
                Ok(())
            }
            Err(error) => {
                // A failed sync says nothing good of the file, whatever was to be synced.
                let durable = state.durable;
                let spares = state.end_epoch(durable, Outcome::NotWritten, error.clone());
                state.status = Status::Healing;
                // Who waits has its answer, and no commit may come that would wake it.
                self.notify_all(&mut state);
                drop(state);
                spares.into_iter().for_each(|spare| self.source.give_back(spare));
                state = self.heal(segment, error.clone());
                Err(error)
            }
        };
        state.leader = false;
        self.announce(&mut state);
        self.wake_all(state);
        result
    }

    /// `Ok(false)`: it could not be written, which ends checkpoints in this file and nothing else.
    fn write_checkpoint(
        &self,
        segment: &Segment,
        checkpoint: &Checkpoint,
    ) -> Result<bool, DiskError> {
        let Ok(file) = self.files.get(segment.id, &segment.path, Access::Write) else {
            return Ok(false);
        };
        let block = checkpoint.encode();
        let write = Write { position: CHECKPOINT_POSITION, bytes: &block };
        if let Err(error) = file.write_at(write.position, write.bytes) {
            tracing::warn!(path = %segment.path.display(), %error, "no checkpoint");
            return Ok(false);
        }
        file.sync().disk("sync", &segment.path).map(|()| true)
    }

    /// Commits what is staged, writes a checkpoint and takes no more. Waits for whoever commits now.
    ///
    /// # Errors
    /// If the log could not be closed clean; what was confirmed is durable all the same.
    pub(crate) fn close(self: &Arc<Self>, why: Stopped) -> Result<(), DiskError> {
        let mut result = Ok(());
        // No more is staged from here on, or this would wait for as long as somebody appends.
        self.lock().closing = Some(why.clone());
        if !matches!(why, Stopped::Deleted) {
            let mut state = self.lock();
            while matches!(state.status, Status::Open) && !state.chunks.is_empty() {
                state = if state.leader { self.wait_for_leader(state) } else { self.lead(state) };
            }
            state = self.without_leader(state);
            drop(state);
            result = self.checkpoint().and_then(|()| self.give_up_retired());
        }
        // A truncation that is under way ends first, and a later one finds the lock gone: files of these names may be
        // another log's, or another process's, from now on.
        let _no_truncation = self.truncating.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.without_leader(self.lock());
        if !matches!(state.status, Status::Stopped(Stopped::Closed | Stopped::Deleted)) {
            state = self.stop_quietly(state, why);
        }
        state.active = None;
        state.lock = None;
        state.to_heal = None;
        if matches!(state.status, Status::Stopped(Stopped::Deleted)) {
            // Their directory goes as a whole.
            state.retired.clear();
        }
        let closing: Vec<_> = state.segments.iter().map(|segment| segment.id).collect();
        drop(state);
        closing.into_iter().for_each(|id| self.files.forget(id));
        self.recent.forget();
        result
    }

    fn without_leader<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while state.leader {
            state = self.wait_for_leader(state);
        }
        state
    }

    fn wait_for_leader<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.want_room += 1;
        state = Self::wait(&self.room, state);
        state.want_room -= 1;
        state
    }
}
