//! System calls that fail, through `strace`: each one a driver makes, once or from then on; and syncs that only pretend.

use super::oracle::Violation;
use super::random::Random;
use super::seam::Driver;
use super::session::{Answers, LOGS, PATIENCE, Session, Workload, told};
use super::trace::{self, Call};
use plimsoll::WriteClass;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Calls of one kind under their several names, and the errors that a disk may answer them with.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    calls: &'static [&'static str],
    errors: &'static [&'static str],
}

/// What is made to fail.
pub const TARGETS: &[Target] = &[
    // Not `write`: its Nth is an answer to the lab as likely as a file's.
    Target { name: "pwrite", calls: &["pwrite64", "pwritev"], errors: &["EIO", "ENOSPC"] },
    // A commit past the page cache; the last is what a file system says that cannot sync by it.
    Target { name: "pwritev2", calls: &["pwritev2"], errors: &["EIO", "ENOSPC", "EOPNOTSUPP"] },
    Target { name: "fdatasync", calls: &["fdatasync"], errors: &["EIO", "ENOSPC"] },
    Target { name: "fsync", calls: &["fsync"], errors: &["EIO", "ENOSPC"] },
    Target { name: "fallocate", calls: &["fallocate"], errors: &["EIO", "ENOSPC"] },
    Target { name: "ftruncate", calls: &["ftruncate"], errors: &["EIO", "ENOSPC"] },
    Target {
        name: "rename",
        calls: &["rename", "renameat", "renameat2"],
        errors: &["EIO", "ENOSPC"],
    },
    Target {
        name: "openat",
        calls: &["open", "openat", "openat2"],
        errors: &["EIO", "ENOSPC", "EMFILE"],
    },
    Target { name: "unlink", calls: &["unlink", "unlinkat"], errors: &["EIO"] },
    Target { name: "mkdir", calls: &["mkdir", "mkdirat"], errors: &["EIO", "ENOSPC"] },
];

/// Among the calls of a plan: syncs that do nothing.
pub const LYING: &str = "lying";

/// All that the checker wants to see, with those that exist on some machines only.
const TRACED: &str = "trace=?open,openat,?openat2,?write,writev,pwrite64,pwritev,?pwritev2,fdatasync,fsync,fallocate,\
                      ftruncate,?rename,renameat,?renameat2,?unlink,unlinkat,?rmdir,?mkdir,mkdirat";

/// Which of the calls fail, counted from the first that touches the data directory.
const STEPS: &[u64] = &[0, 1, 2, 4, 8, 16];
/// The same for calls that fail from then on.
const STEPS_FOR_GOOD: &[u64] = &[0, 3, 12];

/// One kind of call with one error.
#[derive(Clone, Debug)]
pub struct Row {
    pub call: &'static str,
    pub error: &'static str,
    pub for_good: bool,
    pub runs: u64,
    /// Runs in which a call did fail; the others show nothing.
    pub reached: u64,
    /// Logs that took no appends until the next life, for their recovery had failed.
    pub read_only: u64,
    /// Calls that were made to fail, below the data directory and elsewhere.
    pub injected: u64,
    pub elsewhere: u64,
    /// Runs in which the driver was not there any more at the end, having said why.
    pub ended: u64,
    pub answers: Answers,
    pub violations: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub rows: Vec<Row>,
    /// What could not be done here, and why.
    pub skipped: Vec<(String, String)>,
    pub runs: u64,
    pub checked: u64,
    /// Confirmations that a trace shows behind a sync that was done.
    pub traced_acks: u64,
    pub traced_syncs: u64,
    /// For each kind of sync that was made to lie: how many confirmations the checker then found without one.
    pub lies_found: Vec<(&'static str, u64)>,
    pub elapsed: Duration,
    pub violations: Vec<(String, Violation)>,
    /// Where the failing runs are.
    pub kept: Vec<PathBuf>,
}

/// Why `strace` cannot be used here.
///
/// # Errors
/// The reason.
pub fn usable() -> Result<(), String> {
    let mut probe = Command::new("strace");
    probe.args([
        "-f",
        "-D",
        "--seccomp-bpf",
        "-o",
        "/dev/null",
        "-e",
        "trace=fdatasync",
        "-e",
        "inject=fdatasync:retval=0",
        "true",
    ]);
    let done = probe.stdin(Stdio::null()).output().map_err(|error| format!("strace: {error}"))?;
    if done.status.success() && done.stderr.is_empty() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let first = said.lines().next().unwrap_or("");
    Err(format!("strace: {} {first}", done.status).trim_end().to_owned())
}

/// How much is tried.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Only these calls; all for none.
    pub calls: Vec<String>,
    /// A few runs of each.
    pub short: bool,
    pub seed: u64,
}

struct Lab<'a> {
    driver: &'a dyn Driver,
    home: &'a Path,
    plan: &'a Plan,
    report: Report,
}

/// Tries every call of the plan, or says that it cannot. `tick` is called after each run.
///
/// # Errors
/// If a child cannot be started, or the lab's own files cannot be made.
pub fn run(
    driver: &dyn Driver,
    home: &Path,
    plan: &Plan,
    mut tick: impl FnMut(&Report),
) -> Result<Report, String> {
    let begun = Instant::now();
    let mut lab = Lab { driver, home, plan, report: Report::default() };
    if let Err(reason) = usable() {
        let names = TARGETS.iter().map(|target| target.name).chain(["lying syncs"]);
        lab.report.skipped = names.map(|name| (name.to_owned(), reason.clone())).collect();
        return Ok(lab.report);
    }
    let clean = lab.clean()?;
    tick(&lab.report);
    for target in TARGETS {
        if !plan.calls.is_empty() && !plan.calls.iter().any(|call| call == target.name) {
            continue;
        }
        for error in target.errors {
            for for_good in [false, true] {
                lab.row(target, error, for_good, &clean, &mut tick)?;
            }
        }
    }
    if plan.calls.is_empty() || plan.calls.iter().any(|call| call == LYING) {
        for call in ["fdatasync", "fsync"] {
            lab.lie(call)?;
            tick(&lab.report);
        }
    }
    lab.report.elapsed = begun.elapsed();
    Ok(lab.report)
}

/// How a refusal says that a log could not be recovered and cuts nothing, which only another life changes.
const READ_ONLY: &str = "open for reading only";

/// How the life of a traced driver ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Killed,
}

/// What one run under strace did.
struct Traced {
    text: String,
    answers: Answers,
    ended: bool,
    read_only: u64,
}

impl<'a> Lab<'a> {
    fn session(&self, name: &str) -> Result<Session<'a>, String> {
        let home = self.home.join(name);
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(&home).map_err(|error| error.to_string())?;
        // Descriptors show paths without links.
        let home = home.canonicalize().map_err(|error| error.to_string())?;
        Session::new(self.driver, &home, &home.join("data"))
    }

    /// Some records, truncations and a kill, without any fault: recovery has something to do.
    fn prepare(&self, session: &mut Session<'_>) -> Result<(), String> {
        let mut random = Random::new(self.plan.seed);
        let command = session.command();
        let mut running = session.start(command)?;
        let until = Instant::now() + PATIENCE;
        session.work(&mut running, &Workload::default(), &mut random, 100, until);
        session.settle(&mut running);
        session.kill(&mut running);
        Ok(())
    }

    /// One life of a driver under strace with these further words. Everything must be answered, or the driver must end
    /// and say why.
    fn traced(
        &self,
        session: &mut Session<'_>,
        words: &[String],
        goes_on: bool,
        end: End,
    ) -> Result<Traced, String> {
        let file = session.home.join("trace.txt");
        let own = session.command();
        let mut command = Command::new("strace");
        // -D: the driver is the child that is waited for, and strace ends behind it.
        command.args(["-D", "-f", "-y", "--seccomp-bpf", "-s", "8388608", "-e", TRACED]);
        command.args(words).arg("-o").arg(&file).arg(own.get_program()).args(own.get_args());
        session.remark(format_args!("strace {}", words.join(" ")));
        let mut running = session.start(command)?;
        let mut random = Random::new(self.plan.seed + 1);
        let workload = Workload { truncate_one_in: 12, len_max: 30_000, ..Workload::default() };
        let until = Instant::now() + PATIENCE;
        session.work(&mut running, &workload, &mut random, 120, until);
        session.settle(&mut running);
        // The worker's calls: checkpoints of what is idle, spares made ahead.
        if !running.over {
            std::thread::sleep(Duration::from_millis(400));
        }
        let mut read_only = 0;
        for log in LOGS {
            let mut last = None;
            for _ in 0..8 {
                if running.over {
                    break;
                }
                last = session.append(&mut running, log, 200, WriteClass::Acknowledge);
                if last.is_some_and(|last| last.acks > 0) {
                    break;
                }
            }
            let stopped = !running.over && last.is_none_or(|last| last.acks == 0);
            if stopped && running.reason.contains(READ_ONLY) {
                read_only += 1;
            } else if stopped && goes_on {
                let reason = running.reason.clone();
                session.broken("does not go on", format!("{log}, after one failed call: {reason}"));
            }
        }
        let status = match end {
            End::Closed => session.close(&mut running),
            End::Killed => session.kill(&mut running),
        };
        let said = running.process.errors();
        let failed = status.is_some_and(|status| !status.success());
        session.remark(format_args!("driver: {} {said}", told(status)));
        if failed
            && (said.is_empty()
                || said.contains("panicked")
                || status.is_some_and(|status| status.code().is_none()))
        {
            session.broken("ended without a reason", format!("{}: {said}", told(status)));
        }
        let text = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok(Traced { text, answers: running.answers, ended: failed, read_only })
    }

    /// After the faults: everything is as it was said, and goes on.
    fn afterwards(&self, session: &mut Session<'_>) -> Result<(), String> {
        session.dump(None)?;
        let command = session.command();
        let mut running = session.start(command)?;
        for log in LOGS {
            for len in [100, 20_000, 50_000] {
                let answers = session.append(&mut running, log, len, WriteClass::Publish);
                if answers.is_none_or(|answers| answers.acks == 0) {
                    let said = running.reason.clone();
                    session.broken("does not go on", format!("{log}, in the next life: {said}"));
                    break;
                }
            }
        }
        let status = session.close(&mut running);
        if !status.is_some_and(|status| status.success()) {
            let said = running.process.errors();
            session.broken("does not close", format!("{}: {said}", told(status)));
        }
        session.dump(None).map(drop)
    }

    /// Takes over what a session found; what holds is removed.
    fn finish(&mut self, name: &str, home: &Path, wrong: Vec<Violation>, checked: u64) {
        self.report.runs += 1;
        self.report.checked += checked;
        if wrong.is_empty() {
            let _ = std::fs::remove_dir_all(home);
        } else {
            self.report.kept.push(home.to_path_buf());
        }
        self.report.violations.extend(wrong.into_iter().map(|one| (name.to_owned(), one)));
    }

    /// A life without a fault: what the driver calls, and that each confirmation stands behind a sync.
    fn clean(&mut self) -> Result<Vec<Call>, String> {
        let mut session = self.session("clean")?;
        let data = session.data.display().to_string();
        // From an empty directory on, so that every name on the way is made in the trace.
        let traced = self.traced(&mut session, &[], true, End::Closed)?;
        let checked = trace::check(&traced.text, &data);
        if checked.acks == 0 || checked.acks != traced.answers.acks {
            let detail =
                format!("{} acks in the trace, {} heard", checked.acks, traced.answers.acks);
            session.broken("trace is not whole", detail);
        }
        checked.violations.iter().for_each(|one| session.broken(one.rule, one.detail.clone()));
        self.afterwards(&mut session)?;
        // And with something to recover, which is what the other runs begin with.
        let mut second = self.session("clean-again")?;
        self.prepare(&mut second)?;
        let again = self.traced(&mut second, &[], true, End::Closed)?;
        let checked_again = trace::check(&again.text, &second.data.display().to_string());
        checked_again.violations.iter().for_each(|one| second.broken(one.rule, one.detail.clone()));
        self.afterwards(&mut second)?;
        let inside = second.data.display().to_string();
        let calls = trace::parse(&again.text).into_iter().filter(|call| call.is_inside(&inside));
        let calls = calls.collect();
        self.report.traced_acks = checked.acks + checked_again.acks;
        self.report.traced_syncs = checked.syncs + checked_again.syncs;
        for mut session in [session, second] {
            if !session.wrong.is_empty() {
                let _ = session.keep("strace: a life without a fault");
            }
            let (home, checked) = (session.home.clone(), session.oracle.checked);
            let wrong = std::mem::take(&mut session.wrong);
            drop(session);
            self.finish("no fault", &home, wrong, checked);
        }
        Ok(calls)
    }

    fn row(
        &mut self,
        target: &'static Target,
        error: &'static str,
        for_good: bool,
        clean: &[Call],
        tick: &mut impl FnMut(&Report),
    ) -> Result<(), String> {
        let mode = if for_good { "for good" } else { "once" };
        let used = |call: &&Call| target.calls.contains(&call.name.as_str());
        // `when=` counts in each thread, and the loader's calls too: it begins where the first thread comes to the data.
        let Some(first) = clean.iter().find(used) else {
            if error == target.errors[0] && !for_good {
                let reason = "the driver makes no such call in its data directory".to_owned();
                self.report.skipped.push((target.name.to_owned(), reason));
            }
            return Ok(());
        };
        let first = first.nth;
        let mut row = Row {
            call: target.name,
            error,
            for_good,
            runs: 0,
            reached: 0,
            read_only: 0,
            injected: 0,
            elsewhere: 0,
            ended: 0,
            answers: Answers::default(),
            violations: 0,
        };
        let steps = if for_good { STEPS_FOR_GOOD } else { STEPS };
        let steps = if self.plan.short { &steps[..1] } else { steps };
        for (number, step) in steps.iter().enumerate() {
            let end = if number % 2 == 0 { End::Killed } else { End::Closed };
            let when = first + step;
            let suffix = if for_good { "+" } else { "" };
            let name = format!("{}-{error}-{when}{suffix}", target.name);
            let mut session = self.session(&name)?;
            let data = session.data.display().to_string();
            self.prepare(&mut session)?;
            let names: Vec<String> = target.calls.iter().map(|call| format!("?{call}")).collect();
            let inject = format!("inject={}:error={error}:when={when}{suffix}", names.join(","));
            let traced = self.traced(&mut session, &["-e".to_owned(), inject], !for_good, end)?;
            let checked = trace::check(&traced.text, &data);
            checked.violations.iter().for_each(|one| session.broken(one.rule, one.detail.clone()));
            let before = row.injected;
            for call in trace::parse(&traced.text).iter().filter(|call| call.injected()) {
                if call.is_inside(&data) { row.injected += 1 } else { row.elsewhere += 1 }
            }
            self.afterwards(&mut session)?;
            row.runs += 1;
            row.reached += u64::from(row.injected > before);
            row.read_only += traced.read_only;
            row.ended += u64::from(traced.ended);
            row.answers.add(&traced.answers);
            row.violations += session.wrong.len() as u64;
            if !session.wrong.is_empty() {
                let how =
                    format!("strace: {} answers {error} {mode}, from call {when} on", target.name);
                let _ = session.keep(&how);
            }
            let (home, looked) = (session.home.clone(), session.oracle.checked);
            let wrong = std::mem::take(&mut session.wrong);
            drop(session);
            self.finish(&name, &home, wrong, looked);
            tick(&self.report);
        }
        if row.injected == 0 {
            let reason = "no call was reached in any run".to_owned();
            self.report.skipped.push((format!("{} {error} {mode}", target.name), reason));
        }
        self.report.rows.push(row);
        Ok(())
    }

    /// A sync that says `ok` and does nothing must be found in the trace; that is what the checker is for.
    fn lie(&mut self, call: &'static str) -> Result<(), String> {
        let name = format!("lying-{call}");
        let mut session = self.session(&name)?;
        let data = session.data.display().to_string();
        let inject = format!("inject={call}:retval=0");
        let traced = self.traced(&mut session, &["-e".to_owned(), inject], true, End::Killed)?;
        let checked = trace::check(&traced.text, &data);
        let found = checked.violations.len() as u64;
        self.report.lies_found.push((call, found));
        let lied = trace::parse(&traced.text).iter().filter(|call| call.injected()).count();
        if lied == 0 {
            let reason = format!("the driver makes no {call}");
            self.report.skipped.push((format!("lying {call}"), reason));
        } else if found == 0 {
            session.broken("lie not found", format!("{lied} calls of {call} did nothing"));
        }
        // The page cache has it all: a restart must not care.
        self.afterwards(&mut session)?;
        if !session.wrong.is_empty() {
            let _ = session.keep(&format!("strace: {call} does nothing and says ok"));
        }
        let (home, looked) = (session.home.clone(), session.oracle.checked);
        let wrong = std::mem::take(&mut session.wrong);
        drop(session);
        self.finish(&name, &home, wrong, looked);
        Ok(())
    }
}
