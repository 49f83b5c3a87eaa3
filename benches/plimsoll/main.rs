//! Benchmarks: what the engine costs beside the bare system calls, measured in the same run.
//!
//! `cargo bench` runs all; `cargo bench -- commit scan` runs those named. `--json` prints one object a line instead of the
//! table. Machines differ and are rarely quiet, so that what counts is the ratio to a floor that was measured in turns
//! with the engine, and how far the rounds lie apart.
//!
//! `admission` counts instructions, and needs valgrind.
//!
//! `roll` and `roll-large` hold files that serve again against files made in other ways: ratios below 1 are in their favour.
//!
//! - `PLIMSOLL_BENCH_DIR`: where the files go; `target/…/plimsoll-bench` by default. It should be on the disk in question.
//! - `PLIMSOLL_BENCH_SMALL=1`: smaller sizes, for a first look.
//! - `PLIMSOLL_BENCH_ROUNDS`: rounds, 9 by default and at least 7.
#![allow(clippy::disallowed_methods, reason = "not the engine: measures it from outside")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark that cannot go on ends")]
#![allow(clippy::cast_possible_truncation, reason = "sizes chosen here")]

mod admission;
mod commit;
mod floor;
mod footprint;
mod process;
mod reopen;
mod report;
mod roll;
mod scan;
mod setup;

use report::Report;
use setup::Settings;

/// One group of measurements.
type Group = (&'static str, fn(&Settings, &mut Report));

const GROUPS: &[Group] = &[
    ("commit", commit::run),
    ("scan", scan::run),
    ("reopen", reopen::run),
    ("footprint", footprint::run),
    ("roll", roll::run),
    ("roll-large", roll::run_large),
    ("admission", admission::run),
];

fn main() {
    if let Some(dir) = std::env::var_os(reopen::CHILD) {
        let logs = std::env::args().nth(1).unwrap().parse().unwrap();
        return reopen::child(dir.as_ref(), logs);
    }
    if let Some(dir) = std::env::var_os(admission::CHILD) {
        return admission::child(dir.as_ref());
    }
    let mut report = Report::default();
    let mut named = Vec::new();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--json" => report.json = true,
            // Cargo's own.
            "--bench" => {}
            name if GROUPS.iter().any(|(group, _)| *group == name) => named.push(argument),
            other => {
                let names: Vec<&str> = GROUPS.iter().map(|(name, _)| *name).collect();
                eprintln!("{other}: expected --json or one of {}", names.join(", "));
                std::process::exit(2);
            }
        }
    }
    let settings = Settings::from_environment();
    report.start(&settings);
    for (name, run) in GROUPS {
        if named.is_empty() || named.iter().any(|wanted| wanted == name) {
            run(&settings, &mut report);
        }
    }
}
