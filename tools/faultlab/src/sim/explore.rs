//! Tries every crash of a script, and of the recovery that follows it.
//!
//! A script runs once without a crash to learn its operations. Then it runs again for each operation that changes
//! anything, and dies there; a write also dies half-done. Each of these states is crashed in every kind of [`Crash`],
//! and what is left is recovered, checked, and appended to. That second life dies at each of its operations too, is
//! crashed again in every kind, and what is left is recovered and checked for good.
//!
//! First crashes are always tried at every operation. Where the second ones are too many for a default run, a fixed
//! share of them is taken, by a seed that is printed; a full run takes all.

use super::aloud::say;
use super::caught::caught;
use super::crash::{Crash, Point};
use super::world::World;
use plimsoll::fs::sim::{Count, NothingPersisted, OpKind, Profile, Scripted, SimFileSystem};
use std::collections::HashSet;

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

impl Stats {
    /// In one line.
    pub fn words(&self, effort: Effort) -> String {
        let Self { points, exhausted, states, distinct, .. } = self;
        format!(
            "{points} first points, {exhausted} with every outcome; second points: {}; {states} states, {distinct} distinct",
            self.seconds(effort)
        )
    }

    /// How many second points were tried; a sample is called one.
    pub fn seconds(&self, effort: Effort) -> String {
        let Self { second, second_of, .. } = self;
        if second < second_of {
            format!("sampled {second} of {second_of}, seed {}", effort.seed)
        } else {
            format!("all {second_of}")
        }
    }
}

/// The end of one life: at a point, or without one, and in which crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub point: Point,
    /// None if the life itself did not get so far.
    pub crash: Option<Crash>,
}

/// A way through a plan: how the script ends, and how the life after it, as far as they are ended at all.
pub type Ends = Vec<End>;

/// A state that the engine did not survive.
#[derive(Debug)]
pub struct Failure {
    pub stats: Stats,
    /// What [`replay`] takes.
    pub ends: Ends,
    pub what: String,
}

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Every second point, and more outcomes of each power cut.
    pub full: bool,
    /// Which ones are taken where not all are.
    pub seed: u64,
}

/// Whether tests are to leave nothing out.
pub fn full() -> bool {
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
fn guard<T>(stats: Stats, ends: impl Fn() -> Ends, run: impl FnOnce() -> T) -> Result<T, Failure> {
    caught(run).map_err(|what| Failure { stats, ends: ends(), what })
}

/// Runs `life` on a copy of `from` until `point`.
pub fn live(from: &World, point: Option<Point>, life: impl FnOnce(&mut World)) -> World {
    let mut world = from.fork();
    world.listen();
    world.dies_at(point);
    life(&mut world);
    if point.is_none() {
        world.came_to_an_end();
    }
    world.abandon();
    world.say_calls();
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

/// What follows the first crash.
pub fn second_life(plan: &Plan) -> impl Fn(&mut World) + use<> {
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
    world.dies_at(None);
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
    world.came_to_an_end();
    world.fs.power_cut(&mut NothingPersisted);
    world.dies_at(None);
    world.recover();
    let after: Vec<_> = world.oracle.names().iter().map(|log| world.view(log)).collect();
    assert_eq!(before, after, "I10: two recoveries of one image");
    world.close();
    world.came_to_an_end();
}

impl Explorer {
    /// The crashes to try on a machine, each with what it left; and whether they are all that there are.
    fn crashes(
        &mut self,
        world: &World,
        most: u64,
        seeds: u64,
    ) -> (Vec<(Crash, SimFileSystem)>, bool) {
        let mut kinds = vec![Crash::Death];
        if self.plan.evicts {
            kinds.push(Crash::Evict);
        }
        let mut count = Count::default();
        let all_persisted = world.fs.fork();
        all_persisted.power_cut(&mut count);
        let mut images = Vec::new();
        let all = count.outcomes <= most;
        if !all {
            kinds.push(Crash::Nothing);
            kinds.extend((0..seeds).map(|_| Crash::Seed(self.next() % 1_000_000)));
            images.push((Crash::All, all_persisted));
        }
        images.extend(kinds.into_iter().map(|crash| {
            let fs = world.fs.fork();
            crash.strike(&fs);
            (crash, fs)
        }));
        if all {
            let mut script = Scripted::default();
            loop {
                let fs = world.fs.fork();
                fs.power_cut(&mut script);
                images.push((Crash::Script(script.script()), fs));
                if !script.advance() {
                    break;
                }
            }
        }
        (images, all)
    }

    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random >> 32
    }

    /// Whether this state was met before.
    fn known(&mut self, crash: &Crash, fs: &SimFileSystem, oracle: u64) -> bool {
        self.stats.states += 1;
        let new = !crash.settles() || self.seen.insert((fs.fingerprint(), oracle));
        self.stats.distinct += usize::from(new);
        !new
    }

    fn run(&mut self) -> Outcome {
        let plan = self.plan;
        let base = guard(self.stats, Ends::new, || begin(&plan))?;
        let points = guard(self.stats, Ends::new, || points(&base, plan.script))?;
        self.stats.points = points.len();
        let mut images = Vec::new();
        for point in points {
            let ends = || vec![End { point, crash: None }];
            let dead = guard(self.stats, ends, || live(&base, Some(point), plan.script))?;
            let (crashes, all) =
                self.crashes(&dead, plan.exhaustive * if self.full { 16 } else { 1 }, plan.seeds);
            self.stats.exhausted += usize::from(all);
            let oracle = dead.oracle.digest();
            for (crash, fs) in crashes {
                if self.known(&crash, &fs, oracle) {
                    continue;
                }
                let image = dead.on(fs);
                let first = End { point, crash: Some(crash) };
                let ends = || vec![first.clone()];
                let life = second_life(&plan);
                guard(self.stats, ends, || settle(&mut image.fork()))?;
                let seconds = guard(self.stats, ends, || self::points(&image, life))?;
                self.stats.second_of += seconds.len();
                images.push((first, image, seconds));
            }
        }
        let wanted = if self.full { usize::MAX } else { plan.second };
        self.share = (wanted as u64).saturating_mul(1 << 32) / (self.stats.second_of as u64).max(1);
        for (first, image, seconds) in images {
            for second in seconds {
                if self.next() < self.share {
                    self.stats.second += 1;
                    self.second(&image, &first, second)?;
                }
            }
        }
        Ok(())
    }

    fn second(&mut self, image: &World, first: &End, point: Point) -> Outcome {
        let life = second_life(&self.plan);
        let ends = |crash| vec![first.clone(), End { point, crash }];
        let dead = guard(self.stats, || ends(None), || live(image, Some(point), life))?;
        let (crashes, _) = self.crashes(
            &dead,
            if self.full { 64 } else { self.plan.second_exhaustive },
            if self.full { 4 } else { 1 },
        );
        let oracle = dead.oracle.digest();
        for (crash, fs) in crashes {
            if !self.known(&crash, &fs, oracle) {
                let mut image = dead.on(fs);
                guard(self.stats, || ends(Some(crash.clone())), || settle(&mut image))?;
            }
        }
        Ok(())
    }
}

/// Where the plan's script begins.
pub fn begin(plan: &Plan) -> World {
    let base = (plan.prepare)();
    base.fs.set_profile(plan.profile);
    base
}

/// Tries a plan; gives what was tried, or the first state that the engine did not survive.
pub fn explore(plan: Plan, effort: Effort) -> Result<Stats, Failure> {
    let mut explorer = Explorer {
        plan,
        stats: Stats::default(),
        seen: HashSet::new(),
        full: effort.full,
        share: 0,
        random: effort.seed,
    };
    explorer.run()?;
    Ok(explorer.stats)
}

/// Replays one way through a plan; panics where an invariant does not hold.
pub fn replay(plan: &Plan, ends: &[End]) {
    let base = begin(plan);
    say(format_args!("the script of {}:", plan.name));
    let mut world = live(&base, ends.first().map(|end| end.point), plan.script);
    let Some(crash) = ends.first().and_then(|end| end.crash.as_ref()) else { return };
    crash.strike(&world.fs);
    if let Some(second) = ends.get(1) {
        say(format_args!("the life after it:"));
        world = live(&world, Some(second.point), second_life(plan));
        let Some(crash) = &second.crash else { return };
        crash.strike(&world.fs);
    } else {
        // Either of the two that the search tries here.
        let from = world.fork();
        say(format_args!("the life after it:"));
        live(&from, None, second_life(plan));
        say(format_args!("and for good:"));
    }
    world.listen();
    settle(&mut world);
}
