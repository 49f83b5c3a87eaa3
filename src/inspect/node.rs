//! A node's data directory: layout, logs, spares, trash, quarantine, and what does not belong there.

use super::layout::{LayoutView, look_at_layout};
use super::log::{Depth, LogReport, log};
use super::outcome::{Finding, Outcome};
use super::spares::{SpareEntry, look_at_spares, settle_spares};
use super::tree::{LogDir, find_logs, finding, refused, special};
use super::twins::find_twins;
use crate::fs::{DirEntry, FileKind, FileSystem};
use std::path::{Path, PathBuf};

/// Something in the trash or in quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The file or directory.
    pub path: PathBuf,
    /// Files in it, itself included.
    pub files: u64,
    /// What they take on the disk.
    pub disk_bytes: u64,
}

/// What is to be known of a data directory.
#[derive(Clone, Debug)]
pub struct NodeReport {
    /// The directory.
    pub dir: PathBuf,
    /// The worst of the findings, those of the logs included.
    pub outcome: Outcome,
    /// Its layout.
    pub layout: LayoutView,
    /// Whether a node has it open, as far as the system tells without taking the lock.
    pub held: Option<bool>,
    /// Its logs, by name.
    pub logs: Vec<(String, LogReport)>,
    /// Its spares.
    pub spares: Vec<SpareEntry>,
    /// What is being deleted.
    pub trash: Vec<Kept>,
    /// What repairs have kept.
    pub quarantine: Vec<Kept>,
    /// What there is to say beside the logs' own findings.
    pub findings: Vec<Finding>,
}

impl NodeReport {
    fn say(&mut self, finding: Finding) {
        self.outcome = self.outcome.max(finding.outcome);
        self.findings.push(finding);
    }

    /// The findings of the directory and of all its logs.
    pub fn all_findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().chain(self.logs.iter().flat_map(|(_, log)| &log.findings))
    }
}

/// Looks at a data directory. What the system refuses is an outcome, not an error. Blocks on reads; `settle` as in
/// [`super::segment`].
#[must_use]
pub fn node(
    fs: &dyn FileSystem,
    dir: &Path,
    depth: Depth,
    settle: &(dyn Fn() + Sync),
) -> NodeReport {
    let (mut report, logs) = outline(fs, dir, Scope::Whole, settle);
    for LogDir { name, path } in logs {
        let log = log(fs, &path, depth, settle);
        report.outcome = report.outcome.max(log.outcome);
        report.logs.push((name, log));
    }
    for twin in find_twins(fs, &report) {
        report.say(twin);
    }
    report
}

/// How much of a data directory to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everything.
    Whole,
    /// Its layout and its spares.
    Spares,
}

/// All but the logs, of which only the directories are found.
pub(super) fn outline(
    fs: &dyn FileSystem,
    dir: &Path,
    scope: Scope,
    settle: &(dyn Fn() + Sync),
) -> (NodeReport, Vec<LogDir>) {
    let mut report = NodeReport {
        dir: dir.to_path_buf(),
        outcome: Outcome::Clean,
        layout: LayoutView::ToBeMade,
        held: fs.lock_held(&dir.join("LOCK")).ok().flatten(),
        logs: Vec::new(),
        spares: Vec::new(),
        trash: Vec::new(),
        quarantine: Vec::new(),
        findings: Vec::new(),
    };
    let entries = match fs.list(dir) {
        Ok(entries) => entries,
        Err(error) => {
            let mut refusal = refused(dir, "listed", &error);
            refusal.outcome = Outcome::Unreadable;
            report.say(refusal);
            return (report, Vec::new());
        }
    };
    let mut logs = Vec::new();
    let is_store = entries.iter().any(|entry| entry.name == "LAYOUT" || entry.name == "logs");
    if !is_store {
        let detail = "has neither LAYOUT nor logs: not a data directory, or none was made yet";
        report.say(finding(Outcome::Unreadable, dir, detail));
    }
    let holds = |name: &str| entries.iter().any(|entry| entry.name == name);
    if holds("LAYOUT") && !holds("logs") {
        // `LAYOUT` is written last, so no crash makes this.
        let detail = "is missing, though there is a LAYOUT: the logs were moved or removed";
        report.say(finding(Outcome::Unreadable, &dir.join("logs"), detail));
    }
    for entry in &entries {
        let path = dir.join(&entry.name);
        if let Some(mut finding) = special(&path, entry.kind) {
            if expected_kind(entry).is_none() {
                finding.outcome = Outcome::Stray;
            }
            report.say(finding);
            continue;
        }
        if let Some(detail) = expected_kind(entry).filter(|(kind, _)| *kind != entry.kind) {
            if entry.name == "LAYOUT" {
                report.layout = LayoutView::Unreadable;
            }
            report.say(finding(Outcome::Foreign, &path, detail.1));
            continue;
        }
        match (entry.name.to_str(), entry.kind) {
            (Some("LOCK"), FileKind::File) => {}
            (Some("LAYOUT"), FileKind::File) => {
                let (layout, said) = look_at_layout(fs, &path);
                report.layout = layout;
                said.into_iter().for_each(|finding| report.say(finding));
            }
            (Some("spares"), FileKind::Directory) => {
                // `LAYOUT` was read before, as names come sorted.
                let (mut findings, sizes) = (Vec::new(), report.layout.sizes().copied());
                report.spares = look_at_spares(fs, &path, &mut findings);
                settle_spares(fs, &mut report.spares, sizes.as_ref(), settle, &mut findings);
                findings.into_iter().for_each(|finding| report.say(finding));
            }
            (Some("logs" | "trash" | "quarantine"), _) if scope == Scope::Spares => {}
            (Some("logs"), FileKind::Directory) => {
                let mut findings = Vec::new();
                logs = find_logs(fs, &path, &mut findings);
                findings.into_iter().for_each(|finding| report.say(finding));
            }
            (Some("trash"), FileKind::Directory) => {
                report.trash = kept(fs, &path, &mut report);
            }
            (Some("quarantine"), FileKind::Directory) => {
                report.quarantine = kept(fs, &path, &mut report);
            }
            (Some("LAYOUT.tmp"), FileKind::File) => {
                let detail = "a layout that was being written; a start removes it";
                report.say(finding(Outcome::Clean, &path, detail));
            }
            (_, FileKind::File) => {
                report.say(finding(Outcome::Stray, &path, "is no file of this engine"))
            }
            (_, _) => report.say(finding(Outcome::Stray, &path, "is no directory of this engine")),
        }
    }
    (report, logs)
}

/// What a name of the engine's is to be, and what to say if it is not; `None` for any other name.
fn expected_kind(entry: &DirEntry) -> Option<(FileKind, &'static str)> {
    match entry.name.to_str()? {
        "LAYOUT" | "LAYOUT.tmp" | "LOCK" => {
            Some((FileKind::File, "is a directory, expected a file"))
        }
        "logs" | "spares" | "trash" | "quarantine" => {
            Some((FileKind::Directory, "is a file, expected a directory"))
        }
        _ => None,
    }
}

fn list(fs: &dyn FileSystem, dir: &Path, report: &mut NodeReport) -> Vec<DirEntry> {
    fs.list(dir).unwrap_or_else(|error| {
        report.say(refused(dir, "listed", &error));
        Vec::new()
    })
}

/// What stands in the trash or in quarantine, sizes summed over what is below.
fn kept(fs: &dyn FileSystem, dir: &Path, report: &mut NodeReport) -> Vec<Kept> {
    let mut all = Vec::new();
    for entry in list(fs, dir, report) {
        let mut kept = Kept { path: dir.join(&entry.name), files: 0, disk_bytes: 0 };
        let mut paths = vec![kept.path.clone()];
        while let Some(path) = paths.pop() {
            // What is being deleted vanishes while it is looked at.
            let Ok(found) = fs.metadata(&path) else { continue };
            if let Some(finding) = special(&path, found.kind) {
                report.say(finding);
            }
            match found.kind {
                FileKind::Directory => {
                    let inner = fs.list(&path).unwrap_or_default();
                    paths.extend(inner.iter().map(|entry| path.join(&entry.name)));
                }
                _ => {
                    kept.files += 1;
                    kept.disk_bytes += found.disk_bytes;
                }
            }
        }
        all.push(kept);
    }
    all
}
