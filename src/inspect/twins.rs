//! Finds files that are in two places at once (I6), and logs that are there twice.

use super::log::{LogReport, Role};
use super::node::NodeReport;
use super::outcome::{Finding, Outcome};
use super::segment::read_header;
use super::tree::finding;
use crate::format::header::Header;
use crate::fs::FileSystem;
use crate::types::{Generation, LogId, Offset};
use std::collections::HashMap;
use std::path::Path;

/// What only one file can be: one use of it, by one log, for one place in the log.
type Use = (LogId, Offset, Generation, u64);

fn use_of(header: &Header) -> Option<Use> {
    let in_use = header.in_use?;
    Some((in_use.log, in_use.base, header.generation, header.created_millis))
}

/// A file seen twice is one that was moved between the two looks, unless it is still in both places.
pub(crate) fn find_twins(fs: &dyn FileSystem, report: &NodeReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut uses: HashMap<Use, &Path> = HashMap::new();
    let mut ids: HashMap<LogId, &str> = HashMap::new();
    for (name, log) in &report.logs {
        if let Some(id) = log.id
            && let Some(other) = ids.insert(id, name)
            && !has_file_of(log, &uses)
        {
            let detail = format!("has the same log id as the log {other}: one is a copy");
            findings.push(finding(Outcome::Foreign, &log.dir, detail));
        }
        for entry in &log.segments {
            let Some(Ok(header)) = &entry.header else { continue };
            let Some(this) = use_of(header).filter(|_| entry.role != Role::BackToPool) else {
                continue;
            };
            if let Some(other) = uses.insert(this, &entry.path) {
                findings.extend(still_both(fs, other, &entry.path, this));
            }
        }
    }
    for spare in &report.spares {
        let Some(Ok(header)) = &spare.header else { continue };
        let Some(this) = use_of(header) else { continue };
        if let Some(other) = uses.get(&this) {
            findings.extend(still_both(fs, other, &spare.path, this));
        }
    }
    findings
}

fn has_file_of(log: &LogReport, uses: &HashMap<Use, &Path>) -> bool {
    let headers = log.segments.iter().filter_map(|entry| entry.header?.ok());
    headers.filter_map(|header| use_of(&header)).any(|this| uses.contains_key(&this))
}

fn still_both(fs: &dyn FileSystem, one: &Path, two: &Path, this: Use) -> Option<Finding> {
    // The place where it was seen first is read first: a rename cannot bring it back there.
    for path in [one, two] {
        let header = fs.open_read(path).and_then(|file| read_header(&*file)).ok()?.ok()?;
        (use_of(&header)? == this).then_some(())?;
    }
    let detail = format!("is the same use of a file as {}: one file in two places", one.display());
    Some(finding(Outcome::Damaged, two, detail))
}
