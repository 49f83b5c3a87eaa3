//! The command line.

use crate::failure::{Exit, Failure};
use crate::output;
use crate::{
    append, bench, delete, inspect, logs, pool, pressure, read, repair, serve, truncate, verify,
};
use clap::{Parser, Subcommand};
use serde_json::json;
use std::process::ExitCode;

const EXIT_CODES: &str = "\
Exit codes:
  0   fine
  1   damage found: bytes that were known durable cannot be read
  2   wrong use: of the command line, or input that is not what was announced
  3   cannot read or write
  75  limited (ERR_LIMITED): refused for lack of space or memory, try again later; `pressure --check`
      found a device at hard or reserve
  130 and 143  `append` ended by SIGINT and by SIGTERM, after a confirmed batch; `bench` ended so, its folder removed

Errors go to standard error in one sentence; with --json its last line is an object as well.

Examples:
  plimsoll serve --data /var/lib/plimsoll-queues
  seq 1000 | plimsoll append /var/lib/plimsoll numbers
  plimsoll read /var/lib/plimsoll numbers --from 990";

/// Serve durable work queues over HTTP; append to, read, inspect, verify and repair the logs of a data directory.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    /// Write JSON: a line for each record, batch or finding, or one value
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Append(append::Append),
    Read(read::Read),
    Logs(logs::Logs),
    Truncate(truncate::Truncate),
    Delete(delete::Delete),
    Inspect(inspect::Inspect),
    Pool(pool::Pool),
    Pressure(pressure::Pressure),
    Verify(verify::Verify),
    Repair(repair::Repair),
    Bench(bench::Bench),
}

impl Cli {
    /// Runs the subcommand.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        match &self.command {
            Command::Serve(serve) => serve.run(self.json),
            Command::Append(append) => append.run(self.json),
            Command::Read(read) => read.run(self.json),
            Command::Logs(logs) => logs.run(self.json),
            Command::Truncate(truncate) => truncate.run(self.json),
            Command::Delete(delete) => delete.run(self.json),
            Command::Inspect(inspect) => inspect.run(self.json),
            Command::Pool(pool) => pool.run(self.json),
            Command::Pressure(pressure) => pressure.run(self.json),
            Command::Verify(verify) => verify.run(self.json),
            Command::Repair(repair) => repair.run(self.json),
            Command::Bench(bench) => bench.run(self.json),
        }
    }
}

/// Ends for a command line that does not parse, or that asks for help or the version.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    // Help goes to standard output, and its reader may have gone away.
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    if std::env::args_os().any(|arg| arg == "--json") {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let message = first.strip_prefix("error: ").unwrap_or(first);
        let object = json!({"error": "ERR_USAGE", "exit": Exit::Usage.code(), "message": message});
        output::plain_error_line(&object.to_string());
    }
    ExitCode::from(Exit::Usage.code())
}
