//! `faultlab driver` and `faultlab dump`: this engine as a process that can be killed.
use faultlab::process::{driver, dump};
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;

/// Appends and truncates what standard input says; see PROCESS.md for the lines.
#[derive(Debug, clap::Args)]
pub(crate) struct DriverArgs {
    /// How many threads append to each log
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Commit through the page cache, also where the file system has direct writes
    #[arg(long)]
    buffered: bool,
    /// The data directory, made if it is missing
    dir: PathBuf,
}

/// Recovers a data directory and shows every record and file.
#[derive(Debug, clap::Args)]
pub(crate) struct DumpArgs {
    /// The data directory
    dir: PathBuf,
}

/// The exit code of a driver or a dump that could not do its work.
const FAILED: u8 = 3;

fn end(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::from(FAILED)
        }
    }
}

pub(crate) fn driver(args: &DriverArgs) -> ExitCode {
    let serve = || driver::serve(&args.dir, args.threads, args.buffered, io::stdin().lock());
    end(driver::with_planted(serve))
}

pub(crate) fn dump(args: &DumpArgs) -> ExitCode {
    end(driver::with_planted(|| dump::dump(&args.dir, &mut BufWriter::new(io::stdout().lock()))))
}
