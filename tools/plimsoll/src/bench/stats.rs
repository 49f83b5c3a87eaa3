//! Latencies and rounds in numbers. No clock and no disk.

use hdrhistogram::Histogram;

/// A tenth of an hour; what takes longer counts as this.
const NANOS_MAX: u64 = 360_000_000_000;

/// Latencies in nanoseconds, each counted, to three digits.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u64>);

/// What is told of latencies, in nanoseconds. A percentile needs samples beyond it: of fewer it would be the maximum by
/// another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Percentiles {
    pub(crate) samples: u64,
    pub(crate) p50: Option<u64>,
    pub(crate) p90: Option<u64>,
    pub(crate) p99: Option<u64>,
    pub(crate) p999: Option<u64>,
    pub(crate) max: Option<u64>,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        let Ok(histogram) = Histogram::new_with_bounds(1, NANOS_MAX, 3) else {
            unreachable!("the bounds are good ones");
        };
        Self(histogram)
    }

    /// Counts one.
    pub(crate) fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos);
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        let samples = self.0.len();
        let at = |share: f64, least: u64| {
            (samples >= least).then(|| self.0.value_at_quantile(share).min(self.0.max()))
        };
        Percentiles {
            samples,
            p50: at(0.5, 1),
            p90: at(0.9, 10),
            p99: at(0.99, 100),
            p999: at(0.999, 1000),
            max: at(1.0, 1),
        }
    }

    /// By [`EDGES`], from the first bucket that holds any to the last.
    pub(crate) fn buckets(&self) -> Vec<Bucket> {
        let recorded = self.0.iter_recorded();
        buckets(recorded.map(|step| (step.value_iterated_to(), step.count_since_last_iteration())))
    }
}

/// So many latencies of at least `from` and less than `to` nanoseconds; the last one has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) from: u64,
    pub(crate) to: Option<u64>,
    pub(crate) count: u64,
}

/// Six a decade, which is about the same step each on a log scale, from 1 µs to 10 s.
fn edges() -> Vec<u64> {
    let decades = (0..7).map(|power| 10_u64.pow(power) * 1000);
    let within = |decade: u64| [10, 15, 20, 30, 50, 70].map(|tenths| decade / 10 * tenths);
    let last = [10_000_000_000];
    std::iter::once(0).chain(decades.flat_map(within)).chain(last).collect()
}

fn buckets(values: impl Iterator<Item = (u64, u64)>) -> Vec<Bucket> {
    let edges = edges();
    let mut all: Vec<Bucket> = (0..edges.len())
        .map(|at| Bucket { from: edges[at], to: edges.get(at + 1).copied(), count: 0 })
        .collect();
    for (value, count) in values {
        all[edges.partition_point(|edge| *edge <= value) - 1].count += count;
    }
    let Some(last) = all.iter().rposition(|bucket| bucket.count > 0) else { return Vec::new() };
    all.truncate(last + 1);
    all.into_iter().skip_while(|bucket| bucket.count == 0).collect()
}

/// The middle of some rounds, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Middle {
    pub(crate) median: f64,
    /// Distance of the quartiles over the median.
    pub(crate) spread: f64,
}

/// `None` of no rounds.
pub(crate) fn middle(rounds: impl IntoIterator<Item = f64>) -> Option<Middle> {
    let mut sorted: Vec<f64> = rounds.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    // In quarters of the way, rounded to the nearest round.
    let at = |quarters: usize| sorted[(last * quarters + 2) / 4];
    let median = at(2);
    Some(Middle { median, spread: (at(3) - at(1)) / median.abs().max(f64::MIN_POSITIVE) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(nanos: impl IntoIterator<Item = u64>) -> Latencies {
        let mut all = Latencies::new();
        nanos.into_iter().for_each(|nanos| all.record(nanos));
        all
    }

    #[test]
    fn percentiles_are_of_all_samples_to_three_digits() {
        let found = latencies((1..=10_000).map(|n| n * 1000)).percentiles();
        assert_eq!(found.samples, 10_000);
        for (value, wanted) in [
            (found.p50, 5_000_000_u64),
            (found.p90, 9_000_000),
            (found.p99, 9_900_000),
            (found.p999, 9_990_000),
            (found.max, 10_000_000),
        ] {
            let value = value.unwrap();
            assert!(value.abs_diff(wanted) * 1000 <= wanted, "{value} is not {wanted}");
        }
    }

    #[test]
    fn a_percentile_of_too_few_samples_is_none() {
        assert_eq!(latencies([]).percentiles().max, None);
        let few = latencies((1..=99).map(|n| n * 1000)).percentiles();
        assert!(few.p50.is_some() && few.p90.is_some() && few.max.is_some());
        assert_eq!((few.p99, few.p999), (None, None));
    }

    #[test]
    fn what_takes_for_ever_counts_as_the_longest() {
        let found = latencies([u64::MAX]).percentiles();
        assert!(found.max.unwrap() >= NANOS_MAX);
    }

    #[test]
    fn buckets_begin_at_their_edge_and_have_no_empty_ends() {
        let told = buckets([(999, 1), (1000, 2), (1499, 3), (3000, 4)].into_iter());
        let bucket = |from, to, count| Bucket { from, to: Some(to), count };
        assert_eq!(
            told,
            [
                bucket(0, 1000, 1),
                bucket(1000, 1500, 5),
                bucket(1500, 2000, 0),
                bucket(2000, 3000, 0),
                bucket(3000, 5000, 4)
            ]
        );
        let slow = buckets([(20_000_000_000, 1)].into_iter());
        assert_eq!(slow, [Bucket { from: 10_000_000_000, to: None, count: 1 }]);
        assert_eq!(buckets(std::iter::empty()), []);
        assert!(edges().is_sorted());
    }

    #[test]
    fn the_middle_of_rounds_is_no_round_that_lies_off() {
        let found = middle([1.0, 100.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(found, Middle { median: 3.0, spread: 2.0 / 3.0 });
        assert_eq!(middle([7.0]), Some(Middle { median: 7.0, spread: 0.0 }));
        assert_eq!(middle([]), None);
    }
}
