//! `plimsoll inspect`: looks, and changes nothing.

mod hex;
mod log;
mod node;
mod records;
mod segment;

pub(crate) use node::{held_text, layout, layout_json};
pub(crate) use segment::{finding_json, print_finding};

use crate::failure::{Exit, Failure};
use crate::{numbers, output};
use anstyle::Style;
use clap::Args;
use plimsoll::Offset;
use plimsoll::fs::{FileKind, FileSystem, OsFileSystem};
use plimsoll::inspect::{
    self as engine, Depth, Finding, Outcome, Role, SegmentEntry, SegmentReport, Which,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Show what a segment file, a log's directory or a data directory holds
///
/// Opens for reading only, takes no lock and changes nothing, so it works beside a running node and on a copy. Goes on
/// behind damage. Exit code 1 if something is damaged, 3 if something cannot be read or is in
/// the way of a log.
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
        match kind(&self.path) {
            Kind::File => self.file(as_json),
            Kind::Log => self.log(as_json),
            Kind::Node if self.records || self.hex.is_some() => Err(Failure::usage(format!(
                "{} is a data directory; --records and --hex take a log's directory in {} or a segment file",
                self.path.display(),
                self.path.join("logs").display()
            ))),
            Kind::Node => {
                let report = engine::node(&OsFileSystem, &self.path, Depth::Ends, &settle);
                if as_json {
                    output::line(node::json(&report))?
                } else {
                    node::print(&report)?
                }
                let findings: Vec<Finding> = report.all_findings().cloned().collect();
                verdict(report.outcome, &findings)
            }
        }
    }

    fn file(&self, as_json: bool) -> Result<(), Failure> {
        if let Some(which) = self.hex {
            return hex::run(&self.path, which, as_json);
        }
        let report = engine::segment(&OsFileSystem, &placed(&self.path), &settle);
        self.print_segment(&report, None, as_json)?;
        verdict(report.outcome, &report.findings)
    }

    /// `end` is where the next segment says that this one ends.
    fn print_segment(
        &self,
        report: &SegmentReport,
        end: Option<Offset>,
        as_json: bool,
    ) -> Result<(), Failure> {
        if as_json {
            output::line(segment::json(report))?;
        } else {
            segment::print(report)?;
        }
        // What cannot be opened has no records to list, and was told. What was given up has none that are a log's.
        if self.records && report.outcome != Outcome::Unreadable && report.standing.is_none() {
            records::print(&report.path, end, as_json)?;
        }
        Ok(())
    }

    fn log(&self, as_json: bool) -> Result<(), Failure> {
        let depth = if self.records { Depth::Records } else { Depth::Ends };
        let report = engine::log(&OsFileSystem, &self.path, depth, &settle);
        if let Some(which) = self.hex {
            let Which::Offset(offset) = which else {
                let sentence = format!("{}: a byte is one of a segment file", self.path.display());
                return Err(Failure::usage(sentence).with("field", "--hex"));
            };
            // The last file that begins at or before it, whatever is known of it.
            let own = |entry: &&SegmentEntry| {
                entry.base <= offset && matches!(entry.role, Role::Segment | Role::BehindDamage)
            };
            let Some(entry) = report.segments.iter().rfind(own) else {
                let sentence = format!("{}: holds no record {offset}", self.path.display());
                return Err(Failure::new(Exit::Io, sentence).with("offset", offset.0));
            };
            return hex::run(&entry.path, which, as_json);
        }
        if as_json {
            output::line(log::json(&report))?
        } else {
            log::print(&report)?
        }
        for entry in &report.segments {
            if let Some(segment) = &entry.report {
                self.print_segment(segment, entry.end.filter(|_| entry.sealed), as_json)?;
            }
        }
        verdict(report.outcome, &report.findings)
    }
}

/// What a path is taken for.
enum Kind {
    File,
    Log,
    Node,
}

/// A directory with `LAYOUT` or `logs` in it is a data directory, any other one a log's. What is no directory, or cannot
/// be listed, is for the look at files to tell.
fn kind(path: &Path) -> Kind {
    match OsFileSystem.metadata(path) {
        Ok(found) if found.kind == FileKind::Directory => {}
        _ => return Kind::File,
    }
    let entries = OsFileSystem.list(path).unwrap_or_default();
    let is_node = entries.iter().any(|entry| entry.name == "LAYOUT" || entry.name == "logs");
    if is_node { Kind::Node } else { Kind::Log }
}

/// A spare is known by where it stands, which a bare name does not say.
fn placed(path: &Path) -> PathBuf {
    let bare = path.parent().is_some_and(|parent| parent.as_os_str().is_empty());
    let among_spares = |path: &PathBuf| path.parent().is_some_and(|dir| dir.ends_with("spares"));
    let whole = std::path::absolute(path).ok().filter(among_spares);
    whole.filter(|_| bare).unwrap_or_else(|| path.to_path_buf())
}

/// Lets a node that may be writing what was just read get on.
pub(crate) fn settle() {
    std::thread::sleep(Duration::from_millis(50));
}

/// The colour of an outcome.
pub(crate) fn style(outcome: Outcome) -> Style {
    match outcome {
        Outcome::Clean | Outcome::BeingWritten | Outcome::Gone => output::GOOD,
        Outcome::Stray | Outcome::TornTail => output::ODD,
        Outcome::Foreign | Outcome::Damaged | Outcome::Unreadable => output::BAD,
    }
}

/// The exit code of an outcome, with the first of the worst findings as its sentence.
pub(crate) fn verdict(outcome: Outcome, findings: &[Finding]) -> Result<(), Failure> {
    let exit = match outcome {
        Outcome::Damaged => Exit::Damage,
        Outcome::Foreign | Outcome::Unreadable => Exit::Io,
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
    Err(if more > 0 {
        failure.and(format_args!("; and {}", numbers::count(more as u64, "more finding")))
    } else {
        failure
    })
}
