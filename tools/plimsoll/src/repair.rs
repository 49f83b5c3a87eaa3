//! `plimsoll repair`.

use crate::failure::{Exit, Failure};
use crate::inspect::{finding_json, print_finding};
use crate::output;
use crate::view::Store;
use clap::Args;
use plimsoll::LogName;
use plimsoll::clock::SystemClock;
use plimsoll::fs::OsFileSystem;
use plimsoll::repair::{self, LogPlan, Plan, RepairError};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Put a damaged log back into a state in which it takes appends
///
/// Without --yes it only explains what it would do, and exit code 1 says that there is something. What is damaged is
/// dropped and declared lost; records before and behind it stay. Every file that is changed or removed is copied to
/// `quarantine` in the data directory first. No process may have the directory open.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  plimsoll repair /var/lib/plimsoll orders          explains
  plimsoll repair /var/lib/plimsoll orders --yes    does it")]
pub(crate) struct Repair {
    /// The data directory
    dir: PathBuf,
    /// The log; all logs if not given
    log: Option<LogName>,
    /// Do it
    #[arg(long)]
    yes: bool,
}

impl Repair {
    /// Runs it.
    pub(crate) fn run(&self, as_json: bool) -> Result<(), Failure> {
        // A damaged layout is among what is repaired, so only the directory and the log's name are checked here.
        let store = Store::open_any_layout(&self.dir)?;
        if let Some(log) = &self.log {
            store.log_dir(log)?;
        }
        if !self.yes {
            let plan = repair::plan(&OsFileSystem, &self.dir, self.log.as_ref())?;
            print(&plan, None, as_json)?;
            return self.explained(&plan);
        }
        let done = repair::repair(&OsFileSystem, &SystemClock, &self.dir, self.log.as_ref())?;
        print(&done.plan, Some(&done.kept), as_json)?;
        refused(&done.plan)
    }

    fn explained(&self, plan: &Plan) -> Result<(), Failure> {
        refused(plan)?;
        if plan.is_empty() {
            return Ok(());
        }
        Err(Failure::new(
            Exit::Damage,
            format!("{}: nothing was changed; --yes repairs it", self.dir.display()),
        ))
    }
}

/// A log that only its owner can judge.
fn refused(plan: &Plan) -> Result<(), Failure> {
    let refused = plan.logs.iter().find_map(|log| Some((log, log.refused.as_ref()?)));
    refused.map_or(Ok(()), |(log, why)| {
        let sentence = format!("{} was not repaired: {why}", log.log);
        Err(Failure::new(Exit::Io, sentence).with("log", log.log.as_str()))
    })
}

fn print(plan: &Plan, kept: Option<&[PathBuf]>, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return output::line(plan_json(plan, kept));
    }
    if plan.is_empty() {
        return output::line("nothing to repair");
    }
    if let Some(error) = &plan.layout {
        output::line(format_args!(
            "LAYOUT: {error}; it is set aside, and the next start makes it again"
        ))?;
    }
    for log in &plan.logs {
        print_log(log, kept.is_some())?;
    }
    for path in kept.unwrap_or_default() {
        output::line(format_args!("the copies are in {}", path.display()))?;
    }
    Ok(())
}

fn print_log(log: &LogPlan, done: bool) -> Result<(), Failure> {
    output::line(output::styled(output::BOLD, &log.log))?;
    for finding in &log.damage {
        print_finding(finding)?;
    }
    for gap in &log.lost {
        let last = gap.to.0.saturating_sub(1);
        let title = output::styled(output::BAD, "lost       ");
        output::line(format_args!("  {title} offsets {} to {last}", gap.from))?;
    }
    let title = if done { "done" } else { "to do" };
    for step in &log.steps {
        output::line(format_args!("  {title:<11} {step}"))?;
    }
    Ok(())
}

fn plan_json(plan: &Plan, kept: Option<&[PathBuf]>) -> Value {
    let log = |log: &LogPlan| {
        json!({
            "log": log.log, "dir": log.dir.display().to_string(),
            "damage": log.damage.iter().map(finding_json).collect::<Vec<Value>>(),
            "lost": log.lost.iter().map(|gap| json!([gap.from.0, gap.to.0])).collect::<Vec<Value>>(),
            "steps": log.steps.iter().map(ToString::to_string).collect::<Vec<String>>(),
            "refused": log.refused,
        })
    };
    let kept_paths = kept.unwrap_or_default().iter().map(|path| path.display().to_string());
    json!({
        "done": kept.is_some(), "layout": plan.layout.as_ref().map(ToString::to_string),
        "logs": plan.logs.iter().map(log).collect::<Vec<Value>>(),
        "kept": kept_paths.collect::<Vec<String>>(),
    })
}

impl From<RepairError> for Failure {
    fn from(error: RepairError) -> Self {
        let sentence = error.to_string();
        match error {
            RepairError::Locked { path } => plimsoll::error::OpenError::Locked { path }.into(),
            RepairError::Missing(name) => Self::new(Exit::Io, sentence).with("log", name.as_str()),
            RepairError::Recover(error) => error.into(),
            RepairError::Disk(error) => error.into(),
            RepairError::StillDamaged { log, .. } => {
                Self::new(Exit::Damage, sentence).with("log", log)
            }
            _ => Self::new(Exit::Io, sentence),
        }
    }
}
