//! Does it catch anything? Each rule of the engine is taken out in turn, and the script that needs the rule must fail;
//! without the fault the same script passes, which is that plan's own test.

use super::case::{Case, What};
use super::caught::{caught, first_line};
use super::checks;
use super::commits::CommitPath;
use super::explore::{Effort, explore};
use super::lives::{self, Met, Run};
use super::{plan, pressure, reuse, rules};
use plimsoll::planted::{self, Fault};

/// Whether this build can switch a fault on.
pub const CAN_PLANT: bool = cfg!(debug_assertions);

/// What must catch a fault.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// A plan, all its crashes included.
    Plan(&'static str),
    /// A check that needs no crash.
    Check(&'static str, fn()),
}

impl By {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Plan(name) | Self::Check(name, _) => name,
        }
    }

    /// In one word.
    pub fn layer(&self) -> &'static str {
        match self {
            Self::Plan(_) => "plan",
            Self::Check(..) => "check",
        }
    }

    /// Without a fault nothing trips; else gives the violation.
    pub fn clean(&self, effort: Effort, path: CommitPath) -> Result<(), String> {
        path.on(|| match *self {
            Self::Plan(name) => {
                explore(plan(name), effort).map(drop).map_err(|failure| failure.what)
            }
            Self::Check(_, check) => caught(check),
        })
    }
}

/// A fault, and what must catch it.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub fault: Fault,
    pub by: By,
}

/// How a fault was caught.
#[derive(Debug)]
pub struct Caught {
    /// States until then.
    pub states: usize,
    /// The violation.
    pub what: String,
    pub path: CommitPath,
    /// Where it was seen, not made smaller.
    pub case: Case,
}

impl Known {
    /// The paths of commits on which it makes a difference.
    pub fn paths(&self) -> &'static [CommitPath] {
        match self.fault {
            // A sync of a buffered file leaves nothing out.
            Fault::FirstCommitSyncsRecordsOnly | Fault::CheckpointNotSynced => {
                &[CommitPath::Direct]
            }
            _ => &CommitPath::BOTH,
        }
    }

    /// Runs the script with the fault; none if it was not caught.
    pub fn run(&self, effort: Effort, path: CommitPath) -> Option<Caught> {
        path.on(|| self.run_here(effort, path))
    }

    fn run_here(&self, effort: Effort, path: CommitPath) -> Option<Caught> {
        let fault = self.fault;
        let (states, what, case) = match self.by {
            By::Plan(name) => {
                let failure = planted::with(fault, || explore(plan(name), effort)).err()?;
                let case = What::Plan(name.to_owned(), failure.ends);
                (failure.stats.states, failure.what, case)
            }
            By::Check(name, check) => {
                let what = caught(|| planted::with(fault, check)).err()?;
                (1, what, What::Check(name.to_owned()))
            }
        };
        let was = first_line(&what);
        let case = Case { what: case, path, planted: Some(fault), was };
        Some(Caught { states, what, path, case })
    }
}

/// Runs it with a fault switched on, or with none.
pub fn under<T>(fault: Option<Fault>, run: impl FnOnce() -> T) -> T {
    match fault {
        Some(fault) => planted::with(fault, run),
        None => run(),
    }
}

/// The first of so many nodes whose random lives notice a fault, and the violation; none if none does.
pub fn noticed_by_lives(fault: Fault, nodes: u64) -> Option<(u64, String)> {
    (1..=nodes).find_map(|seed| {
        let run = || lives::run(&Run::of(seed), false, &mut Met::default());
        Some((seed, caught(|| planted::with(fault, run)).err()?))
    })
}

/// The check of this name.
pub fn check(name: &str) -> Option<fn()> {
    KNOWN.iter().find_map(|known| match known.by {
        By::Check(own, check) if own == name => Some(check),
        _ => None,
    })
}

#[cfg(test)]
fn must_be_caught(known: &Known) {
    const EFFORT: Effort = Effort { full: false, seed: 7 };
    let Known { fault, by } = known;
    for &path in known.paths() {
        if let By::Check(..) = by {
            by.clean(EFFORT, path).unwrap();
        }
        let Some(Caught { states, what, .. }) = known.run(EFFORT, path) else {
            panic!("{fault:?} was not caught on the {path} path");
        };
        let what: String = first_line(&what).chars().take(90).collect();
        let fault = format!("{fault:?}");
        println!("| {fault:<34} | {path:<8} | {:<28} | {states:>6} | {what}", by.name());
    }
}

macro_rules! planted {
    ($($test:ident: $fault:ident, $by:expr;)*) => {
        /// Every planted fault, some of them twice.
        pub const KNOWN: &[Known] = &[$(Known { fault: Fault::$fault, by: $by }),*];

        #[cfg(test)]
        mod each {
            use super::*;

            $(
                #[test]
                fn $test() {
                    must_be_caught(&Known { fault: Fault::$fault, by: $by });
                }
            )*
        }
    };
}

#[test]
fn every_planted_fault_has_a_test() {
    for fault in Fault::ALL {
        assert!(KNOWN.iter().any(|known| known.fault == *fault), "{fault:?} has no test");
    }
}

/// A case is worth nothing if it does not bring the violation about again.
#[test]
fn the_case_of_a_planted_fault_is_small_and_replays() {
    let known = Known { fault: Fault::ConfirmedBeforeSync, by: By::Plan("append_single") };
    let failure = planted::with(known.fault, || {
        explore(plan("append_single"), Effort { full: false, seed: 7 }).unwrap_err()
    });
    let path = CommitPath::now();
    let case = super::case::of_plan("append_single", path, Some(known.fault), &failure);
    let case: Case = case.to_string().parse().unwrap();
    assert_eq!(case.holds(), Ok(()));
    assert!(case.was.starts_with("I8: "), "{}", case.was);
    let What::Plan(_, ends) = &case.what else { panic!("{case}") };
    assert!(ends.len() == 1, "{case}");
    // The clean engine holds there.
    assert_eq!(Case { planted: None, ..case }.holds(), Ok(()));
}

planted! {
    planted_names_not_synced_at_open_is_caught: NamesNotSyncedAtOpen, By::Plan("append_first");
    planted_tail_not_written_again_is_caught: TailNotWrittenAgain, By::Plan("append_single");
    planted_stop_taken_for_end_is_caught: StopTakenForEnd,
        By::Check("damage_in_the_middle", checks::damage_in_the_middle);
    planted_zeroing_left_out_is_caught: ZeroingLeftOut, By::Plan("append_batch");
    planted_zeroing_only_valid_records_is_caught: ZeroingOnlyValidRecords,
        By::Plan("append_over_a_torn_record");
    planted_settling_not_marked_is_caught: SettlingNotMarked, By::Plan("recovery_that_zeroes");
    planted_first_commit_without_header_is_caught: FirstCommitWithoutHeader,
        By::Plan("append_first");
    planted_first_commit_syncs_records_only_is_caught: FirstCommitSyncsRecordsOnly,
        By::Plan("append_first");
    planted_checkpoint_not_synced_is_caught: CheckpointNotSynced,
        By::Check("damage_longer_than_the_window", checks::damage_longer_than_the_window);
    planted_first_commit_without_directory_is_caught: FirstCommitWithoutDirectory,
        By::Plan("append_first");
    planted_first_commit_without_spares_directory_is_caught: FirstCommitWithoutSparesDirectory,
        By::Plan("append_first");
    planted_new_header_before_old_sync_is_caught: NewHeaderBeforeOldSync, By::Plan("roll_batch");
    planted_heal_with_name_absent_is_caught: HealWithNameAbsent, By::Plan("heal_in_place");
    planted_truncate_in_any_order_is_caught: TruncateInAnyOrder, By::Plan("truncate");
    planted_truncate_to_uncommitted_is_caught: TruncateToUncommitted, By::Plan("truncate_staged");
    planted_crc_without_position_is_caught: CrcWithoutPosition,
        By::Plan("payload_that_is_a_record");
    planted_crc_without_log_id_is_caught: CrcWithoutLogId, By::Plan("leftovers_of_another_log");
    planted_append_waits_for_nobody_is_caught: AppendWaitsForNobody,
        By::Check("staging_is_full", checks::staging_is_full);
    planted_no_generation_check_is_caught: NoGenerationCheck,
        By::Plan("leftovers_of_an_earlier_use");
    planted_confirmed_before_sync_is_caught: ConfirmedBeforeSync, By::Plan("append_single");
    planted_claims_staged_as_durable_is_caught: ClaimsStagedAsDurable, By::Plan("append_batch");
    planted_sync_retried_is_caught: SyncRetried, By::Plan("heal_sync");
    planted_failed_file_written_again_is_caught: FailedFileWrittenAgain,
        By::Plan("heal_at_a_blocks_end");
    planted_failed_sync_says_not_written_is_caught: FailedSyncSaysNotWritten,
        By::Plan("heal_waits");
    planted_heal_at_open_carries_nothing_is_caught: HealAtOpenCarriesNothing,
        By::Plan("heal_at_open");
    planted_reopened_without_spares_is_caught: ReopenedWithoutSpares,
        By::Plan("reopen_after_a_failed_heal");
    planted_offsets_restart_when_empty_is_caught: OffsetsRestartWhenEmpty,
        By::Plan("heal_in_place");
    planted_foreign_checkpoint_believed_is_caught: ForeignCheckpointBelieved,
        By::Plan("checkpoint_of_an_earlier_use");
    planted_checkpoint_ahead_of_sync_is_caught: CheckpointAheadOfSync,
        By::Plan("checkpoint_in_a_commit");
    planted_data_dir_not_synced_is_caught: DataDirNotSynced, By::Plan("first_start");
    planted_short_write_taken_as_whole_is_caught: ShortWriteTakenAsWhole, By::Plan("short_write");
    planted_header_crc_not_checked_is_caught: HeaderCrcNotChecked,
        By::Check("a_flipped_header", checks::a_flipped_header);
    planted_trailing_file_trusted_is_caught: TrailingFileTrusted,
        By::Plan("file_under_another_name");
    planted_trash_emptied_before_sync_is_caught: TrashEmptiedBeforeSync,
        By::Plan("delete_in_a_folder");
    planted_delete_without_sync_is_caught: DeleteWithoutSync, By::Plan("delete");
    planted_stamped_before_names_are_synced_is_caught: StampedBeforeNamesAreSynced,
        By::Plan("pool_give_up_fails");
    planted_spares_not_stamped_at_start_is_caught: SparesNotStampedAtStart,
        By::Plan("pool_trailing_given_back");
    planted_stamp_not_synced_is_caught: StampNotSynced, By::Plan("pool_reuse");
    planted_stamped_with_same_generation_is_caught: StampedWithSameGeneration,
        By::Plan("pool_roll_into_reused");
    planted_stamped_at_start_before_names_are_synced_is_caught: StampedAtStartBeforeNamesAreSynced,
        By::Plan("pool_stamp_moved_in_the_cache");
    planted_generation_wraps_is_caught: GenerationWraps, By::Plan("pool_no_generation_left");
    planted_given_up_not_stamped_is_caught: GivenUpNotStamped, By::Plan("pool_reuse");
    planted_failed_file_reused_is_caught: FailedFileReused,
        By::Check("a_failed_file", rules::a_failed_file_is_deleted);
    planted_generation_guessed_is_caught: GenerationGuessed,
        By::Check("an_unreadable_header", rules::a_file_without_a_header_is_deleted);
    planted_give_up_needs_room_is_caught: GiveUpNeedsRoom,
        By::Check("a_rename_without_room", rules::giving_up_needs_no_room);
    planted_kept_back_given_to_publish_is_caught: KeptBackGivenToPublish,
        By::Check("kept_back_on_a_full_disk", rules::publish_gets_nothing_that_is_kept_back);
    planted_kept_back_filled_last_is_caught: KeptBackFilledLast,
        By::Check("kept_back_when_space_returns", rules::kept_back_is_filled_first);
    planted_kept_back_released_is_caught: KeptBackReleased,
        By::Check("released", rules::kept_back_is_never_released);
    planted_made_without_sync_is_caught: MadeWithoutSync,
        By::Check("no_space_at_the_sync", rules::a_file_has_its_space_before_a_record_is_staged);
    planted_no_generation_check_is_caught_by_random_rounds: NoGenerationCheck,
        By::Check("case_D1", reuse::some_rounds);
    planted_spares_not_stamped_at_start_is_caught_by_its_own_case: SparesNotStampedAtStart,
        By::Check("spare_with_records", reuse::records_of_its_own_generation);
    planted_unfinished_not_removed_is_caught: UnfinishedNotRemoved, By::Plan("pool_made_ahead");
    planted_free_space_from_roots_share_is_caught: FreeSpaceFromRootsShare,
        By::Check("roots_share", pressure::the_share_of_root_is_not_free);
    planted_released_counted_twice_is_caught: ReleasedCountedTwice,
        By::Check("released_once", pressure::released_bytes_count_once);
    planted_old_sample_taken_for_good_is_caught: OldSampleTakenForGood,
        By::Check("old_sample", pressure::an_old_sample_counts_as_soft);
    planted_level_not_rechecked_at_debit_is_caught: LevelNotRecheckedAtDebit,
        By::Check("level_at_debit", pressure::a_debit_raises_the_level);
    planted_allocated_unchecked_is_caught: AllocatedUnchecked,
        By::Check("above_hard", pressure::publishes_stay_above_hard_between_two_samples);
    planted_allocated_without_asking_is_caught: AllocatedWithoutAsking,
        By::Check("above_hard", pressure::publishes_stay_above_hard_between_two_samples);
    planted_clear_line_same_as_set_line_is_caught: ClearLineSameAsSetLine,
        By::Check("case_A13", pressure::case_a13_a_level_does_not_flap);
    planted_permit_used_twice_is_caught: PermitUsedTwice,
        By::Check("permit_used_once", pressure::a_permit_is_used_once);
    planted_read_only_truncated_is_caught: ReadOnlyTruncated,
        By::Check("not_durable", rules::what_is_not_durable_is_not_all_that_is_left);
    planted_device_counted_twice_is_caught: DeviceCountedTwice,
        By::Check("device_once", pressure::a_device_is_counted_once);
    planted_acknowledge_refused_is_caught: AcknowledgeRefused,
        By::Check("acknowledge_at_reserve", pressure::what_frees_space_is_never_refused);
    planted_spares_kept_when_short_is_caught: SparesKeptWhenShort,
        By::Check("spares_when_short", pressure::spares_go_before_publishes_are_refused);
    planted_memory_counts_page_cache_is_caught: MemoryCountsPageCache,
        By::Check("case_E4", pressure::case_e4_the_page_cache_is_not_used);
}
