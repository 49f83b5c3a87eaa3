//! A tiny file in the place of a large one that an idle log has emptied: thousands of quiet queues hold little.
//!
//! The last segment of a log always stays, as its header holds the next offset (I8). So where it is large, and all of its
//! records are truncated, the log goes on in a tiny file whose base is the next offset. That one has its header and its
//! name before the large one goes.

use super::Shared;
use super::state::{Active, Segment, State, Status};
use crate::error::{DiskError, Outcome};
use crate::format::header::Origin;
use crate::format::name::segment_file;
use crate::segment::{Access, Reuse, Spare, Want, install};
use crate::types::{SizeClass, WriteClass};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

impl Shared {
    /// Whether the log has had no append for `idle`, holds no record that was not truncated, and has a large file.
    pub(crate) fn wants_swap(&self, idle: Duration) -> bool {
        self.emptied(&self.lock(), idle).is_some()
    }

    fn emptied(&self, state: &State, idle: Duration) -> Option<Arc<Segment>> {
        let free = matches!(state.status, Status::Open) && !state.leader && state.chunks.is_empty();
        let quiet = self.clock.elapsed().saturating_sub(state.last_append) >= idle;
        let empty = state.truncated >= state.durable || state.head() == state.durable;
        let active = state.active.as_ref().filter(|_| free && quiet && empty)?;
        let large = active.segment.class > SizeClass::Tiny && active.segment.is_committed();
        large.then(|| Arc::clone(&active.segment))
    }

    /// Swaps the large file for a tiny one, if that is still wanted and one is to be had. Blocks on the disk.
    ///
    /// # Errors
    /// Of the disk; the log goes on, in a third file where the tiny one's state is not known.
    pub(crate) fn swap_for_tiny(self: &Arc<Self>, idle: Duration) -> Result<(), DiskError> {
        let mut state = self.lock();
        let Some(large) = self.emptied(&state, idle) else { return Ok(()) };
        // What is staged meanwhile would go to the large file, behind the base of the tiny one: appends wait.
        state.leader = true;
        state.status = Status::Healing;
        drop(state);
        let (mut state, result) = self.swap(&large);
        state.leader = false;
        self.announce(&mut state);
        self.wake_all(state);
        drop(large);
        result.and_then(|()| self.give_up_retired())
    }

    fn swap<'a>(
        self: &'a Arc<Self>,
        large: &Arc<Segment>,
    ) -> (MutexGuard<'a, State>, Result<(), DiskError>) {
        let go_on = || {
            let mut state = self.lock();
            state.status = Status::Open;
            state
        };
        // It frees space, so no level stops it.
        let purpose = WriteClass::Recovery;
        let want = Want { class: SizeClass::Tiny, room: 0, purpose, dir: self.dir.as_path() };
        // None to be had: the large one stays, and is in nobody's way.
        let Ok(spare) = self.source.take(&want) else { return (go_on(), Ok(())) };
        // Those are for what cannot wait.
        if spare.kept_back {
            self.source.give_back(spare);
            return (go_on(), Ok(()));
        }
        let segment = {
            let state = self.lock();
            self.new_segment(&state, &spare, state.durable, state.durable_millis, Origin::Roll)
        };
        let name = segment_file(segment.base);
        let spares = self.source.spares_dir();
        // It frees space only later: no spare is deleted for its name.
        let rename = |to: &std::path::Path| self.fs.rename(&spare.path, to);
        match install(&*self.fs, &spare, &segment.header(), &[], [&self.dir, spares], &name, rename)
        {
            Ok(_) => (self.take_over(&segment, &spare), Ok(())),
            Err(error) => {
                if error.raw_os_error() == Some(libc::EXDEV) {
                    self.source.cannot_rename_into(&self.dir);
                }
                let error = DiskError::new("install", &segment.path, error);
                if self.fs.metadata(&spare.path).is_ok() {
                    // It has no name in the log, and is no spare any more.
                    let deleted = self.source.give_up(&spare.path, Reuse::Never);
                    deleted.into_iter().for_each(|gone| self.source.given_up(gone));
                    return (go_on(), Err(error));
                }
                // It may have its name, durable or not: an append to the large file would stand behind its base.
                let mut state = self.lock();
                let durable = state.durable;
                let spares = state.end_epoch(durable, Outcome::NotWritten, error.clone());
                drop(state);
                spares.into_iter().for_each(|spare| self.source.give_back(spare));
                (self.heal(Arc::clone(large), error.clone()), Err(error))
            }
        }
    }

    /// Lets the log go on in the tiny file, and retires all before it.
    fn take_over(&self, segment: &Arc<Segment>, spare: &Spare) -> MutexGuard<'_, State> {
        segment.committed.store(true, Ordering::Release);
        self.files.put(segment.id, Arc::clone(&spare.file), Access::Write);
        let mut state = self.lock();
        while let Some(old) = state.segments.pop_front() {
            self.files.forget(old.id);
            self.indexes.forget(old.id);
            // One of the same base had the name that is the tiny one's now.
            if old.base != segment.base {
                state.retired.push_back(old);
            }
        }
        state.segments.push_back(Arc::clone(segment));
        state.active = Some(Active::new(Arc::clone(segment)));
        state.status = Status::Open;
        tracing::debug!(log = %self.name, base = segment.base.0, "swapped a large file for a tiny one");
        state
    }
}
