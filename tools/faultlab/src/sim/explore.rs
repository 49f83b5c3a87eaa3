//! Tries every crash of a script, and of the recovery that follows it.
//!
//! A script runs once without a crash to learn its operations. Then it runs again for each operation that changes
//! anything, and dies there; a write also dies half-done. Each of these states is crashed in every kind of [`Crash`],
//! and what is left is recovered, checked, and appended to. That second life dies at each of its operations too, is
//! crashed again in every kind, and what is left is recovered and checked for good.
//!
//! First crashes are always tried at every operation. Where the second ones are too many for a default run, a fixed
//! share of them is taken, by a seed that is printed. `PLIMSOLL_CRASH_FULL=1` takes all.

use super::world::World;
use plimsoll::fs::sim::{
    AllPersisted, Count, NothingPersisted, OpKind, Profile, Scripted, Seeded, SimFileSystem,
};
use std::collections::HashSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

/// How the machine goes down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process dies; the page cache stays.
    Death,
    /// The process dies, and the kernel drops every clean page.
    Evict,
    /// The power fails after everything got to the disk.
    All,
    /// The power fails and only what was synced is left.
    Nothing,
    /// The power fails and this seed says what is left.
    Seed(u64),
    /// The power fails and these answers say what is left.
    Script(Vec<usize>),
}

impl Crash {
    pub fn strike(&self, fs: &SimFileSystem) {
        if std::env::var_os("PLIMSOLL_CRASH_VERBOSE").is_some() {
            println!("crash: {self}");
        }
        match self {
            Self::Death => fs.process_death(),
            Self::Evict => {
                fs.process_death();
                fs.evict_all();
            }
            Self::All => fs.power_cut(&mut AllPersisted),
            Self::Nothing => fs.power_cut(&mut NothingPersisted),
            Self::Seed(seed) => fs.power_cut(&mut Seeded::new(*seed)),
            Self::Script(script) => fs.power_cut(&mut Scripted::new(script.clone())),
        }
    }

    /// Whether the state is the disk alone, so that equal bytes are equal states.
    fn settles(&self) -> bool {
        !matches!(self, Self::Death | Self::Evict)
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Death => out.write_str("death"),
            Self::Evict => out.write_str("evict"),
            Self::All => out.write_str("all"),
            Self::Nothing => out.write_str("nothing"),
            Self::Seed(seed) => write!(out, "seed:{seed}"),
            Self::Script(script) => {
                let picks: Vec<String> = script.iter().map(usize::to_string).collect();
                write!(out, "script:{}", picks.join(","))
            }
        }
    }
}

impl FromStr for Crash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |error: std::num::ParseIntError| format!("{text}: {error}");
        Ok(match text.split_once(':') {
            None if text == "death" => Self::Death,
            None if text == "evict" => Self::Evict,
            None if text == "all" => Self::All,
            None if text == "nothing" => Self::Nothing,
            Some(("seed", seed)) => Self::Seed(seed.parse().map_err(wrong)?),
            Some(("script", "")) => Self::Script(Vec::new()),
            Some(("script", picks)) => {
                let picks = picks.split(',').map(str::parse).collect::<Result<_, _>>();
                Self::Script(picks.map_err(wrong)?)
            }
            _ => return Err(format!("{text}: no kind of crash")),
        })
    }
}

/// Where a life ends: before the operation with this number, or in it after so many bytes if it is a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    op: u64,
    bytes: usize,
}

impl fmt::Display for Point {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}+{}", self.op, self.bytes)
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('+').and_then(|(op, bytes)| {
            Some(Self { op: op.parse().ok()?, bytes: bytes.parse().ok()? })
        });
        parts.ok_or_else(|| format!("{text}: expected OP+BYTES"))
    }
}

/// What is tried.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub name: &'static str,
    /// Brings the machine where the script begins; does not crash.
    pub prepare: fn() -> World,
    pub script: fn(&mut World),
    /// What the life after the first crash does once it has recovered.
    pub after: fn(&mut World),
    /// The script lets syncs fail, so the cache may hold what the disk does not.
    pub evicts: bool,
    pub profile: Profile,
    /// About how many second crashes a default run takes.
    pub second: usize,
    /// How many outcomes of one power cut are all tried; where there are more, seeds.
    pub exhaustive: u64,
    /// Seeds for power cuts with more outcomes.
    pub seeds: u64,
    /// As `exhaustive`, for second crashes.
    pub second_exhaustive: u64,
}

impl Plan {
    pub const fn new(name: &'static str, prepare: fn() -> World, script: fn(&mut World)) -> Self {
        Self {
            name,
            prepare,
            script,
            after: next_appends,
            evicts: false,
            profile: Profile {
                sectors: plimsoll::fs::sim::Sectors::Torn512,
                names: plimsoll::fs::sim::Names::Subset,
            },
            second: 2_000,
            exhaustive: 64,
            seeds: 6,
            second_exhaustive: 4,
        }
    }
}

/// The next three appends, of the sizes that the scripts use, so that new records take the places of lost ones.
pub fn next_appends(world: &mut World) {
    let names = world.oracle.names();
    let log = names.first().map_or("a", String::as_str).to_owned();
    world.open(&log);
    world.append(&log, &[512]);
    world.append(&log, &[512, 512]);
    world.append(&log, &[512]);
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    pub points: usize,
    /// First points whose every outcome was tried.
    pub exhausted: usize,
    /// Crash + recovery + check.
    pub states: usize,
    /// Those of them that no other had the same bytes as.
    pub distinct: usize,
    pub second_of: usize,
    pub second: usize,
}

/// A state that the engine did not survive.
#[derive(Debug)]
pub struct Failure {
    pub stats: Stats,
    /// What [`replay`] takes.
    pub how: String,
    pub what: String,
}

pub fn full() -> bool {
    #[allow(clippy::disallowed_methods, reason = "not the engine: a test's setting")]
    std::env::var_os("PLIMSOLL_CRASH_FULL").is_some_and(|value| value == "1")
}

struct Explorer {
    plan: Plan,
    stats: Stats,
    seen: HashSet<(u64, u64)>,
    full: bool,
    /// Second crashes are taken when a number below 2^32 that follows the seed is below this.
    share: u64,
    random: u64,
}

type Outcome = Result<(), Failure>;

/// Runs a check, and turns its panic into a [`Failure`] that can be replayed.
fn guard<T>(stats: Stats, how: impl Fn() -> String, run: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let what = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Failure { stats, how: how(), what: what.unwrap_or_else(|| "a panic".to_owned()) }
    })
}

/// Runs `life` on a copy of `from` until `point`.
fn live(from: &World, point: Option<Point>, life: impl FnOnce(&mut World)) -> World {
    let mut world = from.fork();
    if let Some(Point { op, bytes }) = point {
        world.fs.crash_in_write(op, bytes);
    }
    life(&mut world);
    world.abandon();
    world
}

/// The points where a life can end: every operation that changes anything, writes half-done, and behind the last one.
fn points(from: &World, life: impl FnOnce(&mut World)) -> Vec<Point> {
    let world = live(from, None, |world| {
        world.fs.record(true);
        life(world);
    });
    let trace = world.fs.trace();
    let mut points = Vec::new();
    for op in trace.iter().filter(|op| op.kind.changes()) {
        points.push(Point { op: op.number, bytes: 0 });
        if op.kind == OpKind::Write && op.len > 512 {
            let len = usize::try_from(op.len).unwrap_or(usize::MAX);
            points.extend([512, len / 2 + 8].map(|bytes| Point { op: op.number, bytes }));
        }
    }
    points.push(Point { op: world.fs.ops(), bytes: 0 });
    points
}

fn second_life(plan: &Plan) -> impl Fn(&mut World) + use<> {
    let after = plan.after;
    move |world| {
        world.faulty = false;
        world.recover();
        after(world);
    }
}

/// The last word on a state: it can be read and written, and a further recovery makes the same of it.
pub fn settle(world: &mut World) {
    world.faulty = false;
    world.recover();
    // The disk had to do for recovery; new files need room.
    world.fs.set_capacity(None);
    world.fs.set_space(None);
    for log in world.oracle.names() {
        world.open(&log);
        assert!(world.append(&log, &[512]), "log {log} takes no append");
        world.read(&log);
    }
    if world.pooled {
        world.settle_spares();
    }
    let before: Vec<_> = world.oracle.names().iter().map(|log| world.view(log)).collect();
    world.abandon();
    world.fs.power_cut(&mut NothingPersisted);
    world.recover();
    let after: Vec<_> = world.oracle.names().iter().map(|log| world.view(log)).collect();
    assert_eq!(before, after, "I10: two recoveries of one image");
    world.close();
    assert!(!world.dead());
}

impl Explorer {
    /// The kinds of crash to try on a machine; and whether they are all that there are.
    fn kinds(&mut self, world: &World, most: u64, seeds: u64) -> (Vec<Crash>, bool) {
        let mut kinds = vec![Crash::Death];
        if self.plan.evicts {
            kinds.push(Crash::Evict);
        }
        let mut count = Count::default();
        world.fs.fork().power_cut(&mut count);
        if count.outcomes <= most {
            let mut script = Scripted::default();
            loop {
                world.fs.fork().power_cut(&mut script);
                kinds.push(Crash::Script(script.script()));
                if !script.advance() {
                    return (kinds, true);
                }
            }
        }
        kinds.extend([Crash::All, Crash::Nothing]);
        for _ in 0..seeds {
            kinds.push(Crash::Seed(self.next() % 1_000_000));
        }
        (kinds, false)
    }

    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random >> 32
    }

    /// Whether this state was met before.
    fn known(&mut self, crash: &Crash, world: &World) -> bool {
        self.stats.states += 1;
        let new =
            !crash.settles() || self.seen.insert((world.fs.fingerprint(), world.oracle.digest()));
        self.stats.distinct += usize::from(new);
        !new
    }

    fn run(&mut self) -> Outcome {
        let plan = self.plan;
        let base = (plan.prepare)();
        base.fs.set_profile(plan.profile);
        let whole = || format!("{} without a crash", plan.name);
        let points = guard(self.stats, whole, || points(&base, plan.script))?;
        self.stats.points = points.len();
        let mut images = Vec::new();
        for point in points {
            let how = || format!("{} {point}", plan.name);
            let dead = guard(self.stats, how, || live(&base, Some(point), plan.script))?;
            let (kinds, all) =
                self.kinds(&dead, plan.exhaustive * if self.full { 16 } else { 1 }, plan.seeds);
            self.stats.exhausted += usize::from(all);
            for crash in kinds {
                let image = dead.fork();
                crash.strike(&image.fs);
                if self.known(&crash, &image) {
                    continue;
                }
                let how = || format!("{} {point} {crash}", plan.name);
                let life = second_life(&plan);
                guard(self.stats, how, || settle(&mut image.fork()))?;
                let seconds = guard(self.stats, how, || self::points(&image, life))?;
                self.stats.second_of += seconds.len();
                images.push((point, crash, image, seconds));
            }
        }
        let wanted = if self.full { usize::MAX } else { plan.second };
        self.share = (wanted as u64).saturating_mul(1 << 32) / (self.stats.second_of as u64).max(1);
        for (point, crash, image, seconds) in images {
            for second in seconds {
                if self.next() >= self.share {
                    continue;
                }
                self.stats.second += 1;
                self.second(&image, &format!("{} {point} {crash}", plan.name), second)?;
            }
        }
        Ok(())
    }

    fn second(&mut self, image: &World, first: &str, second: Point) -> Outcome {
        let life = second_life(&self.plan);
        let how = || format!("{first} {second}");
        let dead = guard(self.stats, how, || live(image, Some(second), life))?;
        let (kinds, _) = self.kinds(
            &dead,
            if self.full { 64 } else { self.plan.second_exhaustive },
            if self.full { 4 } else { 1 },
        );
        for crash in kinds {
            let mut image = dead.fork();
            crash.strike(&image.fs);
            if !self.known(&crash, &image) {
                let how = || format!("{first} {second} {crash}");
                guard(self.stats, how, || settle(&mut image))?;
            }
        }
        Ok(())
    }
}

/// Tries a plan; gives what was tried, or the first state that the engine did not survive.
pub fn explore(plan: Plan, seed: u64) -> Result<Stats, Failure> {
    let mut explorer = Explorer {
        plan,
        stats: Stats::default(),
        seen: HashSet::new(),
        full: full(),
        share: 0,
        random: seed,
    };
    explorer.run()?;
    Ok(explorer.stats)
}

/// Explores a plan that must hold, and prints what was tried.
pub fn must_hold(plan: Plan) {
    const SEED: u64 = 7;
    match explore(plan, SEED) {
        Ok(stats) => {
            let Stats { points, exhausted, states, distinct, second_of, second } = stats;
            let sampled = if second < second_of {
                format!("sampled {second} of {second_of}, seed {SEED}")
            } else {
                format!("all {second_of}")
            };
            println!(
                "{}: {points} first points, {exhausted} with every outcome; second points: {sampled}; \
                 {states} states, {distinct} distinct",
                plan.name
            );
        }
        Err(Failure { stats, how, what }) => panic!(
            "{what}\n  after {} states; replay with PLIMSOLL_CRASH_REPLAY=\"{how}\" (seed {SEED})",
            stats.states
        ),
    }
}

/// Replays one state: name of the plan, then point, crash, point, crash, as far as they are given.
pub fn replay(plan: &Plan, how: &[&str]) -> Result<(), String> {
    let base = (plan.prepare)();
    base.fs.set_profile(plan.profile);
    let mut world = live(&base, how.first().map(|point| point.parse()).transpose()?, plan.script);
    let Some(crash) = how.get(1) else { return Ok(()) };
    crash.parse::<Crash>()?.strike(&world.fs);
    if let Some(second) = how.get(2) {
        world = live(&world, Some(second.parse()?), second_life(plan));
        let Some(crash) = how.get(3) else { return Ok(()) };
        crash.parse::<Crash>()?.strike(&world.fs);
    }
    settle(&mut world);
    Ok(())
}
