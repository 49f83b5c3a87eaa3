//! From use to a level, with a margin and a time: arithmetic over plain numbers.

use crate::limits::MemoryLimits;
use crate::planted::{self, Fault};
use crate::types::Level;
use std::time::Duration;

/// Use from which levels begin, and below which they end, in bytes. Memory has no reserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) soft: u64,
    pub(super) hard: u64,
    pub(super) clear: u64,
}

impl Lines {
    pub(super) fn of(limits: &MemoryLimits, limit: u64) -> Self {
        let clear =
            if planted::is(Fault::ClearLineSameAsSetLine) { 0 } else { limits.clear.of(limit) };
        Self { soft: limits.soft.of(limit), hard: limits.hard.of(limit), clear }
    }

    /// The level that `used` begins, whatever was before.
    pub(super) fn begun(&self, used: u64) -> Level {
        match used {
            _ if used >= self.hard => Level::Hard,
            _ if used >= self.soft => Level::Soft,
            _ => Level::Ok,
        }
    }

    /// How far `used` is from soft (0) to hard (1000).
    pub(super) fn permille(&self, used: u64) -> u16 {
        if used >= self.hard {
            return 1000;
        }
        let above = u128::from(used.saturating_sub(self.soft));
        let between = u128::from(self.hard.saturating_sub(self.soft)).max(1);
        u16::try_from(above * 1000 / between).unwrap_or(1000)
    }
}

/// A level, and since when use has been low enough to leave it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub(super) level: Level,
    below_hard: Option<Duration>,
    below_soft: Option<Duration>,
}

impl Held {
    /// The level at `used`. A level begins at once, and ends when use has been below its line by the margin for `hold`:
    /// memory given back is often taken again at once.
    pub(super) fn next(self, used: u64, lines: &Lines, now: Duration, hold: Duration) -> Self {
        let since = |before: Option<Duration>, line: u64| {
            (used < line.saturating_sub(lines.clear)).then(|| before.unwrap_or(now))
        };
        let below_hard = since(self.below_hard, lines.hard);
        let below_soft = since(self.below_soft, lines.soft);
        let left = |below: Option<Duration>| below.is_some_and(|at| now.saturating_sub(at) >= hold);
        let held = match self.level {
            Level::Reserve | Level::Hard if !left(below_hard) => Level::Hard,
            Level::Ok => Level::Ok,
            _ if !left(below_soft) => Level::Soft,
            _ => Level::Ok,
        };
        Self { level: held.max(lines.begun(used)), below_hard, below_soft }
    }
}

#[cfg(test)]
#[allow(non_snake_case, reason = "tests are named by the case that they hold")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOLD: Duration = Duration::from_secs(10);

    fn lines() -> Lines {
        Lines::of(&MemoryLimits::default(), 1000)
    }

    /// Uses, one a second, and the levels that they give.
    fn levels(uses: impl IntoIterator<Item = u64>) -> Vec<Level> {
        let mut held = Held::default();
        let mut now = Duration::ZERO;
        let step = |used| {
            held = held.next(used, &lines(), now, HOLD);
            now += Duration::from_secs(1);
            held.level
        };
        uses.into_iter().map(step).collect()
    }

    #[test]
    fn levels_begin_at_their_lines_at_once() {
        assert_eq!(lines(), Lines { soft: 800, hard: 900, clear: 50 });
        assert_eq!(
            levels([799, 800, 899, 900]),
            [Level::Ok, Level::Soft, Level::Soft, Level::Hard]
        );
    }

    #[test]
    fn a_level_ends_after_ten_seconds_below_the_margin() {
        let mut uses = vec![900];
        uses.extend([849; 11]);
        let given = levels(uses);
        assert_eq!(given[10], Level::Hard);
        assert_eq!(given[11], Level::Soft);
        // From hard to ok in one, if it was low enough for soft as long.
        let mut uses = vec![950];
        uses.extend([100; 11]);
        assert_eq!(levels(uses)[10..], [Level::Hard, Level::Ok]);
    }

    #[test]
    fn case_A13_use_about_one_line_changes_the_level_once() {
        let given = levels((0..100).map(|second| 899 + second % 2 * 2));
        assert_eq!(given.windows(2).filter(|pair| pair[0] != pair[1]).count(), 1);
        // And one peak in ten seconds starts the time anew.
        let given = levels((0..100).map(|second| if second % 9 == 0 { 810 } else { 100 }));
        assert!(given.iter().all(|level| *level == Level::Soft));
    }

    #[test]
    fn the_way_from_soft_to_hard_is_linear() {
        let at = |used| lines().permille(used);
        assert_eq!(
            [at(0), at(800), at(850), at(899), at(900), at(u64::MAX)],
            [0, 0, 500, 990, 1000, 1000]
        );
    }

    proptest! {
        #[test]
        fn low_use_for_long_enough_ends_every_state(uses in prop::collection::vec(0_u64..1200, 0..60)) {
            let mut all = uses;
            all.extend([749; 11]);
            prop_assert_eq!(levels(all).last().copied(), Some(Level::Ok));
        }

        #[test]
        fn a_level_is_never_less_than_what_use_begins(uses in prop::collection::vec(0_u64..1200, 1..60)) {
            for (level, used) in levels(uses.clone()).iter().zip(uses) {
                prop_assert!(*level >= lines().begun(used) && *level <= Level::Hard);
            }
        }
    }
}
