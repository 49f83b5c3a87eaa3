//! What admission reads at each append: one word.

use crate::planted::{self, Fault};
use crate::types::Level;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A sample that is older counts as soft at least.
pub const STALE: Duration = Duration::from_secs(5);

/// A level, and how far into it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gauge {
    /// The level.
    pub level: Level,
    /// How far from soft (0) to hard (1000); 0 at [`Level::Ok`], 1000 from [`Level::Hard`] on, and at a [`Level::Soft`]
    /// that stands for not knowing.
    pub permille: u16,
}

impl Gauge {
    /// What is taken for the level while nothing is known: the worse of soft and `known`, and of soft the far end.
    pub(super) fn unknown(known: Level) -> Self {
        Self { level: known.max(Level::Soft), permille: 1000 }
    }
}

/// Whether a sample that was begun then says nothing about now.
pub(super) fn is_old(begun: Duration, now: Duration) -> bool {
    is_stale(millis(begun), millis(now)) && !planted::is(Fault::OldSampleTakenForGood)
}

/// A gauge and the time of its sample in one word, so that no reader sees a mix of two: 2 bits of level, 10 of permille,
/// 52 of milliseconds (140,000 years), from which 0 says that there was no sample yet.
#[derive(Debug, Default)]
pub(super) struct GaugeCell(AtomicU64);

impl GaugeCell {
    pub(super) fn set(&self, gauge: Gauge, begun: Option<Duration>) {
        let millis =
            begun.map_or(0, |begun| u64::try_from(begun.as_millis()).unwrap_or(u64::MAX >> 12));
        let at = begun.map_or(0, |_| millis.saturating_add(1).min(u64::MAX >> 12));
        let level = match gauge.level {
            Level::Ok => 0,
            Level::Soft => 1,
            Level::Hard => 2,
            Level::Reserve => 3,
        };
        self.0.store(at << 12 | u64::from(gauge.permille.min(1000)) << 2 | level, Relaxed);
    }

    pub(super) fn get(&self, now: Duration) -> Gauge {
        self.at(millis(now))
    }

    /// The same with the time in milliseconds.
    fn at(&self, now_millis: u64) -> Gauge {
        let word = self.0.load(Relaxed);
        let level = LEVELS[(word & 3) as usize];
        if !is_fresh(word, now_millis) && !planted::is(Fault::OldSampleTakenForGood)
            || word >> 12 == 0
        {
            return Gauge::unknown(level);
        }
        #[allow(clippy::cast_possible_truncation, reason = "ten bits")]
        let permille = (word >> 2 & 1023) as u16;
        Gauge { level, permille }
    }

    /// Whether the level is ok, by a sample that is not old: asked at every append, so in a few instructions.
    #[inline]
    pub(super) fn is_ok(&self, now_millis: u64) -> bool {
        let word = self.0.load(Relaxed);
        word & 3 == 0 && is_fresh(word, now_millis)
    }
}

/// Of a word: whether there was a sample, and it is not old. A time that seems to go back is no age.
#[inline]
fn is_fresh(word: u64, now_millis: u64) -> bool {
    // One more than the time, which was noted in the same way.
    let begun = word >> 12;
    begun > 0 && !is_stale(begun, now_millis.wrapping_add(1))
}

/// The rule, for whoever reads the word and for whoever reads the books.
#[inline]
fn is_stale(begun_millis: u64, now_millis: u64) -> bool {
    now_millis > begun_millis.wrapping_add(STALE_MILLIS)
}

const LEVELS: [Level; 4] = Level::ALL;

#[allow(clippy::cast_possible_truncation, reason = "five seconds")]
const STALE_MILLIS: u64 = STALE.as_millis() as u64;

/// Whole milliseconds.
#[inline]
pub(crate) fn millis(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000).saturating_add(u64::from(time.subsec_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_goes_through_its_word_unchanged() {
        let cell = GaugeCell::default();
        for level in Level::ALL {
            for permille in [0, 1, 500, 1000] {
                for begun in [0, 1, 1_000_000_000_000] {
                    let begun = Duration::from_millis(begun);
                    let gauge = Gauge { level, permille };
                    cell.set(gauge, Some(begun));
                    assert_eq!(cell.get(begun + STALE), gauge);
                    // Time that seems to go back is no age.
                    assert_eq!(cell.get(Duration::ZERO), gauge);
                }
            }
        }
    }

    #[test]
    fn an_old_sample_and_none_count_as_soft_at_least() {
        let cell = GaugeCell::default();
        assert_eq!(cell.get(Duration::ZERO), Gauge { level: Level::Soft, permille: 1000 });
        let late = STALE + Duration::from_millis(1);
        for (level, seen) in [
            (Level::Ok, Level::Soft),
            (Level::Soft, Level::Soft),
            (Level::Hard, Level::Hard),
            (Level::Reserve, Level::Reserve),
        ] {
            cell.set(Gauge { level, permille: 0 }, Some(Duration::ZERO));
            assert_eq!(cell.get(late), Gauge { level: seen, permille: 1000 });
        }
    }
}
