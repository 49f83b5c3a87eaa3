//! The parent: children of all systems of a workload, in turns.

use crate::child::{Job, MARK, Phase, Turn};
use crate::quiet;
use crate::results::{Part, Series};
use crate::systems::{Role, System};
use crate::workload::{Kind, Scale, Workload};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// How children are started.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) dir: PathBuf,
    pub(crate) shim: PathBuf,
    pub(crate) scale: Scale,
    pub(crate) rounds: usize,
}

/// A directory that is removed with all that is in it.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(setting: &Setting, name: &str) -> Self {
        let name = name.replace([' ', ','], "-");
        let path = setting.dir.join(format!("compare-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A child that takes turns.
struct Player {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// The command of a child; what it says on standard error goes into its directory.
pub(crate) fn command(setting: &Setting, job: &Job, slow_micros: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let errors = std::fs::File::create(job.dir.with_extension("err")).unwrap();
    command
        .arg("child")
        .arg(serde_json::to_string(job).unwrap())
        .env("LD_PRELOAD", &setting.shim)
        .env("SLOWSYNC_MICROS", slow_micros.to_string())
        // The settings of one of the peers come from here, for all alike.
        .env("WALRUS_DATA_DIR", job.dir.join("walrus"))
        .env("WALRUS_QUIET", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors);
    command
}

/// The next line that is meant for us.
pub(crate) fn answer(output: &mut impl BufRead) -> Option<Turn> {
    let mut line = String::new();
    loop {
        line.clear();
        if output.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(turn) = line.strip_prefix(MARK) {
            return serde_json::from_str(turn).ok();
        }
    }
}

impl Player {
    /// Starts it and waits until it is prepared.
    fn start(setting: &Setting, job: &Job, slow_micros: u64) -> Result<(Self, Turn), String> {
        let mut child = command(setting, job, slow_micros).spawn().map_err(|e| e.to_string())?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut player = Self { child, input, output };
        match answer(&mut player.output) {
            Some(ready) => Ok((player, ready)),
            None => Err(player.failure(job)),
        }
    }

    fn turn(&mut self, job: &Job) -> Result<Turn, String> {
        let told = self.input.as_mut().unwrap().write_all(b"go\n");
        let turn = told.ok().and_then(|()| answer(&mut self.output));
        // What it puts right after its turn belongs to nobody's turn.
        match turn.filter(|_| answer(&mut self.output).is_some()) {
            Some(turn) => Ok(turn),
            None => Err(self.failure(job)),
        }
    }

    /// Why there was no answer: the last thing that it said.
    fn failure(&mut self, job: &Job) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let said = std::fs::read_to_string(job.dir.with_extension("err")).unwrap_or_default();
        let mut lines = said.lines().filter(|line| !line.starts_with("note:"));
        let line = lines.find(|line| !line.trim().is_empty() && !line.starts_with("thread"));
        line.unwrap_or("it said nothing").to_owned()
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// One system, or the engine at one point.
struct Seat {
    name: String,
    job: Job,
    player: Option<Player>,
    scratch: Scratch,
}

fn job(setting: &Setting, system: &System, of: &Workload, scratch: &Scratch, phase: Phase) -> Job {
    let dir = scratch.path().join("data");
    std::fs::create_dir_all(&dir).unwrap();
    Job {
        system: system.name.to_owned(),
        workload: of.id.to_owned(),
        dir,
        scale: setting.scale,
        phase,
    }
}

/// The points of `growth`, by their number.
fn points(scale: &Scale) -> Vec<(usize, String)> {
    let stored = scale.stored.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
    let stored = stored.map(|(point, bytes)| {
        let mib = bytes >> 20;
        let size = if mib < 1024 { format!("{mib} MiB") } else { format!("{} GiB", mib >> 10) };
        (point, format!("{size} stored"))
    });
    let logs = scale.logs.iter().enumerate().map(|(at, logs)| {
        let plural = if *logs == 1 { "" } else { "s" };
        (scale.stored.len() + at, format!("{logs} log{plural}"))
    });
    stored.chain(logs).collect()
}

/// Runs a workload with all systems that have a part in it.
pub(crate) fn part(setting: &Setting, of: &Workload, systems: &[System]) -> Part {
    let mut part = Part {
        workload: of.id,
        says: of.says,
        unit: of.kind.unit(),
        series: Vec::new(),
        absent: Vec::new(),
        noise: Vec::new(),
        of: *of,
    };
    let mut taking_part = Vec::new();
    for system in systems {
        match (system.leaves_out)(of.kind) {
            // Floors are many, and it is plain why.
            Some(_) if system.role == Role::Floor => {}
            Some(why) => part.leave_out(system.name, why),
            None => taking_part.push(system),
        }
    }
    match of.kind {
        Kind::Reopen { .. } => reopen(setting, of, &taking_part, &mut part),
        Kind::Idle => idle(setting, of, &taking_part, &mut part),
        _ => turns(setting, of, &taking_part, &mut part),
    }
    part
}

fn turns(setting: &Setting, of: &Workload, systems: &[&System], part: &mut Part) {
    let mut seats = Vec::new();
    for system in systems {
        let named: Vec<(String, Phase)> = if of.kind == Kind::Growth {
            let points = points(&setting.scale).into_iter();
            points
                .map(|(at, name)| (format!("{}, {name}", system.name), Phase::Point(at)))
                .collect()
        } else {
            vec![(system.name.to_owned(), Phase::Turns)]
        };
        for (name, phase) in named {
            let scratch = Scratch::new(setting, &format!("{}-{name}", of.id));
            let job = job(setting, system, of, &scratch, phase);
            match Player::start(setting, &job, of.kind.slow_micros()) {
                Ok((player, _)) => {
                    seats.push(Seat { name: name.clone(), job, player: Some(player), scratch });
                    part.series.push(Series { system: name, rounds: Vec::new() });
                }
                Err(why) => part.failed(&name, &why),
            }
        }
    }
    for round in 0..of.kind.rounds(setting.rounds) {
        let before = quiet::sample();
        for at in 0..seats.len() {
            let at = (at + round) % seats.len();
            let seat = &mut seats[at];
            let Some(player) = &mut seat.player else { continue };
            match player.turn(&seat.job) {
                // Whoever goes round the shim would look fast.
                Ok(turn) if of.kind.slow_micros() > 0 && turn.syncs.unwrap_or(0) == 0 => {
                    seat.player = None;
                    part.leave_out(&seat.name, "its syncs pass the shim by");
                }
                Ok(turn) => part.series[at].rounds.push(turn),
                Err(why) => {
                    seat.player = None;
                    part.failed(&seat.name, &why);
                }
            }
        }
        part.noise.push(before.until(&quiet::sample()));
    }
    part.series.retain(|series| !series.rounds.is_empty());
    // Players before their directories.
    for seat in seats {
        drop(seat.player);
        drop(seat.scratch);
    }
}

/// Fills in one child, kills it, and opens in another.
fn reopen(setting: &Setting, of: &Workload, systems: &[&System], part: &mut Part) {
    part.series = systems
        .iter()
        .map(|system| Series { system: system.name.to_owned(), rounds: Vec::new() })
        .collect();
    for round in 0..of.kind.rounds(setting.rounds) {
        let before = quiet::sample();
        for at in 0..systems.len() {
            let at = (at + round) % systems.len();
            let system = systems[at];
            if part.absent.iter().any(|absent| absent.system == system.name) {
                continue;
            }
            match reopened(setting, of, system) {
                Ok(turn) => part.series[at].rounds.push(turn),
                Err(why) => part.failed(system.name, &why),
            }
        }
        part.noise.push(before.until(&quiet::sample()));
    }
    part.series.retain(|series| !series.rounds.is_empty());
}

fn reopened(setting: &Setting, of: &Workload, system: &System) -> Result<Turn, String> {
    let scratch = Scratch::new(setting, &format!("{}-{}", of.id, system.name));
    let fill = job(setting, system, of, &scratch, Phase::Fill);
    let (mut filler, filled) = Player::start(setting, &fill, 0)?;
    // SIGKILL: nothing is put in order.
    filler.child.kill().map_err(|error| error.to_string())?;
    filler.child.wait().map_err(|error| error.to_string())?;
    let open = Job { phase: Phase::Open, ..fill };
    let (_, mut turn) = Player::start(setting, &open, 0)?;
    let mut notes = Vec::new();
    notes.extend(system.unchecked.map(str::to_owned));
    if turn.done != filled.done {
        notes.push(format!("has {} of {} records", turn.done, filled.done));
    }
    turn.note = (!notes.is_empty()).then(|| notes.join(", "));
    Ok(turn)
}

/// What many open logs take more than a few do.
fn idle(setting: &Setting, of: &Workload, systems: &[&System], part: &mut Part) {
    const FEW: usize = 16;
    let before = quiet::sample();
    for system in systems {
        let scale = &setting.scale;
        let logs = if system.few_logs { scale.idle_logs_few } else { scale.idle_logs };
        let hold = |logs: usize| {
            let scratch = Scratch::new(setting, &format!("{}-{}-{logs}", of.id, system.name));
            let job = job(setting, system, of, &scratch, Phase::Hold(logs));
            Player::start(setting, &job, 0).map(|(_, turn)| turn.value)
        };
        match hold(FEW).and_then(|few| Ok((few, hold(logs)?))) {
            Ok((few, many)) => {
                let value = (many - few) / (logs - FEW) as f64;
                let note = Some(format!("of {logs} logs"));
                let turn = Turn { value, done: logs as u64, note, ..Turn::default() };
                let system = system.name.to_owned();
                part.series.push(Series { system, rounds: vec![turn] });
            }
            Err(why) => part.failed(system.name, &why),
        }
    }
    part.noise.push(before.until(&quiet::sample()));
}
