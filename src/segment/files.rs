//! Open segment files of a node: at most so many descriptors, the least recently used closed first.

use crate::fs::{File, FileSystem};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Names a segment file for as long as the process lives, whatever its path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(u64);

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
    /// Writing past the page cache where the file system can, else as [`Access::Write`]; see
    /// [`FileSystem::open_direct`].
    Direct,
}

impl Access {
    /// A direct file is of no use to readers, so that one file may be open twice.
    fn slot(self, id: FileId) -> Slot {
        (id, self == Self::Direct)
    }
}

type Slot = (FileId, bool);

#[derive(Debug)]
struct Open {
    file: Arc<dyn File>,
    access: Access,
    used: u64,
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<Slot, Open>,
    by_use: BTreeMap<u64, Slot>,
    clock: u64,
}

/// The cache. A file that a commit or a reader holds stays open until they drop it, so no descriptor is closed between
/// a write and its sync.
#[derive(Debug)]
pub struct Files {
    fs: Arc<dyn FileSystem>,
    max: usize,
    next: AtomicU64,
    inner: Mutex<Inner>,
}

impl Inner {
    fn touch(&mut self, slot: Slot) -> Option<(Arc<dyn File>, Access)> {
        let open = self.open.get_mut(&slot)?;
        self.clock += 1;
        self.by_use.remove(&open.used);
        open.used = self.clock;
        self.by_use.insert(self.clock, slot);
        Some((Arc::clone(&open.file), open.access))
    }

    fn remove(&mut self, slot: Slot) -> Option<Arc<dyn File>> {
        let open = self.open.remove(&slot)?;
        self.by_use.remove(&open.used);
        Some(open.file)
    }

    /// Takes the least recently used ones out until at most `max` are left.
    fn shrink(&mut self, max: usize) -> Vec<Arc<dyn File>> {
        let mut closed = Vec::new();
        while self.open.len() > max {
            let Some((_, slot)) = self.by_use.pop_first() else { break };
            closed.extend(self.open.remove(&slot).map(|open| open.file));
        }
        closed
    }

    fn insert(&mut self, id: FileId, file: Arc<dyn File>, access: Access) {
        let slot = access.slot(id);
        self.remove(slot);
        self.clock += 1;
        self.by_use.insert(self.clock, slot);
        self.open.insert(slot, Open { file, access, used: self.clock });
    }
}

impl Files {
    /// A cache of at most `max` open files, at least one.
    #[must_use]
    pub fn new(fs: Arc<dyn FileSystem>, max: usize) -> Self {
        Self { fs, max: max.max(1), next: AtomicU64::new(0), inner: Mutex::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name for a file that this cache does not know yet.
    pub fn new_id(&self) -> FileId {
        FileId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// The file, opened at `path` if it is not open.
    ///
    /// # Errors
    /// Of opening it. When the process has no descriptor left (`EMFILE`), files that are not in use are closed first.
    pub fn get(&self, id: FileId, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        if let Some((file, open_for)) = self.lock().touch(access.slot(id))
            && (open_for != Access::Read || access == Access::Read)
        {
            return Ok(file);
        }
        let open = || match access {
            Access::Read => self.fs.open_read(path).map(Some),
            Access::Write => self.fs.open_write(path).map(Some),
            Access::Direct => self.fs.open_direct(path),
        };
        let file = match open() {
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                let half = self.lock().open.len() / 2;
                drop(self.lock().shrink(half));
                open()?
            }
            other => other?,
        };
        let Some(file) = file else {
            // The file that all others use: where there are no direct writes none takes two descriptors.
            return self.get(id, path, Access::Write);
        };
        self.put(id, Arc::clone(&file), access);
        Ok(file)
    }

    /// Takes a file that is open already.
    pub fn put(&self, id: FileId, file: Arc<dyn File>, access: Access) {
        let closed = {
            let mut inner = self.lock();
            inner.insert(id, file, access);
            inner.shrink(self.max)
        };
        // Closing is a system call: outside the lock.
        drop(closed);
    }

    /// Forgets a file; it is closed when its last user drops it.
    pub fn forget(&self, id: FileId) {
        let closed = {
            let mut inner = self.lock();
            [inner.remove(Access::Write.slot(id)), inner.remove(Access::Direct.slot(id))]
        };
        drop(closed);
    }

    /// How many files it holds open.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.lock().open.len()
    }
}
