//! Plans for the spare pool: files that logs give up, that are stamped and taken again, made ahead and kept back.

use super::crash::Crash;
use super::explore::Plan;
use super::scripts::{empty, failed_sync};
use super::spares::{records_in, space};
use super::world::only_reuse;
use super::world::{SIZES, World};
use plimsoll::Size;
use plimsoll::WriteClass;
use plimsoll::format::header::Header;
use plimsoll::fs::Space;
use plimsoll::fs::sim::{Fault, Op, OpKind, Reached, What};

/// A node whose spares come from its logs only.
pub fn reusing() -> World {
    empty().with_pool(only_reuse())
}

/// A log with three files of rising class, the last with some room.
pub fn three_files() -> World {
    let mut world = reusing();
    world.start();
    world.open("a");
    for _ in 0..7 {
        world.append("a", &[1024, 1024]);
    }
    world.close();
    world.fork()
}

/// Logs of which `a` has these records of 1024 bytes, and `z` has given up its small file, with records of 512 bytes in
/// it: it is the only spare.
fn small_spare(records: usize) -> World {
    let mut world = reusing();
    world.start();
    world.open("a");
    world.append("a", &vec![1024; records]);
    world.open("z");
    world.append("z", &[4096]);
    for _ in 0..8 {
        world.append("z", &[512, 512]);
    }
    world.append("z", &[512]);
    // What the logs reserve is made for them, and not given up by `z`.
    world.work();
    world.truncate_all("z");
    world.work();
    // The tiny one goes to a log of its own.
    world.open("y");
    world.append("y", &[512]);
    // Not closed: what is reserved goes at the next start.
    let world = world.fork();
    Crash::Nothing.strike(&world.fs);
    let mut files = world.spare_files();
    files.retain(|path| path.extension().is_some_and(|end| end == "seg"));
    let bytes = world.fs.durable(&files[0]).unwrap();
    assert_eq!(files.len(), 1);
    assert_eq!((bytes.len() as u64, Header::parse(&bytes).unwrap().in_use), (SIZES.small, None));
    assert_eq!(records_in(&bytes).len(), 16);
    world
}

/// The file of `a` is full.
pub fn a_small_spare() -> World {
    small_spare(4)
}

/// A spare leaves for a log. What asks whether it could names no file that is there.
fn is_taken(op: &Op) -> bool {
    let from_spares = op.kind == OpKind::Rename && op.path.starts_with("/data/spares");
    from_spares && op.path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'0')
}

/// A life that ends just before the first operation for which `is` holds, by `crash`.
fn ended_before(
    from: &World,
    life: fn(&mut World),
    is: impl Fn(&[Op]) -> bool,
    crash: &Crash,
) -> World {
    let mut trial = from.fork();
    trial.fs.record(true);
    life(&mut trial);
    let trace = trial.fs.trace();
    let until = (1..=trace.len()).find(|&until| is(&trace[..until])).expect("such an operation");
    let mut world = from.fork();
    world.fs.crash_at(trace[until - 1].number);
    life(&mut world);
    assert!(world.dead());
    let world = world.fork();
    crash.strike(&world.fs);
    world
}

/// The process died after the truncation was answered, before anything was stamped.
fn given_up() -> World {
    let mut world = three_files();
    world.start();
    world.open("a");
    world.truncate_all("a");
    let world = world.fork();
    Crash::Death.strike(&world.fs);
    assert_eq!(world.spare_files().len(), 2);
    world
}

/// The process died when the first file had left its log, in the cache only.
pub fn moved_in_the_cache() -> World {
    let life = |world: &mut World| {
        world.start();
        world.open("a");
        world.truncate_all("a");
    };
    let moved = |ops: &[Op]| match ops {
        [.., before, _] => before.kind == OpKind::Rename && before.path.starts_with("/data/logs/a"),
        _ => false,
    };
    let world = ended_before(&three_files(), life, moved, &Crash::Death);
    assert_eq!(world.spare_files().len(), 1);
    world
}

/// The first commit of `a` in its second file was cut off by the power: the file is in the log, with a spare header, and
/// behind it are records of that generation, though not the first one.
fn torn_take_of(from: &World) -> World {
    let life = |world: &mut World| {
        world.start();
        world.open("a");
        world.append("a", &[512; 4]);
    };
    let syncs = |ops: &[Op]| {
        let Some(last) = ops.last() else { return false };
        last.kind == OpKind::Sync
            && ops.iter().any(|op| op.kind == OpKind::SyncDir && op.path.ends_with("a"))
            && ops.iter().any(is_taken)
    };
    let path = super::constructed::segment("a", 4);
    for seed in 0..10_000 {
        let world = ended_before(from, life, syncs, &Crash::Seed(seed));
        let Ok(bytes) = world.fs.cached(&path) else { continue };
        let header = Header::parse(&bytes).unwrap();
        let own: Vec<u32> = records_in(&bytes)
            .iter()
            .filter(|(_, found)| found.generation == header.generation)
            .map(|(_, found)| found.relative)
            .collect();
        if header.in_use.is_none() && own.contains(&1) && !own.contains(&0) {
            return world;
        }
    }
    unreachable!("seeds run out")
}

pub fn torn_take() -> World {
    torn_take_of(&a_small_spare())
}

/// As [`torn_take`], in a file that was made for it and whose generation is the last.
pub fn torn_take_of_the_last_generation() -> World {
    let mut world = reusing().with_last_generation(1);
    world.start();
    world.open("a");
    world.append("a", &[1024; 4]);
    world.close();
    torn_take_of(&world.fork())
}

/// A node that makes files ahead. It keeps none back: the probe that comes with that has crashes enough of its own, and
/// leaves one file that the next start removes.
fn prepared() -> World {
    let mut options = super::world::options();
    options.limits.pool.kept_back = Size(0);
    empty().with_pool(options)
}

/// A full disk: a log with no room left in its file, and two files kept back.
pub fn full_disk() -> World {
    let mut options = only_reuse();
    options.limits.pool.kept_back = Size(2 * SIZES.tiny);
    let mut world = empty().with_pool(options);
    world.start();
    world.work();
    world.open("a");
    world.append("a", &[1024; 4]);
    assert_eq!(world.pool().ready, [2, 0, 0]);
    world.close();
    world.fs.set_capacity(Some(world.fs.used()));
    // A large device, or so few bytes would be kept back that there is no file.
    world.fs.set_space(Some(Space { available: 0, ..space() }));
    world.fork()
}

/// What is left of the spares serves: a new log takes them, and the old one goes on.
fn reuse(world: &mut World) {
    world.work();
    world.open("a");
    world.append("a", &[512]);
    world.open("b");
    world.append("b", &[512, 512]);
    world.append("a", &[512, 512]);
}

const fn pool(name: &'static str, prepare: fn() -> World, script: fn(&mut World)) -> Plan {
    Plan { after: reuse, second: 1_000, seeds: 4, ..Plan::new(name, prepare, script) }
}

/// Each file of `a` serves `b` and then `c`.
fn passed_on(world: &mut World) {
    world.start();
    world.open("a");
    world.append("a", &[1024; 5]);
    world.truncate_all("a");
    world.work();
    world.open("b");
    world.append("b", &[1024, 1024]);
    world.append("b", &[1024; 3]);
    world.truncate_all("b");
    world.work();
    world.open("c");
    world.append("c", &[1024]);
}

pub const PLANS: &[Plan] = &[
    pool("pool_give_up", three_files, |world| {
        world.start();
        world.open("a");
        world.truncate_all("a");
        world.work();
        world.append("a", &[512]);
    }),
    Plan {
        evicts: true,
        ..pool("pool_give_up_fails", three_files, |world| {
            world.start();
            world.open("a");
            // The file has left its log, in the cache only, and must stay as it is.
            let fault = Fault::nth(OpKind::SyncDir, 0, What::Errno(libc::EIO));
            world.inject(fault.on("logs/a"));
            world.truncate_all("a");
            world.work();
            world.append("a", &[512]);
        })
    },
    pool("pool_stamp_given_up", given_up, |world| {
        world.start();
        world.work();
    }),
    pool("pool_stamp_ready", a_small_spare, |world| {
        world.start();
        world.work();
        world.open("a");
        world.append("a", &[512]);
    }),
    pool("pool_stamp_moved_in_the_cache", moved_in_the_cache, |world| {
        world.start();
        world.work();
        world.open("b");
        world.append("b", &[512]);
    }),
    pool("pool_reuse", three_files, |world| {
        world.start();
        world.open("a");
        world.truncate_all("a");
        world.work();
        // Records of the same length, so that those of the first log continue them exactly.
        world.open("b");
        world.append("b", &[1024]);
        world.append("b", &[1024; 4]);
    }),
    pool("pool_reuse_by_the_same_log", three_files, |world| {
        world.start();
        world.open("a");
        // Into a second main file; the first three serve again, one of them here.
        world.append("a", &[4096; 6]);
        world.truncate_all("a");
        world.append("a", &[4096; 6]);
        world.append("a", &[1024, 1024]);
    }),
    pool("pool_roll_into_reused", a_small_spare, |world| {
        world.start();
        world.work();
        world.open("a");
        world.append("a", &[512; 3]);
        world.append("a", &[512]);
    }),
    pool("pool_trailing_given_back", torn_take, |world| {
        world.recover();
        world.work();
        world.append("a", &[512]);
    }),
    pool("pool_made_ahead", prepared, |world| {
        world.start();
        world.open("a");
        world.append("a", &[512]);
        world.work();
        world.append("a", &[1024; 4]);
    }),
    pool("pool_kept_back_is_filled_again", full_disk, |world| {
        world.start();
        world.open("a");
        world.work();
        // An acknowledgement begins a file that is kept back.
        world.append_as(WriteClass::Acknowledge, "a", &[512]);
        world.pool_shows(|pool| pool.taken_kept_back == 1);
        world.work();
        world.pool_shows(|pool| pool.kept_back_missing > 0);
        world.fs.set_capacity(None);
        world.clock.advance(std::time::Duration::from_secs(2));
        world.work();
        world.append("a", &[512]);
    }),
    pool("pool_last_generation_1", || reusing().with_last_generation(1), passed_on),
    pool("pool_last_generation_3", || reusing().with_last_generation(3), passed_on),
    pool("pool_no_generation_left", torn_take_of_the_last_generation, |world| {
        world.recover();
        world.work();
        world.append("a", &[512]);
    }),
    pool("pool_released", moved_in_the_cache, |world| {
        world.start();
        world.open("a");
        world.truncate_all("a");
        world.steps(1);
        world.release_spares();
        world.append("a", &[4096; 6]);
        world.truncate_all("a");
        let mut limits = world.options.limits.clone();
        limits.pool.budget_cap = Size(0);
        if world.is_up() {
            world.node().set_limits(limits).unwrap();
        }
        world.work();
    }),
    Plan {
        evicts: true,
        ..pool(
            "pool_heal_into_reused",
            || small_spare(5),
            |world| {
                world.start();
                world.work();
                world.open("a");
                world.append("a", &[512]);
                world.inject(Fault::nth(OpKind::Sync, 0, failed_sync(Reached::Some(3))));
                world.must_fail("a", &[512, 512]);
                world.must_append("a", &[512]);
                // The failed file goes for good, the other one serves again.
                world.truncate_all("a");
                world.work();
            },
        )
    },
];
