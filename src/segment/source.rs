//! Where a log gets its files from, and where it gives them back.

use crate::format::layout::ClassSizes;
use crate::fs::File;
use crate::permit::Limited;
use crate::types::{Generation, SizeClass, WriteClass};
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that belongs to no log. Its durable header is a spare header with `generation`, and nobody else has it.
#[derive(Debug)]
pub struct Spare {
    /// Where it is: in the directory of spares, or beside the log's segments, where it was made there, as nothing can be
    /// renamed from the other, or was moved there ahead, which is durable then in both directories.
    pub path: PathBuf,
    /// Open for reading and writing.
    pub file: Arc<dyn File>,
    /// The generation that its next header and its records carry.
    pub generation: Generation,
    /// Its size class.
    pub class: SizeClass,
    /// Its size in bytes.
    pub capacity: u64,
    /// It is of those that are kept back: only writes for which [`WriteClass::may_use_kept_back`] holds may begin it.
    pub kept_back: bool,
    /// What it was taken for, or what begins it.
    pub purpose: WriteClass,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Want<'a> {
    /// The class that the log is at. A spare of another may be given when there is none of it and no room for one.
    pub class: SizeClass,
    /// Bytes of records that it must hold at least.
    pub room: u64,
    /// What is going to be written.
    pub purpose: WriteClass,
    /// The log's directory.
    pub dir: &'a Path,
}

/// Why no file is to be had.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// One would have to be made, and would leave too little of the disk for a write like this.
    #[error(transparent)]
    Limited(#[from] Limited),
    /// `ENOSPC` or `EDQUOT` when there is no room for one; any other error of making one.
    #[error(transparent)]
    Disk(#[from] io::Error),
}

impl From<TakeError> for io::Error {
    /// For whoever no level refuses, what heals and recovers among them: it could only be that there is no room.
    fn from(error: TakeError) -> Self {
        match error {
            TakeError::Disk(error) => error,
            TakeError::Limited(_) => Self::from_raw_os_error(libc::ENOSPC),
        }
    }
}

/// What may become of a file that a log gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// It may serve again, with the next generation.
    Allowed,
    /// A write or a sync of it failed, its header cannot be read, or a reader still has it open: it must be deleted.
    Never,
}

/// A file that has left its log's directory, but perhaps not durably. Nothing may change in it before both its directories
/// were synced, so it goes to [`SegmentSource::given_up`] only then, and to [`SegmentSource::lost`] where one of the syncs
/// failed.
#[derive(Debug)]
#[must_use = "a file that is given up serves again only when the source is told that its old name is gone for good"]
pub struct GivenUp {
    /// Where it is now, and its class; `None` if it was deleted.
    pub kept: Option<(PathBuf, SizeClass)>,
}

impl GivenUp {
    /// It was deleted.
    pub const DELETED: Self = Self { kept: None };
}

/// The node's store of files, as a log sees it. Calls block on the disk.
pub trait SegmentSource: Debug + Send + Sync {
    /// The sizes of the classes.
    fn sizes(&self) -> ClassSizes;

    /// The directory that spares are renamed from; whoever renames one out syncs it.
    fn spares_dir(&self) -> &Path;

    /// A spare, whose generation is durable.
    ///
    /// # Errors
    /// [`TakeError`]. Nothing is left behind.
    fn take(&self, want: &Want<'_>) -> Result<Spare, TakeError>;

    /// Deletes one spare, so that something else on the device finds room; for who may have those that are kept back, also
    /// one of them. Gives whether there was one.
    fn make_room(&self, purpose: WriteClass) -> bool;

    /// Takes back a spare that was not written, from wherever its path says that it is.
    fn give_back(&self, spare: Spare);

    /// A rename out of the directory of spares into the log's directory `dir` answered `EXDEV`: from now on files for it
    /// are made there.
    fn cannot_rename_into(&self, dir: &Path);

    /// Takes a file out of a log's directory: after this its old name is gone there. The caller syncs the directory of
    /// spares and that one, and then calls [`SegmentSource::given_up`]. Unless with [`Reuse::Never`], no reader has the
    /// file open any more.
    ///
    /// # Errors
    /// Of the removal; then the file may still have its name.
    fn give_up(&self, path: &Path, reuse: Reuse) -> io::Result<GivenUp>;

    /// The directory of spares and the one that the file came from were synced.
    fn given_up(&self, file: GivenUp);

    /// One of those syncs failed: the file is deleted.
    fn lost(&self, file: GivenUp);
}
