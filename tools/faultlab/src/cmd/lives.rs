//! `faultlab lives`.
use super::output::{Table, count, per_second};
use super::{Output, Verdict, cases};
use faultlab::crowd;
use faultlab::distinct::Distinct;
use faultlab::sim::case;
use faultlab::sim::caught::caught;
use faultlab::sim::commits::CommitPath;
use faultlab::sim::lives::{self, Met, Run};
use serde_json::json;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Random lives of a whole node: logs, faults and crashes in any of them, and calm at the end.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The first seed; each node has the next one.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long.
    #[arg(long, group = "until")]
    hours: Option<f64>,
    /// How long; 60 if nothing is said.
    #[arg(long, group = "until")]
    seconds: Option<f64>,
    /// How many nodes; each is run twice more, and must do the same both times.
    #[arg(long, group = "until")]
    nodes: Option<u64>,
    /// Threads; one node runs on one.
    #[arg(long, default_value_t = crowd::cores())]
    threads: usize,
    #[command(flatten)]
    cases: cases::Dir,
}

/// Seeds that one thread takes at a time.
const BATCH: u64 = 64;
/// Violations after which no more are looked for.
const ENOUGH: usize = 5;

#[derive(Default)]
struct Done {
    nodes: u64,
    direct: u64,
    met: Met,
    calm: u64,
    compared: u64,
    failed: Vec<(u64, Met, String)>,
}

fn run_batch(seeds: Range<u64>, compare_all: bool, until: Option<Instant>) -> Done {
    let mut done = Done::default();
    let first = seeds.start;
    for seed in seeds {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        let mut met = Met::default();
        let run = Run::of(seed);
        let result = caught(|| lives::run(&run, false, &mut met));
        done.nodes += 1;
        done.direct += u64::from(run.path == CommitPath::Direct);
        done.met.lives += met.lives;
        done.met.crashes += met.crashes;
        done.met.checks += met.checks;
        done.met.images.append(&mut met.images);
        done.calm += u64::from(met.calm);
        if let Err(what) = result {
            done.failed.push((seed, met, what));
        } else if compare_all || seed == first {
            done.compared += 1;
            match caught(|| lives::same_twice(seed)) {
                Ok(Ok(())) => {}
                Ok(Err(what)) | Err(what) => done.failed.push((seed, met, what)),
            }
        }
    }
    done
}

pub(crate) fn run(args: &Args, output: &Output) -> super::Result {
    let seconds = match (args.hours, args.seconds) {
        (Some(hours), _) => hours * 3600.0,
        (_, seconds) => seconds.unwrap_or(60.0),
    };
    let length = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    let kept = args.cases.replay(output)?;
    let begin = Instant::now();
    let until = if args.nodes.is_none() { begin.checked_add(length) } else { None };
    let bar = output.bar(args.nodes, "nodes");
    let (mut all, mut images) = (Done::default(), Distinct::default());
    // In rounds, so that it ends soon after its time or a violation.
    let mut next = args.seed;
    let last = args.nodes.map(|nodes| args.seed.saturating_add(nodes));
    let is_over = |all: &Done, next: u64| {
        all.failed.len() >= ENOUGH
            || until.is_some_and(|until| Instant::now() >= until)
            || last.is_some_and(|last| next >= last)
    };
    while !is_over(&all, next) {
        let mut batches = Vec::new();
        for _ in 0..args.threads.max(1) * 8 {
            let end = next.saturating_add(BATCH).min(last.unwrap_or(u64::MAX));
            if next < end {
                batches.push(next..end);
            }
            next = end;
        }
        crowd::for_all(
            args.threads,
            &batches,
            |seeds| run_batch(seeds.clone(), args.nodes.is_some(), until),
            |_, done| {
                bar.inc(done.nodes);
                all.nodes += done.nodes;
                all.direct += done.direct;
                all.met.lives += done.met.lives;
                all.met.crashes += done.met.crashes;
                all.met.checks += done.met.checks;
                all.calm += done.calm;
                all.compared += done.compared;
                all.failed.extend(done.failed);
                done.met.images.into_iter().for_each(|image| images.add(image));
            },
        );
    }
    bar.finish_and_clear();
    let elapsed = begin.elapsed();
    let violations = all.failed.len();
    let about = if images.is_exact() { "" } else { "about " };
    let mut table = Table::new(&["random lives", ""]);
    for (what, figure) in [
        ("nodes", count(all.nodes)),
        ("of these with direct commits", count(all.direct)),
        ("nodes a second", count(per_second(all.nodes, elapsed))),
        ("lives", count(all.met.lives)),
        ("lives a second", count(per_second(all.met.lives, elapsed))),
        ("crashes", count(all.met.crashes)),
        ("checks", count(all.met.checks)),
        ("distinct images", format!("{about}{}", count(images.count()))),
        ("nodes that went on once nothing was broken", format!("{} of {}", all.calm, all.nodes)),
        ("seeds run twice and compared", count(all.compared)),
        ("violations", violations.to_string()),
    ] {
        table.row(vec![what.to_owned(), figure]);
    }
    output.table(&table);
    output.say(format_args!(
        "{:.1} s on {} threads, seeds from {}",
        elapsed.as_secs_f64(),
        args.threads,
        args.seed
    ));
    all.failed.sort_by_key(|(seed, ..)| *seed);
    let mut found = Vec::new();
    for (seed, met, what) in &all.failed {
        output.wrong(format_args!("seed {seed}, {} commits:", CommitPath::of_seed(*seed)));
        found.push(args.cases.found(&case::of_lives(*seed, None, met, what), output)?);
    }
    output.json(&json!({
        "seed": args.seed,
        "threads": args.threads,
        "seconds": elapsed.as_secs_f64(),
        "nodes": all.nodes,
        "nodes_direct": all.direct,
        "lives": all.met.lives,
        "lives_per_second": per_second(all.met.lives, elapsed),
        "crashes": all.met.crashes,
        "checks": all.met.checks,
        "distinct_images": images.count(),
        "distinct_images_exact": images.is_exact(),
        "calm": all.calm,
        "compared": all.compared,
        "violations": violations,
        "kept_cases": kept.replayed,
        "cases": found,
    }));
    Ok(Verdict::of(violations == 0 && kept.held && all.calm == all.nodes))
}
