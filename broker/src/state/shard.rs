//! All queues of a shard.

use super::Frame;
use super::queue::Queue;
use crate::api::{Counts, QueueId, QueueSettings, Seq};
use crate::event::Event;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Deref, DerefMut};

/// How many finished messages a shard remembers, so that receipts of them are answered by what became of them.
pub const FINISHED_MAX: usize = 16_384;

/// The queues of a shard, and what is known of all of them together.
#[derive(Debug, Default)]
pub struct Shard {
    pub(super) queues: BTreeMap<QueueId, Queue>,
    /// The remembered finished messages, the oldest first; the queues hold what became of them.
    pub(super) finished: VecDeque<(QueueId, Seq)>,
    pub(super) sums: Sums,
    /// The boot that the queues' leases are counted in.
    pub(super) boot: u64,
}

/// What is kept over all queues.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    in_flight: u64,
    deadlines: BTreeSet<(u64, QueueId)>,
}

/// A queue's share in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    in_flight: u64,
    deadline: Option<u64>,
}

impl Share {
    fn of(queue: &Queue) -> Self {
        Self { in_flight: queue.index.in_flight, deadline: queue.next_deadline() }
    }
}

impl Sums {
    #[cfg(test)]
    pub(super) fn over<'a>(queues: impl Iterator<Item = (QueueId, &'a Queue)>) -> Self {
        let mut sums = Self::default();
        queues.for_each(|(id, queue)| sums.change(id, Share::default(), Share::of(queue)));
        sums
    }

    fn change(&mut self, id: QueueId, before: Share, after: Share) {
        self.in_flight = self.in_flight - before.in_flight + after.in_flight;
        if before.deadline != after.deadline {
            if let Some(deadline) = before.deadline {
                self.deadlines.remove(&(deadline, id));
            }
            if let Some(deadline) = after.deadline {
                self.deadlines.insert((deadline, id));
            }
        }
    }
}

/// A queue that may be changed. What the shard knows of it follows when this is dropped.
#[derive(Debug)]
pub struct QueueMut<'a> {
    id: QueueId,
    queue: &'a mut Queue,
    sums: &'a mut Sums,
    before: Share,
}

impl Deref for QueueMut<'_> {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        self.queue
    }
}

impl DerefMut for QueueMut<'_> {
    fn deref_mut(&mut self) -> &mut Queue {
        self.queue
    }
}

impl Drop for QueueMut<'_> {
    fn drop(&mut self) {
        self.sums.change(self.id, self.before, Share::of(self.queue));
    }
}

impl Shard {
    /// Without queues.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a queue of the catalogue. One that is there keeps its state and has these settings.
    pub fn add(&mut self, id: QueueId, settings: &QueueSettings) {
        match self.queues.get_mut(&id) {
            Some(queue) => queue.settings = settings.clone(),
            None => self.put(id, Queue::new(settings)),
        }
    }

    pub(super) fn put(&mut self, id: QueueId, queue: Queue) {
        let after = Share::of(&queue);
        self.queues.insert(id, queue);
        self.sums.change(id, Share::default(), after);
    }

    /// Removes a queue, and says what it held.
    pub fn remove(&mut self, id: QueueId) -> Option<Counts> {
        let queue = self.queues.remove(&id)?;
        self.sums.change(id, Share::of(&queue), Share::default());
        self.finished.retain(|(other, _)| *other != id);
        Some(queue.counts())
    }

    /// A queue.
    #[must_use]
    pub fn queue(&self, id: QueueId) -> Option<&Queue> {
        self.queues.get(&id)
    }

    /// A queue, to be changed.
    #[must_use]
    pub fn queue_mut(&mut self, id: QueueId) -> Option<QueueMut<'_>> {
        let queue = self.queues.get_mut(&id)?;
        let before = Share::of(queue);
        Some(QueueMut { id, queue, sums: &mut self.sums, before })
    }

    /// All queues, by id.
    pub fn queues(&self) -> impl Iterator<Item = (QueueId, &Queue)> {
        self.queues.iter().map(|(id, queue)| (*id, queue))
    }

    /// How many messages of all queues are in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.sums.in_flight
    }

    /// When the next lease of all queues ends, in the boot clock's milliseconds, and whose.
    #[must_use]
    pub fn next_deadline(&self) -> Option<(u64, QueueId)> {
        self.sums.deadlines.first().copied()
    }

    /// Applies an event. One of a queue that is not there, and one that fits nothing, changes nothing.
    pub fn apply(&mut self, event: &Event, frame: &Frame) {
        self.boot = frame.boot;
        let id = event.queue();
        let mut finished = Vec::new();
        if let Some(mut queue) = self.queue_mut(id) {
            queue.apply(event, frame, &mut finished);
        }
        self.remember(finished.into_iter().map(|seq| (id, seq)));
    }

    /// Keeps what the queues know of finished messages bounded: the oldest are forgotten.
    pub(super) fn remember(&mut self, finished: impl Iterator<Item = (QueueId, Seq)>) {
        for entry in finished {
            self.finished.push_back(entry);
            if self.finished.len() > FINISHED_MAX
                && let Some((id, seq)) = self.finished.pop_front()
                && let Some(queue) = self.queues.get_mut(&id)
            {
                queue.finished.remove(&seq);
            }
        }
    }
}
