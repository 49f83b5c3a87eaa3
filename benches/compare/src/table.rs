//! The table on standard output.

use crate::judge;
use crate::results::{Machine, Part, Version};
use crate::stats::Rounds;
use crate::workload::Measure;

pub(crate) fn start(machine: &Machine, versions: &[Version], rounds: usize) {
    println!(
        "{} x {}, Linux {}, {} ({}) on {}",
        machine.processors,
        machine.processor,
        machine.kernel,
        machine.file_system,
        machine.mount_options,
        machine.device
    );
    let plural = if rounds == 1 { "" } else { "s" };
    println!(
        "{rounds} round{plural}, systems in turns; ratio: of the same round, median [quartiles]"
    );
    if let Some(note) = &machine.note {
        println!("NOT QUIET: {note}");
    }
    println!();
    for version in versions {
        let number = version.version.as_deref().unwrap_or("");
        println!("{:26} {number:8} {}", version.system, version.mode);
    }
}

pub(crate) fn part(part: &Part) {
    let kind = part.of.kind;
    let (against, name) = judge::reference(kind);
    println!("\n{}: {}", part.workload, part.says);
    println!(
        "  {:30} {:>11} {:>9} {:>9} {:>9}  ratio to {name}",
        "", part.unit, "p50 us", "p99 us", "syncs/op"
    );
    for series in &part.series {
        let rounds = |of: fn(&crate::child::Turn) -> Option<f64>| {
            Rounds::new(series.rounds.iter().filter_map(of).collect())
        };
        let column = |of| rounds(of).map_or(String::new(), |rounds| number(rounds.median()));
        let ratio =
            judge::ratios(part, series, Measure::Value, against).map_or(String::new(), |rounds| {
                let (low, high) = rounds.quartiles();
                format!("{:7.3} [{low:.3} to {high:.3}]", rounds.median())
            });
        println!(
            "  {:30} {:>11} {:>9} {:>9} {:>9}  {ratio}{}",
            series.system,
            column(|turn| Some(turn.value)),
            column(|turn| turn.p50),
            column(|turn| turn.p99),
            column(|turn| {
                turn.p50?;
                Some(turn.syncs? as f64 / turn.done as f64)
            }),
            series
                .rounds
                .iter()
                .find_map(|turn| turn.note.as_ref())
                .map_or(String::new(), |note| { format!("  {note}") }),
        );
    }
    // Of many reasons that are the same, one line.
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for absent in &part.absent {
        match reasons.iter_mut().find(|(why, _)| *why == absent.why) {
            Some((_, systems)) => systems.push(&absent.system),
            None => reasons.push((&absent.why, vec![&absent.system])),
        }
    }
    for (why, systems) in reasons {
        println!("  not here: {} ({why})", systems.join(", "));
    }
    for verdict in judge::verdicts(part) {
        let (low, high) = verdict.quartiles;
        println!(
            "  TARGET {}: {}: {:.3} [{low:.3} to {high:.3}], asked {}: {}",
            verdict.system, verdict.what, verdict.median, verdict.asked, verdict.verdict
        );
    }
    let noisy: Vec<String> = part
        .noise
        .iter()
        .enumerate()
        .filter_map(|(round, noise)| Some(format!("{}: {}", round + 1, noise.note.as_ref()?)))
        .collect();
    if !noisy.is_empty() {
        println!(
            "  NOT QUIET in {} of {} rounds ({})",
            noisy.len(),
            part.noise.len(),
            noisy.join("; ")
        );
    }
}

pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1000.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
