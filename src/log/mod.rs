//! A log: stage, commit, read, truncate, heal.

mod ahead;
mod buffer;
mod checkpoint;
mod commit;
mod counts;
mod gather;
mod heal;
mod index;
mod open;
mod place;
mod read;
mod recent;
mod replace;
mod stage;
mod state;
mod swap;
mod tail_block;
mod ticket;
mod truncate;

pub(crate) use buffer::BufferPool;
pub(crate) use counts::CommitCounts;
pub use counts::CommitStats;
pub(crate) use index::Indexes;
pub(crate) use open::Parts;
pub use read::Reader;
pub(crate) use recent::RecentBudget;
pub use ticket::Ticket;

use crate::clock::Clock;
use crate::error::{AppendError, PublishError, ReadError, Stopped, TruncateError};
use crate::format::RECORDS_POSITION;
use crate::format::name::LogName;
use crate::fs::FileSystem;
use crate::permit::{Decision, Gate, Permit, PermitError};
use crate::recovery::RecoveryReport;
use crate::segment::{Files, SegmentSource};
use crate::signal::Signal;
use crate::types::{Offset, SizeClass, WriteClass};
use place::Ladder;
use recent::Recent;
use state::{State, Status};
use std::fmt::Debug;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// A record to append: borrowed, copied once, into the staging buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewRecord<'a> {
    /// Headers: opaque to the log, at most 65,535 bytes; [`crate::format::headers`] is the usual encoding.
    pub headers: &'a [u8],
    /// The payload; may be empty.
    pub payload: &'a [u8],
}

impl<'a> NewRecord<'a> {
    /// A record without headers.
    #[must_use]
    pub const fn new(payload: &'a [u8]) -> Self {
        Self { headers: &[], payload }
    }
}

/// A record as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its offset.
    pub offset: Offset,
    /// When it was appended, by the wall clock, Unix milliseconds.
    pub millis: u64,
    /// Its headers.
    pub headers: Vec<u8>,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Where a confirmed batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub first: Offset,
    /// How many records it has.
    pub count: u64,
}

/// What a truncation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The log's head now: the first offset that it holds, at or before the one asked for, since only whole segments go.
    pub head: Offset,
    /// How many segment files were freed.
    pub segments_freed: u64,
    /// Their sizes.
    pub bytes_freed: u64,
}

/// The sizes of a log, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogBytes {
    /// What its records take, headers and padding included.
    pub held: u64,
    /// The sizes of its files.
    pub on_disk: u64,
}

/// One of a log's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentView {
    /// Offset of its first record.
    pub base: Offset,
    /// Its size class.
    pub class: SizeClass,
    /// Its file's size in bytes.
    pub capacity: u64,
}

/// How a log is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogOptions {
    /// Make the log if there is none.
    pub create: bool,
    /// Stop at small segments; for logs of metadata and acknowledgements.
    pub small: bool,
    /// Which of the node's data directories a new log is made in, from 0.
    pub data_dir: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { create: true, small: false, data_dir: 0 }
    }
}

/// Who does for a log what must not block its callers: the node.
pub(crate) trait Helper: Debug + Send + Sync {
    /// Calls [`Shared::commit_staged`] soon. Says whether a thread is there that has nothing else to do.
    fn commit(&self, log: Arc<Shared>) -> bool;

    /// Whether a thread would take a commit at once. Advice.
    fn has_idle_committer(&self) -> bool;

    /// Whether commits wait for a thread. Advice.
    fn commits_wait(&self) -> bool;

    /// Calls [`Shared::prepare`] soon.
    fn prepare(&self, log: Arc<Shared>);
}

/// What all handles of one log share. Lock order: `rolling` or `truncating`, then `state`; no I/O under `state`.
#[derive(Debug)]
pub(crate) struct Shared {
    name: LogName,
    dir: PathBuf,
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    source: Arc<dyn SegmentSource>,
    files: Arc<Files>,
    buffers: Arc<BufferPool>,
    indexes: Arc<Indexes>,
    helper: Arc<dyn Helper>,
    ladder: Ladder,
    record_max: u64,
    /// The device that it is on (`st_dev`), which permits must be for.
    device: u64,
    gather_enabled: bool,
    /// Commits go past the page cache where the file system can.
    direct: AtomicBool,
    counts: Arc<CommitCounts>,
    recent: Recent,
    state: Mutex<State>,
    /// Held while files are taken, so that two batches do not take twice as many.
    rolling: Mutex<()>,
    /// Held while segments are given up, which goes in order.
    truncating: Mutex<()>,
    /// For tickets of even and of odd chunks: a commit wakes those that it confirmed, and one of the others.
    committed: [Signal; 2],
    /// The durable end, for who has not got the lock.
    durable_seen: AtomicU64,
    /// It was said that truncated files cannot be given up.
    pub(crate) told_retired: AtomicBool,
    room: Condvar,
    readable: Condvar,
}

impl Shared {
    /// The lock is never held over I/O or a callback, so a panic under it is a bug in pure code; going on with what it
    /// left is safe, as every commit is checked against the durable end.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(on: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        on.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of files that it has taken and not begun.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        let state = self.lock();
        let chunks = state.chunks.iter().filter_map(|chunk| chunk.spare.as_ref());
        state.reserved.iter().chain(&state.opening).chain(chunks).map(|spare| spare.capacity).sum()
    }

    /// Says whether a committer comes at once.
    fn schedule_commit(self: &Arc<Self>, state: &mut State) -> bool {
        if state.commit_scheduled || state.chunks.is_empty() {
            return false;
        }
        state.commit_scheduled = true;
        self.helper.commit(Arc::clone(self))
    }

    fn schedule_prepare(self: &Arc<Self>, state: &mut State) {
        if !state.prepare_scheduled {
            state.prepare_scheduled = true;
            self.helper.prepare(Arc::clone(self));
        }
    }
}

/// A log. Cheap to clone; all clones are the same log.
#[derive(Clone, Debug)]
pub struct Log {
    shared: Arc<Shared>,
    gate: Arc<dyn Gate>,
    report: Arc<RecoveryReport>,
}

impl Log {
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &LogName {
        &self.shared.name
    }

    /// Stages a batch and gives a ticket for it. The batch is contiguous; after a crash a prefix of it may be what
    /// survives.
    ///
    /// Blocks while more than 2 MiB are staged, and leads a commit then if nobody else does; and where a new file is
    /// needed, until it is made.
    ///
    /// # Errors
    /// [`AppendError`]: nothing was written.
    pub fn append(&self, permit: Permit, records: &[NewRecord<'_>]) -> Result<Ticket, AppendError> {
        self.counted(self.shared.append(permit, records))
    }

    /// Refusals are admission's to count, also those of files.
    fn counted<T>(&self, result: Result<T, AppendError>) -> Result<T, AppendError> {
        if let Err(AppendError::Limited(limited)) = &result {
            self.gate.refused(limited);
        }
        result
    }

    /// As [`Log::append`], but never blocks on the disk or on another commit: gives [`AppendError::Busy`] instead, and
    /// has the node do what is missing.
    ///
    /// # Errors
    /// [`AppendError`]: nothing was written.
    pub fn try_append(
        &self,
        permit: &Permit,
        records: &[NewRecord<'_>],
    ) -> Result<Ticket, AppendError> {
        self.counted(self.shared.try_append(permit, records, None))
    }

    /// As [`Log::append`], for a task that must not block: ready when the batch is staged. Await the ticket for the
    /// confirmation.
    pub fn append_async<'a>(
        &self,
        permit: Permit,
        records: &'a [NewRecord<'a>],
    ) -> AppendFuture<'a> {
        AppendFuture { log: self.clone(), permit, records, seen: None }
    }

    /// Does it all: admission, its delay (50 ms at most by default), [`Log::append`], and the wait for the disk. Blocks.
    /// Does not wait out a refusal: its [`Limited`](crate::permit::Limited) says when to try again.
    ///
    /// # Errors
    /// [`PublishError`] says what is certain.
    pub fn publish(
        &self,
        class: WriteClass,
        records: &[NewRecord<'_>],
    ) -> Result<Appended, PublishError> {
        let bytes = records.iter().map(|new| (new.headers.len() + new.payload.len()) as u64).sum();
        loop {
            let permit = match self.admit(class, bytes) {
                Decision::Admit(permit) => permit,
                Decision::Delay { wait, permit } => {
                    self.gate.wait(wait);
                    permit
                }
                Decision::Refuse(limited) => return Err(limited.into()),
            };
            match self.shared.append_and_wait(permit, records) {
                // It stood before a full staging buffer, or slept, for longer than what was said then is good for.
                Err(PublishError::Append(AppendError::Permit(PermitError::Expired))) => {}
                Err(PublishError::Append(AppendError::Limited(limited))) => {
                    self.gate.refused(&limited);
                    return Err(limited.into());
                }
                other => return other,
            }
        }
    }

    /// Asks for the right to append `bytes` of headers and payloads, for [`Log::append`] and its like. Never blocks; who is
    /// delayed waits by itself.
    pub fn admit(&self, class: WriteClass, bytes: u64) -> Decision {
        self.gate.decide(class, bytes)
    }

    /// A reader that begins at `offset`, which may be the durable end.
    ///
    /// # Errors
    /// [`ReadError::Gone`] with the next offset that is there; [`ReadError::Beyond`]; closed or deleted.
    pub fn read_from(&self, offset: Offset) -> Result<Reader, ReadError> {
        self.shared.reader(offset)
    }

    /// The first offset at which the running maximum of the stamps reaches `millis` (Unix milliseconds), or the durable
    /// end if none does. The running maximum is taken from the log's beginning, as clocks step back. Reads at most one
    /// segment.
    ///
    /// # Errors
    /// Of reading that segment.
    pub fn offset_for_time(&self, millis: u64) -> Result<Offset, ReadError> {
        self.shared.offset_for_time(millis)
    }

    /// Frees the segments that hold only records before `offset`. Needs no append and no new file. The last segment
    /// always stays. The space of a file that a reader is in comes back when the reader has left it. A log that is open for
    /// reading only, see [`Stopped::ReadOnly`], frees none until it is opened anew.
    ///
    /// # Errors
    /// [`TruncateError`].
    pub fn truncate_before(&self, offset: Offset) -> Result<Truncated, TruncateError> {
        self.shared.truncate_before(offset)
    }

    /// The first offset that the log holds.
    #[must_use]
    pub fn head(&self) -> Offset {
        self.shared.lock().head()
    }

    /// The offset that the next record will have if nothing fails before it.
    #[must_use]
    pub fn tail(&self) -> Offset {
        self.shared.lock().next
    }

    /// Below this offset all is durable and can be read.
    #[must_use]
    pub fn durable(&self) -> Offset {
        self.shared.lock().durable
    }

    /// Its sizes. The held bytes of segments that were sealed before the log was opened count as full files.
    #[must_use]
    pub fn bytes(&self) -> LogBytes {
        let state = self.shared.lock();
        let on_disk = state.segments.iter().map(|segment| segment.capacity).sum();
        let held = state.segments.iter().map(|segment| segment.durable() - RECORDS_POSITION).sum();
        LogBytes { held, on_disk }
    }

    /// Its segments, oldest first.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentView> {
        let state = self.shared.lock();
        let view = |segment: &Arc<state::Segment>| SegmentView {
            base: segment.base,
            class: segment.class,
            capacity: segment.capacity,
        };
        state.segments.iter().map(view).collect()
    }

    /// What recovery saw and did when the log was opened.
    #[must_use]
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.report
    }

    /// Why the log takes no appends; `None` while it does.
    #[must_use]
    pub fn stopped(&self) -> Option<Stopped> {
        let state = self.shared.lock();
        match &state.status {
            Status::Stopped(why) => Some(why.clone()),
            _ => state.closing.clone(),
        }
    }
}

/// See [`Log::append_async`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct AppendFuture<'a> {
    log: Log,
    permit: Permit,
    records: &'a [NewRecord<'a>],
    /// How often the node had prepared when this last had to wait.
    seen: Option<u64>,
}

impl Future for AppendFuture<'_> {
    type Output = Result<Ticket, AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = Arc::clone(&self.log.shared);
        let prepares = {
            let state = shared.lock();
            if self.seen.is_some_and(|seen| state.prepares > seen)
                && let Some((class, error)) = &state.prepare_error
                // A file that is refused to one class of writes is not refused to another.
                && class.is_none_or(|class| class == self.permit.class())
            {
                return Poll::Ready(self.log.counted(Err(error.clone())));
            }
            state.prepares
        };
        match shared.try_append(&self.permit, self.records, Some(context.waker())) {
            Err(AppendError::Busy) => {
                self.seen = Some(prepares);
                Poll::Pending
            }
            other => Poll::Ready(self.log.counted(other)),
        }
    }
}
