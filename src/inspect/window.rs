//! A window on a file: reads anywhere, mostly forward, with one buffer whatever the file's length.

use crate::format::BLOCK_LEN;
use crate::fs::File;
use std::io;
use std::sync::Arc;

/// How much is read at a time. Also the most that [`Window::bytes`] gives.
pub(crate) const READ_LEN: usize = 128 * 1024;

/// The most unreadable ranges that are listed; more are only counted.
const RANGES_MAX: usize = 64;

/// A part of a file that the device does not give back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The first byte.
    pub from: u64,
    /// The byte behind the last.
    pub to: u64,
    /// The system's error.
    pub error: String,
}

/// Reads a file up to `end`, or to where it really ends.
#[derive(Debug)]
pub(crate) struct Window {
    file: Arc<dyn File>,
    end: u64,
    buffer: Vec<u8>,
    at: u64,
    unreadable: Vec<Unreadable>,
}

impl Window {
    pub(crate) fn new(file: Arc<dyn File>, end: u64) -> Self {
        Self { file, end, buffer: Vec::new(), at: 0, unreadable: Vec::new() }
    }

    /// Where reading ends.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Lets reading end at `end` at the latest.
    pub(crate) fn limit(&mut self, end: u64) {
        self.end = self.end.min(end);
        self.buffer.clear();
    }

    /// Drops what is buffered: the file is looked at again.
    pub(crate) fn forget(&mut self) {
        self.buffer.clear();
    }

    /// What the device did not give back so far; it was taken for zeroes, so no record there is valid.
    pub(crate) fn unreadable(&self) -> &[Unreadable] {
        &self.unreadable
    }

    /// `len` bytes, at most [`READ_LEN`], from `position`; fewer where the file ends.
    pub(crate) fn bytes(&mut self, position: u64, len: usize) -> io::Result<&[u8]> {
        let left = usize::try_from(self.end.saturating_sub(position)).unwrap_or(usize::MAX);
        let len = len.min(READ_LEN).min(left);
        let held = self.held(position, len);
        let start = match held {
            Some(start) => start,
            None => {
                self.fill(position, READ_LEN.min(left))?;
                0
            }
        };
        let stop = (start + len).min(self.buffer.len());
        Ok(&self.buffer[start.min(stop)..stop])
    }

    /// A few bytes from anywhere, zeroes where the file has none, without losing the place of the buffer.
    pub(crate) fn peek<const N: usize>(&self, position: u64) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        if let Some(start) = self.held(position, N) {
            bytes.copy_from_slice(&self.buffer[start..start + N]);
        } else if position < self.end {
            match self.file.read_at(position, &mut bytes) {
                Err(error) if error.raw_os_error() != Some(libc::EIO) => return Err(error),
                _ => {}
            }
        }
        Ok(bytes)
    }

    /// Fills `bytes` past the buffer, as far as the file goes.
    pub(crate) fn read_whole(&self, position: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(position, bytes)
    }

    /// Whether the buffer holds all of these bytes.
    pub(crate) fn holds(&self, position: u64, len: u64) -> bool {
        usize::try_from(len).is_ok_and(|len| self.held(position, len).is_some())
    }

    fn held(&self, position: u64, len: usize) -> Option<usize> {
        let start = usize::try_from(position.checked_sub(self.at)?).ok()?;
        (start + len <= self.buffer.len()).then_some(start)
    }

    fn fill(&mut self, position: u64, len: usize) -> io::Result<()> {
        self.at = position;
        self.buffer.resize(len, 0);
        match self.file.read_at(position, &mut self.buffer) {
            Ok(read) => {
                self.buffer.truncate(read);
                Ok(())
            }
            Err(error) if error.raw_os_error() == Some(libc::EIO) => self.fill_by_blocks(),
            Err(error) => {
                self.buffer.clear();
                Err(error)
            }
        }
    }

    /// One bad sector must not hide the good ones round it: reads block by block, and takes for zeroes what fails.
    fn fill_by_blocks(&mut self) -> io::Result<()> {
        let mut done = 0;
        while done < self.buffer.len() {
            let position = self.at + done as u64;
            let in_block = usize::try_from(position % BLOCK_LEN as u64).unwrap_or(0);
            let stop = (done + BLOCK_LEN - in_block).min(self.buffer.len());
            match self.file.read_at(position, &mut self.buffer[done..stop]) {
                Ok(read) if read < stop - done => {
                    self.buffer.truncate(done + read);
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                    self.buffer[done..stop].fill(0);
                    self.note(position, self.at + stop as u64, &error);
                }
                Err(error) => {
                    self.buffer.clear();
                    return Err(error);
                }
            }
            done = stop;
        }
        Ok(())
    }

    fn note(&mut self, from: u64, to: u64, error: &io::Error) {
        if self.unreadable.iter().any(|range| range.from <= from && to <= range.to) {
            return;
        }
        if let Some(last) = self.unreadable.last_mut().filter(|last| last.to == from) {
            last.to = to;
        } else if self.unreadable.len() < RANGES_MAX {
            self.unreadable.push(Unreadable { from, to, error: error.to_string() });
        }
    }
}
