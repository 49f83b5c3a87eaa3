//! The engine's speed beside that of its peers and of bare system calls, in one run. See `README.md`.
#![allow(clippy::disallowed_methods, reason = "not the engine: measures it from outside")]
#![allow(clippy::disallowed_types, reason = "not the engine: measures it from outside")]

mod child;
mod files;
mod judge;
mod machine;
mod plot;
mod process;
mod prove;
mod quiet;
mod results;
mod run;
mod shim;
mod stats;
mod systems;
mod table;
mod workload;

use clap::Parser;
use results::{Results, Version};
use run::Setting;
use std::path::PathBuf;
use std::process::ExitCode;
use systems::System;
use workload::{Scale, WORKLOADS, Workload};

/// Measures the engine beside its peers and bare system calls, all in the same rounds.
#[derive(Debug, Parser)]
#[command(name = "plimsoll-compare", version)]
struct Options {
    /// Smaller sizes and shorter turns, for a first look: some two minutes.
    #[arg(long)]
    quick: bool,
    /// Only these workloads.
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    only: Vec<String>,
    /// Only these systems or families of them: plimsoll, floor, okaywal, …
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    systems: Vec<String>,
    /// Rounds: how often each system has its turn. [default: 9, with --quick 3]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Where the data goes: it should be on the disk in question. [default: beside the program]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where results.csv, results.json and results.svg go. [default: compare-results beside the program]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Shows with strace how often each system syncs, instead of measuring.
    #[arg(long)]
    prove: bool,
    /// Lists workloads and systems.
    #[arg(long)]
    list: bool,
}

fn chosen<'a>(only: &[String]) -> Result<Vec<&'a Workload>, String> {
    for name in only {
        if !WORKLOADS.iter().any(|of| of.id == name) {
            let known: Vec<_> = WORKLOADS.iter().map(|of| of.id).collect();
            return Err(format!("{name}: expected one of {}", known.join(", ")));
        }
    }
    let wanted = |of: &&Workload| only.is_empty() || only.iter().any(|name| name == of.id);
    Ok(WORKLOADS.iter().filter(wanted).collect())
}

fn chosen_systems(only: &[String]) -> Result<Vec<System>, String> {
    for name in only {
        if !systems::all().iter().any(|system| system.is(name)) {
            let known: Vec<_> = systems::all().iter().map(|system| system.name).collect();
            return Err(format!("{name}: expected one of {}", known.join(", ")));
        }
    }
    let wanted = |system: &System| only.is_empty() || only.iter().any(|name| system.is(name));
    Ok(systems::all().into_iter().filter(wanted).collect())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, job] = &arguments[..]
        && word == "child"
    {
        child::main(job);
        return ExitCode::SUCCESS;
    }
    match measure(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// False where a proof or a system failed. A target that is missed is a result.
fn measure(options: &Options) -> Result<bool, String> {
    let workloads = chosen(&options.only)?;
    let systems = chosen_systems(&options.systems)?;
    if options.list {
        workloads.iter().for_each(|of| println!("{:18} {}", of.id, of.says));
        println!();
        systems.iter().for_each(|system| println!("{:28} {}", system.name, system.mode));
        return Ok(true);
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let beside = |name: &str| program.with_file_name(name);
    let dir = options.dir.clone().unwrap_or_else(|| beside("compare-data"));
    let out = options.out.clone().unwrap_or_else(|| beside("compare-results"));
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    std::fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let free = process::free_space(&dir);
    let setting = Setting {
        shim: shim::path()?,
        scale: if options.quick { Scale::quick() } else { Scale::full(free) },
        rounds: options.rounds.unwrap_or(if options.quick { 3 } else { 9 }).max(1),
        dir,
    };
    if options.prove {
        let of = WORKLOADS.iter().find(|of| of.id == "single-1k").ok_or("no such workload")?;
        let (report, fine) = prove::run(&setting, of, &systems);
        let path = out.join("syncs.txt");
        std::fs::write(&path, report).map_err(|error| error.to_string())?;
        println!("\nin {}", path.display());
        return Ok(fine);
    }
    let versions = systems.iter().map(|system| Version {
        system: system.name,
        version: system.version(),
        mode: system.mode,
    });
    let mut results = Results {
        machine: machine::look(&setting.dir),
        versions: versions.collect(),
        rounds: setting.rounds,
        scale: setting.scale,
        parts: Vec::new(),
        verdicts: Vec::new(),
    };
    table::start(&results.machine, &results.versions, setting.rounds);
    for of in workloads {
        let begun = std::time::Instant::now();
        let part = run::part(&setting, of, &systems);
        table::part(&part);
        println!("  {:.0} s", begun.elapsed().as_secs_f64());
        results.verdicts.extend(judge::verdicts(&part));
        results.parts.push(part);
        // After each, so that a run that is broken off has what it got.
        files::write(&out, &results).map_err(|error| error.to_string())?;
        plot::write(&out, &results).map_err(|error| error.to_string())?;
    }
    println!("\nin {}", out.display());
    Ok(results.parts.iter().all(|part| part.absent.iter().all(|absent| !absent.failed)))
}
