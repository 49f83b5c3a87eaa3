//! Where the lines are, from the limits and the size of a device: arithmetic over plain numbers.

use crate::limits::{Limits, Threshold};
use crate::planted::{self, Fault};
use crate::types::{Fraction, Level};

/// What is free (bytes or inodes) is held against these: a level begins when it is no more than the level's line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thresholds {
    /// The line of [`Level::Soft`].
    pub soft: u64,
    /// The line of [`Level::Hard`].
    pub hard: u64,
    /// The line of [`Level::Reserve`].
    pub reserve: u64,
    /// A level ends when what is free is above its line by more than this.
    pub clear: u64,
}

/// The most of a device that each floor counts for: a small one would else be short for ever.
const FLOOR_CAPS: [Fraction; 3] =
    [Fraction::percent(40), Fraction::percent(20), Fraction::percent(5)];

impl Thresholds {
    /// The lines for free bytes of a device of which `total` bytes can be had, see [`Space::attainable`]. They follow it when
    /// it is resized.
    ///
    /// [`Space::attainable`]: crate::fs::Space::attainable
    #[must_use]
    pub fn of_bytes(limits: &Limits, total: u64, main_file: u64) -> Self {
        let disk = &limits.disk;
        let [soft, hard, reserve] = FLOOR_CAPS;
        let line = |Threshold { share, floor }, cap: Fraction| {
            share.of(total).max(floor.0.min(cap.of(total)))
        };
        let clear = disk.clear.of(total).max(main_file.saturating_mul(2));
        Self {
            soft: line(disk.soft, soft),
            hard: line(disk.hard, hard),
            reserve: line(disk.reserve, reserve),
            clear,
        }
        .that_can_clear(total)
    }

    /// The lines for free inodes; none where the file system counts none.
    #[must_use]
    pub fn of_inodes(limits: &Limits, inodes: u64) -> Option<Self> {
        let lines = Self {
            soft: limits.inodes.soft.of(inodes),
            hard: limits.inodes.hard.of(inodes),
            reserve: limits.inodes.reserve.of(inodes),
            clear: limits.disk.clear.of(inodes),
        };
        (inodes > 0).then(|| lines.that_can_clear(inodes))
    }

    /// Takes at most a quarter of what is above soft as the margin: two main files may be more than a device, made smaller
    /// or given larger files than fit it, can ever have free, and then no level would end.
    fn that_can_clear(self, total: u64) -> Self {
        if planted::is(Fault::ClearLineSameAsSetLine) {
            return Self { clear: 0, ..self };
        }
        Self { clear: self.clear.min(total.saturating_sub(self.soft) / 4), ..self }
    }

    /// The line of a level; 0 for [`Level::Ok`], which needs nothing free.
    #[must_use]
    pub const fn of(&self, level: Level) -> u64 {
        match level {
            Level::Ok => 0,
            Level::Soft => self.soft,
            Level::Hard => self.hard,
            Level::Reserve => self.reserve,
        }
    }
}

#[cfg(test)]
#[allow(non_snake_case, reason = "tests are named by the case that they hold")]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn lines(total: u64, main_file: u64) -> Thresholds {
        Thresholds::of_bytes(&Limits::default(), total, main_file)
    }

    #[test]
    fn the_larger_of_share_and_floor_counts() {
        // A large device: shares.
        let large = lines(1000 * GIB, 64 * MIB);
        assert_eq!([large.soft, large.hard, large.reserve], [100 * GIB, 50 * GIB, 10 * GIB]);
        assert_eq!(large.clear, 10 * GIB);
        // A middling one: floors.
        let middling = lines(20 * GIB, 64 * MIB);
        assert_eq!([middling.soft, middling.hard, middling.reserve], [4 * GIB, 2 * GIB, 512 * MIB]);
    }

    #[test]
    fn floors_count_for_two_fifths_a_fifth_and_a_twentieth_at_most() {
        let small = lines(100 * MIB, MIB);
        assert_eq!([small.soft, small.hard, small.reserve], [40 * MIB, 20 * MIB, 5 * MIB]);
        assert_eq!(small.clear, 2 * MIB);
    }

    #[test]
    fn two_main_files_that_no_device_can_have_free_do_not_keep_a_level_for_ever() {
        for total in [0, 1, 3, 100, 64 * MIB, GIB, 1 << 60, u64::MAX] {
            for main_file in [0, 1, 64 * MIB, u64::MAX] {
                let lines = lines(total, main_file);
                assert!(lines.soft + lines.clear <= total, "{total} {main_file}: {lines:?}");
                assert!(lines.soft >= lines.hard && lines.hard >= lines.reserve);
            }
        }
        assert_eq!(lines(100 * MIB, 64 * MIB).clear, 15 * MIB);
    }

    #[test]
    fn case_A8_lines_follow_a_resized_device() {
        let small = lines(64 * MIB, MIB);
        assert!(lines(256 * MIB, MIB).hard.abs_diff(small.hard * 4) < 4);
    }

    #[test]
    fn inodes_have_lines_of_their_own_and_none_where_there_are_none() {
        let limits = Limits::default();
        assert_eq!(Thresholds::of_inodes(&limits, 0), None);
        let lines = Thresholds::of_inodes(&limits, 200).unwrap();
        assert_eq!(lines, Thresholds { soft: 20, hard: 10, reserve: 2, clear: 2 });
    }
}
