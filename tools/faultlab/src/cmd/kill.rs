//! `faultlab kill`.
use super::output::{Table, count, per_second};
use super::place::Place;
use super::seam::Seam;
use super::{Output, Verdict};
use faultlab::process::history;
use faultlab::process::kill::{Report, run as kill};
use faultlab::process::random::Random;
use serde_json::{Value, json};
use std::path::PathBuf;

/// SIGKILL in a loop: during appends, rolls, truncations, starts and recoveries; checked after each.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many drivers are killed
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
    /// Where the data directory is made; the place for temporary files by default
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where chance begins; the moments of the kills are the machine's
    #[arg(long)]
    seed: Option<u64>,
    /// Check the history of an earlier run again, and start nothing
    #[arg(long, value_name = "FILE")]
    recheck: Option<PathBuf>,
    #[command(flatten)]
    seam: Seam,
}

pub(crate) fn run(args: &Args, output: &Output) -> super::Result {
    if let Some(file) = &args.recheck {
        return recheck(file, output);
    }
    let program = args.seam.program(2)?;
    let mut place = Place::new(args.dir.as_deref(), "kill")?;
    let seed = args.seed.unwrap_or_else(Random::any_seed);
    let bar = output.bar(Some(args.rounds), "rounds");
    let home = place.path().to_path_buf();
    let report = kill(&program, &home, &home.join("data"), args.rounds, seed, |report| {
        bar.set_position(report.rounds);
        bar.set_message(format!("{} acks", count(report.acks)));
    })?;
    bar.finish_and_clear();
    let mut table = Table::new(&HEAD);
    table.row(row("kill", &report));
    output.table(&table);
    output.json(&json!({ "command": "kill", "seed": seed, "result": object(&report) }));
    if report.violations.is_empty() {
        return Ok(Verdict::Held);
    }
    place.keep();
    broken(output, &report);
    Ok(Verdict::Broken)
}

pub(crate) const HEAD: [&str; 10] = [
    "",
    "rounds",
    "kills",
    "starting",
    "recovering",
    "acks",
    "truncations",
    "records checked",
    "rounds/s",
    "violations",
];

pub(crate) fn row(name: &str, report: &Report) -> Vec<String> {
    vec![
        name.to_owned(),
        count(report.rounds),
        count(report.kills + report.kills_recovering),
        count(report.kills_starting),
        count(report.kills_recovering),
        count(report.acks),
        count(report.truncations),
        count(report.checked),
        tenths(per_second(report.rounds * 10, report.elapsed)),
        count(report.violations.len() as u64),
    ]
}

/// 123 as `12.3`.
fn tenths(number: u64) -> String {
    format!("{}.{}", number / 10, number % 10)
}

pub(crate) fn object(report: &Report) -> Value {
    json!({
        "rounds": report.rounds,
        "kills": report.kills + report.kills_recovering,
        "kills_while_starting": report.kills_starting,
        "kills_while_recovering": report.kills_recovering,
        "acks": report.acks,
        "truncations": report.truncations,
        "records_checked": report.checked,
        "file_checks": report.files_checked,
        "seconds": report.elapsed.as_secs_f64(),
        "violations": report.violations.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "kept": report.kept,
    })
}

/// What did not hold, and where it is kept.
pub(crate) fn broken(output: &Output, report: &Report) {
    for violation in report.violations.iter().take(20) {
        output.say(violation);
    }
    if let Some(kept) = &report.kept {
        output.say(format_args!("kept: {}", kept.display()));
        output.say(format_args!(
            "again, without the engine: faultlab kill --recheck {}",
            kept.join("history.txt").display()
        ));
    }
}

#[allow(clippy::disallowed_methods, reason = "not the engine: the lab's own files")]
fn recheck(file: &std::path::Path, output: &Output) -> super::Result {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let wrong = history::check(&text)?;
    let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    wrong.iter().for_each(|violation| output.say(violation));
    output.say(format_args!("{} violations", wrong.len()));
    output.json(&json!({ "command": "kill", "recheck": file, "violations": wrong }));
    Ok(if wrong.is_empty() { Verdict::Held } else { Verdict::Broken })
}
