//! How many spares a device may hold, and which of them: arithmetic over plain numbers, so that every case can be tried.

use super::class::ByClass;
use crate::format::layout::ClassSizes;
use crate::limits::PoolLimits;
use crate::types::SizeClass;

/// What spares may take of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Bytes of spares that may be released at any time.
    pub budget: u64,
    /// Bytes in tiny files that are kept back beside them.
    pub kept_back: u64,
}

impl PoolLimits {
    /// What a device of `total` bytes may hold.
    #[must_use]
    pub fn allowance(&self, total: u64) -> Allowance {
        Allowance {
            budget: self.budget.of(total).min(self.budget_cap.0),
            kept_back: self.kept_back_share.of(total).min(self.kept_back.0),
        }
    }
}

/// One data directory's spares, and what its device leaves for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    pub(crate) sizes: ClassSizes,
    /// All spares, those not yet stamped and those being made included.
    pub(crate) held: ByClass<u64>,
    /// How many of each class the worker is to have ready.
    pub(crate) wanted: ByClass<u64>,
    /// Tiny files that are kept back first.
    pub(crate) kept_back: u64,
    /// Bytes of the device's budget that no other directory's spares take.
    pub(crate) budget: u64,
}

impl Holding {
    /// Files of a class that count against the budget: the first tiny ones are kept back and do not.
    pub(crate) fn counted(&self, class: SizeClass) -> u64 {
        let held = *self.held.of(class);
        if class == SizeClass::Tiny { held.saturating_sub(self.kept_back) } else { held }
    }

    /// Bytes that count against the budget.
    pub(crate) fn counted_bytes(&self) -> u64 {
        let each = SizeClass::ALL
            .iter()
            .map(|&class| self.counted(class).saturating_mul(self.sizes.of(class)));
        each.fold(0, u64::saturating_add)
    }

    /// Tiny files missing from those that are kept back.
    pub(crate) fn kept_back_missing(&self) -> u64 {
        self.kept_back.saturating_sub(self.held.tiny)
    }

    /// Whether one more file of `class` is kept.
    ///
    /// Room is left for the smaller classes' share: a few large files would else take all of the budget, and every new
    /// log, which begins with a tiny file, would wait for one to be made.
    pub(crate) fn keeps(&self, class: SizeClass) -> bool {
        if class == SizeClass::Tiny && self.kept_back_missing() > 0 {
            return true;
        }
        let smaller = SizeClass::ALL.iter().filter(|&&smaller| smaller < class);
        let owed: u64 = smaller
            .map(|&smaller| {
                let missing = self.wanted.of(smaller).saturating_sub(self.counted(smaller));
                missing.saturating_mul(self.sizes.of(smaller))
            })
            .fold(0, u64::saturating_add);
        let needed = self.counted_bytes().saturating_add(self.sizes.of(class)).saturating_add(owed);
        needed <= self.budget
    }

    /// The class of which a file is deleted, as there are more than the budget allows: the largest first.
    pub(crate) fn over(&self) -> Option<SizeClass> {
        let over = self.counted_bytes() > self.budget;
        SizeClass::ALL.into_iter().rev().find(|&class| over && self.counted(class) > 0)
    }

    /// The class of which the worker makes a file ahead: what is kept back first, then the smallest.
    pub(crate) fn next_to_make(&self) -> Option<SizeClass> {
        if self.kept_back_missing() > 0 {
            return Some(SizeClass::Tiny);
        }
        let short = |class: &SizeClass| {
            self.counted(*class) < *self.wanted.of(*class) && self.keeps(*class)
        };
        SizeClass::ALL.into_iter().find(short)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: ClassSizes = ClassSizes { tiny: 100, small: 1_000, main: 10_000 };

    fn holding(held: [u64; 3], budget: u64) -> Holding {
        let [tiny, small, main] = held;
        Holding {
            sizes: SIZES,
            held: ByClass { tiny, small, main },
            wanted: ByClass { tiny: 1, small: 1, main: 1 },
            kept_back: 4,
            budget,
        }
    }

    #[test]
    fn the_smaller_of_share_and_cap_counts() {
        let options = PoolLimits::default();
        let of = |total| options.allowance(total);
        assert_eq!(of(100 << 30), Allowance { budget: 1 << 30, kept_back: 16 << 20 });
        assert_eq!(of(1 << 30).budget, (1 << 30) / 50);
        assert_eq!(of(64 << 20).kept_back, (64 << 20) / 20);
        assert_eq!(of(0), Allowance::default());
    }

    #[test]
    fn kept_back_files_are_outside_the_budget_and_filled_first() {
        let none = holding([0, 0, 0], 0);
        assert!(none.keeps(SizeClass::Tiny), "kept back whatever the budget is");
        assert!(!none.keeps(SizeClass::Main));
        assert_eq!(none.next_to_make(), Some(SizeClass::Tiny));
        let full = holding([4, 0, 0], 0);
        assert_eq!(full.counted_bytes(), 0);
        assert!(!full.keeps(SizeClass::Tiny));
        assert_eq!((full.next_to_make(), full.over()), (None, None));
    }

    #[test]
    fn large_files_leave_room_for_the_share_of_small_ones() {
        // 10,000 + 1,000 + 100 are just enough for one of each.
        assert!(holding([4, 0, 0], 11_100).keeps(SizeClass::Main));
        assert!(!holding([4, 0, 0], 11_099).keeps(SizeClass::Main));
        assert!(holding([4, 0, 1], 11_100).keeps(SizeClass::Tiny));
        assert!(holding([5, 1, 0], 11_100).keeps(SizeClass::Main));
        assert!(!holding([5, 1, 1], 11_100).keeps(SizeClass::Tiny));
    }

    #[test]
    fn above_the_budget_the_largest_goes_first_and_never_what_is_kept_back() {
        assert_eq!(holding([5, 1, 1], 11_100).over(), None);
        assert_eq!(holding([5, 1, 1], 11_099).over(), Some(SizeClass::Main));
        assert_eq!(holding([5, 1, 0], 0).over(), Some(SizeClass::Small));
        assert_eq!(holding([5, 0, 0], 0).over(), Some(SizeClass::Tiny));
        assert_eq!(holding([4, 0, 0], 0).over(), None);
    }

    #[test]
    fn as_many_as_can_be_is_no_more_than_the_budget_allows() {
        let mut all = holding([4, 0, 0], 11_100);
        all.wanted = ByClass { tiny: u64::MAX, small: u64::MAX, main: u64::MAX };
        assert!(all.keeps(SizeClass::Tiny));
        assert!(!all.keeps(SizeClass::Small) && !all.keeps(SizeClass::Main));
        all.held.tiny += 111;
        assert_eq!((all.next_to_make(), all.over()), (None, None));
    }

    #[test]
    fn releasing_what_is_over_and_keeping_what_fits_never_contradict() {
        for budget in (0..30_000).step_by(50) {
            for held in 0..512 {
                let now = holding([held % 8, held / 8 % 8, held / 64], budget);
                for class in SizeClass::ALL {
                    let mut after = now;
                    *after.held.of_mut(class) += 1;
                    assert!(!now.keeps(class) || now.over().is_some() || after.over().is_none());
                }
                if let Some(class) = now.next_to_make() {
                    assert!(now.keeps(class));
                }
            }
        }
    }
}
