//! `plimsoll inspect`: looks, and changes nothing.

mod hex;
mod records;
mod segment;

use crate::failure::{Exit, Failure};
use crate::output;
use anstyle::Style;
use clap::Args;
use plimsoll::fs::OsFileSystem;
use plimsoll::inspect::{self as engine, Finding, Outcome, Which};
use std::path::PathBuf;
use std::time::Duration;

/// Show what a segment file, a log's directory or a data directory holds
///
/// Opens for reading only, takes no lock and changes nothing, so it works beside a running node and on a copy. Goes on
/// behind damage. Exit code 1 if something is damaged, 3 if something cannot be read.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  plimsoll inspect /var/lib/plimsoll/logs/orders/00000000000000000000.seg --records
  plimsoll inspect /var/lib/plimsoll/logs/orders --hex 1234")]
pub(crate) struct Inspect {
    /// A segment file, a log's directory, or a data directory
    path: PathBuf,
    /// List every record
    #[arg(long)]
    records: bool,
    /// Dump the record with this offset, or what stands at a byte of a file (@8192)
    #[arg(long, value_name = "OFFSET", value_parser = hex::parse_which, conflicts_with = "records")]
    hex: Option<Which>,
}

impl Inspect {
    /// Runs it.
    pub(crate) fn run(&self, as_json: bool) -> Result<(), Failure> {
        if let Some(which) = self.hex {
            return hex::run(&self.path, which, as_json);
        }
        let report = engine::segment(&OsFileSystem, &self.path, &settle);
        if as_json {
            if self.records {
                records::print(&self.path, as_json)?;
            }
            output::line(segment::json(&report))?;
        } else {
            segment::print(&report)?;
            if self.records {
                records::print(&self.path, as_json)?;
            }
        }
        verdict(report.outcome, &report.findings)
    }
}

/// Lets a node that may be writing what was just read get on.
pub(crate) fn settle() {
    std::thread::sleep(Duration::from_millis(50));
}

/// The colour of an outcome.
pub(crate) fn style(outcome: Outcome) -> Style {
    match outcome {
        Outcome::Clean | Outcome::BeingWritten | Outcome::Gone => output::GOOD,
        Outcome::TornTail | Outcome::Foreign => output::ODD,
        Outcome::Damaged | Outcome::Unreadable => output::BAD,
    }
}

/// The exit code of an outcome, with the first of the worst findings as its sentence.
pub(crate) fn verdict(outcome: Outcome, findings: &[Finding]) -> Result<(), Failure> {
    let exit = match outcome {
        Outcome::Damaged => Exit::Damage,
        Outcome::Unreadable => Exit::Io,
        _ => return Ok(()),
    };
    let Some(finding) = findings.iter().find(|finding| finding.outcome == outcome) else {
        return Err(Failure::new(exit, outcome.name()));
    };
    let failure = Failure::new(exit, finding.to_string())
        .with("file", finding.file.display().to_string())
        .with("position", finding.position)
        .with("detail", finding.detail.as_str());
    let more = findings.iter().filter(|finding| finding.outcome == outcome).count() - 1;
    let failure = match finding.offset {
        Some(offset) => failure.with("offset", offset.0),
        None => failure,
    };
    Err(if more > 0 { failure.and(format_args!("; and {more} findings more")) } else { failure })
}
