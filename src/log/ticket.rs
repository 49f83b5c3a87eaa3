//! Tickets: how an appender learns that its batch is durable.

use super::state::{Epoch, State, parity};
use super::{Appended, Shared};
use crate::error::CommitError;
use crate::types::Offset;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll};

/// A staged batch on its way to the disk. Wait for it, poll it, or drop it: it is committed in any case.
///
/// Its offsets are final only once it is confirmed. A ticket that is held without being started, waited for, polled or
/// dropped is committed together with the next one that is.
#[derive(Debug)]
#[must_use = "a batch is durable only when its ticket says so"]
pub struct Ticket {
    log: Arc<Shared>,
    epoch: Arc<Epoch>,
    first: Offset,
    count: u64,
    seq: u64,
    settled: bool,
}

impl Ticket {
    pub(super) fn new(
        log: Arc<Shared>,
        epoch: Arc<Epoch>,
        first: Offset,
        count: u64,
        seq: u64,
    ) -> Self {
        Self { log, epoch, first, count, seq, settled: false }
    }

    /// The offset that the first record will have if nothing fails before it.
    #[must_use]
    pub fn expected_offset(&self) -> Offset {
        self.first
    }

    /// Has one of the node's committers commit it, without waiting: the caller can get the next batch ready meanwhile. Does
    /// nothing if that is under way.
    pub fn start(&self) {
        let mut state = self.log.lock();
        if !state.leader {
            self.log.schedule_commit(&mut state);
        }
    }

    fn resolve(&mut self, state: &State) -> Option<Result<Appended, CommitError>> {
        self.resolve_at(state.durable)
    }

    /// The same without the lock; `None` also where only the lock tells.
    fn resolve_unlocked(&mut self) -> Option<Result<Appended, CommitError>> {
        // Before the epoch is looked at: what is durable now is so in this ticket's epoch if that has not ended afterwards
        // either. In a later one the same offsets are others' records.
        let durable = self.log.durable_seen.load(Ordering::Acquire);
        self.resolve_at(Offset(durable))
    }

    fn resolve_at(&mut self, durable: Offset) -> Option<Result<Appended, CommitError>> {
        let end = self.first.plus(self.count);
        let verdict = match self.epoch.verdict(self.first, end) {
            Some(verdict) => verdict,
            None if durable >= end => Ok(()),
            None => return None,
        };
        self.settled = true;
        Some(verdict.map(|()| Appended { first: self.first, count: self.count }))
    }

    /// Blocks until the batch is durable; commits it, and what others have staged, if nobody else is about to.
    ///
    /// # Errors
    /// [`CommitError`] says whether it may have been written.
    pub fn wait(mut self) -> Result<Appended, CommitError> {
        if let Some(result) = self.resolve_unlocked() {
            return result;
        }
        let log = Arc::clone(&self.log);
        let state = log.lock();
        self.wait_in(&log, state)
    }

    /// The same for whoever has the lock.
    pub(super) fn wait_locked(
        mut self,
        log: &Arc<Shared>,
        state: MutexGuard<'_, State>,
    ) -> Result<Appended, CommitError> {
        self.wait_in(log, state)
    }

    fn wait_in<'a>(
        &mut self,
        log: &'a Arc<Shared>,
        mut state: MutexGuard<'a, State>,
    ) -> Result<Appended, CommitError> {
        let parity = parity(self.seq);
        loop {
            if let Some(result) = self.resolve(&state) {
                return result;
            }
            let mut gathers = None;
            if !state.leader && !state.chunks.is_empty() {
                gathers = log.gathers(&mut state);
                if gathers.is_none() {
                    // Only the next commit is surely its own; a later one leads again.
                    state.leader_waits =
                        state.chunks.front().is_some_and(|chunk| chunk.seq == self.seq);
                    state = log.lead(state);
                    continue;
                }
            }
            let released = state.released[parity];
            state.waiting[parity] += 1;
            let turn = log.committed[parity].turn();
            drop(state);
            log.committed[parity].wait(turn, gathers);
            // Who is released is not counted as waiting any more.
            if let Some(result) = self.resolve_unlocked() {
                return result;
            }
            state = log.lock();
            if state.released[parity] == released {
                state.waiting[parity] -= 1;
            }
        }
    }
}

impl Future for Ticket {
    type Output = Result<Appended, CommitError>;

    /// Never blocks: one of the node's committers does the work.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let log = Arc::clone(&self.log);
        let mut state = log.lock();
        if let Some(result) = self.resolve(&state) {
            return Poll::Ready(result);
        }
        state.wakers.push(context.waker().clone());
        log.schedule_commit(&mut state);
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let log = Arc::clone(&self.log);
        let mut state = log.lock();
        if self.resolve(&state).is_none() {
            log.schedule_commit(&mut state);
        }
    }
}
