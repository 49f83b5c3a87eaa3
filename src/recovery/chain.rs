//! Whether one segment can be the one after another: no I/O.

use super::SegmentInfo;
use crate::format::RECORDS_POSITION;
use crate::format::header::Origin;
use crate::format::record::HEADER_LEN;

/// A field of a header that does not fit the segment before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// Where the field stands in the file.
    pub(crate) position: u64,
    /// Field, value and what was expected.
    pub(crate) detail: String,
}

/// The most records that a file of this size holds.
pub(crate) const fn records_max(capacity: u64) -> u64 {
    capacity.saturating_sub(RECORDS_POSITION) / HEADER_LEN as u64
}

/// Checks that `next` can be the segment after `this`, by their headers alone.
///
/// Whether `this` really reaches `next.previous_end` is checked when it is read, and by verify, not at open.
pub(crate) fn check(this: &SegmentInfo, next: &SegmentInfo) -> Result<(), Misfit> {
    let misfit = |position, field, found: u64, expected: String| {
        let detail = format!("{field} (offset {position}): found {found}, expected {expected}");
        Err(Misfit { position, detail })
    };
    let (base, end) = (this.base.0, next.previous_end.0);
    if next.base.0 <= base {
        return misfit(40, "base offset", next.base.0, format!("above {base}"));
    }
    // A segment ends where the next one says. Below its own base it would have a negative length; above what its size
    // holds, a file between the two is missing.
    if end < base {
        return misfit(48, "previous end", end, format!("at least {base}"));
    }
    let most = base.saturating_add(records_max(this.capacity));
    if end > most {
        return misfit(48, "previous end", end, format!("at most {most}, a segment is missing"));
    }
    // Only a repair may leave offsets out (I3). It also follows that a segment before another one holds something,
    // unless a repair found nothing left in it: with equal ends, rising bases leave no other way.
    if next.base.0 != end && next.origin != Origin::Repair {
        return misfit(
            48,
            "previous end",
            end,
            format!("{}, as no repair declares a gap", next.base),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::types::{Generation, Offset, SizeClass};

    fn segment(base: u64, previous_end: u64, origin: Origin) -> SegmentInfo {
        SegmentInfo {
            base: Offset(base),
            previous_end: Offset(previous_end),
            previous_millis: 0,
            generation: Generation::FIRST,
            class: SizeClass::Tiny,
            capacity: RECORDS_POSITION + 32 * 100,
            origin,
            path: "x".into(),
            failed: false,
        }
    }

    #[test]
    fn i3_only_a_repair_leaves_a_gap() {
        let this = segment(10, 10, Origin::Roll);
        for origin in [Origin::Roll, Origin::Heal, Origin::Repair] {
            for base in 0..130 {
                for end in 0..=base {
                    let fits = check(&this, &segment(base, end, origin)).is_ok();
                    let expected = base > 10
                        && (10..=110).contains(&end)
                        && (end == base || origin == Origin::Repair);
                    assert_eq!(fits, expected, "base {base}, previous end {end}, {origin:?}");
                }
            }
        }
    }
}
