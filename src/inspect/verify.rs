//! Reads everything in a data directory, or in one log, and says of each file whether it is good.
//!
//! The work is cut into files; any number of threads take them one after the other, and each holds one buffer. Nothing
//! here starts a thread: who verifies brings them.

use super::log::{LogReport, Role, SegmentEntry, examine_entry, outline};
use super::node::{self, Scope};
use super::outcome::{Finding, Outcome};
use super::segment::Extent;
use super::tree::finding;
use super::twins::find_twins;
use crate::fs::FileSystem;
use crate::types::Offset;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// What came of one file.
#[derive(Clone, Debug)]
pub struct FileCheck {
    /// The log's name.
    pub log: String,
    /// The file.
    pub path: PathBuf,
    /// What it is to the log.
    pub role: Role,
    /// The worst of its findings.
    pub outcome: Outcome,
    /// Valid records in it.
    pub records: u64,
    /// Its length in bytes, all of which was read.
    pub bytes: u64,
    /// Offset of the first record, where there is one.
    pub first: Option<Offset>,
    /// Offset of the last one.
    pub last: Option<Offset>,
    /// What there is to say.
    pub findings: Vec<Finding>,
}

/// What came of everything.
#[derive(Clone, Debug)]
pub struct VerifyReport {
    /// The worst of all.
    pub outcome: Outcome,
    /// Logs looked at.
    pub logs: u64,
    /// Files read.
    pub files: u64,
    /// Records checked.
    pub records: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Findings that belong to no single segment file: layout, links, foreign files, how segments hang together.
    pub findings: Vec<Finding>,
    /// The files with something to say, in the order of their logs and bases.
    pub files_with_findings: Vec<FileCheck>,
}

#[derive(Debug)]
struct Job {
    log: String,
    entry: SegmentEntry,
}

#[derive(Debug, Default)]
struct Done {
    files: u64,
    records: u64,
    bytes: u64,
    with_findings: Vec<(usize, FileCheck)>,
}

/// A verification under way.
pub struct Verify<'a> {
    fs: Arc<dyn FileSystem>,
    settle: &'a (dyn Fn() + Sync),
    jobs: Vec<Job>,
    next: AtomicUsize,
    logs: u64,
    findings: Vec<Finding>,
    done: Mutex<Done>,
}

impl std::fmt::Debug for Verify<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verify").field("files", &self.jobs.len()).field("next", &self.next).finish()
    }
}

impl<'a> Verify<'a> {
    /// Prepares to verify a data directory: lists it, and reads headers and the ends of logs.
    #[must_use]
    pub fn node(fs: Arc<dyn FileSystem>, dir: &Path, settle: &'a (dyn Fn() + Sync)) -> Self {
        let (mut report, logs) = node::outline(&*fs, dir, Scope::Whole, settle);
        for log in logs {
            report.logs.push((log.name, outline(&*fs, &log.path, settle)));
        }
        let mut findings = report.findings.clone();
        findings.extend(find_twins(&*fs, &report));
        Self::new(fs, settle, report.logs, findings)
    }

    /// Prepares to verify one log.
    #[must_use]
    pub fn log(fs: Arc<dyn FileSystem>, dir: &Path, settle: &'a (dyn Fn() + Sync)) -> Self {
        let name = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned();
        let report = outline(&*fs, dir, settle);
        Self::new(fs, settle, vec![(name, report)], Vec::new())
    }

    fn new(
        fs: Arc<dyn FileSystem>,
        settle: &'a (dyn Fn() + Sync),
        reports: Vec<(String, LogReport)>,
        mut findings: Vec<Finding>,
    ) -> Self {
        let logs = reports.len() as u64;
        let mut jobs = Vec::new();
        for (name, report) in reports {
            findings.extend(report.findings);
            let entries = report.segments.into_iter();
            jobs.extend(entries.map(|entry| Job { log: name.clone(), entry }));
        }
        let (next, done) = (AtomicUsize::new(0), Mutex::default());
        Self { fs, settle, jobs, next, logs, findings, done }
    }

    /// How many files there are to read.
    #[must_use]
    pub fn files(&self) -> usize {
        self.jobs.len()
    }

    /// Bytes that there are to read.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.jobs.iter().map(|job| job.entry.file_len).sum()
    }

    /// Reads one more file and says what came of it; `None` when no file is left to take. Call it from as many threads as
    /// are to work, until each got `None`. Blocks on reading the whole file.
    pub fn step(&self) -> Option<FileCheck> {
        let at = self.next.fetch_add(1, Relaxed);
        let job = self.jobs.get(at)?;
        let check = check(&*self.fs, job, self.settle);
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.files += 1;
        done.records += check.records;
        done.bytes += check.bytes;
        if !check.findings.is_empty() {
            done.with_findings.push((at, check.clone()));
        }
        Some(check)
    }

    /// Reads what is left and sums up.
    #[must_use]
    pub fn finish(self) -> VerifyReport {
        while self.step().is_some() {}
        let mut done = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.with_findings.sort_unstable_by_key(|(at, _)| *at);
        let mut report = VerifyReport {
            outcome: Outcome::Clean,
            logs: self.logs,
            files: done.files,
            records: done.records,
            bytes: done.bytes,
            findings: self.findings,
            files_with_findings: done.with_findings.into_iter().map(|(_, check)| check).collect(),
        };
        report.settle_doubles();
        report
    }
}

impl VerifyReport {
    /// What the look at a log's end found suspicious, its file's own check decides: that one looked later, and twice.
    fn settle_doubles(&mut self) {
        let checks = &self.files_with_findings;
        self.findings.retain(|found| {
            let check = checks.iter().find(|check| check.path == found.file);
            match check {
                Some(check) if found.position.is_some() => {
                    let same = |other: &Finding| other.position == found.position;
                    let alive = matches!(check.outcome, Outcome::BeingWritten | Outcome::Gone);
                    !alive && !check.findings.iter().any(same)
                }
                _ => true,
            }
        });
        let all = self.findings.iter().map(|found| found.outcome);
        let checked = self.files_with_findings.iter().map(|check| check.outcome);
        self.outcome = all.chain(checked).max().unwrap_or(Outcome::Clean);
    }
}

fn check(fs: &dyn FileSystem, job: &Job, settle: &(dyn Fn() + Sync)) -> FileCheck {
    let entry = &job.entry;
    let mut report = examine_entry(fs, entry, Extent::Records, settle);
    let header = entry.header.and_then(Result::ok);
    // The entry was read when the log was listed. What is another use of the file by now, or nothing any more, is gone.
    let changed = header.is_some() && report.header.is_ok() && report.header.ok() != header;
    let missing =
        fs.metadata(&entry.path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    if changed || missing {
        let detail = "went away or went on to another use since it was listed";
        report.outcome = Outcome::Gone;
        report.findings = vec![finding(Outcome::Gone, &entry.path, detail)];
    }
    FileCheck {
        log: job.log.clone(),
        path: entry.path.clone(),
        role: entry.role,
        outcome: report.outcome,
        records: report.records.count,
        bytes: report.file_len,
        first: report.records.first,
        last: report.records.last,
        findings: report.findings,
    }
}

/// Verifies a data directory with the caller's thread alone; `progress` sees each file as it is done.
pub fn verify(
    fs: Arc<dyn FileSystem>,
    dir: &Path,
    settle: &(dyn Fn() + Sync),
    progress: &mut dyn FnMut(&FileCheck),
) -> VerifyReport {
    let verify = Verify::node(fs, dir, settle);
    while let Some(check) = verify.step() {
        progress(&check);
    }
    verify.finish()
}
