//! What a node's owner, and the world around it, do in random lives.

use super::constructed;
use super::random::Random;
use super::world::{SIZES, Staged, World};
use plimsoll::fs::sim::{Charges, Fault, OpKind, Reached, What};
use plimsoll::{PoolLimits, Size, WriteClass};

const LOGS: [&str; 4] = ["a", "deep/b", "deep/c", "d"];
const LENS: [usize; 9] = [64, 100, 512, 512, 513, 1024, 2048, 3000, 4096];

/// One thing that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Append,
    Stage,
    Settle,
    TruncateAll,
    TruncatePart,
    Delete,
    Idle,
    Work,
    Read,
    Break,
    Mend,
    Evict,
    Steps,
    FillFiles,
    SetPool,
    Release,
    FillDisk,
    Acknowledge,
    Forge,
    Check,
    /// More than staging holds, or than a commit vouches for without a checkpoint.
    Megabytes,
}

/// How often each is done where a node has no habit of its own.
const USUAL: [(Act, usize); 20] = [
    (Act::Append, 11),
    (Act::Stage, 3),
    (Act::Settle, 1),
    (Act::TruncateAll, 1),
    (Act::TruncatePart, 1),
    (Act::Delete, 1),
    (Act::Idle, 1),
    (Act::Work, 2),
    (Act::Read, 1),
    (Act::Break, 1),
    (Act::Mend, 1),
    (Act::Evict, 1),
    (Act::Steps, 2),
    (Act::FillFiles, 1),
    (Act::SetPool, 1),
    (Act::Release, 1),
    (Act::FillDisk, 1),
    (Act::Acknowledge, 1),
    (Act::Forge, 1),
    (Act::Check, 1),
];

/// The records of a node.
#[derive(Clone, Copy, Debug)]
enum Lens {
    /// All of one length, so that new ones take exactly the places of lost ones.
    Same(usize),
    /// Ends of records and of blocks meet, and do not.
    Halves,
    Any,
}

/// What a node's lives are mostly made of. What it takes several rare things to meet, a node that does everything meets
/// too seldom: so each does a part, and some of that often.
#[derive(Clone, Debug)]
pub struct Habits {
    logs: &'static [&'static str],
    lens: Lens,
    acts: Vec<Act>,
    /// Which kinds of calls fail; any if none is named.
    breaks: Option<OpKind>,
    /// How many actions a life has at most.
    pub most: u64,
    /// Calls fail from the start of a life on.
    pub breaks_early: bool,
}

/// A node that does little else, as some mistakes show only where the same few things meet again and again.
struct Narrow {
    logs: usize,
    acts: &'static [(Act, usize)],
    most: &'static [u64],
}

const NARROW: [Narrow; 5] = [
    // Records over what crashes left of others.
    Narrow { logs: 1, acts: &[(Act::Append, 8), (Act::Read, 1), (Act::Work, 1)], most: &[1, 2, 3] },
    // Files that fail.
    Narrow {
        logs: 1,
        acts: &[
            (Act::Append, 4),
            (Act::Break, 3),
            (Act::TruncateAll, 2),
            (Act::Evict, 1),
            (Act::Work, 1),
        ],
        most: &[3, 5, 8],
    },
    // Logs that go and come again.
    Narrow {
        logs: 4,
        acts: &[(Act::Append, 2), (Act::Delete, 2), (Act::Work, 1), (Act::FillFiles, 1)],
        most: &[1, 2, 4],
    },
    // Files that are given up and taken again.
    Narrow {
        logs: 2,
        acts: &[
            (Act::FillFiles, 2),
            (Act::TruncateAll, 2),
            (Act::Append, 2),
            (Act::Work, 2),
            (Act::Steps, 2),
        ],
        most: &[1, 2, 4],
    },
    // A disk that is full, and is not.
    Narrow {
        logs: 2,
        acts: &[
            (Act::FillDisk, 3),
            (Act::Append, 4),
            (Act::Acknowledge, 4),
            (Act::TruncateAll, 1),
            (Act::Work, 2),
            (Act::Mend, 1),
        ],
        most: &[6, 12],
    },
];

fn bag(acts: impl IntoIterator<Item = (Act, usize)>) -> Vec<Act> {
    acts.into_iter().flat_map(|(act, count)| std::iter::repeat_n(act, count)).collect()
}

impl Habits {
    pub fn of(random: &mut Random) -> Self {
        let lens = match random.below(6) {
            0..=1 => Lens::Same(512),
            2 => Lens::Same(1024),
            3 => Lens::Halves,
            _ => Lens::Any,
        };
        let kinds = [OpKind::Sync, OpKind::SyncDir, OpKind::Rename, OpKind::Write];
        let breaks = if random.below(2) == 0 { None } else { Some(random.one_of(&kinds)) };
        let breaks_early = random.below(4) == 0;
        let (kind, count) = (random.below(10), random.one_of(&[1, 1, 2, 4]));
        if let Some(narrow) = usize::try_from(kind).ok().and_then(|kind| NARROW.get(kind)) {
            return Self {
                logs: &LOGS[..narrow.logs],
                lens,
                acts: bag(narrow.acts.iter().copied()),
                breaks,
                most: random.one_of(narrow.most),
                breaks_early: breaks_early && random.below(2) == 0,
            };
        }
        let often =
            |random: &mut Random| if kind == 9 { 1 } else { random.one_of(&[0, 0, 1, 1, 4]) };
        let acts = USUAL.map(|(act, usual)| {
            let often = often(random);
            (act, usual * if act == Act::Append { often.max(1) } else { often })
        });
        Self {
            logs: &LOGS[..count],
            lens,
            acts: bag(acts),
            breaks,
            most: random.one_of(&[2, 3, 5, 12, 30]),
            breaks_early,
        }
    }

    /// A node with files of megabytes: few lives, as they take long.
    pub fn of_large(random: &mut Random) -> Self {
        let acts = vec![Act::Megabytes, Act::Append, Act::Append, Act::Work];
        Self {
            logs: &LOGS[..1],
            lens: Lens::Any,
            acts,
            breaks: None,
            most: 2 + random.below(3),
            breaks_early: false,
        }
    }

    fn lens(&self, random: &mut Random) -> Vec<usize> {
        let count = random.one_of(&[1, 1, 1, 2, 2, 3, 5, 9]);
        let same = random.below(2) == 0;
        let first = random.one_of(&LENS);
        let any = |random: &mut Random| match self.lens {
            Lens::Same(len) => len,
            Lens::Halves => random.one_of(&[512, 512, 1024, 1536]),
            Lens::Any if same => first,
            Lens::Any => random.one_of(&LENS),
        };
        (0..count).map(|_| any(random)).collect()
    }

    /// Breaks a call or a few.
    pub fn break_something(&self, world: &mut World, random: &mut Random) {
        for _ in 0..random.one_of(&[1, 1, 2, 3]) {
            world.inject(fault(random, self.breaks));
        }
    }

    /// One thing that a node's owner, or the world around it, does.
    pub fn act(&self, world: &mut World, random: &mut Random, staged: &mut Vec<Staged>) {
        let log = random.one_of(self.logs);
        match random.one_of(&self.acts) {
            Act::Append => {
                world.open(log);
                let lens = self.lens(random);
                world.append(log, &lens);
            }
            Act::Stage => {
                world.open(log);
                staged.extend(world.stage(log, &self.lens(random)));
            }
            Act::Settle => {
                for staged in std::mem::take(staged) {
                    world.settle(staged);
                }
            }
            Act::TruncateAll => world.truncate_all(log),
            Act::TruncatePart => {
                let before = random.below(40);
                if world.is_open(log) {
                    world.truncate(log, before.min(world.log(log).durable().0));
                }
            }
            Act::Delete => {
                if world.oracle.knows(log) {
                    world.delete(log);
                }
            }
            Act::Idle => world.idle(),
            Act::Work => world.work(),
            Act::Read => world.read(log),
            Act::Break => self.break_something(world, random),
            Act::Mend => world.mend(),
            Act::Evict => world.fs.evict_all(),
            Act::Steps => world.steps(1 + random.below(4)),
            Act::FillFiles => {
                // So that the pool has much to do: a log fills its files and gives them up.
                world.open(log);
                world.append(log, &[512; 40]);
                world.truncate_all(log);
                world.steps(random.below(3));
            }
            Act::SetPool => {
                let pool = pool(random);
                world.set_pool(pool);
            }
            Act::Release => world.release_spares(),
            Act::FillDisk => {
                // Nothing more, or a file or two.
                let room = random.one_of(&[0, SIZES.tiny, SIZES.small, SIZES.main]);
                world.fill_disk(room);
            }
            Act::Acknowledge => {
                world.open(log);
                let class = random.one_of(&[WriteClass::Acknowledge, WriteClass::Coordination]);
                let lens = self.lens(random);
                world.append_as(class, log, &lens);
            }
            Act::Forge => {
                world.open(log);
                let ahead = random.below(3);
                staged.extend(constructed::stage_a_record_in_a_payload(world, log, ahead));
            }
            Act::Check => {
                world.idle();
                world.work();
                world.check_generations();
            }
            Act::Megabytes => megabytes(world, log, random),
        }
    }
}

fn megabytes(world: &mut World, log: &str, random: &mut Random) {
    world.open(log);
    if random.below(4) == 0 {
        let staged: Vec<_> = (0..10).map(|_| world.stage(log, &[256 * 1024])).collect();
        staged.into_iter().flatten().for_each(|staged| {
            world.settle(staged);
        });
    } else {
        // The commit behind them takes a checkpoint along.
        for _ in 0..5 {
            world.append(log, &[256 * 1024]);
        }
    }
}

fn fault(random: &mut Random, only: Option<OpKind>) -> Fault {
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
    let fits = |kind: OpKind| only.is_none_or(|only| kind == only);
    let kinds: Vec<_> = kinds.into_iter().filter(|(kind, _)| fits(*kind)).collect();
    let (kind, what) = random.one_of(&kinds);
    let most = random.one_of(&[1, 3, 6]);
    let fault = Fault::nth(kind, random.below(most), what);
    // Most calls are not the logs', whose failures are the hardest to get right.
    if random.below(3) == 0 { fault.on("logs/") } else { fault }
}

/// Settings of the pool: budgets for nothing, for a few files and for all, with and without files kept back.
pub fn pool(random: &mut Random) -> PoolLimits {
    let mut pool = super::world::options().limits.pool;
    pool.budget_cap = Size(random.one_of(&[0, SIZES.main, 3 * SIZES.main, 1 << 30]));
    pool.prepared = random.one_of(&[0, 1, 2]);
    pool.kept_back = Size(random.one_of(&[0, 1, 3]) * SIZES.tiny);
    pool
}

/// What else takes room on the disk.
pub fn charges(random: &mut Random) -> Charges {
    let plain = Charges::default();
    match random.below(6) {
        0 => Charges { rename: 1, ..plain },
        1 => Charges { create: 1, ..plain },
        _ => plain,
    }
}
