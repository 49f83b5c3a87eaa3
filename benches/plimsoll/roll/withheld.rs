//! The machine's file system without some of what the engine asks of it when it makes files and gives them back: so the
//! engine itself shows what those steps are worth.

use plimsoll::fs::{DirEntry, File, FileSystem, Lock, Metadata, OsFileSystem, Space};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lacks {
    /// No file comes back to the spares: a rename there answers `EXDEV`, and the engine deletes it.
    pub(super) reuse: bool,
    /// A new file is not written.
    pub(super) zeroes: bool,
    /// A new file gets no space.
    pub(super) allocation: bool,
}

#[derive(Debug)]
pub(super) struct Withheld {
    real: OsFileSystem,
    lacks: Lacks,
}

impl Withheld {
    pub(super) fn new(lacks: Lacks) -> Self {
        Self { real: OsFileSystem, lacks }
    }
}

impl FileSystem for Withheld {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.real.open_read(path)
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.real.open_write(path)
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = self.real.create(path)?;
        if !self.lacks.zeroes {
            return Ok(file);
        }
        Ok(Arc::new(Fresh { file, lacks: self.lacks, written: AtomicBool::new(false) }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.real.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let back = |path: &Path| path.components().any(|part| part.as_os_str() == "logs");
        if self.lacks.reuse && back(from) && !back(to) {
            return Err(io::Error::from_raw_os_error(libc::EXDEV));
        }
        self.real.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.real.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.real.remove_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.real.list(dir)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.real.metadata(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.real.sync_dir(dir)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        self.real.space(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.real.lock(path)
    }

    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.real.random(bytes)
    }
}

/// A file just made. Zeroes that come before anything else are not written.
#[derive(Debug)]
struct Fresh {
    file: Arc<dyn File>,
    lacks: Lacks,
    written: AtomicBool,
}

impl File for Fresh {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_raw(&self, position: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_raw(position, into)
    }

    fn write_raw(&self, position: u64, bytes: &[u8]) -> io::Result<usize> {
        if !self.written.load(Ordering::Relaxed) {
            if bytes.iter().all(|&byte| byte == 0) {
                return Ok(bytes.len());
            }
            self.written.store(true, Ordering::Relaxed);
        }
        self.file.write_raw(position, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if self.lacks.allocation { Ok(()) } else { self.file.allocate(len) }
    }

    fn no_copy_on_write(&self) -> io::Result<bool> {
        self.file.no_copy_on_write()
    }

    fn place(&self) -> io::Result<Option<u64>> {
        self.file.place()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}
