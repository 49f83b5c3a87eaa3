//! Planted faults: known mistakes that a test switches on to see that the checks notice.
//!
//! Each is one `if` in the engine. They exist only in builds that have both the feature `planted` and debug
//! assertions, so no release build can turn one on; everywhere else [`is`] is a constant `false`.
//! The switch is per thread, so tests that run side by side do not disturb each other.

/// A rule of the engine that can be taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "each name says which rule is broken")]
#[non_exhaustive]
pub enum Fault {
    NamesNotSyncedAtOpen,
    TailNotWrittenAgain,
    StopTakenForEnd,
    ZeroingLeftOut,
    ZeroingOnlyValidRecords,
    SettlingNotMarked,
    FirstCommitWithoutHeader,
    FirstCommitSyncsRecordsOnly,
    CheckpointNotSynced,
    FirstCommitWithoutDirectory,
    FirstCommitWithoutSparesDirectory,
    NewHeaderBeforeOldSync,
    HealWithNameAbsent,
    TruncateInAnyOrder,
    CrcWithoutPosition,
    CrcWithoutLogId,
    AppendWaitsForNobody,
    NoGenerationCheck,
    ConfirmedBeforeSync,
    SyncRetried,
    FailedFileWrittenAgain,
    OffsetsRestartWhenEmpty,
    ForeignCheckpointBelieved,
    ShortWriteTakenAsWhole,
    HeaderCrcNotChecked,
    TrailingFileTrusted,
    TrashEmptiedBeforeSync,
    DeleteWithoutSync,
    TruncateToUncommitted,
    ClaimsStagedAsDurable,
    FailedSyncSaysNotWritten,
    HealAtOpenCarriesNothing,
    ReopenedWithoutSpares,
    CheckpointAheadOfSync,
    DataDirNotSynced,
    StampedBeforeNamesAreSynced,
    FailedFileReused,
    SparesNotStampedAtStart,
    StampNotSynced,
    StampedWithSameGeneration,
    StampedAtStartBeforeNamesAreSynced,
    GenerationWraps,
    GivenUpNotStamped,
    GenerationGuessed,
    GiveUpNeedsRoom,
    KeptBackGivenToPublish,
    KeptBackFilledLast,
    KeptBackReleased,
    UnfinishedNotRemoved,
    MadeWithoutSync,
    PermitUsedTwice,
    FreeSpaceFromRootsShare,
    ReleasedCountedTwice,
    OldSampleTakenForGood,
    LevelNotRecheckedAtDebit,
    AllocatedUnchecked,
    AllocatedWithoutAsking,
    ClearLineSameAsSetLine,
    MemoryCountsPageCache,
    DeviceCountedTwice,
    AcknowledgeRefused,
    SparesKeptWhenShort,
    ReadOnlyTruncated,
}

impl Fault {
    /// Every planted fault.
    pub const ALL: &'static [Self] = &[
        Self::NamesNotSyncedAtOpen,
        Self::TailNotWrittenAgain,
        Self::StopTakenForEnd,
        Self::ZeroingLeftOut,
        Self::ZeroingOnlyValidRecords,
        Self::SettlingNotMarked,
        Self::FirstCommitWithoutHeader,
        Self::FirstCommitSyncsRecordsOnly,
        Self::CheckpointNotSynced,
        Self::FirstCommitWithoutDirectory,
        Self::FirstCommitWithoutSparesDirectory,
        Self::NewHeaderBeforeOldSync,
        Self::HealWithNameAbsent,
        Self::TruncateInAnyOrder,
        Self::CrcWithoutPosition,
        Self::CrcWithoutLogId,
        Self::AppendWaitsForNobody,
        Self::NoGenerationCheck,
        Self::ConfirmedBeforeSync,
        Self::SyncRetried,
        Self::FailedFileWrittenAgain,
        Self::OffsetsRestartWhenEmpty,
        Self::ForeignCheckpointBelieved,
        Self::ShortWriteTakenAsWhole,
        Self::HeaderCrcNotChecked,
        Self::TrailingFileTrusted,
        Self::TrashEmptiedBeforeSync,
        Self::DeleteWithoutSync,
        Self::TruncateToUncommitted,
        Self::ClaimsStagedAsDurable,
        Self::FailedSyncSaysNotWritten,
        Self::HealAtOpenCarriesNothing,
        Self::ReopenedWithoutSpares,
        Self::CheckpointAheadOfSync,
        Self::DataDirNotSynced,
        Self::StampedBeforeNamesAreSynced,
        Self::FailedFileReused,
        Self::SparesNotStampedAtStart,
        Self::StampNotSynced,
        Self::StampedWithSameGeneration,
        Self::StampedAtStartBeforeNamesAreSynced,
        Self::GenerationWraps,
        Self::GivenUpNotStamped,
        Self::GenerationGuessed,
        Self::GiveUpNeedsRoom,
        Self::KeptBackGivenToPublish,
        Self::KeptBackFilledLast,
        Self::KeptBackReleased,
        Self::UnfinishedNotRemoved,
        Self::MadeWithoutSync,
        Self::PermitUsedTwice,
        Self::FreeSpaceFromRootsShare,
        Self::ReleasedCountedTwice,
        Self::OldSampleTakenForGood,
        Self::LevelNotRecheckedAtDebit,
        Self::AllocatedUnchecked,
        Self::AllocatedWithoutAsking,
        Self::ClearLineSameAsSetLine,
        Self::MemoryCountsPageCache,
        Self::DeviceCountedTwice,
        Self::AcknowledgeRefused,
        Self::SparesKeptWhenShort,
        Self::ReadOnlyTruncated,
    ];
}

#[cfg(all(feature = "planted", debug_assertions))]
mod on {
    use super::Fault;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Whether `fault` is switched on in this thread.
    #[must_use]
    pub fn is(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// Switches `fault` on in this thread while `run` runs, also when it panics.
    pub fn with<T>(fault: Fault, run: impl FnOnce() -> T) -> T {
        struct Off;
        impl Drop for Off {
            fn drop(&mut self) {
                PLANTED.set(None);
            }
        }
        let _off = Off;
        PLANTED.set(Some(fault));
        run()
    }
}

#[cfg(all(feature = "planted", debug_assertions))]
pub use on::{is, with};

/// Runs `run`; in this build no fault can be switched on.
#[cfg(all(feature = "planted", not(debug_assertions)))]
pub fn with<T>(_fault: Fault, run: impl FnOnce() -> T) -> T {
    run()
}

/// Whether `fault` is switched on: never in this build.
#[cfg(not(all(feature = "planted", debug_assertions)))]
#[must_use]
#[inline(always)]
pub const fn is(_fault: Fault) -> bool {
    false
}
