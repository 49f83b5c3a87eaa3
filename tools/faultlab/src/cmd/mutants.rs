//! `faultlab mutants`.
use super::output::{Table, count};
use super::paths::Paths;
use super::{Output, Verdict};
use faultlab::crowd;
use faultlab::sim::case::{self, fault};
use faultlab::sim::caught::first_line;
use faultlab::sim::commits::CommitPath;
use faultlab::sim::explore::Effort;
use faultlab::sim::planted::{CAN_PLANT, Caught, KNOWN, Known, noticed_by_lives};
use plimsoll::planted::Fault;
use serde_json::json;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const NOT_HERE: &str = "this build plants no fault: it needs debug assertions, as in \
                                   `cargo run --profile lab -p faultlab -- …`";

/// Switches each known mistake of the engine on, and says what catches it. Needs a build with debug assertions.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which mistakes; all if none is named.
    fault: Vec<String>,
    /// One by the day, or by --seed; and the engine without it, which must not trip.
    #[arg(long, conflicts_with = "fault")]
    daily: bool,
    /// Which second crashes are taken, and which mistake is today's.
    #[arg(long)]
    seed: Option<u64>,
    /// Also say which of so many nodes is the first whose random lives notice it; that none does is no failure.
    #[arg(long, value_name = "NODES", default_value_t = 0)]
    lives: u64,
    /// How commits are written. A mistake that shows on one path only is not tried on the other.
    #[arg(long, value_enum, default_value_t)]
    path: Paths,
    /// Threads; one mistake runs on one.
    #[arg(long, default_value_t = crowd::cores())]
    threads: usize,
    /// Write a case of each, made smaller.
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
}

struct Row {
    caught: Option<Caught>,
    /// What tripped without the mistake, where that was tried.
    clean: Option<Result<(), String>>,
    case: Option<String>,
    /// The node whose lives noticed it.
    lives: Option<u64>,
}

/// Days since 1970.
fn today() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / 86_400)
}

pub(crate) fn run(args: &Args, output: &Output) -> super::Result {
    let faults: Vec<Fault> = match &args.fault[..] {
        _ if args.daily => {
            let at = args.seed.unwrap_or_else(today) % Fault::ALL.len() as u64;
            Fault::ALL.iter().copied().skip(usize::try_from(at).unwrap_or(0)).take(1).collect()
        }
        [] => Fault::ALL.to_vec(),
        names => names.iter().map(|name| fault(name)).collect::<Result<_, _>>()?,
    };
    if !CAN_PLANT {
        return Err(NOT_HERE.to_owned());
    }
    let effort = Effort { full: false, seed: if args.daily { 7 } else { args.seed.unwrap_or(7) } };
    let shows = |known: &Known| {
        let paths = args.path.each().iter().filter(|path| known.paths().contains(path));
        paths.map(|path| (*known, *path)).collect::<Vec<_>>()
    };
    let known: Vec<(Known, CommitPath)> =
        KNOWN.iter().filter(|known| faults.contains(&known.fault)).flat_map(shows).collect();
    let bar = output.bar(Some(known.len() as u64), "mistakes");
    let mut rows: Vec<Option<Row>> = known.iter().map(|_| None).collect();
    let work = |(known, path): &(Known, CommitPath)| -> Result<Row, String> {
        let caught = known.run(effort, *path);
        let clean = args.daily.then(|| known.by.clean(effort, *path));
        let mut written = None;
        if let (Some(dir), Some(caught)) = (&args.cases, &caught) {
            let smaller = case::smaller(caught.case.clone());
            let path = smaller.write(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
            written = Some(path.display().to_string());
        }
        let lives = noticed_by_lives(known.fault, args.lives).map(|(node, _)| node);
        Ok(Row { caught, clean, case: written, lives })
    };
    let mut failed = None;
    crowd::for_all(args.threads, &known, work, |at, row| {
        bar.inc(1);
        match row {
            Ok(row) => rows[at] = Some(row),
            Err(why) => failed = Some(why),
        }
    });
    bar.finish_and_clear();
    if let Some(why) = failed {
        return Err(why);
    }
    let rows: Vec<(&(Known, CommitPath), Row)> =
        known.iter().zip(rows).filter_map(|(known, row)| Some((known, row?))).collect();
    let mut table =
        Table::new(&["mistake", "commits", "caught by", "", "states", "lives", "violation"])
            .words(&[1, 2, 3, 6]);
    for ((known, path), row) in &rows {
        let (states, what) = match &row.caught {
            Some(caught) => (count(caught.states as u64), first_line(&caught.what)),
            None => (String::new(), "SURVIVED".to_owned()),
        };
        let what = what.chars().take(90).collect();
        let fault = format!("{:?}", known.fault);
        let by = (known.by.layer().to_owned(), known.by.name().to_owned());
        let none = if args.lives > 0 { "none" } else { "" };
        let lives = row.lives.map_or_else(|| none.to_owned(), |node| format!("node {node}"));
        table.row(vec![fault, path.to_string(), by.0, by.1, states, lives, what]);
    }
    output.table(&table);
    let survived: Vec<&(Known, CommitPath)> =
        rows.iter().filter(|(_, row)| row.caught.is_none()).map(|(known, _)| *known).collect();
    let tripped: Vec<(&(Known, CommitPath), &String)> = rows
        .iter()
        .filter_map(|(known, row)| Some((*known, row.clean.as_ref()?.as_ref().err()?)))
        .collect();
    for (known, path) in &survived {
        let (fault, by) = (known.fault, known.by.name());
        output.wrong(format_args!("{fault:?} was not caught by {by} on the {path} path"));
    }
    for ((known, path), what) in &tripped {
        output.wrong(format_args!(
            "without a mistake {} trips on the {path} path: {what}",
            known.by.name()
        ));
    }
    let caught = rows.len() - survived.len();
    output.say(format_args!(
        "{caught} of {} caught, {} mistakes{}",
        rows.len(),
        faults.len(),
        if args.daily && tripped.is_empty() { "; without it nothing trips" } else { "" }
    ));
    let row = |((known, path), row): &(&(Known, CommitPath), Row)| {
        json!({
            "fault": format!("{:?}", known.fault),
            "path": path.name(),
            "layer": known.by.layer(),
            "by": known.by.name(),
            "states": row.caught.as_ref().map(|caught| caught.states),
            "violation": row.caught.as_ref().map(|caught| first_line(&caught.what)),
            "clean": row.clean.as_ref().map(Result::is_ok),
            "node": row.lives,
            "case": row.case,
        })
    };
    output.json(&json!({
        "survived": survived.len(),
        "tripped_without": tripped.len(),
        "faults": rows.iter().map(row).collect::<Vec<_>>(),
    }));
    Ok(Verdict::of(survived.is_empty() && tripped.is_empty()))
}
