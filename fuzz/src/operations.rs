//! Sequences of operations on a node over the simulated file system, with crashes and faults among them, held against a
//! small model.
//!
//! What is checked, by the names in the design: I1 (confirmed is read back, same bytes, same offset), I2 (nothing else is
//! read, and what was read once stays), I3 (no gap, none twice), I5 (*not written* is never read), I6 (no file without an
//! owner after a start), I8 (offsets never go back).
//!
//! Every append carries numbers of its own, rising in the order of staging. A record shows which append it is of, and a
//! log in which the numbers do not rise mixes two branches.

use arbitrary::{Arbitrary, Unstructured};
use plimsoll::clock::{Clock, ManualClock};
use plimsoll::error::{AppendError, CommitError, Outcome, PublishError, ReadError, Stopped};
use plimsoll::format::layout::{self, ClassSizes};
use plimsoll::fs::FileSystem;
use plimsoll::fs::sim::{
    AllPersisted, Charges, Fault, Names, NothingPersisted, OpKind, Profile, Reached, Sectors,
    Seeded, SimFileSystem, What, When,
};
use plimsoll::permit::{Decision, Permit};
use plimsoll::{
    Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, Reader, Size, Ticket,
    WriteClass,
};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const DATA: &str = "/data";
const LOGS: [&str; 2] = ["a", "deep/b"];
/// More than one file, and far below the window.
const SIZES: ClassSizes = ClassSizes { tiny: 12 << 10, small: 16 << 10, main: 32 << 10 };
const OPS_MAX: usize = 64;
const IDLE: Duration = Duration::from_secs(10);

/// One run.
#[derive(Clone, Debug)]
pub struct Scenario {
    seed: u64,
    profile: u8,
    ops: Vec<Op>,
}

impl<'a> Arbitrary<'a> for Scenario {
    /// As many operations as the bytes give, up to a limit. A list of its own would end after each with even odds.
    fn arbitrary(u: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let (seed, profile) = (u.arbitrary::<u16>()?.into(), u.arbitrary()?);
        let mut ops = Vec::new();
        while !u.is_empty() && ops.len() < OPS_MAX {
            ops.push(Op::weighted(u)?);
        }
        Ok(Self { seed, profile, ops })
    }
}

/// A batch of up to eight records.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Batch {
    count: u8,
    headers: u8,
    len: Len,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Len {
    Tiny(u8),
    /// Up to about a tiny file.
    Middle(u16),
    /// Up to more than any file holds.
    Large(u16),
}

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Append and wait.
    Publish(Log2, Batch),
    /// Append and keep the ticket.
    Stage(Log2, Batch),
    /// The same without blocking.
    TryStage(Log2, Batch),
    /// Wait for the tickets, in this order.
    Settle(Log2, Order),
    /// Poll all tickets.
    Poll(Log2),
    /// Forget the tickets: the node commits them.
    DropTickets(Log2),
    /// Let the node work.
    Steps(u8),
    /// Time goes by.
    Advance(u16),
    /// The wall clock steps.
    SetWall(u16),
    Truncate(Log2, u8),
    Delete(Log2),
    /// Read some from anywhere.
    Read(Log2, u8, u8),
    /// Read on where the last reading ended.
    Follow(Log2, u8),
    OffsetForTime(Log2, u16),
    /// Close clean and open.
    Reopen,
    /// End the process now.
    Crash(Crash),
    /// End it that many operations of the disk later.
    CrashLater {
        after: u8,
        bytes: u16,
    },
    /// End it that many operations after the next opening has begun.
    CrashInOpen {
        after: u8,
        crash: Crash,
    },
    Inject {
        kind: u8,
        nth: u8,
        what: Harm,
        forever: bool,
        on: On,
    },
    ClearFaults,
    /// The kernel drops clean pages.
    Evict,
    WriteBackFails(u8, bool),
    /// So many blocks are free from now on; 255 for no limit.
    Space {
        blocks: u8,
        overwrites: bool,
        rename: bool,
    },
}

impl Op {
    /// Appends are what all else is about, so they come more often.
    fn weighted(u: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        Ok(match u.arbitrary::<u8>()? % 40 {
            0..8 => Self::Publish(u.arbitrary()?, u.arbitrary()?),
            8..12 => Self::Stage(u.arbitrary()?, u.arbitrary()?),
            12 => Self::TryStage(u.arbitrary()?, u.arbitrary()?),
            13..15 => Self::Settle(u.arbitrary()?, u.arbitrary()?),
            15 => Self::Poll(u.arbitrary()?),
            16 => Self::DropTickets(u.arbitrary()?),
            17 => Self::Steps(u.arbitrary()?),
            18 => Self::Advance(u.arbitrary()?),
            19 => Self::SetWall(u.arbitrary()?),
            20 => Self::Truncate(u.arbitrary()?, u.arbitrary()?),
            21 => match u.arbitrary::<u8>()? % 4 {
                0 => Self::Delete(u.arbitrary()?),
                _ => Self::Reopen,
            },
            22 => Self::Read(u.arbitrary()?, u.arbitrary()?, u.arbitrary()?),
            23 => Self::Follow(u.arbitrary()?, u.arbitrary()?),
            24 => Self::OffsetForTime(u.arbitrary()?, u.arbitrary()?),
            25..28 => Self::Crash(u.arbitrary()?),
            28..31 => Self::CrashLater { after: u.arbitrary()?, bytes: u.arbitrary()? },
            31..33 => Self::CrashInOpen { after: u.arbitrary()?, crash: u.arbitrary()? },
            33..37 => Self::Inject {
                kind: u.arbitrary()?,
                nth: u.arbitrary()?,
                what: u.arbitrary()?,
                forever: u.arbitrary::<u8>()? % 8 == 0,
                on: u.arbitrary()?,
            },
            37 => Self::ClearFaults,
            38 => match u.arbitrary::<bool>()? {
                true => Self::Evict,
                false => Self::WriteBackFails(u.arbitrary()?, u.arbitrary()?),
            },
            _ => Self::Space {
                blocks: u.arbitrary()?,
                overwrites: u.arbitrary()?,
                rename: u.arbitrary()?,
            },
        })
    }
}

/// Which log.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Log2 {
    A,
    B,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Order {
    First,
    Last,
    All,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Crash {
    Process,
    PowerAll,
    PowerNothing,
    Power(u16),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Harm {
    Io,
    NoSpace,
    Interrupted,
    Short(u16),
    DoneThenIo,
    FailedSync(u8),
    ReadOnly,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum On {
    Anything,
    Segments,
    Spares,
}

/// A staged batch.
#[derive(Debug)]
struct Staged {
    ticket: Ticket,
    first: u64,
    ids: Vec<u64>,
}

/// What a log may hold.
#[derive(Debug, Default)]
struct Model {
    /// What is known to be there, truncated records included.
    known: BTreeMap<u64, u64>,
    /// Behind the last known record.
    end: u64,
    /// What may be there or not.
    maybe: BTreeMap<u64, BTreeSet<u64>>,
    /// The largest offset that truncation was asked for.
    truncated: u64,
    /// Its deletion may have happened.
    maybe_gone: bool,
}

impl Model {
    fn stage(&mut self, first: u64, ids: &[u64]) {
        for (offset, id) in (first..).zip(ids) {
            self.maybe.entry(offset).or_default().insert(*id);
        }
    }

    /// Takes a batch for known. Whatever else was once staged in its place never comes back.
    fn confirm(&mut self, first: u64, ids: &[u64]) {
        for (offset, id) in (first..).zip(ids) {
            if let Some(before) = self.known.insert(offset, *id) {
                assert_eq!(before, *id, "I1: record {offset} was another one before");
            }
            self.maybe.remove(&offset);
        }
        self.end = self.end.max(first + ids.len() as u64);
    }

    fn refuse(&mut self, first: u64, ids: &[u64]) {
        for (offset, id) in (first..).zip(ids) {
            if let Some(maybe) = self.maybe.get_mut(&offset) {
                maybe.remove(id);
            }
        }
    }

    fn check(&self, offset: u64, id: u64) {
        match self.known.get(&offset) {
            Some(known) => assert_eq!(*known, id, "I1: record {offset} is of another append"),
            None => {
                let may = self.maybe.get(&offset).is_some_and(|ids| ids.contains(&id));
                assert!(may, "I2, I5: record {offset} is of append {id}, which cannot be there");
            }
        }
    }
}

/// One log, and what it should be.
#[derive(Debug, Default)]
struct Subject {
    log: Option<Log>,
    staged: Vec<Staged>,
    reader: Option<Reader>,
    model: Model,
}

struct World {
    fs: SimFileSystem,
    clock: Arc<ManualClock>,
    node: Option<Node>,
    subjects: [Subject; 2],
    next_id: u64,
    /// When each append was stamped.
    stamps: BTreeMap<u64, u64>,
    crash_in_open: Option<(u64, Crash)>,
    crashes: u64,
    seed: u64,
    shown: bool,
}

/// Runs a scenario; panics where the engine breaks a rule.
pub fn run(scenario: &Scenario) {
    let mut world = World::new(scenario);
    world.open();
    for op in &scenario.ops {
        world.show(&format_args!("{op:?}"));
        world.apply(*op);
        if world.fs.is_dead() {
            world.crash_somehow();
            world.open();
        }
    }
    world.finish();
}

impl World {
    fn new(scenario: &Scenario) -> Self {
        let fs = SimFileSystem::new(scenario.seed);
        for dir in ["logs", "spares", "trash", "quarantine"] {
            fs.prepare_dir(Path::new(DATA).join(dir)).expect("an empty disk");
        }
        let layout = fs.create(&Path::new(DATA).join("LAYOUT")).expect("an empty disk");
        layout.write_at(0, layout::encode(&SIZES).as_bytes()).expect("an empty disk");
        layout.sync().expect("an empty disk");
        fs.sync_dir(Path::new(DATA)).expect("an empty disk");
        fs.set_profile(Profile {
            sectors: match scenario.profile % 3 {
                0 => Sectors::Torn512,
                1 => Sectors::Atomic4K,
                _ => Sectors::Prefix,
            },
            names: if scenario.profile & 4 == 0 { Names::Subset } else { Names::Prefix },
        });
        Self {
            fs,
            clock: Arc::new(ManualClock::new(1_000_000)),
            node: None,
            subjects: Default::default(),
            next_id: 1,
            stamps: BTreeMap::new(),
            crash_in_open: None,
            crashes: 0,
            seed: scenario.seed,
            shown: std::env::var_os("PLIMSOLL_FUZZ_SHOW").is_some(),
        }
    }

    /// With `PLIMSOLL_FUZZ_SHOW` set: what comes next, and before it the calls made since the last time.
    fn show(&self, next: &dyn std::fmt::Display) {
        if !self.shown {
            return;
        }
        for op in self.fs.trace() {
            let to = op.to.map(|to| format!(" to {}", to.display())).unwrap_or_default();
            let (kind, path) = (op.kind, op.path.display());
            eprintln!("    {}: {kind:?} {path}{to} at {} len {}", op.number, op.position, op.len);
        }
        self.fs.record(true);
        eprintln!("{next}");
    }

    fn node(&self) -> &Node {
        self.node.as_ref().expect("the node is open between operations")
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Publish(log, batch) => self.publish(log as usize, batch),
            Op::Stage(log, batch) => self.stage(log as usize, batch, false),
            Op::TryStage(log, batch) => self.stage(log as usize, batch, true),
            Op::Settle(log, order) => self.settle(log as usize, order),
            Op::Poll(log) => self.poll(log as usize),
            Op::DropTickets(log) => self.subjects[log as usize].staged.clear(),
            Op::Steps(count) => self.steps(count % 8),
            Op::Advance(millis) => self.clock.advance(Duration::from_millis(millis.into())),
            Op::SetWall(secs) => self.clock.set_wall(u64::from(secs) * 1000),
            Op::Truncate(log, share) => self.truncate(log as usize, share),
            Op::Delete(log) => self.delete(log as usize),
            Op::Read(log, share, count) => self.read(log as usize, share, count),
            Op::Follow(log, count) => self.follow(log as usize, count),
            Op::OffsetForTime(log, secs) => self.offset_for_time(log as usize, secs),
            Op::Reopen => self.reopen(),
            Op::Crash(crash) => {
                self.crash(crash);
                self.open();
            }
            Op::CrashLater { after, bytes } => {
                // Whole sectors: the kernel copies a page under its lock, and a process does not die half-way.
                let bytes = usize::from(bytes) / 512 * 512;
                self.fs.crash_in_write(self.fs.ops() + u64::from(after % 64), bytes);
            }
            Op::CrashInOpen { after, crash } => {
                self.crash_in_open = Some((u64::from(after % 64), crash))
            }
            Op::Inject { kind, nth, what, forever, on } => {
                self.inject(kind, nth, what, forever, on);
            }
            Op::ClearFaults => self.fs.clear_faults(),
            Op::Evict => self.fs.evict_all(),
            Op::WriteBackFails(which, reached) => self.write_back_fails(which, reached),
            Op::Space { blocks, overwrites, rename } => {
                let free = (blocks < 255).then(|| self.fs.used() + u64::from(blocks) * 4096);
                self.fs.set_capacity(free);
                let rename = u32::from(rename);
                self.fs.set_charges(Charges { overwrites, rename, ..Charges::default() });
            }
        }
    }

    // Appending.

    fn batch(&mut self, batch: Batch) -> Vec<(u64, Vec<u8>, Vec<u8>)> {
        let len = match batch.len {
            Len::Tiny(len) => usize::from(len),
            Len::Middle(len) => usize::from(len) % 5000,
            Len::Large(len) => usize::from(len) % 27000,
        };
        let count = match batch.len {
            Len::Large(_) => 1 + batch.count % 2,
            _ => 1 + batch.count % 8,
        };
        let mut make = |_| {
            let id = self.next_id;
            self.next_id += 1;
            (id, headers_of(id, batch.headers), payload_of(id, len))
        };
        (0..count).map(&mut make).collect()
    }

    fn publish(&mut self, at: usize, batch: Batch) {
        let batch = self.batch(batch);
        let ids: Vec<u64> = batch.iter().map(|(id, ..)| *id).collect();
        let records = records(&batch);
        let Some(log) = self.usable(at) else { return };
        let first = log.tail().0;
        let now = self.clock.unix_millis();
        self.stamps.extend(ids.iter().map(|id| (*id, now)));
        let result = log.publish(WriteClass::Publish, &records);
        let model = &mut self.subjects[at].model;
        match result {
            Ok(done) => {
                // Healing inside may have moved the tail back.
                assert!(done.first.0 <= first && done.first.0 >= model.end, "I8: {done:?}");
                assert_eq!(done.count, ids.len() as u64);
                model.confirm(done.first.0, &ids);
            }
            Err(error) if error.outcome() == Outcome::NotWritten => check_refusal(&error),
            // Where it was staged is not known if a heal came first: at the tail or before.
            Err(_) => {
                for first in model.end..=first {
                    model.stage(first, &ids);
                }
            }
        }
    }

    fn permit(&self, log: &Log, records: &[NewRecord<'_>]) -> Permit {
        let bytes = records.iter().map(|new| new.headers.len() + new.payload.len()).sum::<usize>();
        match log.admit(WriteClass::Publish, bytes as u64) {
            Decision::Admit(permit) => permit,
            Decision::Delay { wait, permit } => {
                self.clock.advance(wait);
                permit
            }
            Decision::Refuse(limited) => panic!("there is no pressure here: {limited}"),
        }
    }

    fn stage(&mut self, at: usize, batch: Batch, only_try: bool) {
        let batch = self.batch(batch);
        let ids: Vec<u64> = batch.iter().map(|(id, ..)| *id).collect();
        let records = records(&batch);
        let Some(log) = self.usable(at) else { return };
        let permit = self.permit(&log, &records);
        let now = self.clock.unix_millis();
        self.stamps.extend(ids.iter().map(|id| (*id, now)));
        let result =
            if only_try { log.try_append(&permit, &records) } else { log.append(permit, &records) };
        match result {
            Ok(ticket) => {
                let first = ticket.expected_offset().0;
                assert_eq!(log.tail().0, first + ids.len() as u64);
                let subject = &mut self.subjects[at];
                assert!(first >= subject.model.end, "I8: staged at {first}");
                subject.model.stage(first, &ids);
                subject.staged.push(Staged { ticket, first, ids });
            }
            Err(error) => check_refusal(&error.into()),
        }
    }

    fn settled(
        model: &mut Model,
        first: u64,
        ids: &[u64],
        result: Result<plimsoll::Appended, CommitError>,
    ) {
        match result {
            Ok(done) => {
                assert_eq!((done.first.0, done.count), (first, ids.len() as u64));
                model.confirm(first, ids);
            }
            Err(error) if error.outcome == Outcome::NotWritten => model.refuse(first, ids),
            Err(_) => {}
        }
    }

    fn settle(&mut self, at: usize, order: Order) {
        let Subject { staged, model, .. } = &mut self.subjects[at];
        while !staged.is_empty() {
            let next = match order {
                Order::Last => staged.len() - 1,
                Order::First | Order::All => 0,
            };
            let Staged { ticket, first, ids } = staged.remove(next);
            let result = ticket.wait();
            Self::settled(model, first, &ids, result);
            if !matches!(order, Order::All) {
                break;
            }
        }
    }

    fn poll(&mut self, at: usize) {
        let Subject { staged, model, .. } = &mut self.subjects[at];
        let mut context = Context::from_waker(Waker::noop());
        staged.retain_mut(|Staged { ticket, first, ids }| {
            match Pin::new(ticket).poll(&mut context) {
                Poll::Ready(result) => {
                    Self::settled(model, *first, ids, result);
                    false
                }
                Poll::Pending => true,
            }
        });
    }

    fn steps(&self, count: u8) {
        for _ in 0..count {
            self.node().step();
        }
    }

    // Everything else that is done to a log.

    fn truncate(&mut self, at: usize, share: u8) {
        let Some(log) = self.usable(at) else { return };
        let (head, tail, durable) = (log.head().0, log.tail().0, log.durable().0);
        // Some beyond the end, too.
        let asked = head + (tail + 3 - head) * u64::from(share) / 255;
        let model = &mut self.subjects[at].model;
        model.truncated = model.truncated.max(asked.min(durable));
        if let Ok(done) = log.truncate_before(Offset(asked)) {
            assert!(done.head.0 <= asked.max(head), "more was truncated than asked for");
            assert_eq!(done.head, log.head());
        }
        assert_eq!(log.tail().0, tail, "I8: a truncation moved the tail");
    }

    fn delete(&mut self, at: usize) {
        self.subjects[at].staged.clear();
        self.subjects[at].reader = None;
        let log = self.subjects[at].log.take();
        match self.node().delete_log(&log_name(at)) {
            Ok(()) => self.subjects[at].model = Model::default(),
            Err(_) if log.as_ref().is_some_and(|log| log.stopped().is_none()) => {
                // It did not come to closing the log.
                self.subjects[at].log = log;
                return;
            }
            Err(_) => self.subjects[at].model.maybe_gone = true,
        }
        if !self.fs.is_dead() {
            self.open_log(at);
        }
    }

    fn read(&mut self, at: usize, share: u8, count: u8) {
        let Some(log) = self.subjects[at].log.clone() else { return };
        let (head, durable) = (log.head().0, log.durable().0);
        let from = head + (durable - head) * u64::from(share) / 255;
        match log.read_from(Offset(from)) {
            Ok(reader) => self.subjects[at].reader = Some(reader),
            Err(ReadError::Stopped(_) | ReadError::Disk(_)) => return,
            Err(error) => panic!("record {from} of {head}..{durable}: {error}"),
        }
        self.follow(at, count);
    }

    fn follow(&mut self, at: usize, count: u8) {
        let Subject { reader, model, .. } = &mut self.subjects[at];
        let Some(open) = reader else { return };
        for _ in 0..count {
            let from = open.position().0;
            match open.next() {
                Ok(Some(record)) => {
                    assert_eq!(record.offset.0, from, "I3: a gap");
                    let id = id_of(&record);
                    model.check(from, id);
                    assert_eq!(record.millis, self.stamps[&id], "record {from}: another stamp");
                    // What was read once stays.
                    model.confirm(from, &[id]);
                }
                Ok(None) => return,
                Err(ReadError::Gone { next, .. }) => {
                    assert!(next.0 <= model.truncated, "I1: records up to {next} are gone");
                    *reader = None;
                    return;
                }
                Err(ReadError::Stopped(_) | ReadError::Disk(_)) => {
                    *reader = None;
                    return;
                }
                Err(error) => panic!("record {from}: {error}"),
            }
        }
    }

    fn offset_for_time(&mut self, at: usize, secs: u16) {
        let Some(log) = self.subjects[at].log.clone() else { return };
        if !self.read_all(at) {
            return;
        }
        let millis = u64::from(secs) * 1000;
        let model = &self.subjects[at].model;
        if model.known.len() as u64 != model.end {
            return; // Not all is known: some was truncated before it was ever read.
        }
        let Ok(found) = log.offset_for_time(millis) else { return };
        let (head, durable) = (log.head().0, log.durable().0);
        let first = model.known.iter().find(|(_, id)| self.stamps[id] >= millis);
        let first = first.map_or(durable, |(offset, _)| *offset);
        assert_eq!(found.0, first.max(head), "the first stamp of {millis} or more");
    }

    // Faults.

    fn inject(&self, kind: u8, nth: u8, what: Harm, forever: bool, on: On) {
        let what = match what {
            Harm::Io => What::Errno(libc::EIO),
            Harm::NoSpace => What::Errno(libc::ENOSPC),
            Harm::Interrupted => What::Interrupted,
            Harm::Short(bytes) => What::Short((usize::from(bytes) / 512 * 512).max(512)),
            Harm::DoneThenIo => What::DoneThen(libc::EIO),
            Harm::FailedSync(reached) => What::FailedSync {
                errno: libc::EIO,
                reached: match reached {
                    0 => Reached::Nothing,
                    1 => Reached::Everything,
                    seed => Reached::Some(seed.into()),
                },
            },
            Harm::ReadOnly => What::ReadOnly,
        };
        // The first few of a kind, and those kinds more often on which promises hang.
        let nth = u64::from(nth % 16) / 2;
        let often = [OpKind::Write, OpKind::Sync, OpKind::SyncDir, OpKind::Rename];
        let when = match often.iter().cycle().take(12).chain(OpKind::ALL).nth((kind % 32).into()) {
            Some(kind) => When::Nth(*kind, nth),
            None => When::Any(nth),
        };
        let fault = Fault::new(when, what);
        let fault = match on {
            On::Anything => fault,
            On::Segments => fault.on(".seg"),
            On::Spares => fault.on("spares"),
        };
        // An interruption that never ends is a call that never ends.
        let forever = forever && !matches!(what, What::Interrupted);
        self.fs.inject(if forever { fault.forever() } else { fault });
    }

    fn write_back_fails(&self, which: u8, everything: bool) {
        let files = self.fs.files();
        let reached = if everything { Reached::Everything } else { Reached::Nothing };
        if let Some(path) = files.get(usize::from(which) % files.len().max(1)) {
            self.fs.fail_write_back(path, reached).expect("it was listed");
        }
    }

    // Lives.

    fn crash_somehow(&mut self) {
        self.crashes += 1;
        let spin = self.seed.rotate_left(7) ^ self.crashes.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.crash(match spin % 5 {
            0 => Crash::Process,
            1 => Crash::PowerAll,
            2 => Crash::PowerNothing,
            _ => Crash::Power((spin >> 16) as u16),
        });
    }

    fn crash(&mut self, crash: Crash) {
        match crash {
            Crash::Process => self.fs.process_death(),
            Crash::PowerAll => self.fs.power_cut(&mut AllPersisted),
            Crash::PowerNothing => self.fs.power_cut(&mut NothingPersisted),
            Crash::Power(seed) => self.fs.power_cut(&mut Seeded::new(seed.into())),
        }
        self.let_go();
    }

    /// Drops what is left of the engine. Whatever it still does fails if its process is dead.
    fn let_go(&mut self) {
        for subject in &mut self.subjects {
            subject.staged.clear();
            subject.reader = None;
            subject.log = None;
        }
        if let Some(node) = self.node.take() {
            // What waits in the queues holds logs, which hold the queues.
            for _ in 0..64 {
                if !node.step() {
                    break;
                }
            }
        }
    }

    fn reopen(&mut self) {
        for at in 0..self.subjects.len() {
            self.subjects[at].staged.clear();
            self.subjects[at].reader = None;
            self.subjects[at].log = None;
        }
        if let Some(node) = self.node.take() {
            let _ = node.close();
        }
        if self.fs.is_dead() {
            self.crash_somehow();
        }
        self.open();
    }

    fn try_node(&self) -> Result<Node, plimsoll::error::OpenError> {
        let mut options = NodeOptions::default();
        options.idle_checkpoint = IDLE;
        options.open_files = 3;
        options.limits.pool.kept_back = Size(2 * SIZES.tiny);
        options.limits.pool.prepared = 1;
        Node::builder(DATA)
            .options(options)
            .file_system(Arc::new(self.fs.process()))
            .clock(Arc::clone(&self.clock) as Arc<dyn Clock>)
            .without_threads()
            .without_pressure()
            .open()
    }

    /// Opens the node and both logs, and holds what they show against the model. Crashes on the way begin it anew; faults
    /// are allowed to make it fail until they are cleared.
    fn open(&mut self) {
        if let Some((after, _)) = self.crash_in_open {
            self.fs.crash_at(self.fs.ops() + after);
        }
        let crash = self.crash_in_open.take().map(|(_, crash)| crash);
        let mut attempts = 0;
        loop {
            assert!(attempts < 8, "the node does not open, though nothing is wrong");
            if attempts == 2 {
                self.fs.clear_faults();
                self.fs.set_capacity(None);
            }
            attempts += 1;
            let opened = self.try_open();
            if self.fs.is_dead() {
                match crash {
                    Some(crash) => self.crash(crash),
                    None => self.crash_somehow(),
                }
                continue;
            }
            match opened {
                Ok(()) => return,
                Err(error) if attempts > 2 => panic!("no fault, and it does not open: {error}"),
                Err(_) => self.let_go(),
            }
        }
    }

    fn try_open(&mut self) -> Result<(), plimsoll::error::OpenError> {
        self.node = Some(self.try_node()?);
        for at in 0..self.subjects.len() {
            let log = self.node().open_log(&log_name(at), LogOptions::default())?;
            let stopped = log.stopped();
            self.subjects[at].log = Some(log);
            // What is open for reading only was shown all the same.
            self.verify(at)?;
            if let Some(Stopped::ReadOnly(reason)) = stopped {
                return Err(plimsoll::error::OpenError::Foreign {
                    path: DATA.into(),
                    reason: reason.to_string(),
                });
            }
        }
        Ok(())
    }

    /// Opens one log again, in the same life; `false` where a fault keeps it closed.
    fn open_log(&mut self, at: usize) -> bool {
        self.subjects[at].staged.clear();
        self.subjects[at].reader = None;
        self.subjects[at].log = None;
        match self.node().open_log(&log_name(at), LogOptions::default()) {
            Ok(log) => {
                self.subjects[at].log = Some(log);
                self.verify(at).is_ok()
            }
            Err(_) => false,
        }
    }

    /// The log, opened again if it has failed.
    fn usable(&mut self, at: usize) -> Option<Log> {
        let log = self.subjects[at].log.clone();
        match log.as_ref().map(Log::stopped) {
            Some(None) => log,
            Some(Some(Stopped::Failed(_))) | None => {
                drop(log);
                self.open_log(at);
                self.subjects[at].log.clone().filter(|log| log.stopped().is_none())
            }
            Some(Some(Stopped::ReadOnly(_))) => None,
            Some(Some(other)) => panic!("{other}"),
        }
    }

    /// Holds a log that was just recovered against the model: from now on, what it shows is what there is.
    fn verify(&mut self, at: usize) -> Result<(), plimsoll::error::OpenError> {
        let Some(log) = self.subjects[at].log.clone() else { return Ok(()) };
        let (head, end) = (log.head().0, log.durable().0);
        self.show(&format_args!("recovered {head}..{end}: {:?}", log.recovery_report()));
        let stopped = log.stopped();
        if let Some(Stopped::Damaged(damage)) = &stopped {
            panic!("I4: nothing is damaged, but {damage}");
        }
        let read_only = matches!(stopped, Some(Stopped::ReadOnly(_)));
        let model = &mut self.subjects[at].model;
        if model.maybe_gone && end == 0 && !read_only {
            *model = Model::default();
        }
        assert!(read_only || end >= model.end, "I1, I8: confirmed up to {}, has {end}", model.end);
        assert!(
            head <= model.truncated.max(if read_only { head } else { 0 }),
            "I1: starts at {head}, truncated up to {}",
            model.truncated
        );
        assert_eq!(log.tail().0, end);
        let mut reader = match log.read_from(Offset(head)) {
            Ok(reader) => reader,
            Err(error) => panic!("{head}..{end}: {error}"),
        };
        let mut last = 0;
        for offset in head..end {
            match reader.next() {
                Ok(Some(record)) => {
                    assert_eq!(record.offset.0, offset, "I3");
                    let id = id_of(&record);
                    model.check(offset, id);
                    assert!(id > last, "I2: append {id} behind append {last}: two branches");
                    assert_eq!(record.millis, self.stamps[&id], "another stamp");
                    last = id;
                    model.confirm(offset, &[id]);
                }
                Ok(None) => panic!("I3: ends at {offset}, should at {end}"),
                Err(ReadError::Disk(error)) => return Err(error.into()),
                Err(error) => panic!("record {offset} of {head}..{end}: {error}"),
            }
        }
        if !read_only {
            model.end = model.end.max(end);
            model.maybe.clear();
            model.maybe_gone = false;
        }
        Ok(())
    }

    /// Reads all that is durable; `false` if something failed.
    fn read_all(&mut self, at: usize) -> bool {
        let Some(log) = self.subjects[at].log.clone() else { return false };
        let Ok(reader) = log.read_from(log.head()) else { return false };
        self.subjects[at].reader = Some(reader);
        for _ in 0..=(log.durable().0 - log.head().0) / 255 {
            self.follow(at, 255);
        }
        let reader = self.subjects[at].reader.take();
        reader.is_some_and(|reader| reader.position() >= log.durable())
    }

    /// Nothing is wrong any more: what is confirmed is there, crash or not, and no file is without an owner.
    fn finish(&mut self) {
        self.fs.clear_faults();
        self.fs.set_capacity(None);
        self.fs.set_charges(Charges::default());
        self.settle(0, Order::All);
        self.settle(1, Order::All);
        self.crash_somehow();
        self.open();
        let shown = |world: &Self| {
            world.subjects.each_ref().map(|subject| subject.log.as_ref().map(|log| log.durable()))
        };
        let before = shown(self);
        self.crash_somehow();
        self.open();
        assert_eq!(before, shown(self), "I10: another recovery shows something else");
        for at in 0..self.subjects.len() {
            // A write-back that failed earlier may still be told to the first sync.
            let done = (0..2).any(|_| {
                let id = self.next_id;
                self.publish(at, Batch { count: 0, headers: 3, len: Len::Tiny(9) });
                self.subjects[at].model.known.values().any(|known| *known == id)
            });
            assert!(done, "nothing is wrong, and appends are refused");
        }
        self.reopen();
        self.check_files();
        self.let_go();
    }

    /// I6: every file is one that a log, or the pool, knows.
    fn check_files(&self) {
        let (mut segments, mut spares) = (0, 0);
        for path in self.fs.files() {
            let path = path.strip_prefix(DATA).expect("nobody writes elsewhere");
            let top = path.iter().next().unwrap_or_default().to_string_lossy();
            match &*top {
                "LOCK" | "LAYOUT" => {}
                "logs" => segments += 1,
                "spares" => spares += 1,
                _ => panic!("I6: {} is left over", path.display()),
            }
        }
        let logs = self.subjects.iter().filter_map(|subject| subject.log.as_ref());
        let known: usize = logs.map(|log| log.segments().len()).sum();
        assert_eq!(segments, known, "I6: files of logs, and segments that logs know");
        let pools = self.node().stats().pools;
        let held: u64 = pools.iter().flat_map(|pool| pool.ready.iter().chain(&pool.coming)).sum();
        assert_eq!(spares, held, "I6: spares, and what the pool knows of");
    }
}

fn log_name(at: usize) -> LogName {
    LogName::new(LOGS[at]).expect("a good name")
}

fn records(batch: &[(u64, Vec<u8>, Vec<u8>)]) -> Vec<NewRecord<'_>> {
    batch.iter().map(|(_, headers, payload)| NewRecord { headers, payload }).collect()
}

/// The number, then bytes that follow from it.
fn payload_of(id: u64, len: usize) -> Vec<u8> {
    let mut payload = id.to_le_bytes().to_vec();
    let rest = (0..len).map(|at| (id.wrapping_mul(31) >> (at % 5)) as u8 ^ at as u8);
    payload.extend(rest);
    payload
}

fn headers_of(id: u64, len: u8) -> Vec<u8> {
    vec![id as u8; len.into()]
}

/// The append that a record is of; panics if its bytes are not those that were appended.
fn id_of(record: &plimsoll::Record) -> u64 {
    let offset = record.offset;
    let (number, _) = record.payload.split_at_checked(8).expect("I1: a payload too short");
    let id = u64::from_le_bytes(number.try_into().expect("eight bytes"));
    let whole = payload_of(id, record.payload.len() - 8);
    assert!(record.payload == whole, "I1: record {offset}: other bytes");
    let headers = record.headers.iter().all(|&byte| byte == id as u8);
    assert!(headers, "I1: record {offset}: other headers");
    id
}

/// What may be refused here, and that it says so.
fn check_refusal(error: &PublishError) {
    match error {
        PublishError::Append(AppendError::RecordTooLarge { max, .. }) => {
            assert_eq!(*max, SIZES.main - 8192);
        }
        PublishError::Append(
            AppendError::Busy | AppendError::Stopped(_) | AppendError::Disk(_),
        )
        | PublishError::Commit(_) => {}
        other => panic!("refused for no reason: {other}"),
    }
}
