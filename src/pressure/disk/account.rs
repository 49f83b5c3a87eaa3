//! The books of a device between two samples: arithmetic over plain numbers.

use crate::fs::Space;
use crate::planted::{self, Fault};
use std::collections::VecDeque;
use std::time::Duration;

/// Released bytes that no sample shows yet count for so long: some file systems give space back late.
const UNSEEN_FOR: Duration = Duration::from_secs(5);
/// More than these are kept as one. What that makes wrong makes free space less, not more.
const DEBITS_KEPT: usize = 1024;
const RELEASES_KEPT: usize = 64;

/// Where the books stood when a sample's call began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) begun: Duration,
    debits: u64,
    spares_released: u64,
}

/// A sample that came back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// When its call began: nothing later is surely in it.
    pub(super) begun: Duration,
    pub(super) space: Space,
}

#[derive(Clone, Copy, Debug)]
struct Debit {
    /// When its allocation had ended, counted over all of them; none while it has not.
    ended: Option<u64>,
    bytes: u64,
    files: u64,
}

/// See the top of the file.
#[derive(Debug, Default)]
pub(super) struct Account {
    sample: Option<Sample>,
    /// Bytes of spares that could be released.
    reclaimable: u64,
    /// Allocations that have not ended, or ended since the call of the sample began.
    debits: VecDeque<Debit>,
    /// How many have ended.
    debits_ended: u64,
    /// Deleted, and not seen in a sample: when, and how many bytes.
    released: VecDeque<(Duration, u64)>,
    /// All spares ever released.
    spares_released: u64,
}

impl Account {
    pub(super) fn sample(&self) -> Option<&Sample> {
        self.sample.as_ref()
    }

    pub(super) fn mark(&self, begun: Duration) -> Mark {
        Mark { begun, debits: self.debits_ended, spares_released: self.spares_released }
    }

    /// Takes what a call answered that began at `mark`; `reclaimable` is from just before it. Says whether it is newer than
    /// what was known: of two calls at a time, the one that began later counts.
    pub(super) fn take(&mut self, mark: Mark, space: Space, reclaimable: u64) -> bool {
        let available = space.available.min(space.total);
        let space = Space {
            // A call that lies must not make more free than there is.
            available,
            // Nor lines that lie below what is in use and available.
            withheld: space.withheld.min(space.total - available),
            inodes_available: space.inodes_available.min(space.inodes),
            ..space
        };
        if self.sample.is_some_and(|sample| sample.begun > mark.begun) {
            return false;
        }
        // One that had not ended may be in the sample in part, or not at all: counted twice for a moment, rather than not.
        let shown = |debit: &Debit| debit.ended.is_some_and(|ended| ended < mark.debits);
        match self.sample {
            Some(before) if before.space.total == space.total => {
                let gone = self.debits.iter().filter(|debit| shown(debit));
                let gone = gone.fold(0, |sum: u64, debit| sum.saturating_add(debit.bytes));
                // What is free beyond what would be without any release is released bytes that this sample shows. Whoever
                // else deletes is taken for that, which makes free space less; whoever else writes hides some of it for
                // as long as it counts at all.
                let expected = before.space.available.saturating_sub(gone);
                self.see(space.available.saturating_sub(expected));
            }
            // The first one, or one of a device that was resized: it cannot be held against another.
            _ => self.released.clear(),
        }
        self.debits.retain(|debit| !shown(debit));
        let since = self.spares_released.saturating_sub(mark.spares_released);
        self.reclaimable = reclaimable.saturating_sub(since);
        self.sample = Some(Sample { begun: mark.begun, space });
        true
    }

    /// A sample shows `bytes` that were released; they count in it from now on, and only in it.
    fn see(&mut self, mut bytes: u64) {
        if planted::is(Fault::ReleasedCountedTwice) {
            return;
        }
        while let Some((_, first)) = self.released.front_mut() {
            let seen = bytes.min(*first);
            *first -= seen;
            bytes -= seen;
            if *first > 0 {
                break;
            }
            self.released.pop_front();
        }
    }

    /// Free bytes as levels are held against: none before the first sample.
    pub(super) fn free(&self, now: Duration) -> Option<u64> {
        let space = self.sample?.space;
        let more = self.reclaimable.saturating_add(self.unseen(now));
        let free = space.available.saturating_add(more).saturating_sub(self.debited());
        Some(free.min(space.total))
    }

    /// Free inodes: none before the first sample, or where they are not counted.
    pub(super) fn free_inodes(&self) -> Option<u64> {
        let space = self.sample?.space;
        let files = self.debits.iter().fold(0, |sum: u64, debit| sum.saturating_add(debit.files));
        (space.inodes > 0).then(|| space.inodes_available.saturating_sub(files))
    }

    pub(super) fn reclaimable(&self) -> u64 {
        self.reclaimable
    }

    pub(super) fn unseen(&self, now: Duration) -> u64 {
        let released = self.released.iter().filter(|(at, _)| self.counts(*at, now));
        released.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Whether what was released then still counts. While no sample comes it does, as debits do: else the books would run
    /// out for a device on which nothing but a call hangs.
    fn counts(&self, at: Duration, now: Duration) -> bool {
        let since = self.sample.is_some_and(|sample| sample.begun > at);
        !since || now.saturating_sub(at) <= UNSEEN_FOR
    }

    pub(super) fn debited(&self) -> u64 {
        self.debits.iter().fold(0, |sum, debit| sum.saturating_add(debit.bytes))
    }

    /// A file of so many bytes is about to be allocated.
    pub(super) fn debit(&mut self, bytes: u64) {
        if self.debits.len() >= DEBITS_KEPT
            && let Some(first) = self.debits.iter().position(|debit| debit.ended.is_some())
            && let Some(second) =
                self.debits.iter().skip(first + 1).position(|debit| debit.ended.is_some())
        {
            // Into the later of the two: it stays longer. Those that have not ended are as many as makers are at work.
            let Debit { bytes, files, .. } = self.debits[first];
            let into = &mut self.debits[first + 1 + second];
            into.bytes = into.bytes.saturating_add(bytes);
            into.files += files;
            self.debits.remove(first);
        }
        self.debits.push_back(Debit { ended: None, bytes, files: 1 });
    }

    fn going_on(&self, bytes: u64) -> Option<usize> {
        self.debits.iter().position(|debit| debit.ended.is_none() && debit.bytes == bytes)
    }

    /// An allocation of so many bytes has taken them: the next sample shows it.
    pub(super) fn ended(&mut self, bytes: u64) {
        if let Some(at) = self.going_on(bytes) {
            self.debits[at].ended = Some(self.debits_ended);
            self.debits_ended += 1;
        }
    }

    /// An allocation of so many bytes failed.
    pub(super) fn undo(&mut self, bytes: u64) {
        if let Some(at) = self.going_on(bytes) {
            self.debits.remove(at);
        }
    }

    /// So many bytes were deleted, of which `spares` had been reclaimable.
    pub(super) fn release(&mut self, now: Duration, bytes: u64, spares: u64) {
        self.spares_released = self.spares_released.saturating_add(spares);
        // They were counted there.
        self.reclaimable = self.reclaimable.saturating_sub(spares);
        while self.released.front().is_some_and(|(at, _)| !self.counts(*at, now)) {
            self.released.pop_front();
        }
        // With the time of the older one: it counts no longer than that.
        let full = self.released.len() == RELEASES_KEPT;
        match self.released.back_mut().filter(|_| full) {
            Some((_, last)) => *last = last.saturating_add(bytes),
            None => self.released.push_back((now, bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn space(available: u64) -> Space {
        Space { total: 1000, available, inodes: 100, inodes_available: 50, ..Space::default() }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A call that takes no time.
    fn sampled(account: &mut Account, second: u64, available: u64, reclaimable: u64) {
        let mark = account.mark(at(second));
        assert!(account.take(mark, space(available), reclaimable));
    }

    #[test]
    fn a_debit_counts_until_a_sample_whose_call_began_after_its_end() {
        let mut account = Account::default();
        assert_eq!((account.free(at(0)), account.free_inodes()), (None, None));
        sampled(&mut account, 0, 500, 0);
        account.debit(100);
        assert_eq!((account.free(at(0)), account.free_inodes()), (Some(400), Some(49)));
        // A sample in the midst of it may show nothing yet: it must not let two have the same room.
        sampled(&mut account, 0, 500, 0);
        assert_eq!((account.free(at(0)), account.debited()), (Some(400), 100));
        account.ended(100);
        let mark = account.mark(at(1));
        account.debit(10);
        account.take(mark, space(400), 0);
        assert_eq!((account.free(at(1)), account.debited()), (Some(390), 10));
        // The first one is over: nothing of it is given back twice.
        account.undo(100);
        assert_eq!(account.free(at(1)), Some(390));
        account.undo(10);
        assert_eq!((account.free(at(1)), account.free_inodes()), (Some(400), Some(50)));
    }

    #[test]
    fn released_bytes_count_once_whether_a_sample_shows_them_or_not() {
        let mut account = Account::default();
        sampled(&mut account, 0, 500, 200);
        account.release(at(0), 150, 150);
        // From spares, which counted before.
        assert_eq!(account.free(at(0)), Some(700));
        account.release(at(0), 50, 0);
        assert_eq!(account.free(at(0)), Some(750));
        // Shown in part, with a debit between.
        account.debit(30);
        account.ended(30);
        sampled(&mut account, 1, 500 + 120 - 30, 50);
        assert_eq!((account.unseen(at(1)), account.free(at(1))), (80, Some(720)));
        sampled(&mut account, 2, 670, 50);
        assert_eq!((account.unseen(at(2)), account.free(at(2))), (0, Some(720)));
    }

    #[test]
    fn released_bytes_that_never_show_count_for_five_seconds() {
        let mut account = Account::default();
        sampled(&mut account, 0, 500, 0);
        account.release(at(1), 100, 0);
        sampled(&mut account, 2, 500, 0);
        assert_eq!((account.free(at(6)), account.free(at(7))), (Some(600), Some(500)));
    }

    /// A device in a steady state, on which the call for free space hangs: as much is released as is taken.
    #[test]
    fn without_samples_the_books_do_not_run_out() {
        let mut account = Account::default();
        sampled(&mut account, 0, 500, 0);
        for second in 1..1_000 {
            account.debit(10);
            account.ended(10);
            account.release(at(second), 10, 0);
            assert_eq!(account.free(at(second)), Some(500), "after {second} s");
        }
        sampled(&mut account, 1_001, 500, 0);
        assert_eq!(account.free(at(1_007)), Some(500));
    }

    #[test]
    fn spares_released_while_the_call_ran_count_once() {
        let mut account = Account::default();
        sampled(&mut account, 0, 500, 200);
        let mark = account.mark(at(1));
        account.release(at(1), 200, 200);
        // The call saw nothing of it, and what it was told of spares is from before.
        account.take(mark, space(500), 200);
        assert_eq!((account.reclaimable(), account.free(at(1))), (0, Some(700)));
    }

    #[test]
    fn of_two_calls_at_a_time_the_later_counts() {
        let mut account = Account::default();
        let hanging = account.mark(at(0));
        sampled(&mut account, 3, 400, 0);
        assert!(!account.take(hanging, space(900), 0));
        assert_eq!(account.free(at(3)), Some(400));
    }

    #[test]
    fn a_call_that_lies_makes_no_more_free_than_there_is() {
        let mut account = Account::default();
        let mark = account.mark(at(0));
        let lie = Space {
            total: 10,
            available: u64::MAX,
            inodes: 5,
            inodes_available: 9,
            ..Space::default()
        };
        account.take(mark, lie, u64::MAX);
        account.release(at(0), u64::MAX, 0);
        account.release(at(0), u64::MAX, 0);
        assert_eq!((account.free(at(0)), account.free_inodes()), (Some(10), Some(5)));
        account.debit(u64::MAX);
        account.debit(u64::MAX);
        assert_eq!(account.free(at(6)), Some(0));
    }

    #[test]
    fn the_books_are_bounded() {
        let mut account = Account::default();
        sampled(&mut account, 0, 1000, 0);
        for _ in 0..10_000 {
            account.debit(1);
            account.ended(1);
            account.release(at(0), 1, 0);
        }
        assert!(account.debits.len() <= DEBITS_KEPT && account.released.len() <= RELEASES_KEPT);
        assert_eq!((account.debited(), account.unseen(at(0))), (10_000, 10_000));
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Allocate(u64),
        Release(u64),
        Sample,
        /// Another process writes.
        Others(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1_u64..50).prop_map(Step::Allocate),
            (1_u64..50).prop_map(Step::Release),
            Just(Step::Sample),
            (1_u64..20).prop_map(Step::Others),
        ]
    }

    proptest! {
        /// On a file system that gives space back at once, the books are never above the truth by more than what others
        /// wrote in the meantime.
        #[test]
        fn the_books_never_show_more_than_there_is(steps in prop::collection::vec(step(), 0..60)) {
            let mut account = Account::default();
            let (mut free, mut others) = (500_u64, 0);
            let total = 1_000_000;
            let of = |available| Space { total, available, ..Space::default() };
            let mark = account.mark(at(0));
            account.take(mark, of(free), 0);
            for step in steps {
                match step {
                    Step::Allocate(bytes) if bytes <= free => {
                        account.debit(bytes);
                        account.ended(bytes);
                        free -= bytes;
                    }
                    Step::Release(bytes) => {
                        free += bytes;
                        account.release(at(0), bytes, 0);
                    }
                    Step::Sample => {
                        let mark = account.mark(at(0));
                        account.take(mark, of(free), 0);
                    }
                    Step::Others(bytes) if bytes <= free => {
                        free -= bytes;
                        others += bytes;
                    }
                    Step::Allocate(_) | Step::Others(_) => {}
                }
                let shown = account.free(at(0)).unwrap_or(0);
                prop_assert!(shown <= free + others, "{shown} shown, {free} free");
                prop_assert!(others > 0 || shown == free, "{shown} shown, {free} free");
            }
        }
    }
}
