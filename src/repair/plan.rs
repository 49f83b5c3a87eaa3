//! Which logs there are, and what is to be done to each. Changes nothing.

use super::chain::Chain;
use super::weigh::{Fate, Weighed, weigh};
use super::{LogPlan, Plan, RepairError, Sizes};
use crate::error::DiskContext;
use crate::format::BLOCK_LEN;
use crate::format::layout::{self, LayoutError};
use crate::format::name::LogName;
use crate::fs::FileSystem;
use crate::inspect::tree::find_logs;
use crate::inspect::{Finding, Outcome};
use crate::recovery::{Judged, RecoverError, Verdict, judge};
use crate::types::{LogId, Offset};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

pub(super) fn plan(
    fs: &dyn FileSystem,
    dir: &Path,
    log: Option<&LogName>,
) -> Result<Plan, RepairError> {
    let (sizes, layout) = read_layout(fs, dir)?;
    let logs = dir.join("logs");
    let mut names = Vec::new();
    match log {
        Some(log) => {
            let path = log.dir(&logs);
            match fs.metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(RepairError::Missing(log.clone()));
                }
                other => drop(other.disk("look at", &path)?),
            }
            names.push((log.as_str().to_owned(), path));
        }
        None => {
            let mut findings = Vec::new();
            let found = find_logs(fs, &logs, &mut findings);
            // A log that is not seen is not a good one.
            let unseen =
                |finding: &Finding| !matches!(finding.outcome, Outcome::Foreign | Outcome::Stray);
            if let Some(finding) = findings.into_iter().find(unseen) {
                return Err(RepairError::Unreadable(finding));
            }
            names.extend(found.into_iter().map(|log| (log.name, log.path)));
        }
    }
    let mut plan = Plan { layout, logs: Vec::new() };
    for (name, path) in names {
        let log = plan_log(fs, name, &path, sizes)?;
        if !log.steps.is_empty() || log.refused.is_some() {
            plan.logs.push(log);
        }
    }
    Ok(plan)
}

pub(super) fn read_layout(
    fs: &dyn FileSystem,
    dir: &Path,
) -> Result<(Sizes, Option<LayoutError>), RepairError> {
    let path = dir.join("LAYOUT");
    let mut text = vec![0; BLOCK_LEN];
    let read = match fs.open_read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, None)),
        other => other.disk("open", &path)?.read_at(0, &mut text).disk("read", &path)?,
    };
    Ok(match layout::parse(&text[..read]) {
        Ok(sizes) => (Some(sizes), None),
        // The next start makes it again.
        Err(LayoutError::Empty) => (None, None),
        // Nothing is known of its rules.
        Err(error @ LayoutError::Newer(_)) => return Err(RepairError::Newer { path, error }),
        Err(error) => (None, Some(error)),
    })
}

pub(super) fn plan_log(
    fs: &dyn FileSystem,
    log: String,
    dir: &Path,
    sizes: Sizes,
) -> Result<LogPlan, RepairError> {
    let (damage, lost, steps) = (Vec::new(), Vec::new(), Vec::new());
    let dir = dir.to_path_buf();
    let mut plan = LogPlan { log, dir, damage, lost, steps, refused: None, id: None };
    let (files, id) = match judge_by_most(fs, &plan.dir) {
        Ok(judged) => judged,
        Err(
            error @ (RecoverError::Link { .. }
            | RecoverError::Foreign { .. }
            | RecoverError::Newer { .. }),
        ) => {
            plan.refused = Some(error.to_string());
            return Ok(plan);
        }
        Err(error) => return Err(error.into()),
    };
    plan.id = id;
    let mut weighed = Vec::new();
    let mut millis = 0;
    for at in 0..files.len() {
        let file = &files[at];
        let limit = files.get(at + 1).map(|next| next.name);
        if let Some(reason) = misnamed(file, id) {
            plan.refused = Some(reason);
            return Ok(plan);
        }
        let weighed_file =
            weigh(fs, file, limit, sizes, &mut plan, &mut millis).disk("read", &file.path)?;
        weighed.push(weighed_file);
    }
    // Each run of records between two breaks would be a file.
    let broken = |file: &&Weighed| matches!(&file.fate, Fate::Own(own) if own.found.more);
    if let Some(file) = weighed.iter().find(broken) {
        let path = file.path.display();
        plan.refused = Some(format!("{path} is broken in more than 4096 places: restore it"));
        return Ok(plan);
    }
    Chain::new(&mut plan, sizes).build(&weighed);
    Ok(plan)
}

/// Judges by the identity that most files of the log have: the oldest may be the stranger.
fn judge_by_most(
    fs: &dyn FileSystem,
    dir: &Path,
) -> Result<(Vec<Judged>, Option<LogId>), RecoverError> {
    let (files, oldest) = judge(fs, dir, None)?;
    let mut counts: BTreeMap<LogId, usize> = BTreeMap::new();
    for file in &files {
        let in_use = file.header.ok().and_then(|header| header.in_use);
        if let Some(in_use) = in_use.filter(|in_use| in_use.base == file.name) {
            *counts.entry(in_use.log).or_default() += 1;
        }
    }
    let most = counts.values().max().copied();
    let by_oldest = oldest.is_some_and(|oldest| counts.get(&oldest).copied() == most);
    match counts.into_iter().find(|(_, count)| Some(*count) == most) {
        Some((id, _)) if !by_oldest => judge(fs, dir, Some(id)),
        _ => Ok((files, oldest)),
    }
}

/// A file whose valid header says that it is another segment of this log: whoever renamed it has to say why.
fn misnamed(file: &Judged, id: Option<LogId>) -> Option<String> {
    let in_use = file.header.ok()?.in_use?;
    let ours = in_use.base != file.name && Some(in_use.log) == id;
    (ours && matches!(file.verdict, Verdict::Corrupt(_))).then(|| {
        format!(
            "{} is this log's segment {} by its header: give it that name, or take it away if there is one already",
            file.path.display(),
            in_use.base,
        )
    })
}

/// Notes what is wrong.
pub(super) fn say(
    plan: &mut LogPlan,
    path: &Path,
    position: Option<u64>,
    offset: Option<Offset>,
    detail: String,
) {
    let (outcome, file) = (Outcome::Damaged, path.to_path_buf());
    plan.damage.push(Finding { outcome, file, position, offset, detail });
}
