//! What can go wrong at one operation, and when.

use super::choose::{AllPersisted, Chooser, NothingPersisted, Seeded};
use std::path::{Path, PathBuf};

/// The kinds of operation; every call of [`crate::fs::FileSystem`] and [`crate::fs::File`] is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "named after the calls")]
#[non_exhaustive]
pub enum OpKind {
    Open,
    Create,
    CreateDir,
    Rename,
    RemoveFile,
    RemoveDir,
    List,
    /// `metadata` of a path and `len` of a file.
    Metadata,
    SyncDir,
    Space,
    Lock,
    Random,
    Read,
    Write,
    Sync,
    Allocate,
    SetLen,
    Place,
    NoCopyOnWrite,
}

impl OpKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[
        Self::Open,
        Self::Create,
        Self::CreateDir,
        Self::Rename,
        Self::RemoveFile,
        Self::RemoveDir,
        Self::List,
        Self::Metadata,
        Self::SyncDir,
        Self::Space,
        Self::Lock,
        Self::Random,
        Self::Read,
        Self::Write,
        Self::Sync,
        Self::Allocate,
        Self::SetLen,
        Self::Place,
        Self::NoCopyOnWrite,
    ];

    /// Whether it changes what a crash leaves. A crash before one that does not is the same as one before the next
    /// that does, and need not be tried.
    #[must_use]
    pub fn changes(self) -> bool {
        !matches!(
            self,
            Self::Open
                | Self::List
                | Self::Metadata
                | Self::Space
                | Self::Random
                | Self::Read
                | Self::Place
        )
    }
}

/// One operation, as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// Counted from 0 over the life of the simulator, restarts and forks included.
    pub number: u64,
    /// What it was.
    pub kind: OpKind,
    /// The path given, or the one that the file was opened with; the old one of a rename. Empty for randomness.
    pub path: PathBuf,
    /// The new path of a rename.
    pub to: Option<PathBuf>,
    /// Where in the file; 0 for what has no place.
    pub position: u64,
    /// Bytes asked for, or the length to set.
    pub len: u64,
}

/// When a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At the operation with this number.
    Op(u64),
    /// At this operation of the kind, counted from 0 at the injection, over those whose path matches.
    Nth(OpKind, u64),
    /// At this operation of any kind, counted in the same way.
    Any(u64),
    /// At this taking of disk blocks, counted from 0 at the injection, whichever operation needs them.
    Charge(u64),
}

/// How often a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Once.
    Once,
    /// At every matching operation from there on.
    Forever,
}

/// Which part of the dirty data a failed sync still brought to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// None, as seen on Linux.
    Nothing,
    /// All; only the answer was lost.
    Everything,
    /// Some of it, by this seed.
    Some(u64),
}

impl Reached {
    /// Runs `run` with a chooser that lets so much reach the disk.
    pub(super) fn choose<T>(self, run: impl FnOnce(&mut dyn Chooser) -> T) -> T {
        match self {
            Self::Nothing => run(&mut NothingPersisted),
            Self::Everything => run(&mut AllPersisted),
            Self::Some(seed) => run(&mut Seeded::new(seed)),
        }
    }
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The call fails with this number and does nothing. A sync that fails so is a failed write-back that brought
    /// nothing to the disk; see [`What::FailedSync`].
    Errno(i32),
    /// The call is interrupted by a signal (`EINTR`) before it does anything; a sync keeps its dirty data.
    Interrupted,
    /// A read or write transfers at most so many bytes, a write up to the end of the sector that the last of them is in; other
    /// calls are not affected.
    Short(usize),
    /// The call is done, and then answers with this number.
    DoneThen(i32),
    /// A sync fails with this number, for every open handle of the file once, its dirty pages are clean from then on,
    /// and the disk holds only what `reached` says. On other calls as [`What::Errno`].
    FailedSync {
        /// The number that this call answers; other handles answer `EIO`.
        errno: i32,
        /// What got to the disk all the same.
        reached: Reached,
    },
    /// The call answers `EIO`, and the file system is read-only from then on, as btrfs does.
    ReadOnly,
    /// A device that lies: a sync of a file or directory answers `Ok` and did nothing; a write reaches the cache, and
    /// never the disk. It breaks what the engine is promised; a check of the checks. Nothing on other calls.
    Lie,
}

/// A fault to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it strikes.
    pub at: When,
    /// Only operations with this in one of their paths count; not used by [`When::Op`] and [`When::Charge`].
    pub path: Option<String>,
    /// How often it strikes.
    pub then: Then,
    /// What happens.
    pub what: What,
}

impl Fault {
    /// A fault that strikes once at `at`, whatever the path.
    #[must_use]
    pub fn new(at: When, what: What) -> Self {
        Self { at, path: None, then: Then::Once, what }
    }

    /// At the operation with number `op`.
    #[must_use]
    pub fn at_op(op: u64, what: What) -> Self {
        Self::new(When::Op(op), what)
    }

    /// At the operation of `kind` that comes after `before` others of it.
    #[must_use]
    pub fn nth(kind: OpKind, before: u64, what: What) -> Self {
        Self::new(When::Nth(kind, before), what)
    }

    /// Only for paths that contain `part`.
    #[must_use]
    pub fn on(self, part: impl Into<String>) -> Self {
        Self { path: Some(part.into()), ..self }
    }

    /// Strikes at every matching operation from its time on.
    #[must_use]
    pub fn forever(self) -> Self {
        Self { then: Then::Forever, ..self }
    }
}

/// The faults that wait.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<(Fault, u64)>);

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) {
        self.0.push((fault, 0));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn waiting(&self) -> usize {
        self.0.len()
    }

    /// What strikes at this operation; the first of several.
    pub(super) fn strike(
        &mut self,
        number: u64,
        kind: OpKind,
        path: &Path,
        to: Option<&Path>,
    ) -> Option<What> {
        self.first(|fault, seen| {
            let matches = |part: &String| {
                let holds = |path: &Path| path.to_string_lossy().contains(part.as_str());
                holds(path) || to.is_some_and(holds)
            };
            let due = match fault.at {
                When::Op(op) => return Self::due(fault, number, op),
                When::Nth(of, due) if of == kind => due,
                When::Any(due) => due,
                When::Nth(..) | When::Charge(_) => return false,
            };
            if !fault.path.as_ref().is_none_or(matches) {
                return false;
            }
            *seen += 1;
            Self::due(fault, *seen - 1, due)
        })
    }

    /// What strikes at this taking of blocks.
    pub(super) fn strike_charge(&mut self) -> Option<What> {
        self.first(|fault, seen| {
            let When::Charge(due) = fault.at else { return false };
            *seen += 1;
            Self::due(fault, *seen - 1, due)
        })
    }

    fn due(fault: &Fault, at: u64, due: u64) -> bool {
        match fault.then {
            Then::Once => at == due,
            Then::Forever => at >= due,
        }
    }

    /// Asks all, so that each goes on counting; takes out what struck once.
    fn first(&mut self, mut strikes: impl FnMut(&Fault, &mut u64) -> bool) -> Option<What> {
        let mut struck = None;
        self.0.retain_mut(|(fault, seen)| {
            let strikes = strikes(fault, seen);
            if strikes && struck.is_none() {
                struck = Some(fault.what);
            }
            !strikes || fault.then == Then::Forever
        });
        struck
    }
}
