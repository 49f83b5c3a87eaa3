//! The checker itself: an honest broker is believed, and each kind of lie is found.

use super::*;
use crate::client::{Settled, Stored};

/// A history, told with little noise.
struct Story(Checker);

impl Story {
    /// Two publishers with ten messages each, two queues.
    fn new() -> Self {
        Self(Checker::new(2, 10, 2))
    }

    fn confirm(&mut self, slot: u64, id: u64) -> &mut Self {
        self.0.sending(slot, 0);
        self.0.confirmed(slot, Stored { id, duplicate: false });
        self
    }

    fn duplicate(&mut self, slot: u64, id: u64) -> &mut Self {
        self.0.sending(slot, 0);
        self.0.confirmed(slot, Stored { id, duplicate: true });
        self
    }

    fn refuse(&mut self, slot: u64) -> &mut Self {
        self.0.sending(slot, 0);
        self.0.refused(slot);
        self
    }

    fn lose_answer(&mut self, slot: u64) -> &mut Self {
        self.0.sending(slot, 0);
        self.0.unknown(slot);
        self
    }

    /// Asked for at `asked` and got at `at`, with a lease of 1,000 ms.
    fn deliver(&mut self, slot: u64, id: u64, attempts: u32, asked: u64, at: u64) -> &mut Self {
        let mut asked = self.0.asking(0, asked);
        let got = Got { slot: Some(slot), id, attempts, lease_ms: 1_000, at_ms: at };
        self.0.delivered(&mut asked, got);
        self
    }

    fn told(&mut self, slot: u64, attempts: u32, answer: Settled, at: u64) -> Told {
        let verb = Verb::Ack;
        Told { slot, attempts, verb, answer, before: None, cut: false, sent_ms: at, at_ms: at + 1 }
    }

    fn ack(&mut self, slot: u64, attempts: u32, answer: Settled, at: u64) -> &mut Self {
        let told = self.told(slot, attempts, answer, at);
        self.0.settled(told);
        self
    }

    /// The same ack once more, which had `before` as its answer.
    fn again(&mut self, slot: u64, answer: Settled, before: Settled, at: u64) -> &mut Self {
        let told = Told { before: Some(before), ..self.told(slot, 1, answer, at) };
        self.0.settled(told);
        self
    }

    /// The same ack once more, which had no answer.
    fn after_cut(&mut self, slot: u64, answer: Settled, at: u64) -> &mut Self {
        let told = Told { cut: true, ..self.told(slot, 1, answer, at) };
        self.0.settled(told);
        self
    }

    fn settle(&mut self, slot: u64, verb: Verb, answer: Settled, at: u64) -> &mut Self {
        let told = Told { verb, ..self.told(slot, 1, answer, at) };
        self.0.settled(told);
        self
    }

    #[track_caller]
    fn honest(&mut self) {
        self.0.finish();
        assert_eq!(self.0.told, Vec::<String>::new());
    }

    /// This kind of breach was found, once, and no other.
    #[track_caller]
    fn found(&mut self, breach: Breach) {
        assert_eq!((self.0.count(breach), self.0.breaches()), (1, 1), "{:?}", self.0.told);
    }
}

#[test]
fn an_honest_history_is_believed() {
    let mut story = Story::new();
    story.confirm(0, 5).confirm(1, 7).refuse(2).lose_answer(3).lose_answer(4);
    story.deliver(0, 5, 1, 0, 10).deliver(1, 7, 1, 0, 10).deliver(3, 8, 1, 10, 20);
    assert_eq!((story.0.open(), story.0.perhaps()), (3, 0));
    story.ack(0, 1, Settled::Done, 30).again(0, Settled::Already, Settled::Done, 40);
    // Its lease ends, and it comes again.
    story.deliver(1, 7, 2, 500, 1_100).ack(1, 1, Settled::Gone, 1_200).ack(
        1,
        2,
        Settled::Done,
        1_300,
    );
    story.ack(3, 1, Settled::Late, 1_500);
    assert_eq!(story.0.open(), 0);
    story.honest();
    assert_eq!(story.0.seen().unknown_stored, 1);
}

#[test]
fn q1_a_confirmed_message_that_never_comes_is_lost() {
    let mut story = Story::new();
    story.confirm(0, 1).confirm(1, 2).deliver(0, 1, 1, 0, 1).ack(0, 1, Settled::Done, 2);
    story.0.finish();
    story.found(Breach::Lost);
}

#[test]
fn q1_a_delivered_message_of_unknown_outcome_that_does_not_come_again_is_lost() {
    let mut story = Story::new();
    story.lose_answer(0).deliver(0, 1, 1, 0, 1);
    story.0.finish();
    story.found(Breach::Lost);
}

#[test]
fn q1_an_acknowledged_message_that_comes_again_has_risen() {
    for (attempts, asked) in [(2, 10), (2, 2_000), (1, 2_000)] {
        let mut story = Story::new();
        story.confirm(0, 1).deliver(0, 1, 1, 0, 5).ack(0, 1, Settled::Done, 10);
        story.deliver(0, 1, attempts, asked, 2_001);
        let risen = story.0.count(Breach::Risen);
        assert_eq!(risen, 1, "attempts {attempts}, asked at {asked}: {:?}", story.0.told);
    }
    // Rejected is finished, too.
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 1, 0, 5).settle(0, Verb::Reject, Settled::Done, 10);
    story.deliver(0, 1, 2, 2_000, 2_001);
    story.found(Breach::Risen);
}

#[test]
fn q2_a_refused_message_that_appears_is_found_before_and_after_its_refusal() {
    let mut story = Story::new();
    story.refuse(0).deliver(0, 1, 1, 0, 1);
    story.found(Breach::RefusedAppears);
    let mut story = Story::new();
    story.0.sending(0, 0);
    story.deliver(0, 1, 1, 0, 1);
    story.0.refused(0);
    story.found(Breach::RefusedAppears);
    // Where an earlier try has no answer, it may be there.
    let mut story = Story::new();
    story.lose_answer(0).refuse(0).deliver(0, 1, 1, 0, 1).ack(0, 1, Settled::Done, 2).honest();
}

#[test]
fn q2_a_message_that_nobody_published_is_invented() {
    let mut story = Story::new();
    story.deliver(0, 1, 1, 0, 1);
    story.found(Breach::Invented);
    let mut story = Story::new();
    let mut asked = story.0.asking(0, 0);
    let got = Got { slot: None, id: 1, attempts: 1, lease_ms: 1, at_ms: 1 };
    story.0.delivered(&mut asked, got);
    story.found(Breach::Invented);
    let mut story = Story::new();
    story.confirm(0, 1);
    let mut asked = story.0.asking(1, 0);
    story.0.delivered(&mut asked, Got { slot: Some(0), ..got });
    story.found(Breach::Invented);
}

#[test]
fn q2_a_message_with_a_key_is_stored_once() {
    // Retried after an answer was lost: once, and with one number.
    let mut story = Story::new();
    story.lose_answer(0).duplicate(0, 4).duplicate(0, 4).deliver(0, 4, 1, 0, 1);
    story.ack(0, 1, Settled::Done, 2).honest();
    // The retry finds nothing of the first: stored now.
    let mut story = Story::new();
    story.lose_answer(0).confirm(0, 4).deliver(0, 4, 1, 0, 1).ack(0, 1, Settled::Done, 2).honest();
    let mut story = Story::new();
    story.confirm(0, 4).duplicate(0, 5);
    story.found(Breach::Twice);
    let mut story = Story::new();
    story.confirm(0, 4).deliver(0, 5, 1, 0, 1);
    story.found(Breach::Twice);
    let mut story = Story::new();
    story.confirm(0, 4).confirm(0, 4);
    story.found(Breach::Key);
    let mut story = Story::new();
    story.confirm(0, 4).refuse(0);
    story.found(Breach::Key);
}

#[test]
fn case_f7_a_refused_message_that_is_called_a_duplicate_is_found() {
    let mut story = Story::new();
    story.refuse(0).duplicate(0, 4);
    story.found(Breach::Key);
}

#[test]
fn case_b11_a_number_that_is_given_out_twice_is_found() {
    let mut story = Story::new();
    story.confirm(0, 4).confirm(10, 4);
    story.found(Breach::Twice);
}

#[test]
fn q5_attempts_that_fall_or_stay_are_found() {
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 3, 0, 1).deliver(0, 1, 3, 2_000, 2_001);
    story.found(Breach::Attempts);
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 3, 0, 1).deliver(0, 1, 2, 2_000, 2_001);
    story.found(Breach::Attempts);
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 0, 0, 1);
    story.found(Breach::Attempts);
    // A client that reads slowly: it asked before the later one came.
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 2, 0, 3_000).deliver(0, 1, 1, 0, 3_001);
    assert_eq!((story.0.breaches(), story.0.seen().read_late), (0, 1), "{:?}", story.0.told);
}

#[test]
fn q5_a_delivery_while_leased_is_found() {
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 1, 100, 110).deliver(0, 1, 2, 500, 1_099);
    story.found(Breach::Lease);
    // From what the receiver can prove it may have ended.
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 1, 100, 110).deliver(0, 1, 2, 500, 1_100);
    assert_eq!(story.0.breaches(), 0);
    // Given up, it may come at once.
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 1, 100, 110);
    story.0.releasing(0, 1);
    story.settle(0, Verb::Nack, Settled::Done, 120).deliver(0, 1, 2, 500, 510);
    assert_eq!(story.0.breaches(), 0, "{:?}", story.0.told);
}

#[test]
fn q5_an_extended_lease_holds_and_a_shortened_one_ends() {
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 1, 0, 10);
    story.0.extending(0, 1, 5_000, 500);
    story.settle(0, Verb::Extend(5_000), Settled::Done, 500).deliver(0, 1, 2, 500, 5_499);
    story.found(Breach::Lease);
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 1, 0, 10);
    story.0.extending(0, 1, 100, 20);
    story.settle(0, Verb::Extend(100), Settled::Done, 20).deliver(0, 1, 2, 100, 130);
    assert_eq!(story.0.breaches(), 0, "{:?}", story.0.told);
    // Without an answer either may hold.
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 1, 0, 10);
    story.0.extending(0, 1, 5_000, 500);
    story.deliver(0, 1, 2, 500, 1_100).ack(0, 2, Settled::Done, 1_200);
    assert_eq!(story.0.breaches(), 0, "{:?}", story.0.told);
}

#[test]
fn q6_answers_that_are_not_consistent_are_found() {
    // Repeats change nothing, and are told so.
    for answer in [Settled::Done, Settled::Late, Settled::Gone] {
        let mut story = Story::new();
        story.confirm(0, 1).deliver(0, 1, 1, 0, 1).ack(0, 1, Settled::Done, 2);
        story.again(0, answer, Settled::Done, 3);
        assert!(story.0.count(Breach::Settle) >= 1, "{answer:?}");
    }
    let fresh = |answer, at| {
        let mut story = Story::new();
        story.confirm(0, 1).deliver(0, 1, 1, 0, 1).ack(0, 1, answer, at);
        story
    };
    fresh(Settled::Already, 2).found(Breach::Settle);
    fresh(Settled::Foreign, 2).found(Breach::Settle);
    fresh(Settled::Gone, 2).found(Breach::Settle);
    fresh(Settled::Late, 2).found(Breach::Settle);
    fresh(Settled::Done, 1_300).found(Breach::Settle);
    fresh(Settled::Late, 1_300).honest();
}

#[test]
fn q5_a_lease_may_run_longer_after_a_start_and_not_for_ever() {
    for (at, right) in [(1_300, true), (6_200, true), (6_300, false)] {
        let mut story = Story::new();
        story.confirm(0, 1).deliver(0, 1, 1, 0, 1);
        story.0.restarted();
        story.ack(0, 1, Settled::Done, at);
        assert_eq!(story.0.breaches() == 0, right, "{at}: {:?}", story.0.told);
    }
}

#[test]
fn q6_an_ack_of_a_delivery_that_another_followed_is_not_accepted() {
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 1, 0, 1).deliver(0, 1, 2, 1_000, 1_001);
    story.ack(0, 1, Settled::Late, 1_002);
    story.found(Breach::Settle);
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 1, 0, 1).deliver(0, 1, 2, 1_000, 1_001);
    story.ack(0, 2, Settled::Done, 1_002).ack(0, 1, Settled::Late, 1_003);
    assert!(story.0.count(Breach::Settle) >= 1);
}

#[test]
fn q6_an_ack_whose_answer_was_lost_may_be_answered_either_way() {
    for answer in [Settled::Done, Settled::Already] {
        let mut story = Story::new();
        story.confirm(0, 1).deliver(0, 1, 1, 0, 1).after_cut(0, answer, 5).honest();
    }
    // Gone: it was done and forgotten, or it will come again.
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 1, 0, 1).after_cut(0, Settled::Gone, 5);
    assert_eq!((story.0.open(), story.0.perhaps()), (1, 1));
    story.honest();
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 1, 0, 1).after_cut(0, Settled::Gone, 5);
    story.deliver(0, 1, 2, 1_000, 1_001);
    assert_eq!((story.0.open(), story.0.perhaps()), (1, 0));
    story.0.finish();
    story.found(Breach::Lost);
}

#[test]
fn q6_a_nack_or_an_extend_that_is_answered_wrongly_is_found() {
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 1, 0, 1).settle(0, Verb::Nack, Settled::Already, 2);
    story.found(Breach::Settle);
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 1, 0, 1).ack(0, 1, Settled::Done, 2);
    story.settle(0, Verb::Extend(1_000), Settled::Done, 3);
    story.found(Breach::Settle);
    let mut story = Story::new();
    story.confirm(0, 1).deliver(0, 1, 1, 0, 1).settle(0, Verb::Extend(1_000), Settled::Gone, 3);
    story.found(Breach::Settle);
}

#[test]
fn first_deliveries_out_of_order_are_found() {
    let mut story = Story::new();
    story.confirm(0, 1).confirm(1, 2).deliver(1, 2, 1, 0, 5).deliver(0, 1, 1, 6, 7);
    story.found(Breach::Order);
    // Two that were asked for at once may be read in any order.
    let mut story = Story::new();
    story.confirm(0, 1).confirm(1, 2);
    let (mut one, mut two) = (story.0.asking(0, 0), story.0.asking(0, 0));
    let got = |slot, id| Got { slot: Some(slot), id, attempts: 1, lease_ms: 1_000, at_ms: 5 };
    story.0.delivered(&mut one, got(1, 2));
    story.0.delivered(&mut two, got(0, 1));
    assert_eq!(story.0.breaches(), 0);
    // Within one answer the order holds.
    let mut story = Story::new();
    story.confirm(0, 1).confirm(1, 2);
    let mut asked = story.0.asking(0, 0);
    story.0.delivered(&mut asked, got(1, 2));
    story.0.delivered(&mut asked, got(0, 1));
    story.found(Breach::Order);
    // A redelivery comes before newer ones, and is no first delivery.
    let mut story = Story::new();
    story.confirm(0, 1).confirm(1, 2).deliver(0, 1, 1, 0, 1).deliver(1, 2, 1, 2, 3);
    story.deliver(0, 1, 2, 2_000, 2_001);
    assert_eq!(story.0.breaches(), 0);
}

#[test]
fn a_publisher_whose_numbers_fall_is_found() {
    let mut story = Story::new();
    story.confirm(0, 5).confirm(1, 4);
    story.found(Breach::Order);
    // Another publisher's are its own.
    let mut story = Story::new();
    story.confirm(0, 5).confirm(10, 4);
    assert_eq!(story.0.breaches(), 0);
}

#[test]
fn its_memory_is_taken_at_the_start() {
    let mut checker = Checker::new(8, 10_000, 4);
    assert_eq!(checker.memory(), 8 * 10_000 * 16);
    for number in 0..10_000 {
        checker.sending(number, 0);
        checker.confirmed(number, Stored { id: number, duplicate: false });
    }
    assert!(checker.memory() <= 8 * 10_000 * 16 + 10_000 / 8 + 8);
}
