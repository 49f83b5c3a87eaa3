//! What a run found: numbers from the rounds, and a sentence.

use super::disk;
use super::machine::Machine;
use super::quiet::Quiet;
use super::stats::{Bucket, Middle, Percentiles, middle};
use super::turns::{Case, Group};
use plimsoll::fs::Space;
use std::time::Duration;

/// All of it.
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// Before the run.
    pub(crate) space: Space,
    pub(crate) spent: Duration,
    pub(crate) rounds: u32,
    pub(crate) turn: Duration,
    /// `None` where the kernel does not tell.
    pub(crate) quiet: Option<Quiet>,
    /// `None` where the engine was not measured.
    pub(crate) engine: Option<Engine>,
    pub(crate) cases: Vec<Case>,
}

/// What the engine says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Engine {
    pub(crate) commits_by: &'static str,
    /// For how long it delayed publishes for lack of memory.
    pub(crate) delayed: Duration,
}

/// Below this no device has written anything.
const SYNC_MIN: u64 = 5_000;
/// The size of the writes whose latencies are told as a histogram and in words.
const SIZE: usize = 1 << 10;

impl Report {
    pub(crate) fn of(&self, group: Group) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(move |case| case.group == group)
    }

    /// The case that another one is held against.
    pub(crate) fn beside(&self, case: &Case) -> Option<&Case> {
        let name = case.beside.as_ref()?;
        self.cases.iter().find(|other| other.name() == *name && other.group != Group::Engine)
    }

    /// Its rate over that of what it is held against, of each round: both saw the same disk.
    pub(crate) fn ratio(&self, case: &Case) -> Option<Middle> {
        let beside = self.beside(case)?;
        let pairs = case.rates.iter().zip(&beside.rates);
        middle(pairs.map(|(own, other)| own / other))
    }

    fn syncs(&self) -> Option<&Case> {
        self.cases.iter().find(|case| case.name() == disk::floor(SIZE))
    }

    /// Of syncs.
    pub(crate) fn histogram(&self) -> Vec<Bucket> {
        self.syncs().map(|case| case.latencies.buckets()).unwrap_or_default()
    }

    /// What syncs are like here, in a sentence.
    pub(crate) fn meaning(&self) -> Option<String> {
        meaning(&self.syncs()?.latencies.percentiles())
    }
}

pub(crate) fn rate(case: &Case) -> Option<Middle> {
    middle(case.rates.iter().copied())
}

fn meaning(found: &Percentiles) -> Option<String> {
    let half = found.p50?;
    let text = format!("A write of 1 KiB and its sync take {} here half the time", time(half));
    if half < SYNC_MIN {
        return Some(format!(
            "{text}: no device is as fast as that, so this disk or file system probably does not sync at all, and a power \
             cut takes what was confirmed (tmpfs, a disk of a virtual machine that ignores flushes)."
        ));
    }
    Some(match (found.p99, found.p999) {
        (Some(hundredth), Some(thousandth)) => format!(
            "{text}; one in a hundred takes more than {}, one in a thousand more than {}.",
            time(hundredth),
            time(thousandth)
        ),
        (Some(hundredth), None) => {
            format!("{text}; one in a hundred takes more than {}.", time(hundredth))
        }
        _ => format!("{text}; the longest of {} took {}.", found.samples, time(found.max?)),
    })
}

/// `850 ns`, `90 µs`, `1.2 ms`, `15 s`; two digits at least.
pub(crate) fn time(nanos: u64) -> String {
    let (value, unit) = match nanos {
        0..1_000 => return format!("{nanos} ns"),
        // What would be rounded to 1000 of a unit is one of the next.
        1_000..999_500 => (nanos as f64 / 1e3, "µs"),
        999_500..999_500_000 => (nanos as f64 / 1e6, "ms"),
        _ => (nanos as f64 / 1e9, "s"),
    };
    let text = if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") };
    format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1 µs"),
            (1_250, "1.2 µs"),
            (90_400, "90 µs"),
            (999_499, "999 µs"),
            (999_500, "1 ms"),
            (1_240_000, "1.2 ms"),
            (9_960_000, "10 ms"),
            (15_000_000_000, "15 s"),
        ] {
            assert_eq!(time(nanos), text, "{nanos}");
        }
    }

    #[test]
    fn the_sentence_tells_no_more_than_there_are_samples_for() {
        let all = Percentiles {
            samples: 5000,
            p50: Some(90_000),
            p90: Some(120_000),
            p99: Some(500_000),
            p999: Some(1_200_000),
            max: Some(3_000_000),
        };
        let told = meaning(&all).unwrap();
        assert!(told.contains("90 µs here half the time"), "{told}");
        assert!(told.contains("one in a thousand more than 1.2 ms."), "{told}");
        let told = meaning(&Percentiles { p999: None, ..all }).unwrap();
        assert!(told.ends_with("one in a hundred takes more than 500 µs."), "{told}");
        let few = Percentiles { samples: 7, p99: None, p999: None, ..all };
        assert!(meaning(&few).unwrap().ends_with("the longest of 7 took 3 ms."));
        assert_eq!(meaning(&Percentiles { samples: 0, p50: None, ..few }), None);
    }

    #[test]
    fn a_sync_that_no_device_can_do_is_told() {
        let percentiles = |nanos| {
            let all = Some(nanos);
            Percentiles { samples: 9, p50: all, p90: all, p99: all, p999: all, max: all }
        };
        assert!(meaning(&percentiles(4_999)).unwrap().contains("probably does not sync at all"));
        assert!(!meaning(&percentiles(5_000)).unwrap().contains("probably"));
    }
}
