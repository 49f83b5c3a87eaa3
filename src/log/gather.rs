//! Whether the next commit waits for the writers that the last one released. Decides only; who waits is a ticket's matter.

use std::time::Duration;

/// The longest time that a commit waits for them.
const MAX: Duration = Duration::from_millis(2);

/// Writers just released come back a moment later. Where they all share the next commit they do not make two halves that
/// alternate. But two halves keep the device busy all the time, so that waiting is a gain only where writers are back much
/// sooner than a sync takes.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// Writers that the last commit released and that have not come back yet.
    returning: u32,
    /// When it released them.
    released_at: Duration,
    /// Smoothed time until the last of them was back; `None` until that was seen.
    usual: Option<Duration>,
    /// Until when the next commit waits for them, if somebody sees to it that it waits no longer.
    until: Option<Duration>,
}

impl Gather {
    /// A commit released so many writers at `now`.
    pub(crate) fn released(&mut self, writers: u32, now: Duration) {
        (self.returning, self.released_at) = (writers, now);
    }

    /// A commit begins: what was waited for is over.
    pub(crate) fn commit_begins(&mut self) {
        self.until = None;
    }

    /// Somebody appends, perhaps a writer that was released. `now` is asked for only where it counts.
    pub(crate) fn came_back(&mut self, sync_time: Duration, now: impl FnOnce() -> Duration) {
        if self.returning == 0 {
            return;
        }
        self.returning -= 1;
        if self.returning == 0 {
            // Whoever was away for longer than a commit takes did not come back, but came anew: one long pause is not to
            // count for the next hundred commits.
            let took = now().saturating_sub(self.released_at).min(sync_time);
            let before = self.usual.unwrap_or(took);
            self.usual = Some((before * 7 + took) / 8);
        }
    }

    /// How long whoever could lead a commit now waits instead; `None` if it leads. The last writer that is back leads at
    /// once: nobody is woken for it. Not for a single writer: it is back when its own append leads.
    pub(crate) fn waits(
        &mut self,
        sync_time: Duration,
        now: impl FnOnce() -> Duration,
    ) -> Option<Duration> {
        let usual = self.usual.filter(|usual| self.returning > 0 && *usual * 2 <= sync_time)?;
        let now = now();
        let most = (usual * 2).max(sync_time / 8).min(MAX);
        let until = *self.until.get_or_insert(now + most);
        let left = until.checked_sub(now).filter(|left| !left.is_zero());
        if left.is_none() {
            // They have something else to do: a few such waits, and none is made any more.
            self.usual = Some((usual * 2).min(sync_time));
            (self.returning, self.until) = (0, None);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_millis(2);

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// Four writers that are all back `after` their release, some times.
    fn of_writers(sync_time: Duration, after: Duration) -> Gather {
        let mut gather = Gather::default();
        for _ in 0..20 {
            gather.released(4, micros(0));
            (0..4).for_each(|_| gather.came_back(sync_time, || after));
        }
        gather.released(4, micros(0));
        gather
    }

    #[test]
    fn waits_for_writers_that_are_back_soon_until_the_last_one_is() {
        let mut gather = of_writers(SYNC, micros(100));
        assert_eq!(gather.waits(SYNC, || micros(10)), Some(SYNC / 8));
        assert_eq!(gather.waits(SYNC, || micros(60)), Some(SYNC / 8 - micros(50)), "no later");
        (0..3).for_each(|_| gather.came_back(SYNC, || micros(80)));
        assert!(gather.waits(SYNC, || micros(80)).is_some());
        gather.came_back(SYNC, || micros(90));
        assert_eq!(gather.waits(SYNC, || micros(90)), None, "the last one leads");
    }

    #[test]
    fn waits_for_nobody_before_it_was_seen_that_they_come_back() {
        let mut gather = Gather::default();
        gather.released(4, micros(0));
        assert_eq!(gather.waits(SYNC, || micros(1)), None);
    }

    #[test]
    fn does_not_wait_where_a_sync_is_as_fast_as_the_writers() {
        assert_eq!(of_writers(micros(90), micros(60)).waits(micros(90), || micros(1)), None);
        assert!(of_writers(micros(90), micros(20)).waits(micros(90), || micros(1)).is_some());
    }

    #[test]
    fn writers_that_stay_away_are_waited_for_a_few_times_only() {
        let mut gather = of_writers(SYNC, micros(100));
        let mut waits = 0;
        while gather.waits(SYNC, || micros(0)).is_some() {
            assert_eq!(gather.waits(SYNC, || SYNC), None, "not for longer than it was said");
            gather.released(4, micros(0));
            waits += 1;
        }
        assert!((1..10).contains(&waits), "{waits}");
    }

    #[test]
    fn one_long_pause_does_not_count_for_long() {
        let mut gather = of_writers(SYNC, micros(100));
        (0..4).for_each(|_| gather.came_back(SYNC, || Duration::from_secs(3600)));
        gather.released(4, micros(0));
        assert!(gather.waits(SYNC, || micros(1)).is_some());
    }

    #[test]
    fn never_waits_longer_than_its_bound() {
        let slow = Duration::from_secs(1);
        let mut gather = of_writers(slow, Duration::from_millis(400));
        assert_eq!(gather.waits(slow, || micros(0)), Some(MAX));
    }
}
