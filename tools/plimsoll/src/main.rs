//! The `plimsoll` command. One file for each subcommand; the engine does the work.
#![allow(
    clippy::disallowed_methods,
    reason = "not the engine: a tool reads clocks and ordinary files itself"
)]

mod append;
mod args;
mod bench;
mod bytes_json;
mod cost;
mod delete;
mod failure;
mod inspect;
mod logs;
mod numbers;
mod output;
mod pool;
mod pressure;
mod read;
mod repair;
mod serve;
mod settings;
mod signals;
mod store;
mod table;
mod truncate;
mod verify;
mod view;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return args::refuse(&error),
    };
    match signals::survive_file_size_limit().and_then(|()| cli.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(cli.json),
    }
}
