//! A plain source: makes a file when one is asked for, deletes it when it is given up.

use crate::clock::Clock;
use crate::format::header::Header;
use crate::format::layout::ClassSizes;
use crate::fs::{File, FileSystem, Write};
use crate::segment::{Reuse, SegmentSource, Spare};
use crate::types::{Generation, SizeClass, WriteClass};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How much is written at a time into a new file.
const STRIDE: usize = 1 << 20;

/// The files of one data directory.
#[derive(Debug)]
pub(crate) struct PlainSource {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    sizes: ClassSizes,
    counter: AtomicU64,
    /// It was said that reserving does not work here.
    warned: AtomicBool,
    /// Zeroes to fill new files with.
    zeroes: Box<[u8]>,
}

impl PlainSource {
    pub(crate) fn new(
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        dir: PathBuf,
        sizes: ClassSizes,
    ) -> Self {
        let stride = usize::try_from(sizes.main).unwrap_or(STRIDE).min(STRIDE);
        let zeroes = vec![0; stride].into_boxed_slice();
        Self {
            fs,
            clock,
            dir,
            sizes,
            counter: AtomicU64::new(0),
            warned: AtomicBool::new(false),
            zeroes,
        }
    }

    /// Removes what an earlier life left half made. Nothing here belongs to a log.
    pub(crate) fn clean(&self) -> io::Result<()> {
        for entry in self.fs.list(&self.dir)? {
            if entry.kind != crate::fs::FileKind::Directory {
                self.fs.remove_file(&self.dir.join(entry.name))?;
            }
        }
        self.fs.sync_dir(&self.dir)
    }

    /// Makes a file under a temporary name that nothing has. A name may be taken by what could not be removed.
    fn create(&self) -> io::Result<(PathBuf, Arc<dyn File>)> {
        loop {
            let number = self.counter.fetch_add(1, Ordering::Relaxed);
            let path = self.dir.join(format!("{number:016}.tmp"));
            match self.fs.create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => return Ok((path, other?)),
            }
        }
    }

    /// Fills the file: space that was only reserved costs a journal entry at each commit, and on some file systems is not
    /// there when it is written. The header goes last, with the one sync of all.
    fn fill(&self, file: &dyn File, class: SizeClass, generation: Generation) -> io::Result<()> {
        let capacity = self.sizes.of(class);
        // Growing by writing says whether the disk takes the file, also where reserving is refused for whatever reason.
        if let Err(error) = file.allocate(capacity)
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            let dir = self.dir.display();
            tracing::warn!(%dir, %error, "no space can be reserved here, files grow by writing");
        }
        let mut position = 0;
        while position < capacity {
            let left = usize::try_from(capacity - position).unwrap_or(usize::MAX);
            let len = left.min(self.zeroes.len());
            file.write_at(position, &self.zeroes[..len])?;
            position += len as u64;
        }
        let header = Header {
            generation,
            class,
            capacity,
            created_millis: self.clock.unix_millis(),
            in_use: None,
        };
        file.write_and_sync(&[Write { position: 0, bytes: &header.encode() }])
    }
}

impl SegmentSource for PlainSource {
    fn sizes(&self) -> ClassSizes {
        self.sizes
    }

    fn spares_dir(&self) -> &Path {
        &self.dir
    }

    fn take(&self, class: SizeClass, _purpose: WriteClass) -> io::Result<Spare> {
        let (path, file) = self.create()?;
        let generation = Generation::FIRST;
        // Its length and all of its content, header included, are durable before it gets a name in a log.
        if let Err(error) = self.fill(&*file, class, generation) {
            drop(file);
            // A failed roll leaves nothing behind; what cannot be removed now is removed at the next start.
            let _ = self.fs.remove_file(&path);
            return Err(error);
        }
        Ok(Spare { path, file, generation, class, capacity: self.sizes.of(class) })
    }

    fn give_back(&self, spare: Spare) {
        let Spare { path, file, .. } = spare;
        drop(file);
        if let Err(error) = self.fs.remove_file(&path) {
            tracing::debug!(path = %path.display(), %error, "an unused spare stays until the next start");
        }
    }

    fn give_up(&self, path: &Path, _reuse: Reuse) -> io::Result<()> {
        self.fs.remove_file(path)
    }
}
