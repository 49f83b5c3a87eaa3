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

/// A file that a batch lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Its place among the reserved ones; what is reserved from there on does not serve.
    pub(crate) at: usize,
    /// The class that the log is at.
    pub(crate) class: SizeClass,
    /// Bytes of records that it must hold at least.
    pub(crate) room: u64,
}

impl Missing {
    /// The next file, before there is a record for it: nobody waits.
    pub(crate) const fn early(class: SizeClass) -> Self {
        Self { at: 0, class, room: 0 }
    }

    pub(crate) const fn is_early(&self) -> bool {
        self.room == 0
    }
}

/// How records of some lengths lie in the last file and in reserved ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// They fit, and begin so many of the reserved files.
    Begins(usize),
    /// They do not.
    Lacks(Missing),
}

/// Lays out records of these lengths. `active` is the class of the last file and the bytes that it has left; `reserved`
/// the classes of the files that are ready, in order, and the bytes for records that each has.
///
/// A reserved file need not be of the class that the log is at: with a full disk it may be smaller, and after a batch
/// that was not staged larger.
pub(crate) fn fit(
    ladder: &Ladder,
    active: Option<(SizeClass, u64)>,
    reserved: impl IntoIterator<Item = (SizeClass, u64)>,
    lens: impl IntoIterator<Item = u64>,
) -> Fit {
    let mut reserved = reserved.into_iter();
    let mut begun = 0;
    let (mut class, mut left) = active.map_or((None, 0), |(class, left)| (Some(class), left));
    for len in lens {
        if len > left {
            match reserved.next() {
                Some((next, room)) if room >= len => (class, left) = (Some(next), room),
                _ => {
                    let class = ladder.next(class, len);
                    return Fit::Lacks(Missing { at: begun, class, room: len });
                }
            }
            begun += 1;
        }
        left -= len;
    }
    Fit::Begins(begun)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LADDER: Ladder =
        Ladder { sizes: ClassSizes { tiny: 16384, small: 65536, main: 524_288 }, small: false };

    /// The classes of the files that records need, if each is to be had as it is asked for.
    fn files_needed(
        ladder: &Ladder,
        active: Option<(SizeClass, u64)>,
        lens: impl IntoIterator<Item = u64> + Clone,
    ) -> Vec<SizeClass> {
        let mut had = Vec::new();
        loop {
            let reserved = had.iter().map(|&class| (class, ladder.sizes.room(class)));
            match fit(ladder, active, reserved, lens.clone()) {
                Fit::Begins(begun) => {
                    assert_eq!(begun, had.len());
                    return had;
                }
                Fit::Lacks(missing) => {
                    assert_eq!(missing.at, had.len());
                    had.push(missing.class);
                }
            }
        }
    }

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

    #[test]
    fn a_reserved_file_of_another_class_serves_if_it_holds_the_record() {
        let tiny = (SizeClass::Tiny, 8192);
        assert_eq!(fit(&LADDER, Some((SizeClass::Main, 0)), [tiny], [8192]), Fit::Begins(1));
        let lacks = Missing { at: 0, class: SizeClass::Main, room: 8200 };
        assert_eq!(fit(&LADDER, Some((SizeClass::Main, 0)), [tiny], [8200]), Fit::Lacks(lacks));
        // Behind the small file that it got, a log begins its way up again.
        let lacks = Missing { at: 1, class: SizeClass::Small, room: 8 };
        assert_eq!(fit(&LADDER, Some((SizeClass::Main, 0)), [tiny], [8192, 8]), Fit::Lacks(lacks));
    }
}
