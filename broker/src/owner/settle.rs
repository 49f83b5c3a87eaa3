//! The ends of deliveries, and what else changes a queue at once: purge, pause, declaration, deletion.

use super::Owner;
use super::command::{Answer, NOTHING};
use super::queue::Runtime;
use crate::api::{Band, Deleted, Fault, Paused, Purged, QueueId, Settled, Verb};
use crate::catalogue::QueueMeta;
use crate::event::{DeadReason, DeliveryId, End, Event};
use crate::state::Batch;

impl Owner {
    /// Settles receipts: one event for each way in which they end, all in one append, and an answer for each.
    pub(super) fn settle(
        &mut self,
        queue: QueueId,
        verb: Verb,
        receipts: &[String],
        answer: Answer<Vec<Settled>>,
    ) {
        let (Some(state), true) = (self.state.queue(queue), self.queues.contains_key(&queue))
        else {
            let _ = answer.send(Err(self.no_queue(queue)));
            return;
        };
        let ids: Vec<Option<DeliveryId>> =
            receipts.iter().map(|receipt| self.shared.receipts.read(queue, receipt)).collect();
        let known: Vec<DeliveryId> = ids.iter().flatten().copied().collect();
        let Batch { answers, ends: ended, extended } = state.settle_all(verb, &known);
        let mut answers = answers.into_iter();
        let results: Vec<Settled> = ids
            .iter()
            .map(|id| id.and_then(|_| answers.next()).unwrap_or(Settled::Foreign))
            .collect();
        let mut events = Vec::new();
        let mut renewed = (Vec::new(), 0);
        let (mut acked, mut dead) = (0, 0);
        for (end, items) in ended {
            match end {
                End::Acked => acked += items.len() as u64,
                End::Dead(_) => dead += items.len() as u64,
                End::Nacked | End::Undone => {}
            }
            events.push(Event::Ended { queue, end, items });
        }
        if let (Verb::Extend(lease), false) = (verb, extended.is_empty()) {
            let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
            let at = self.time.stamp();
            renewed = (extended.clone(), at.boot_ms.saturating_add(lease_ms));
            events.push(Event::Extended { queue, at, lease_ms, items: extended });
        }
        self.stats.acked += acked;
        self.stats.dead += dead;
        if let Some(runtime) = self.queues.get_mut(&queue) {
            runtime.acked += acked;
        }
        let Some(last) = events.pop() else {
            let _ = answer.send(Ok(results));
            return;
        };
        for event in events {
            self.event(event, None);
        }
        // Durable in order: with the last one all are.
        let then = Box::new(move |durable: Result<_, Fault>| {
            let _ = answer.send(durable.map(|_| results));
        });
        self.event(last, Some(then));
        self.leased_until(queue, &renewed.0, renewed.1);
        self.touched(queue);
        self.dispatch(queue);
    }

    /// Lets leases run until then, and not as much longer as a restart would have them for a hand-off that is not known.
    pub(super) fn leased_until(&mut self, queue: QueueId, items: &[DeliveryId], until_ms: u64) {
        if let Some(mut state) = self.state.queue_mut(queue) {
            items.iter().for_each(|id| state.begin_lease(id, until_ms));
        }
    }

    pub(super) fn purge(&mut self, queue: QueueId, dead: bool, answer: Answer<Purged>) {
        let (Some(state), true) = (self.state.queue(queue), self.queues.contains_key(&queue))
        else {
            let _ = answer.send(Err(self.no_queue(queue)));
            return;
        };
        let before = state.counts();
        let mut events = state.plan_purge(queue, dead);
        let purged = Purged {
            purged: before.ready + if dead { before.dead } else { 0 },
            in_flight: before.in_flight,
        };
        let then = Box::new(move |durable: Result<_, Fault>| {
            let _ = answer.send(durable.map(|_| purged));
        });
        let last = events.pop();
        for event in events {
            self.event(event, None);
        }
        if let Some(last) = last {
            self.event(last, Some(then));
        }
        if let Some(runtime) = self.queues.get_mut(&queue) {
            runtime.again.clear();
            for lane in runtime.lanes.values_mut() {
                lane.ahead.clear();
            }
        }
        tracing::info!(%queue, purged = purged.purged, "purged");
        self.touched(queue);
    }

    pub(super) fn pause(&mut self, queue: QueueId, paused: bool, answer: Answer<Paused>) {
        let (Some(state), true) = (self.state.queue(queue), self.queues.contains_key(&queue))
        else {
            let _ = answer.send(Err(self.no_queue(queue)));
            return;
        };
        let changed = state.paused() != paused;
        // Also where nothing changes: it is said only when what made it so is durable.
        let then = Box::new(move |durable: Result<_, Fault>| {
            let _ = answer.send(durable.map(|_| Paused { paused, changed }));
        });
        self.event(Event::Paused { queue, paused }, Some(then));
        self.touched(queue);
        self.dispatch(queue);
    }

    /// A queue is declared, which is durable already.
    pub(super) fn declare(&mut self, meta: QueueMeta, answer: Answer<()>) {
        let id = meta.id;
        self.state.add(id, &meta.settings);
        match self.queues.get_mut(&id) {
            Some(runtime) => runtime.meta = meta,
            None => {
                self.queues.insert(id, Runtime::new(meta));
            }
        }
        self.touched(id);
        self.dispatch(id);
        let _ = answer.send(Ok(()));
    }

    /// A queue is deleted, which is durable already: nobody gets anything of it any more, and its logs go.
    pub(super) fn delete(&mut self, queue: QueueId, answer: Answer<Deleted>) {
        let messages = self.state.remove(queue).unwrap_or(NOTHING);
        self.marks.remove_queue(queue);
        self.next_seq.remove(&queue);
        self.watched.remove(&queue);
        self.touched.remove(&queue);
        let fault = self.no_queue(queue);
        let parked: Vec<_> =
            self.waiting_keys.keys().filter(|(of, _)| *of == queue).cloned().collect();
        for key in parked {
            for job in self.waiting_keys.remove(&key).unwrap_or_default() {
                job.refuse(&fault);
            }
        }
        let Some(runtime) = self.queues.remove(&queue) else {
            let _ = answer.send(Ok(Deleted { messages }));
            return;
        };
        for waiter in runtime.waiters {
            let _ = waiter.answer.send(Err(fault.clone()));
        }
        for job in runtime.jobs {
            job.refuse(&fault);
        }
        let bands: Vec<Band> = runtime.lanes.keys().copied().collect();
        self.give_up(queue, bands);
        let _ = answer.send(Ok(Deleted { messages }));
    }

    /// Leases that ended, of one queue.
    pub(super) fn expire(&mut self, queue: QueueId, max: usize) {
        let now = self.time.boot_ms();
        let Some(mut state) = self.state.queue_mut(queue) else { return };
        if state.next_deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        let expired = state.expire(now, max);
        drop(state);
        self.stats.expired += (expired.ready.len() + expired.exhausted.len()) as u64;
        if !expired.exhausted.is_empty() {
            self.stats.dead += expired.exhausted.len() as u64;
            let end = End::Dead(DeadReason::Attempts);
            self.event(Event::Ended { queue, end, items: expired.exhausted }, None);
        }
        self.touched(queue);
        self.dispatch(queue);
    }
}
