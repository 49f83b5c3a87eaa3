//! `plimsoll verify`.

use crate::failure::Failure;
use crate::inspect::{finding_json, settle, style, verdict};
use crate::numbers::{count, rate, size};
use crate::output;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plimsoll::fs::OsFileSystem;
use plimsoll::inspect::{FileCheck, Finding, Outcome, Verify as Work, VerifyReport};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Read everything in a data directory and check it
///
/// Every header, every record and how the segments hang together. Opens for reading only and works beside a running node.
/// Exit code 1 if something is damaged, with file and byte of each damage; 3 if something cannot
/// be read or is in the way of a log.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  plimsoll verify /var/lib/plimsoll")]
pub(crate) struct Verify {
    /// The data directory
    dir: PathBuf,
    /// How many files are read at a time; as many as there are processors if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
}

impl Verify {
    /// Runs it.
    pub(crate) fn run(&self, as_json: bool) -> Result<(), Failure> {
        let start = Instant::now();
        let work = Work::node(Arc::new(OsFileSystem), &self.dir, &settle);
        let progress = bar(&work, as_json);
        let fail = |error| Failure::io("start a thread for", self.dir.display(), &error);
        // The first error of printing; the others would be the same.
        let printed = std::thread::scope(|scope| {
            let step = || go_through(&work, &progress, as_json);
            let mut threads = Vec::new();
            for _ in 1..self.threads() {
                threads.push(std::thread::Builder::new().spawn_scoped(scope, step).map_err(fail)?);
            }
            let own = step();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<(), Failure>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).fold(own, |all, one| all.and(one))
        });
        progress.finish_and_clear();
        printed?;
        let report = work.finish();
        if as_json {
            output::line(report_json(&report))?;
        } else {
            print_rest(&report)?;
            print_sum(&report, start.elapsed().as_secs_f64())?;
        }
        let of_files = report.files_with_findings.iter().flat_map(|check| &check.findings);
        let all: Vec<Finding> = report.findings.iter().chain(of_files).cloned().collect();
        verdict(report.outcome, &all)
    }

    fn threads(&self) -> usize {
        self.threads.map_or_else(
            || std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            usize::from,
        )
    }
}

/// Takes files until none is left, and tells findings as they come.
fn go_through(work: &Work<'_>, progress: &ProgressBar, as_json: bool) -> Result<(), Failure> {
    while let Some(check) = work.step() {
        progress.inc(check.bytes);
        if !as_json && check.outcome > Outcome::Clean {
            progress.suspend(|| check.findings.iter().try_for_each(print_finding))?;
        }
    }
    Ok(())
}

fn print_finding(finding: &Finding) -> Result<(), Failure> {
    if finding.outcome == Outcome::Clean {
        return Ok(());
    }
    output::line(output::styled(style(finding.outcome), finding))
}

/// The findings that belong to no single file.
fn print_rest(report: &VerifyReport) -> Result<(), Failure> {
    report.findings.iter().try_for_each(print_finding)
}

fn print_sum(report: &VerifyReport, seconds: f64) -> Result<(), Failure> {
    let outcome = output::styled(style(report.outcome), report.outcome);
    output::line(format_args!(
        "verified {}, {}, {}, {} at {}/s: {outcome}",
        count(report.logs, "log"),
        count(report.files, "file"),
        count(report.records, "record"),
        size(report.bytes),
        size(rate(report.bytes, seconds)),
    ))
}

fn report_json(report: &VerifyReport) -> Value {
    let file = |check: &FileCheck| {
        json!({
            "log": check.log, "file": check.path.display().to_string(), "role": check.role.name(),
            "outcome": check.outcome.name(), "records": check.records, "bytes": check.bytes,
            "first": check.first.map(|offset| offset.0), "last": check.last.map(|offset| offset.0),
            "findings": check.findings.iter().map(finding_json).collect::<Vec<Value>>(),
        })
    };
    json!({
        "outcome": report.outcome.name(), "logs": report.logs, "files": report.files,
        "records": report.records, "bytes": report.bytes,
        "findings": report.findings.iter().map(finding_json).collect::<Vec<Value>>(),
        "files_with_findings": report.files_with_findings.iter().map(file).collect::<Vec<Value>>(),
    })
}

fn bar(work: &Work<'_>, as_json: bool) -> ProgressBar {
    if as_json || !output::is_watched() {
        return ProgressBar::hidden();
    }
    let template =
        "{wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} eta {eta}";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar =
        ProgressBar::with_draw_target(Some(work.bytes()), ProgressDrawTarget::stderr_with_hz(5));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar.with_style(style)
}
