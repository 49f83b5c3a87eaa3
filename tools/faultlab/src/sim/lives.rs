//! Random lives of a node: several logs, faults and crashes in any of them, and the oracle after each.
//!
//! `PLIMSOLL_CRASH_SEED` is the first seed, `PLIMSOLL_CRASH_NODES` says how many are tried.

use super::explore::{Crash, full};
use super::faults::goes_on;
use super::world::{SIZES, Staged, World};
use plimsoll::fs::sim::{Fault, Names, OpKind, Profile, Reached, Sectors, What};
use plimsoll::{PoolOptions, WriteClass};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The same numbers for the same seed (SplitMix64, Steele, Lea and Flood).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

const LOGS: [&str; 4] = ["a", "b", "deep/c", "deep/d"];
const LENS: [usize; 9] = [64, 100, 512, 512, 513, 1024, 2048, 3000, 4096];

fn lens(random: &mut Random) -> Vec<usize> {
    let count = random.one_of(&[1, 1, 1, 2, 3, 5, 9]);
    // Now and then all of one length, so that new records take exactly the places of lost ones.
    if random.below(2) == 0 {
        vec![512; count]
    } else {
        (0..count).map(|_| random.one_of(&LENS)).collect()
    }
}

fn fault(random: &mut Random) -> Fault {
    let kinds = [
        (OpKind::Sync, What::FailedSync { errno: libc::EIO, reached: Reached::Nothing }),
        (OpKind::Sync, What::FailedSync { errno: libc::EIO, reached: Reached::Everything }),
        (
            OpKind::Sync,
            What::FailedSync { errno: libc::EIO, reached: Reached::Some(random.below(99)) },
        ),
        (OpKind::Sync, What::DoneThen(libc::EIO)),
        (OpKind::Write, What::Errno(libc::EIO)),
        (OpKind::Write, What::Errno(libc::ENOSPC)),
        (OpKind::Write, What::Short(usize::try_from(random.below(2000)).unwrap())),
        (OpKind::Create, What::Errno(libc::ENOSPC)),
        (OpKind::Rename, What::Errno(libc::ENOSPC)),
        (OpKind::Rename, What::Errno(libc::EXDEV)),
        (OpKind::Rename, What::Errno(libc::EIO)),
        (OpKind::Allocate, What::Errno(libc::ENOSPC)),
        (OpKind::Rename, What::DoneThen(libc::EIO)),
        (OpKind::SyncDir, What::Errno(libc::EIO)),
        (OpKind::RemoveFile, What::Errno(libc::EIO)),
        (OpKind::Open, What::Errno(libc::EMFILE)),
    ];
    let (kind, what) = random.one_of(&kinds);
    Fault::nth(kind, random.below(6), what)
}

/// One thing that a node's owner, or the world around it, does.
fn act(world: &mut World, random: &mut Random, staged: &mut Vec<Staged>) {
    let log = random.one_of(&LOGS);
    match random.below(32) {
        0..=10 => {
            world.open(log);
            let lens = lens(random);
            world.append(log, &lens);
        }
        11..=13 => {
            world.open(log);
            staged.extend(world.stage(log, &lens(random)));
        }
        14 => {
            for staged in std::mem::take(staged) {
                world.settle(staged);
            }
        }
        15 => world.truncate_all(log),
        16 => {
            let before = random.below(40);
            if world.is_open(log) {
                world.truncate(log, before.min(world.log(log).durable().0));
            }
        }
        17 => {
            if random.below(3) == 0 && world.oracle.knows(log) {
                world.delete(log);
            }
        }
        18 => world.idle(),
        19 | 20 => world.work(),
        21 => world.read(log),
        22 => {
            if random.below(2) == 0 {
                world.inject(fault(random));
            } else {
                world.mend();
            }
        }
        23 => world.fs.evict_all(),
        24 | 25 => world.steps(1 + random.below(4)),
        26 => {
            // So that the pool has much to do: a log fills its files and gives them up.
            world.open(log);
            world.append(log, &[512; 40]);
            world.truncate_all(log);
            world.steps(random.below(3));
        }
        27 => {
            let pool = pool(random);
            world.set_pool(pool);
        }
        28 => world.release_spares(),
        29 => {
            // Nothing more, or a file or two.
            let room = random.one_of(&[0, SIZES.tiny, SIZES.small, SIZES.main]);
            world.fill_disk(room);
        }
        30 => {
            world.open(log);
            let class = random.one_of(&[WriteClass::Acknowledge, WriteClass::Coordination]);
            let lens = lens(random);
            world.append_as(class, log, &lens);
        }
        _ => {
            world.idle();
            world.work();
            world.check_generations();
        }
    }
}

/// Settings of the pool: budgets for nothing, for a few files and for all, with and without files kept back.
fn pool(random: &mut Random) -> PoolOptions {
    let mut pool = super::world::options().pool;
    pool.budget_cap = random.one_of(&[0, SIZES.main, 3 * SIZES.main, 1 << 30]);
    pool.prepared = random.one_of(&[0, 1, 2]);
    pool.kept_back = random.one_of(&[0, 1, 3]) * SIZES.tiny;
    pool
}

fn crash(random: &mut Random) -> Crash {
    match random.below(8) {
        0 | 1 => Crash::Death,
        2 => Crash::Evict,
        3 => Crash::All,
        4 => Crash::Nothing,
        _ => Crash::Seed(random.below(1 << 20)),
    }
}

/// A run of lives; gives how many there were.
fn live(seed: u64) -> u64 {
    let mut random = Random(seed);
    let mut world = World::new(seed, SIZES);
    world.fs.set_profile(Profile {
        sectors: random.one_of(&[
            Sectors::Torn512,
            Sectors::Torn512,
            Sectors::Atomic4K,
            Sectors::Prefix,
        ]),
        names: random.one_of(&[Names::Subset, Names::Subset, Names::Prefix]),
    });
    if random.below(2) == 0 {
        world.options.pool = pool(&mut random);
    }
    if random.below(3) == 0 {
        world = world.with_last_generation(random.one_of(&[1, 3]));
    }
    let lives = 3 + random.below(8);
    for _ in 0..lives {
        world.faulty = false;
        let doomed = random.below(4) != 0;
        if doomed {
            let within = random.one_of(&[40, 200, 800]);
            let op = world.fs.ops() + random.below(within);
            let bytes = random.one_of(&[0, 0, 512, 1000, 2600]);
            world.fs.crash_in_write(op, bytes);
        }
        // Recovery needs no space; what comes after it may.
        world.recover();
        world.faulty |= world.full();
        let mut staged = Vec::new();
        for _ in 0..random.below(30) {
            act(&mut world, &mut random, &mut staged);
        }
        if !doomed && random.below(2) == 0 {
            world.mend();
            world.close();
        }
        for staged in staged {
            world.settle(staged);
        }
        world.abandon();
        world.fs.clear_faults();
        crash(&mut random).strike(&world.fs);
    }
    world.faulty = false;
    world.recover();
    world.mend();
    goes_on(&mut world);
    world.work();
    world.check_generations();
    world.close();
    world.recover();
    world.check_budget();
    lives
}

#[test]
fn i6_random_lives_keep_every_invariant() {
    let setting = |name| std::env::var(name).ok().map(|value| value.parse().expect("a number"));
    let seed: Option<u64> = setting("PLIMSOLL_CRASH_SEED");
    let count = setting("PLIMSOLL_CRASH_NODES").unwrap_or(match seed {
        Some(_) => 1,
        None if full() => 20_000,
        None => 1_500,
    });
    let first = seed.unwrap_or(1);
    let mut lives = 0;
    for seed in first..first + count {
        match catch_unwind(AssertUnwindSafe(|| live(seed))) {
            Ok(lived) => lives += lived,
            Err(panic) => {
                println!("replay with PLIMSOLL_CRASH_SEED={seed}");
                resume_unwind(panic);
            }
        }
    }
    println!("{lives} random lives of {count} nodes, seeds from {first}");
}
