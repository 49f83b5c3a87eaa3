//! Random commands against the model: each event goes through its bytes, snapshots are written piece by piece between other
//! events, and the shard is loaded again from its log at any time.

use super::bench::audit;
use super::model::{Is, Message, Model, index};
use crate::api::{Band, QueueId, QueueSettings, Seq, Settled, Verb};
use crate::event::{DeadReason, DeliveredItem, DeliveryId, End, Entry, Event, Place, Stamp};
use crate::name::ConsumerName;
use crate::state::{Frame, Replay, Shard};
use plimsoll::Offset;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::collections::VecDeque;
use std::time::Duration;

const QUEUES: usize = 2;

#[derive(Clone, Debug)]
enum Command {
    Publish { band: u8, sizes: Vec<u32>, unreadable: Option<Index> },
    Receive { max: usize, consumer: Option<&'static str>, lease: u64 },
    Settle { verb: Verb, receipts: Vec<Index> },
    HandOff { receipt: Index, lease: u64 },
    Undo { receipt: Index },
    Expire { after: u64, max: usize },
    Bury,
    Unreadable,
    Purge { dead: bool },
    Pause(bool),
    MaxAttempts(u32),
    Snapshot,
    WriteSnapshot,
    Restart { other_boot: bool, after: u64 },
}

struct World {
    shard: Shard,
    frame: Frame,
    models: Vec<Model>,
    receipts: Vec<Vec<DeliveryId>>,
    exhausted: Vec<Vec<DeliveryId>>,
    /// The log's records.
    log: Vec<Vec<u8>>,
    /// Pieces of a snapshot that are not written yet, and where the written ones begin.
    pieces: VecDeque<Entry>,
    begin: usize,
}

fn id_of(queue: usize) -> QueueId {
    QueueId(queue as u64 * 8 + 3)
}

fn settings(model: &Model) -> QueueSettings {
    QueueSettings { max_attempts: model.max_attempts, ..QueueSettings::default() }
}

impl World {
    fn new() -> Self {
        let model = Model { max_attempts: 2, ..Model::default() };
        let mut shard = Shard::new();
        (0..QUEUES).for_each(|queue| shard.add(id_of(queue), &settings(&model)));
        Self {
            shard,
            frame: Frame { boot: 1, now_ms: 1_000 },
            models: vec![model; QUEUES],
            receipts: vec![Vec::new(); QUEUES],
            exhausted: vec![Vec::new(); QUEUES],
            log: Vec::new(),
            pieces: VecDeque::new(),
            begin: 0,
        }
    }

    fn write(&mut self, entry: &Entry) {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        assert_eq!(Entry::decode(&bytes).as_ref(), Ok(entry));
        self.log.push(bytes);
    }

    fn apply(&mut self, event: Event) {
        self.shard.apply(&event, &self.frame);
        self.write(&Entry::Event(event));
    }

    fn at(&self) -> Stamp {
        let Frame { boot, now_ms } = self.frame;
        Stamp { boot, boot_ms: now_ms, wall_ms: boot * 1_000_000 + now_ms }
    }

    fn next_seq(&self, queue: usize) -> Seq {
        self.shard.queue(id_of(queue)).unwrap().next_seq()
    }

    fn pick(&self, queue: usize, receipt: &Index) -> Option<DeliveryId> {
        let receipts = &self.receipts[queue];
        (!receipts.is_empty()).then(|| receipts[receipt.index(receipts.len())])
    }

    fn confirm(&mut self, queue: usize, band: Band) {
        let model = &self.models[queue];
        let (end, total) = (Offset(model.end(band)), model.total(band));
        let next = Seq(end.0 * 10 + 10);
        self.shard.queue_mut(id_of(queue)).unwrap().confirmed(band, end, total, next);
    }

    fn run(&mut self, queue: usize, command: Command) {
        let id = id_of(queue);
        match command {
            Command::Publish { band, sizes, unreadable } => {
                let unreadable = unreadable.map(|at| at.index(sizes.len()));
                self.publish(queue, Band::new(band).unwrap(), &sizes, unreadable);
            }
            Command::Receive { max, consumer, lease } => self.receive(queue, max, consumer, lease),
            Command::Settle { verb, receipts } => self.settle(queue, verb, &receipts),
            Command::HandOff { receipt, lease } => {
                let Some(receipt) = self.pick(queue, &receipt) else { return };
                let until = self.frame.now_ms.saturating_add(lease);
                self.shard.queue_mut(id).unwrap().begin_lease(&receipt, until);
                let message = self.models[queue].at(receipt.place);
                if message.last() == receipt && matches!(message.is, Is::Leased { .. }) {
                    message.is = Is::Leased { until };
                }
            }
            Command::Undo { receipt } => {
                let Some(receipt) = self.pick(queue, &receipt) else { return };
                self.apply(Event::Ended { queue: id, end: End::Undone, items: vec![receipt] });
                let message = self.models[queue].at(receipt.place);
                if message.last() == receipt && message.held() {
                    message.undo();
                    self.receipts[queue].retain(|other| *other != receipt);
                }
            }
            Command::Expire { after, max } => self.expire(queue, after, max),
            Command::Bury => {
                let items = std::mem::take(&mut self.exhausted[queue]);
                let model = &mut self.models[queue];
                for id in &items {
                    let message = model.at(id.place);
                    if message.held() && message.last() == *id {
                        message.is = Is::Dead(DeadReason::Attempts);
                    }
                }
                let end = End::Dead(DeadReason::Attempts);
                self.apply(Event::Ended { queue: id, end, items });
            }
            Command::Unreadable => {
                let model = &mut self.models[queue];
                let again =
                    model.next(1).first().filter(|next| next.again()).map(|next| next.place);
                let Some(place) = again else { return };
                let message = model.at(place);
                message.is = Is::Dead(DeadReason::Unreadable);
                let last = message.last();
                let items = vec![DeliveryId { attempt: last.attempt + 1, ..last }];
                let end = End::Dead(DeadReason::Unreadable);
                self.apply(Event::Ended { queue: id, end, items });
            }
            Command::Purge { dead } => self.purge(queue, dead),
            Command::Pause(paused) => {
                self.models[queue].paused = paused;
                self.apply(Event::Paused { queue: id, paused });
            }
            Command::MaxAttempts(max) => {
                self.models[queue].max_attempts = max;
                self.shard.add(id, &settings(&self.models[queue]));
            }
            Command::Snapshot => self.snapshot(),
            Command::WriteSnapshot => self.write_piece(),
            Command::Restart { other_boot, after } => self.restart(other_boot, after),
        }
    }

    fn publish(&mut self, queue: usize, band: Band, sizes: &[u32], unreadable: Option<usize>) {
        let model = &mut self.models[queue];
        if model.cursor(band) == model.end(band) {
            model.passed[index(band)] = 0;
        }
        for (nth, bytes) in sizes.iter().enumerate() {
            let place = Place { band, offset: Offset(model.end(band)) };
            model.messages.push(Message {
                place,
                bytes: *bytes,
                readable: unreadable != Some(nth),
                is: Is::Fresh,
                deliveries: Vec::new(),
                first_ms: 0,
                consumer: None,
                written: (0, 0, 0),
                since: 0,
                begun: None,
            });
        }
        self.confirm(queue, band);
    }

    fn receive(&mut self, queue: usize, max: usize, consumer: Option<&'static str>, lease: u64) {
        let at = self.at();
        let frame = self.frame;
        let model = &mut self.models[queue];
        let places: Vec<_> = model.next(max).iter().map(|next| next.place).collect();
        let mut items = Vec::new();
        for place in &places {
            let message = model.at(*place);
            if !message.readable {
                continue;
            }
            message.deliver(frame, at.wall_ms, lease);
            message.consumer = consumer;
            items.push(DeliveredItem { id: message.last(), bytes: message.bytes });
        }
        // What cannot be read is passed: by a delivery behind it, or by the owner that read to the end of the range.
        for band in model.bands() {
            let taken = places.iter().filter(|place| place.band == band);
            let Some(end) = taken.map(|place| place.offset.0 + 1).max() else { continue };
            let delivered = items.iter().filter(|item| item.id.place.band == band);
            let durable = delivered.map(|item| item.id.place.offset.0 + 1).max().unwrap_or(0);
            let slot = &mut model.durable[index(band)];
            *slot = (*slot).max(durable);
            let passed = model.messages.iter_mut().filter(|message| {
                message.place.band == band
                    && message.place.offset.0 < end
                    && message.is == Is::Fresh
            });
            for message in passed {
                message.is = Is::Passed;
                model.passed[index(band)] += u64::from(message.bytes);
            }
        }
        self.receipts[queue].extend(items.iter().map(|item| item.id));
        self.apply(Event::Delivered {
            queue: id_of(queue),
            at,
            lease_ms: lease,
            consumer: consumer.map(|name| ConsumerName::new(name).unwrap()),
            next_seq: self.next_seq(queue),
            items,
        });
        let ends = places.iter().map(|place| (place.band, place.offset.plus(1)));
        for (band, end) in ends {
            self.shard.queue_mut(id_of(queue)).unwrap().skip(band, end);
        }
    }

    fn settle(&mut self, queue: usize, verb: Verb, receipts: &[Index]) {
        let ids: Vec<_> = receipts.iter().filter_map(|at| self.pick(queue, at)).collect();
        let batch = self.shard.queue(id_of(queue)).unwrap().settle_all(verb, &ids);
        let frame = self.frame;
        let model = &mut self.models[queue];
        for (id, answer) in ids.iter().zip(batch.answers) {
            // One after the other, which is what the answers must look like.
            assert_eq!(answer, model.settle(verb, id), "{verb:?} of {id:?}");
            if !matches!(answer, Settled::Done | Settled::Late) {
                continue;
            }
            let last = id.attempt >= model.max_attempts;
            let message = model.at(id.place);
            match verb {
                Verb::Ack => message.is = Is::Acked,
                Verb::Reject => message.is = Is::Dead(DeadReason::Rejected),
                Verb::Nack if last => message.is = Is::Dead(DeadReason::Attempts),
                Verb::Nack => {
                    *message.deliveries.last_mut().unwrap() = true;
                    message.is = Is::Returned;
                }
                Verb::Extend(lease) => {
                    message.lease(frame, u64::try_from(lease.as_millis()).unwrap())
                }
            }
        }
        for (end, items) in batch.ends {
            self.apply(Event::Ended { queue: id_of(queue), end, items });
        }
        if let (Verb::Extend(lease), false) = (verb, batch.extended.is_empty()) {
            let lease_ms = u64::try_from(lease.as_millis()).unwrap();
            let (queue, at, items) = (id_of(queue), self.at(), batch.extended);
            self.apply(Event::Extended { queue, at, lease_ms, items });
        }
    }

    fn expire(&mut self, queue: usize, after: u64, max: usize) {
        self.frame.now_ms += after;
        let now = self.frame.now_ms;
        let model = &mut self.models[queue];
        let mut due: Vec<_> = (model.messages.iter())
            .filter_map(|message| match message.is {
                Is::Leased { until } if until <= now => Some((until, message.last())),
                _ => None,
            })
            .collect();
        due.sort_by_key(|(until, id)| (*until, id.place));
        let (mut ready, mut exhausted) = (Vec::new(), Vec::new());
        for (_, id) in due.into_iter().take(max) {
            let last = id.attempt >= model.max_attempts;
            model.at(id.place).is = if last { Is::Exhausted } else { Is::Late { told: false } };
            if last { exhausted.push(id) } else { ready.push(id) }
        }
        let told = self.shard.queue_mut(id_of(queue)).unwrap().expire(now, max);
        assert_eq!((&told.ready, &told.exhausted), (&ready, &exhausted));
        self.exhausted[queue].extend(told.exhausted);
    }

    fn purge(&mut self, queue: usize, dead: bool) {
        let id = id_of(queue);
        for event in self.shard.queue(id).unwrap().plan_purge(id, dead) {
            self.apply(event);
        }
        let model = &mut self.models[queue];
        for band in model.bands() {
            model.durable[index(band)] = model.end(band);
            model.passed[index(band)] = 0;
        }
        for message in &mut model.messages {
            message.is = match message.is {
                Is::Fresh => Is::Passed,
                Is::Late { .. } | Is::Returned | Is::Untouched => Is::Purged,
                Is::Dead(reason) if dead => Is::DeadPurged(reason),
                other => other,
            };
        }
    }

    fn snapshot(&mut self) {
        let parts = self.shard.snapshot();
        let count = u32::try_from(parts.len()).unwrap();
        self.pieces = VecDeque::from([Entry::SnapshotBegin { parts: count }]);
        self.pieces.extend(parts.into_iter().map(Entry::SnapshotPart));
        self.pieces.push_back(Entry::SnapshotEnd { parts: count });
        for model in &mut self.models {
            for band in model.bands() {
                model.begun[index(band)] = model.cursor(band);
            }
            for message in &mut model.messages {
                let late = matches!(message.is, Is::Late { .. });
                let (was, since) = (message.written, message.since);
                let deliveries = message.deliveries.len();
                message.begun = Some((was, since, late, deliveries));
            }
        }
        // The begin stands where the state is as it says.
        self.begin = self.log.len();
        self.write_piece();
    }

    fn write_piece(&mut self) {
        let Some(piece) = self.pieces.pop_front() else { return };
        self.write(&piece);
        if !matches!(piece, Entry::SnapshotEnd { .. }) {
            return;
        }
        self.log.drain(..self.begin);
        self.begin = 0;
        let boot = self.frame.boot;
        for model in &mut self.models {
            for band in model.bands() {
                let slot = &mut model.durable[index(band)];
                *slot = (*slot).max(model.begun[index(band)]);
            }
            for message in &mut model.messages {
                let Some((was, since, late, deliveries)) = message.begun.take() else { continue };
                // Unless something newer is written of it.
                if message.written == was && message.deliveries.len() == deliveries {
                    message.written = (boot, since, was.2);
                    if late && matches!(message.is, Is::Late { .. }) {
                        message.is = Is::Late { told: true };
                    }
                }
            }
        }
    }

    fn restart(&mut self, other_boot: bool, after: u64) {
        self.frame = if other_boot {
            Frame { boot: self.frame.boot + 1, now_ms: after }
        } else {
            Frame { now_ms: self.frame.now_ms + after, ..self.frame }
        };
        let catalogue = self.models.iter().enumerate();
        let catalogue = catalogue.map(|(queue, model)| (id_of(queue), settings(model)));
        let mut replay = Replay::new(catalogue.collect(), self.frame);
        for bytes in &self.log {
            replay.take(Entry::decode(bytes).unwrap()).unwrap();
        }
        self.shard = replay.finish();
        self.pieces.clear();
        for queue in 0..QUEUES {
            self.exhausted[queue].clear();
            let frame = self.frame;
            let model = &mut self.models[queue];
            for message in &mut model.messages {
                message.begun = None;
                // What was passed over in memory only is tried again.
                let durable = model.durable[index(message.place.band)];
                if message.is == Is::Passed && message.place.offset.0 >= durable {
                    message.is = Is::Fresh;
                }
                message.restart(frame);
            }
            for band in self.models[queue].bands() {
                self.models[queue].passed[index(band)] = 0;
                let consumed = self.models[queue].bytes_before(band);
                self.confirm(queue, band);
                self.shard.queue_mut(id_of(queue)).unwrap().correct(band, consumed);
            }
        }
    }

    fn check(&self) {
        audit(&self.shard);
        for (queue, model) in self.models.iter().enumerate() {
            model.compare(self.shard.queue(id_of(queue)).unwrap(), &self.receipts[queue]);
        }
        let in_flight: u64 = self.models.iter().map(|model| model.counts().in_flight).sum();
        assert_eq!(self.shard.in_flight(), in_flight);
    }
}

fn commands() -> impl Strategy<Value = Command> {
    let receipt = any::<Index>;
    let verb = prop_oneof![
        4 => Just(Verb::Ack),
        4 => Just(Verb::Nack),
        1 => Just(Verb::Reject),
        2 => (0..9_000u64).prop_map(|ms| Verb::Extend(Duration::from_millis(ms))),
    ];
    let consumer = prop_oneof![Just(None), Just(Some("a")), Just(Some("b"))];
    let band = prop_oneof![Just(4u8), Just(4u8), Just(9u8), Just(0u8)];
    let unreadable = proptest::option::weighted(0.2, receipt());
    let lease = prop_oneof![8 => 100..9_000u64, 1 => Just(u64::MAX)];
    prop_oneof![
        6 => (band, vec(1..500u32, 1..5), unreadable)
            .prop_map(|(band, sizes, unreadable)| Command::Publish { band, sizes, unreadable }),
        8 => (1..6usize, consumer, 100..9_000u64)
            .prop_map(|(max, consumer, lease)| Command::Receive { max, consumer, lease }),
        8 => (verb, vec(receipt(), 1..4))
            .prop_map(|(verb, receipts)| Command::Settle { verb, receipts }),
        2 => (receipt(), lease).prop_map(|(receipt, lease)| Command::HandOff { receipt, lease }),
        2 => receipt().prop_map(|receipt| Command::Undo { receipt }),
        4 => (0..20_000u64, 0..6usize).prop_map(|(after, max)| Command::Expire { after, max }),
        2 => Just(Command::Bury),
        1 => Just(Command::Unreadable),
        1 => any::<bool>().prop_map(|dead| Command::Purge { dead }),
        1 => any::<bool>().prop_map(Command::Pause),
        1 => (1..4u32).prop_map(Command::MaxAttempts),
        1 => Just(Command::Snapshot),
        3 => Just(Command::WriteSnapshot),
        2 => (any::<bool>(), 0..9_000u64)
            .prop_map(|(other_boot, after)| Command::Restart { other_boot, after }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn q1_q4_q5_q6_the_state_is_that_of_a_plain_list_of_messages(
        commands in vec((0..QUEUES, commands()), 1..60),
    ) {
        let mut world = World::new();
        for (queue, command) in commands {
            world.run(queue, command);
            world.check();
        }
    }
}
