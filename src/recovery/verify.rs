//! Checks every record of one segment. Reads only.

use super::SegmentInfo;
use super::error::RecoverError;
use super::look::tail_damage;
use super::scan;
use super::tail::{self, TailFacts, Walk};
use crate::error::Damage;
use crate::fs::FileSystem;
use crate::types::LogId;

/// What a check of a whole segment found.
#[derive(Clone, Debug)]
pub struct SegmentCheck {
    /// The walk from the first record to the end.
    pub tail: TailFacts,
    /// Damage to bytes that were durable.
    pub damage: Option<Damage>,
}

/// Walks `segment` from its first record. If it is sealed, it must reach exactly the *previous end* of `next`; what
/// stands behind that is of a branch that was cut off and is not looked at. If it is the last, what stops the walk must
/// be the end and no damage, as at recovery. Blocks on reading the whole segment.
///
/// # Errors
/// [`RecoverError`] if the file cannot be read; [`RecoverError::is_gone`] tells that a live log has freed it.
pub fn check_segment(
    fs: &dyn FileSystem,
    log: LogId,
    segment: &SegmentInfo,
    next: Option<&SegmentInfo>,
) -> Result<SegmentCheck, RecoverError> {
    let path = &segment.path;
    let file = fs.open_read(path).map_err(RecoverError::io("opening", path, 0))?;
    let walk = Walk { whole: true, until: next.map(|next| next.previous_end) };
    let tail = tail::scan(&*file, segment, log, walk)?;
    let damage = tail_damage(segment, &tail);
    if damage.is_some() {
        // A reader that meets another use of the file has no damage before it: the log has freed it meanwhile.
        let header = scan::read_header(fs, path, &mut 0)?;
        if header.is_ok_and(|header| header.generation != segment.generation) {
            return Err(RecoverError::Gone { path: path.clone() });
        }
    }
    Ok(SegmentCheck { tail, damage })
}
