//! Commits: one write and one sync for all who wait, led by one of them.

use super::Shared;
use super::state::{Chunk, Segment, State, Status, parity};
use crate::error::{DiskContext, DiskError, Outcome};
use crate::format::checkpoint::Checkpoint;
use crate::format::{BLOCK_LEN, CHECKPOINT_POSITION, WINDOW};
use crate::fs::{Block, File, Write};
use crate::planted::{self, Fault};
use crate::segment::{Access, Spare, rename_in};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

/// A commit takes a checkpoint along when this much was committed since the last one. Half the window: then damage to
/// bytes that are further than the window before the end is always vouched for by a checkpoint.
const CHECKPOINT_EVERY: u64 = WINDOW / 2;

/// A commit that failed.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: DiskError,
    /// What is certain of the records of this commit.
    pub(super) in_flight: Outcome,
    /// The file, or its name, may have changed: it cannot be used on.
    pub(super) heal: bool,
}

impl Failed {
    pub(super) fn untouched(error: DiskError) -> Self {
        Self { error, in_flight: Outcome::NotWritten, heal: false }
    }

    /// The name may be in the directory or not; no record was handed to the file.
    fn named(error: DiskError) -> Self {
        Self { error, in_flight: Outcome::NotWritten, heal: true }
    }

    /// Any part of it may be on the disk.
    pub(super) fn written(error: DiskError) -> Self {
        let refused = planted::is(Fault::FailedSyncSaysNotWritten);
        let in_flight = if refused { Outcome::NotWritten } else { Outcome::Unknown };
        Self { error, in_flight, heal: true }
    }
}

/// What a commit takes from the state before it lets go of the lock.
#[derive(Debug)]
struct Job {
    chunk: Chunk,
    checkpoint: Option<Checkpoint>,
    /// The file as the last commit wrote it, if that is known.
    file: Option<Weak<dyn File>>,
    /// Its file takes the place, and the name, of an empty one.
    replaces: bool,
    /// For a planted fault: the next chunk's header, written too early.
    #[allow(dead_code, reason = "read only where faults can be planted")]
    early: Option<Arc<Segment>>,
}

/// What is left of it when all is durable.
#[derive(Debug)]
struct Written {
    chunk: Chunk,
    /// Behind its last record.
    end_position: u64,
    file: Option<Weak<dyn File>>,
}

impl Shared {
    /// Leads one commit. Gives the lock back when that is done or has failed, healing included.
    pub(super) fn lead<'a>(
        self: &'a Arc<Self>,
        state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        self.lead_while(state, |_| false)
    }

    /// The same, and goes on with what was staged meanwhile for as long as `stays`: no time is lost between two commits
    /// until another thread has woken up.
    fn lead_while<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        stays: impl Fn(&mut State) -> bool,
    ) -> MutexGuard<'a, State> {
        state.leader = true;
        loop {
            state.gather.commit_begins();
            let Some(job) = Self::take_job(&mut state) else {
                state.leader = false;
                return state;
            };
            drop(state);
            let started = self.clock.elapsed();
            let mut result = self.write(job);
            let ended = self.clock.elapsed();
            if let Ok(written) = &mut result {
                // Before a reader is told that there is more.
                self.recent.keep(&mut written.chunk, ended);
            }
            state = self.lock();
            let mut done = None;
            match result {
                Ok(written) => done = self.finish(&mut state, written, (started, ended)),
                Err((chunk, failed)) => state = self.fail(state, chunk, failed),
            }
            self.tell(&state);
            let goes_on = !state.chunks.is_empty() && stays(&mut state);
            state.leader = goes_on;
            let next = if goes_on { None } else { self.next_leader(&mut state) };
            if done.is_some() || next.is_some() || !state.wakers.is_empty() {
                let wakers = std::mem::take(&mut state.wakers);
                drop(state);
                // The next leader first: the device is idle until it runs. Then those that are done, who need no lock to
                // learn it.
                next.into_iter().for_each(|parity: usize| self.committed[parity].wake_one());
                done.into_iter().for_each(|parity: usize| self.committed[parity].wake_all());
                wakers.into_iter().for_each(std::task::Waker::wake);
                state = self.lock();
            }
            if !goes_on {
                return state;
            }
        }
    }

    /// Wakes all that is polled, outside the lock: a waker may poll at once.
    pub(super) fn wake_all(&self, mut state: MutexGuard<'_, State>) {
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    /// See [`Gather::waits`](super::gather::Gather::waits).
    pub(super) fn gathers(&self, state: &mut State) -> Option<Duration> {
        let State { gather, sync_time, .. } = state;
        if self.gather_enabled { gather.waits(*sync_time, || self.clock.elapsed()) } else { None }
    }

    fn take_job(state: &mut State) -> Option<Job> {
        let mut chunk = state.chunks.pop_front()?;
        state.in_flight = chunk.record_bytes;
        // Whole blocks are written, so that the kernel need not read the last one first.
        let unpadded = chunk.buffer.len();
        let padded = unpadded.next_multiple_of(BLOCK_LEN);
        let is_open = state.is_open(&chunk) && state.chunks.is_empty();
        let (mut checkpoint, mut file) = (None, None);
        if let Some(active) = &mut state.active
            && active.segment.id == chunk.segment.id
        {
            if is_open {
                let block = unpadded - unpadded % BLOCK_LEN;
                active.tail.set(&chunk.buffer.bytes()[block..]);
            }
            file = active.file.clone();
            let durable = chunk.segment.durable();
            let due = durable.saturating_sub(active.checkpoint) >= CHECKPOINT_EVERY;
            if due && active.checkpointing && chunk.spare.is_none() {
                let mut vouched = (durable, state.durable);
                if planted::is(Fault::CheckpointAheadOfSync) {
                    vouched = (chunk.end_position(), chunk.end);
                }
                // What this commit writes is not durable when its checkpoint reaches the disk before it.
                checkpoint = Some(Checkpoint {
                    generation: chunk.segment.generation,
                    log: chunk.segment.log,
                    position: vouched.0,
                    next: vouched.1,
                    millis: state.durable_millis,
                });
            }
        }
        let early = planted::is(Fault::NewHeaderBeforeOldSync)
            .then(|| state.chunks.front().map(|next| Arc::clone(&next.segment)))
            .flatten();
        chunk.padding = padded - unpadded;
        let replaces = chunk.spare.is_some() && Self::replaces(state, &chunk);
        Some(Job { chunk, checkpoint, file, replaces, early })
    }

    #[allow(clippy::result_large_err, reason = "the chunk comes back either way")]
    fn write(&self, mut job: Job) -> Result<Written, (Chunk, Failed)> {
        match self.write_job(&mut job) {
            Ok(()) => {
                let end_position = job.chunk.end_position() - job.chunk.padding as u64;
                Ok(Written { chunk: job.chunk, end_position, file: job.file })
            }
            Err(failed) => Err((job.chunk, failed)),
        }
    }

    fn write_job(&self, job: &mut Job) -> Result<(), Failed> {
        let segment = Arc::clone(&job.chunk.segment);
        let padding = job.chunk.padding;
        job.chunk.buffer.extend(padding).fill(0);
        let (file, begins) = match job.chunk.spare.take() {
            Some(spare) if job.replaces => return self.write_replacing(&job.chunk, spare),
            Some(spare) => {
                if let Err(failed) = self.name(&segment.path, &spare) {
                    if !failed.heal {
                        job.chunk.spare = Some(spare);
                    }
                    return Err(failed);
                }
                self.files.put(segment.id, Arc::clone(&spare.file), Access::Write);
                // The file is open for ordinary writes in any case: want of a descriptor fails no commit here.
                (self.to_commit(&segment).unwrap_or(spare.file), true)
            }
            None => {
                // Weakly held: the most descriptors that are open is the cache's to say.
                let open = job.file.take().and_then(|file| file.upgrade());
                let file = open.map_or_else(|| self.to_commit(&segment), Ok);
                (file.disk("open", &segment.path).map_err(Failed::untouched)?, false)
            }
        };
        job.file = Some(Arc::downgrade(&file));
        let vouches =
            job.checkpoint.is_some_and(|checkpoint| self.write_advice(&segment, &checkpoint));
        self.write_early_header(job.early.as_deref());
        // The header goes with the first records, in one sync: a sync of the records alone would confirm what a restart
        // takes for leftovers behind a spare header.
        let header = begins && !planted::is(Fault::FirstCommitWithoutHeader);
        let header = header.then(|| Block(segment.header().encode()));
        let synced = self.write_and_sync(&*file, header.as_ref(), &job.chunk, vouches);
        // A file system that wants direct writes aligned in another way than it told: the file that the log heals into would
        // fail as this one did, and that is one failure too many.
        if file.is_direct()
            && synced.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
        {
            self.direct.store(false, Ordering::Relaxed);
        }
        synced.disk("write and sync", &segment.path).map_err(Failed::written)?;
        self.counts.count(&*file);
        if let Some(checkpoint) = job.checkpoint.filter(|_| vouches) {
            self.note_checkpoint(&segment, checkpoint.position);
        }
        Ok(())
    }

    /// Writes a checkpoint that the commit's sync makes durable; where it cannot be written, recovery reads more. Through the
    /// page cache: it is on its way while the records are written, and a direct write of it would have to be waited for.
    fn write_advice(&self, segment: &Segment, checkpoint: &Checkpoint) -> bool {
        let written = self.files.get(segment.id, &segment.path, Access::Write).and_then(|file| {
            let block = checkpoint.encode();
            file.write_at(CHECKPOINT_POSITION, &block)?;
            file.begin_write_back(CHECKPOINT_POSITION, block.len());
            Ok(())
        });
        if let Err(error) = &written {
            tracing::warn!(path = %segment.path.display(), %error, "checkpoints stop in this file");
            self.stop_checkpoints(segment);
        }
        written.is_ok()
    }

    /// The file of a segment as commits write it.
    fn to_commit(&self, segment: &Segment) -> std::io::Result<Arc<dyn File>> {
        let access =
            if self.direct.load(Ordering::Relaxed) { Access::Direct } else { Access::Write };
        self.files.get(segment.id, &segment.path, access)
    }

    /// Writes a chunk, and makes it durable with what else was written to its file: one sync of the records alone would
    /// leave out a header or a checkpoint (`RWF_DSYNC` on a device with forced unit access, see [`File::write_and_sync`]).
    fn write_and_sync(
        &self,
        file: &dyn File,
        header: Option<&Block>,
        chunk: &Chunk,
        vouches: bool,
    ) -> std::io::Result<()> {
        let data = Write { position: chunk.start, bytes: chunk.buffer.bytes() };
        let synced = match header {
            Some(block) if planted::is(Fault::FirstCommitSyncsRecordsOnly) => {
                file.write_at(0, &block.0)?;
                self.sync_with_faults(file, &[data])
            }
            Some(block) => {
                self.sync_with_faults(file, &[Write { position: 0, bytes: &block.0 }, data])
            }
            None if vouches && !planted::is(Fault::CheckpointNotSynced) => {
                file.write_at(data.position, data.bytes)?;
                self.sync_with_faults(file, &[])
            }
            None => self.sync_with_faults(file, &[data]),
        };
        match synced {
            Err(_) if planted::is(Fault::SyncRetried) => file.sync(),
            other => other,
        }
    }

    /// Moves a spare to its name in the log and makes that durable, in both directories where it was not moved into the
    /// log's before: a name that is only in the cache is gone after a power cut, and with it every record that was
    /// confirmed in the file.
    fn name(&self, path: &std::path::Path, spare: &Spare) -> Result<(), Failed> {
        if let Err(error) = rename_in(&*self.fs, &*self.source, spare, path) {
            // Where the answer does not prove that nothing was done, the name may be there: healing replaces it.
            let refused = matches!(
                error.raw_os_error(),
                Some(libc::ENOSPC | libc::EDQUOT | libc::EXDEV | libc::EROFS | libc::EACCES)
            );
            if error.raw_os_error() == Some(libc::EXDEV) {
                self.source.cannot_rename_into(&self.dir);
            }
            let error = DiskError::new("rename a spare to", path, error);
            return Err(if refused { Failed::untouched(error) } else { Failed::named(error) });
        }
        if !planted::is(Fault::FirstCommitWithoutDirectory) {
            let synced = self.fs.sync_dir(&self.dir).disk("sync", &self.dir);
            synced.map_err(Failed::named)?;
        }
        let spares = self.source.spares_dir();
        let leaves = spare.path.parent() == Some(spares);
        if leaves && !planted::is(Fault::FirstCommitWithoutSparesDirectory) {
            let synced = self.fs.sync_dir(spares).disk("sync", spares);
            synced.map_err(Failed::named)?;
        }
        Ok(())
    }

    fn sync_with_faults(&self, file: &dyn File, writes: &[Write<'_>]) -> std::io::Result<()> {
        if planted::is(Fault::ConfirmedBeforeSync) {
            return writes.iter().try_for_each(|write| file.write_at(write.position, write.bytes));
        }
        file.write_and_sync(writes)
    }

    fn write_early_header(&self, early: Option<&Segment>) {
        let Some(segment) = early else { return };
        let mut state = self.lock();
        let next = state.chunks.front_mut().and_then(|chunk| chunk.spare.take());
        drop(state);
        if let Some(spare) = next
            && self.name(&segment.path, &spare).is_ok()
        {
            let header = Write { position: 0, bytes: &segment.header().encode() };
            let _ = spare.file.write_and_sync(&[header]);
            self.files.put(segment.id, spare.file, Access::Write);
        }
    }

    fn stop_checkpoints(&self, segment: &Segment) {
        if let Some(active) = &mut self.lock().active
            && active.segment.id == segment.id
        {
            active.checkpointing = false;
        }
    }

    fn note_checkpoint(&self, segment: &Segment, position: u64) {
        if let Some(active) = &mut self.lock().active
            && active.segment.id == segment.id
        {
            active.checkpoint = position;
            active.checkpoint_durable = true;
        }
    }

    /// Gives the parity of those that are to be woken, if there are any.
    fn finish(
        &self,
        state: &mut State,
        written: Written,
        (started, ended): (Duration, Duration),
    ) -> Option<usize> {
        let took = ended.saturating_sub(started);
        let Written { chunk, end_position, file } = written;
        let parity = parity(chunk.seq);
        if !chunk.segment.is_committed() {
            self.forget_replaced(state, &chunk);
        }
        chunk.segment.committed.store(true, Ordering::Release);
        state.in_flight = 0;
        state.durable = chunk.end;
        self.durable_seen.store(chunk.end.0, Ordering::Release);
        state.durable_millis = chunk.millis;
        chunk.segment.durable.store(end_position, Ordering::Release);
        if let Some(active) = &mut state.active
            && active.segment.id == chunk.segment.id
        {
            active.file = file;
        }
        state.healed_since_commit = false;
        state.sync_time =
            if state.sync_time.is_zero() { took } else { (state.sync_time * 7 + took) / 8 };
        let waiting = state.release(parity);
        let back = waiting + u32::from(std::mem::take(&mut state.leader_waits));
        state.gather.released(back, ended);
        (waiting > 0).then_some(parity)
    }

    /// Ends the epoch: nothing more is written to the file if that is in doubt, all that was staged is answered, and
    /// the log heals.
    fn fail<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        chunk: Chunk,
        failed: Failed,
    ) -> MutexGuard<'a, State> {
        tracing::warn!(log = %self.name, error = %failed.error, outcome = %failed.in_flight, "a commit failed");
        let mut chunk = chunk;
        // Who led it is answered, and comes back to no commit.
        state.leader_waits = false;
        let spares = state.end_epoch(chunk.end, failed.in_flight, failed.error.clone());
        let spares = spares.into_iter().chain(chunk.spare.take());
        state.status = Status::Healing;
        self.notify_all(&mut state);
        drop(state);
        spares.for_each(|spare| self.source.give_back(spare));
        if planted::is(Fault::FailedFileWrittenAgain) && chunk.segment.is_committed() {
            let mut state = self.lock();
            state.restart_active();
            state.status = Status::Open;
            return state;
        }
        if failed.heal {
            return self.heal(chunk.segment, failed.error);
        }
        let mut state = self.lock();
        state.restart_active();
        state.status = Status::Open;
        state
    }

    /// Tells all who wait for something that only the leader changes, and sees to it that what is staged goes on.
    pub(super) fn announce(self: &Arc<Self>, state: &mut State) {
        self.tell(state);
        if let Some(parity) = self.next_leader(state) {
            self.committed[parity].wake_one();
        }
    }

    /// Sees to it that what is staged is committed: by one of those who wait for it, of whom the caller is to wake one (they
    /// wait for chunks of the parity that it gives), or by a committer, who can go on with what comes next.
    #[must_use = "what is staged waits for a leader"]
    fn next_leader(self: &Arc<Self>, state: &mut State) -> Option<usize> {
        let parity = parity(state.chunks.front()?.seq);
        let waits = state.waiting[parity] > 0;
        if waits && (!self.helper.has_idle_committer() || self.gathers(state).is_some()) {
            return Some(parity);
        }
        // The idle one may have been taken by another log, whose disk may hang.
        let comes = self.schedule_commit(state);
        (waits && !comes).then_some(parity)
    }

    /// Tells those who wait for room or for records.
    fn tell(&self, state: &State) {
        if state.want_room > 0 {
            self.room.notify_all();
        }
        if state.followers > 0 {
            self.readable.notify_all();
        }
    }

    /// Wakes everybody, after a failure or a stop. Only who waits: to wake nobody is a system call too.
    pub(super) fn notify_all(&self, state: &mut State) {
        for (parity, committed) in self.committed.iter().enumerate() {
            if state.release(parity) > 0 {
                committed.wake_all();
            }
        }
        self.tell(state);
    }

    /// Commits all that is staged. For the node's committers and for closing.
    pub(crate) fn commit_staged(self: &Arc<Self>) {
        let mut state = self.lock();
        state.commit_scheduled = false;
        if !state.leader && !state.chunks.is_empty() {
            // Else another thread would have to wake up between two commits. Other logs come first.
            state = self.lead_while(state, |state| {
                !self.helper.commits_wait() && self.gathers(state).is_none()
            });
        }
        self.wake_all(state);
    }
}
