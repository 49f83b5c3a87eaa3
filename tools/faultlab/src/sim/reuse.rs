//! Files that serve again: what an earlier use left in them is never taken for records, and nothing leaks.
#![allow(non_snake_case, reason = "cases are named by their numbers")]

use super::aloud::say;
use super::caught::caught;
use super::constructed::segment;
use super::crash::Crash;
use super::pool::{a_small_spare, moved_in_the_cache, reusing, torn_take};
use super::random::Random;
use super::scripts::empty;
use super::spares::{end_of, record_at, records_in};
use super::world::{SIZES, World};
use plimsoll::Size;
use plimsoll::format::header::Header;
use plimsoll::format::record::{self, RecordHeader};
use plimsoll::format::{Key, RECORDS_POSITION};
use plimsoll::fs::sim::OpKind;
use plimsoll::types::{Generation, LogId, Offset};
use std::path::{Path, PathBuf};

/// A spare of which a crash left the header of its generation durable, with records of that generation behind it: the
/// process died when recovery had given the file back, before it was stamped.
fn spare_with_records_of_its_own() -> (World, PathBuf) {
    let life = |world: &mut World| {
        world.start();
        world.open("a");
    };
    let base = torn_take();
    let mut trial = base.fork();
    trial.fs.record(true);
    life(&mut trial);
    let trace = trial.fs.trace();
    let renamed = trace.iter().position(|op| op.kind == OpKind::Rename).unwrap();
    let synced = trace[renamed + 1..].iter().filter(|op| op.kind == OpKind::SyncDir);
    let last = synced.map(|op| op.number).nth(1).expect("both directories are synced");
    let mut world = base.fork();
    world.fs.crash_at(last + 1);
    life(&mut world);
    let world = world.fork();
    Crash::Nothing.strike(&world.fs);
    let files = world.spare_files();
    let [spare] = &files[..] else { panic!("one spare: {files:?}") };
    let bytes = world.fs.durable(spare).unwrap();
    let header = Header::parse(&bytes).unwrap();
    let own = records_in(&bytes).iter().any(|(_, found)| found.generation == header.generation);
    assert!(header.in_use.is_none() && own, "it holds records of its own generation");
    let spare = spare.clone();
    (world, spare)
}

/// Puts records of one log, base and generation into a file, one behind the other, all of 512 bytes.
fn plant(world: &World, path: &Path, log: LogId, generation: Generation, base: Offset, first: u32) {
    let len = world.fs.cached(path).unwrap().len() as u64;
    let count = u32::try_from((len - RECORDS_POSITION) / 512).unwrap();
    for relative in first..count {
        let at = RECORDS_POSITION + u64::from(relative) * 512;
        let header = RecordHeader {
            payload_len: 480,
            headers_len: 0,
            generation,
            unsynced: 0,
            relative,
            millis: 1,
        };
        let mut bytes = vec![0; 512];
        let key = Key::new(log, generation, base);
        record::encode(&mut bytes, key, at, &header, &[], &[b'x'; 480]);
        world.fs.overwrite(path, at, &bytes).unwrap();
    }
}

/// The identity that a log has on the disk.
fn identity(world: &World, path: &Path) -> LogId {
    Header::parse(&world.fs.cached(path).unwrap()).unwrap().in_use.expect("a log's file").log
}

/// Lets `log` take a spare by a first record, dies in each way, and looks at what is shown.
fn take_and_die(world: &World, log: &str, lens: &[usize]) {
    for crash in [Crash::Death, Crash::Nothing, Crash::All, Crash::Seed(1), Crash::Seed(2)] {
        let mut world = world.fork();
        world.recover();
        world.work();
        world.open(log);
        assert!(world.append(log, lens));
        assert_eq!(world.pool().stamped_again, 1);
        world.abandon();
        crash.strike(&world.fs);
        // The oracle knows of no record but those that were appended.
        world.recover();
        world.read(log);
        assert!(world.append(log, &[512]));
        world.abandon();
        Crash::Nothing.strike(&world.fs);
        world.recover();
    }
}

/// A spare whose durable header is a spare's, but which holds records of its own generation, is stamped again at the start,
/// and none of them is ever accepted: not by the log that wrote them, with the same base, nor by any other.
pub fn records_of_its_own_generation() {
    let (world, spare) = spare_with_records_of_its_own();
    let stamped = Header::parse(&world.fs.durable(&spare).unwrap()).unwrap();
    {
        let mut world = world.fork();
        world.start();
        world.work();
        let now = Header::parse(&world.fs.durable(&spare).unwrap()).unwrap();
        assert_eq!((now.in_use, Some(now.generation)), (None, stamped.generation.next()));
        assert_eq!(world.check_generations(), 1);
    }
    // The log that wrote them takes it again for the same base.
    take_and_die(&world, "a", &[512]);
    // So does another one. Its identity is drawn when it takes its first file: the machine draws the same in a copy.
    let lens = [4096, 512];
    let mut trial = world.fork();
    trial.recover();
    trial.work();
    trial.open("b");
    trial.append("b", &lens);
    let path = segment("b", 1);
    let (b, a) = (identity(&trial, &path), identity(&trial, &segment("a", 0)));
    let taken = Header::parse(&trial.fs.cached(&path).unwrap()).unwrap();
    assert_eq!(Some(taken.generation), stamped.generation.next(), "it took that spare");
    for log in [a, b, LogId([0x5a; 16])] {
        for base in [0, 1, 4] {
            let world = world.fork();
            plant(&world, &spare, log, stamped.generation, Offset(base), 0);
            take_and_die(&world, "b", &lens);
            take_and_die(&world, "a", &[512]);
        }
    }
}

/// Dies at each operation of `life` with the cache kept; a second life confirms a record in whatever file that led to;
/// then the power fails, and the record must be there.
fn confirmed_over_the_cache(from: &World, life: fn(&mut World), log: &str) {
    let mut trial = from.fork();
    let first = trial.fs.ops();
    life(&mut trial);
    for op in first..=trial.fs.ops() {
        let mut world = from.fork();
        world.fs.crash_at(op);
        life(&mut world);
        world.abandon();
        world.fs.process_death();
        world.recover();
        world.work();
        world.open(log);
        assert!(world.append(log, &[512]), "a record is confirmed");
        world.abandon();
        for crash in [Crash::Nothing, Crash::All, Crash::Seed(op), Crash::Seed(op + 1)] {
            let mut world = world.fork();
            crash.strike(&world.fs);
            // The oracle asks for every confirmed record.
            world.recover();
            world.read(log);
        }
    }
}

/// The renames of a first life, into a log and out of one, had only reached the cache when it died.
pub fn renames_that_were_only_in_the_cache() {
    let take = |world: &mut World| {
        world.start();
        world.work();
        world.open("a");
        world.append("a", &[512, 512]);
    };
    confirmed_over_the_cache(&a_small_spare(), take, "a");
    let give_up = |world: &mut World| {
        world.start();
        world.open("a");
        world.truncate_all("a");
        world.work();
    };
    for log in ["a", "b"] {
        confirmed_over_the_cache(&moved_in_the_cache(), give_up, log);
    }
}

/// What the rounds of D1 met.
#[derive(Debug, Default)]
struct Met {
    /// Files that were taken again.
    reused: u64,
    /// Records of an earlier use that stood exactly where the next one of the new use would, with the offset that it
    /// would have within the file.
    exact: u64,
    /// Of those: written by the same log.
    own: u64,
    deleted: u64,
}

/// Looks at what a crash left behind the last record of a log.
fn look_behind(world: &World, log: &str, met: &mut Met) {
    let dir = segment(log, 0).parent().unwrap().to_path_buf();
    let mut files = world.fs.files();
    files.retain(|path| path.parent() == Some(&dir));
    let Some(last) = files.last() else { return };
    let bytes = world.fs.cached(last).unwrap();
    let Ok(Header { generation, in_use: Some(in_use), .. }) = Header::parse(&bytes) else { return };
    let (end, count) = end_of(&bytes);
    let Some((found, key)) = record_at(&bytes, end) else { return };
    if found.relative == count && found.generation < generation {
        met.exact += 1;
        let bases = (0..=in_use.base.0).map(Offset);
        let own = bases.map(|base| Key::new(in_use.log, found.generation, base));
        met.own += u64::from(own.into_iter().any(|own| own == key));
    }
}

fn ends_with_a_block(world: &World, log: &str) -> bool {
    let Some(last) = world.log(log).segments().last().cloned() else { return true };
    let bytes = world.fs.cached(segment(log, last.base.0)).unwrap();
    end_of(&bytes).0.is_multiple_of(4096)
}

fn counted(world: &World, met: &mut Met) {
    if world.is_up() {
        let pool = world.pool();
        met.reused += pool.taken_reused;
        met.deleted += pool.deleted_last_generation;
    }
}

/// One round: a log fills files with records of one length and gives them up; a log, itself or another, takes them and
/// appends a few of the same length; the process dies or the power fails; and what is shown is what was appended.
fn round(world: &mut World, random: &mut Random, number: u64, len: &mut usize, met: &mut Met) {
    // The same for some rounds, so that the files of several hold it. Two of three divide a block: then records end with one,
    // and what is behind it is left as it was, where a commit zeroes the rest of a block.
    if number.is_multiple_of(5) {
        *len = match random.below(3) {
            0 => usize::try_from(64 + 8 * random.below(120)).unwrap(),
            _ => 64 << random.below(6),
        };
    }
    let len = *len;
    let old = random.one_of(&["a", "b"]);
    world.open(old);
    let files = world.log(old).segments().len();
    while world.log(old).segments().len() < files + 2 {
        let count = usize::try_from(1 + random.below(24)).unwrap();
        world.append(old, &vec![len; count]);
    }
    world.truncate_all(old);
    if random.below(3) > 0 {
        world.work();
    }
    let new = match random.below(4) {
        0 => old.to_owned(),
        1 => random.one_of(&["a", "b"]).to_owned(),
        _ => format!("new{number}"),
    };
    world.open(&new);
    // Into a file that may have served before: one that is new begins with smaller ones.
    let files = world.log(&new).segments().len();
    let wanted = if new == old { files + 1 } else { files.max(random.one_of(&[2, 3, 3])) };
    while world.log(&new).segments().len() < wanted {
        let count = usize::try_from(1 + random.below(9)).unwrap();
        world.append(&new, &vec![len; count]);
    }
    for _ in 0..1 + random.below(4) {
        world.append(&new, &[len]);
    }
    while 4096 % len == 0 && !ends_with_a_block(world, &new) {
        world.append(&new, &[len]);
    }
    if random.below(2) == 0 {
        // The last write is torn.
        let op = world.fs.ops() + random.below(3);
        world.fs.crash_in_write(op, usize::try_from(512 * random.below(12)).unwrap());
        world.append(&new, &[len; 12]);
    }
    counted(world, met);
    world.abandon();
    let crash = match random.below(4) {
        0 => Crash::Death,
        1 => Crash::Nothing,
        2 => Crash::All,
        _ => Crash::Seed(random.below(1 << 20)),
    };
    crash.strike(&world.fs);
    look_behind(world, &new, met);
    world.recover();
    world.work();
    world.check_generations();
    if new.starts_with("new") && random.below(3) > 0 {
        world.delete(&new);
        world.work();
    }
}

/// Twenty rounds on each machine; `last` is the last generation of a file.
fn rounds(count: u64, last: u16) -> Met {
    let mut met = Met::default();
    for seed in 0..count.div_ceil(20) {
        let mut world = reusing().with_last_generation(last);
        world.start();
        let (mut random, mut len) = (Random(seed), 0);
        for number in 0..20 {
            let round = || round(&mut world, &mut random, number, &mut len, &mut met);
            if let Err(what) = caught(round) {
                panic!("{what}\nmachine {seed}, round {number}, last generation {last}");
            }
        }
        world.close();
    }
    say(format_args!("case_D1: {count} rounds, last generation {last}: {met:?}"));
    met
}

/// Few, for planted faults.
pub fn some_rounds() {
    rounds(200, u16::MAX);
}

/// Many, and enough of them meet what they are for.
pub fn case_D1(count: u64) {
    let met = rounds(count, u16::MAX);
    assert!(met.exact > count / 5 && met.own > count / 20, "{met:?}");
    assert_eq!(met.deleted, 0);
}

/// With a generation of two bits a file serves three times and is deleted.
pub fn case_D1_two_bits(count: u64) {
    let met = rounds(count, 3);
    assert!(met.exact > count / 5 && met.own > count / 20 && met.deleted > 0, "{met:?}");
}

/// With one bit it serves once, so that nothing is left over from anyone.
pub fn case_D1_one_bit(count: u64) {
    let met = rounds(count, 1);
    assert!(met.reused == 0 && met.exact == 0 && met.deleted > count, "{met:?}");
}

/// The most that is among the spares of [`case_D2`]: the budget, what is
/// kept back, one file that the worker makes, and the two that a batch may begin.
const BOUND: u64 = BUDGET + KEPT_BACK + SIZES.main + 2 * SIZES.main;
const BUDGET: u64 = 2 * SIZES.main;
const KEPT_BACK: u64 = 2 * SIZES.tiny;

fn len(world: &World, path: &Path) -> u64 {
    world.fs.cached(path).map_or(0, |bytes| bytes.len() as u64)
}

/// The bytes among the spares and the number of files of logs.
fn on_disk(world: &World) -> (u64, usize) {
    let spares = world.spare_files().iter().map(|path| len(world, path)).sum();
    let files = world.fs.files();
    (spares, files.iter().filter(|path| path.starts_with("/data/logs")).count())
}

/// Two hundred starts that are killed leak nothing.
pub fn case_D2() {
    let mut options = super::world::options();
    options.limits.pool.budget_cap = Size(BUDGET);
    options.limits.pool.kept_back = Size(KEPT_BACK);
    options.limits.pool.prepared = 2;
    let mut world = empty().with_pool(options);
    world.start();
    for log in ["a", "b"] {
        world.open(log);
        world.append(log, &[1024; 14]);
    }
    world.abandon();
    Crash::Nothing.strike(&world.fs);
    let mut random = Random(2);
    let (mut most, mut files_most) = (0, 0);
    for start in 0..200 {
        let log = random.one_of(&["a", "b"]);
        let life = |world: &mut World| {
            world.recover();
            world.work();
            world.append(log, &[1024; 5]);
            world.truncate_all(log);
            world.work();
        };
        let mut trial = world.fork();
        life(&mut trial);
        let ops = trial.fs.ops() - world.fs.ops();
        // Half of them while nothing but the start has happened.
        let within = if start % 2 == 0 { ops } else { ops / 3 };
        let bytes = random.one_of(&[0, 512, 5000]);
        world.fs.crash_in_write(world.fs.ops() + random.below(within), bytes);
        life(&mut world);
        assert!(world.dead());
        world.abandon();
        let crash = random.one_of(&[0, 0, 1, 2, 3]);
        match crash {
            0 => Crash::Death,
            1 => Crash::Nothing,
            2 => Crash::All,
            _ => Crash::Seed(start),
        }
        .strike(&world.fs);
        let (spares, files) = on_disk(&world);
        assert!(spares <= BOUND, "start {start}: {spares} bytes among the spares");
        // A log that is truncated after each batch has its last file and what the batch began.
        assert!(files <= 2 * 4, "start {start}: {files} files of logs");
        (most, files_most) = (most.max(spares), files_most.max(files));
    }
    // Looks at every file there is.
    world.recover();
    world.work();
    let (pool, (spares, _)) = (world.pool(), on_disk(&world));
    assert_eq!((pool.kept_back_bytes, pool.coming), (KEPT_BACK, [0; 3]));
    assert!(pool.bytes <= BUDGET && spares <= BUDGET + KEPT_BACK + 2 * SIZES.main);
    assert!(world.check_generations() > 0 || spares > pool.bytes + KEPT_BACK);
    world.close();
    say(format_args!(
        "case_D2: at most {most} bytes of spares, {files_most} files of logs; bound {BOUND}"
    ));
}

#[cfg(test)]
mod tests {
    fn rounds() -> u64 {
        if crate::sim::explore::full() { 20_000 } else { 1_000 }
    }

    #[test]
    fn i2_a_spare_with_records_of_its_own_generation_is_stamped_again() {
        super::records_of_its_own_generation();
    }

    #[test]
    fn i1_a_record_confirmed_in_a_file_whose_rename_was_only_in_the_cache_is_still_there() {
        super::renames_that_were_only_in_the_cache();
    }

    #[test]
    fn case_D1_leftovers_of_an_earlier_use_are_never_accepted() {
        super::case_D1(rounds());
    }

    #[test]
    fn case_D1_with_a_generation_of_two_bits() {
        super::case_D1_two_bits(rounds());
    }

    #[test]
    fn case_D1_with_a_generation_of_one_bit() {
        super::case_D1_one_bit(rounds());
    }

    #[test]
    fn case_D2_two_hundred_starts_that_are_killed_leak_nothing() {
        super::case_D2();
    }
}
