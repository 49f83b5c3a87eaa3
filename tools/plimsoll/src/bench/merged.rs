//! The least that a log of several writers could do: whoever finds no write under way writes and syncs all that is staged.

use super::turns::{Limit, Turn, Work, together};
use crate::failure::Failure;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// An already written file, and what is staged for it.
#[derive(Debug)]
pub(crate) struct Merged {
    path: PathBuf,
    shared: Mutex<Shared>,
    done: Condvar,
    bytes: Vec<u8>,
    threads: usize,
    /// Appends of each thread in a turn, so that the file is gone through once at most.
    count: usize,
}

#[derive(Debug)]
struct Shared {
    staged: Vec<u8>,
    /// Which write what is staged now will be part of.
    round: u64,
    /// Rounds that are over.
    over: u64,
    /// The first error of one: then those who wait must not go on waiting.
    failed: Option<io::Error>,
    position: u64,
    len: u64,
    /// Not there while it is written to.
    file: Option<File>,
}

impl Merged {
    pub(crate) fn new(
        path: &Path,
        bytes: Vec<u8>,
        threads: usize,
        len: u64,
    ) -> Result<Self, Failure> {
        let fail = |error| Failure::io("write to", path.display(), &error);
        let file = File::options().write(true).create_new(true).open(path).map_err(fail)?;
        let part = super::disk::noise(1 << 20);
        for position in (0..len).step_by(part.len()) {
            file.write_all_at(&part, position).map_err(fail)?;
        }
        file.sync_all().map_err(fail)?;
        let each = len / threads as u64 / bytes.len() as u64;
        let staged = Vec::new();
        let (round, over, failed, position) = (0, 0, None, 0);
        Ok(Self {
            path: path.to_path_buf(),
            shared: Mutex::new(Shared {
                staged,
                round,
                over,
                failed,
                position,
                len,
                file: Some(file),
            }),
            done: Condvar::new(),
            bytes,
            threads,
            count: usize::try_from(each).unwrap_or(usize::MAX),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, error: &io::Error) -> Failure {
        Failure::io("write to", self.path.display(), error)
    }

    fn append(&self) -> Result<(), Failure> {
        let mut shared = self.lock();
        shared.staged.extend_from_slice(&self.bytes);
        let mine = shared.round + 1;
        loop {
            if let Some(error) = &shared.failed {
                return Err(self.fail(error));
            }
            if shared.over >= mine {
                return Ok(());
            }
            let Some(file) = shared.file.take() else {
                shared = self.done.wait(shared).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let staged = std::mem::take(&mut shared.staged);
            shared.round += 1;
            let round = shared.round;
            if shared.position + staged.len() as u64 > shared.len {
                shared.position = 0;
            }
            let position = shared.position;
            drop(shared);
            let written = file.write_all_at(&staged, position).and_then(|()| file.sync_data());
            shared = self.lock();
            shared.position = position + staged.len() as u64;
            shared.file = Some(file);
            shared.over = round;
            shared.failed = written.err();
            self.done.notify_all();
        }
    }
}

impl Work for Merged {
    fn turn(&mut self, limit: Limit<'_>) -> Result<Turn, Failure> {
        let this = &*self;
        together(limit, this.threads, this.count, |_| this.append())
    }
}
