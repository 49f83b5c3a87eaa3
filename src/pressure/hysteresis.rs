//! From a level and what is free to the next level.

use super::thresholds::Thresholds;
use crate::types::Level;

/// The level at `free`, when it was `previous` before.
///
/// A level begins at its line and ends only above line and margin, so that free space that moves about one line changes
/// nothing. Whatever it was before, enough free space gives [`Level::Ok`] at once: there is no state that one good sample
/// does not end.
pub(super) fn next(previous: Level, free: u64, lines: &Thresholds) -> Level {
    let holds = |level: &Level| {
        let margin = if *level <= previous { lines.clear } else { 0 };
        free <= lines.of(*level).saturating_add(margin)
    };
    [Level::Reserve, Level::Hard, Level::Soft].into_iter().find(holds).unwrap_or(Level::Ok)
}

/// How far `free` is between soft (0) and hard (1000).
pub(super) fn permille(free: u64, lines: &Thresholds) -> u16 {
    if free <= lines.hard {
        return 1000;
    }
    let between = u128::from(lines.soft.saturating_sub(lines.hard)).max(1);
    let below = u128::from(lines.soft.saturating_sub(free));
    u16::try_from(below * 1000 / between).unwrap_or(1000).min(1000)
}

#[cfg(test)]
#[allow(non_snake_case, reason = "tests are named by the case that they hold")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINES: Thresholds = Thresholds { soft: 240, hard: 120, reserve: 30, clear: 40 };

    #[test]
    fn a_level_begins_at_its_line_and_ends_above_the_margin() {
        assert_eq!(next(Level::Ok, 241, &LINES), Level::Ok);
        assert_eq!(next(Level::Ok, 240, &LINES), Level::Soft);
        assert_eq!(next(Level::Soft, 280, &LINES), Level::Soft);
        assert_eq!(next(Level::Soft, 281, &LINES), Level::Ok);
        assert_eq!(next(Level::Ok, 30, &LINES), Level::Reserve);
        assert_eq!(next(Level::Reserve, 71, &LINES), Level::Hard);
        assert_eq!(next(Level::Hard, 161, &LINES), Level::Soft);
        // Within the margin of a level above that it never had.
        assert_eq!(next(Level::Soft, 150, &LINES), Level::Soft);
    }

    #[test]
    fn case_A13_free_space_about_one_line_changes_the_level_once() {
        let mut level = Level::Soft;
        let mut changes = 0;
        for probe in 0..100 {
            let next = next(level, if probe % 2 == 0 { 119 } else { 121 }, &LINES);
            changes += u32::from(next != level);
            level = next;
        }
        assert_eq!((level, changes), (Level::Hard, 1));
    }

    #[test]
    fn the_way_from_soft_to_hard_is_linear() {
        let at = |free| permille(free, &LINES);
        assert_eq!(
            [at(u64::MAX), at(240), at(180), at(121), at(120), at(0)],
            [0, 0, 500, 991, 1000, 1000]
        );
        assert_eq!(permille(5, &Thresholds { soft: 5, hard: 5, reserve: 0, clear: 0 }), 1000);
    }

    fn lines() -> impl Strategy<Value = Thresholds> {
        prop::array::uniform3(0_u64..1000).prop_flat_map(|mut lines| {
            lines.sort_unstable();
            let [reserve, hard, soft] = lines;
            (0_u64..300).prop_map(move |clear| Thresholds { soft, hard, reserve, clear })
        })
    }

    proptest! {
        #[test]
        fn a_healthy_reading_ends_every_state_at_once(
            lines in lines(),
            frees in prop::collection::vec(0_u64..1500, 0..40),
        ) {
            let reached = frees.iter().fold(Level::Ok, |level, free| next(level, *free, &lines));
            prop_assert_eq!(next(reached, lines.soft + lines.clear + 1, &lines), Level::Ok);
        }

        #[test]
        fn less_free_space_never_lowers_a_level(lines in lines(), free in 0_u64..1500, less in 0_u64..1500) {
            for previous in Level::ALL {
                let less = free.saturating_sub(less);
                prop_assert!(next(previous, less, &lines) >= next(previous, free, &lines));
                // And a level that was reached stays at the same free space.
                let now = next(previous, free, &lines);
                prop_assert_eq!(next(now, free, &lines), now);
            }
        }
    }
}
