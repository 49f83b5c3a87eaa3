//! Each check of the oracle must be able to fail: histories that break one rule each.

use super::history;

fn rules(history: &str) -> Vec<&'static str> {
    history::check(history).unwrap().iter().map(|violation| violation.rule).collect()
}

/// Three records: the first two are confirmed, nothing is known of the third.
const BEGUN: &str = "
    > append a 1 64
    < ack a 1 0
    > append a 2 64
    > append a 3 64
    < ack a 2 1
    !
";

#[track_caller]
fn breaks(rule: &str, history: &str) {
    let found = rules(&format!("{BEGUN}{history}"));
    assert!(found.contains(&rule), "expected {rule}, found {found:?}");
}

#[track_caller]
fn holds(history: &str) {
    let found = rules(&format!("{BEGUN}{history}"));
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn what_was_not_answered_may_be_there_or_not() {
    holds("= a 0 1 64 ok\n = a 1 2 64 ok\n = end a 0 2\n = done");
    holds("= a 0 1 64 ok\n = a 1 2 64 ok\n = a 2 3 64 ok\n = end a 0 3\n = done");
}

#[test]
fn a_truncated_log_that_goes_on_holds() {
    holds(
        "> truncate a 2
         < truncated a 1
         > append a 4 64
         < unknown a 4 an error
         > append a 5 64
         < not-written a 5 no space
         !
         = a 1 2 64 ok
         = a 2 4 64 ok
         = end a 1 3
         = done
         > append a 6 64
         < ack a 6 3
         = a 1 2 64 ok
         = a 2 4 64 ok
         = a 3 6 64 ok
         = end a 1 4
         = done",
    );
}

#[test]
fn i1_a_confirmed_record_that_is_not_there_is_found() {
    breaks("lost", "= a 0 1 64 ok\n = end a 0 1\n = done");
    breaks("end went back", "= a 0 1 64 ok\n = end a 0 1\n = done");
    breaks("log is gone", "= done");
}

#[test]
fn i1_changed_and_shortened_bytes_are_found() {
    breaks("bytes are not its own", "= a 0 1 64 ok\n = a 1 - 64 bad\n = end a 0 2\n = done");
    breaks("bytes are not its own", "= a 0 1 64 ok\n = a 1 2 63 ok\n = end a 0 2\n = done");
}

#[test]
fn i2_what_was_refused_and_appears_is_found() {
    breaks(
        "ghost",
        "> append a 4 64
         < not-written a 4 no space
         = a 0 1 64 ok\n = a 1 2 64 ok\n = a 2 4 64 ok\n = end a 0 3\n = done",
    );
}

#[test]
fn i2_what_one_dump_did_not_show_and_the_next_does_is_found() {
    breaks(
        "ghost",
        "= a 0 1 64 ok\n = a 1 2 64 ok\n = end a 0 2\n = done
         = a 0 1 64 ok\n = a 1 2 64 ok\n = a 2 3 64 ok\n = end a 0 3\n = done",
    );
}

#[test]
fn i2_what_one_dump_showed_and_the_next_does_not_is_found() {
    breaks(
        "lost",
        "= a 0 1 64 ok\n = a 1 2 64 ok\n = a 2 3 64 ok\n = end a 0 3\n = done
         = a 0 1 64 ok\n = a 1 2 64 ok\n = end a 0 2\n = done",
    );
}

#[test]
fn i2_a_record_of_nobody_is_found() {
    breaks(
        "record was never asked for",
        "= a 0 1 64 ok\n = a 1 2 64 ok\n = a 2 99 64 ok\n = end a 0 3\n = done",
    );
}

#[test]
fn i3_holes_and_doubles_are_found() {
    breaks("offsets are not dense", "= a 0 1 64 ok\n = a 2 2 64 ok\n = end a 0 3\n = done");
    breaks("offsets are not dense", "= a 0 1 64 ok\n = a 1 2 64 ok\n = end a 0 3\n = done");
    breaks("record twice", "= a 0 1 64 ok\n = a 1 2 64 ok\n = a 2 2 64 ok\n = end a 0 3\n = done");
}

#[test]
fn a_record_elsewhere_or_another_in_its_place_is_found() {
    breaks("moved", "= a 0 2 64 ok\n = a 1 1 64 ok\n = end a 0 2\n = done");
    breaks("changed", "= a 0 1 64 ok\n = a 1 3 64 ok\n = a 2 2 64 ok\n = end a 0 3\n = done");
}

#[test]
fn a_record_before_what_was_confirmed_when_it_was_asked_for_is_found() {
    // 4 was asked for when 0 and 1 were confirmed: at 1 it stands before one of them.
    breaks(
        "out of order",
        "> append a 4 64
         !
         = a 0 1 64 ok\n = a 1 4 64 ok\n = a 2 2 64 ok\n = end a 0 3\n = done",
    );
}

#[test]
fn i8_an_offset_that_goes_back_or_comes_twice_is_found() {
    breaks("offset went back", "> append a 4 64\n < ack a 4 1");
    breaks("offset given twice", "> append a 4 64\n < ack a 4 1");
    breaks(
        "offset went back",
        "> truncate a 2\n < truncated a 2\n = end a 2 2\n = done\n > append a 4 64\n < ack a 4 0",
    );
}

#[test]
fn truncation_that_takes_more_or_does_not_last_is_found() {
    breaks("truncated too much", "= a 1 2 64 ok\n = end a 1 2\n = done");
    breaks("truncated too much", "> truncate a 1\n < truncated a 2");
    breaks(
        "truncated records are back",
        "> truncate a 2
         < truncated a 1
         = a 0 1 64 ok\n = a 1 2 64 ok\n = end a 0 2\n = done",
    );
}

#[test]
fn an_answer_to_nothing_and_a_second_one_are_found() {
    breaks("answer without a question", "< ack a 99 2");
    breaks("answer without a question", "< not-written b 1 no");
    breaks("answer without a question", "< unknown a 1 an error");
}

#[test]
fn a_dump_that_is_not_whole_or_says_that_something_is_wrong_is_found() {
    breaks("dump is not whole", "= a 0 1 64 ok");
    breaks("log without an end", "= a 0 1 64 ok\n = a 1 2 64 ok\n = done");
    breaks(
        "log is stopped",
        "= stopped a damaged\n = a 0 1 64 ok\n = a 1 2 64 ok\n = end a 0 2\n = done",
    );
    breaks("finding", "= finding damaged x\n = a 0 1 64 ok\n = a 1 2 64 ok\n = end a 0 2\n = done");
}

#[test]
fn i6_files_in_no_place_in_two_or_missing_are_found() {
    let whole = "= a 0 1 64 ok\n = a 1 2 64 ok\n = end a 0 2\n";
    let told = "= file live logs/a/0.seg\n = file spare spares/1.seg\n = file trash trash/x\n";
    let files = "* logs/a/0.seg\n * spares/1.seg\n * trash/x/2.seg\n";
    holds(&format!("{whole}{told}{files}= done"));
    breaks("file leaked or lost", &format!("{whole}{told}{files}* spares/2.tmp\n= done"));
    breaks("file leaked or lost", &format!("{whole}{told}* logs/a/0.seg\n= done"));
    breaks("file in two places", &format!("{whole}{told}{files}= file live spares/1.seg\n= done"));
}

#[test]
fn i2_what_a_dump_showed_that_was_killed_must_stay() {
    let whole = "= a 0 1 64 ok\n = a 1 2 64 ok\n = end a 0 2\n = done";
    holds(&format!("~ a 0 1 64 ok\n ~ a 1 2 64 ok\n {whole}"));
    breaks("lost", &format!("~ a 2 3 64 ok\n {whole}"));
}

#[test]
fn a_history_with_a_line_that_is_none_is_refused() {
    assert!(history::check("> append a 1").is_err());
    assert!(history::check("? what").is_err());
}
