//! A log directory on the simulated file system, and a writer that keeps the log's rules and no more.

use crate::clock::ManualClock;
use crate::format::checkpoint::Checkpoint;
use crate::format::header::{Header, InUse, Origin};
use crate::format::layout::ClassSizes;
use crate::format::name::segment_file;
use crate::format::record::{self, RecordHeader};
use crate::format::{CHECKPOINT_POSITION, Key, RECORDS_POSITION};
use crate::fs::sim::SimFileSystem;
use crate::fs::{File, FileSystem};
use crate::recovery::{Context, RecoverError, Recovered, Tail, check_segment, recover};
use crate::segment::{GivenUp, Reuse, SegmentSource, Spare, Step, TakeError, Walker, Want};
use crate::types::{Generation, LogId, Offset, SizeClass, WriteClass};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

pub(super) const DIR: &str = "/data/logs/q";
pub(super) const SPARES: &str = "/data/spares";
pub(super) const LOG: LogId = LogId([7; 16]);
pub(super) const OTHER: LogId = LogId([9; 16]);
pub(super) const CAPACITY: u64 = 32 * 1024;

pub(super) fn generation(raw: u16) -> Generation {
    Generation::new(raw).unwrap()
}

pub(super) fn path_of(base: u64) -> PathBuf {
    Path::new(DIR).join(segment_file(Offset(base)))
}

/// Gives and takes files with no rules of its own.
#[derive(Debug)]
pub(super) struct Source {
    fs: SimFileSystem,
    dir: PathBuf,
    capacity: u64,
    generation: AtomicU16,
}

impl Source {
    pub(super) fn new(fs: &SimFileSystem, capacity: u64) -> Self {
        let (fs, dir) = (fs.clone(), SPARES.into());
        Self { fs, dir, capacity, generation: AtomicU16::new(100) }
    }
}

impl SegmentSource for Source {
    fn sizes(&self) -> ClassSizes {
        ClassSizes { tiny: self.capacity, small: self.capacity, main: self.capacity }
    }

    fn spares_dir(&self) -> &Path {
        &self.dir
    }

    fn take(&self, want: &Want<'_>) -> Result<Spare, TakeError> {
        let class = want.class;
        let generation = generation(self.generation.fetch_add(1, Relaxed));
        let path = self.dir.join(format!("spare-{}", generation.get()));
        // A crash may have left it; the pool would clean that up at start.
        let _ = self.fs.remove_file(&path);
        let file = self.fs.create(&path)?;
        file.set_len(self.capacity)?;
        let header =
            Header { generation, class, capacity: self.capacity, created_millis: 0, in_use: None };
        file.write_at(0, &header.encode())?;
        file.sync()?;
        self.fs.sync_dir(&self.dir)?;
        let (capacity, purpose) = (self.capacity, want.purpose);
        Ok(Spare { path, file, generation, class, capacity, kept_back: false, purpose })
    }

    fn make_room(&self, _: WriteClass) -> bool {
        false
    }

    fn give_back(&self, spare: Spare) {
        let _ = self.fs.remove_file(&spare.path);
    }

    fn cannot_rename_into(&self, _: &Path) {}

    fn given_up(&self, _: GivenUp) {}

    fn lost(&self, _: GivenUp) {}

    fn give_up(&self, path: &Path, reuse: Reuse) -> io::Result<GivenUp> {
        match reuse {
            Reuse::Allowed => {
                let name = path.file_name().unwrap().to_str().unwrap();
                let kept = self.dir.join(format!("given-up-{name}"));
                self.fs.rename(path, &kept)?;
                // Of which class it is, nobody here asks.
                Ok(GivenUp { kept: Some((kept, SizeClass::Main)) })
            }
            Reuse::Never => self.fs.remove_file(path).map(|()| GivenUp::DELETED),
        }
    }
}

/// An empty log directory.
pub(super) fn machine(seed: u64) -> SimFileSystem {
    let fs = SimFileSystem::new(seed);
    fs.prepare_dir(DIR).unwrap();
    fs.prepare_dir(SPARES).unwrap();
    fs
}

pub(super) fn parents() -> Vec<PathBuf> {
    vec!["/data/logs".into()]
}

pub(super) fn try_recover(fs: &SimFileSystem, capacity: u64) -> Result<Recovered, RecoverError> {
    // The node does this once, before it recovers any log.
    let _ = fs.sync_dir(Path::new(SPARES));
    let source = Source::new(fs, capacity);
    let clock = ManualClock::new(5_000);
    let ctx = Context { fs, source: &source, clock: &clock };
    recover(&ctx, Path::new(DIR), &parents())
}

pub(super) fn recovered(fs: &SimFileSystem) -> Recovered {
    try_recover(fs, CAPACITY).unwrap()
}

/// A record as a reader sees it, stamp and all: a ghost may have the payload of the record that took its place.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) offset: u64,
    pub(super) millis: u64,
    pub(super) payload: Vec<u8>,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (len, crc) = (self.payload.len(), crc32fast::hash(&self.payload));
        write!(f, "{}@{} {len}:{crc:08x}", self.offset, self.millis)
    }
}

/// The first offset that is not readable.
pub(super) fn next_of(recovered: &Recovered) -> u64 {
    match &recovered.tail {
        Tail::Empty => 0,
        Tail::Open { next, .. } | Tail::ReadOnly { next, .. } | Tail::Damaged { next, .. } => {
            next.0
        }
    }
}

/// Every record of the log, from its first segment to the end that recovery gave.
pub(super) fn records(fs: &SimFileSystem, recovered: &Recovered) -> Vec<Seen> {
    let mut seen = Vec::new();
    let ends = recovered.segments.iter().skip(1).map(|segment| segment.previous_end.0);
    let ends = ends.chain([next_of(recovered)]);
    for (segment, end) in recovered.segments.iter().zip(ends) {
        let file = fs.open_read(&segment.path).unwrap();
        let key = Key::new(recovered.id.unwrap(), segment.generation, segment.base);
        let from = (RECORDS_POSITION, segment.base);
        let mut walker =
            Walker::with_key(&*file, key, segment.generation, segment.base, from, segment.capacity);
        while walker.next_offset().0 < end {
            let position = walker.position();
            match walker.step().unwrap() {
                Step::Record(found) => seen.push(Seen {
                    offset: found.offset.0,
                    millis: found.header.millis,
                    payload: found.payload.to_vec(),
                }),
                Step::Stop(error) => panic!("{}, {position}: {error}", segment.path.display()),
            }
        }
    }
    seen
}

/// Recovers, and checks what must hold of every log that is not damaged; gives the records.
pub(super) fn recovered_records(fs: &SimFileSystem) -> Vec<Seen> {
    let found = recovered(fs);
    assert!(!matches!(found.tail, Tail::Damaged { .. }), "{:?}", found.tail);
    let seen = records(fs, &found);
    for (at, record) in seen.iter().enumerate() {
        assert_eq!(record.offset, seen[0].offset + at as u64, "contiguous (I3)");
    }
    for (at, segment) in found.segments.iter().enumerate() {
        let next = found.segments.get(at + 1);
        let check = check_segment(fs, found.id.unwrap(), segment, next).unwrap();
        assert_eq!(check.damage, None);
    }
    seen
}

/// How a file is begun.
#[derive(Clone, Debug)]
pub(super) struct Begin {
    pub(super) log: LogId,
    pub(super) generation: u16,
    pub(super) base: u64,
    pub(super) previous_end: u64,
    pub(super) origin: Origin,
    pub(super) capacity: u64,
    pub(super) path: PathBuf,
}

pub(super) fn begin(base: u64) -> Begin {
    Begin {
        log: LOG,
        generation: 3,
        base,
        previous_end: base,
        origin: Origin::Roll,
        capacity: CAPACITY,
        path: path_of(base),
    }
}

impl Begin {
    pub(super) fn in_use(&self) -> Header {
        Header {
            in_use: Some(InUse {
                log: self.log,
                base: Offset(self.base),
                previous_end: Offset(self.previous_end),
                previous_millis: 0,
                origin: self.origin,
            }),
            ..self.spare()
        }
    }

    pub(super) fn spare(&self) -> Header {
        Header {
            generation: generation(self.generation),
            class: SizeClass::Tiny,
            capacity: self.capacity,
            created_millis: 1,
            in_use: None,
        }
    }

    /// Puts a whole file with this header there, durable, its name too.
    pub(super) fn place(&self, fs: &SimFileSystem, header: &Header) -> Arc<dyn File> {
        let file = fs.create(&self.path).unwrap();
        file.set_len(self.capacity).unwrap();
        file.write_at(0, &header.encode()).unwrap();
        file.sync().unwrap();
        fs.sync_dir(self.path.parent().unwrap()).unwrap();
        file
    }

    /// Takes a spare under the file's name, durable, and begins to write; the header is written with the first commit.
    pub(super) fn take(&self, fs: &SimFileSystem) -> Writer {
        let file = self.place(fs, &self.spare());
        self.reuse(file)
    }

    /// Begins to write into a file that exists.
    pub(super) fn reuse(&self, file: Arc<dyn File>) -> Writer {
        Writer {
            file,
            begin: self.clone(),
            position: RECORDS_POSITION,
            durable: RECORDS_POSITION,
            next: self.base,
            millis: 0,
            header_written: false,
            staged: Vec::new(),
            written_to: RECORDS_POSITION,
            begun: Vec::new(),
        }
    }
}

/// Appends to one file as the log does: claims, window and the header in the first commit.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) file: Arc<dyn File>,
    pub(super) begin: Begin,
    pub(super) position: u64,
    durable: u64,
    pub(super) next: u64,
    millis: u64,
    header_written: bool,
    staged: Vec<u8>,
    written_to: u64,
    /// Where each record stands.
    pub(super) begun: Vec<u64>,
}

impl Writer {
    /// Goes on where recovery left the log.
    pub(super) fn resume(fs: &SimFileSystem, recovered: &Recovered) -> Self {
        let Tail::Open { position, next, millis } = recovered.tail else {
            panic!("not open: {:?}", recovered.tail)
        };
        let segment = recovered.segments.last().unwrap();
        let begin = Begin {
            log: recovered.id.unwrap(),
            generation: segment.generation.get(),
            base: segment.base.0,
            previous_end: segment.previous_end.0,
            origin: segment.origin,
            capacity: segment.capacity,
            path: segment.path.clone(),
        };
        let file = fs.open_write(&segment.path).unwrap();
        Self {
            position,
            durable: position,
            written_to: position,
            next: next.0,
            millis,
            header_written: true,
            ..begin.reuse(file)
        }
    }

    pub(super) fn stage(&mut self, payload: &[u8]) {
        self.millis += 1;
        self.stage_at(self.millis, payload);
    }

    pub(super) fn stage_at(&mut self, millis: u64, payload: &[u8]) {
        self.millis = millis;
        let generation = generation(self.begin.generation);
        let header = RecordHeader {
            payload_len: payload.len() as u32,
            headers_len: 0,
            generation,
            unsynced: (self.position - self.durable) as u32,
            relative: (self.next - self.begin.base) as u32,
            millis,
        };
        let at = self.staged.len();
        self.staged.resize(at + record::record_len(0, payload.len()) as usize, 0);
        let key = Key::new(self.begin.log, generation, Offset(self.begin.base));
        record::encode(&mut self.staged[at..], key, self.position, &header, &[], payload);
        self.begun.push(self.position);
        self.position += header.record_len();
        self.next += 1;
    }

    /// Writes what is staged, and the header before the first record; no sync.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if !self.header_written {
            self.file.write_at(0, &self.begin.in_use().encode())?;
            self.header_written = true;
        }
        self.file.write_at(self.written_to, &self.staged)?;
        self.written_to = self.position;
        self.staged.clear();
        Ok(())
    }

    pub(super) fn commit(&mut self) -> io::Result<()> {
        self.write()?;
        self.file.sync()?;
        self.durable = self.position;
        Ok(())
    }

    /// One record in a commit of its own.
    pub(super) fn append(&mut self, payload: &[u8]) {
        self.stage(payload);
        self.commit().unwrap();
    }

    pub(super) fn append_all(&mut self, count: u64) {
        for _ in 0..count {
            let payload = payload(self.next);
            self.append(&payload);
        }
    }

    /// A checkpoint at what is durable, durable itself.
    pub(super) fn checkpoint(&self) {
        self.checkpoint_unsynced();
        self.file.sync().unwrap();
    }

    /// A checkpoint at what is durable, if anything is: before the first commit the file's header is not.
    pub(super) fn checkpoint_unsynced(&self) {
        assert_eq!(self.durable, self.position, "only a whole number of records is checkpointed");
        if !self.header_written {
            return;
        }
        let checkpoint = Checkpoint {
            generation: generation(self.begin.generation),
            log: self.begin.log,
            position: self.durable,
            next: Offset(self.next),
            millis: self.millis,
        };
        // An error in writing it stops nothing.
        let _ = self.file.write_at(CHECKPOINT_POSITION, &checkpoint.encode());
    }
}

/// The payload of record `offset`: 40 to 139 bytes, told apart by all of them.
pub(super) fn payload(offset: u64) -> Vec<u8> {
    let len = 40 + (offset as usize * 37) % 100;
    (0..len).map(|at| (offset as usize * 131 + at * 7 + 1) as u8).collect()
}

/// What a log with `count` records appended by [`Writer::append_all`] from 0 on reads as.
pub(super) fn expected(count: u64) -> Vec<Seen> {
    (0..count).map(|offset| Seen { offset, millis: offset + 1, payload: payload(offset) }).collect()
}

/// The operations that changed anything, since recording was switched on.
pub(super) fn changes(fs: &SimFileSystem) -> Vec<String> {
    use crate::fs::sim::OpKind::{Sync, SyncDir};
    let changes = fs.trace().into_iter().filter(|op| op.kind.changes());
    let changes = changes.filter(|op| !matches!(op.kind, Sync | SyncDir));
    changes.map(|op| format!("{:?} {} at {}", op.kind, op.path.display(), op.position)).collect()
}
