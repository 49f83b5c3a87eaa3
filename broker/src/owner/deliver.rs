//! Receives: who waits, what they get, what is read for them, and the hand-off.

use super::command::{Answer, Handed};
use super::journal::not_written;
use super::queue::{AHEAD_BYTES, AHEAD_MESSAGES, Loaded, Runtime, Waiter};
use super::{Done, Mode, Owner};
use crate::api::{Band, Delivered, Fault, QueueId, RECEIVE_BYTES_MAX, Receive, Seq, Why};
use crate::broker::{HandOff, Received};
use crate::event::{DeadReason, DeliveredItem, DeliveryId, End, Event, Place};
use crate::message;
use crate::state::{HAND_OFF_MS, Next, Standing};
use bytes::Bytes;
use plimsoll::error::ReadError;
use plimsoll::{Log, Offset, Record};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How much longer a receive waits whose messages are just being read.
const READ_GRACE: Duration = Duration::from_secs(10);
/// The most receivers that wait for one queue.
const WAITERS_MAX: usize = 10_000;

/// What a read gave.
#[derive(Debug)]
pub(super) struct ReadDone {
    queue: QueueId,
    what: Read,
    found: Vec<Loaded>,
    /// What is no message of ours, or was truncated.
    lost: Vec<Place>,
    error: Option<ReadError>,
}

/// What was read.
#[derive(Debug)]
enum Read {
    /// Never delivered messages of a band: from here; where the read ended.
    Ahead { band: Band, from: Offset, next: Offset },
    /// Messages to be delivered again.
    Again(Vec<(Seq, Place)>),
}

/// What can be given to one receiver.
enum Plan {
    Deliver(Vec<Chosen>),
    /// It is being read.
    Reading,
    Nothing(Why),
}

/// A message that is delivered, with its delivery's number.
struct Chosen {
    loaded: Loaded,
    attempt: u32,
    first_delivered_ms: Option<u64>,
}

impl Owner {
    pub(super) fn receive(&mut self, queue: QueueId, ask: Receive, answer: Answer<Received>) {
        let now = self.time.elapsed();
        let Some(runtime) = self.queues.get_mut(&queue) else {
            let _ = answer.send(Err(self.no_queue(queue)));
            return;
        };
        let name = ask.consumer.as_ref().map(|name| name.as_str().to_owned());
        runtime.note_consumer(name.as_deref(), now);
        runtime.last_receive = Some(now);
        if runtime.waiters.len() >= WAITERS_MAX {
            let _ = answer
                .send(Err(Fault::Unavailable("too many receivers wait for this queue".into())));
            return;
        }
        let until = now + ask.wait;
        runtime.waiters.push_back(Waiter { ask, answer, until });
        self.watched.insert(queue);
        self.dispatch(queue);
        self.end_waits(queue, now);
    }

    /// Gives receivers what there is for them, first come, first served. One that must not have more does not hold up those
    /// behind it.
    pub(super) fn dispatch(&mut self, queue: QueueId) {
        // No event gets anywhere while the shard is loaded again: those who wait go on waiting.
        if self.mode != Mode::Running {
            return;
        }
        let mut at = 0;
        loop {
            let Some(runtime) = self.queues.get_mut(&queue) else { return };
            let Some(waiter) = runtime.waiters.get(at) else { return };
            // One that has left must not be leased anything.
            if waiter.answer.is_closed() {
                runtime.waiters.remove(at);
                continue;
            }
            let ask = waiter.ask.clone();
            match self.plan(queue, &ask) {
                Plan::Deliver(chosen) => {
                    let waiter =
                        self.queues.get_mut(&queue).and_then(|runtime| runtime.waiters.remove(at));
                    if let Some(waiter) = waiter {
                        self.deliver(queue, waiter, chosen);
                    }
                }
                Plan::Nothing(Why::Concurrency) => at += 1,
                Plan::Reading | Plan::Nothing(_) => return,
            }
        }
    }

    /// What keeps a receiver from more, and how many messages it may have.
    pub(super) fn allowed(&self, queue: QueueId, ask: &Receive) -> Result<usize, Why> {
        let (Some(state), Some(runtime)) = (self.state.queue(queue), self.queues.get(&queue))
        else {
            return Err(Why::Empty);
        };
        if state.paused() {
            return Err(Why::Paused);
        }
        // A delivery that cannot be written would wait without an end, its message held by nobody.
        if self.journal.waits().is_some() {
            return Err(Why::Storage);
        }
        let counts = state.counts();
        if counts.ready == 0 {
            return Err(Why::Empty);
        }
        let cap = u64::from(runtime.meta.settings.max_in_flight).saturating_sub(counts.in_flight);
        if cap == 0 {
            return Err(Why::InFlightCap);
        }
        // What is in flight here and was not told yet counts too.
        let here = self.state.in_flight().saturating_sub(self.in_flight_told);
        let all = self.shared.in_flight.load(Ordering::Relaxed).saturating_add(here);
        let node = self.shared.in_flight_max.saturating_sub(all);
        if node == 0 {
            return Err(Why::NodeInFlightCap);
        }
        let own = match (&ask.consumer, ask.concurrency) {
            (Some(name), Some(most)) => {
                u64::from(most).saturating_sub(state.in_flight_of(Some(name)))
            }
            _ => u64::MAX,
        };
        if own == 0 {
            return Err(Why::Concurrency);
        }
        let most = cap.min(node).min(own);
        Ok(ask.max.min(usize::try_from(most).unwrap_or(usize::MAX)))
    }

    /// Chooses what a receiver gets: the highest band first, in it what is delivered again before what is new. What comes
    /// first must be read before anything behind it goes out.
    fn plan(&mut self, queue: QueueId, ask: &Receive) -> Plan {
        let max = match self.allowed(queue, ask) {
            Ok(max) => max,
            Err(why) => return Plan::Nothing(why),
        };
        let Some(state) = self.state.queue(queue) else { return Plan::Nothing(Why::Empty) };
        let steps = state.plan(max);
        let Some(runtime) = self.queues.get_mut(&queue) else { return Plan::Nothing(Why::Empty) };
        let mut chosen: Vec<Chosen> = Vec::new();
        let mut bytes = 0;
        let mut unread = Vec::new();
        let mut behind = None;
        'steps: for step in steps {
            match step {
                Next::Again(next) => match runtime.again.get(&next.id.seq) {
                    Some(loaded) if unread.is_empty() => {
                        if !chosen.is_empty() && bytes + loaded.bytes() > RECEIVE_BYTES_MAX {
                            break 'steps;
                        }
                        bytes += loaded.bytes();
                        chosen.push(Chosen {
                            loaded: loaded.clone(),
                            attempt: next.id.attempt,
                            first_delivered_ms: next.first_delivered_ms,
                        });
                    }
                    Some(_) => {}
                    None => unread.push((next.id.seq, next.id.place)),
                },
                Next::Fresh { .. } if !unread.is_empty() => break 'steps,
                Next::Fresh { band, from, to } => {
                    let Some(lane) = runtime.lanes.get_mut(&band) else { continue };
                    lane.ahead.skip_to(from);
                    let most = usize::try_from(to.0 - from.0).unwrap_or(usize::MAX);
                    for at in 0..most {
                        let Some(loaded) = lane.ahead.messages.get(at) else {
                            behind = Some(band);
                            break 'steps;
                        };
                        if !chosen.is_empty() && bytes + loaded.bytes() > RECEIVE_BYTES_MAX {
                            break 'steps;
                        }
                        bytes += loaded.bytes();
                        let loaded = loaded.clone();
                        chosen.push(Chosen { loaded, attempt: 1, first_delivered_ms: None });
                    }
                }
            }
        }
        if !unread.is_empty() {
            self.read_again(queue, unread);
        }
        if let Some(band) = behind {
            self.read_ahead(queue, band);
        }
        if !chosen.is_empty() {
            return Plan::Deliver(chosen);
        }
        let runtime = self.queues.get(&queue);
        if runtime.is_some_and(Runtime::is_reading) {
            Plan::Reading
        } else {
            Plan::Nothing(Why::Empty)
        }
    }

    /// Leases messages to a receiver; it gets them when that is durable.
    fn deliver(&mut self, queue: QueueId, waiter: Waiter, chosen: Vec<Chosen>) {
        let Some(runtime) = self.queues.get_mut(&queue) else { return };
        let lease =
            waiter.ask.lease.unwrap_or(Duration::from_millis(runtime.meta.settings.lease_ms));
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let at = self.time.stamp();
        let mut items = Vec::with_capacity(chosen.len());
        let mut delivered = Vec::with_capacity(chosen.len());
        for Chosen { loaded, attempt, first_delivered_ms } in chosen {
            let Loaded { place, message } = loaded;
            let id = DeliveryId { seq: message.seq, place, attempt };
            let bytes = u32::try_from(message.content.size()).unwrap_or(u32::MAX);
            items.push(DeliveredItem { id, bytes });
            runtime.again.remove(&message.seq);
            if let Some(lane) = runtime.lanes.get_mut(&place.band) {
                // A first delivery takes it from there; one that was delivered before is not in it.
                if lane.ahead.messages.front().is_some_and(|front| front.place == place) {
                    lane.ahead.pop();
                }
            }
            delivered.push(Delivered {
                receipt: self.shared.receipts.issue(queue, &id),
                attempts: attempt,
                first_delivered_ms: first_delivered_ms.unwrap_or(at.wall_ms),
                message,
                lease,
            });
        }
        let count = items.len() as u64;
        runtime.delivered += count;
        self.stats.delivered += count;
        let ids: Vec<DeliveryId> = items.iter().map(|item| item.id).collect();
        let leased = ids.clone();
        let next_seq = self.next_seq.get(&queue).copied().unwrap_or(Seq(1));
        let event = Event::Delivered {
            queue,
            at,
            lease_ms,
            consumer: waiter.ask.consumer.clone(),
            next_seq,
            items,
        };
        let answer = waiter.answer;
        let hand = self.hand.clone();
        let then = Box::new(move |durable: Result<Offset, Fault>| {
            let result = durable.map(|_| {
                // From here on the guard answers for them, also if nobody is there to take it.
                let hand_off = HandOff::new(hand, queue, ids, lease_ms, at.boot_ms);
                Received { messages: delivered, why: None, hand_off }
            });
            let _ = answer.send(result);
        });
        self.event(event, Some(then));
        // No lease runs while nobody has the messages: the hand-off, or its failure, is told in any case.
        self.leased_until(queue, &leased, u64::MAX);
        self.touched(queue);
    }

    /// Deliveries reached their receiver, or did not.
    pub(super) fn hand_over(&mut self, handed: Handed) {
        let Handed { queue, mut items, lease_ms, leased_ms } = handed;
        let at = self.time.stamp();
        let Some(state) = self.state.queue_mut(queue) else { return };
        // What was delivered again since, or settled by a receipt that got through, is not this delivery's any more.
        items.retain(|id| state.check(id) == Standing::InFlight);
        let Some(lease_ms) = lease_ms else {
            drop(state);
            if !items.is_empty() {
                self.stats.undone += items.len() as u64;
                self.event(Event::Ended { queue, end: End::Undone, items }, None);
                self.touched(queue);
                self.dispatch(queue);
            }
            return;
        };
        drop(state);
        let until_ms = at.boot_ms.saturating_add(lease_ms);
        if at.boot_ms.saturating_sub(leased_ms) >= HAND_OFF_MS && !items.is_empty() {
            // The lease as it was written ends before the one that was handed out: a restart would deliver too early.
            let items = items.clone();
            self.event(Event::Extended { queue, at, lease_ms, items }, None);
        }
        if let Some(mut state) = self.state.queue_mut(queue) {
            items.iter().for_each(|id| state.handed_over(id, until_ms));
        }
        self.watched.insert(queue);
    }

    /// Answers receivers whose time is over, with the reason.
    pub(super) fn end_waits(&mut self, queue: QueueId, now: Duration) {
        let Some(runtime) = self.queues.get(&queue) else { return };
        if runtime.waiters.iter().all(|waiter| waiter.until > now && !waiter.answer.is_closed()) {
            return;
        }
        // Not where it is known to fail.
        let reading = runtime.is_reading() && runtime.unreadable.is_none();
        let lacks_a_log = runtime.lacks_a_log();
        let waiters = std::mem::take(
            self.queues.get_mut(&queue).map_or(&mut Default::default(), |r| &mut r.waiters),
        );
        let mut left = std::collections::VecDeque::with_capacity(waiters.len());
        for waiter in waiters {
            // What is there and just being read is worth a moment.
            let until = waiter.until + if reading { READ_GRACE } else { Duration::ZERO };
            if waiter.answer.is_closed() {
                continue;
            }
            if until > now {
                left.push_back(waiter);
                continue;
            }
            let unreadable = self.queues.get(&queue).and_then(|runtime| runtime.unreadable.clone());
            let allowed = self.allowed(queue, &waiter.ask);
            let why = allowed.err().unwrap_or(Why::Empty);
            // Nothing is ready: then it is not for one that cannot be read. Of a log that is not open nobody knows.
            let unreadable =
                unreadable.filter(|_| why != Why::Empty || allowed.is_ok() || lacks_a_log);
            let answer = match (unreadable, self.journal.waits()) {
                (Some((why, _)), _) => Err(Fault::Unavailable(why.into())),
                (None, Some(error)) if why == Why::Storage => Err(not_written(error)),
                (None, _) if allowed.is_ok() && reading => {
                    Err(Fault::Unavailable("messages are still being read".into()))
                }
                _ => {
                    Ok(Received { messages: Vec::new(), why: Some(why), hand_off: HandOff::none() })
                }
            };
            let _ = waiter.answer.send(answer);
        }
        if let Some(runtime) = self.queues.get_mut(&queue) {
            runtime.waiters = left;
        }
    }

    /// Reads never delivered messages of a band, unless that is under way.
    fn read_ahead(&mut self, queue: QueueId, band: Band) {
        if !self.may_read(queue) {
            return;
        }
        let Some(cursor) = self.state.queue(queue).map(|state| state.cursor(band)) else { return };
        let Some(lane) = self.lane(queue, band) else { return };
        if lane.ahead.loading || lane.ahead.is_full() {
            return;
        }
        let Some(log) = lane.open().cloned() else { return };
        let from = lane.ahead.next.map_or(cursor, |next| next.max(cursor));
        lane.ahead.loading = true;
        let work = self.block(move || read_range(queue, &log, band, from));
        self.fly(async move {
            read_or_nothing(work.await, queue, Read::Ahead { band, from, next: from })
        });
    }

    /// A read that failed is not tried again at once, else a damaged record would keep a thread busy for ever.
    fn may_read(&self, queue: QueueId) -> bool {
        let Some(runtime) = self.queues.get(&queue) else { return false };
        runtime.unreadable.as_ref().is_none_or(|(_, again)| self.time.elapsed() >= *again)
    }

    fn read_again(&mut self, queue: QueueId, places: Vec<(Seq, Place)>) {
        if !self.may_read(queue) {
            return;
        }
        let Some(runtime) = self.queues.get_mut(&queue) else { return };
        if runtime.again_loading {
            return;
        }
        let logs = runtime.open_logs();
        // Those of a log that is not open yet are read when it is.
        let places: Vec<_> = places
            .into_iter()
            .filter(|(_, place)| logs.iter().any(|(band, _)| *band == place.band))
            .collect();
        if places.is_empty() {
            return;
        }
        runtime.again_loading = true;
        let fallback = Read::Again(places.clone());
        let work = self.block(move || read_places(queue, &logs, places));
        self.fly(async move { read_or_nothing(work.await, queue, fallback) });
    }

    pub(super) fn read_done(&mut self, read: ReadDone) {
        let ReadDone { queue, what, found, lost, error } = read;
        let now = self.time.elapsed();
        let Some(runtime) = self.queues.get_mut(&queue) else { return };
        let failed = error.map(|error| {
            tracing::error!(queue = %runtime.meta.name, %error, "delivery stands");
            (format!("a message cannot be read: {error}"), now + super::READ_AGAIN)
        });
        // A log that is closed or missing has said so for itself.
        if failed.is_some() || !runtime.lacks_a_log() {
            runtime.unreadable = failed;
        }
        let mut skipped = None;
        match what {
            Read::Ahead { band, from, next } => {
                if let Some(lane) = runtime.lanes.get_mut(&band) {
                    lane.ahead.loading = false;
                    // After a purge it begins elsewhere.
                    let fits = lane.ahead.messages.is_empty() || lane.ahead.next == Some(from);
                    if fits {
                        // Records that are no messages, or a gap that a repair declared.
                        if found.is_empty() && next > from {
                            skipped = Some((band, next));
                        }
                        for loaded in found {
                            lane.ahead.push(loaded);
                        }
                        lane.ahead.next = Some(lane.ahead.next.map_or(next, |at| at.max(next)));
                    }
                }
            }
            Read::Again(places) => {
                runtime.again_loading = false;
                runtime.again.extend(found.into_iter().map(|loaded| (loaded.message.seq, loaded)));
                // What cannot be read for good is dead, else it would stand before all others for ever.
                let is_lost = |place: &Place| lost.contains(place);
                let dead: Vec<Seq> = places
                    .iter()
                    .filter(|(_, place)| is_lost(place))
                    .map(|(seq, _)| *seq)
                    .collect();
                self.give_up_unreadable(queue, &dead);
            }
        }
        if let (Some((band, to)), Some(mut state)) = (skipped, self.state.queue_mut(queue)) {
            state.skip(band, to);
        }
        self.dispatch(queue);
        self.end_waits(queue, now);
    }

    fn give_up_unreadable(&mut self, queue: QueueId, dead: &[Seq]) {
        let Some(state) = self.state.queue(queue) else { return };
        let ready = state.plan(dead.len()).into_iter().filter_map(|next| match next {
            Next::Again(ready) => Some(ready.id),
            Next::Fresh { .. } => None,
        });
        let items: Vec<DeliveryId> = ready.filter(|id| dead.contains(&id.seq)).collect();
        if items.is_empty() {
            return;
        }
        self.stats.dead += items.len() as u64;
        self.event(Event::Ended { queue, end: End::Dead(DeadReason::Unreadable), items }, None);
        self.touched(queue);
    }
}

fn read_or_nothing(read: Option<ReadDone>, queue: QueueId, what: Read) -> Done {
    let read = read.unwrap_or_else(|| {
        // The reading thread panicked, which it has said itself.
        ReadDone { queue, what, found: Vec::new(), lost: Vec::new(), error: None }
    });
    Done::Read(Box::new(read))
}

/// A record as a message.
fn message_of(band: Band, record: Record) -> Result<Loaded, (Place, message::BadMessage)> {
    let place = Place { band, offset: record.offset };
    let (_, message) = message::decode(&record.headers, Bytes::from(record.payload), record.millis)
        .map_err(|error| (place, error))?;
    Ok(Loaded { place, message })
}

/// Reads on from an offset, up to the bounds of the look-ahead. Blocks.
fn read_range(queue: QueueId, log: &Log, band: Band, from: Offset) -> ReadDone {
    let mut done = ReadDone {
        queue,
        what: Read::Ahead { band, from, next: from },
        found: Vec::new(),
        lost: Vec::new(),
        error: None,
    };
    let mut next = from;
    let mut bytes = 0;
    let result = (|| -> Result<(), ReadError> {
        let mut reader = match log.read_from(from) {
            // A gap that a repair declared.
            Err(ReadError::Gone { next: behind, .. }) => {
                next = behind;
                log.read_from(behind)?
            }
            other => other?,
        };
        while done.found.len() < AHEAD_MESSAGES && bytes < AHEAD_BYTES {
            let Some(record) = reader.next()? else { break };
            next = record.offset.plus(1);
            match message_of(band, record) {
                Ok(loaded) => {
                    bytes += loaded.bytes();
                    done.found.push(loaded);
                }
                Err((place, error)) => {
                    tracing::error!(log = %log.name(), offset = place.offset.0, %error, "no message; left out");
                    done.lost.push(place);
                }
            }
        }
        Ok(())
    })();
    done.error = result.err();
    done.what = Read::Ahead { band, from, next };
    done
}

/// Reads single messages. Blocks.
fn read_places(queue: QueueId, logs: &[(Band, Log)], places: Vec<(Seq, Place)>) -> ReadDone {
    let mut found = Vec::new();
    let mut lost = Vec::new();
    let mut failed = None;
    for &(_, place) in &places {
        let Some((_, log)) = logs.iter().find(|(band, _)| *band == place.band) else { continue };
        let record = log.read_from(place.offset).and_then(|mut reader| reader.next());
        match record {
            Ok(Some(record)) if record.offset == place.offset => {
                match message_of(place.band, record) {
                    Ok(loaded) => found.push(loaded),
                    Err(_) => lost.push(place),
                }
            }
            Ok(_)
            | Err(ReadError::Gone { .. } | ReadError::Damaged(_) | ReadError::Beyond { .. }) => {
                lost.push(place);
            }
            Err(error) => failed = Some(error),
        }
    }
    ReadDone { queue, what: Read::Again(places), found, lost, error: failed }
}

impl Owner {
    /// Reads the messages that a peek shows. Answers from a blocking thread.
    pub(super) fn peek(
        &mut self,
        queue: QueueId,
        max: usize,
        answer: Answer<Vec<crate::api::StoredMessage>>,
    ) {
        let (Some(state), Some(runtime)) = (self.state.queue(queue), self.queues.get(&queue))
        else {
            let _ = answer.send(Err(self.no_queue(queue)));
            return;
        };
        let steps = state.plan(max);
        let logs = runtime.open_logs();
        let work = self.block(move || {
            let mut messages = Vec::new();
            let mut bytes = 0;
            for step in steps {
                let read = match step {
                    Next::Again(ready) => {
                        Some(read_places(queue, &logs, vec![(ready.id.seq, ready.id.place)]))
                    }
                    Next::Fresh { band, from, .. } => {
                        let log = logs.iter().find(|(of, _)| *of == band);
                        log.map(|(_, log)| read_range(queue, log, band, from))
                    }
                };
                let Some(ReadDone { found, error, .. }) = read else { continue };
                for loaded in found {
                    let fits = messages.is_empty() || bytes + loaded.bytes() <= RECEIVE_BYTES_MAX;
                    if messages.len() == max || !fits {
                        return Ok(messages);
                    }
                    bytes += loaded.bytes();
                    messages.push(loaded.message);
                }
                if let Some(error) = error.filter(|_| messages.is_empty()) {
                    // Nothing to see is not nothing there.
                    return Err(Fault::Unavailable(
                        format!("a message cannot be read: {error}").into(),
                    ));
                }
            }
            Ok(messages)
        });
        self.fly(async move {
            let found = work
                .await
                .unwrap_or_else(|| Err(Fault::Unavailable("the messages cannot be read".into())));
            let _ = answer.send(found);
            Done::Nothing
        });
    }
}
