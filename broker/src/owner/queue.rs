//! What an owner keeps of a queue besides its state: logs, publishes under way, receivers that wait, what is read ahead.

use super::command::Answer;
use super::publish::Job;
use crate::api::{Band, Receive, Seq, StoredMessage};
use crate::broker::Received;
use crate::catalogue::QueueMeta;
use crate::event::Place;
use plimsoll::{Log, Offset};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// The most messages and bytes read ahead for one queue.
pub(super) const AHEAD_MESSAGES: usize = 128;
/// See [`AHEAD_MESSAGES`].
pub(super) const AHEAD_BYTES: usize = 1 << 20;
/// The most consumers that are remembered for one queue.
pub(super) const CONSUMERS_MAX: usize = 1_000;

/// A message that was read.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) place: Place,
    pub(super) message: StoredMessage,
}

impl Loaded {
    pub(super) fn bytes(&self) -> usize {
        usize::try_from(self.message.content.size()).unwrap_or(usize::MAX)
    }
}

/// Never delivered messages of one band, from its cursor on, as they were read or published.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    pub(super) messages: VecDeque<Loaded>,
    pub(super) bytes: usize,
    /// The first offset after what was read, over what cannot be delivered too.
    pub(super) next: Option<Offset>,
    /// A read is under way.
    pub(super) loading: bool,
}

impl Ahead {
    pub(super) fn push(&mut self, loaded: Loaded) {
        self.bytes += loaded.bytes();
        self.next = Some(loaded.place.offset.plus(1));
        self.messages.push_back(loaded);
    }

    pub(super) fn pop(&mut self) -> Option<Loaded> {
        let loaded = self.messages.pop_front()?;
        self.bytes -= loaded.bytes();
        Some(loaded)
    }

    pub(super) fn is_full(&self) -> bool {
        self.messages.len() >= AHEAD_MESSAGES || self.bytes >= AHEAD_BYTES
    }

    /// Drops what is before the cursor, after a purge.
    pub(super) fn skip_to(&mut self, cursor: Offset) {
        while self.messages.front().is_some_and(|loaded| loaded.place.offset < cursor) {
            self.pop();
        }
        if self.next.is_some_and(|next| next < cursor) {
            self.next = Some(cursor);
        }
    }

    pub(super) fn clear(&mut self) {
        self.messages = VecDeque::new();
        self.bytes = 0;
        self.next = None;
    }
}

/// The log of one band.
#[derive(Debug)]
pub(super) enum BandLog {
    /// It is being opened, or is to be opened in a moment; publishes wait.
    Opening,
    Open(Log),
}

/// One band as its owner works with it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) log: BandLog,
    /// The log is on the disk, open or not.
    pub(super) exists: bool,
    /// An append waits for the log; no other may pass it, as order is by offset.
    pub(super) busy: bool,
    /// Appends under way, and the sum of all sizes up to the last one staged.
    pub(super) flying: usize,
    pub(super) total: u64,
    pub(super) ahead: Ahead,
    /// Before this all may be freed, once so many journal entries are durable.
    pub(super) floor: Option<(Offset, u64)>,
    /// A truncation is under way.
    pub(super) truncating: bool,
    /// When marks may be carried out of its way again, after that has failed.
    pub(super) carry_at: Duration,
}

impl Lane {
    pub(super) fn new(log: BandLog, total: u64) -> Self {
        Self {
            exists: matches!(log, BandLog::Open(_)),
            log,
            busy: false,
            flying: 0,
            total,
            ahead: Ahead::default(),
            floor: None,
            truncating: false,
            carry_at: Duration::ZERO,
        }
    }

    pub(super) fn open(&self) -> Option<&Log> {
        match &self.log {
            BandLog::Open(log) => Some(log),
            BandLog::Opening => None,
        }
    }

    /// There are messages that cannot be read before it is open.
    pub(super) fn is_closed(&self) -> bool {
        self.exists && self.open().is_none()
    }
}

/// A receiver that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ask: Receive,
    pub(super) answer: Answer<Received>,
    /// Until when, on the clock of elapsed time.
    pub(super) until: Duration,
}

/// A queue.
#[derive(Debug)]
pub(super) struct Runtime {
    pub(super) meta: QueueMeta,
    pub(super) lanes: BTreeMap<Band, Lane>,
    /// Publishes that wait for a log, in order.
    pub(super) jobs: VecDeque<Job>,
    /// Messages staged and not confirmed.
    pub(super) staged: u64,
    pub(super) waiters: VecDeque<Waiter>,
    /// Redelivered messages that were read.
    pub(super) again: HashMap<Seq, Loaded>,
    pub(super) again_loading: bool,
    /// Why it cannot be read, since the last try, and when to try again.
    pub(super) unreadable: Option<(String, Duration)>,
    /// When each consumer asked last.
    pub(super) consumers: HashMap<Option<String>, Duration>,
    pub(super) last_receive: Option<Duration>,
    pub(super) published: u64,
    pub(super) delivered: u64,
    pub(super) acked: u64,
}

impl Runtime {
    pub(super) fn new(meta: QueueMeta) -> Self {
        Self {
            meta,
            lanes: BTreeMap::new(),
            jobs: VecDeque::new(),
            staged: 0,
            waiters: VecDeque::new(),
            again: HashMap::new(),
            again_loading: false,
            unreadable: None,
            consumers: HashMap::new(),
            last_receive: None,
            published: 0,
            delivered: 0,
            acked: 0,
        }
    }

    /// What is ready may just be on its way into memory.
    pub(super) fn is_reading(&self) -> bool {
        let reads = |lane: &Lane| lane.ahead.loading || lane.is_closed();
        self.again_loading || self.lanes.values().any(reads)
    }

    /// A log with messages is missing, or is not open.
    pub(super) fn lacks_a_log(&self) -> bool {
        let missing = self.unreadable.as_ref().is_some_and(|(_, until)| *until == Duration::MAX);
        missing || self.lanes.values().any(Lane::is_closed)
    }

    /// The logs that can be read.
    pub(super) fn open_logs(&self) -> Vec<(Band, Log)> {
        let open = |(band, lane): (&Band, &Lane)| Some((*band, lane.open()?.clone()));
        self.lanes.iter().filter_map(open).collect()
    }

    pub(super) fn note_consumer(&mut self, name: Option<&str>, now: Duration) {
        let name = name.map(str::to_owned);
        if self.consumers.len() >= CONSUMERS_MAX && !self.consumers.contains_key(&name) {
            let oldest = self.consumers.iter().min_by_key(|(_, last)| **last);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                self.consumers.remove(&name);
            }
        }
        self.consumers.insert(name, now);
    }
}
