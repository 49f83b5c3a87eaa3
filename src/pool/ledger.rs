//! Who counts the free space of devices, as the pool sees it: asked before the disk is asked for space, and told what
//! became of it.

use crate::permit::Limited;
use crate::types::WriteClass;
use std::fmt::Debug;
use std::io;

/// What a deleted file was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freed {
    /// A spare, whose bytes counted as free already.
    Spare,
    /// Any other.
    File,
}

/// See the top of the file. Devices are named by `st_dev`. No call blocks on the disk.
pub(crate) trait Ledger: Debug + Send + Sync {
    /// A file of `bytes` is to be made for a write of `class`. If it may be, it counts as taken until [`Ledger::ended`].
    ///
    /// # Errors
    /// The refusal: with the file the device would come to a level at which such a write is refused, so one roll would jump
    /// a level.
    fn begin(&self, device: u64, class: WriteClass, bytes: u64) -> Result<(), Limited>;

    /// Somebody was refused a file for a write of `class`: not one that was only to be there early.
    fn ran_short(&self, device: u64, class: WriteClass, bytes: u64);

    /// All of its space is taken now, if not written: samples show it from here on.
    fn taken(&self, device: u64, bytes: u64);

    /// It was made, or it was not; `taken` says whether that was told before. Where it was, and the file was not made after
    /// all, it was told as freed, too.
    fn ended(&self, device: u64, bytes: u64, taken: bool, made: Result<(), &io::Error>);

    /// Whether the device is so short of space that it has none for spares.
    fn is_short(&self, device: u64) -> bool;

    /// A file of `bytes` is about to be deleted. Told before it is: a sample that shows it first would count it twice.
    fn freed(&self, device: u64, bytes: u64, what: Freed);
}
