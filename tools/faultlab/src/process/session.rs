//! Drivers and dumps, one after the other, over one data directory; with the oracle that watches them.

use super::child::{Process, Said};
use super::history::History;
use super::lines::{Answer, Request, Shown};
use super::oracle::{Oracle, Violation};
use super::random::Random;
use super::seam::Driver;
use plimsoll::WriteClass;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// No child is waited for longer: more is a hang, and a finding.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Questions that may be open at once: fewer bytes than a pipe holds, so that the lab never waits for a stuck child.
const OPEN_MAX: usize = 24;

/// One data directory and all that is known of it.
#[derive(Debug)]
pub struct Session<'a> {
    driver: &'a dyn Driver,
    /// Where the lab keeps its own files.
    pub home: PathBuf,
    pub data: PathBuf,
    pub oracle: Oracle,
    history: History,
    pub wrong: Vec<Violation>,
    open: usize,
    next_id: u64,
}

/// What is appended and truncated, by chance.
#[derive(Clone, Debug)]
pub struct Workload {
    pub logs: &'static [&'static str],
    /// Truncates once in so many requests; never for 0.
    pub truncate_one_in: u64,
    /// The largest payload; one in 16 is up to so long, the others up to a thirtieth.
    pub len_max: u64,
}

/// Logs in folders and beside them; enough that several commits overlap.
pub const LOGS: &[&str] = &["orders", "q/eu", "q/us", "meta"];

impl Default for Workload {
    fn default() -> Self {
        Self { logs: LOGS, truncate_one_in: 40, len_max: 60_000 }
    }
}

impl Workload {
    fn next(&self, random: &mut Random, oracle: &Oracle, id: u64) -> Request {
        let at = usize::try_from(random.below(self.logs.len() as u64)).unwrap_or(0);
        let log = self.logs[at].to_owned();
        if self.truncate_one_in > 0 && random.one_in(self.truncate_one_in) {
            let before = oracle.next(&log).saturating_sub(random.below(8));
            return Request::Truncate { log, before };
        }
        let longest = if random.one_in(16) { self.len_max } else { self.len_max / 30 };
        let len = usize::try_from(32 + random.below(longest)).unwrap_or(32);
        let class = if random.one_in(5) { WriteClass::Acknowledge } else { WriteClass::Publish };
        Request::Append { log, id, len, class }
    }
}

/// Answers counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    pub acks: u64,
    pub not_written: u64,
    pub unknown: u64,
    pub truncated: u64,
    pub truncate_failed: u64,
}

impl Answers {
    fn note(&mut self, answer: &Answer) {
        match answer {
            Answer::Ack { .. } => self.acks += 1,
            Answer::NotWritten { .. } => self.not_written += 1,
            Answer::Unknown { .. } => self.unknown += 1,
            Answer::Truncated { .. } => self.truncated += 1,
            Answer::TruncateFailed { .. } => self.truncate_failed += 1,
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.acks += other.acks;
        self.not_written += other.not_written;
        self.unknown += other.unknown;
        self.truncated += other.truncated;
        self.truncate_failed += other.truncate_failed;
    }
}

/// A driver that runs.
#[derive(Debug)]
pub struct Running {
    pub process: Process,
    pub answers: Answers,
    /// It is gone, or its output is.
    pub over: bool,
    /// The reason of the last refusal.
    pub reason: String,
}

impl<'a> Session<'a> {
    /// A new session in `home`; the data directory is `data`, which need not be there.
    ///
    /// # Errors
    /// If the lab's own files cannot be made.
    pub fn new(driver: &'a dyn Driver, home: &Path, data: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(home).map_err(|error| format!("{}: {error}", home.display()))?;
        let path = home.join("history.txt");
        let history =
            History::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self {
            driver,
            home: home.to_path_buf(),
            data: data.to_path_buf(),
            oracle: Oracle::default(),
            history,
            wrong: Vec::new(),
            open: 0,
            next_id: 1,
        })
    }

    pub fn remark(&mut self, text: impl std::fmt::Display) {
        self.history.note('#', text);
    }

    /// A finding of the lab's own, beside the oracle's.
    pub fn broken(&mut self, rule: &'static str, detail: String) {
        self.history.note('#', format_args!("{rule}: {detail}"));
        self.wrong.push(Violation { rule, detail });
    }

    fn gather(&mut self) {
        for violation in self.oracle.take_violations() {
            self.history.note('#', &violation);
            self.wrong.push(violation);
        }
    }

    /// The command line of the driver for this session's directory.
    #[must_use]
    pub fn command(&self) -> Command {
        self.driver.driver(&self.data)
    }

    /// # Errors
    /// If it cannot be started at all.
    pub fn start(&mut self, command: Command) -> Result<Running, String> {
        self.history.note('#', "driver starts");
        self.open = 0;
        let process = Process::start(command)?;
        Ok(Running { process, answers: Answers::default(), over: false, reason: String::new() })
    }

    pub fn ask(&mut self, running: &mut Running, request: &Request) {
        self.history.note('>', request);
        self.oracle.asked(request);
        self.open += 1;
        running.process.tell(request);
    }

    /// One line of the driver, if it comes in time.
    pub fn hear(&mut self, running: &mut Running, timeout: Duration) -> bool {
        match running.process.listen(timeout) {
            Said::Line(line) => {
                match Answer::parse(&line) {
                    Some(answer) => {
                        self.history.note('<', &answer);
                        self.open = self.open.saturating_sub(1);
                        running.answers.note(&answer);
                        if let Answer::NotWritten { reason, .. }
                        | Answer::Unknown { reason, .. }
                        | Answer::TruncateFailed { reason, .. } = &answer
                        {
                            running.reason.clone_from(reason);
                        }
                        self.oracle.answered(&answer);
                        self.gather();
                    }
                    None => self.broken("not an answer", line),
                }
                true
            }
            Said::Nothing => false,
            Said::Over => {
                running.over = true;
                false
            }
        }
    }

    /// Asks by chance until `deadline`, or until so many were asked.
    pub fn work(
        &mut self,
        running: &mut Running,
        workload: &Workload,
        random: &mut Random,
        mut count: u64,
        deadline: Instant,
    ) {
        while !running.over && count > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            if self.open < OPEN_MAX {
                let request = workload.next(random, &self.oracle, self.next_id);
                self.next_id += 1;
                count -= 1;
                self.ask(running, &request);
                while self.hear(running, Duration::ZERO) {}
            } else {
                self.hear(running, left);
            }
        }
    }

    /// Asks for one record and waits for its answer; `None` if there is none.
    pub fn append(
        &mut self,
        running: &mut Running,
        log: &str,
        len: usize,
        class: WriteClass,
    ) -> Option<Answers> {
        let request = Request::Append { log: log.to_owned(), id: self.next_id, len, class };
        self.next_id += 1;
        self.one(running, &request)
    }

    /// Asks, and waits until nothing is open; what was answered meanwhile.
    pub fn one(&mut self, running: &mut Running, request: &Request) -> Option<Answers> {
        let before = std::mem::take(&mut running.answers);
        self.ask(running, request);
        let answered = self.settle(running);
        let now = running.answers;
        running.answers = before;
        running.answers.add(&now);
        answered.then_some(now)
    }

    /// Waits until every question is answered; `false` if the driver is gone or says nothing any more.
    pub fn settle(&mut self, running: &mut Running) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while self.open > 0 && !running.over {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let open = self.open;
                self.broken("no answer", format!("{open} questions after {PATIENCE:?}"));
                return false;
            }
            self.hear(running, left);
        }
        self.open == 0
    }

    /// SIGKILL; what it had said before is read. Gives how it had ended if it was gone already.
    pub fn kill(&mut self, running: &mut Running) -> Option<ExitStatus> {
        let ended = running.process.wait(Duration::ZERO);
        running.process.kill();
        self.drain(running);
        ended
    }

    /// Ends its input and waits for it.
    pub fn close(&mut self, running: &mut Running) -> Option<ExitStatus> {
        running.process.close_input();
        let deadline = Instant::now() + PATIENCE;
        while !running.over && Instant::now() < deadline {
            self.hear(running, deadline.saturating_duration_since(Instant::now()));
        }
        let ended = running.process.wait(deadline.saturating_duration_since(Instant::now()));
        if ended.is_none() {
            self.broken("does not end", format!("{PATIENCE:?} after its input did"));
            running.process.kill();
        }
        self.drain(running);
        ended
    }

    fn drain(&mut self, running: &mut Running) {
        while !running.over {
            if !self.hear(running, PATIENCE) && !running.over {
                self.broken("does not end", "its output stays open".to_owned());
                break;
            }
        }
        self.history.note('!', "driver is gone");
        self.oracle.ended();
    }

    /// Dumps and checks. With `kill_after`, kills the dump then and checks nothing; says whether it was killed.
    pub fn dump(&mut self, kill_after: Option<Duration>) -> Result<bool, String> {
        let mut process = Process::start(self.driver.dump(&self.data))?;
        process.close_input();
        let deadline = Instant::now() + kill_after.unwrap_or(PATIENCE);
        let (mut shown, mut over) = (Vec::new(), false);
        while !over {
            match process.listen(deadline.saturating_duration_since(Instant::now())) {
                Said::Line(line) => match Shown::parse(&line) {
                    Some(one) => shown.push(one),
                    None => self.broken("not a dump", line),
                },
                Said::Over => over = true,
                Said::Nothing => break,
            }
        }
        if kill_after.is_some() && !over {
            process.kill();
            while let Said::Line(line) = process.listen(PATIENCE) {
                shown.extend(Shown::parse(&line));
            }
            for one in &shown {
                self.history.note('~', one);
                self.oracle.glimpsed(one);
            }
            self.history.note('#', "dump was killed");
            return Ok(true);
        }
        // It ends by itself now, whatever was planned.
        let ended = process.wait(PATIENCE);
        process.kill();
        if !ended.is_some_and(|status| status.success()) {
            let said = process.errors();
            self.broken("dump failed", format!("{}: {said}", told(ended)));
        }
        let files = files(&self.data);
        files.iter().for_each(|file| self.history.note('*', file));
        shown.iter().for_each(|one| self.history.note('=', one));
        self.oracle.dumped(&shown, Some(&files));
        self.gather();
        Ok(false)
    }

    /// Writes down what is wrong, and says where.
    #[must_use]
    pub fn keep(&mut self, how: &str) -> PathBuf {
        self.history.flush();
        let lines: Vec<String> = self.wrong.iter().map(ToString::to_string).collect();
        let text = format!("{how}\n\n{}\n", lines.join("\n"));
        let _ = std::fs::write(self.home.join("violations.txt"), text);
        self.home.clone()
    }
}

/// How a child ended, in words.
#[must_use]
pub fn told(status: Option<ExitStatus>) -> String {
    status.map_or_else(|| "it does not end".to_owned(), |status| status.to_string())
}

/// Every file below a directory, as paths in it.
#[must_use]
pub fn files(dir: &Path) -> BTreeSet<String> {
    let (mut found, mut folders) = (BTreeSet::new(), vec![dir.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if let Ok(path) = path.strip_prefix(dir) {
                found.insert(path.display().to_string());
            }
        }
    }
    found
}
