//! What is asked of the disk: ways of committing, syncs in parallel, sequential writing.

use super::stats::Latencies;
use super::turns::{Case, Group, Limit, Turn, Work, alone, name, together};
use crate::failure::Failure;
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the ratios are against, of each size.
const FLOOR: &str = "pwrite + fdatasync";
const WRITTEN: &str = "written";
/// Direct writes are of whole blocks of this.
const BLOCK: usize = 4096;
/// Bytes of a file that one thread writes to, of one of several threads' each, and of sequential writing. A turn ends
/// with the file.
const FILE_LEN: u64 = 8 << 20;
const PARALLEL_LEN: u64 = 2 << 20;
const SEQUENTIAL_LEN: u64 = 32 << 20;
const SEQUENTIAL_WRITE: usize = 1 << 20;
const SIZES: [usize; 2] = [1 << 10, 16 << 10];
const PARALLEL_SIZE: usize = 1 << 10;
const THREADS_MAX: usize = 16;

/// The most bytes that all files of [`cases`] have.
pub(crate) const NEEDED: u64 = 10 * FILE_LEN + THREADS_MAX as u64 * PARALLEL_LEN + SEQUENTIAL_LEN;

/// How bytes get to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    Direct,
    DirectDsync,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => FLOOR,
            Self::Direct => "O_DIRECT + fdatasync",
            Self::DirectDsync => "O_DIRECT + RWF_DSYNC",
        }
    }
}

/// What a file has before it is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// All its bytes.
    Written,
    /// Nothing.
    Growing,
    /// Blocks and no bytes.
    Allocated,
}

impl Before {
    fn name(self) -> &'static str {
        match self {
            Self::Written => WRITTEN,
            Self::Growing => "growing",
            Self::Allocated => "preallocated",
        }
    }
}

/// A file that takes writes one behind the other, and from its beginning again.
#[derive(Debug)]
struct Target {
    file: File,
    path: PathBuf,
    way: Way,
    before: Before,
    len: u64,
    position: AtomicU64,
    bytes: Bytes,
}

/// What is written: noise, as a device might compress, at an address that direct writes may have.
#[derive(Debug)]
struct Bytes {
    room: Vec<u8>,
    at: usize,
}

impl Bytes {
    fn new(len: usize) -> Self {
        let room = noise(len + BLOCK);
        let at = room.as_ptr().align_offset(BLOCK).min(BLOCK);
        Self { room, at }
    }

    fn get(&self) -> &[u8] {
        &self.room[self.at..self.room.len() - BLOCK + self.at]
    }
}

/// Bytes that do not compress.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..len).map(|_| step()).collect()
}

impl Target {
    fn new(path: PathBuf, way: Way, before: Before, size: usize, len: u64) -> io::Result<Self> {
        let size = if way == Way::Plain { size } else { size.next_multiple_of(BLOCK) };
        let bytes = Bytes::new(size);
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        let position = AtomicU64::new(0);
        let mut this = Self { file, path, way, before, len, position, bytes };
        this.fill()?;
        if way != Way::Plain {
            let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
            this.file = File::from(rustix::fs::open(&this.path, flags, Mode::empty())?);
        }
        // Whether it can be done here shows at the first one.
        this.append()?;
        Ok(this)
    }

    fn fill(&self) -> io::Result<()> {
        match self.before {
            Before::Written => {
                let part = noise(1 << 20);
                for position in (0..self.len).step_by(part.len()) {
                    self.file.write_all_at(&part, position)?;
                }
            }
            Before::Growing => self.file.set_len(0)?,
            Before::Allocated => {
                self.file.set_len(0)?;
                fallocate(&self.file, FallocateFlags::empty(), 0, self.len)?;
            }
        }
        self.position.store(0, Ordering::Relaxed);
        // All of it, so that no later sync of a written file has more to do than its bytes.
        self.file.sync_all()
    }

    /// How many appends fit into it.
    fn count(&self) -> usize {
        let count = self.len / self.bytes.get().len() as u64;
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    fn append(&self) -> io::Result<()> {
        let bytes = self.bytes.get();
        let position = self.position.fetch_add(bytes.len() as u64, Ordering::Relaxed) % self.len;
        if self.way == Way::DirectDsync {
            let slice = [IoSlice::new(bytes)];
            let written = pwritev2(&self.file, &slice, position, ReadWriteFlags::DSYNC)?;
            if written != bytes.len() {
                return Err(io::ErrorKind::WriteZero.into());
            }
            return Ok(());
        }
        self.file.write_all_at(bytes, position)?;
        self.file.sync_data()
    }

    fn fail(&self, error: &io::Error) -> Failure {
        Failure::io("write to", self.path.display(), error)
    }
}

/// One thread and one file.
#[derive(Debug)]
struct One(Target);

impl Work for One {
    fn turn(&mut self, limit: Limit<'_>) -> Result<Turn, Failure> {
        let target = &self.0;
        alone(limit, target.count(), || target.append().map_err(|error| target.fail(&error)))
    }

    fn prepare(&mut self) -> Result<(), Failure> {
        if self.0.before == Before::Written {
            return Ok(());
        }
        self.0.fill().map_err(|error| self.0.fail(&error))
    }
}

/// Some threads, each with a file of its own.
#[derive(Debug)]
struct Several {
    targets: Arc<Vec<Target>>,
    threads: usize,
}

impl Work for Several {
    fn turn(&mut self, limit: Limit<'_>) -> Result<Turn, Failure> {
        let count = self.targets.first().map_or(1, Target::count);
        together(limit, self.threads, count, |thread| {
            let target = &self.targets[thread];
            target.append().map_err(|error| target.fail(&error))
        })
    }
}

/// The error's name where it says that a file system has no such way.
fn not_here(error: &io::Error) -> Option<&'static str> {
    match Errno::from_io_error(error)? {
        Errno::INVAL => Some("EINVAL"),
        Errno::OPNOTSUPP => Some("EOPNOTSUPP"),
        Errno::NOSYS => Some("ENOSYS"),
        _ => None,
    }
}

fn one(
    folder: &Path,
    group: Group,
    (way, before): (Way, Before),
    size: usize,
    len: u64,
) -> Result<Case, Failure> {
    let path = folder.join(format!("{group:?}-{way:?}-{before:?}-{size}"));
    let work: Result<Box<dyn Work>, String> =
        match Target::new(path.clone(), way, before, size, len) {
            Ok(target) => Ok(Box::new(One(target))),
            Err(error) => match not_here(&error) {
                Some(name) => Err(name.to_owned()),
                None => return Err(Failure::io("write to", path.display(), &error)),
            },
        };
    Ok(Case {
        group,
        what: way.name().to_owned(),
        file: before.name(),
        bytes: size,
        threads: 1,
        beside: (group == Group::Ways).then(|| floor(size)),
        work,
        latencies: Latencies::new(),
        rates: Vec::new(),
    })
}

/// The name of the case that one writer of `size` bytes is held against.
pub(crate) fn floor(size: usize) -> String {
    name(FLOOR, WRITTEN, size, 1)
}

/// The name of the case of `threads` with a file each.
pub(crate) fn parallel_name(threads: usize) -> String {
    name(PARALLEL, WRITTEN, PARALLEL_SIZE, threads)
}

const PARALLEL: &str = "a file each";

/// All of them.
pub(crate) fn cases(folder: &Path) -> Result<Vec<Case>, Failure> {
    let mut all = Vec::new();
    for size in SIZES {
        for way in [
            (Way::Plain, Before::Written),
            (Way::Direct, Before::Written),
            (Way::DirectDsync, Before::Written),
            (Way::Plain, Before::Growing),
            (Way::Plain, Before::Allocated),
        ] {
            all.push(one(folder, Group::Ways, way, size, FILE_LEN)?);
        }
    }
    all.extend(parallel(folder, &[1, 4, THREADS_MAX], Group::Parallel)?);
    let way = (Way::Plain, Before::Written);
    all.push(one(folder, Group::Sequential, way, SEQUENTIAL_WRITE, SEQUENTIAL_LEN)?);
    Ok(all)
}

/// What one writer of the engine is held against.
pub(crate) fn beside(folder: &Path, size: usize) -> Result<Case, Failure> {
    one(folder, Group::Beside, (Way::Plain, Before::Written), size, FILE_LEN)
}

/// Syncs in parallel.
pub(crate) fn parallel(
    folder: &Path,
    threads: &[usize],
    group: Group,
) -> Result<Vec<Case>, Failure> {
    let make = |number: usize| {
        let path = folder.join(format!("parallel-{number}"));
        Target::new(path.clone(), Way::Plain, Before::Written, PARALLEL_SIZE, PARALLEL_LEN)
            .map_err(|error| Failure::io("write to", path.display(), &error))
    };
    let targets = (0..THREADS_MAX).map(make).collect::<Result<Vec<_>, _>>()?;
    let targets = Arc::new(targets);
    let case = |&threads: &usize| Case {
        group,
        what: PARALLEL.to_owned(),
        file: WRITTEN,
        bytes: PARALLEL_SIZE,
        threads,
        beside: (group == Group::Parallel).then(|| parallel_name(1)),
        work: Ok(Box::new(Several { targets: Arc::clone(&targets), threads })),
        latencies: Latencies::new(),
        rates: Vec::new(),
    };
    Ok(threads.iter().map(case).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_all_there_and_may_be_written_directly() {
        for len in [1, 128, BLOCK, 16 << 10] {
            let bytes = Bytes::new(len);
            assert_eq!(bytes.get().len(), len);
            assert_eq!(bytes.get().as_ptr().align_offset(BLOCK), 0);
        }
    }

    #[test]
    fn only_what_a_file_system_does_not_have_is_passed_over() {
        let errno = |number: Errno| io::Error::from(number);
        assert_eq!(not_here(&errno(Errno::INVAL)), Some("EINVAL"));
        assert_eq!(not_here(&errno(Errno::OPNOTSUPP)), Some("EOPNOTSUPP"));
        assert_eq!(not_here(&errno(Errno::NOSPC)), None);
        assert_eq!(not_here(&errno(Errno::IO)), None);
        assert_eq!(not_here(&io::ErrorKind::WriteZero.into()), None);
    }
}
