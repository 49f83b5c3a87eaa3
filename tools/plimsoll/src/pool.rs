//! `plimsoll pool`: the spares of data directories, by device.

use crate::failure::Failure;
use crate::inspect::{
    finding_json, held_text, layout, layout_json, print_finding, settle, style, verdict,
};
use crate::numbers::{count, percent, size, thousands};
use crate::output;
use crate::settings::{Settings, SettingsFile};
use crate::table::{self, Cell, Lean};
use clap::Args;
use plimsoll::Allowance;
use plimsoll::fs::{FileKind, FileSystem, OsFileSystem};
use plimsoll::inspect::{self as engine, ClassSpares, DeviceSpares, DirSpares, LayoutView, Usage};
use plimsoll::types::SizeClass;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Show the spares of data directories
///
/// Spares are segment files that belong to no log and wait for use. Directories on one device share its budget, so name
/// all that a node has there. Budget and what is kept back are those of the settings given here, or the defaults; a running
/// node may have others. Opens for reading only, takes no lock and changes nothing, so it works beside a running node. Exit code 1 if a
/// LAYOUT is damaged, 3 if something cannot be read; nothing that is wrong with a spare is damage.
#[derive(Args, Debug)]
#[command(after_help = "\
Columns:
  GENERATIONS  lowest and highest of those stamped or given up
  STAMPED      ready for use
  GIVEN UP     by a log, not stamped yet
  WRONG        of the wrong size, or the header cannot be read
  MAKING       being made

Example:
  plimsoll pool /var/lib/plimsoll")]
pub(crate) struct Pool {
    /// The data directories
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    #[command(flatten)]
    settings: SettingsFile,
}

impl Pool {
    /// Runs it.
    pub(crate) fn run(&self, as_json: bool) -> Result<(), Failure> {
        let settings = self.settings.read()?;
        let report = engine::pool(&OsFileSystem, &once_each(&self.dirs), &settle);
        if as_json {
            output::line(json!({
                "outcome": report.outcome.name(),
                "devices": report.devices.iter().map(|device| device_json(device, &settings)).collect::<Vec<Value>>(),
                "findings": report.findings.iter().map(finding_json).collect::<Vec<Value>>(),
            }))?;
        } else {
            report.devices.iter().try_for_each(|device| print_device(device, &settings))?;
            report.findings.iter().try_for_each(print_finding)?;
            let outcome = output::styled(style(report.outcome), report.outcome);
            output::line(format_args!("  {:<11} {outcome}", "outcome"))?;
        }
        verdict(report.outcome, &report.findings)
    }
}

/// A directory that is named twice, in whatever way, is counted once. A link stays, to be refused.
pub(crate) fn once_each(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let is_link =
        |path: &Path| OsFileSystem.metadata(path).is_ok_and(|found| found.kind == FileKind::Link);
    let mut seen = Vec::new();
    let first = |dir: &&PathBuf| {
        let real = if is_link(dir) { None } else { std::fs::canonicalize(dir).ok() };
        let real = real.unwrap_or_else(|| dir.to_path_buf());
        let new = !seen.contains(&real);
        seen.push(real);
        new
    };
    dirs.iter().filter(first).cloned().collect()
}

/// Major and minor number, as `ls -l /dev` and `/proc/self/mountinfo` show them.
pub(crate) fn device_number(device: u64) -> String {
    let major = (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000);
    let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
    format!("{major}:{minor}")
}

/// `None` where the device's size is not known.
fn allowance(device: &DeviceSpares, settings: &Settings) -> Option<Allowance> {
    device.space.map(|space| settings.limits.pool.allowance(space.total))
}

fn print_device(device: &DeviceSpares, settings: &Settings) -> Result<(), Failure> {
    let title = format!("device {}", device_number(device.device));
    let space = device.space.map_or_else(
        || "size not known".to_owned(),
        |space| format!("{}, {} free", size(space.total), size(space.available)),
    );
    output::line(format_args!("{}, {space}", output::styled(output::BOLD, title)))?;
    if let Some(allowance) = allowance(device, settings) {
        let usage = device.usage(allowance.kept_back);
        for (title, text) in [
            ("budget", budget_text(allowance.budget, usage.counted_bytes)),
            ("kept back", kept_back_text(allowance.kept_back, &usage)),
            ("settings", settings.source()),
        ] {
            output::line(format_args!("  {title:<11} {text}"))?;
        }
    }
    device.dirs.iter().try_for_each(print_dir)
}

fn budget_text(budget: u64, counted: u64) -> String {
    let of = format!("{} of {}", size(counted), size(budget));
    match counted.checked_sub(budget) {
        None | Some(0) => format!("{of} in spares, {}", percent(counted, budget)),
        Some(over) => {
            output::styled(output::ODD, format!("{of} in spares, {} too much", size(over)))
        }
    }
}

fn kept_back_text(kept_back: u64, usage: &Usage) -> String {
    if kept_back > 0 && usage.kept_back_files == 0 {
        return format!("{}: no whole tiny file, or its size is not known", size(kept_back));
    }
    let files = count(usage.kept_back_files, "tiny file");
    let all = format!("{} in {files}", size(kept_back));
    match usage.missing_files {
        0 => format!("{all}, all there"),
        missing => output::styled(
            output::ODD,
            format!("{all}, {} missing ({})", thousands(missing), size(usage.missing_bytes)),
        ),
    }
}

fn print_dir(dir: &DirSpares) -> Result<(), Failure> {
    let title = output::styled(output::BOLD, dir.dir.display());
    let odd = match &dir.layout {
        LayoutView::Valid(_) => String::new(),
        other => format!("; layout {}", layout(other)),
    };
    output::line(format_args!("{title}, {}{odd}", held_text(dir.held)))?;
    use Lean::{Left, Right};
    let columns = [
        ("  CLASS", Left),
        ("FILES", Right),
        ("ON DISK", Right),
        ("GENERATIONS", Right),
        ("STAMPED", Right),
        ("GIVEN UP", Right),
        ("WRONG", Right),
        ("MAKING", Right),
    ];
    let rows: Vec<Vec<Cell>> = rows(dir)
        .map(|(class, spares)| cells(class.map_or("?", SizeClass::name), spares))
        .collect();
    table::lines(&columns, &rows).iter().try_for_each(output::line)?;
    let last: u64 = dir.classes.iter().map(|spares| spares.last_generation).sum();
    if last > 0 {
        let files = count(last, "file");
        let text = format!("{files} of generation 65,535, which the next start deletes");
        output::line(format_args!("  {:<11} {text}", "at its end"))?;
    }
    Ok(())
}

/// The three classes, and files of none where there are any.
fn rows(dir: &DirSpares) -> impl Iterator<Item = (Option<SizeClass>, &ClassSpares)> {
    let classes = SizeClass::ALL.into_iter().map(|class| (Some(class), dir.of(class)));
    let rest = (dir.unclassed.files > 0).then_some((None, &dir.unclassed));
    classes.chain(rest)
}

fn cells(class: &str, spares: &ClassSpares) -> Vec<Cell> {
    let odd = |count: u64| {
        let text = thousands(count);
        if count > 0 { Cell::styled(output::ODD, text) } else { Cell::new(text) }
    };
    let generations = match spares.generations {
        None => "-".to_owned(),
        Some((low, high)) if low == high => low.get().to_string(),
        Some((low, high)) => format!("{} to {}", low.get(), high.get()),
    };
    vec![
        Cell::new(format!("  {class}")),
        Cell::new(thousands(spares.files)),
        Cell::new(size(spares.disk_bytes)),
        Cell::new(generations),
        Cell::new(thousands(spares.stamped)),
        Cell::new(thousands(spares.given_up)),
        odd(spares.damaged + spares.wrong_size),
        Cell::new(thousands(spares.being_made)),
    ]
}

fn device_json(device: &DeviceSpares, settings: &Settings) -> Value {
    let allowance = allowance(device, settings);
    let usage = allowance.map(|allowance| device.usage(allowance.kept_back));
    let share = allowance.map(|allowance| device.share(allowance.kept_back));
    json!({
        "device": device_number(device.device),
        "total_bytes": device.space.map(|space| space.total),
        "available_bytes": device.space.map(|space| space.available),
        "settings": settings.name(),
        "budget_bytes": allowance.map(|allowance| allowance.budget),
        "counted_bytes": usage.map(|usage| usage.counted_bytes),
        "kept_back_bytes": allowance.map(|allowance| allowance.kept_back),
        "kept_back_files": usage.map(|usage| usage.kept_back_files),
        "missing_files": usage.map(|usage| usage.missing_files),
        "missing_bytes": usage.map(|usage| usage.missing_bytes),
        "dirs": device.dirs.iter().map(|dir| dir_json(dir, share)).collect::<Vec<Value>>(),
    })
}

/// A directory, of which so many bytes are to be kept back.
fn dir_json(dir: &DirSpares, kept_back: Option<u64>) -> Value {
    let usage = kept_back.map(|kept_back| dir.usage(kept_back));
    let row = |(class, spares): (Option<SizeClass>, &ClassSpares)| {
        json!({
            "class": class.map(SizeClass::name),
            "size": class.map(|class| dir.sizes.of(class)).filter(|&size| size > 0),
            "files": spares.files, "disk_bytes": spares.disk_bytes,
            "generation_min": spares.generations.map(|(low, _)| low.get()),
            "generation_max": spares.generations.map(|(_, high)| high.get()),
            "last_generation": spares.last_generation,
            "stamped": spares.stamped, "given_up": spares.given_up, "wrong_size": spares.wrong_size,
            "damaged": spares.damaged, "being_made": spares.being_made,
        })
    };
    json!({
        "dir": dir.dir.display().to_string(), "outcome": dir.outcome.name(),
        "held": dir.held, "layout": layout_json(&dir.layout),
        "counted_bytes": usage.map(|usage| usage.counted_bytes),
        "kept_back_files": usage.map(|usage| usage.kept_back_files),
        "missing_files": usage.map(|usage| usage.missing_files),
        "classes": rows(dir).map(row).collect::<Vec<Value>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_told_as_the_system_tells_it() {
        assert_eq!(device_number(0xfe01), "254:1");
        assert_eq!(device_number(0x0010_3005), "48:261");
        assert_eq!(device_number(0x0000_5000_0000_0b02), "20491:2");
    }

    #[test]
    fn more_than_the_budget_is_told_in_bytes() {
        assert_eq!(budget_text(1 << 20, 1 << 19), "512 KiB of 1 MiB in spares, 50%");
        assert!(budget_text(1 << 20, 3 << 20).contains("3 MiB of 1 MiB in spares, 2 MiB too much"));
        assert_eq!(budget_text(0, 0), "0 B of 0 B in spares, -");
    }
}
