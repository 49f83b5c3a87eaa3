//! A log of the least that is needed to be durable, with ordinary calls in one thread.

use super::{APPEND, Kind, Size, Writer};
use crate::setup;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const BLOCK: usize = 4 << 10;

/// Where records begin, as in a segment file.
const RECORDS: u64 = 8 << 10;

/// Spares that are there at each roll.
const SPARES: u64 = 2;

#[derive(Debug)]
pub(super) struct Bare {
    kind: Kind,
    /// A new file is made in the log's directory, under its name.
    in_place: bool,
    size: Size,
    log: PathBuf,
    spares: PathBuf,
    /// Spares that are ready, open as the engine opens them ahead.
    ready: VecDeque<(PathBuf, File)>,
    /// The last file, and what is before it.
    last: Option<(PathBuf, File)>,
    before: Option<PathBuf>,
    position: u64,
    next: u64,
    payload: Vec<u8>,
    header: Vec<u8>,
}

fn sync_dir(dir: &Path) {
    File::open(dir).unwrap().sync_all().unwrap();
}

fn create(path: &Path) -> File {
    File::options().read(true).write(true).create_new(true).open(path).unwrap()
}

fn allocate(file: &File, len: u64) {
    // SAFETY: it takes no pointer, and the file is open for the whole call.
    let answer = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len.cast_signed()) };
    assert_eq!(answer, 0, "fallocate: {}", std::io::Error::last_os_error());
}

impl Bare {
    pub(super) fn new(dir: &Path, kind: Kind, in_place: bool, size: Size) -> Self {
        let (log, spares) = (dir.join("log"), dir.join("spares"));
        for dir in [dir, &log, &spares] {
            std::fs::create_dir(dir).unwrap();
        }
        let mut this = Self {
            kind,
            in_place,
            size,
            log,
            spares,
            ready: VecDeque::new(),
            last: None,
            before: None,
            position: size.file,
            next: 0,
            payload: setup::noise(APPEND),
            header: setup::noise(BLOCK),
        };
        if matches!(kind, Kind::Reused | Kind::Prepared) {
            (0..SPARES).for_each(|_| this.prepare());
        }
        this
    }

    fn name(&mut self, dir: &Path) -> PathBuf {
        self.next += 1;
        dir.join(format!("{:020}.seg", self.next))
    }

    /// Makes a spare, all of it written.
    fn prepare(&mut self) {
        let path = self.name(&self.spares.clone());
        let file = create(&path);
        allocate(&file, self.size.file);
        let zeroes = vec![0; 1 << 20];
        for position in (0..self.size.file).step_by(zeroes.len()) {
            file.write_all_at(&zeroes, position).unwrap();
            file.sync_data().unwrap();
        }
        file.write_all_at(&self.header, 0).unwrap();
        file.sync_data().unwrap();
        self.ready.push_back((path, file));
    }

    /// Makes a file that is not written: sized and synced before it is renamed anywhere, so that one that cannot be made
    /// leaves nothing behind.
    fn make(&mut self, path: &Path) -> File {
        let file = create(path);
        if self.kind == Kind::Preallocated {
            allocate(&file, self.size.file);
        }
        if !self.in_place {
            file.write_all_at(&self.header, 0).unwrap();
            file.sync_data().unwrap();
        }
        file
    }

    /// The next file, with its name in the log.
    fn take(&mut self) -> (PathBuf, File) {
        let path = self.name(&self.log.clone());
        if self.in_place {
            let file = self.make(&path);
            return (path, file);
        }
        let (spare, file) = if matches!(self.kind, Kind::Reused | Kind::Prepared) {
            self.ready.pop_back().unwrap()
        } else {
            let spare = self.name(&self.spares.clone());
            let file = self.make(&spare);
            (spare, file)
        };
        std::fs::rename(spare, &path).unwrap();
        sync_dir(&self.log);
        sync_dir(&self.spares);
        (path, file)
    }

    fn write(&mut self, bytes: &[u8]) {
        let (_, file) = self.last.as_ref().unwrap();
        file.write_all_at(bytes, self.position).unwrap();
        file.sync_data().unwrap();
        self.position += bytes.len() as u64;
    }
}

impl Writer for Bare {
    fn append(&mut self) -> bool {
        let begins = self.position + APPEND as u64 > self.size.file;
        if begins {
            let (path, file) = self.take();
            file.write_all_at(&self.header, 0).unwrap();
            self.before = self.last.replace((path, file)).map(|(path, _)| path);
            self.position = RECORDS;
        }
        let payload = std::mem::take(&mut self.payload);
        self.write(&payload);
        self.payload = payload;
        if begins && self.in_place {
            sync_dir(&self.log);
        }
        begins
    }

    fn truncate(&mut self) {
        let Some(path) = self.before.take() else { return };
        if self.kind == Kind::Reused {
            let spare = self.name(&self.spares.clone());
            std::fs::rename(path, &spare).unwrap();
            sync_dir(&self.spares);
            sync_dir(&self.log);
            let file = File::options().read(true).write(true).open(&spare).unwrap();
            file.write_all_at(&self.header, 0).unwrap();
            file.sync_data().unwrap();
            self.ready.push_back((spare, file));
            return;
        }
        std::fs::remove_file(path).unwrap();
        sync_dir(&self.log);
        if self.kind == Kind::Prepared {
            self.prepare();
        }
    }

    fn skip(&mut self) {
        let bytes = vec![0x5a; 256 << 10];
        while self.size.file - self.position > Size::TIMED_END {
            self.write(&bytes);
        }
    }

    fn settle(&mut self) {}
}
