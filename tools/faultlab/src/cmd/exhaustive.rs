//! `faultlab exhaustive`.
use super::output::{Table, count, per_second};
use super::paths::Paths;
use super::{Output, Verdict, cases};
use faultlab::crowd;
use faultlab::sim::commits::CommitPath;
use faultlab::sim::explore::{Effort, Failure, Plan, Stats, explore};
use faultlab::sim::{self, case};
use serde_json::json;
use std::time::{Duration, Instant};

/// Crashes scripts at every operation, and the recoveries that follow at every operation of theirs.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which scripts; all if none is named.
    script: Vec<String>,
    /// Leave no second crash out, and try more outcomes of each power cut.
    #[arg(long)]
    full: bool,
    /// Which are taken where not all are.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// How commits are written: past the page cache, through it, or one after the other.
    #[arg(long, value_enum, default_value_t)]
    path: Paths,
    /// Name the scripts, and run none.
    #[arg(long)]
    list: bool,
    /// Threads; one script runs on one.
    #[arg(long, default_value_t = crowd::cores())]
    threads: usize,
    #[command(flatten)]
    cases: cases::Dir,
}

struct Done {
    stats: Stats,
    failed: Option<Failure>,
    elapsed: Duration,
}

fn run_plan((plan, path): &(Plan, CommitPath), effort: Effort) -> Done {
    let begin = Instant::now();
    let (stats, failed) = match path.on(|| explore(*plan, effort)) {
        Ok(stats) => (stats, None),
        Err(failure) => (failure.stats, Some(failure)),
    };
    Done { stats, failed, elapsed: begin.elapsed() }
}

pub(crate) fn run(args: &Args, output: &Output) -> super::Result {
    let effort = Effort { full: args.full, seed: args.seed };
    let plans: Vec<Plan> = match &args.script[..] {
        [] => sim::all().copied().collect(),
        names => {
            let plan = |name: &String| {
                sim::find(name).ok_or_else(|| format!("no script {name}; --list names them"))
            };
            names.iter().map(plan).collect::<Result<_, _>>()?
        }
    };
    if args.list {
        for plan in &plans {
            output.say(plan.name);
        }
        output.json(&json!(plans.iter().map(|plan| plan.name).collect::<Vec<_>>()));
        return Ok(Verdict::Held);
    }
    let paths = args.path.each();
    let plans: Vec<(Plan, CommitPath)> =
        plans.iter().flat_map(|plan| paths.iter().map(|path| (*plan, *path))).collect();
    let kept = args.cases.replay(output)?;
    let begin = Instant::now();
    let bar = output.bar(Some(plans.len() as u64), "scripts");
    let mut done: Vec<Option<Done>> = plans.iter().map(|_| None).collect();
    crowd::for_all(
        args.threads,
        &plans,
        |plan| run_plan(plan, effort),
        |at, result| {
            bar.inc(1);
            bar.set_message(plans[at].0.name);
            done[at] = Some(result);
        },
    );
    bar.finish_and_clear();
    let elapsed = begin.elapsed();
    let done: Vec<(&(Plan, CommitPath), Done)> =
        plans.iter().zip(done).filter_map(|(plan, done)| Some((plan, done?))).collect();

    let mut table = Table::new(&[
        "script",
        "commits",
        "points",
        "exhausted",
        "second points",
        "states",
        "distinct",
        "states/s",
        "violations",
    ])
    .words(&[1]);
    for ((plan, path), Done { stats, failed, elapsed }) in &done {
        table.row(vec![
            plan.name.to_owned(),
            path.to_string(),
            count(stats.points as u64),
            count(stats.exhausted as u64),
            stats.seconds(effort),
            count(stats.states as u64),
            count(stats.distinct as u64),
            count(per_second(stats.states as u64, *elapsed)),
            u8::from(failed.is_some()).to_string(),
        ]);
    }
    let sum = |figure: fn(&Stats) -> usize| {
        done.iter().map(|(_, done)| figure(&done.stats) as u64).sum::<u64>()
    };
    let states = sum(|stats| stats.states);
    let violations = done.iter().filter(|(_, done)| done.failed.is_some()).count();
    table.row(vec![
        format!("{} scripts", done.len() / paths.len()),
        args.path.to_string(),
        count(sum(|stats| stats.points)),
        count(sum(|stats| stats.exhausted)),
        format!("{} of {}", sum(|stats| stats.second), sum(|stats| stats.second_of)),
        count(states),
        count(sum(|stats| stats.distinct)),
        count(per_second(states, elapsed)),
        violations.to_string(),
    ]);
    output.table(&table);
    output.say(format_args!("{:.1} s on {} threads", elapsed.as_secs_f64(), args.threads));
    let mut found = Vec::new();
    for ((plan, path), done) in &done {
        if let Some(failure) = &done.failed {
            let case = case::of_plan(plan.name, *path, None, failure);
            found.push(args.cases.found(&case, output)?);
        }
    }
    let row = |((plan, path), Done { stats, failed, elapsed }): &(&(Plan, CommitPath), Done)| {
        json!({
            "script": plan.name,
            "path": path.name(),
            "points": stats.points,
            "exhausted": stats.exhausted,
            "second_points": stats.second,
            "second_points_of": stats.second_of,
            "sampled": stats.second < stats.second_of,
            "states": stats.states,
            "distinct": stats.distinct,
            "states_per_second": per_second(stats.states as u64, *elapsed),
            "violation": failed.as_ref().map(|failure| &failure.what),
        })
    };
    output.json(&json!({
        "seed": args.seed,
        "full": args.full,
        "path": args.path.to_string(),
        "threads": args.threads,
        "seconds": elapsed.as_secs_f64(),
        "states": states,
        "states_per_second": per_second(states, elapsed),
        "violations": violations,
        "kept_cases": kept.replayed,
        "cases": found,
        "scripts": done.iter().map(row).collect::<Vec<_>>(),
    }));
    Ok(Verdict::of(violations == 0 && kept.held))
}
