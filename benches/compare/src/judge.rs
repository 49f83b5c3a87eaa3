//! Ratios within a round, and what they say of the targets. Pure.

use crate::results::{Part, Series};
use crate::stats::Rounds;
use crate::systems::{self, Role};
use crate::workload::{Against, BUFFERED, Bound, Kind, Measure, TARGETS, Target};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) workload: &'static str,
    pub(crate) system: String,
    /// What is held against what.
    pub(crate) what: String,
    pub(crate) median: f64,
    pub(crate) quartiles: (f64, f64),
    pub(crate) asked: String,
    pub(crate) verdict: &'static str,
}

fn measure(series: &Series, round: usize, of: Measure) -> Option<f64> {
    let turn = series.rounds.get(round)?;
    match of {
        Measure::Value => Some(turn.value),
        Measure::P99 => turn.p99,
        Measure::P50 => turn.p50,
    }
}

/// Which of two is better is the better one's: of latencies and of what should be small, the smaller.
fn more_is_better(kind: Kind, of: Measure) -> bool {
    of == Measure::Value && kind.more_is_better()
}

/// The best of some series in a round.
fn best<'a>(
    part: &Part,
    names: impl Iterator<Item = &'a str>,
    round: usize,
    of: Measure,
) -> Option<f64> {
    let more = more_is_better(part.of.kind, of);
    let values = names.filter_map(|name| measure(part.series(name)?, round, of));
    values.reduce(|a, b| if (a > b) == more { a } else { b })
}

/// Peers that may be the best one: durable, and checking where records are opened.
fn peers(kind: Kind) -> Vec<&'static str> {
    let opens = matches!(kind, Kind::Reopen { .. });
    systems::all()
        .into_iter()
        .filter(|system| {
            system.role == Role::Peer && system.durable && (system.unchecked.is_none() || !opens)
        })
        .map(|system| system.name)
        .collect()
}

/// The ratio in a round; `None` where the other side is missing.
pub(crate) fn ratio(
    part: &Part,
    series: &Series,
    of: Measure,
    against: Against,
    round: usize,
) -> Option<f64> {
    let kind = part.of.kind;
    let other = match against {
        Against::Best(names) => best(part, names.iter().copied(), round, of),
        Against::BestPeer => best(part, peers(kind).into_iter(), round, of),
        Against::Beside => series.rounds.get(round)?.beside,
        Against::FirstPoint => measure(first_point(part, series)?, round, of),
        Against::Itself => Some(1.0),
    }?;
    let own = measure(series, round, of)?;
    // Seconds of others over ours: how many times as fast.
    let inverse = matches!(kind, Kind::Reopen { .. }) && against == Against::BestPeer;
    Some(if inverse { other / own } else { own / other })
}

/// Those of all rounds.
pub(crate) fn ratios(
    part: &Part,
    series: &Series,
    of: Measure,
    against: Against,
) -> Option<Rounds> {
    let rounds = 0..series.rounds.len();
    Rounds::new(rounds.filter_map(|round| ratio(part, series, of, against, round)).collect())
}

/// Points are named `SYSTEM, N GiB stored` and `SYSTEM, N logs` (or `1 log`): the first one of the same end.
fn first_point<'a>(part: &'a Part, series: &Series) -> Option<&'a Series> {
    let family = |name: &str| {
        let (system, point) = name.split_once(", ")?;
        let series = point.rsplit_once(' ')?.1;
        Some((system.to_owned(), series.trim_end_matches('s').to_owned()))
    };
    let own = family(&series.system);
    part.series.iter().find(|other| family(&other.system) == own)
}

/// What the column `ratio` of a workload's table is held against.
pub(crate) fn reference(kind: Kind) -> (Against, &'static str) {
    match kind {
        Kind::Single { .. } | Kind::Writers { .. } | Kind::Logs { .. } => {
            (Against::Best(&[BUFFERED]), BUFFERED)
        }
        Kind::Batches => (
            Against::Best(&["floor-direct-written", "floor-dsync-written"]),
            "the better direct floor",
        ),
        Kind::Scan => (Against::Beside, "pread + crc32 of its own files"),
        Kind::Reopen { .. } => (Against::Best(&[ENGINE]), ENGINE),
        Kind::Idle => (Against::Best(&[ENGINE]), ENGINE),
        Kind::Growth => (Against::FirstPoint, "the first point"),
    }
}

/// The engine with default options.
const ENGINE: &str = "plimsoll";

fn judge(bound: Bound, rounds: &Rounds) -> &'static str {
    let (low, high) = rounds.quartiles();
    let (met, inside) = match bound {
        Bound::AtLeast(bound) => (rounds.median() >= bound, high >= bound),
        Bound::AtMost(bound) => (rounds.median() <= bound, low <= bound),
    };
    match (met, inside) {
        (true, _) => "met",
        (false, true) => "within the spread",
        (false, false) => "missed",
    }
}

fn says(target: &Target) -> String {
    let measure = match target.measure {
        Measure::Value => "",
        Measure::P99 => "p99, ",
        Measure::P50 => "p50, ",
    };
    let against = match target.against {
        Against::Best(names) if names.len() > 1 => format!("the best of {}", names.join(", ")),
        Against::Best(names) => names.join(""),
        Against::BestPeer => "the best peer".to_owned(),
        Against::Beside => "pread + crc32 of the same files".to_owned(),
        Against::FirstPoint => "the first point".to_owned(),
        Against::Itself => return "the number itself".to_owned(),
    };
    format!("{measure}against {against}")
}

/// What the targets say of the engine as it is by default, where both sides were measured. Variants are for comparison.
pub(crate) fn verdicts(part: &Part) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for target in TARGETS.iter().copied().flatten().filter(|of| of.workload == part.workload) {
        for series in &part.series {
            let name = series.system.split(", ").next().unwrap_or_default();
            let is_first = target.against == Against::FirstPoint
                && first_point(part, series).is_some_and(|first| first.system == series.system);
            if is_first || name != ENGINE {
                continue;
            }
            let Some(rounds) = ratios(part, series, target.measure, target.against) else {
                continue;
            };
            let asked = match target.bound {
                Bound::AtLeast(bound) => format!(">= {bound}"),
                Bound::AtMost(bound) => format!("<= {bound}"),
            };
            verdicts.push(Verdict {
                workload: part.workload,
                system: series.system.clone(),
                what: says(target),
                median: rounds.median(),
                quartiles: rounds.quartiles(),
                asked,
                verdict: judge(target.bound, &rounds),
            });
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Turn;
    use crate::workload::WORKLOADS;

    fn part(id: &str, series: &[(&str, &[f64])]) -> Part {
        let of = *WORKLOADS.iter().find(|known| known.id == id).unwrap();
        let turn = |value: &f64| Turn { value: *value, p50: Some(1e6 / value), ..Turn::default() };
        let series = series.iter().map(|(system, values)| Series {
            system: (*system).to_owned(),
            rounds: values.iter().map(turn).collect(),
        });
        Part {
            workload: of.id,
            says: of.says,
            unit: of.kind.unit(),
            series: series.collect(),
            absent: vec![],
            noise: vec![],
            of,
        }
    }

    fn verdict(part: &Part, contains: &str) -> Verdict {
        let found = verdicts(part).into_iter().find(|verdict| verdict.what.contains(contains));
        found.unwrap()
    }

    #[test]
    fn a_ratio_is_of_one_round() {
        // The medians of both are equal; in each round one is twice the other.
        let part =
            part("single-1k", &[("plimsoll", &[2.0, 8.0, 4.0]), (BUFFERED, &[1.0, 4.0, 2.0])]);
        let verdict = verdict(&part, BUFFERED);
        assert_eq!((verdict.median, verdict.verdict), (2.0, "met"));
    }

    #[test]
    fn the_better_direct_floor_counts() {
        let part = part(
            "single-1k",
            &[
                ("plimsoll", &[9.0]),
                ("floor-direct-written", &[10.0]),
                ("floor-dsync-written", &[5.0]),
            ],
        );
        assert_eq!(verdict(&part, "the best of").median, 0.9);
        assert_eq!(verdict(&part, "the best of").verdict, "missed");
    }

    #[test]
    fn what_is_not_durable_or_does_not_check_is_no_best_peer() {
        let peers = peers(Kind::Reopen { many: false });
        assert!(!peers.contains(&"commitlog-unsynced"));
        assert!(!peers.contains(&"commitlog-fdatasync"));
        assert!(!peers.contains(&"raft-engine"));
        let peers = super::peers(Kind::Writers { writers: 16, slow: false });
        assert!(!peers.contains(&"commitlog-unsynced"));
    }

    #[cfg(feature = "peers")]
    #[test]
    fn a_start_is_so_many_times_as_fast() {
        let part = part(
            "reopen-1g",
            &[("plimsoll", &[0.1]), ("okaywal", &[1.0]), ("walrus", &[0.7]), ("fjall", &[3.0])],
        );
        assert!((verdict(&part, "best peer").median - 7.0).abs() < 1e-9);
    }

    #[test]
    fn points_are_held_against_the_first_of_their_kind() {
        let part = part(
            "growth",
            &[
                ("plimsoll, 1 GiB stored", &[100.0]),
                ("plimsoll, 10 GiB stored", &[50.0]),
                ("plimsoll, 1 log", &[100.0]),
                ("plimsoll, 100 logs", &[100.0]),
            ],
        );
        let all = verdicts(&part);
        let said: Vec<_> = all.iter().map(|v| (v.system.as_str(), v.verdict)).collect();
        assert_eq!(said, [("plimsoll, 10 GiB stored", "missed"), ("plimsoll, 100 logs", "met")]);
    }

    #[test]
    fn a_bound_between_the_quartiles_is_within_the_spread() {
        let rounds = Rounds::new(vec![0.8, 0.9, 1.2, 0.7, 1.3]).unwrap();
        assert_eq!(judge(Bound::AtLeast(1.0), &rounds), "within the spread");
        assert_eq!(judge(Bound::AtLeast(1.25), &rounds), "missed");
        assert_eq!(judge(Bound::AtLeast(0.9), &rounds), "met");
        assert_eq!(judge(Bound::AtMost(0.85), &rounds), "within the spread");
    }
}
