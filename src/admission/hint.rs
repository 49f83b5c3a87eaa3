//! How long a refused caller is asked to wait: pure arithmetic.

use std::time::Duration;

/// The bounds of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) first: Duration,
    pub(super) max: Duration,
}

/// The hint without its spread, when the level that refuses has lasted for `lasted`: as if somebody had waited `first`,
/// then twice as long, and so on, and had been refused each time.
pub(super) fn base(bounds: Bounds, lasted: Duration) -> Duration {
    let Bounds { first, max } = bounds;
    let (mut hint, mut waited) = (first, Duration::ZERO);
    // Ends: each turn doubles the hint, and one of nothing is never doubled.
    while !first.is_zero() && hint < max && waited.saturating_add(hint) <= lasted {
        waited = waited.saturating_add(hint);
        hint = hint.saturating_mul(2);
    }
    hint.min(max)
}

/// The hint of the refusal with this number: up to a quarter longer, so that those who are refused in one moment do not
/// come back in one. Two that follow each other lie far apart: the numbers go round the quarter by the golden ratio, which
/// fills it evenly however many there are (Knuth, The Art of Computer Programming 3, 6.4).
pub(super) fn spread(base: Duration, number: u64) -> Duration {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let part = number.wrapping_mul(GOLDEN) >> 40;
    let nanos = (base.as_nanos() / 4 * u128::from(part)) >> 24;
    base.saturating_add(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { first: Duration::from_secs(1), max: Duration::from_secs(30) };

    fn secs(lasted: u64) -> u64 {
        base(BOUNDS, Duration::from_secs(lasted)).as_secs()
    }

    #[test]
    fn the_hint_starts_at_a_second_and_doubles_while_the_level_lasts() {
        assert_eq!([0, 1, 2, 3, 6, 7, 15, 31, 3_600].map(secs), [1, 2, 2, 4, 4, 8, 16, 30, 30]);
        assert_eq!(base(BOUNDS, Duration::MAX), BOUNDS.max);
    }

    #[test]
    fn bounds_that_make_no_sense_still_end() {
        let nothing = Bounds { first: Duration::ZERO, max: Duration::from_secs(1) };
        assert_eq!(base(nothing, Duration::MAX), Duration::ZERO);
        let turned = Bounds { first: Duration::from_secs(9), max: Duration::from_secs(3) };
        assert_eq!(base(turned, Duration::ZERO), Duration::from_secs(3));
    }

    /// Two hundred that are refused in one moment must not come back in one.
    #[test]
    fn two_hundred_refused_at_once_come_back_spread_over_a_quarter() {
        let second = Duration::from_secs(1);
        let mut hints: Vec<_> = (1_000..1_200).map(|number| spread(second, number)).collect();
        assert!(hints.iter().all(|hint| (second..second * 5 / 4).contains(hint)));
        hints.sort();
        // In each 2.5 ms of the quarter at most four of them: two, if all lay evenly.
        for at in 0..100 {
            let from = second + Duration::from_micros(2_500) * at;
            let until = from + Duration::from_micros(2_500);
            let there = hints.iter().filter(|hint| (from..until).contains(hint)).count();
            assert!((1..=4).contains(&there), "{there} of 200 at {from:?}");
        }
    }
}
