//! Bytes that change by themselves, at the end of a node's lives: what was durable and is no more must be reported, and
//! never pass for the end of a log, or for another one's records (I4).

use super::aloud::say;
use super::constructed::{header, segment};
use super::random::Random;
use super::spares::end_of;
use super::world::World;
use plimsoll::error::{ReadError, Stopped};
use plimsoll::format::{RECORDS_POSITION, SECTOR_LEN};
use plimsoll::fs::sim::NothingPersisted;
use std::path::PathBuf;

/// Damages one thing on the disk, starts the node again, and looks whether it says so. Not at every call: it takes time.
/// The node is up, and nothing is broken.
pub fn is_noticed(world: &mut World, random: &mut Random) {
    let kind = random.below(16);
    if kind < 2 {
        return a_spares_header(world, random);
    }
    if kind > 4 {
        return;
    }
    let logs: Vec<String> = world.oracle.names();
    let Some(log) = logs.get(usize::try_from(random.below(4)).unwrap()).cloned() else { return };
    // Each commit says of all before it that it was durable.
    world.must_append(&log, &[512]);
    world.must_append(&log, &[512]);
    let files: Vec<PathBuf> =
        world.log(&log).segments().iter().map(|at| segment(&log, at.base.0)).collect();
    world.abandon();
    world.fs.power_cut(&mut NothingPersisted);
    let damaged = match kind {
        2 => a_record(world, &files, random),
        3 => a_header(world, &files, random),
        _ => another_logs_header(world, &files, &logs),
    };
    if !damaged {
        return;
    }
    say(format_args!("damage of kind {kind} in {log}"));
    world.checks += 1;
    world.faulty = true;
    world.listen();
    world.start();
    world.open(&log);
    assert!(says_so(world, &log), "I4: log {log}: durable bytes have changed, and nobody says so");
}

/// At the start, or, behind a checkpoint, to whoever reads.
fn says_so(world: &World, log: &str) -> bool {
    if !world.is_open(log) {
        return true;
    }
    let log = world.log(log);
    if let Some(stopped) = log.stopped() {
        return matches!(stopped, Stopped::Damaged(_));
    }
    let damaged = |error| matches!(error, ReadError::Damaged(_));
    match log.read_from(log.head()) {
        Err(error) => damaged(error),
        Ok(mut reader) => loop {
            match reader.next() {
                Err(error) => return damaged(error),
                Ok(None) => return false,
                Ok(Some(_)) => {}
            }
        },
    }
}

fn flip(world: &World, path: &PathBuf, position: u64, random: &mut Random) {
    world.fs.flip(path, position, 1 << random.below(8)).unwrap();
}

/// A byte of the header of one of these files.
fn flip_header(world: &World, files: &[PathBuf], random: &mut Random) {
    let at = usize::try_from(random.below(files.len() as u64)).unwrap();
    flip(world, &files[at], random.below(SECTOR_LEN as u64), random);
}

/// A byte of a record in the last file, of which a later record says that it was durable.
fn a_record(world: &World, files: &[PathBuf], random: &mut Random) -> bool {
    let Some(path) = files.last() else { return false };
    let (end, _) = end_of(&world.fs.durable(path).unwrap());
    let last = end - 512;
    if last > RECORDS_POSITION {
        flip(world, path, RECORDS_POSITION + random.below(last - RECORDS_POSITION), random);
    }
    last > RECORDS_POSITION
}

/// A byte of a header, of whichever file.
fn a_header(world: &World, files: &[PathBuf], random: &mut Random) -> bool {
    flip_header(world, files, random);
    !files.is_empty()
}

/// A file's header and checkpoint are another log's: of the same generation and base, as those of two new logs are.
fn another_logs_header(world: &World, files: &[PathBuf], logs: &[String]) -> bool {
    let Some(path) = files.last() else { return false };
    let own = header(&world.fs, path);
    let Some(in_use) = own.in_use else { return false };
    let others = logs.iter().map(|log| segment(log, in_use.base.0));
    for other in others.filter(|other| other != path) {
        let Ok(bytes) = world.fs.durable(&other) else { continue };
        let stranger = header(&world.fs, &other);
        if (stranger.generation, stranger.class) == (own.generation, own.class) {
            let blocks = usize::try_from(RECORDS_POSITION).unwrap();
            world.fs.overwrite(path, 0, &bytes[..blocks]).unwrap();
            return true;
        }
    }
    false
}

/// A byte of a spare's header: its generation would be a guess (I7).
fn a_spares_header(world: &mut World, random: &mut Random) {
    world.work();
    let spares = world.spare_files();
    world.abandon();
    if spares.is_empty() {
        return;
    }
    world.checks += 1;
    flip_header(world, &spares, random);
    world.start();
    world.work();
    world.check_generations();
}
