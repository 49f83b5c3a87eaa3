//! SIGKILL in a loop, at any moment of an append, a roll, a truncation, a start; and of the recovery that follows.

use super::oracle::Violation;
use super::random::Random;
use super::seam::Driver;
use super::session::{PATIENCE, Session, Workload, told};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a run did and found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub rounds: u64,
    /// Drivers that were killed, and of these while they were starting; and dumps.
    pub kills: u64,
    pub kills_starting: u64,
    pub kills_recovering: u64,
    pub acks: u64,
    pub checked: u64,
    pub files_checked: u64,
    pub truncations: u64,
    pub elapsed: Duration,
    pub violations: Vec<Violation>,
    /// Where the failing run is.
    pub kept: Option<PathBuf>,
}

/// How long a driver may be left alone before the kill, at most.
const LIFE_MAX_MICROS: u64 = 60_000;
const START_MAX_MICROS: u64 = 20_000;

/// Kills for so many rounds, or until something does not hold. `tick` is called after each round.
///
/// # Errors
/// If a child cannot be started, or the lab's own files cannot be made.
pub fn run(
    driver: &dyn Driver,
    home: &Path,
    data: &Path,
    rounds: u64,
    seed: u64,
    mut tick: impl FnMut(&Report),
) -> Result<Report, String> {
    let begun = Instant::now();
    let mut session = Session::new(driver, home, data)?;
    let mut random = Random::new(seed);
    let workload = Workload::default();
    let mut report = Report::default();
    for round in 0..rounds {
        session.remark(format_args!("round {round}"));
        one_round(&mut session, &workload, &mut random, &mut report)?;
        report.rounds += 1;
        report.acks = session.oracle.acks;
        report.checked = session.oracle.checked;
        report.files_checked = session.oracle.files_checked;
        report.elapsed = begun.elapsed();
        tick(&report);
        if !session.wrong.is_empty() {
            break;
        }
    }
    if !session.wrong.is_empty() {
        let how = format!("kill: round {} of seed {seed}", report.rounds);
        report.kept = Some(session.keep(&how));
        report.violations = session.wrong;
    }
    Ok(report)
}

fn one_round(
    session: &mut Session<'_>,
    workload: &Workload,
    random: &mut Random,
    report: &mut Report,
) -> Result<(), String> {
    let command = session.command();
    let mut running = session.start(command)?;
    let starting = random.one_in(4);
    let begun = Instant::now();
    if starting {
        let deadline = begun + Duration::from_micros(random.below(START_MAX_MICROS));
        session.work(&mut running, workload, random, u64::MAX, deadline);
    } else {
        // Its first answer shows that the start is over.
        session.work(&mut running, workload, random, 4, begun + PATIENCE);
        session.hear(&mut running, PATIENCE);
        let deadline = Instant::now() + Duration::from_micros(random.below(LIFE_MAX_MICROS));
        session.work(&mut running, workload, random, u64::MAX, deadline);
    }
    if let Some(status) = session.kill(&mut running) {
        let said = running.process.errors();
        session.broken("ended by itself", format!("{}: {said}", told(Some(status))));
    }
    report.kills += 1;
    report.kills_starting += u64::from(running.answers.acks == 0);
    report.truncations += running.answers.truncated;
    let refused =
        running.answers.not_written + running.answers.unknown + running.answers.truncate_failed;
    if refused > 0 {
        session.broken("refused", format!("on a disk without a fault: {}", running.reason));
    }
    drop(running);
    // As the kill left it, for whoever looks into a failing run.
    snapshot(&session.data, &session.home.join("before-recovery"));
    if random.one_in(3) {
        // And the recovery of a recovery.
        for _ in 0..=random.below(3) {
            let after = Duration::from_micros(random.below(START_MAX_MICROS));
            report.kills_recovering += u64::from(session.dump(Some(after))?);
        }
    }
    session.dump(None).map(drop)
}

/// Copies a small data directory; what cannot be copied is left out.
fn snapshot(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    for file in super::session::files(from) {
        let target = to.join(&file);
        if let Some(parent) = target.parent() {
            let _ = std::fs::create_dir_all(parent);
        }
        let _ = std::fs::copy(from.join(&file), target);
    }
}
