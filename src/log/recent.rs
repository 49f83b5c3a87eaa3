//! The newest durable bytes of a log, for readers that keep up: what was written past the page cache would else have to be
//! read from the disk at once.
//!
//! Kept only while somebody reads the log, and within a share of what the node allows for all its logs.

use super::buffer::Buffer;
use super::state::Chunk;
use crate::fs::{File, Write};
use crate::segment::FileId;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Small commits are copied together until there is so much; a larger one keeps its buffer.
const PIECE: usize = 64 * 1024;

/// The most of one log. A reader that is further behind reads the file.
const LOG_MAX: usize = 4 << 20;

/// How long a log counts as read after its last reader has gone: consumers come back.
const WANTED_FOR: Duration = Duration::from_secs(10);

/// What all logs of a node keep.
#[derive(Debug)]
pub(crate) struct RecentBudget {
    max: usize,
    bytes: AtomicUsize,
    /// Logs that keep anything.
    logs: AtomicUsize,
}

impl RecentBudget {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, bytes: AtomicUsize::new(0), logs: AtomicUsize::new(0) }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) as u64
    }

    /// What one log may keep: all get the same, so that a few busy ones do not leave the others nothing.
    fn share(&self) -> usize {
        (self.max / self.logs.load(Ordering::Relaxed).max(1)).min(LOG_MAX)
    }
}

#[derive(Debug)]
enum Bytes {
    Copied(Vec<u8>),
    Kept(Buffer),
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Kept(buffer) => buffer.bytes(),
        }
    }

    /// With what is not filled.
    fn memory(&self) -> usize {
        match self {
            Self::Copied(bytes) => bytes.capacity(),
            Self::Kept(buffer) => buffer.capacity(),
        }
    }
}

/// A part of a segment file, from `start` on.
#[derive(Debug)]
struct Piece {
    file: FileId,
    start: u64,
    bytes: Bytes,
}

#[derive(Debug, Default)]
struct Pieces {
    /// Oldest first. Of one file each begins where the one before ends, or before that.
    list: VecDeque<Piece>,
    /// The memory of all.
    memory: usize,
    /// It is counted among the logs that keep anything.
    counted: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Recent {
    budget: Arc<RecentBudget>,
    pieces: Mutex<Pieces>,
    readers: AtomicUsize,
    /// When the last reader went, in milliseconds of the clock; 0 if none was there.
    left_at: AtomicU64,
}

impl Recent {
    pub(super) fn new(budget: Arc<RecentBudget>) -> Self {
        Self {
            budget,
            pieces: Mutex::default(),
            readers: AtomicUsize::new(0),
            left_at: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody begins to read.
    pub(super) fn enter(&self) {
        self.readers.fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody has stopped, at `now`.
    pub(super) fn leave(&self, now: Duration) {
        self.left_at.store(millis(now).max(1), Ordering::Relaxed);
        self.readers.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_wanted(&self, now: Duration) -> bool {
        let left_at = self.left_at.load(Ordering::Relaxed);
        let lately = left_at > 0 && millis(now).saturating_sub(left_at) < millis(WANTED_FOR);
        self.budget.max > 0 && (self.readers.load(Ordering::Relaxed) > 0 || lately)
    }

    /// Takes what a commit has made durable, and may take its buffer.
    pub(super) fn keep(&self, chunk: &mut Chunk, now: Duration) {
        if !self.is_wanted(now) {
            self.forget();
            return;
        }
        let mut pieces = self.lock();
        let before = pieces.memory;
        pieces.add(chunk);
        // Counted in first, and for as long as it is read: else the others, who have all, would never leave it a share.
        if !pieces.counted {
            pieces.counted = true;
            self.budget.logs.fetch_add(1, Ordering::Relaxed);
        }
        let all = self.budget.bytes.load(Ordering::Relaxed) + pieces.memory - before;
        // While others still have more than their share this one has nothing.
        let most = if all > self.budget.max { 0 } else { self.budget.share() };
        while pieces.memory > most {
            let Some(oldest) = pieces.list.pop_front() else { break };
            pieces.memory -= oldest.bytes.memory();
        }
        self.settle(&pieces, before);
    }

    /// Tells the others what it keeps now.
    fn settle(&self, pieces: &Pieces, before: usize) {
        let after = pieces.memory;
        if after >= before {
            self.budget.bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.budget.bytes.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Forgets all. For a log that is idle, or closed.
    pub(super) fn forget(&self) {
        let mut pieces = self.lock();
        // Each commit of a log that nobody reads comes here: no number that all logs share is touched for it.
        if !std::mem::take(&mut pieces.counted) {
            return;
        }
        let before = std::mem::take(&mut pieces.memory);
        let list = std::mem::take(&mut pieces.list);
        self.settle(&pieces, before);
        self.budget.logs.fetch_sub(1, Ordering::Relaxed);
        drop(pieces);
        drop(list);
    }

    /// Bytes from `position` of a file on, as far as one piece has them; `None` if none has.
    fn read(&self, file: FileId, position: u64, into: &mut [u8]) -> Option<usize> {
        let pieces = self.lock();
        let bytes = pieces.list.iter().rev().find_map(|piece| {
            let at = position.checked_sub(piece.start).filter(|_| piece.file == file)?;
            piece.bytes.get().get(usize::try_from(at).ok()?..).filter(|rest| !rest.is_empty())
        })?;
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        Some(len)
    }
}

impl Drop for Recent {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Pieces {
    fn add(&mut self, chunk: &mut Chunk) {
        let len = chunk.buffer.len() - chunk.padding;
        let file = chunk.segment.id;
        if len < PIECE {
            let bytes = &chunk.buffer.bytes()[..len];
            if let Some(more) =
                self.list.back_mut().and_then(|last| last.extend(file, chunk.start, bytes))
            {
                self.memory += more;
                return;
            }
            let mut copied = Vec::new();
            // No memory for it: then the reader reads the file.
            if copied.try_reserve(len).is_ok() {
                copied.extend_from_slice(bytes);
                self.push(Piece { file, start: chunk.start, bytes: Bytes::Copied(copied) });
            }
            return;
        }
        let mut buffer = chunk.buffer.take();
        buffer.shorten(len);
        self.push(Piece { file, start: chunk.start, bytes: Bytes::Kept(buffer) });
    }

    fn push(&mut self, piece: Piece) {
        self.memory += piece.bytes.memory();
        self.list.push_back(piece);
    }
}

impl Piece {
    /// Takes `bytes`, which stand at `start` of `file`, if they join on and there is room; gives by how much its memory grew.
    fn extend(&mut self, file: FileId, start: u64, bytes: &[u8]) -> Option<usize> {
        let Bytes::Copied(copied) = &mut self.bytes else { return None };
        let end = self.start + copied.len() as u64;
        if self.file != file || start > end || start < self.start {
            return None;
        }
        // It begins with the image of a block whose records are here already.
        let known = usize::try_from(end - start).ok()?;
        let new = bytes.get(known..)?;
        let before = copied.capacity();
        if copied.len() + new.len() > PIECE || copied.try_reserve(new.len()).is_err() {
            return None;
        }
        copied.extend_from_slice(new);
        Some(copied.capacity() - before)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A segment file as its readers see it: what is in memory comes from there.
#[derive(Debug)]
pub(super) struct RecentFile {
    pub(super) log: Arc<super::Shared>,
    pub(super) id: FileId,
    pub(super) file: Arc<dyn File>,
}

impl File for RecentFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_raw(&self, position: u64, into: &mut [u8]) -> io::Result<usize> {
        match self.log.recent.read(self.id, position, into) {
            Some(read) => Ok(read),
            None => self.file.read_raw(position, into),
        }
    }

    fn write_raw(&self, _: u64, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_and_sync(&self, _: &[Write<'_>]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
