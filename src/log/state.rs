//! What a log knows of itself, behind its staging lock. No I/O happens under that lock.

use super::buffer::Buffer;
use super::gather::Gather;
use super::place::Missing;
use super::tail_block::TailBlock;
use crate::error::{AppendError, CommitError, CommitFailure, DiskError, Outcome, Stopped};
use crate::format::BLOCK_LEN;
use crate::format::header::{Header, InUse, Origin};
use crate::fs::{File, Lock};
use crate::segment::{FileId, Spare};
use crate::types::{Generation, LogId, Offset, SizeClass, WriteClass};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

/// One segment file of the log. Whoever reads it holds the `Arc`, and while someone does the file does not serve again.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) id: FileId,
    pub(crate) path: PathBuf,
    pub(crate) log: LogId,
    pub(crate) base: Offset,
    pub(crate) previous_end: Offset,
    pub(crate) previous_millis: u64,
    pub(crate) generation: Generation,
    pub(crate) class: SizeClass,
    pub(crate) capacity: u64,
    pub(crate) origin: Origin,
    pub(crate) created_millis: u64,
    /// A write or a sync of it failed: it is never written again, and deleted when it is given up.
    pub(crate) failed: AtomicBool,
    /// Its header and its name are durable.
    pub(crate) committed: AtomicBool,
    /// Below this position all is durable; in a file that was sealed in an earlier life, all of it.
    pub(crate) durable: AtomicU64,
}

impl Segment {
    pub(crate) fn header(&self) -> Header {
        Header {
            generation: self.generation,
            class: self.class,
            capacity: self.capacity,
            created_millis: self.created_millis,
            in_use: Some(InUse {
                log: self.log,
                base: self.base,
                previous_end: self.previous_end,
                previous_millis: self.previous_millis,
                origin: self.origin,
            }),
        }
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub(crate) fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Acquire)
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}

/// Which of the two signals is that of a chunk: neighbours have different ones.
pub(super) fn parity(seq: u64) -> usize {
    usize::from(seq % 2 == 1)
}

/// One run of staged bytes for one file, committed as one.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) seq: u64,
    pub(crate) segment: Arc<Segment>,
    /// The file is not in the log's directory yet: this commit is the first in it.
    pub(crate) spare: Option<Spare>,
    /// File position of the buffer's first byte; a multiple of 4 KiB.
    pub(crate) start: u64,
    /// The tail block as it stands in the file, then the new records.
    pub(crate) buffer: Buffer,
    pub(crate) end: Offset,
    /// The largest stamp up to `end`.
    pub(crate) millis: u64,
    /// Bytes of records, the tail block's image not counted.
    pub(crate) record_bytes: u64,
    /// Zeroes that the commit adds, to write whole blocks.
    pub(crate) padding: usize,
}

impl Chunk {
    pub(crate) fn end_position(&self) -> u64 {
        self.start + self.buffer.len() as u64
    }
}

/// The file that records are staged for.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) segment: Arc<Segment>,
    /// Where the next record goes.
    pub(crate) staged: u64,
    /// What stands in the file between the last 4 KiB boundary and `staged`.
    pub(crate) tail: TailBlock,
    /// The file as the last commit wrote it, which finds it here if it is still open.
    pub(crate) file: Option<Weak<dyn File>>,
    /// What the last checkpoint said; 0 if there was none.
    pub(crate) checkpoint: u64,
    /// Whether that checkpoint is durable.
    pub(crate) checkpoint_durable: bool,
    /// Cleared when writing one failed.
    pub(crate) checkpointing: bool,
    /// When the first record was staged in it in this life, and where that was.
    pub(crate) begun: Option<(Duration, u64)>,
}

impl Active {
    /// A file in which staging begins at its durable end.
    pub(crate) fn new(segment: Arc<Segment>) -> Self {
        let staged = segment.durable();
        Self {
            segment,
            staged,
            tail: if staged.is_multiple_of(BLOCK_LEN as u64) {
                TailBlock::empty()
            } else {
                TailBlock::default()
            },
            file: None,
            checkpoint: 0,
            checkpoint_durable: false,
            checkpointing: true,
            begun: None,
        }
    }

    /// How long the room that is left lasts at the rate at which the file was filled so far; `now` as in `begun`.
    pub(crate) fn time_left(&self, now: Duration) -> Duration {
        let Some((since, from)) = self.begun else { return Duration::MAX };
        let filled = self.staged.saturating_sub(from).max(1);
        let left = self.segment.capacity.saturating_sub(self.staged);
        let share = left as f64 / filled as f64;
        Duration::try_from_secs_f64(now.saturating_sub(since).as_secs_f64() * share)
            .unwrap_or(Duration::MAX)
    }
}

/// What a failed commit did to all that was staged before it.
#[derive(Debug)]
pub(crate) struct EpochFailure {
    /// Below this all was confirmed.
    pub(crate) durable: Offset,
    /// From here on nothing had been handed to the file.
    pub(crate) written_end: Offset,
    /// What is certain of the records in between.
    pub(crate) in_flight: Outcome,
    pub(crate) reason: CommitFailure,
}

/// The time between two failures. Offsets are given out again after one, so a ticket belongs to an epoch.
#[derive(Debug, Default)]
pub(crate) struct Epoch {
    pub(crate) failure: OnceLock<EpochFailure>,
}

impl Epoch {
    /// How a failure in this epoch leaves the records from `first` to `end`; `None` without a failure.
    pub(crate) fn verdict(&self, first: Offset, end: Offset) -> Option<Result<(), CommitError>> {
        let failure = self.failure.get()?;
        if end <= failure.durable {
            return Some(Ok(()));
        }
        let untouched = first >= failure.written_end;
        let refused = failure.in_flight == Outcome::NotWritten && first >= failure.durable;
        let outcome = if untouched || refused { Outcome::NotWritten } else { Outcome::Unknown };
        Some(Err(CommitError { outcome, reason: failure.reason.clone() }))
    }
}

/// Whether the log takes appends.
#[derive(Clone, Debug)]
pub(crate) enum Status {
    Open,
    /// Being healed by whoever met the failure.
    Healing,
    /// Healing needs a file, and there was none; tried again by the next append, and by the worker.
    Unhealed,
    Stopped(Stopped),
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) status: Status,
    /// It is being closed, and takes no more appends: what they are told.
    pub(crate) closing: Option<Stopped>,
    pub(crate) id: Option<LogId>,
    /// The data directory's lock, let go of when the log can write no more.
    pub(crate) lock: Option<Arc<dyn Lock>>,
    /// In order; all but trailing ones that are only staged are durable.
    pub(crate) segments: VecDeque<Arc<Segment>>,
    /// Truncated, oldest first, still to be given up.
    pub(crate) retired: VecDeque<Arc<Segment>>,
    /// Given up under their readers: for as long as those live they take space.
    pub(crate) pinned: Vec<Weak<Segment>>,
    /// Up to here its owner has truncated it, in this life.
    pub(crate) truncated: Offset,
    /// The offset of the next record that is staged.
    pub(crate) next: Offset,
    /// Below this all is durable.
    pub(crate) durable: Offset,
    /// The largest stamp that is staged, and that is durable.
    pub(crate) millis: u64,
    pub(crate) durable_millis: u64,
    pub(crate) active: Option<Active>,
    pub(crate) chunks: VecDeque<Chunk>,
    /// Bytes of records that are being written.
    pub(crate) in_flight: u64,
    pub(crate) reserved: VecDeque<Spare>,
    pub(crate) epoch: Arc<Epoch>,
    /// Someone commits, heals or writes a checkpoint: the one who may touch the active file.
    pub(crate) leader: bool,
    /// The leader waits for its own ticket, so it is one of the writers that its commit releases.
    pub(crate) leader_waits: bool,
    pub(crate) next_seq: u64,
    /// Threads blocked on tickets of even and of odd chunks, without those that were released.
    pub(crate) waiting: [u32; 2],
    /// How often all that waited were released.
    pub(crate) released: [u64; 2],
    pub(crate) gather: Gather,
    /// Appenders blocked for room.
    pub(crate) want_room: u32,
    /// The file that the next chunk begins.
    pub(crate) opening: Option<Spare>,
    /// What the worker is asked to reserve.
    pub(crate) wanted: Option<(Missing, WriteClass)>,
    /// How often the worker has prepared, and what the last time ended in: for writes of a class, or for all.
    pub(crate) prepares: u64,
    pub(crate) prepare_error: Option<(Option<WriteClass>, AppendError)>,
    /// The file whose failure is not healed yet, and why not.
    pub(crate) to_heal: Option<Arc<Segment>>,
    pub(crate) heal_error: Option<DiskError>,
    /// Readers blocked for more.
    pub(crate) followers: u32,
    /// Smoothed time of a commit's write and sync.
    pub(crate) sync_time: Duration,
    pub(crate) healed_since_commit: bool,
    pub(crate) commit_scheduled: bool,
    pub(crate) prepare_scheduled: bool,
    pub(crate) last_append: Duration,
    /// Tickets and readers that are polled: woken when something becomes durable or fails.
    pub(crate) wakers: Vec<Waker>,
}

impl State {
    /// The class of the file that records are staged for, and the bytes that it has left.
    pub(crate) fn space_left(&self) -> Option<(SizeClass, u64)> {
        let active = self.active.as_ref()?;
        Some((active.segment.class, active.segment.capacity - active.staged))
    }

    /// Whether the next record that fits goes into `chunk`.
    pub(crate) fn is_open(&self, chunk: &Chunk) -> bool {
        self.active.as_ref().is_some_and(|active| active.segment.id == chunk.segment.id)
    }

    /// The chunk that the next record goes into, if one is begun.
    pub(crate) fn open_chunk(&mut self) -> Option<&mut Chunk> {
        let id = self.active.as_ref()?.segment.id;
        self.chunks.back_mut().filter(|chunk| chunk.segment.id == id)
    }

    /// Begins a chunk for the active file, with the image of the block that the next record begins in.
    pub(crate) fn begin_chunk(&mut self, mut buffer: Buffer) {
        let Some(active) = &mut self.active else { unreachable!("a file was begun before") };
        active.tail.move_to(&mut buffer);
        self.chunks.push_back(Chunk {
            seq: self.next_seq,
            segment: Arc::clone(&active.segment),
            spare: self.opening.take(),
            start: active.staged - buffer.len() as u64,
            buffer,
            end: self.next,
            millis: self.millis,
            record_bytes: 0,
            padding: 0,
        });
        self.next_seq += 1;
    }

    /// Bytes of records that are staged or in flight.
    pub(crate) fn unsynced(&self) -> u64 {
        let staged: u64 = self.chunks.iter().map(|chunk| chunk.record_bytes).sum();
        staged + self.in_flight
    }

    /// The first offset held.
    pub(crate) fn head(&self) -> Offset {
        self.segments.front().map_or(self.durable, |segment| segment.base)
    }

    /// Place in `segments` of the one whose range holds `offset`, a declared gap counted to the segment before it.
    pub(crate) fn segment_of(&self, offset: Offset) -> Option<usize> {
        self.segments.partition_point(|segment| segment.base <= offset).checked_sub(1)
    }

    /// The offset behind the last durable record of the segment at `at`.
    pub(crate) fn end_of(&self, at: usize) -> Offset {
        let next = self.segments.get(at + 1).map(|next| next.previous_end);
        next.unwrap_or(self.durable).min(self.durable)
    }

    /// All that wait for chunks of this parity are woken, by whoever calls this; gives how many they are.
    pub(crate) fn release(&mut self, parity: usize) -> u32 {
        self.released[parity] += 1;
        std::mem::take(&mut self.waiting[parity])
    }

    /// Forgets all that is staged: what comes next is the durable end. Gives what must be given back.
    pub(crate) fn roll_back(&mut self) -> Vec<Spare> {
        let mut spares: Vec<Spare> = self.reserved.drain(..).chain(self.opening.take()).collect();
        for mut chunk in self.chunks.drain(..) {
            spares.extend(chunk.spare.take());
        }
        while self.segments.back().is_some_and(|segment| !segment.is_committed()) {
            self.segments.pop_back();
        }
        self.next = self.durable;
        self.millis = self.durable_millis;
        self.in_flight = 0;
        spares
    }

    /// Answers all that is staged or in flight, up to `written_end` with `in_flight` and beyond with *not written*, and
    /// begins a new epoch at the durable end.
    pub(crate) fn end_epoch(
        &mut self,
        written_end: Offset,
        in_flight: Outcome,
        error: DiskError,
    ) -> Vec<Spare> {
        self.end(written_end, in_flight, CommitFailure::Disk(error))
    }

    /// The same where the log stops before anything more is written.
    pub(crate) fn end_epoch_stopped(&mut self, why: &Stopped) -> Vec<Spare> {
        self.end(self.durable, Outcome::NotWritten, CommitFailure::Stopped(why.clone()))
    }

    fn end(
        &mut self,
        written_end: Offset,
        in_flight: Outcome,
        reason: CommitFailure,
    ) -> Vec<Spare> {
        let failure = EpochFailure { durable: self.durable, written_end, in_flight, reason };
        // Only the leader ends an epoch, so nobody was faster.
        let _ = self.epoch.failure.set(failure);
        self.epoch = Arc::default();
        self.roll_back()
    }

    /// Lets staging go on behind the durable end of the last file, whose bytes are not in doubt.
    pub(crate) fn restart_active(&mut self) {
        self.active = self.segments.back().cloned().map(Active::new);
    }
}
