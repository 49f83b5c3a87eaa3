//! A look for programs: an object.

use super::gauges::Look;
use crate::inspect::finding_json;
use crate::pool::device_number;
use crate::settings::Settings;
use plimsoll::Level;
use plimsoll::inspect::Outcome;
use plimsoll::pressure::{DiskReading, LimitFrom, MemoryReading};
use serde_json::{Value, json};

/// The object. What only several looks give is null in a single one.
pub(crate) fn look(look: &Look, settings: &Settings) -> Value {
    let worst = look.disks.iter().map(|disk| disk.level).fold(Level::Ok, Level::max);
    let serious = look.findings.iter().filter(|finding| finding.outcome >= Outcome::Foreign);
    json!({
        "unix_ms": look.unix_millis,
        "level": worst.name(),
        "settings": settings.name(),
        "devices": look.disks.iter().map(|disk| device(disk, look)).collect::<Vec<Value>>(),
        "memory": memory(&look.memory, look),
        "outcome": look.outcome().name(),
        "findings": serious.map(finding_json).collect::<Vec<Value>>(),
    })
}

fn device(disk: &DiskReading, look: &Look) -> Value {
    let dirs = disk.dirs.iter().map(|dir| dir.display().to_string());
    let lines = disk.thresholds;
    let inodes = disk.inode_thresholds.map(|lines| {
        json!({
            "total": disk.inodes, "free": disk.inodes_available, "soft": lines.soft,
            "hard": lines.hard, "reserve": lines.reserve, "clear": lines.clear,
        })
    });
    json!({
        "device": device_number(disk.device),
        "dirs": dirs.collect::<Vec<String>>(),
        "level": disk.level.name(),
        "permille": disk.permille,
        "reason": disk.reason.to_string(),
        "since_unix_ms": look.watched.then_some(disk.since_unix_millis),
        "total_bytes": disk.total,
        "available_bytes": disk.available,
        "withheld_bytes": disk.withheld,
        "spare_bytes": disk.reclaimable,
        "free_bytes": disk.free,
        "soft_bytes": lines.soft,
        "hard_bytes": lines.hard,
        "reserve_bytes": lines.reserve,
        "clear_bytes": lines.clear,
        "inodes": inodes,
        "hard_in_seconds": disk.hard_in.map(|time| time.as_secs()),
        "age_ms": disk.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
    })
}

fn memory(memory: &MemoryReading, look: &Look) -> Value {
    let (from, file) = match &memory.limit_from {
        LimitFrom::Group(file) => ("control group", Some(file)),
        LimitFrom::Configured => ("settings", None),
        LimitFrom::Physical => ("physical memory", None),
    };
    json!({
        "of": "this command",
        "level": memory.level.name(),
        "permille": memory.permille,
        "reason": memory.reason.to_string(),
        "since_unix_ms": look.watched.then_some(memory.since_unix_millis),
        "used_bytes": memory.used,
        "limit_bytes": memory.limit,
        "limit_from": from,
        "limit_file": file,
        "soft_bytes": memory.soft,
        "hard_bytes": memory.hard,
        "clear_bytes": memory.clear,
        "physical_bytes": memory.physical,
        "warning": memory.warning,
    })
}
