//! The checks above notice when a rule is taken out.

use super::support::*;
use super::{corrupt, ghosts, lives, names, torn, trailing};
use crate::planted::{Fault, with};
use std::panic::catch_unwind;

/// `check` passes on the engine as it is and fails with `fault` planted.
fn notices(fault: Fault, check: fn()) {
    check();
    let planted = catch_unwind(|| with(fault, check));
    assert!(planted.is_err(), "nothing notices {fault:?}");
}

#[test]
fn names_not_synced_at_open() {
    notices(Fault::NamesNotSyncedAtOpen, names::a_name_in_the_cache_only);
}

#[test]
fn tail_not_written_again() {
    notices(
        Fault::TailNotWrittenAgain,
        torn::i1_a_record_that_is_only_in_the_cache_is_durable_once_recovery_showed_it,
    );
    notices(
        Fault::TailNotWrittenAgain,
        torn::i1_the_same_after_a_sync_that_failed_in_the_earlier_life,
    );
    notices(
        Fault::TailNotWrittenAgain,
        torn::i8_the_header_of_an_empty_segment_is_made_durable_with_it,
    );
}

#[test]
fn stop_taken_for_end() {
    notices(
        Fault::StopTakenForEnd,
        corrupt::case_B4_a_flipped_byte_before_durable_records_is_damage_and_not_an_end,
    );
}

#[test]
fn foreign_checkpoint_believed() {
    notices(
        Fault::ForeignCheckpointBelieved,
        corrupt::i2_records_of_another_log_that_continue_the_offsets_exactly_are_not_read,
    );
}

#[test]
fn trailing_file_trusted() {
    notices(
        Fault::TrailingFileTrusted,
        trailing::a_first_commit_that_lost_its_header_goes_back_to_the_pool,
    );
    notices(
        Fault::TrailingFileTrusted,
        trailing::a_file_that_names_another_base_goes_back_to_the_pool_unless_vouched,
    );
}

#[test]
fn zeroing_left_out() {
    notices(Fault::ZeroingLeftOut, ghosts::a_record_of_the_same_length_fills_the_gap);
}

#[test]
fn zeroing_only_valid_records() {
    notices(Fault::ZeroingOnlyValidRecords, ghosts::half_a_record_is_made_whole_by_the_next_one);
    // The simpler check does not: it takes half a record to see it.
    with(Fault::ZeroingOnlyValidRecords, ghosts::a_record_of_the_same_length_fills_the_gap);
}

#[test]
fn offsets_restart_when_empty() {
    notices(
        Fault::OffsetsRestartWhenEmpty,
        torn::i8_a_segment_without_records_holds_the_next_offset,
    );
}

#[test]
fn header_crc_not_checked() {
    notices(Fault::HeaderCrcNotChecked, corrupt::i4_every_byte_of_a_header);
}

#[test]
fn no_generation_check() {
    notices(
        Fault::NoGenerationCheck,
        corrupt::i2_records_of_another_log_that_continue_the_offsets_exactly_are_not_read,
    );
}

#[test]
fn random_lives_notice_what_does_not_need_two_crashes_in_a_row() {
    for fault in [
        Fault::StopTakenForEnd,
        Fault::TailNotWrittenAgain,
        Fault::ForeignCheckpointBelieved,
        Fault::TrailingFileTrusted,
        Fault::OffsetsRestartWhenEmpty,
        Fault::NoGenerationCheck,
    ] {
        let noticed = catch_unwind(|| with(fault, lives::some));
        assert!(noticed.is_err(), "nothing notices {fault:?}");
    }
}

#[test]
fn crc_without_log_id() {
    notices(
        Fault::CrcWithoutLogId,
        corrupt::i2_records_of_another_log_that_continue_the_offsets_exactly_are_not_read,
    );
}

#[test]
fn crc_without_position() {
    notices(Fault::CrcWithoutPosition, a_payload_that_holds_records);
}

/// A payload is made of whole records of this very log, which are the next ones by offset; the record's own header is
/// lost. They would be vouched for and read if they were valid where they stand.
fn a_payload_that_holds_records() {
    use crate::format::Key;
    use crate::format::record::{self, RecordHeader};
    use crate::types::Offset;
    let fs = machine(1);
    let mut writer = begin(0).take(&fs);
    writer.append_all(2);
    let header = RecordHeader {
        payload_len: 8,
        headers_len: 0,
        generation: generation(3),
        unsynced: 0,
        relative: 3,
        millis: 9,
    };
    let mut inner = vec![0; 40];
    // Encoded for another place, as whoever reads the log and publishes what he read would have it.
    record::encode(
        &mut inner,
        Key::new(LOG, generation(3), Offset(0)),
        8192,
        &header,
        &[],
        &[5; 8],
    );
    writer.stage(&inner.repeat(10));
    writer.write().unwrap();
    let lost = writer.begun[2];
    fs.zero(path_of(0), lost..lost + 16).unwrap();
    fs.process_death();
    assert_eq!(recovered_records(&fs), expected(2));
}
