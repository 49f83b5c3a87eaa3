//! Many writers of one file: whoever finds no write under way writes and syncs all that is staged, and wakes who waits.

use super::raw::Raw;
use std::sync::{Condvar, Mutex};

#[derive(Debug)]
struct Shared {
    staged: Vec<u8>,
    /// Which write what is staged now will be part of.
    round: u64,
    /// Rounds that are on the disk.
    done: u64,
    file: Option<Raw>,
}

#[derive(Debug)]
pub(crate) struct Merged {
    shared: Mutex<Shared>,
    done: Condvar,
}

impl Merged {
    pub(crate) fn new(file: Raw) -> Self {
        let shared = Shared { staged: Vec::new(), round: 0, done: 0, file: Some(file) };
        Self { shared: Mutex::new(shared), done: Condvar::new() }
    }

    pub(crate) fn append(&self, bytes: &[u8]) {
        let mut shared = self.shared.lock().unwrap();
        shared.staged.extend_from_slice(bytes);
        let mine = shared.round + 1;
        loop {
            if shared.done >= mine {
                return;
            }
            let Some(mut file) = shared.file.take() else {
                shared = self.done.wait(shared).unwrap();
                continue;
            };
            let mut staged = std::mem::take(&mut shared.staged);
            shared.round += 1;
            let round = shared.round;
            drop(shared);
            file.append(&staged);
            staged.clear();
            shared = self.shared.lock().unwrap();
            if shared.staged.capacity() == 0 {
                shared.staged = staged;
            }
            shared.file = Some(file);
            shared.done = round;
            self.done.notify_all();
        }
    }

    /// Past the merging: the bytes themselves, with no copy of this loop.
    pub(crate) fn append_alone(&self, bytes: &[u8]) {
        let mut shared = self.shared.lock().unwrap();
        shared.file.as_mut().unwrap().append(bytes);
    }
}
