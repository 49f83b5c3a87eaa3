//! Cases of recovery and damage that users of other systems met, by their ids, on the simulated file system.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "not the engine: a test"
)]
#![allow(non_snake_case, reason = "tests are named for the cases that they hold")]

use faultlab::sim::world::{DATA, SIZES, World};
use plimsoll::Offset;
use plimsoll::error::{ReadError, Stopped};
use plimsoll::format::layout::{self, ClassSizes};
use plimsoll::fs::FileSystem;
use plimsoll::fs::sim::{AllPersisted, NothingPersisted, OpKind, Seeded, SimFileSystem};
use plimsoll::types::SizeClass;
use std::path::{Path, PathBuf};

fn segment(base: u64) -> PathBuf {
    let name = plimsoll::format::name::segment_file(Offset(base));
    Path::new(DATA).join("logs/a").join(name)
}

/// The log `a` with so many records, each confirmed by itself; the process was killed.
fn killed_after(records: usize, sizes: ClassSizes) -> World {
    let mut world = World::new(1, sizes);
    world.start();
    world.open("a");
    for _ in 0..records {
        assert!(world.append("a", &[512]));
    }
    world.fork()
}

/// One file that takes all records of these tests.
const ROOMY: ClassSizes = ClassSizes { tiny: 65536, small: 131_072, main: 1 << 20 };

#[test]
fn case_B1_a_torn_last_record_is_cut_whatever_stands_there() {
    let world = killed_after(100, ROOMY);
    let last = 8192 + 99 * 512;
    let path = segment(0);
    let check = |world: &World, records: usize, what: &str| {
        let mut world = world.fork();
        world.start();
        world.open("a");
        let log = world.log("a");
        assert!(log.stopped().is_none(), "{what}");
        assert_eq!(log.durable(), Offset(records as u64), "{what}");
        assert_eq!(world.view("a").unwrap().records.len(), records, "{what}");
    };
    // What a reader was not shown and nothing vouches for may go: the disk broke its word here, not a crash.
    let torn = world.fork();
    torn.fs.zero(&path, last + 212..last + 512).unwrap();
    check(&torn, 99, "the last 300 bytes are zeroes");
    for cut in (0..512).step_by(7) {
        let torn = world.fork();
        torn.fs.zero(&path, last + cut..last + 512).unwrap();
        check(&torn, 99, &format!("zeroes from byte {cut} of the last record on"));
    }
    let longer = world.fork();
    let file = longer.fs.open_write(&path).unwrap();
    file.set_len(65536 + (4 << 20)).unwrap();
    file.sync().unwrap();
    drop(file);
    check(&longer, 100, "4 MiB of zeroes behind the file");
    let shorter = world.fork();
    let file = shorter.fs.open_write(&path).unwrap();
    file.set_len(last + 100).unwrap();
    file.sync().unwrap();
    drop(file);
    check(&shorter, 99, "the file ends in the last record");
}

#[test]
fn case_B2_a_torn_tail_is_cut_before_anything_is_appended_behind_it() {
    for garbage in [b"\xff".as_slice(), b"\x01", b"PLIM", &[0xa5; 700]] {
        for at_the_end_of_the_file in [false, true] {
            let mut world = killed_after(7, ROOMY);
            let path = segment(0);
            let at = if at_the_end_of_the_file { 65536 } else { 8192 + 7 * 512 };
            let file = world.fs.open_write(&path).unwrap();
            file.write_at(at, garbage).unwrap();
            file.sync().unwrap();
            drop(file);
            world.recover();
            for _ in 0..10 {
                assert!(world.append("a", &[512]));
            }
            world.close();
            world.recover();
            assert_eq!(world.log("a").durable(), Offset(17));
        }
    }
}

#[test]
fn case_B4_damage_in_the_middle_is_no_torn_tail() {
    let world = killed_after(24, ROOMY);
    let at = |record: u64| 8192 + record * 512 + 40;
    let start = |world: &World| {
        let mut world = world.fork();
        world.faulty = true;
        world.start();
        world.open("a");
        world
    };
    for record in 0..23 {
        let damaged = world.fork();
        damaged.fs.flip(segment(0), at(record), 0x40).unwrap();
        let mut damaged = start(&damaged);
        let log = damaged.log("a").clone();
        let Some(Stopped::Damaged(damage)) = log.stopped() else {
            panic!("record {record}: {:?}", log.stopped())
        };
        assert_eq!((damage.position, damage.offset), (8192 + record * 512, Some(Offset(record))));
        assert_eq!(damage.file, segment(0));
        // Readable up to there, refused beyond, and nothing is changed.
        assert_eq!(log.durable(), Offset(record));
        let mut reader = log.read_from(Offset::ZERO).unwrap();
        for _ in 0..record {
            reader.next().unwrap().unwrap();
        }
        assert!(matches!(reader.next(), Err(ReadError::Damaged(_))), "record {record}");
        assert!(!damaged.append("a", &[512]));
    }
    // Of the last record nothing says that it was confirmed: with only garbage behind the bad one it is a torn tail.
    let torn = world.fork();
    torn.fs.flip(segment(0), at(23), 0x40).unwrap();
    torn.fs.overwrite(segment(0), 8192 + 24 * 512, &[0xa5; 1000]).unwrap();
    let torn = start(&torn);
    assert!(torn.log("a").stopped().is_none());
    assert_eq!(torn.log("a").durable(), Offset(23));
}

#[test]
fn case_B7_temporary_files_are_removed_and_an_empty_layout_is_made_again() {
    // Large enough classes that the size of main can be told from a file.
    let sizes = ClassSizes::from_main(1 << 20);
    let mut world = World::new(1, sizes);
    world.start();
    world.open("a");
    while world.log("a").segments().last().is_none_or(|last| last.class != SizeClass::Main) {
        assert!(world.append("a", &[16 * 1024]));
    }
    world.close();
    let make = |name: &str, bytes: &[u8]| {
        let file = world.fs.create(&Path::new(DATA).join(name)).unwrap();
        file.write_at(0, bytes).unwrap();
        file.sync().unwrap();
    };
    make("LAYOUT.tmp", b"0123456789");
    make("logs/a/00000000000000000007.seg.tmp", b"0123456789");
    make("spares/0000.tmp", b"0123456789");
    world.recover();
    world.close();
    for empty in [true, false] {
        let layout = Path::new(DATA).join("LAYOUT");
        if empty {
            let file = world.fs.open_write(&layout).unwrap();
            file.set_len(0).unwrap();
            file.sync().unwrap();
        } else {
            world.fs.remove_file(&layout).unwrap();
        }
        world.recover();
        let made = world.fs.cached(&layout).unwrap();
        assert_eq!(layout::parse(&made).unwrap(), sizes, "as the segments say");
        world.close();
    }
    // One that is neither is refused by its name, and left as it is.
    world.fs.overwrite(Path::new(DATA).join("LAYOUT"), 3, b"?").unwrap();
    world.faulty = true;
    let node = plimsoll::Node::builder(DATA)
        .file_system(std::sync::Arc::new(world.fs.process()))
        .without_threads()
        .open();
    let error = node.unwrap_err().to_string();
    assert!(error.contains("/data/LAYOUT"), "{error}");
}

/// A directory as the power left it in the middle of a batch: the last record of it survived, those before did not all.
fn torn_directory() -> SimFileSystem {
    let mut world = killed_after(3, SIZES);
    world.start();
    world.open("a");
    let mut trial = world.fork();
    trial.start();
    trial.open("a");
    trial.fs.record(true);
    trial.append("a", &[512; 4]);
    let calls = trial.fs.trace();
    let sync = calls.iter().position(|op| op.kind == OpKind::Sync).unwrap();
    world.fs.crash_at(world.fs.ops() + sync as u64);
    world.append("a", &[512; 4]);
    assert!(world.dead());
    world.abandon();
    world.fs.power_cut(&mut Seeded::new(2));
    world.fs.fork()
}

#[test]
fn case_B8_recovery_killed_at_any_of_its_calls_comes_to_the_same() {
    let torn = torn_directory();
    let recovered = |fs: SimFileSystem, crash: Option<u64>| {
        let mut world = World::over(fs);
        if let Some(op) = crash {
            world.fs.crash_at(op);
        }
        world.start();
        world.open("a");
        let view = if world.dead() { None } else { world.view("a") };
        (world.fs.ops(), world.fs.clone(), view)
    };
    let (ops, _, expected) = recovered(torn.fork(), None);
    let expected = expected.unwrap();
    let first = torn.ops();
    assert!(ops - first > 20, "recovery makes calls");
    let mut kills = 0;
    for op in first..ops {
        let (_, dead, view) = recovered(torn.fork(), Some(op));
        assert!(view.is_none());
        for cut in 0..4u64 {
            let again = dead.fork();
            match cut {
                0 => again.process_death(),
                1 => again.power_cut(&mut AllPersisted),
                2 => again.power_cut(&mut NothingPersisted),
                seed => again.power_cut(&mut Seeded::new(seed)),
            }
            let (_, _, view) = recovered(again, None);
            assert_eq!(view.unwrap(), expected, "killed at call {}, cut {cut}", op - first);
            kills += 1;
        }
    }
    println!("{kills} kills of recovery came to the same {} records", expected.records.len());
}

#[test]
fn case_B10_names_are_durable_before_what_depends_on_them_is_confirmed() {
    let mut world = World::new(1, SIZES);
    world.start();
    world.open("deep/er/a");
    let check = |world: &World| {
        let mut cut = world.fork();
        cut.fs.power_cut(&mut NothingPersisted);
        cut.recover();
    };
    check(&world);
    for _ in 0..20 {
        // Over the tiny file and the small one into a main one, and from there into the next.
        assert!(world.append("deep/er/a", &[3000]));
        check(&world);
    }
    assert!(world.log("deep/er/a").segments().len() > 3);
    world.truncate("deep/er/a", 9);
    check(&world);
    world.delete("deep/er/a");
    check(&world);
    world.work();
    check(&world);
}

#[test]
fn case_B11_offsets_go_on_when_everything_was_consumed() {
    for power in [false, true] {
        let mut world = killed_after(10, SIZES);
        world.recover();
        world.truncate_all("a");
        let head = world.log("a").head();
        world.abandon();
        if power {
            world.fs.power_cut(&mut NothingPersisted);
        } else {
            world.fs.process_death();
        }
        world.recover();
        assert_eq!((world.log("a").head(), world.log("a").durable()), (head, Offset(10)));
        assert!(world.append("a", &[512]));
        assert_eq!(world.log("a").durable(), Offset(11));
        let mut reader = world.log("a").read_from(Offset(10)).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().offset, Offset(10));
    }
}

/// What a flipped byte must come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Nobody looks there: all eight records are read.
    Nothing,
    /// The log opens damaged at this position of this file.
    AtOpen(u64, u64),
    /// The log opens, and reading this record reports damage at its position.
    AtReading(u64),
    /// The last record is cut off: nothing says that it was confirmed.
    Cut,
}

/// A sealed file with records 0 to 3 of 1,024 bytes and the last one with 4 to 7, of which the last has padding.
fn two_files(checkpoint: bool) -> World {
    let mut world = World::new(1, SIZES);
    world.start();
    world.open("a");
    for number in 0..8 {
        // Number 5 has headers, as every third has.
        assert!(world.append("a", &[if number == 7 { 1021 } else { 1024 }]));
    }
    assert_eq!(world.log("a").segments().len(), 2);
    if checkpoint {
        world.idle();
    }
    world.fork()
}

fn verdict(world: &World, file: u64, position: u64) -> Verdict {
    let mut world = world.fork();
    world.faulty = true;
    world.fs.flip(segment(file), position, 0x10).unwrap();
    world.start();
    world.open("a");
    let log = world.log("a").clone();
    match log.stopped() {
        Some(Stopped::Damaged(damage)) => {
            let base = if damage.file == segment(0) { 0 } else { 4 };
            return Verdict::AtOpen(base, damage.position);
        }
        Some(other) => panic!("byte {position} of file {file}: {other}"),
        None => {}
    }
    let mut reader = log.read_from(Offset::ZERO).unwrap();
    for record in 0..8 {
        match reader.next() {
            Ok(Some(found)) => assert_eq!(found.offset, Offset(record)),
            Ok(None) => {
                assert_eq!(record, 7, "byte {position} of file {file}: records are missing");
                return Verdict::Cut;
            }
            Err(ReadError::Damaged(damage)) => {
                assert_eq!(damage.offset, Some(Offset(record)));
                assert_eq!(damage.file, segment(if record < 4 { 0 } else { 4 }));
                assert_eq!(damage.position, 8192 + record % 4 * 1024);
                return Verdict::AtReading(record);
            }
            Err(other) => panic!("byte {position} of file {file}: {other}"),
        }
    }
    Verdict::Nothing
}

#[test]
fn i4_every_region_of_a_log_has_its_verdict_for_a_flipped_byte() {
    let mut tried = 0;
    for checkpoint in [false, true] {
        let world = two_files(checkpoint);
        let mut expect = |file: u64, positions: &mut dyn Iterator<Item = u64>, wanted: Verdict| {
            for position in positions {
                let found = verdict(&world, file, position);
                assert_eq!(
                    found, wanted,
                    "byte {position} of file {file}, checkpoint {checkpoint}"
                );
                tried += 1;
            }
        };
        for file in [0, 4] {
            // The header: any bit, with the checksum's position unless the magic is wrong.
            expect(file, &mut (0..8), Verdict::AtOpen(file, 0));
            expect(file, &mut (8..512), Verdict::AtOpen(file, 508));
            // Behind the first sector, and the whole checkpoint block: advice, which is ignored where it is wrong.
            expect(file, &mut (512..4096).step_by(61), Verdict::Nothing);
            expect(file, &mut (4096..4096 + 64), Verdict::Nothing);
            expect(file, &mut (4160..8192).step_by(61), Verdict::Nothing);
        }
        let record = |number: u64| {
            let start = 8192 + number % 4 * 1024;
            // Each byte of its header, headers and the front of its payload; some of the rest; the last ones.
            (start..start + 64)
                .chain((start + 64..start + 1016).step_by(97))
                .chain(start + 1016..start + 1024)
        };
        for number in 0..4 {
            // A sealed file is not read at open.
            expect(0, &mut record(number), Verdict::AtReading(number));
        }
        for number in 4..7 {
            let position = 8192 + number % 4 * 1024;
            expect(4, &mut record(number), Verdict::AtOpen(4, position));
        }
        // The last one, padding included, is vouched for by the checkpoint alone.
        let last = if checkpoint { Verdict::AtOpen(4, 8192 + 3072) } else { Verdict::Cut };
        expect(4, &mut record(7), last);
        // Behind the end.
        expect(4, &mut (8192 + 4096..16384).step_by(97), Verdict::Nothing);
    }
    println!("{tried} flipped bytes, each with its verdict");
}
