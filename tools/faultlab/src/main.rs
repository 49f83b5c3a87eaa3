//! The command `faultlab`: 0 where all held, 1 where something did not, 2 for wrong use.
#![allow(clippy::disallowed_methods, reason = "not the engine: it measures by the system's clock")]

mod cmd;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Breaks the storage in every way that a machine can, and says what the engine made of it.
#[derive(Parser)]
#[command(name = "faultlab", version, max_term_width = 100)]
struct Cli {
    /// Print one JSON object in the place of tables.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Exhaustive(cmd::exhaustive::Args),
    Lives(cmd::lives::Args),
    Replay(cmd::replay::Args),
    Mutants(cmd::mutants::Args),
    Kill(cmd::kill::Args),
    Strace(cmd::strace::Args),
    Mounts(cmd::mounts::Args),
    #[command(hide = true)]
    Driver(cmd::driver::DriverArgs),
    #[command(hide = true)]
    Dump(cmd::driver::DumpArgs),
}

fn main() -> ExitCode {
    let Cli { json, command } = Cli::parse();
    let output = cmd::Output::new(json);
    let verdict = match command {
        Command::Exhaustive(args) => cmd::exhaustive::run(&args, &output),
        Command::Lives(args) => cmd::lives::run(&args, &output),
        Command::Replay(args) => cmd::replay::run(&args, &output),
        Command::Mutants(args) => cmd::mutants::run(&args, &output),
        Command::Kill(args) => cmd::kill::run(&args, &output),
        Command::Strace(args) => cmd::strace::run(&args, &output),
        Command::Mounts(args) => cmd::mounts::run(&args, &output),
        Command::Driver(args) => return cmd::driver::driver(&args),
        Command::Dump(args) => return cmd::driver::dump(&args),
    };
    match verdict {
        Ok(cmd::Verdict::Held) => ExitCode::SUCCESS,
        Ok(cmd::Verdict::Broken) => ExitCode::from(1),
        Err(wrong) => {
            eprintln!("faultlab: {wrong}");
            ExitCode::from(2)
        }
    }
}
