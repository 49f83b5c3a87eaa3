//! Random lives of a node: several logs, faults and crashes in any of them, and the oracle after each.
//!
//! Everything follows from a seed, and each action from a number of its own, so that one can be left out without changing
//! the others: see [`Run`].

use super::acts::{self, Habits};
use super::aloud::say;
use super::commits::CommitPath;
use super::crash::{Crash, Point};
use super::faults::goes_on;
use super::random::Random;
use super::rot;
use super::weather;
use super::world::{SIZES, World};
use plimsoll::format::layout::ClassSizes;
use plimsoll::fs::sim::{Names, Profile, Sectors, SimFileSystem};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

fn crash(random: &mut Random) -> Crash {
    match random.below(10) {
        0 | 1 => Crash::Death,
        2 => Crash::Evict,
        3 => Crash::All,
        4 => Crash::Nothing,
        5 | 6 => Crash::Seed(random.below(1 << 20)),
        _ => Crash::Mixed(random.below(1 << 20)),
    }
}

/// Room for records that are large for what staging holds, and for a commit that takes a checkpoint along.
const LARGE: ClassSizes = ClassSizes { tiny: 65536, small: 65536, main: 2 << 20 };

/// A run of lives: all that a seed says, but for what is left out or replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub seed: u64,
    /// How commits are written; by the seed, unless a case says it.
    pub path: CommitPath,
    /// Only so many lives, none where the seed says it.
    pub lives: Option<u64>,
    /// Lives left out, with the crashes that end them.
    pub without_lives: BTreeSet<u64>,
    /// Actions left out, by life and number in it.
    pub without_actions: BTreeSet<(u64, u64)>,
    /// Lives that do not end in the middle of an operation.
    pub undoomed: BTreeSet<u64>,
    /// How lives end, where it is not as the seed says.
    pub crashes: BTreeMap<u64, Crash>,
}

impl Run {
    pub fn of(seed: u64) -> Self {
        Self { seed, path: CommitPath::of_seed(seed), ..Self::default() }
    }
}

/// What was met on the way, also where it ended early.
#[derive(Clone, Debug, Default)]
pub struct Met {
    pub lives: u64,
    pub crashes: u64,
    /// Comparisons of what the engine shows with what must hold.
    pub checks: u64,
    /// Hashes of what the crashes left.
    pub images: Vec<u64>,
    /// With nothing broken any more, every log went on and the spares were within their budget.
    pub calm: bool,
    /// A hash of every choice, where it was asked for: each call with number, kind, path, place and length, what was drawn,
    /// and what each crash left.
    pub choices: Option<u64>,
    /// How many actions each life had, by its number.
    pub actions: BTreeMap<u64, u64>,
}

/// Marks what is drawn for [`weather`].
const WEATHER: u64 = 0x77_65_61;

/// What a run is made of, beside its lives.
fn begin(run: &Run) -> (World, Habits, u64) {
    let seed = run.seed;
    let random = &mut Random::of(&[seed]);
    let kind = random.below(128);
    let (mut world, habits, lives) = match kind {
        0 => {
            let world = World::new(seed, LARGE);
            (world, Habits::of_large(random), 2 + random.below(3))
        }
        // It makes its data directory itself.
        1..=3 => {
            let mut world = World::bare(seed);
            world.options.segment_size = 64 * 1024;
            (world, Habits::of(random), 2 + random.below(3))
        }
        _ => {
            let habits = Habits::of(random);
            // Short lives are many, so that one meets what the last left, and the next what that made of it.
            let lives = 3 + random.below(if habits.most < 10 { 12 } else { 6 });
            (World::new(seed, SIZES), habits, lives)
        }
    };
    run.path.set(&world.fs);
    world.fs.set_profile(Profile {
        sectors: random.one_of(&[
            Sectors::Torn512,
            Sectors::Torn512,
            Sectors::Atomic4K,
            Sectors::Prefix,
        ]),
        names: random.one_of(&[Names::Subset, Names::Subset, Names::Prefix]),
    });
    world.fs.set_charges(acts::charges(random));
    // Drawn apart, so that a seed's lives are else the same.
    world.pressure = Random::of(&[seed, WEATHER]).below(4) == 0;
    if random.below(2) == 0 {
        world.options.limits.pool = acts::pool(random);
    }
    if random.below(3) == 0 {
        world = world.with_last_generation(random.one_of(&[1, 3]));
    }
    (world, habits, lives)
}

/// One life up to its crash; gives that.
fn live(world: &mut World, habits: &Habits, run: &Run, number: u64, note: &mut Note<'_>) -> Crash {
    let mut random = Random::of(&[run.seed, number]);
    (world.faulty, world.broken) = (false, false);
    let actions = random.below(habits.most + 1);
    let (doomed, closes) = (random.below(6) != 0, random.below(2) == 0);
    // In the action with this number, or, by the one behind the last, while it recovers; and some calls later.
    let at = random.below(actions + 1);
    let within = random.one_of(if at == actions { &[40, 160] } else { &[6, 15, 50] });
    let (op, bytes) = (random.below(within), random.one_of(&[0, 0, 512, 1000, 2600]));
    let crash = crash(&mut random);
    let doomed_here = doomed && !run.undoomed.contains(&number);
    let dies = |world: &World| world.dies_at(Some(Point { op: world.fs.ops() + op, bytes }));
    world.dies_at(None);
    if habits.breaks_early && random.below(3) == 0 {
        habits.break_something(world, &mut random);
    }
    if doomed_here && at == actions {
        dies(world);
    }
    note.met.actions.insert(number, actions);
    // Recovery needs no space; what comes after it may.
    world.recover();
    world.faulty |= world.full();
    let mut staged = Vec::new();
    for action in 0..actions {
        if world.dead() {
            break;
        }
        if doomed_here && at == action {
            dies(world);
        }
        if !run.without_actions.contains(&(number, action)) {
            let mut random = Random::of(&[run.seed, number, action]);
            habits.act(world, &mut random, &mut staged);
            random.0.hash(&mut note.choices);
            let mut weather = Random::of(&[run.seed, number, action, WEATHER]);
            if world.pressure && !world.dead() && weather.below(2) == 0 {
                weather::change(world, &mut weather);
                weather.0.hash(&mut note.choices);
            }
        }
    }
    if !doomed && closes {
        world.mend();
        world.close();
    }
    for staged in staged {
        world.settle(staged);
    }
    if !doomed_here {
        world.came_to_an_end();
    }
    world.abandon();
    world.fs.clear_faults();
    world.say_calls();
    run.crashes.get(&number).cloned().unwrap_or(crash)
}

fn strike(world: &mut World, crash: &Crash, note: &mut Note<'_>) {
    if note.hashes {
        for op in world.fs.trace() {
            (op.number, op.kind, op.path, op.to, op.position, op.len).hash(&mut note.choices);
        }
        world.fs.record(true);
        for answer in crash.strike_noting(&world.fs) {
            (answer.options, answer.picked).hash(&mut note.choices);
        }
    } else {
        crash.strike(&world.fs);
        world.listen();
    }
    note.met.crashes += 1;
    note.met.images.push(world.fs.fingerprint());
}

struct Note<'a> {
    met: &'a mut Met,
    hashes: bool,
    choices: DefaultHasher,
}

/// Runs the lives; panics where an invariant does not hold. `hashes` asks for [`Met::choices`], which takes time.
pub fn run(run: &Run, hashes: bool, met: &mut Met) {
    let (mut world, habits, lives) = begin(run);
    let mut note = Note { met, hashes, choices: DefaultHasher::new() };
    if hashes {
        world.fs.record(true);
    }
    world.listen();
    for number in (0..run.lives.unwrap_or(lives)).filter(|at| !run.without_lives.contains(at)) {
        say(format_args!("life {number}:"));
        note.met.lives += 1;
        let crash = live(&mut world, &habits, run, number, &mut note);
        strike(&mut world, &crash, &mut note);
        note.met.checks += std::mem::take(&mut world.checks);
    }
    say(format_args!("nothing is broken any more:"));
    (world.faulty, world.broken) = (false, false);
    world.dies_at(None);
    world.recover();
    world.mend();
    weather::clears(&mut world);
    goes_on(&mut world);
    world.work();
    world.check_generations();
    world.close();
    world.recover();
    world.check_budget();
    world.came_to_an_end();
    rot::is_noticed(&mut world, &mut Random::of(&[run.seed, u64::MAX]));
    note.met.checks += world.checks;
    note.met.calm = true;
    if hashes {
        for op in world.fs.trace() {
            (op.number, op.kind, op.path, op.to, op.position, op.len).hash(&mut note.choices);
        }
        note.met.choices = Some(note.choices.finish());
    }
}

/// The crash that ends life `last`, and the machine just before it; none if that life is left out.
pub fn before_crash(run: &Run, last: u64) -> Option<(Crash, SimFileSystem)> {
    let (mut world, habits, lives) = begin(run);
    let mut met = Met::default();
    let mut note = Note { met: &mut met, hashes: false, choices: DefaultHasher::new() };
    for number in (0..run.lives.unwrap_or(lives)).filter(|at| !run.without_lives.contains(at)) {
        let crash = live(&mut world, &habits, run, number, &mut note);
        if number == last {
            return Some((crash, world.fs.fork()));
        }
        crash.strike(&world.fs);
    }
    None
}

/// Runs a seed twice and compares every choice: without that nothing could be replayed.
pub fn same_twice(seed: u64) -> Result<(), String> {
    let choices = || {
        let mut met = Met::default();
        run(&Run::of(seed), true, &mut met);
        met.choices
    };
    let (first, second) = (choices(), choices());
    if first == second {
        Ok(())
    } else {
        Err(format!("seed {seed} gives one run and then another: {first:x?}, {second:x?}"))
    }
}

#[test]
fn i6_random_lives_keep_every_invariant() {
    // What once failed comes before anything random.
    super::case::replay_all();
    let count = if super::explore::full() { 20_000 } else { 1_500 };
    let mut met = Met::default();
    for seed in 1..=count {
        met.images.clear();
        if let Err(what) = super::caught::caught(|| run(&Run::of(seed), false, &mut met)) {
            panic!("{}", super::case::of_lives(seed, None, &met, &what));
        }
    }
    println!("{} random lives of {count} nodes, {} checks", met.lives, met.checks);
}

#[test]
fn a_seed_gives_the_same_run_every_time() {
    for seed in 1..=100 {
        same_twice(seed).unwrap();
    }
}

#[cfg(debug_assertions)]
#[test]
fn random_lives_that_fail_become_small_and_replay() {
    use super::case::{Case, What, of_lives};
    use plimsoll::planted::{Fault, with};
    let fault = Fault::ConfirmedBeforeSync;
    let failed = (1..500).find_map(|seed| {
        let mut met = Met::default();
        let go = || with(fault, || run(&Run::of(seed), false, &mut met));
        let what = super::caught::caught(go).err()?;
        Some((seed, met, what))
    });
    let (seed, met, what) = failed.expect("one of them notices");
    let actions: u64 = met.actions.values().sum();
    let case = of_lives(seed, Some(fault), &met, &what);
    let case: Case = case.to_string().parse().unwrap();
    assert_eq!(case.holds(), Ok(()));
    let What::Lives(run) = &case.what else { panic!("{case}") };
    let left = met.actions.iter().filter(|(life, _)| !run.without_lives.contains(life));
    let left: u64 = left.map(|(_, actions)| actions).sum();
    let without = run.without_actions.len() as u64;
    assert!(left - without < actions / 4, "{left} - {without} of {actions}:\n{case}");
    assert_eq!(Case { planted: None, ..case }.holds(), Ok(()));
}
