//! Staging buffers: page-aligned anonymous memory from a node-wide pool. An idle log holds none.
//!
//! They are mapped rather than allocated so that a refusal is an error here and not an abort (`mmap(2)`, `ENOMEM`).

use memmap2::MmapMut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The smallest buffer.
const LEN_MIN: usize = 64 * 1024;

/// Buffers of one node that are not in use, at most `keep` bytes of them.
#[derive(Debug)]
pub(crate) struct BufferPool {
    free: Mutex<Vec<MmapMut>>,
    keep: usize,
    /// Bytes of all buffers, those in use included.
    bytes: AtomicU64,
}

impl BufferPool {
    pub(crate) fn new(keep: usize) -> Self {
        Self { free: Mutex::default(), keep, bytes: AtomicU64::new(0) }
    }

    /// Bytes of all buffers, in use or kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn take(&self, len: usize) -> Option<MmapMut> {
        let len = len.max(LEN_MIN).checked_next_power_of_two()?;
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // The one that was used last is the one that the processor still has at hand.
        if let Some(at) = free.iter().rposition(|map| map.len() == len) {
            return Some(free.swap_remove(at));
        }
        drop(free);
        let map = MmapMut::map_anon(len).ok()?;
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        Some(map)
    }

    fn give(&self, map: MmapMut) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let held: usize = free.iter().map(|map| map.len()).sum();
        if held + map.len() <= self.keep {
            free.push(map);
        } else {
            self.bytes.fetch_sub(map.len() as u64, Ordering::Relaxed);
        }
    }
}

/// A growing buffer. Its memory goes back to the pool when it is dropped.
#[derive(Debug)]
pub(crate) struct Buffer {
    map: Option<MmapMut>,
    len: usize,
    pool: Arc<BufferPool>,
}

impl Buffer {
    pub(crate) fn new(pool: &Arc<BufferPool>) -> Self {
        Self { map: None, len: 0, pool: Arc::clone(pool) }
    }

    /// Makes room for `more` bytes; `false` if there is no memory, and then nothing has changed.
    pub(crate) fn reserve(&mut self, more: usize) -> bool {
        let want = self.len + more;
        if self.map.as_ref().is_some_and(|map| map.len() >= want) {
            return true;
        }
        let Some(mut larger) = self.pool.take(want) else { return false };
        larger[..self.len].copy_from_slice(self.bytes());
        if let Some(old) = self.map.replace(larger) {
            self.pool.give(old);
        }
        true
    }

    /// Appends `len` bytes of any content and gives them to be written over. Room was reserved before.
    pub(crate) fn extend(&mut self, len: usize) -> &mut [u8] {
        let start = self.len;
        self.len += len;
        match &mut self.map {
            Some(map) => &mut map[start..start + len],
            None => &mut [],
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.map.as_ref().map_or(&[], |map| &map[..self.len])
    }

    /// The memory that it holds.
    pub(crate) fn capacity(&self) -> usize {
        self.map.as_ref().map_or(0, |map| map.len())
    }

    /// Keeps the first `len` bytes.
    pub(crate) fn shorten(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// What it holds; an empty one stays.
    pub(crate) fn take(&mut self) -> Self {
        let empty = Self::new(&self.pool);
        std::mem::replace(self, empty)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(map) = self.map.take() {
            self.pool.give(map);
        }
    }
}
