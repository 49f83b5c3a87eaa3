//! Healing: after a failed write or sync the log goes on in another file, from its durable end.

use super::Shared;
use super::stage::mark_failed;
use super::state::{Active, Segment, State, Status};
use crate::error::{DiskError, Stopped};
use crate::format::header::Origin;
use crate::format::name::segment_file;
use crate::planted::{self, Fault};
use crate::segment::{Access, Reuse, Spare, Want, install, rename_in};
use crate::types::WriteClass;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

impl Shared {
    /// Heals after `error` in `failed`. The caller leads; all that was staged has been answered and given back.
    pub(super) fn heal<'a>(
        self: &'a Arc<Self>,
        failed: Arc<Segment>,
        error: DiskError,
    ) -> MutexGuard<'a, State> {
        mark_failed(&failed);
        self.files.forget(failed.id);
        let mut state = self.lock();
        if state.healed_since_commit {
            let why = format!("a second commit failed after healing: {error}");
            return self.stop(state, Stopped::Failed(why.into()));
        }
        state.status = Status::Unhealed;
        state.to_heal = Some(failed);
        self.try_heal(state)
    }

    /// Tries again what could not be healed for want of a file. Waits for a leader first.
    pub(super) fn heal_again<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        if state.leader || !matches!(state.status, Status::Unhealed) {
            return state;
        }
        state.leader = true;
        state = self.try_heal(state);
        state.leader = false;
        self.announce(&mut state);
        state
    }

    fn try_heal<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        let Some(failed) = state.to_heal.clone() else { return state };
        state.status = Status::Healing;
        drop(state);
        let want = Want {
            class: failed.class,
            room: 0,
            purpose: WriteClass::Recovery,
            dir: self.dir.as_path(),
        };
        let spare = match self.source.take(&want) {
            Ok(spare) => spare,
            Err(error) => {
                // The log is not failed: it waits for a file, and says so to whoever appends.
                let error = DiskError::new("take a segment file to heal", &self.dir, error.into());
                return self.wait_to_heal(error);
            }
        };
        let segment = self.healed_segment(&failed, &spare);
        let base = segment.base;
        let installed = self.install(&spare, &segment);
        let mut state = self.lock();
        match installed {
            Ok(()) => {
                segment.committed.store(true, Ordering::Release);
                self.files.put(segment.id, Arc::clone(&spare.file), Access::Write);
                if state.segments.back().is_some_and(|last| last.base == base) {
                    // It, or the file that was to replace it, has failed, and held nothing durable. Its name is this
                    // one's now.
                    if let Some(empty) = state.segments.pop_back() {
                        self.files.forget(empty.id);
                    }
                }
                state.segments.push_back(Arc::clone(&segment));
                state.active = Some(Active::new(segment));
                state.healed_since_commit = true;
                state.to_heal = None;
                state.heal_error = None;
                state.status = Status::Open;
                tracing::info!(log = %self.name, base = base.0, "healed");
                state
            }
            Err(error) => {
                drop(state);
                self.not_installed(&spare, error)
            }
        }
    }

    /// The spare carries a log's header, or a part of one: it is no spare any more. Where the disk was full, and the file
    /// surely has no name in the log, healing is tried again later, as it is where there was no file at all: a full disk
    /// stops no log.
    fn not_installed<'a>(
        self: &'a Arc<Self>,
        spare: &Spare,
        error: DiskError,
    ) -> MutexGuard<'a, State> {
        let apart = error.io().raw_os_error() == Some(libc::EXDEV);
        if apart {
            self.source.cannot_rename_into(&self.dir);
        }
        let unnamed = self.fs.metadata(&spare.path).is_ok();
        if unnamed {
            let deleted = self.source.give_up(&spare.path, Reuse::Never);
            deleted.into_iter().for_each(|gone| self.source.given_up(gone));
        }
        if unnamed && (apart || error.is_no_space()) {
            return self.wait_to_heal(error);
        }
        let why = format!("healing failed: {error}");
        self.stop(self.lock(), Stopped::Failed(why.into()))
    }

    fn wait_to_heal(&self, error: DiskError) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        // Once, and not at every append that tries again.
        if state.heal_error.is_none() {
            tracing::warn!(log = %self.name, %error, "healing waits");
        }
        state.status = Status::Unhealed;
        state.heal_error = Some(error);
        state
    }

    /// The segment that goes on from the durable end.
    fn healed_segment(&self, failed: &Segment, spare: &Spare) -> Arc<Segment> {
        let state = self.lock();
        let base = state.durable;
        let mut segment = self.new_segment(&state, spare, base, state.durable_millis, Origin::Heal);
        if failed.base == base
            && let Some(segment) = Arc::get_mut(&mut segment)
        {
            // It takes the failed file's place, and with it what that one's header says of the segment before: a gap
            // that a repair declared would else be damage at the next start.
            segment.previous_end = failed.previous_end;
            segment.previous_millis = failed.previous_millis;
            segment.origin = failed.origin;
        }
        segment
    }

    fn install(&self, spare: &Spare, segment: &Segment) -> Result<(), DiskError> {
        let spares = self.source.spares_dir();
        let name = segment_file(segment.base);
        if planted::is(Fault::HealWithNameAbsent) {
            // The name goes first and the header comes later.
            let _ = self.fs.remove_file(&segment.path);
            let _ = self.fs.sync_dir(&self.dir);
        }
        let rename = |to: &Path| rename_in(&*self.fs, &*self.source, spare, to);
        install(&*self.fs, spare, &segment.header(), &[], [&self.dir, spares], &name, rename)
            .map(drop)
            .map_err(|error| DiskError::new("install", &segment.path, error))
    }

    /// Stops the log for good, answering all that is staged.
    pub(super) fn stop<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        why: Stopped,
    ) -> MutexGuard<'a, State> {
        tracing::warn!(log = %self.name, %why, "the log stops");
        self.stop_quietly(state, why)
    }

    pub(super) fn stop_quietly<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        why: Stopped,
    ) -> MutexGuard<'a, State> {
        let spares = state.end_epoch_stopped(&why);
        state.status = Status::Stopped(why);
        self.notify_all(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        spares.into_iter().for_each(|spare| self.source.give_back(spare));
        wakers.into_iter().for_each(std::task::Waker::wake);
        self.lock()
    }
}
