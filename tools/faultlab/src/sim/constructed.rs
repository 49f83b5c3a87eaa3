//! Files as no plain life of a node leaves them, but as reuse, copies and senders of strange payloads do.

use super::scripts::empty;
use super::world::{DATA, Staged, World};
use plimsoll::LogName;
use plimsoll::format::checkpoint::Checkpoint;
use plimsoll::format::header::Header;
use plimsoll::format::record::{self, RecordHeader};
use plimsoll::format::{CHECKPOINT_POSITION, Key, RECORDS_POSITION};
use plimsoll::fs::FileSystem;
use plimsoll::fs::sim::{NothingPersisted, SimFileSystem};
use plimsoll::types::{Generation, LogId, Offset};
use std::path::{Path, PathBuf};

/// The path of a log's segment file.
pub fn segment(log: &str, base: u64) -> PathBuf {
    let name = LogName::new(log).unwrap();
    name.dir(&Path::new(DATA).join("logs")).join(plimsoll::format::name::segment_file(Offset(base)))
}

pub fn header(fs: &SimFileSystem, path: &Path) -> Header {
    Header::parse(&fs.cached(path).unwrap()).unwrap()
}

/// One record as it stands at `position` of the segment with this base; it says that all before it was durable.
fn encode(
    log: LogId,
    generation: Generation,
    base: Offset,
    position: u64,
    relative: u32,
    payload: &[u8],
) -> Vec<u8> {
    let header = RecordHeader {
        payload_len: u32::try_from(payload.len()).unwrap(),
        headers_len: 0,
        generation,
        unsynced: 0,
        relative,
        millis: 1,
    };
    let len = usize::try_from(header.record_len()).unwrap();
    let mut bytes = vec![0; len];
    record::encode(&mut bytes, Key::new(log, generation, base), position, &header, &[], payload);
    bytes
}

/// The log `a` with two confirmed records of 512 bytes, cut off by the power: without a checkpoint.
fn two_records() -> World {
    let mut world = empty();
    world.start();
    world.open("a");
    world.append("a", &[512, 512]);
    let world = world.fork();
    world.fs.power_cut(&mut NothingPersisted);
    world
}

const END: u64 = RECORDS_POSITION + 1024;

/// Behind the end stand records of another log that would come next: same generation, right places, right offsets, and
/// their own log's valid checksums.
pub fn leftovers_of_another_log() -> World {
    let world = two_records();
    let path = segment("a", 0);
    let stranger = LogId([0x5a; 16]);
    let generation = header(&world.fs, &path).generation;
    for relative in 2..4 {
        let at = RECORDS_POSITION + u64::from(relative) * 512;
        let leftover = encode(stranger, generation, Offset(0), at, relative, &[b'x'; 480]);
        world.fs.overwrite(&path, at, &leftover).unwrap();
    }
    world
}

/// A file in its second use, with records of the same log's first use behind the end, in the right places and with the
/// right offsets.
pub fn leftovers_of_an_earlier_use() -> World {
    let world = two_records();
    let path = segment("a", 0);
    let mut header = header(&world.fs, &path);
    let log = header.in_use.unwrap().log;
    let first = header.generation;
    let second = first.next().unwrap();
    for relative in 2..4 {
        let at = RECORDS_POSITION + u64::from(relative) * 512;
        let leftover = encode(log, first, Offset(0), at, relative, &[b'x'; 480]);
        world.fs.overwrite(&path, at, &leftover).unwrap();
    }
    header.generation = second;
    world.fs.overwrite(&path, 0, &header.encode()).unwrap();
    let records = world.oracle.batch(0);
    for (relative, (headers, payload)) in (0..).zip(&records) {
        assert!(headers.is_empty());
        let at = RECORDS_POSITION + u64::from(relative) * 512;
        world
            .fs
            .overwrite(&path, at, &encode(log, second, Offset(0), at, relative, payload))
            .unwrap();
    }
    world
}

/// The checkpoint is that of an earlier use, and of another log; it speaks of bytes far behind the end.
pub fn foreign_checkpoint() -> World {
    let world = two_records();
    let path = segment("a", 0);
    let header = header(&world.fs, &path);
    let checkpoint = Checkpoint {
        generation: header.generation,
        log: LogId([0x5a; 16]),
        position: END + 1024,
        next: Offset(4),
        millis: 0,
    };
    world.fs.overwrite(&path, CHECKPOINT_POSITION, &checkpoint.encode()).unwrap();
    world
}

/// A copy of the log's first file stands where its next one would.
pub fn file_under_another_name() -> World {
    let world = two_records();
    let copy = segment("a", 2);
    let file = world.fs.create(&copy).unwrap();
    file.write_at(0, &world.fs.cached(segment("a", 0)).unwrap()).unwrap();
    file.sync().unwrap();
    world.fs.sync_dir(copy.parent().unwrap()).unwrap();
    drop(file);
    world
}

/// Appends, behind a record that the crash may lose, one whose payload is a record of this very log, though of another
/// place: it claims that everything before it was durable.
pub fn append_a_record_in_a_payload(world: &mut World) {
    world.start();
    world.open("a");
    let first = world.stage("a", &[512]);
    if world.dead() {
        return;
    }
    let second = stage_a_record_in_a_payload(world, "a", 1);
    first.map(|staged| world.settle(staged));
    second.map(|staged| world.settle(staged));
}

/// Stages a record whose payload is a record of the log's last file, though of another place: so many offsets further
/// on than it stands itself. Does nothing where the log has no file, or its file no header yet.
pub fn stage_a_record_in_a_payload(world: &mut World, log: &str, ahead: u64) -> Option<Staged> {
    if !world.is_open(log) || world.log(log).stopped().is_some() {
        return None;
    }
    let base = world.log(log).segments().last()?.base;
    let header = Header::parse(&world.fs.cached(segment(log, base.0)).ok()?).ok()?;
    let id = header.in_use?.log;
    let relative = u32::try_from((world.log(log).tail().0 + ahead).checked_sub(base.0)?).ok()?;
    let forged =
        encode(id, header.generation, base, RECORDS_POSITION, relative.max(1), &[b'x'; 480]);
    let batch = world.oracle.appending_payload(log, &forged);
    world.stage_batch(log, batch)
}
