//! A shard's event log as its owner writes it: entries in the order in which they were applied, answered when durable.

use crate::api::Fault;
use crate::event::Entry;
use plimsoll::error::{AppendError, CommitError, Outcome};
use plimsoll::permit::{Decision, PermitError};
use plimsoll::{Appended, Log, NewRecord, Offset, Ticket, WriteClass};
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The most bytes and entries of one append; a larger entry goes alone. The files that an append needs are had before any of it
/// is written, and on a full disk there are only small ones.
const BATCH_BYTES: usize = 40 << 10;
/// See [`BATCH_BYTES`].
const BATCH_ENTRIES: usize = 4_096;
/// Bytes of entries that are not staged yet, from which on the owner takes no more commands.
const PENDING_MAX: usize = 4 << 20;

/// What follows when an entry is durable, with its offset, or is not.
pub(super) type Then = Box<dyn FnOnce(Result<Offset, Fault>) + Send>;

/// An entry on its way.
pub(super) struct Pending {
    bytes: Vec<u8>,
    then: Option<Then>,
    index: u64,
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("index", &self.index).finish_non_exhaustive()
    }
}

/// What became of a batch of entries.
#[derive(Debug)]
pub(super) enum JournalDone {
    /// An append that had to wait is staged, or not.
    Staged(Result<Ticket, AppendError>, Vec<Pending>),
    /// A batch is durable, or not.
    Settled(Result<Appended, CommitError>, Vec<Pending>),
}

/// A batch's future.
pub(super) type Flight = Pin<Box<dyn Future<Output = JournalDone> + Send>>;

/// What the owner has to do about the journal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Nothing.
    Nothing,
    /// Drive it again in a moment: nothing was written, for want of space.
    Retry,
    /// What is in memory is ahead of what is durable for good: load the shard again.
    Lost(String),
}

#[derive(Debug)]
pub(super) struct Journal {
    log: Log,
    pending: VecDeque<Pending>,
    pending_bytes: usize,
    /// An append waits for the log; nothing may pass it.
    busy: bool,
    /// Batches that are staged and not settled.
    flying: usize,
    pushed: u64,
    durable: u64,
    written_bytes: u64,
    /// Why events wait, since they do.
    waits: Option<Arc<str>>,
}

pub(super) fn not_written(why: &dyn fmt::Display) -> Fault {
    Fault::Unavailable(format!("the event log takes nothing: {why}").into())
}

impl Journal {
    pub(super) fn new(log: Log) -> Self {
        Self {
            log,
            pending: VecDeque::new(),
            pending_bytes: 0,
            busy: false,
            flying: 0,
            pushed: 0,
            durable: 0,
            written_bytes: 0,
            waits: None,
        }
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    /// Queues an entry; what it says must be applied to memory in the same step.
    pub(super) fn push(&mut self, entry: &Entry, then: Option<Then>) {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        self.pending_bytes += bytes.len();
        self.written_bytes += bytes.len() as u64;
        self.pushed += 1;
        self.pending.push_back(Pending { bytes, then, index: self.pushed });
    }

    /// How many entries were queued so far.
    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    /// How many of them are durable, in order.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Why nothing can be written for now: no event gets durable, so nothing may be promised that needs one.
    pub(super) fn waits(&self) -> Option<&Arc<str>> {
        self.waits.as_ref()
    }

    /// Bytes queued since this was last asked with `reset`.
    pub(super) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    pub(super) fn reset_written(&mut self) {
        self.written_bytes = 0;
    }

    /// Takes no more for now, so that a log that hangs does not fill the memory.
    pub(super) fn is_full(&self) -> bool {
        self.pending_bytes > PENDING_MAX
    }

    /// Nothing is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && !self.busy && self.flying == 0
    }

    /// Stages what is pending, as far as the log takes it, and gives the futures to wait for.
    pub(super) fn drive(&mut self, mut fly: impl FnMut(Flight)) -> After {
        // One batch at a time. A log goes on in another file after a failed commit: a batch that was staged behind the failed
        // one could be durable without it, and what they say together would have a hole.
        if !self.busy && self.flying == 0 && !self.pending.is_empty() {
            let batch = self.next_batch();
            let len = batch.iter().map(|entry| entry.bytes.len() as u64).sum();
            let permit = match self.log.admit(WriteClass::Acknowledge, len) {
                Decision::Admit(permit) | Decision::Delay { permit, .. } => permit,
                Decision::Refuse(limited) => {
                    tracing::warn!(%limited, "events are refused");
                    self.put_back(batch);
                    return After::Retry;
                }
            };
            let records: Vec<_> = batch.iter().map(|entry| NewRecord::new(&entry.bytes)).collect();
            let staged = self.log.try_append(&permit, &records);
            drop(records);
            match staged {
                Ok(ticket) => {
                    self.flying += 1;
                    fly(Box::pin(async move { JournalDone::Settled(ticket.await, batch) }));
                }
                Err(AppendError::Busy) => {
                    self.busy = true;
                    let log = self.log.clone();
                    fly(Box::pin(async move {
                        let records: Vec<_> =
                            batch.iter().map(|entry| NewRecord::new(&entry.bytes)).collect();
                        let staged = log.append_async(permit, &records).await;
                        drop(records);
                        JournalDone::Staged(staged, batch)
                    }));
                }
                Err(error) => return self.refused(error, batch),
            }
        }
        After::Nothing
    }

    /// Takes note of what became of a batch.
    pub(super) fn handle(&mut self, done: JournalDone, mut fly: impl FnMut(Flight)) -> After {
        match done {
            JournalDone::Staged(staged, batch) => {
                self.busy = false;
                match staged {
                    Ok(ticket) => {
                        self.flying += 1;
                        fly(Box::pin(async move { JournalDone::Settled(ticket.await, batch) }));
                        After::Nothing
                    }
                    Err(error) => self.refused(error, batch),
                }
            }
            JournalDone::Settled(Ok(done), batch) => {
                self.flying -= 1;
                self.waits = None;
                let last = batch.last().map_or(0, |entry| entry.index);
                self.durable = self.durable.max(last);
                for (at, entry) in batch.into_iter().enumerate() {
                    if let Some(then) = entry.then {
                        then(Ok(done.first.plus(at as u64)));
                    }
                }
                After::Nothing
            }
            JournalDone::Settled(Err(error), batch) => {
                self.flying -= 1;
                let fault = match error.outcome {
                    Outcome::NotWritten => not_written(&error),
                    Outcome::Unknown => Fault::Unknown(error.to_string().into()),
                };
                fail(batch, &fault);
                After::Lost(error.to_string())
            }
        }
    }

    /// Answers all that is not staged: not written.
    pub(super) fn drop_pending(&mut self, why: &str) {
        self.pending_bytes = 0;
        fail(self.pending.drain(..).collect(), &not_written(&why));
    }

    fn next_batch(&mut self) -> Vec<Pending> {
        let mut batch = Vec::new();
        let mut len = 0;
        while let Some(entry) = self.pending.front() {
            let too_much = len + entry.bytes.len() > BATCH_BYTES || batch.len() == BATCH_ENTRIES;
            if too_much && !batch.is_empty() {
                break;
            }
            len += entry.bytes.len();
            batch.extend(self.pending.pop_front());
        }
        self.pending_bytes -= len;
        batch
    }

    fn put_back(&mut self, batch: Vec<Pending>) {
        for entry in batch.into_iter().rev() {
            self.pending_bytes += entry.bytes.len();
            self.pending.push_front(entry);
        }
    }

    /// Nothing of `batch` was written. Space may come back, and a permit is asked for again; what stops the log does not end
    /// by waiting.
    fn refused(&mut self, error: AppendError, batch: Vec<Pending>) -> After {
        match error {
            AppendError::Busy | AppendError::Permit(PermitError::Expired) => {}
            AppendError::Limited(_) | AppendError::Disk(_) | AppendError::Memory(_) => {
                // Once, and not with each of five tries a second.
                if self.waits.is_none() {
                    tracing::warn!(%error, log = %self.log.name(), "events wait");
                }
                self.waits = Some(error.to_string().into());
            }
            error => {
                self.put_back(batch);
                return After::Lost(error.to_string());
            }
        }
        self.put_back(batch);
        After::Retry
    }
}

fn fail(batch: Vec<Pending>, fault: &Fault) {
    for entry in batch {
        if let Some(then) = entry.then {
            then(Err(fault.clone()));
        }
    }
}
