//! Which files a batch needs: pure arithmetic, so that every case can be tried.

use crate::format::layout::ClassSizes;
use crate::types::SizeClass;

/// What a log may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ladder {
    pub(crate) sizes: ClassSizes,
    /// The log stops at small segments.
    pub(crate) small: bool,
}

impl Ladder {
    fn largest(&self) -> SizeClass {
        if self.small { SizeClass::Small } else { SizeClass::Main }
    }

    /// The most that one record may take.
    pub(crate) fn room_max(&self) -> u64 {
        self.sizes.room(self.largest())
    }

    /// The class of the file that comes after one of `last`, and that holds a record of `len` bytes.
    pub(crate) fn next(&self, last: Option<SizeClass>, len: u64) -> SizeClass {
        let mut class = last.map_or(SizeClass::Tiny, SizeClass::up).min(self.largest());
        while self.sizes.room(class) < len && class < self.largest() {
            class = class.up();
        }
        class
    }
}

/// The classes of the new files that records of these lengths need, in order. `active` is the class of the last file and
/// the bytes that it has left.
pub(crate) fn files_needed(
    ladder: &Ladder,
    active: Option<(SizeClass, u64)>,
    lens: impl IntoIterator<Item = u64>,
) -> Vec<SizeClass> {
    let mut needed = Vec::new();
    let (mut class, mut left) = active.map_or((None, 0), |(class, left)| (Some(class), left));
    for len in lens {
        if len > left {
            let next = ladder.next(class, len);
            needed.push(next);
            (class, left) = (Some(next), ladder.sizes.room(next));
        }
        left -= len;
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;

    const LADDER: Ladder =
        Ladder { sizes: ClassSizes { tiny: 16384, small: 65536, main: 524_288 }, small: false };

    #[test]
    fn a_log_starts_tiny_then_small_then_main() {
        let fill = [8192, 57344, 516_096, 516_096];
        let all = [SizeClass::Tiny, SizeClass::Small, SizeClass::Main, SizeClass::Main];
        assert_eq!(files_needed(&LADDER, None, fill), all);
    }

    #[test]
    fn a_record_that_does_not_fit_takes_the_class_that_holds_it() {
        assert_eq!(files_needed(&LADDER, None, [8200]), [SizeClass::Small]);
        assert_eq!(files_needed(&LADDER, None, [57352]), [SizeClass::Main]);
        assert_eq!(files_needed(&LADDER, Some((SizeClass::Tiny, 8)), [8]), []);
    }

    #[test]
    fn a_small_log_stops_at_small() {
        let small = Ladder { small: true, ..LADDER };
        assert_eq!(small.room_max(), 57344);
        assert_eq!(
            files_needed(&small, Some((SizeClass::Small, 0)), [57344, 8]),
            [SizeClass::Small; 2]
        );
    }

    #[test]
    fn the_rest_of_a_file_is_used_before_the_next_is_taken() {
        assert_eq!(
            files_needed(&LADDER, Some((SizeClass::Main, 64)), [32, 32, 32]),
            [SizeClass::Main]
        );
    }
}
