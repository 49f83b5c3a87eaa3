//! What the pool has done, in numbers.

use super::shelf::Shelf;
use crate::types::SizeClass;
use std::path::PathBuf;

/// Counted since the node was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) taken_reused: u64,
    pub(super) taken_prepared: u64,
    pub(super) taken_fresh: u64,
    pub(super) taken_kept_back: u64,
    pub(super) given_up: u64,
    pub(super) given_back: u64,
    pub(super) stamped: u64,
    pub(super) stamped_again: u64,
    pub(super) made: u64,
    pub(super) deleted_over_budget: u64,
    pub(super) deleted_released: u64,
    pub(super) deleted_last_generation: u64,
    pub(super) deleted_unfit: u64,
    pub(super) deleted_not_renamed: u64,
}

/// The spares of one data directory, and what became of files since the node was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// The data directory's `spares`.
    pub dir: PathBuf,
    /// The device that it is on (`st_dev`).
    pub device: u64,
    /// Spares that a log can take now, by class: tiny, small, main.
    pub ready: [u64; 3],
    /// Files that are still to be stamped or finished, by class.
    pub coming: [u64; 3],
    /// Bytes of spares that count against the budget and can be released.
    pub bytes: u64,
    /// The budget of the device, which all data directories on it share.
    pub budget: u64,
    /// Bytes in tiny files that are kept back.
    pub kept_back_bytes: u64,
    /// Bytes that are to be kept back and are missing.
    pub kept_back_missing: u64,
    /// Whether space that a file has can be counted on when it is overwritten; `None` until the worker has tried. Where it
    /// cannot, spares are no reserve, and nothing is kept back.
    pub reserves: Option<bool>,
    /// Files that logs took, used before.
    pub taken_reused: u64,
    /// Files that logs took, made ahead.
    pub taken_prepared: u64,
    /// Files that logs took, made when they were asked for.
    pub taken_fresh: u64,
    /// Files that logs took of those that are kept back.
    pub taken_kept_back: u64,
    /// Files that logs gave up and that serve again.
    pub given_up: u64,
    /// Files that logs had taken and did not use.
    pub given_back: u64,
    /// Headers written for the next use, those at the start included.
    pub stamped: u64,
    /// Of those, spares that got another generation before they could be used: those of an earlier life, and what recovery
    /// found being taken.
    pub stamped_again: u64,
    /// Files made ahead.
    pub made: u64,
    /// Files deleted because the budget was full.
    pub deleted_over_budget: u64,
    /// Files deleted to give their space back.
    pub deleted_released: u64,
    /// Files deleted because they were used as often as the format can tell apart.
    pub deleted_last_generation: u64,
    /// Files deleted because a write or sync of them had failed, their header was not valid, or a reader still had them
    /// open.
    pub deleted_unfit: u64,
    /// Files deleted because they could not be renamed: no space for the name, or another mount.
    pub deleted_not_renamed: u64,
}

impl Shelf {
    /// What it holds and has done.
    pub(super) fn stats(&self) -> PoolStats {
        self.with(|state| {
            let (holding, allowance) = (state.holding(self.at), state.allowance());
            let book = &state.books[self.at];
            let each = |of: &dyn Fn(SizeClass) -> u64| SizeClass::ALL.map(of);
            let kept_back = holding.held.tiny.min(holding.kept_back);
            let counters = book.counters;
            PoolStats {
                dir: self.dir.clone(),
                device: self.device.id,
                ready: each(&|class| book.ready.of(class).len() as u64),
                coming: each(&|class| holding.held.of(class) - book.ready.of(class).len() as u64),
                bytes: holding.counted_bytes(),
                budget: allowance.budget,
                kept_back_bytes: kept_back * self.sizes.tiny,
                kept_back_missing: holding.kept_back_missing() * self.sizes.tiny,
                reserves: state.reserves,
                taken_reused: counters.taken_reused,
                taken_prepared: counters.taken_prepared,
                taken_fresh: counters.taken_fresh,
                taken_kept_back: counters.taken_kept_back,
                given_up: counters.given_up,
                given_back: counters.given_back,
                stamped: counters.stamped,
                stamped_again: counters.stamped_again,
                made: counters.made,
                deleted_over_budget: counters.deleted_over_budget,
                deleted_released: counters.deleted_released,
                deleted_last_generation: counters.deleted_last_generation,
                deleted_unfit: counters.deleted_unfit,
                deleted_not_renamed: counters.deleted_not_renamed,
            }
        })
    }
}
