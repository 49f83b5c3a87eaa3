//! Idempotency: which keys were published lately, and with what content. One index for each shard; pure.
//!
//! A key is claimed when its message is about to be appended, and is marked only when the message is stored: a publish that
//! is refused gives its claim back and leaves no trace (Q2). A mark lives as long as the window says, in boot time, so that
//! a step of the wall clock changes nothing. There is a limit on memory: when it is reached the oldest marks leave before
//! their time, which is counted.
//!
//! A mark's truth is the message's own record. When that is freed while the mark lives, the mark is *carried*: written to the
//! shard's marks log first.

mod carry;
mod digest;
mod store;
#[cfg(test)]
mod tests;

pub use carry::{BadMarks, CarriedMark, CarriedMarks, RECORD_MAX, VERSION, decode, encode};
pub use digest::Digests;
pub use store::MARK_BYTES;

use crate::api::{Band, QueueId, Seq, StoredMessage};
use crate::boot;
use crate::event::{Place, Stamp};
use plimsoll::Offset;
use store::{Entry, State, Store};

/// What is known of a message that was published with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The hash of its content, see [`Digests::content`].
    pub content: u64,
    /// Its number.
    pub seq: Seq,
    /// Its size by the one rule.
    pub bytes: u32,
    /// Where its record is.
    pub place: Place,
}

impl Mark {
    /// Of a message that is stored there.
    #[must_use]
    pub fn of(digests: Digests, message: &StoredMessage, place: Place) -> Self {
        Self {
            content: digests.content(&message.content),
            seq: message.seq,
            bytes: u32::try_from(message.content.size()).unwrap_or(u32::MAX),
            place,
        }
    }
}

/// What a publish with a key meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing: it may be claimed.
    New,
    /// Another publish with the same key, whose outcome is not known yet: wait for it, and look again.
    InProgress,
    /// It is stored, with this content.
    Stored {
        /// Its number.
        seq: Seq,
        /// Its size.
        bytes: u64,
    },
    /// The key was used for other content, in this message.
    OtherContent(Seq),
}

/// The marks of one shard.
#[derive(Debug)]
pub struct Marks {
    digests: Digests,
    store: Store,
    window_ms: u64,
    max_bytes: usize,
    dropped: u64,
}

impl Marks {
    /// No marks yet. `key` is the broker's secret, the same after every start. Marks live for `window_ms`. They and claims
    /// take at most `max_bytes` of memory, each counted with [`MARK_BYTES`]; a claim is never refused nor dropped, as claims
    /// are no more than the publishes under way.
    #[must_use]
    pub fn new(key: [u8; 16], max_bytes: usize, window_ms: u64) -> Self {
        let digests = Digests::new(key);
        Self { digests, store: Store::default(), window_ms, max_bytes, dropped: 0 }
    }

    /// Changes how much memory they may take; what is over it leaves with the next mark.
    pub const fn set_max_bytes(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
    }

    /// The hashes that this index is kept in; for hashing contents elsewhere than where the index is.
    #[must_use]
    pub const fn digests(&self) -> Digests {
        self.digests
    }

    /// What a publish with this key and content meets. `now` is boot time in milliseconds, here as everywhere.
    #[must_use]
    pub fn look(&self, queue: QueueId, key: &str, content: u64, now: u64) -> Look {
        match self.store.get(self.digests.key(queue, key)).map(|entry| entry.state) {
            Some(State::Claimed) => Look::InProgress,
            // Not swept yet, but over all the same: the window is what was promised, not the sweep.
            Some(State::Stored { expires, .. }) if expires <= now => Look::New,
            Some(State::Stored { mark, .. }) if mark.content == content => {
                Look::Stored { seq: mark.seq, bytes: mark.bytes.into() }
            }
            Some(State::Stored { mark, .. }) => Look::OtherContent(mark.seq),
            None => Look::New,
        }
    }

    /// Claims a key that [`Marks::look`] found new. It is to be given back with [`Marks::release`], or to become a mark with
    /// [`Marks::stored`].
    pub fn claim(&mut self, queue: QueueId, key: &str) {
        let id = self.digests.key(queue, key);
        self.store.insert(Entry { id, queue, state: State::Claimed });
    }

    /// Gives a claim back: the publish was refused, and the key is as new. Changes nothing for a key that is not claimed.
    pub fn release(&mut self, queue: QueueId, key: &str) {
        let id = self.digests.key(queue, key);
        if self.store.get(id).is_some_and(|entry| entry.state == State::Claimed) {
            self.store.remove(id);
        }
    }

    /// The message is durable: its key is marked from now on.
    pub fn stored(&mut self, queue: QueueId, key: &str, mark: Mark, now: u64) {
        self.put(
            self.digests.key(queue, key),
            queue,
            mark,
            false,
            now.saturating_add(self.window_ms),
        );
    }

    /// Forgets the marks whose time is over.
    pub fn expire(&mut self, now: u64) {
        self.store.expire(now);
    }

    /// When the next mark's time is over, if there is one: [`Marks::expire`] need not be called before.
    #[must_use]
    pub fn next_expiry(&self) -> Option<u64> {
        self.store.next_expiry()
    }

    /// Forgets what belongs to a queue that is deleted, claims too. Looks at all marks.
    pub fn remove_queue(&mut self, queue: QueueId) {
        self.store.remove_queue(queue);
    }

    /// The live marks whose messages' records lie before `before`, in the order of these, and are not in the marks log yet:
    /// to be written there, see [`encode`], before the log is freed up to there.
    #[must_use]
    pub fn carry(&self, queue: QueueId, band: Band, before: Offset, now: u64) -> Vec<CarriedMark> {
        let live = |entry: Entry| match entry.state {
            State::Stored { mark, expires, .. } if expires > now => {
                let age_ms = self.window_ms.saturating_sub(expires - now);
                Some(CarriedMark { id: entry.id, queue, mark, age_ms })
            }
            _ => None,
        };
        self.store.uncarried(queue, band, before).filter_map(live).collect()
    }

    /// These are durable in the marks log, and need not be carried again.
    pub fn carried(&mut self, marks: &[CarriedMark]) {
        marks.iter().for_each(|carried| self.store.set_carried(carried.id, carried.mark.seq));
    }

    /// At load: a mark from the marks log, see [`decode`]; `at` is its record's stamp. Not for queues that are deleted.
    pub fn restore_carried(&mut self, at: &Stamp, carried: &CarriedMark, now: &Stamp) {
        let passed = boot::elapsed_ms(at, now, self.window_ms);
        let age = carried.age_ms.saturating_add(passed);
        self.restore(carried.id, carried.queue, carried.mark, true, age, now);
    }

    /// At load: a mark from the message's own record, with that record's wall-clock time, which is all there is: see
    /// [`boot::elapsed_ms`].
    pub fn restore_message(
        &mut self,
        queue: QueueId,
        key: &str,
        mark: Mark,
        published_ms: u64,
        now: &Stamp,
    ) {
        let at = Stamp { boot: boot::UNKNOWN, boot_ms: 0, wall_ms: published_ms };
        let age = boot::elapsed_ms(&at, now, self.window_ms);
        self.restore(self.digests.key(queue, key), queue, mark, false, age, now);
    }

    fn restore(
        &mut self,
        id: u128,
        queue: QueueId,
        mark: Mark,
        carried: bool,
        age: u64,
        now: &Stamp,
    ) {
        let left = self.window_ms.saturating_sub(age);
        if left == 0 {
            return;
        }
        if let Some(State::Stored { mark: old, carried: was, .. }) =
            self.store.get(id).map(|entry| entry.state)
        {
            // A key whose time was over may have been used again: the later message is the one that counts. Of one message
            // that is found twice, what was carried knows its age better, as it has a boot time.
            if old.seq > mark.seq || (old.seq == mark.seq && (was || !carried)) {
                return;
            }
        }
        self.put(id, queue, mark, carried, now.boot_ms.saturating_add(left));
    }

    fn put(&mut self, id: u128, queue: QueueId, mark: Mark, carried: bool, expires: u64) {
        self.store.insert(Entry { id, queue, state: State::Stored { mark, carried, expires } });
        while self.store.cost() > self.max_bytes && self.store.remove_oldest() {
            self.dropped += 1;
        }
    }

    /// How many marks left before their time for want of room.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How many marks there are, without claims.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.store.marks()
    }

    /// There is no mark.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.store.marks() == 0
    }

    /// Bytes of memory that it takes now, what is reserved included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.store.bytes()
    }
}
