//! A queue as a list of all messages that were ever published to it, each with its whole story. Slow, and plain.

use super::bench::seq_at;
use crate::api::{Band, Counts, Settled, Verb};
use crate::event::{DeadReason, DeliveryId, Place};
use crate::state::{Frame, HAND_OFF_MS, Next, Queue};
use plimsoll::Offset;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Is {
    Fresh,
    /// Passed over, or purged before it was delivered.
    Passed,
    Leased {
        until: u64,
    },
    /// Its last lease has ended, and its owner was told.
    Exhausted,
    /// Its lease has ended; `told` if an event or a snapshot says so.
    Late {
        told: bool,
    },
    Returned,
    Untouched,
    Dead(DeadReason),
    /// By its last delivery.
    Acked,
    Purged,
    DeadPurged(DeadReason),
}

/// A lease as it is written: boot, since when, for how long.
pub(super) type Written = (u64, u64, u64);

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) place: Place,
    pub(super) bytes: u32,
    pub(super) readable: bool,
    pub(super) is: Is,
    /// Of each delivery that counts, whether it was given back.
    pub(super) deliveries: Vec<bool>,
    pub(super) first_ms: u64,
    pub(super) consumer: Option<&'static str>,
    /// What is written of its lease.
    pub(super) written: Written,
    /// What counts of it in this boot.
    pub(super) since: u64,
    /// As it was when the snapshot that is being written began.
    pub(super) begun: Option<(Written, u64, bool, usize)>,
}

impl Message {
    pub(super) fn attempts(&self) -> u32 {
        u32::try_from(self.deliveries.len()).unwrap()
    }

    pub(super) fn last(&self) -> DeliveryId {
        DeliveryId { seq: seq_at(self.place), place: self.place, attempt: self.attempts() }
    }

    pub(super) fn in_flight(&self) -> bool {
        matches!(self.is, Is::Leased { .. } | Is::Exhausted)
    }

    pub(super) fn again(&self) -> bool {
        matches!(self.is, Is::Late { .. } | Is::Returned | Is::Untouched)
    }

    pub(super) fn held(&self) -> bool {
        self.in_flight() || matches!(self.is, Is::Late { .. })
    }

    fn stays(&self) -> bool {
        self.in_flight() || self.again() || matches!(self.is, Is::Dead(_))
    }

    pub(super) fn deliver(&mut self, frame: Frame, wall_ms: u64, lease: u64) {
        self.deliveries.push(false);
        if self.deliveries.len() == 1 {
            self.first_ms = wall_ms;
        }
        self.lease(frame, lease);
    }

    pub(super) fn lease(&mut self, frame: Frame, lease: u64) {
        self.written = (frame.boot, frame.now_ms, lease);
        self.since = frame.now_ms;
        self.is = Is::Leased { until: frame.now_ms + lease + HAND_OFF_MS };
    }

    pub(super) fn undo(&mut self) {
        self.deliveries.pop();
        self.is = match self.deliveries.last() {
            None => Is::Untouched,
            Some(true) => Is::Returned,
            Some(false) => Is::Late { told: true },
        };
    }

    /// The broker starts again.
    pub(super) fn restart(&mut self, frame: Frame) {
        let (boot, since, lease) = self.written;
        if self.in_flight() || self.is == (Is::Late { told: false }) {
            let same = boot == frame.boot;
            self.since = if same { since } else { frame.now_ms };
            let until = self.since + lease + if same { HAND_OFF_MS } else { 0 };
            self.is = Is::Leased { until };
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) messages: Vec<Message>,
    pub(super) paused: bool,
    pub(super) max_attempts: u32,
    /// Bytes that were passed over in each band, and still count.
    pub(super) passed: [u64; Band::COUNT],
    /// First offset that events, or the last snapshot, do not say is passed.
    pub(super) durable: [u64; Band::COUNT],
    pub(super) begun: [u64; Band::COUNT],
}

pub(super) fn index(band: Band) -> usize {
    usize::from(band.get())
}

impl Model {
    pub(super) fn of(&self, band: Band) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.place.band == band)
    }

    pub(super) fn at(&mut self, place: Place) -> &mut Message {
        self.messages.iter_mut().find(|message| message.place == place).unwrap()
    }

    pub(super) fn bands(&self) -> Vec<Band> {
        let all = (0..10).rev().filter_map(Band::new);
        all.filter(|band| self.of(*band).next().is_some()).collect()
    }

    pub(super) fn end(&self, band: Band) -> u64 {
        self.of(band).count() as u64
    }

    pub(super) fn total(&self, band: Band) -> u64 {
        self.of(band).map(|message| u64::from(message.bytes)).sum()
    }

    pub(super) fn cursor(&self, band: Band) -> u64 {
        self.of(band).filter(|message| message.is != Is::Fresh).count() as u64
    }

    pub(super) fn bytes_before(&self, band: Band) -> u64 {
        let taken = self.of(band).filter(|message| message.is != Is::Fresh);
        taken.map(|message| u64::from(message.bytes)).sum()
    }

    fn sum(&self, which: impl Fn(&&Message) -> bool) -> u64 {
        self.messages.iter().filter(which).count() as u64
    }

    pub(super) fn counts(&self) -> Counts {
        let again = self.sum(|message| message.again());
        Counts {
            ready: again + self.sum(|message| message.is == Is::Fresh),
            in_flight: self.sum(|message| message.in_flight()),
            redelivered: again - self.sum(|message| message.is == Is::Untouched),
            dead: self.sum(|message| matches!(message.is, Is::Dead(_))),
        }
    }

    fn bytes(&self) -> u64 {
        let stays = self.messages.iter().filter(|message| message.stays());
        let live: u64 = stays.map(|message| u64::from(message.bytes)).sum();
        let fresh = |band: Band| {
            let left = self.total(band) - self.bytes_before(band);
            if left == 0 { 0 } else { left + self.passed[index(band)] }
        };
        live + self.bands().into_iter().map(fresh).sum::<u64>()
    }

    /// The messages that come next; those that cannot be read take a place among `max`.
    pub(super) fn next(&self, max: usize) -> Vec<&Message> {
        let order = |band| {
            let again = self.of(band).filter(|message| message.again());
            again.chain(self.of(band).filter(|message| message.is == Is::Fresh))
        };
        self.bands().into_iter().flat_map(order).take(max).collect()
    }

    pub(super) fn settle(&self, verb: Verb, id: &DeliveryId) -> Settled {
        let message = self.messages.iter().find(|message| message.place == id.place).unwrap();
        let fate = message.is;
        if matches!(fate, Is::Fresh) {
            return Settled::Foreign;
        }
        if id.attempt != message.attempts() {
            return Settled::Gone;
        }
        match (fate, verb) {
            (Is::Leased { .. }, _) => Settled::Done,
            (_, Verb::Extend(_)) => Settled::Gone,
            (Is::Exhausted | Is::Late { .. }, _) => Settled::Late,
            (Is::Acked, Verb::Ack) | (Is::Returned, Verb::Nack) => Settled::Already,
            (Is::Dead(reason) | Is::DeadPurged(reason), verb) => match (reason, verb) {
                (DeadReason::Attempts, Verb::Nack) | (DeadReason::Rejected, Verb::Reject) => {
                    Settled::Already
                }
                _ => Settled::Gone,
            },
            _ => Settled::Gone,
        }
    }

    /// The state says in everything what the model says.
    pub(super) fn compare(&self, queue: &Queue, receipts: &[DeliveryId]) {
        assert_eq!(queue.counts(), self.counts());
        assert_eq!(queue.bytes(), self.bytes());
        assert_eq!(queue.paused(), self.paused);
        assert_eq!(queue.bands().map(|(band, _)| band).collect::<Vec<_>>(), self.bands());
        for band in self.bands() {
            assert_eq!(queue.cursor(band), Offset(self.cursor(band)));
            let stays = self.of(band).find(|message| message.stays() || message.is == Is::Fresh);
            let floor = stays.map_or(Offset(self.end(band)), |message| message.place.offset);
            assert_eq!(queue.floor(band), floor);
        }
        for name in [None, Some("a"), Some("b")] {
            let count = self.sum(|message| message.in_flight() && message.consumer == name);
            let name = name.map(|name| crate::name::ConsumerName::new(name).unwrap());
            assert_eq!(queue.in_flight_of(name.as_ref()), count);
        }
        let ends = self.messages.iter().filter_map(|message| match message.is {
            Is::Leased { until } if until < u64::MAX => Some(until),
            _ => None,
        });
        assert_eq!(queue.next_deadline(), ends.min());
        let mut dead: Vec<_> = (self.messages.iter())
            .filter_map(|message| match message.is {
                Is::Dead(reason) => Some((message.place, reason, message.attempts())),
                _ => None,
            })
            .collect();
        dead.sort_by_key(|dead| dead.0);
        let told = queue.dead(usize::MAX);
        let told: Vec<_> =
            told.iter().map(|dead| (dead.place, dead.reason, dead.attempts)).collect();
        assert_eq!(told, dead);
        for max in [1, 3, usize::MAX] {
            self.compare_plan(&queue.plan(max), max);
        }
        for id in receipts {
            for verb in [Verb::Ack, Verb::Nack, Verb::Reject, Verb::Extend(Default::default())] {
                assert_eq!(queue.settle(verb, id), self.settle(verb, id), "{verb:?} of {id:?}");
            }
        }
    }

    fn compare_plan(&self, plan: &[Next], max: usize) {
        let mut want = self.next(max).into_iter();
        for next in plan {
            match next {
                Next::Again(ready) => {
                    let message = want.next().unwrap();
                    let attempt = message.attempts() + 1;
                    assert_eq!(ready.id, DeliveryId { attempt, ..message.last() });
                    assert_eq!(ready.bytes, message.bytes);
                    let first = (attempt > 1).then_some(message.first_ms);
                    assert_eq!(ready.first_delivered_ms, first);
                }
                Next::Fresh { band, from, to } => {
                    for offset in from.0..to.0 {
                        let message = want.next().unwrap();
                        assert_eq!(message.is, Is::Fresh);
                        let place = Place { band: *band, offset: Offset(offset) };
                        assert_eq!(message.place, place);
                    }
                }
            }
        }
        assert!(want.next().is_none(), "the plan is too short");
    }
}
