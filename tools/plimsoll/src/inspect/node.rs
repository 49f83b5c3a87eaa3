//! What is told of a data directory.

use super::log;
use super::segment::{finding_json, print_finding};
use crate::cost::Cost;
use crate::failure::Failure;
use crate::numbers::{size, thousands};
use crate::output;
use crate::table::{self, Cell, Lean};
use plimsoll::inspect::{Kept, LayoutView, LogReport, NodeReport, SpareEntry};
use plimsoll::types::SizeClass;
use serde_json::{Map, Value, json};

/// Prints a data directory's report.
pub(crate) fn print(report: &NodeReport) -> Result<(), Failure> {
    output::line(output::styled(output::BOLD, report.dir.display()))?;
    for (title, text) in lines(report) {
        output::line(format_args!("  {title:<11} {text}"))?;
    }
    if !report.logs.is_empty() {
        print_logs(&report.logs)?;
    }
    for finding in report.all_findings() {
        print_finding(finding)?;
    }
    let outcome = output::styled(super::style(report.outcome), report.outcome);
    output::line(format_args!("  {:<11} {outcome}", "outcome"))
}

/// What all logs cost against what they hold.
fn total(report: &NodeReport) -> Cost {
    Cost::sum(report.logs.iter().map(|(_, log)| Cost::of(log)))
}

pub(crate) fn layout(view: &LayoutView) -> String {
    match view {
        LayoutView::Valid(sizes) => {
            format!(
                "main {}, small {}, tiny {}",
                size(sizes.main),
                size(sizes.small),
                size(sizes.tiny)
            )
        }
        LayoutView::ToBeMade => "not there; a start makes it".to_owned(),
        LayoutView::Refused(error) => error.to_string(),
        LayoutView::Unreadable => "cannot be read".to_owned(),
    }
}

/// Whether a node has a directory open.
pub(crate) const fn held_text(held: Option<bool>) -> &'static str {
    match held {
        Some(true) => "open in a process",
        Some(false) => "not open in any process",
        None => "not known whether a process has it open",
    }
}

fn lines(report: &NodeReport) -> Vec<(&'static str, String)> {
    let spare_bytes = report.spares.iter().map(|spare| spare.disk_bytes).sum();
    let mut out = vec![
        ("layout", layout(&report.layout)),
        ("state", held_text(report.held).to_owned()),
        ("logs", format!("{}; {}", thousands(report.logs.len() as u64), total(report).text())),
        (
            "spares",
            format!(
                "{}, {} on disk{}",
                report.spares.len(),
                size(spare_bytes),
                classes(&report.spares)
            ),
        ),
    ];
    for (title, kept) in [("trash", &report.trash), ("quarantine", &report.quarantine)] {
        if !kept.is_empty() {
            let files = kept.iter().map(|kept| kept.files).sum();
            let bytes = kept.iter().map(|kept| kept.disk_bytes).sum();
            out.push((title, format!("{} files, {} on disk", thousands(files), size(bytes))));
        }
    }
    out
}

/// How many spares there are of each class.
fn classes(spares: &[SpareEntry]) -> String {
    let count = |class: SizeClass| {
        let of_class = |spare: &&SpareEntry| matches!(&spare.header, Some(Ok(header)) if header.class == class);
        let count = spares.iter().filter(of_class).count();
        (count > 0).then(|| format!("{count} {class}"))
    };
    let counts: Vec<String> = SizeClass::ALL.into_iter().filter_map(count).collect();
    if counts.is_empty() { String::new() } else { format!(" ({})", counts.join(", ")) }
}

fn print_logs(logs: &[(String, LogReport)]) -> Result<(), Failure> {
    let columns = [
        ("  NAME", Lean::Left),
        ("HEAD", Lean::Right),
        ("TAIL", Lean::Right),
        ("DURABLE", Lean::Right),
        ("SEGMENTS", Lean::Right),
        ("HELD", Lean::Right),
        ("FILES", Lean::Right),
        ("ON DISK", Lean::Right),
        ("USED", Lean::Right),
        ("OUTCOME", Lean::Left),
    ];
    let cells = |(name, log): &(String, LogReport)| {
        vec![
            Cell::new(format!("  {name}")),
            Cell::new(log.head.to_string()),
            Cell::new(log.tail.to_string()),
            Cell::new(log.vouched.to_string()),
            Cell::new(thousands(log.segments.len() as u64)),
            Cell::new(size(log.held.bytes)),
            Cell::new(size(log.file_bytes)),
            Cell::new(size(log.disk_bytes)),
            Cell::new(Cost::of(log).used()),
            Cell::styled(super::style(log.outcome), log.outcome.name()),
        ]
    };
    let rows: Vec<Vec<Cell>> = logs.iter().map(cells).collect();
    table::lines(&columns, &rows).iter().try_for_each(output::line)
}

/// A data directory's report as an object.
pub(crate) fn json(report: &NodeReport) -> Value {
    let log = |(name, log): &(String, LogReport)| {
        let mut object = log::json(log);
        object["name"] = json!(name);
        object
    };
    let spare = |spare: &SpareEntry| {
        let header = spare.header.as_ref().and_then(|header| header.as_ref().ok());
        let sizes = report.layout.sizes();
        json!({
            "file": spare.path.display().to_string(), "bytes": spare.file_len,
            "disk_bytes": spare.disk_bytes, "class": header.map(|header| header.class.name()),
            "generation": header.map(|header| header.generation.get()), "temporary": spare.temporary,
            "state": spare.state(sizes).name(),
            "next_generation": spare.next_generation(sizes).map(|next| next.get()),
        })
    };
    let kept = |kept: &Kept| {
        json!({
            "path": kept.path.display().to_string(), "files": kept.files, "disk_bytes": kept.disk_bytes,
        })
    };
    let mut sum = Map::new();
    Cost::insert(Some(&total(report)), &mut sum);
    json!({
        "dir": report.dir.display().to_string(), "outcome": report.outcome.name(),
        "layout": layout_json(&report.layout), "held": report.held,
        "total": sum,
        "logs": report.logs.iter().map(log).collect::<Vec<Value>>(),
        "spares": report.spares.iter().map(spare).collect::<Vec<Value>>(),
        "trash": report.trash.iter().map(kept).collect::<Vec<Value>>(),
        "quarantine": report.quarantine.iter().map(kept).collect::<Vec<Value>>(),
        "findings": report.findings.iter().map(finding_json).collect::<Vec<Value>>(),
    })
}

/// The sizes of the classes; where the layout does not say them, why.
pub(crate) fn layout_json(view: &LayoutView) -> Value {
    match view {
        LayoutView::Valid(sizes) => {
            json!({"main": sizes.main, "small": sizes.small, "tiny": sizes.tiny})
        }
        other => json!(layout(other)),
    }
}
