//! Where a log gets its files from, and where it gives them back.

use crate::format::layout::ClassSizes;
use crate::fs::File;
use crate::types::{Generation, SizeClass, WriteClass};
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that belongs to no log. Its durable header is a spare header with `generation`, and nobody else has it.
#[derive(Debug)]
pub struct Spare {
    /// Where it is, in the directory of spares.
    pub path: PathBuf,
    /// Open for reading and writing.
    pub file: Arc<dyn File>,
    /// The generation that its next header and its records carry.
    pub generation: Generation,
    /// Its size class.
    pub class: SizeClass,
    /// Its size in bytes.
    pub capacity: u64,
}

/// What may become of a file that a log gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It may serve again, with the next generation.
    Allowed,
    /// A write or a sync of it failed, or its header cannot be read: it must be deleted.
    Never,
}

/// The node's store of files, as a log sees it. Calls block on the disk.
pub trait SegmentSource: Debug + Send + Sync {
    /// The sizes of the classes.
    fn sizes(&self) -> ClassSizes;

    /// The directory that spares are renamed from; whoever renames one out syncs it.
    fn spares_dir(&self) -> &Path;

    /// A spare of `class`.
    ///
    /// # Errors
    /// `ENOSPC` or `EDQUOT` when there is no room for one; any other error of making one. Nothing is left behind.
    fn take(&self, class: SizeClass, purpose: WriteClass) -> io::Result<Spare>;

    /// Takes back a spare that was not used and not renamed.
    fn give_back(&self, spare: Spare);

    /// Takes a file out of a log's directory: after this its old name is gone there, and the caller syncs the directory.
    /// No reader has the file open any more.
    ///
    /// # Errors
    /// Of the rename or removal; then the file may still have its name.
    fn give_up(&self, path: &Path, reuse: Reuse) -> io::Result<()>;
}
