//! What is told of one file.

use crate::bytes_json::time;
use crate::failure::Failure;
use crate::numbers::{count, size, thousands};
use crate::output;
use plimsoll::Offset;
use plimsoll::format::header::{Header, InUse};
use plimsoll::inspect::{
    Beyond, CheckpointView, DamagedRange, Finding, KeySource, Leftover, SegmentReport, SpareState,
    Standing, VouchedBy,
};
use serde_json::{Value, json};

/// A line of the report: its title and what it says.
type Line = (&'static str, String);

/// Prints a file's report.
pub(crate) fn print(report: &SegmentReport) -> Result<(), Failure> {
    output::line(output::styled(output::BOLD, report.path.display()))?;
    for (title, text) in lines(report) {
        output::line(format_args!("  {title:<11} {text}"))?;
    }
    for finding in &report.findings {
        print_finding(finding)?;
    }
    let outcome = output::styled(super::style(report.outcome), report.outcome);
    output::line(format_args!("  {:<11} {outcome}", "outcome"))
}

/// Prints a finding.
pub(crate) fn print_finding(finding: &Finding) -> Result<(), Failure> {
    let style = super::style(finding.outcome);
    output::line(format_args!("  {} {finding}", output::styled(style, "finding    ")))
}

fn stamp(millis: u64) -> String {
    match time(millis) {
        Value::String(stamp) => stamp,
        other => format!("{other} ms"),
    }
}

fn lines(report: &SegmentReport) -> Vec<Line> {
    let disk = size(report.disk_bytes);
    let mut out = vec![("file", format!("{} bytes, {disk} on disk", thousands(report.file_len)))];
    match &report.header {
        Ok(header) => header_lines(header, report.standing, &mut out),
        Err(error) => {
            out.push(("header", error.to_string()));
            let key = match report.key {
                KeySource::FirstRecord(generation) => {
                    format!("from the first record, of generation {}", generation.get())
                }
                KeySource::Header => "from the header".to_owned(),
                KeySource::None => "none: records cannot be told from other bytes".to_owned(),
            };
            out.push(("key", key));
        }
    }
    if let Some(standing) = report.standing {
        out.push(("spare", standing_text(standing)));
    }
    if report.settling {
        let text = "a recovery was under way (the mark at byte 512); the next start does it again";
        out.push(("recovery", text.to_owned()));
    }
    match &report.checkpoint {
        CheckpointView::Valid(checkpoint) => {
            let (position, next) = (checkpoint.position, checkpoint.next);
            out.push((
                "checkpoint",
                format!("all durable below byte {position}, next offset {next}"),
            ));
        }
        CheckpointView::Absent => out.push(("checkpoint", "none".to_owned())),
        CheckpointView::Ignored(why) => out.push(("checkpoint", format!("ignored: {why}"))),
    }
    record_lines(report, &mut out);
    beyond_lines(report, &mut out);
    for range in &report.unreadable {
        out.push(("unreadable", format!("bytes {} to {}: {}", range.from, range.to, range.error)));
    }
    out
}

/// What a file among the spares is, and what becomes of it.
fn standing_text(standing: Standing) -> String {
    let what = match standing.state {
        SpareState::Stamped => "stamped",
        SpareState::GivenUp => "given up by its log, not stamped yet",
        SpareState::WrongSize => "of the wrong size",
        SpareState::Damaged => "without a header that can be read",
        SpareState::BeingMade => "being made, as its name says",
    };
    let then = match (standing.next_generation, standing.state) {
        (Some(next), _) => format!("a start stamps it with generation {}", next.get()),
        (None, SpareState::Stamped | SpareState::GivenUp) => {
            "a start deletes it, as there is no generation after this one".to_owned()
        }
        (None, _) => "a start deletes it".to_owned(),
    };
    format!("{what}; {then}")
}

fn header_lines(header: &Header, standing: Option<Standing>, out: &mut Vec<Line>) {
    let (class, capacity) = (header.class, size(header.capacity));
    let generation = header.generation.get();
    let state = match (header.in_use, standing) {
        (None, _) => "spare, holds no messages",
        (Some(_), Some(_)) => "given up, holds no messages; its header still says in use",
        (Some(_), None) => "in use",
    };
    out.push(("state", format!("{state}; {class}, {capacity}, generation {generation}")));
    let created = stamp(header.created_millis);
    let Some(InUse { log, base, previous_end, origin, .. }) = header.in_use else {
        out.push(("created", created));
        return;
    };
    let earlier = if standing.is_some() { "was of " } else { "" };
    out.push(("log", format!("{earlier}{log}")));
    let gap = if previous_end < base {
        format!("; offsets {previous_end} to {} were declared lost", base.0.saturating_sub(1))
    } else {
        String::new()
    };
    out.push(("base", format!("offset {base}{gap}")));
    out.push(("created", format!("{created} by a {}", origin.name())));
}

fn record_lines(report: &SegmentReport, out: &mut Vec<Line>) {
    let records = &report.records;
    let range = match (records.first, records.last) {
        (Some(first), Some(last)) => format!(", offsets {first} to {last}"),
        _ => String::new(),
    };
    let spare = report.header.is_ok_and(|header| header.in_use.is_none());
    if !spare && report.key != KeySource::None {
        out.push((
            "records",
            format!(
                "{}{range}; {} of payload, {} of headers, {} in the file",
                thousands(records.count),
                size(records.payload_bytes),
                size(records.headers_bytes),
                size(records.bytes)
            ),
        ));
    }
    if let (Some(first), Some(last)) = (records.first_millis, records.last_millis) {
        out.push(("stamps", format!("{} to {}", stamp(first), stamp(last))));
    }
    if let Some((position, by)) = report.vouched {
        out.push((
            "vouched",
            format!("all below byte {position} was durable: so says {}", vouched_by(by)),
        ));
    }
    if let Some(stop) = report.stop {
        out.push(("end", format!("byte {}: {}", stop.position, stop.error)));
    }
    for range in &report.damage {
        out.push(("damage", damage_text(range)));
    }
    if report.damage_count > report.damage.len() as u64 {
        let more = report.damage_count - report.damage.len() as u64;
        out.push(("damage", format!("{} ranges more", thousands(more))));
    }
    if records.cut_off > 0 {
        out.push(("cut off", format!("{} behind the end", count(records.cut_off, "valid record"))));
    }
}

fn vouched_by(by: VouchedBy) -> String {
    match by {
        VouchedBy::Checkpoint => "the checkpoint".to_owned(),
        VouchedBy::Record(position) => format!("the record at byte {position}"),
        VouchedBy::NextSegment => "the next segment".to_owned(),
    }
}

fn damage_text(range: &DamagedRange) -> String {
    let offsets = match (range.from_offset, range.to_offset) {
        (Some(from), Some(to)) => format!(" (offsets {from} to {})", to.0.saturating_sub(1)),
        (Some(from), None) => format!(" (offset {from} and what came after it)"),
        _ => String::new(),
    };
    format!("bytes {} to {}{offsets}: {}", range.from, range.to, range.error)
}

/// What stands there beside the file's own records. Records of earlier uses are told by generation, and never as
/// messages.
fn beyond_lines(report: &SegmentReport, out: &mut Vec<Line>) {
    let beyond = &report.beyond;
    if beyond.to == beyond.from {
        return;
    }
    let belongs_to_no_log =
        report.standing.is_some() || report.header.is_ok_and(|header| header.in_use.is_none());
    let title = if belongs_to_no_log { "content" } else { "beyond" };
    let len = size(beyond.to - beyond.from);
    if beyond.all_zero() {
        out.push((title, format!("{len} of zeroes")));
        return;
    }
    let mut parts = vec![format!("{} of zeroes", size(beyond.zero_bytes))];
    if !beyond.leftovers.is_empty() {
        let bytes = beyond.leftovers.iter().map(|leftover| leftover.bytes).sum();
        parts.push(format!("{} of leftovers of earlier uses", size(bytes)));
    }
    if beyond.other_bytes > 0 {
        parts.push(format!("{} of other bytes", size(beyond.other_bytes)));
    }
    out.push((title, format!("{len}: {}", parts.join(", "))));
    for leftover in &beyond.leftovers {
        out.push(("leftovers", leftover_text(leftover, report)));
    }
    if beyond.own_places > 0 {
        let places = count(beyond.own_places, "place");
        out.push((title, format!("{places} for the next start to zero")));
    }
}

fn leftover_text(leftover: &Leftover, report: &SegmentReport) -> String {
    let Leftover { generation, records, whole, bytes, first_position } = *leftover;
    let cut = match records - whole {
        0 => String::new(),
        cut => format!(", {} of them overwritten or cut in part", thousands(cut)),
    };
    let own = report.header.is_ok_and(|header| header.generation == generation);
    let which = match report.header.map(|header| header.in_use) {
        Ok(Some(_)) if own => ", the use that ended when the file was given up",
        // It was taken and written, and stamped anew before anything in it was confirmed.
        Ok(None) if own => ", a use that never got its header",
        _ => "",
    };
    let (generation, records, bytes) = (generation.get(), count(records, "record"), size(bytes));
    format!("generation {generation}{which}: {records}{cut}, {bytes}, from byte {first_position}")
}

/// A finding as an object.
pub(crate) fn finding_json(finding: &Finding) -> Value {
    json!({
        "outcome": finding.outcome.name(), "file": finding.file.display().to_string(),
        "position": finding.position, "offset": finding.offset.map(|offset| offset.0),
        "detail": finding.detail,
    })
}

/// A file's report as an object.
pub(crate) fn json(report: &SegmentReport) -> Value {
    let offset = |offset: Option<Offset>| offset.map(|offset| offset.0);
    let header = match &report.header {
        Ok(header) => header_json(header),
        Err(error) => json!({"error": error.to_string()}),
    };
    let checkpoint = match &report.checkpoint {
        CheckpointView::Valid(at) => {
            json!({"position": at.position, "next": at.next.0, "generation": at.generation.get()})
        }
        CheckpointView::Absent => Value::Null,
        CheckpointView::Ignored(why) => json!({"ignored": why}),
    };
    let records = &report.records;
    json!({
        "file": report.path.display().to_string(),
        "outcome": report.outcome.name(),
        "bytes": report.file_len,
        "disk_bytes": report.disk_bytes,
        "header": header,
        "spare": report.standing.map(|standing| json!({
            "state": standing.state.name(),
            "next_generation": standing.next_generation.map(|next| next.get()),
        })),
        "recovery_under_way": report.settling,
        "checkpoint": checkpoint,
        "records": {
            "count": records.count, "first": offset(records.first), "last": offset(records.last),
            "next": offset(records.next), "bytes": records.bytes,
            "payload_bytes": records.payload_bytes, "headers_bytes": records.headers_bytes,
            "end_position": records.end_position, "first_time": records.first_millis.map(time),
            "last_time": records.last_millis.map(time), "cut_off": records.cut_off,
        },
        "stop": report.stop.map(|stop| json!({
            "position": stop.position, "offset": offset(stop.offset), "reason": stop.error.to_string(),
        })),
        "vouched": report.vouched.map(|(position, by)| json!({"position": position, "by": vouched_by(by)})),
        "damage": report.damage.iter().map(|range| json!({
            "from": range.from, "to": range.to, "from_offset": offset(range.from_offset),
            "to_offset": offset(range.to_offset), "reason": range.error.to_string(),
        })).collect::<Vec<Value>>(),
        "damage_count": report.damage_count,
        "beyond": beyond_json(&report.beyond),
        "findings": report.findings.iter().map(finding_json).collect::<Vec<Value>>(),
    })
}

fn header_json(header: &Header) -> Value {
    json!({
        "state": if header.in_use.is_some() { "in use" } else { "spare" },
        "class": header.class.name(), "generation": header.generation.get(),
        "capacity": header.capacity, "created": time(header.created_millis),
        "log": header.in_use.map(|in_use| in_use.log.to_string()),
        "base": header.in_use.map(|in_use| in_use.base.0),
        "previous_end": header.in_use.map(|in_use| in_use.previous_end.0),
        "origin": header.in_use.map(|in_use| in_use.origin.name()),
    })
}

fn beyond_json(beyond: &Beyond) -> Value {
    let leftover = |leftover: &Leftover| {
        json!({
            "generation": leftover.generation.get(), "records": leftover.records,
            "whole": leftover.whole, "bytes": leftover.bytes, "first_position": leftover.first_position,
        })
    };
    json!({
        "from": beyond.from, "to": beyond.to, "zero_bytes": beyond.zero_bytes,
        "other_bytes": beyond.other_bytes, "own_places": beyond.own_places, "holes": beyond.holes,
        "leftovers": beyond.leftovers.iter().map(leftover).collect::<Vec<Value>>(),
    })
}
