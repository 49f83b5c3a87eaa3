//! What is told of a log's directory.

use super::segment::{finding_json, print_finding};
use crate::cost::Cost;
use crate::failure::Failure;
use crate::numbers::{size, thousands};
use crate::output;
use crate::table::{self, Cell, Lean};
use plimsoll::format::header::Header;
use plimsoll::inspect::{LogReport, Role, SegmentEntry};
use serde_json::{Value, json};

/// Prints a log's report.
pub(crate) fn print(report: &LogReport) -> Result<(), Failure> {
    output::line(output::styled(output::BOLD, report.dir.display()))?;
    for (title, text) in lines(report) {
        output::line(format_args!("  {title:<11} {text}"))?;
    }
    if !report.segments.is_empty() {
        print_segments(&report.segments)?;
    }
    for finding in &report.findings {
        print_finding(finding)?;
    }
    let outcome = output::styled(super::style(report.outcome), report.outcome);
    output::line(format_args!("  {:<11} {outcome}", "outcome"))
}

fn lines(report: &LogReport) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    match report.id {
        Some(id) => out.push(("log", id.to_string())),
        None => out.push(("log", "has no segment".to_owned())),
    }
    out.push(("offsets", format!("head {}, tail {}", report.head, report.tail)));
    let open = report.unvouched_records;
    let more = if open > 0 {
        format!(
            "; nothing says so of {} records behind it, which the next start makes durable",
            thousands(open)
        )
    } else {
        String::new()
    };
    out.push(("durable", format!("up to offset {}{more}", report.vouched)));
    for gap in &report.gaps {
        let last = gap.to.0.saturating_sub(1);
        out.push(("gap", format!("offsets {} to {last} were declared lost by a repair", gap.from)));
    }
    out.push(("files", Cost::of(report).text()));
    for path in &report.temporary {
        out.push(("temporary", format!("{}, which the next start deletes", path.display())));
    }
    out
}

fn header(entry: &SegmentEntry) -> Option<&Header> {
    entry.header.as_ref()?.as_ref().ok()
}

fn print_segments(segments: &[SegmentEntry]) -> Result<(), Failure> {
    let columns = [
        ("  BASE", Lean::Right),
        ("END", Lean::Right),
        ("CLASS", Lean::Left),
        ("GENERATION", Lean::Right),
        ("SIZE", Lean::Right),
        ("ORIGIN", Lean::Left),
        ("ROLE", Lean::Left),
    ];
    let dash = || "-".to_owned();
    let cells = |entry: &SegmentEntry| {
        let header = header(entry);
        let origin = header.and_then(|header| header.in_use).map(|in_use| in_use.origin.name());
        let role = match entry.role {
            Role::Segment => Cell::new(entry.role.name()),
            Role::BackToPool | Role::Remove => Cell::styled(output::ODD, entry.role.name()),
            Role::BehindDamage | Role::Unknown => Cell::styled(output::BAD, entry.role.name()),
        };
        vec![
            Cell::new(format!("  {}", entry.base)),
            Cell::new(entry.end.map_or_else(dash, |end| end.to_string())),
            Cell::new(header.map_or("-", |header| header.class.name())),
            Cell::new(header.map_or_else(dash, |header| header.generation.get().to_string())),
            Cell::new(size(entry.file_len)),
            Cell::new(origin.unwrap_or("-")),
            role,
        ]
    };
    let rows: Vec<Vec<Cell>> = segments.iter().map(cells).collect();
    table::lines(&columns, &rows).iter().try_for_each(output::line)
}

/// A log's report as an object.
pub(crate) fn json(report: &LogReport) -> Value {
    let entry = |entry: &SegmentEntry| {
        let header = header(entry);
        json!({
            "file": entry.path.display().to_string(), "base": entry.base.0,
            "end": entry.end.map(|end| end.0), "sealed": entry.sealed, "role": entry.role.name(),
            "class": header.map(|header| header.class.name()),
            "generation": header.map(|header| header.generation.get()),
            "bytes": entry.file_len, "disk_bytes": entry.disk_bytes,
        })
    };
    let mut object = json!({
        "dir": report.dir.display().to_string(), "outcome": report.outcome.name(),
        "log": report.id.map(|id| id.to_string()), "head": report.head.0, "tail": report.tail.0,
        "durable": report.vouched.0, "unconfirmed_records": report.unvouched_records,
        "gaps": report.gaps.iter().map(|gap| json!([gap.from.0, gap.to.0])).collect::<Vec<Value>>(),
        "segments": report.segments.iter().map(entry).collect::<Vec<Value>>(),
        "findings": report.findings.iter().map(finding_json).collect::<Vec<Value>>(),
    });
    if let Some(object) = object.as_object_mut() {
        Cost::insert(Some(&Cost::of(report)), object);
    }
    object
}
