//! Memory for bodies: taken before a byte is read, given back when the request is done with it.
//!
//! Publishes are refused where it is used up. Everything else waits for its own, smaller share, which only bodies that are
//! bounded in size and time can hold: an acknowledgement is never refused because publishers fill the memory.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What one permit stands for: a semaphore counts in 32 bits.
const UNIT: u64 = 1024;
const PUBLISH_MIN: u64 = 8 << 20;
const PUBLISH_MAX: u64 = 1 << 30;
const OTHERS_MIN: u64 = 1 << 20;

/// See the top of the file.
#[derive(Debug)]
pub(super) struct Budget {
    publish: Share,
    others: Share,
}

#[derive(Debug)]
struct Share {
    free: Arc<Semaphore>,
    max: u32,
}

/// Bytes that are taken; dropping it gives them back.
#[derive(Debug, Default)]
pub(super) struct Hold(Option<OwnedSemaphorePermit>);

/// Whose share a body takes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purse {
    /// Refused when there is none.
    Publish,
    /// Waits.
    Others,
}

impl Share {
    fn new(bytes: u64) -> Self {
        let max = u32::try_from(bytes / UNIT).unwrap_or(u32::MAX >> 4).max(1);
        Self { free: Arc::new(Semaphore::new(max as usize)), max }
    }

    /// Never more than there is at all: a single body may take everything, and none waits for ever.
    fn units(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.max)
    }

    fn bytes_free(&self) -> u64 {
        self.free.available_permits() as u64 * UNIT
    }
}

impl Hold {
    fn add(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.0 {
            Some(held) => held.merge(more),
            None => self.0 = Some(more),
        }
    }

    fn units(&self) -> u32 {
        self.0.as_ref().map_or(0, |held| u32::try_from(held.num_permits()).unwrap_or(u32::MAX))
    }
}

impl Budget {
    /// A budget of `bytes` for publishes, or a tenth of the memory limit, within bounds.
    pub(super) fn new(bytes: Option<u64>, memory_limit: u64) -> Self {
        let bytes = bytes.unwrap_or((memory_limit / 10).clamp(PUBLISH_MIN, PUBLISH_MAX));
        Self { publish: Share::new(bytes), others: Share::new((bytes / 4).max(OTHERS_MIN)) }
    }

    fn share(&self, purse: Purse) -> &Share {
        match purse {
            Purse::Publish => &self.publish,
            Purse::Others => &self.others,
        }
    }

    /// Makes `hold` cover `bytes` in all. `false` where there are none left for a publish; waits for other bodies.
    pub(super) async fn cover(&self, purse: Purse, hold: &mut Hold, bytes: u64) -> bool {
        let share = self.share(purse);
        let missing = share.units(bytes).saturating_sub(hold.units());
        if missing == 0 {
            return true;
        }
        let free = Arc::clone(&share.free);
        let more = match purse {
            Purse::Publish => free.try_acquire_many_owned(missing).ok(),
            // What is held while more is waited for is bounded: a body of these is at most a quarter of the share.
            Purse::Others => free.acquire_many_owned(missing).await.ok(),
        };
        let Some(more) = more else { return false };
        hold.add(more);
        true
    }

    /// Bytes that a publish can take now.
    pub(super) fn free(&self) -> u64 {
        self.publish.bytes_free()
    }

    /// Bytes of the whole share of publishes.
    pub(super) fn max(&self) -> u64 {
        u64::from(self.publish.max) * UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn a_publish_is_refused_where_the_budget_is_used_up_and_an_ack_is_not() {
        let budget = Budget::new(Some(64 << 10), 0);
        let (mut first, mut second, mut ack) = Default::default();
        assert!(budget.cover(Purse::Publish, &mut first, 60 << 10).await);
        assert!(!budget.cover(Purse::Publish, &mut second, 5 << 10).await);
        assert_eq!(budget.free(), 4 << 10);
        // Nothing is held by who was refused.
        assert!(budget.cover(Purse::Publish, &mut second, 4 << 10).await);
        assert!(budget.cover(Purse::Others, &mut ack, 256 << 10).await);
        drop((first, second));
        assert_eq!(budget.free(), budget.max());
    }

    #[tokio::test]
    async fn steps_add_up_to_the_whole_and_not_to_more() {
        let budget = Budget::new(Some(64 << 10), 0);
        let mut hold = Hold::default();
        for bytes in [1, 1024, 1025, 10 << 10, 10 << 10] {
            assert!(budget.cover(Purse::Publish, &mut hold, bytes).await);
        }
        assert_eq!(budget.free(), 54 << 10);
    }

    #[tokio::test]
    async fn other_bodies_wait_for_each_other() {
        let budget = Budget::new(Some(0), 0);
        let (mut first, mut second) = Default::default();
        assert!(budget.cover(Purse::Others, &mut first, 1 << 20).await);
        let waits = budget.cover(Purse::Others, &mut second, 1);
        assert!(timeout(Duration::from_millis(20), waits).await.is_err());
        drop(first);
        assert!(budget.cover(Purse::Others, &mut second, 1).await);
    }

    #[test]
    fn it_is_a_tenth_of_memory_within_bounds() {
        for (limit, bytes) in [(0, 8 << 20), (256 << 20, 26_843_136), (1 << 40, 1 << 30)] {
            assert_eq!(Budget::new(None, limit).max(), bytes, "{limit}");
        }
    }
}
