//! One file and bare system calls.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

pub(crate) const BLOCK: usize = 4096;

/// How bytes get to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `pwrite`, `fdatasync`.
    Buffered,
    /// `O_DIRECT`: `pwrite`, `fdatasync`.
    Direct,
    /// `O_DIRECT`: `pwritev2` with `RWF_DSYNC`.
    Dsync,
}

/// What the file is before the first append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Empty: each append makes it longer.
    Growing,
    /// `fallocate`d: no append changes its length, but each makes blocks valid.
    Allocated,
    /// Written and synced before: an append changes nothing but bytes.
    Written,
}

/// Memory whose address is a multiple of a block.
#[derive(Debug)]
pub(crate) struct Aligned {
    memory: Vec<u8>,
    skip: usize,
    pub(crate) len: usize,
}

impl Aligned {
    pub(crate) fn new(capacity: usize) -> Self {
        let memory = vec![0; capacity.next_multiple_of(BLOCK) + BLOCK];
        let skip = memory.as_ptr().align_offset(BLOCK);
        Self { memory, skip, len: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.skip..self.skip + self.len]
    }

    fn room(&self) -> usize {
        self.memory.len() - BLOCK
    }

    fn reserve(&mut self, len: usize) {
        if self.room() < len {
            let mut larger = Self::new(len * 2);
            larger.put(0, self.bytes());
            larger.len = self.len;
            *self = larger;
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        let at = self.skip + at;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// Takes appends one behind the other.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) file: File,
    way: Way,
    state: State,
    /// Where it begins again, if it was written before.
    len: u64,
    /// Where the next record goes.
    position: u64,
    /// The whole blocks that the last append touched, the first of which begins at `at`. The next one rewrites the last of
    /// them: a log of records that are no blocks must.
    blocks: Aligned,
    at: u64,
}

impl Raw {
    pub(crate) fn new(path: &Path, way: Way, state: State, len: u64) -> Self {
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        let plain = options.open(path).unwrap();
        match state {
            State::Growing => {}
            State::Allocated => {
                // SAFETY: a descriptor that is open, and numbers.
                let done = unsafe { libc::fallocate(plain.as_raw_fd(), 0, 0, len as i64) };
                assert_eq!(done, 0, "fallocate: {}", io::Error::last_os_error());
            }
            State::Written => {
                let zeroes = vec![0; 1 << 20];
                let mut position = 0;
                while position < len {
                    plain.write_all_at(&zeroes, position).unwrap();
                    position += zeroes.len() as u64;
                }
            }
        }
        plain.sync_all().unwrap();
        let mut options = File::options();
        options.read(true).write(true);
        if way != Way::Buffered {
            options.custom_flags(libc::O_DIRECT);
        }
        let file = options.open(path).unwrap();
        Self { file, way, state, len, position: 0, blocks: Aligned::new(64 << 10), at: 0 }
    }

    /// The blocks that hold `bytes` and what stands before them in the first, and where they go.
    pub(crate) fn stage(&mut self, bytes: &[u8]) -> (&[u8], u64) {
        if self.state != State::Growing && self.position + (bytes.len() + BLOCK) as u64 > self.len {
            // One that was allocated is a written one from here on: it is made so large that this never happens.
            assert_eq!(self.state, State::Written, "the allocated file is full");
            self.position = 0;
            self.at = 0;
            self.blocks.len = 0;
        }
        let first = self.position / BLOCK as u64 * BLOCK as u64;
        let before = (self.position - first) as usize;
        self.blocks.reserve(before + bytes.len() + BLOCK);
        // What stands in the block already was staged last time; it may be in another place of the buffer now.
        let from = (first - self.at) as usize;
        if before > 0 && from > 0 {
            let start = self.blocks.skip;
            self.blocks.memory.copy_within(start + from..start + from + before, start);
        }
        self.blocks.put(before, bytes);
        let end = before + bytes.len();
        let whole = end.next_multiple_of(BLOCK);
        let start = self.blocks.skip;
        self.blocks.memory[start + end..start + whole].fill(0);
        self.blocks.len = whole;
        self.at = first;
        self.position += bytes.len() as u64;
        (self.blocks.bytes(), first)
    }

    /// Durable when this returns.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        if self.way == Way::Buffered {
            if self.state != State::Growing && self.position + bytes.len() as u64 > self.len {
                assert_eq!(self.state, State::Written, "the allocated file is full");
                self.position = 0;
            }
            self.file.write_all_at(bytes, self.position).unwrap();
            self.file.sync_data().unwrap();
            self.position += bytes.len() as u64;
            return;
        }
        let dsync = self.way == Way::Dsync;
        let fd = self.file.as_raw_fd();
        let (blocks, at) = self.stage(bytes);
        let part = libc::iovec { iov_base: blocks.as_ptr() as *mut _, iov_len: blocks.len() };
        let flags = if dsync { libc::RWF_DSYNC } else { 0 };
        // SAFETY: one part, of memory that outlives the call.
        let written = unsafe { libc::pwritev2(fd, &raw const part, 1, at as i64, flags) };
        assert_eq!(written, blocks.len() as isize, "pwritev2: {}", io::Error::last_os_error());
        if !dsync {
            self.file.sync_data().unwrap();
        }
    }
}
