//! A shard with one queue, driven as its owner drives it: every event goes through its bytes.

use crate::api::{Band, Counts, QueueId, QueueSettings, Seq, Settled, Verb};
use crate::event::{self, DeliveredItem, DeliveryId, End, Entry, Event, Place, Stamp};
use crate::name::ConsumerName;
use crate::state::index::Index;
use crate::state::shard::Sums;
use crate::state::{Frame, Next, Queue, QueueMut, Replay, Shard};
use plimsoll::Offset;
use std::collections::BTreeMap;

pub(super) const QUEUE: QueueId = QueueId(7);
pub(super) const LOW: Band = Band::DEFAULT;
/// What each message of the bench weighs, and how long it is leased.
pub(super) const SIZE: u32 = 100;
pub(super) const LEASE: u64 = 1_000;

pub(super) fn high() -> Band {
    Band::new(9).unwrap()
}

/// The number of the message at a place.
pub(super) fn seq_at(place: Place) -> Seq {
    Seq(place.offset.0 * 10 + u64::from(place.band.get()))
}

pub(super) fn id(band: Band, offset: u64, attempt: u32) -> DeliveryId {
    let place = Place { band, offset: Offset(offset) };
    DeliveryId { seq: seq_at(place), place, attempt }
}

pub(super) struct Bench {
    pub(super) shard: Shard,
    pub(super) frame: Frame,
    pub(super) log: Vec<Entry>,
    pub(super) settings: QueueSettings,
}

impl Bench {
    pub(super) fn new() -> Self {
        let settings = QueueSettings { max_attempts: 3, ..QueueSettings::default() };
        let mut shard = Shard::new();
        shard.add(QUEUE, &settings);
        Self { shard, frame: Frame { boot: 1, now_ms: 10_000 }, log: Vec::new(), settings }
    }

    /// With so many messages in the default band.
    pub(super) fn with(count: u64) -> Self {
        let mut bench = Self::new();
        bench.publish(LOW, count);
        bench
    }

    pub(super) fn queue(&self) -> &Queue {
        self.shard.queue(QUEUE).unwrap()
    }

    pub(super) fn queue_mut(&mut self) -> QueueMut<'_> {
        self.shard.queue_mut(QUEUE).unwrap()
    }

    pub(super) fn counts(&self) -> Counts {
        self.queue().counts()
    }

    pub(super) fn publish(&mut self, band: Band, count: u64) {
        let end = self.queue().band(band).map_or(0, |band| band.end().0) + count;
        let next = Seq(end * 10 + 10);
        self.queue_mut().confirmed(band, Offset(end), end * u64::from(SIZE), next);
    }

    pub(super) fn at(&self) -> Stamp {
        let Frame { boot, now_ms } = self.frame;
        Stamp { boot, boot_ms: now_ms, wall_ms: 1_000_000 + now_ms }
    }

    pub(super) fn apply(&mut self, event: Event) {
        let mut bytes = Vec::new();
        event::encode(&event, &mut bytes);
        assert_eq!(event::decode(&bytes).as_ref(), Ok(&event));
        self.shard.apply(&event, &self.frame);
        self.log.push(Entry::Event(event));
        audit(&self.shard);
    }

    pub(super) fn deliver(&mut self, ids: &[DeliveryId], consumer: Option<&str>) {
        let items = ids.iter().map(|id| DeliveredItem { id: *id, bytes: SIZE }).collect();
        self.apply(Event::Delivered {
            queue: QUEUE,
            at: self.at(),
            lease_ms: LEASE,
            consumer: consumer.map(|name| ConsumerName::new(name).unwrap()),
            next_seq: self.queue().next_seq(),
            items,
        });
    }

    /// What is to be delivered next.
    pub(super) fn planned(&self, max: usize) -> Vec<DeliveryId> {
        let each = |next| match next {
            Next::Again(ready) => vec![ready.id],
            Next::Fresh { band, from, to } => {
                (from.0..to.0).map(|offset| id(band, offset, 1)).collect()
            }
        };
        self.queue().plan(max).into_iter().flat_map(each).collect()
    }

    pub(super) fn take(&mut self, max: usize) -> Vec<DeliveryId> {
        let ids = self.planned(max);
        self.deliver(&ids, None);
        ids
    }

    pub(super) fn end(&mut self, id: DeliveryId, end: End) {
        self.apply(Event::Ended { queue: QUEUE, end, items: vec![id] });
    }

    /// As an owner settles: asks, and writes what is to be.
    pub(super) fn settle(&mut self, verb: Verb, id: DeliveryId) -> Settled {
        let batch = self.queue().settle_all(verb, &[id]);
        for (end, items) in batch.ends {
            self.apply(Event::Ended { queue: QUEUE, end, items });
        }
        if let (Verb::Extend(lease), items @ [_]) = (verb, &batch.extended[..]) {
            let lease_ms = u64::try_from(lease.as_millis()).unwrap();
            let items = items.to_vec();
            self.apply(Event::Extended { queue: QUEUE, at: self.at(), lease_ms, items });
        }
        batch.answers[0]
    }

    /// Lets time pass, and ends all leases that have run out.
    pub(super) fn expire_after(&mut self, ms: u64) -> crate::state::Expired {
        self.frame.now_ms += ms;
        let now = self.frame.now_ms;
        let expired = self.queue_mut().expire(now, usize::MAX);
        audit(&self.shard);
        expired
    }

    pub(super) fn purge(&mut self, dead: bool) {
        for event in self.queue().plan_purge(QUEUE, dead) {
            self.apply(event);
        }
    }

    /// The shard as a start with this frame finds it.
    pub(super) fn replayed(&self, frame: Frame) -> Shard {
        let catalogue = BTreeMap::from([(QUEUE, self.settings.clone())]);
        let mut replay = Replay::new(catalogue, frame);
        for entry in &self.log {
            replay.take(entry.clone()).unwrap();
        }
        let mut shard = replay.finish();
        for (band, state) in self.queue().bands() {
            let next = self.queue().next_seq();
            let mut queue = shard.queue_mut(QUEUE).unwrap();
            queue.confirmed(band, state.end(), state.total(), next);
        }
        audit(&shard);
        shard
    }

    pub(super) fn restart(&mut self, frame: Frame) {
        self.shard = self.replayed(frame);
        self.frame = frame;
    }
}

/// All orders and sums are what a walk through everything finds.
pub(super) fn audit(shard: &Shard) {
    for (_, queue) in shard.queues() {
        let mut index = Index::default();
        for (place, live) in &queue.live {
            index.link(*place, live);
            assert!(place.offset < queue.cursor(place.band), "an entry at or beyond the cursor");
        }
        assert_eq!(index, queue.index);
    }
    assert_eq!(Sums::over(shard.queues()), shard.sums);
    let remembered: usize = shard.queues().map(|(_, queue)| queue.finished.len()).sum();
    assert_eq!(remembered, shard.finished.len());
}
