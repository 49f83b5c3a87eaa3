//! Any data directory: segments as the encoders make them, then changed, cut, swapped, left over, misnamed. A node opens
//! it, opens all logs, reads all, and does so again.
//!
//! What is checked: nothing panics and all ends soon; inspection changes nothing (I11) and sees what a start finds; a
//! second start shows the same, whatever happened in between (I2, I10); a damaged log is left as it is (I4); a log that
//! takes appends keeps them (I1, I3); after a repair the records that were readable are where they were, and the next
//! offset has not gone back (I8).

use arbitrary::{Arbitrary, Unstructured};
use plimsoll::clock::{Clock, ManualClock};
use plimsoll::error::{OpenError, ReadError, Stopped};
use plimsoll::format::checkpoint::Checkpoint;
use plimsoll::format::header::{Header, InUse, Origin};
use plimsoll::format::layout::{self, ClassSizes};
use plimsoll::format::name::segment_file;
use plimsoll::format::record::{self, RecordHeader, record_len};
use plimsoll::format::{Key, RECORDS_POSITION};
use plimsoll::fs::FileSystem;
use plimsoll::fs::sim::{AllPersisted, NothingPersisted, OpKind, SimFileSystem};
use plimsoll::inspect::{self, Depth, Outcome};
use plimsoll::types::{Generation, LogId, SizeClass};
use plimsoll::{
    Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, WriteClass, repair,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DATA: &str = "/data";
const NAMES: [&str; 3] = ["a", "b", "deep/c"];
const SIZES: ClassSizes = ClassSizes { tiny: 12 << 10, small: 16 << 10, main: 32 << 10 };
const CHANGES_MAX: usize = 12;
/// Calls of the disk that one start of at most a dozen small files may take, many times over.
const OPS_MAX: u64 = 4000;

/// A data directory, and how its first life ends.
#[derive(Clone, Debug)]
pub struct Directory {
    logs: Vec<LogSpec>,
    changes: Vec<Change>,
    end: End,
    repair: bool,
}

impl<'a> Arbitrary<'a> for Directory {
    fn arbitrary(u: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let (end, repair) = (u.arbitrary()?, u.arbitrary()?);
        let logs = (0..=u.arbitrary::<u8>()? % 3).map(|_| LogSpec::arbitrary(u));
        let logs = logs.collect::<arbitrary::Result<Vec<_>>>()?;
        let mut changes = Vec::new();
        while !u.is_empty() && changes.len() < CHANGES_MAX {
            changes.push(u.arbitrary()?);
        }
        Ok(Self { logs, changes, end, repair })
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum End {
    Close,
    ProcessDeath,
    PowerAll,
    PowerNothing,
}

#[derive(Clone, Debug)]
struct LogSpec {
    id: u8,
    base: u16,
    segments: Vec<SegmentSpec>,
}

impl LogSpec {
    fn arbitrary(u: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let (id, base) = (u.arbitrary::<u8>()? % 4, u.arbitrary()?);
        let count = u.arbitrary::<u8>()? % 4;
        let segments = (0..count).map(|_| SegmentSpec::arbitrary(u));
        Ok(Self { id, base, segments: segments.collect::<arbitrary::Result<_>>()? })
    }
}

#[derive(Clone, Debug)]
struct SegmentSpec {
    class: u8,
    generation: u8,
    /// Offsets left out before it, declared.
    gap: u8,
    origin: u8,
    /// A spare's header in front of the records.
    spare: bool,
    records: Vec<RecordSpec>,
    /// After which record there was a checkpoint; none beyond the last.
    checkpoint: u8,
    leftover: Leftover,
}

impl SegmentSpec {
    fn arbitrary(u: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let (class, generation) = (u.arbitrary::<u8>()? % 3, u.arbitrary()?);
        let odd = u.arbitrary::<u8>()?;
        let count = u.arbitrary::<u8>()? % 8;
        let records = (0..count).map(|_| u.arbitrary());
        let records = records.collect::<arbitrary::Result<_>>()?;
        Ok(Self {
            class,
            generation,
            gap: if odd % 8 == 0 { u.arbitrary()? } else { 0 },
            origin: odd >> 3 & 3,
            spare: odd >> 5 == 7,
            records,
            checkpoint: u.arbitrary()?,
            leftover: u.arbitrary()?,
        })
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
struct RecordSpec {
    len: u16,
    headers: u8,
    seed: u8,
    millis: u8,
    /// How many of the records before it were not yet durable.
    unsynced: u8,
}

/// What stands behind the last record.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Leftover {
    Zeroes,
    /// Records of this use, so many bytes further on.
    Ghosts {
        after: u8,
        count: u8,
        claim: bool,
    },
    /// Records of the use before.
    EarlierUse(u8),
    Noise(u8),
}

/// A file, counted over all.
type Which = u8;

#[derive(Arbitrary, Clone, Debug)]
enum Change {
    Flip {
        file: Which,
        at: u16,
        mask: u8,
    },
    /// A byte of the header, its checksum put right.
    Header {
        file: Which,
        at: u16,
        to: u8,
    },
    /// A byte of the checkpoint, its checksum put right.
    Checkpoint {
        file: Which,
        at: u16,
        to: u8,
    },
    Zero {
        file: Which,
        sector: u8,
        count: u8,
    },
    /// Bytes from another place of another file.
    Copy {
        from: Which,
        from_sector: u8,
        to: Which,
        to_sector: u8,
        count: u8,
    },
    Cut {
        file: Which,
        len: u16,
    },
    Longer {
        file: Which,
        by: u16,
    },
    Remove {
        file: Which,
    },
    Swap {
        one: Which,
        other: Which,
    },
    /// A copy under the name that a segment of this base would have, in this log.
    Twin {
        file: Which,
        log: u8,
        base: u16,
    },
    Rename {
        file: Which,
        name: OddName,
    },
    Stray {
        place: Place,
        name: OddName,
        what: Stray,
    },
    Layout {
        at: u8,
        mask: u8,
    },
    Spares {
        file: Which,
        number: u8,
    },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum OddName {
    NoDigits,
    Short,
    Top,
    Upper,
    Hidden,
    Temporary,
    Plain,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Place {
    Data,
    Logs,
    Log(u8),
    Spares,
    Trash,
    Quarantine,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Stray {
    Empty,
    Bytes(u8),
    Directory,
    Link,
}

/// What a log shows: head, end, its records and what stops reading; or why it does not open.
type Shown = Result<(u64, u64, Vec<(u64, u64, Vec<u8>, Vec<u8>)>, String), String>;

struct World {
    fs: SimFileSystem,
    clock: Arc<ManualClock>,
}

/// Makes the directory and does all that is promised; panics where something is not as it should be.
pub fn run(directory: &Directory) {
    let world = World::new(directory);
    world.show(&format_args!("{directory:?}"));
    world.inspect();
    let seen = world.inspect_ends();
    let before = world.log_files();
    let Some((node, first)) = world.life() else {
        // Refused as a whole: it is refused again, and nothing of any log has changed.
        assert!(world.life().is_none(), "refused, and then not");
        assert_eq!(before, world.log_files(), "a refused start changed a log's files");
        return;
    };
    let damaged = check_against_inspection(&node, &seen);
    for name in &damaged {
        let dir = LogName::new(name).expect("it was open").dir(&Path::new(DATA).join("logs"));
        let of = |files: &BTreeMap<PathBuf, Vec<u8>>| -> Vec<_> {
            let files = files.iter().filter(|(path, _)| path.starts_with(&dir));
            files.map(|(path, bytes)| (path.clone(), bytes.clone())).collect()
        };
        assert_eq!(of(&before), of(&world.log_files()), "I4: {name} is damaged, and was changed");
    }
    let first = world.append(&node, first);
    world.end(directory.end, node);
    world.inspect();
    let (node, second) = world.life().expect("it opened before");
    assert_same(&first, &second);
    world.end(End::Close, node);
    if directory.repair {
        world.repair(&second);
    }
}

fn assert_same(first: &BTreeMap<String, Shown>, second: &BTreeMap<String, Shown>) {
    assert_eq!(first.len(), second.len(), "other logs");
    for ((name, first), (other, second)) in first.iter().zip(second) {
        assert_eq!(name, other);
        match (first, second) {
            (Ok(first), Ok(second)) => {
                assert_eq!((first.0, first.1), (second.0, second.1), "{name}: head and end");
                assert_eq!(first.2, second.2, "{name}: its records {second:?}");
                assert_eq!(first.3, second.3, "{name}: what stops it");
            }
            (Err(_), Err(_)) => {}
            _ => panic!("{name}: first {first:?}, then {second:?}"),
        }
    }
}

/// What a start finds is what inspection said; gives the damaged logs.
fn check_against_inspection(node: &Node, seen: &inspect::NodeReport) -> Vec<String> {
    let mut damaged = Vec::new();
    for (name, report) in &seen.logs {
        let Ok(log_name) = LogName::new(name) else { continue };
        let mut options = LogOptions::default();
        options.create = false;
        let Ok(log) = node.open_log(&log_name, options) else { continue };
        let is_damaged = matches!(log.stopped(), Some(Stopped::Damaged(_)));
        if is_damaged {
            damaged.push(name.clone());
        }
        let said = report.outcome == Outcome::Damaged;
        assert_eq!(is_damaged, said, "{name}: inspection says {:?}", report.findings);
        if !is_damaged && log.stopped().is_none() {
            // Appends of this run come later.
            assert_eq!(log.durable(), report.tail, "{name}: the tail that inspection gives");
            assert_eq!(log.head(), report.head, "{name}: the head that inspection gives");
        }
    }
    damaged
}

impl World {
    fn new(directory: &Directory) -> Self {
        let fs = SimFileSystem::new(1);
        let data = Path::new(DATA);
        for dir in ["logs", "spares", "trash", "quarantine"] {
            fs.prepare_dir(data.join(dir)).expect("an empty disk");
        }
        let world = Self { fs, clock: Arc::new(ManualClock::new(1_000_000)) };
        world.put(&data.join("LAYOUT"), layout::encode(&SIZES).as_bytes());
        for (name, log) in NAMES.iter().zip(&directory.logs) {
            let dir = data.join("logs").join(name);
            world.fs.prepare_dir(&dir).expect("an empty disk");
            for (base, bytes) in segments(log) {
                world.put(&dir.join(segment_file(base)), &bytes);
            }
        }
        for change in &directory.changes {
            world.change(change);
        }
        // All of it is on the disk, names included.
        world.fs.prepare_dir(data).expect("it is there");
        world
    }

    /// With `PLIMSOLL_FUZZ_SHOW` set: what comes next, before it the calls made since the last time, and the files.
    fn show(&self, next: &dyn std::fmt::Display) {
        if std::env::var_os("PLIMSOLL_FUZZ_SHOW").is_none() {
            return;
        }
        for op in self.fs.trace() {
            let to = op.to.map(|to| format!(" to {}", to.display())).unwrap_or_default();
            let (kind, path) = (op.kind, op.path.display());
            eprintln!("    {}: {kind:?} {path}{to} at {} len {}", op.number, op.position, op.len);
        }
        for path in self.fs.files() {
            eprintln!("  {} {:?}", path.display(), self.fs.cached(&path).map(|bytes| bytes.len()));
        }
        self.fs.record(true);
        eprintln!("{next}");
    }

    fn put(&self, path: &Path, bytes: &[u8]) {
        let _ = self.fs.remove_file(path);
        let Ok(file) = self.fs.create(path) else { return };
        file.write_at(0, bytes).expect("room for it");
        file.sync().expect("no fault");
    }

    fn files(&self) -> Vec<PathBuf> {
        let files = self.fs.files().into_iter();
        files.filter(|path| path.extension().is_some_and(|end| end == "seg")).collect()
    }

    fn file(&self, which: Which) -> Option<(PathBuf, Vec<u8>)> {
        let files = self.files();
        let path = files.get(usize::from(which) % files.len().max(1))?.clone();
        let bytes = self.fs.cached(&path).ok()?;
        Some((path, bytes))
    }

    fn log_dir(log: u8) -> PathBuf {
        Path::new(DATA).join("logs").join(NAMES[usize::from(log) % NAMES.len()])
    }

    fn change(&self, change: &Change) {
        let edit = |which: Which, edit: &dyn Fn(&mut Vec<u8>)| {
            if let Some((path, mut bytes)) = self.file(which) {
                edit(&mut bytes);
                self.put(&path, &bytes);
            }
        };
        let sectors = |sector: u8, count: u8, len: usize| {
            let start = (usize::from(sector) * 512).min(len);
            start..(start + usize::from(count % 32) * 512).min(len)
        };
        match change.clone() {
            Change::Flip { file, at, mask } => edit(file, &|bytes| {
                if let Some(byte) = bytes.get_mut(usize::from(at)) {
                    *byte ^= mask;
                }
            }),
            Change::Header { file, at, to } => edit(file, &|bytes| {
                let before = bytes.get(..512).map(<[u8]>::to_vec);
                set(bytes, 0, at, to);
                // A start makes a file as long as its header says, and inspection reads all of it, as it must: what takes its
                // time in proportion to a file of a gigabyte says nothing here.
                let sector = &bytes[..bytes.len().min(512)];
                if let (Some(before), Ok(header)) = (before, Header::parse(sector))
                    && header.capacity > LARGEST
                {
                    bytes[..512].copy_from_slice(&before);
                }
            }),
            Change::Checkpoint { file, at, to } => edit(file, &|bytes| set(bytes, 4096, at, to)),
            Change::Zero { file, sector, count } => edit(file, &|bytes| {
                let range = sectors(sector, count, bytes.len());
                bytes[range].fill(0);
            }),
            Change::Copy { from, from_sector, to, to_sector, count } => {
                let Some((_, source)) = self.file(from) else { return };
                edit(to, &|bytes| {
                    let from = sectors(from_sector, count, source.len());
                    let to = sectors(to_sector, count, bytes.len());
                    let len = from.len().min(to.len());
                    bytes[to.start..to.start + len]
                        .copy_from_slice(&source[from.start..from.start + len]);
                });
            }
            Change::Cut { file, len } => edit(file, &|bytes| bytes.truncate(len.into())),
            Change::Longer { file, by } => edit(file, &|bytes| {
                bytes.resize(bytes.len() + usize::from(by), 0);
            }),
            Change::Remove { file } => {
                if let Some((path, _)) = self.file(file) {
                    let _ = self.fs.remove_file(&path);
                }
            }
            Change::Swap { one, other } => {
                if let (Some(one), Some(other)) = (self.file(one), self.file(other)) {
                    self.put(&one.0, &other.1);
                    self.put(&other.0, &one.1);
                }
            }
            Change::Twin { file, log, base } => {
                if let Some((_, bytes)) = self.file(file) {
                    let dir = Self::log_dir(log);
                    self.put(&dir.join(segment_file(Offset(base.into()))), &bytes);
                }
            }
            Change::Rename { file, name } => {
                if let Some((path, bytes)) = self.file(file) {
                    let _ = self.fs.remove_file(&path);
                    self.put(&path.with_file_name(odd(name)), &bytes);
                }
            }
            Change::Stray { place, name, what } => {
                let data = Path::new(DATA);
                let dir = match place {
                    Place::Data => data.to_path_buf(),
                    Place::Logs => data.join("logs"),
                    Place::Log(log) => Self::log_dir(log),
                    Place::Spares => data.join("spares"),
                    Place::Trash => data.join("trash"),
                    Place::Quarantine => data.join("quarantine"),
                };
                let path = dir.join(odd(name));
                match what {
                    Stray::Empty => self.put(&path, &[]),
                    Stray::Bytes(byte) => self.put(&path, &[byte; 700]),
                    Stray::Directory => drop(self.fs.create_dir(&path)),
                    Stray::Link => drop(self.fs.prepare_link(&path, "/elsewhere")),
                }
            }
            Change::Layout { at, mask } => {
                let path = Path::new(DATA).join("LAYOUT");
                let _ = self.fs.flip(path, at.into(), mask);
            }
            Change::Spares { file, number } => {
                if let Some((_, bytes)) = self.file(file) {
                    let spares = Path::new(DATA).join("spares");
                    self.put(&spares.join(format!("{number:016}.tmp")), &bytes);
                }
            }
        }
    }

    /// The files below `logs`, with their bytes.
    fn log_files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let logs = Path::new(DATA).join("logs");
        let files = self.fs.files().into_iter().filter(|path| path.starts_with(&logs));
        files.map(|path| (path.clone(), self.fs.cached(&path).expect("listed"))).collect()
    }

    /// I11: whatever is there, looking at all of it opens nothing for writing and changes nothing.
    fn inspect(&self) {
        let fs: Arc<dyn FileSystem> = Arc::new(self.fs.process());
        let before = self.fs.fingerprint();
        self.fs.record(true);
        let settle = || {};
        let data = Path::new(DATA);
        let _ = inspect::node(&*fs, data, Depth::Records, &settle);
        inspect::verify(Arc::clone(&fs), data, &settle, &mut |_| {});
        for path in self.fs.files() {
            let _ = inspect::segment(&*fs, &path, &settle);
            if let Ok(records) = inspect::records(&*fs, &path) {
                records.for_each(drop);
            }
        }
        let _ = repair::plan(&*fs, data, None);
        let trace = self.fs.trace();
        self.fs.record(false);
        let wrote = trace.iter().find(|op| op.kind.changes() || op.kind == OpKind::Lock);
        assert_eq!(wrote, None, "I11");
        assert_eq!(before, self.fs.fingerprint(), "I11");
    }

    fn inspect_ends(&self) -> inspect::NodeReport {
        inspect::node(&self.fs.process(), Path::new(DATA), Depth::Ends, &|| {})
    }

    /// Opens the node and all its logs, and reads them; `None` if the node is refused.
    fn life(&self) -> Option<(Node, BTreeMap<String, Shown>)> {
        let begun = self.fs.ops();
        let opened = Node::builder(DATA)
            .options(NodeOptions::default())
            .file_system(Arc::new(self.fs.process()))
            .clock(Arc::clone(&self.clock) as Arc<dyn Clock>)
            .without_threads()
            .open();
        let node = match opened {
            Ok(node) => node,
            Err(OpenError::Foreign { .. } | OpenError::Disk(_)) => return None,
            Err(other) => panic!("{other}"),
        };
        let Ok(opened) = node.open_all() else {
            self.end(End::Close, node);
            return None;
        };
        let mut shown = BTreeMap::new();
        for (name, log) in opened {
            shown.insert(name.as_str().to_owned(), show(log));
        }
        self.show(&format_args!("opened {:?}", node.logs()));
        let ops = self.fs.ops() - begun;
        assert!(ops < OPS_MAX, "a start took {ops} calls");
        Some((node, shown))
    }

    /// Appends to each log that takes it.
    fn append(&self, node: &Node, mut shown: BTreeMap<String, Shown>) -> BTreeMap<String, Shown> {
        for (name, shown) in &mut shown {
            let Ok(before) = shown else { continue };
            let name = LogName::new(name).expect("it was open");
            let log = node.open_log(&name, LogOptions::default()).expect("it was open");
            if log.stopped().is_some() {
                continue;
            }
            let payload = [b"new ", name.as_str().as_bytes()].concat();
            match log.publish(WriteClass::Publish, &[NewRecord::new(&payload)]) {
                Ok(done) => {
                    assert_eq!((done.first.0, done.count), (before.1, 1));
                    before.1 += 1;
                    // Damage in a sealed segment is met by who reads it, and stops no append.
                    if before.3.is_empty() {
                        let millis = self.clock.unix_millis();
                        before.2.push((done.first.0, millis, vec![], payload));
                    }
                }
                Err(error) => panic!("{name}: nothing is wrong with the disk, but {error}"),
            }
        }
        shown
    }

    fn end(&self, end: End, node: Node) {
        match end {
            End::Close => drop(node.close()),
            End::ProcessDeath => self.fs.process_death(),
            End::PowerAll => self.fs.power_cut(&mut AllPersisted),
            End::PowerNothing => self.fs.power_cut(&mut NothingPersisted),
        }
    }

    fn repair(&self, before: &BTreeMap<String, Shown>) {
        let fs = self.fs.process();
        let Ok(done) = repair::repair(&fs, &*self.clock, Path::new(DATA), None) else { return };
        self.show(&format_args!("repaired: {done:?}"));
        let Some((node, after)) = self.life() else {
            panic!("opened before the repair, and not after it");
        };
        for (name, before) in before {
            let refused =
                done.plan.logs.iter().any(|log| log.log == *name && log.refused.is_some());
            let (Ok(before), Some(Ok(after))) = (before, after.get(name)) else { continue };
            if refused {
                continue;
            }
            assert_eq!(after.3, "", "{name}: repaired, and yet");
            assert!(
                after.1 >= before.1,
                "I8: {name}: {} after a repair, was {}",
                after.1,
                before.1
            );
            // A start takes the identity of the oldest file for the log's; a repair that of most. What it then takes out is
            // another log's, though it could be read here; it says so, and keeps the file.
            let plan = done.plan.logs.iter().find(|log| log.log == *name);
            let strangers = plan.into_iter().flat_map(|log| &log.damage);
            let strangers: Vec<_> = strangers
                .filter(|found| found.detail.ends_with("it is another log's file"))
                .filter_map(|found| found.offset)
                .collect();
            let lost = plan.into_iter().flat_map(|log| &log.lost);
            let foreign: Vec<_> = lost.filter(|gap| strangers.contains(&gap.from)).collect();
            let own =
                |offset: u64| foreign.iter().all(|gap| !(gap.from.0..gap.to.0).contains(&offset));
            for record in before.2.iter().filter(|record| own(record.0)) {
                assert!(after.2.contains(record), "{name}: record {} is gone", record.0);
            }
        }
        let again = repair::plan(&self.fs.process(), Path::new(DATA), None);
        if let Ok(again) = again {
            let undone: Vec<_> = again.logs.iter().filter(|log| log.refused.is_none()).collect();
            assert!(undone.is_empty(), "after a repair there is more to do: {undone:?}");
        }
        self.end(End::Close, node);
    }
}

fn show(log: Result<Log, OpenError>) -> Shown {
    let log = log.map_err(|error| error.to_string())?;
    let (head, end) = (log.head().0, log.durable().0);
    let mut records = Vec::new();
    let mut stop = log.stopped().map(|why| why.to_string()).unwrap_or_default();
    let mut last = None;
    let mut reader = log.read_from(log.head());
    // Empty segments, and declared gaps behind them.
    while let Err(ReadError::Gone { wanted, next }) = reader {
        assert!(wanted < next && next.0 <= end, "reading cannot go on at {next}");
        reader = log.read_from(next);
    }
    match reader {
        Ok(mut reader) => loop {
            match reader.next() {
                Ok(Some(record)) => {
                    assert!(last < Some(record.offset), "I3: {} twice", record.offset);
                    last = Some(record.offset);
                    assert!(record.offset.0 >= head && record.offset.0 < end);
                    records.push((record.offset.0, record.millis, record.headers, record.payload));
                }
                Ok(None) => break,
                Err(error) => {
                    stop = format!("{stop} {error}");
                    break;
                }
            }
        },
        Err(error) => stop = format!("{stop} {error}"),
    }
    Ok((head, end, records, stop))
}

fn odd(name: OddName) -> &'static str {
    match name {
        OddName::NoDigits => "segment.seg",
        OddName::Short => "0001.seg",
        OddName::Top => "18446744073709551615.seg",
        OddName::Upper => "00000000000000000007.SEG",
        OddName::Hidden => ".00000000000000000007.seg",
        OddName::Temporary => "00000000000000000007.seg.tmp",
        OddName::Plain => "notes",
    }
}

/// Sets a byte of the block at `start`, and puts the checksum at the end of its first sector right.
fn set(bytes: &mut [u8], start: usize, at: u16, to: u8) {
    let Some(sector) = bytes.get_mut(start..start + 512) else { return };
    sector[usize::from(at) % 508] = to;
    let crc = crc32(&sector[..508]);
    sector[508..].copy_from_slice(&crc.to_le_bytes());
}

/// No header says more.
const LARGEST: u64 = 16 << 20;

/// CRC-32 (ISO-HDLC), bit by bit: a second opinion on the one that the format uses.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 }
        })
    })
}

/// The segment files of a log as an engine would have left them, but for the odd ones.
fn segments(log: &LogSpec) -> Vec<(Offset, Vec<u8>)> {
    let id = LogId([log.id; 16]);
    let mut next = u64::from(log.base);
    let mut millis = 0;
    let mut files = Vec::new();
    for spec in &log.segments {
        let end_before = next;
        next += u64::from(spec.gap);
        let class = SizeClass::ALL[usize::from(spec.class) % 3];
        let capacity = SIZES.of(class);
        let generation = Generation::new(spec.generation.into()).unwrap_or(Generation::FIRST);
        let base = Offset(next);
        let in_use = InUse {
            log: id,
            base,
            previous_end: Offset(end_before),
            previous_millis: millis,
            origin: match spec.origin % 3 {
                // Only a repair declares one.
                _ if spec.gap > 0 => Origin::Repair,
                0 => Origin::Roll,
                1 => Origin::Heal,
                _ => Origin::Repair,
            },
        };
        let header = Header {
            generation,
            class,
            capacity,
            created_millis: 5,
            in_use: (!spec.spare).then_some(in_use),
        };
        let mut file = header.encode().to_vec();
        file.resize(capacity as usize, 0);
        let key = Key::new(id, generation, base);
        let mut position = RECORDS_POSITION;
        let mut starts = vec![position];
        for (at, record) in spec.records.iter().enumerate() {
            let unsynced_from = starts[at.saturating_sub(usize::from(record.unsynced % 8))];
            let claim = (position - unsynced_from) as u32;
            let relative = (next - base.0) as u32;
            let Some(len) =
                put_record(&mut file, key, generation, position, relative, claim, record)
            else {
                break;
            };
            millis = millis.max(u64::from(record.millis));
            position += len;
            starts.push(position);
            next += 1;
        }
        if let Some(position) = starts.get(usize::from(spec.checkpoint)) {
            let checkpoint = Checkpoint {
                generation,
                log: id,
                position: *position,
                next: base.plus(spec.checkpoint.into()),
                millis,
            };
            file[4096..8192].copy_from_slice(&checkpoint.encode());
        }
        leftover(&mut file, spec, (id, base), generation, position, (next - base.0) as u32);
        files.push((base, file));
    }
    files
}

fn leftover(
    file: &mut [u8],
    spec: &SegmentSpec,
    (id, base): (LogId, Offset),
    generation: Generation,
    end: u64,
    relative: u32,
) {
    let small = |seed| RecordSpec { len: 40, headers: 0, seed, millis: 9, unsynced: 0 };
    match spec.leftover {
        Leftover::Zeroes => {}
        Leftover::Ghosts { after, count, claim } => {
            let mut position = end + u64::from(after) * 8;
            for number in 0..u32::from(count % 6) {
                let unsynced = if claim { 0 } else { (position - end) as u32 };
                let (key, relative) = (Key::new(id, generation, base), relative + 1 + number);
                let record = small(number as u8);
                let len = put_record(file, key, generation, position, relative, unsynced, &record);
                let Some(len) = len else { return };
                position += len;
            }
        }
        Leftover::EarlierUse(count) => {
            let Some(earlier) = generation.get().checked_sub(1).and_then(Generation::new) else {
                return;
            };
            let mut position = end;
            for number in 0..u32::from(count % 6) {
                let (key, relative) = (Key::new(id, earlier, base), relative + number);
                let len = put_record(file, key, earlier, position, relative, 0, &small(1));
                let Some(len) = len else { return };
                position += len;
            }
        }
        Leftover::Noise(seed) => {
            let mut state = u32::from(seed) | 0x100;
            for byte in &mut file[end as usize..] {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *byte = (state >> 24) as u8;
            }
        }
    }
}

/// Encodes a record if it fits; gives its length.
fn put_record(
    file: &mut [u8],
    key: Key,
    generation: Generation,
    position: u64,
    relative: u32,
    unsynced: u32,
    spec: &RecordSpec,
) -> Option<u64> {
    let headers = vec![spec.seed; usize::from(spec.headers % 16)];
    let payload = vec![spec.seed ^ 0x5a; usize::from(spec.len % 4000)];
    let len = record_len(headers.len(), payload.len());
    let place = position as usize..(position + len) as usize;
    let out = file.get_mut(place)?;
    let header = RecordHeader {
        payload_len: payload.len() as u32,
        headers_len: headers.len() as u16,
        generation,
        unsynced,
        relative,
        millis: spec.millis.into(),
    };
    record::encode(out, key, position, &header, &headers, &payload);
    Some(len)
}
