//! A file system that is full to the last byte: publishes are refused, acknowledgements go on, truncation works, a start
//! works, and all goes on when there is space again.

use super::oracle::Violation;
use super::seam::Driver;
use super::session::{Answers, LOGS, Running, Session, told};
use plimsoll::WriteClass::{self, Acknowledge, Publish};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is certain of a file system when it is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// What is kept back carries acknowledgements.
    Reserve,
    /// It copies on write, so that blocks in hand are no reserve: every answer must be definite, more is not promised.
    Definite,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Publishes confirmed until the file system was full, and bytes of them.
    pub published: u64,
    pub published_bytes: u64,
    /// On the full one: publishes refused, acknowledgements confirmed and refused.
    pub refused: u64,
    pub acknowledged: u64,
    pub ack_refused: u64,
    /// Answers `unknown`.
    pub unknown: u64,
    /// Publishes confirmed on the full one after truncation.
    pub after_truncation: u64,
    /// Starts on the full one.
    pub starts: u64,
    pub checked: u64,
    pub elapsed: Duration,
    pub violations: Vec<Violation>,
    pub kept: Option<PathBuf>,
}

/// More than any of the mounts takes.
const PUBLISHES_MAX: u64 = 40_000;
/// More than fits into the files that four logs have in hand.
const IN_HAND_MAX: u64 = 2_000;
const RECORD: usize = 50_000;
const SYNC_EVERY: usize = 4 << 20;
/// What others leave to the publishes.
const LEFT: u64 = 32 << 20;

/// Fills the file system that `data` is on, by publishes and from outside, and goes on. The lab's files are in `home`,
/// which must be elsewhere.
///
/// # Errors
/// If a child cannot be started, or the lab's own files cannot be made.
pub fn run(
    driver: &dyn Driver,
    home: &Path,
    data: &Path,
    promise: Promise,
) -> Result<Report, String> {
    let begun = Instant::now();
    let mut session = Session::new(driver, home, data)?;
    let mut report = Report::default();
    let outside = data.parent().unwrap_or(data).to_path_buf();
    let done = through(&mut session, &outside, promise, &mut report);
    empty(&outside);
    done?;
    report.checked = session.oracle.checked;
    report.elapsed = begun.elapsed();
    if !session.wrong.is_empty() {
        report.kept = Some(session.keep("full: filled by publishes and from outside"));
        report.violations = session.wrong;
    }
    Ok(report)
}

fn through(
    session: &mut Session<'_>,
    outside: &Path,
    promise: Promise,
    report: &mut Report,
) -> Result<(), String> {
    let mut running = start(session)?;
    // One record in each, so that the node has files made ahead and kept back.
    for log in LOGS {
        expect(session, &mut running, log, Publish, 300, "on an empty file system");
    }
    std::thread::sleep(Duration::from_millis(1500));
    let mut filler = Filler::new(outside);
    filler.leave(LEFT);
    session.remark("filled from outside but for 32 MiB");
    while report.published < PUBLISHES_MAX {
        let log = LOGS[usize::try_from(report.published).unwrap_or(0) % LOGS.len()];
        let Some(answers) = session.append(&mut running, log, RECORD, Publish) else { break };
        report.unknown += answers.unknown;
        if answers.acks == 0 {
            break;
        }
        report.published += 1;
        report.published_bytes += RECORD as u64;
    }
    check_space(session, &running);
    filler.leave(0);
    session.remark("full to the last byte");
    // What fits into files in hand is still taken, down to the last gap; then no publish is, and an acknowledgement needs
    // a file of those that are kept back.
    for log in LOGS {
        for len in [RECORD, 4_000, 300] {
            refuse(session, &mut running, log, len, report);
        }
    }
    acknowledge(session, &mut running, promise, report, "in the life that filled it");
    // The process dies, and a node starts with nothing free.
    ended(session, &mut running);
    session.dump(None)?;
    let mut running = start(session)?;
    report.starts += 2;
    acknowledge(session, &mut running, promise, report, "in the next life");
    truncate(session, &mut running);
    std::thread::sleep(Duration::from_millis(1000));
    for log in LOGS {
        for _ in 0..4 {
            if let Some(answers) = session.append(&mut running, log, 5_000, Publish) {
                report.after_truncation += answers.acks;
                report.unknown += answers.unknown;
            }
        }
    }
    if promise == Promise::Reserve && report.after_truncation == 0 {
        let reason = running.reason.clone();
        session.broken("truncation frees nothing", format!("no publish went through: {reason}"));
    }
    ended(session, &mut running);
    session.dump(None)?;
    report.starts += 1;
    empty(outside);
    session.remark("there is space again");
    std::thread::sleep(Duration::from_millis(500));
    let mut running = start(session)?;
    for log in LOGS {
        for len in [300, RECORD, RECORD] {
            expect(session, &mut running, log, Publish, len, "when there is space again");
        }
    }
    let status = session.close(&mut running);
    if !status.is_some_and(|status| status.success()) {
        let said = running.process.errors();
        session.broken("does not close", format!("{}: {said}", told(status)));
    }
    session.dump(None).map(drop)
}

fn start(session: &mut Session<'_>) -> Result<Running, String> {
    let command = session.command();
    session.start(command)
}

/// Killed, as a full file system is no reason to end.
fn ended(session: &mut Session<'_>, running: &mut Running) {
    if let Some(status) = session.kill(running) {
        let said = running.process.errors();
        session.broken("ended by itself", format!("{}: {said}", told(Some(status))));
    }
}

fn expect(
    session: &mut Session<'_>,
    running: &mut Running,
    log: &str,
    class: WriteClass,
    len: usize,
    when: &str,
) {
    let answers = session.append(running, log, len, class);
    if answers.is_none_or(|answers| answers.acks == 0) {
        let reason = running.reason.clone();
        session.broken("refused", format!("{log}, {len} bytes, {when}: {reason}"));
    }
}

/// Publishes until one is refused.
fn refuse(
    session: &mut Session<'_>,
    running: &mut Running,
    log: &str,
    len: usize,
    report: &mut Report,
) {
    for _ in 0..IN_HAND_MAX {
        let Some(answers) = session.append(running, log, len, Publish) else { return };
        report.refused += answers.not_written;
        report.unknown += answers.unknown;
        if answers.acks == 0 {
            return check_space(session, running);
        }
    }
    session.broken("not refused", format!("{log}: publishes of {len} bytes on a full file system"));
}

/// Refusals on a full file system say that it is full.
fn check_space(session: &mut Session<'_>, running: &Running) {
    let said = ["No space left", "quota", "ERR_LIMITED", "space"];
    if !said.iter().any(|text| running.reason.contains(text)) {
        let reason = running.reason.clone();
        session.broken("refused", format!("not for want of space: {reason:?}"));
    }
}

/// The first small ones of each log must be confirmed: this is what is kept back for.
fn acknowledge(
    session: &mut Session<'_>,
    running: &mut Running,
    promise: Promise,
    report: &mut Report,
    when: &str,
) {
    for log in LOGS {
        let mut answers = Answers::default();
        for _ in 0..8 {
            answers.add(&session.append(running, log, 300, Acknowledge).unwrap_or_default());
        }
        report.acknowledged += answers.acks;
        report.ack_refused += answers.not_written;
        report.unknown += answers.unknown;
        if promise == Promise::Reserve && answers.acks < 8 {
            let reason = running.reason.clone();
            let detail = format!("{log}: {} of 8 acknowledgements, {when}: {reason}", answers.acks);
            session.broken("refused", detail);
        }
    }
}

fn truncate(session: &mut Session<'_>, running: &mut Running) {
    for log in LOGS {
        let before = session.oracle.next(log);
        let request = super::lines::Request::Truncate { log: (*log).to_owned(), before };
        let answers = session.one(running, &request);
        if answers.is_none_or(|answers| answers.truncated == 0) {
            let reason = running.reason.clone();
            session.broken("truncation refused", format!("{log}: {reason}"));
        }
    }
}

/// Files of somebody else on the same file system.
struct Filler {
    dir: PathBuf,
    number: u32,
}

impl Filler {
    fn new(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf(), number: 0 }
    }

    /// Takes all but about so many bytes; for 0 the last byte, the share kept for root included.
    fn leave(&mut self, left: u64) {
        loop {
            let path = self.dir.join(format!("fill.{}", self.number));
            self.number += 1;
            let Ok(mut file) = std::fs::File::create_new(path) else { return };
            let mut written = 0;
            for step in [1 << 20, 1 << 16, 1 << 12, 1 << 8, 1] {
                let bytes = vec![0xa5; step];
                while left == 0 || free(&self.dir) > left + step as u64 {
                    match file.write(&bytes) {
                        Ok(some) if some > 0 => written += some,
                        _ => break,
                    }
                    // btrfs counts what is written only when it is on the disk.
                    if left > 0 && written % SYNC_EVERY < step {
                        let _ = file.sync_all();
                    }
                }
                let _ = file.sync_all();
                if left > 0 {
                    return;
                }
            }
            // Several files: XFS refuses to make one longer while it has blocks for another.
            if written == 0 {
                return;
            }
        }
    }
}

fn free(dir: &Path) -> u64 {
    use plimsoll::fs::{FileSystem, OsFileSystem};
    OsFileSystem.space(dir).map_or(0, |space| space.available)
}

fn empty(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().file_stem().is_some_and(|stem| stem == "fill") {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
