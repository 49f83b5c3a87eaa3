//! Does what was planned, step by step.

use super::{LogPlan, NewSegment, RepairError, Repaired, Step, carry, keep, plan};
use crate::clock::Clock;
use crate::error::{DiskContext, DiskError};
use crate::format::header::{Header, InUse, Origin};
use crate::format::name::LogName;
use crate::fs::{FileSystem, Write};
use crate::recovery;
use crate::types::{Generation, LogId};
use std::io;
use std::path::{Path, PathBuf};

/// A header that is written again can show what was hidden behind it, so a log is planned again until nothing is left.
const ROUNDS_MAX: usize = 4;

pub(super) fn repair(
    fs: &dyn FileSystem,
    clock: &dyn Clock,
    dir: &Path,
    log: Option<&LogName>,
) -> Result<Repaired, RepairError> {
    let lock_path = dir.join("LOCK");
    let _lock = match fs.lock(&lock_path) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(RepairError::Locked { path: dir.to_path_buf() });
        }
        other => other.disk("lock", &lock_path)?,
    };
    sync_names(fs, dir)?;
    let mut done = Repaired { plan: plan::plan(fs, dir, log)?, kept: Vec::new() };
    if done.plan.layout.is_some() {
        set_layout_aside(fs, dir, &mut done)?;
    }
    for at in 0..done.plan.logs.len() {
        if done.plan.logs[at].refused.is_none() {
            repair_log(fs, clock, dir, at, &mut done)?;
        }
    }
    Ok(done)
}

/// What is seen may be in the cache only: a process died and the power has not failed yet. Names are made durable before
/// anything is built on them.
fn sync_names(fs: &dyn FileSystem, dir: &Path) -> Result<(), DiskError> {
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        fs.sync_dir(&dir).disk("sync", &dir)?;
        for entry in fs.list(&dir).disk("list", &dir)? {
            if entry.kind == crate::fs::FileKind::Directory {
                dirs.push(dir.join(entry.name));
            }
        }
    }
    Ok(())
}

fn set_layout_aside(
    fs: &dyn FileSystem,
    dir: &Path,
    done: &mut Repaired,
) -> Result<(), RepairError> {
    let path = dir.join("LAYOUT");
    let kept = keep::new_dir(fs, dir, "LAYOUT")?;
    keep::copy(fs, &path, &kept)?;
    fs.sync_dir(&kept).disk("sync", &kept)?;
    fs.remove_file(&path).disk("remove", &path)?;
    fs.sync_dir(dir).disk("sync", dir)?;
    done.kept.push(kept);
    Ok(())
}

fn repair_log(
    fs: &dyn FileSystem,
    clock: &dyn Clock,
    data: &Path,
    at: usize,
    done: &mut Repaired,
) -> Result<(), RepairError> {
    let mut next = done.plan.logs[at].clone();
    for _ in 0..ROUNDS_MAX {
        if let Some(reason) = next.refused {
            return Err(RepairError::StillDamaged { log: next.log, reason });
        }
        let kept = keep_copies(fs, data, &next)?;
        done.kept.extend(kept);
        act(fs, clock, data, &next)?;
        let (sizes, _) = plan::read_layout(fs, data)?;
        next = plan::plan_log(fs, next.log, &next.dir, sizes)?;
        if next.steps.is_empty() && next.refused.is_none() {
            return check(fs, &next);
        }
        let first = &mut done.plan.logs[at];
        first.damage.extend(next.damage.iter().cloned());
        first.lost.extend(next.lost.iter().copied());
        first.steps.extend(next.steps.iter().cloned());
    }
    let reason = next.damage.first().map_or_else(String::new, ToString::to_string);
    Err(RepairError::StillDamaged { log: next.log, reason })
}

/// What a start would say now.
fn check(fs: &dyn FileSystem, plan: &LogPlan) -> Result<(), RepairError> {
    match recovery::look(fs, &plan.dir)?.damage {
        None => Ok(()),
        Some(damage) => {
            let (log, reason) = (plan.log.clone(), damage.to_string());
            Err(RepairError::StillDamaged { log, reason })
        }
    }
}

fn keep_copies(
    fs: &dyn FileSystem,
    data: &Path,
    plan: &LogPlan,
) -> Result<Option<PathBuf>, DiskError> {
    let mut kept = None;
    for step in &plan.steps {
        if let Step::Keep { path } = step {
            let dir = match &kept {
                Some(dir) => dir,
                None => kept.insert(keep::new_dir(fs, data, &plan.log)?),
            };
            keep::copy(fs, path, dir)?;
        }
    }
    if let Some(dir) = &kept {
        // All copies and their names are durable before the first change.
        fs.sync_dir(dir).disk("sync", dir)?;
    }
    Ok(kept)
}

fn act(
    fs: &dyn FileSystem,
    clock: &dyn Clock,
    data: &Path,
    plan: &LogPlan,
) -> Result<(), DiskError> {
    let id = match plan.id {
        Some(id) => id,
        None => {
            let mut id = [0; 16];
            fs.random(&mut id).disk("draw an identity for", &plan.dir)?;
            LogId(id)
        }
    };
    for step in &plan.steps {
        match step {
            Step::Keep { .. } => {}
            Step::NewSegment(new) => {
                let (header, in_use) = header_of(new, id, clock.unix_millis());
                let spares = data.join("spares");
                carry::make(fs, &header, &in_use, new.records.as_ref(), &plan.dir, &spares)
                    .disk("make a new segment in", &plan.dir)?;
            }
            Step::Header { path, header } => {
                let mut header = *header;
                if header.created_millis == 0 {
                    header.created_millis = clock.unix_millis();
                }
                let file = fs.open_write(path).disk("open", path)?;
                // One sector: it is the old one or the new one.
                let sector = &header.encode()[..crate::format::SECTOR_LEN];
                file.write_and_sync(&[Write { position: 0, bytes: sector }])
                    .disk("write the header of", path)?;
            }
            Step::Remove { path } => {
                fs.remove_file(path).disk("remove", path)?;
                fs.sync_dir(&plan.dir).disk("sync", &plan.dir)?;
            }
        }
    }
    Ok(())
}

/// A new file, so its first use; nothing is left over in it that could be taken for a record.
fn header_of(new: &NewSegment, log: LogId, created_millis: u64) -> (Header, InUse) {
    let NewSegment { base, previous_end, previous_millis, class, capacity, .. } = *new;
    let in_use = InUse { log, base, previous_end, previous_millis, origin: Origin::Repair };
    let generation = Generation::FIRST;
    (Header { generation, class, capacity, created_millis, in_use: Some(in_use) }, in_use)
}
