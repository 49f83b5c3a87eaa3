//! The floors: the least that a log could do with ordinary system calls.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex};

/// An already written file that takes writes one behind the other.
#[derive(Debug)]
pub(crate) struct Written {
    file: File,
    len: u64,
    position: u64,
}

impl Written {
    /// Makes it: `len` bytes written and synced, so that no later sync needs the journal.
    pub(crate) fn new(path: &Path, len: u64) -> Self {
        let options = File::options().read(true).write(true).create_new(true).open(path);
        let file = options.unwrap();
        let zeroes = vec![0; 1 << 20];
        let mut position = 0;
        while position < len {
            let part = zeroes.len().min((len - position) as usize);
            file.write_all_at(&zeroes[..part], position).unwrap();
            position += part as u64;
        }
        file.sync_all().unwrap();
        Self { file, len, position: 0 }
    }

    /// One write and one sync.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        if self.position + bytes.len() as u64 > self.len {
            self.position = 0;
        }
        self.file.write_all_at(bytes, self.position).unwrap();
        self.file.sync_data().unwrap();
        self.position += bytes.len() as u64;
    }
}

#[derive(Debug, Default)]
struct Shared {
    staged: Vec<u8>,
    /// Which write what is staged now will be part of.
    round: u64,
    /// Rounds that are on the disk.
    done: u64,
    file: Option<Written>,
}

/// The merged loop: whoever finds no write under way writes and syncs all that is staged, and wakes those who wait.
#[derive(Debug)]
pub(crate) struct Merged {
    shared: Mutex<Shared>,
    done: Condvar,
}

impl Merged {
    pub(crate) fn new(file: Written) -> Self {
        let shared = Shared { file: Some(file), ..Shared::default() };
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
}
