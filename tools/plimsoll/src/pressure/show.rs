//! A look for people: a table for each device, and one for memory.

use super::gauges::Look;
use crate::numbers::{percent, size, thousands};
use crate::output::{self, BAD, BOLD, GOOD, ODD, styled};
use crate::pool::device_number;
use crate::settings::Settings;
use crate::table::{self, Cell, Lean};
use anstyle::Style;
use humantime::format_duration;
use plimsoll::inspect::Outcome;
use plimsoll::pressure::{DiskReading, LimitFrom, MemoryReading};
use plimsoll::{Level, Limits};
use std::time::Duration;

/// The lines.
pub(crate) fn look(look: &Look, settings: &Settings) -> Vec<String> {
    let mut out = Vec::new();
    if look.watched {
        let now = i64::try_from(look.unix_millis / 1000).ok();
        let now = now.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
        out.extend(now.map(|now| now.to_string()));
    }
    for disk in &look.disks {
        out.extend(device(disk, look, &settings.limits));
    }
    out.extend(memory(&look.memory, look));
    out.push(row("settings", &settings.source()));
    // What is only odd is for `plimsoll inspect`.
    let serious = look.findings.iter().filter(|finding| finding.outcome >= Outcome::Foreign);
    out.extend(serious.map(|finding| styled(crate::inspect::style(finding.outcome), finding)));
    out
}

fn row(title: &str, text: &str) -> String {
    format!("  {title:<11} {text}")
}

fn style(level: Level) -> Style {
    match level {
        Level::Ok => GOOD,
        Level::Soft => ODD,
        Level::Hard | Level::Reserve => BAD,
    }
}

fn level(level: Level) -> String {
    styled(style(level), format_args!("level {level}"))
}

/// What follows from a level.
fn effect(level: Level, permille: u16, limits: &Limits) -> String {
    match level {
        Level::Ok => "publishes are admitted".to_owned(),
        Level::Soft => {
            let delay = limits.slow.max_delay * u32::from(permille) / 1000;
            format!("publishes are slowed by {} ms each", delay.as_millis())
        }
        Level::Hard => "publishes are refused".to_owned(),
        Level::Reserve => "publishes and catch-up are refused".to_owned(),
    }
}

/// For how long, and why.
fn why(look: &Look, since_unix_millis: u64, reason: &str) -> String {
    let lasted = look.unix_millis.saturating_sub(since_unix_millis) / 1000;
    if look.watched {
        format!("{reason}; for {}", about(Duration::from_secs(lasted)))
    } else {
        reason.to_owned()
    }
}

/// In its two largest units.
fn about(time: Duration) -> String {
    let text = format_duration(Duration::from_secs(time.as_secs())).to_string();
    text.split(' ').take(2).collect::<Vec<&str>>().join(" ")
}

fn device(disk: &DiskReading, look: &Look, limits: &Limits) -> Vec<String> {
    let title = styled(BOLD, format_args!("device {}", device_number(disk.device)));
    let mut out = vec![format!(
        "{title}, {}, {}",
        level(disk.level),
        effect(disk.level, disk.permille, limits)
    )];
    out.extend(disk.dirs.iter().map(|dir| row("directory", &dir.display().to_string())));
    out.push(row("why", &why(look, disk.since_unix_millis, &disk.reason.to_string())));
    out.extend(disk_table(disk));
    out.push(row(
        "spares",
        &format!("{} can be released, and count as free", size(disk.reclaimable)),
    ));
    // A device looks half empty to `df` and is full: what makes the difference is not ours to give back.
    if disk.withheld > 0 {
        let text = format!(
            "{} are free and cannot be had: kept for root, or for metadata",
            size(disk.withheld)
        );
        out.push(row("withheld", &text));
    }
    out.push(row("forecast", &forecast(disk, look)));
    out
}

fn disk_table(disk: &DiskReading) -> Vec<String> {
    use Lean::{Left, Right};
    let columns = [
        ("", Left),
        ("FREE", Right),
        ("", Right),
        ("OF", Right),
        ("SOFT", Right),
        ("HARD", Right),
        ("RESERVE", Right),
        ("CLEAR", Right),
    ];
    let lines = disk.thresholds;
    let all = [disk.free, disk.total, lines.soft, lines.hard, lines.reserve, lines.clear];
    let mut rows = vec![cells("bytes", all, size)];
    if let Some(lines) = disk.inode_thresholds {
        let free = disk.inodes_available;
        let all = [free, disk.inodes, lines.soft, lines.hard, lines.reserve, lines.clear];
        rows.push(cells("inodes", all, thousands));
    }
    table::lines(&columns, &rows)
}

fn cells(title: &str, [free, of, lines @ ..]: [u64; 6], text: fn(u64) -> String) -> Vec<Cell> {
    let [soft, hard, reserve, _] = lines;
    let level = [(reserve, Level::Reserve), (hard, Level::Hard), (soft, Level::Soft)];
    let level =
        level.into_iter().find(|(line, _)| free <= *line).map_or(Level::Ok, |found| found.1);
    let mut out = vec![
        Cell::new(format!("  {title:<11}")),
        Cell::styled(style(level), text(free)),
        Cell::new(percent(free, of)),
        Cell::new(text(of)),
    ];
    out.extend(lines.into_iter().map(|line| Cell::new(text(line))));
    out
}

fn forecast(disk: &DiskReading, look: &Look) -> String {
    match (disk.hard_in, look.rates_over) {
        _ if disk.free <= disk.thresholds.hard => "bytes are at hard".to_owned(),
        (Some(time), _) => {
            let text = format!("hard in about {}, at the rate of the last minute", about(time));
            output::styled(ODD, text)
        }
        _ if !look.watched => "not known from a single look; --watch takes a rate".to_owned(),
        (None, None) => "not known in the first 10 s".to_owned(),
        (None, Some(_)) => "free space is not falling".to_owned(),
    }
}

fn memory(memory: &MemoryReading, look: &Look) -> Vec<String> {
    let title = styled(BOLD, "memory");
    let mut out = vec![format!("{title}, {}", level(memory.level))];
    let whose = match memory.limit_from {
        LimitFrom::Group(_) => {
            "of this command's control group; a node's only if it runs in the same one"
        }
        LimitFrom::Configured | LimitFrom::Physical => "of this command alone, and not of a node",
    };
    out.push(row("whose", whose));
    out.push(row("why", &why(look, memory.since_unix_millis, &memory.reason.to_string())));
    use Lean::{Left, Right};
    let columns = [
        ("", Left),
        ("USED", Right),
        ("", Right),
        ("OF", Right),
        ("SOFT", Right),
        ("HARD", Right),
        ("CLEAR", Right),
    ];
    let MemoryReading { used, limit, soft, hard, clear, .. } = *memory;
    let mut row_of = vec![
        Cell::new(format!("  {:<11}", "bytes")),
        Cell::styled(style(memory.level), size(used)),
        Cell::new(percent(used, limit)),
    ];
    row_of.extend([limit, soft, hard, clear].map(|bytes| Cell::new(size(bytes))));
    out.extend(table::lines(&columns, &[row_of]));
    out.push(row("limit", &memory.limit_from.to_string()));
    out.extend(memory.warning.as_ref().map(|warning| row("warning", &styled(ODD, warning))));
    out
}
