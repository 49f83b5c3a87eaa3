//! Tickets: how an appender learns that its batch is durable.

use super::state::{Epoch, State};
use super::{Appended, Shared};
use crate::error::CommitError;
use crate::types::Offset;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// A staged batch on its way to the disk. Wait for it, poll it, or drop it: it is committed in any case.
///
/// Its offsets are final only once it is confirmed. A ticket that is held without being waited for, polled or dropped
/// is committed together with the next one that is.
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

    fn resolve(&mut self, state: &State) -> Option<Result<Appended, CommitError>> {
        let end = self.first.plus(self.count);
        let done = Appended { first: self.first, count: self.count };
        let verdict = match self.epoch.verdict(self.first, end) {
            Some(verdict) => verdict.map(|()| done),
            None if state.durable >= end => Ok(done),
            None => return None,
        };
        self.settled = true;
        Some(verdict)
    }

    /// Blocks until the batch is durable; commits it, and what others have staged, if nobody else is about to.
    ///
    /// # Errors
    /// [`CommitError`] says whether it may have been written.
    pub fn wait(mut self) -> Result<Appended, CommitError> {
        let log = Arc::clone(&self.log);
        let parity = usize::from(self.seq % 2 == 1);
        let mut state = log.lock();
        loop {
            if let Some(result) = self.resolve(&state) {
                return result;
            }
            if !state.leader && !state.chunks.is_empty() {
                // Only the next commit is surely its own; a later one leads again.
                state.leader_waits =
                    state.chunks.front().is_some_and(|chunk| chunk.seq == self.seq);
                state = log.lead(state);
                continue;
            }
            state.waiting[parity] += 1;
            state = Shared::wait(&log.committed[parity], state);
            state.waiting[parity] -= 1;
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
