//! `faultlab strace`.
use super::output::{Table, count};
use super::place::Place;
use super::seam::Seam;
use super::{Output, Verdict};
use faultlab::process::inject::{LYING, Plan, Report, Row, TARGETS, run as inject};
use faultlab::process::random::Random;
use serde_json::{Value, json};
use std::path::PathBuf;

/// System calls that fail, once and for good, and syncs that only pretend; by `strace`. On both paths of commits, or with
/// --buffered on one.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these calls: pwrite, pwritev2, fdatasync, fsync, fallocate, ftruncate, rename, openat, unlink, mkdir, and
    /// lying for syncs that do nothing
    #[arg(long, value_delimiter = ',')]
    calls: Vec<String>,
    /// One run for each call and error
    #[arg(long)]
    short: bool,
    /// Where data directories are made; the place for temporary files by default
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where chance begins
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    seam: Seam,
}

pub(crate) fn run(args: &Args, output: &Output) -> super::Result {
    if let Some(unknown) = args
        .calls
        .iter()
        .find(|call| **call != *LYING && TARGETS.iter().all(|one| one.name != **call))
    {
        return Err(format!("no call {unknown}"));
    }
    // One thread for each log: `when=` counts in each thread, so the Nth call is nearly one.
    let programs = args.seam.programs(1)?;
    let mut place = Place::new(args.dir.as_deref(), "strace")?;
    let seed = args.seed.unwrap_or_else(Random::any_seed);
    let plan = Plan { calls: args.calls.clone(), short: args.short, seed };
    let mut reports = Vec::new();
    for (path, program) in &programs {
        let bar = output.bar(None, "runs");
        let report = inject(program, &place.path().join(path), &plan, |report| {
            bar.set_position(report.runs);
            bar.set_message(report.rows.last().map_or("", |row| row.call));
        })?;
        bar.finish_and_clear();
        output.say(format_args!("commits: {path}"));
        print(&report, output);
        reports.push((*path, report));
    }
    let results: Vec<Value> = reports.iter().map(|(path, report)| object(path, report)).collect();
    output.json(&json!({ "command": "strace", "seed": seed, "results": results }));
    if reports.iter().all(|(_, report)| report.violations.is_empty()) {
        return Ok(Verdict::Held);
    }
    place.keep();
    for (path, report) in &reports {
        for (run, violation) in report.violations.iter().take(20) {
            output.say(format_args!("{path}: {run}: {violation}"));
        }
        for kept in &report.kept {
            output.say(format_args!("kept: {}", kept.display()));
        }
    }
    Ok(Verdict::Broken)
}

fn mode(row: &Row) -> &'static str {
    if row.for_good { "for good" } else { "once" }
}

fn print(report: &Report, output: &Output) {
    let mut table = Table::new(&[
        "call",
        "error",
        "fails",
        "runs",
        "reached",
        "calls failed",
        "elsewhere",
        "ack",
        "not written",
        "unknown",
        "read-only",
        "ended",
        "violations",
    ]);
    for row in &report.rows {
        table.row(vec![
            row.call.to_owned(),
            row.error.to_owned(),
            mode(row).to_owned(),
            count(row.runs),
            count(row.reached),
            count(row.injected),
            count(row.elsewhere),
            count(row.answers.acks),
            count(row.answers.not_written),
            count(row.answers.unknown),
            count(row.read_only),
            count(row.ended),
            count(row.violations),
        ]);
    }
    output.table(&table);
    output.say(format_args!(
        "{} runs in {:.0} s, {} records checked, {} violations",
        count(report.runs),
        report.elapsed.as_secs_f64(),
        count(report.checked),
        count(report.violations.len() as u64)
    ));
    if report.traced_acks > 0 {
        output.say(format_args!(
            "without a fault: {} acks, each behind a sync that was done ({} of them)",
            count(report.traced_acks),
            count(report.traced_syncs)
        ));
    }
    for (call, found) in &report.lies_found {
        output.say(format_args!(
            "{call} that does nothing: found, {} acks without a sync",
            count(*found)
        ));
    }
    for (what, reason) in &report.skipped {
        output.say(format_args!("SKIPPED {what}: {reason}"));
    }
    output.say(format_args!("{} skipped", report.skipped.len()));
}

fn object(path: &str, report: &Report) -> Value {
    let row = |row: &Row| {
        json!({
            "call": row.call, "error": row.error, "fails": mode(row), "runs": row.runs,
            "runs_reached": row.reached, "logs_read_only": row.read_only,
            "calls_failed": row.injected, "calls_failed_elsewhere": row.elsewhere, "ended": row.ended,
            "acks": row.answers.acks, "not_written": row.answers.not_written, "unknown": row.answers.unknown,
            "violations": row.violations,
        })
    };
    json!({
        "path": path,
        "rows": report.rows.iter().map(row).collect::<Vec<_>>(),
        "runs": report.runs,
        "records_checked": report.checked,
        "traced_acks": report.traced_acks,
        "traced_syncs": report.traced_syncs,
        "lies_found": report.lies_found.iter().map(|(call, found)| json!({ "call": call, "acks": found })).collect::<Vec<_>>(),
        "seconds": report.elapsed.as_secs_f64(),
        "skipped": report.skipped.iter().map(|(what, why)| json!({ "what": what, "reason": why })).collect::<Vec<_>>(),
        "violations": report.violations.iter().map(|(run, one)| format!("{run}: {one}")).collect::<Vec<_>>(),
        "kept": report.kept,
    })
}
