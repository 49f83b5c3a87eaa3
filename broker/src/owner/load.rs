//! Loading a shard: its events since the last snapshot, the ends of its queues' logs, the live idempotency marks. Reads little,
//! and writes only what a shard's very first start needs.

use super::queue::{BandLog, Lane, Runtime};
use super::{Mode, Owner, journal::Journal};
use crate::api::{Band, QueueId, Seq};
use crate::boot::Time;
use crate::catalogue::QueueMeta;
use crate::event::{Entry, Place};
use crate::marks::{self, Digests, Mark, Marks};
use crate::message;
use crate::state::{self, Frame, Replay};
use plimsoll::error::{OpenError, PublishError, ReadError, Stopped};
use plimsoll::{Log, LogName, LogOptions, NewRecord, Node, Offset, WriteClass};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of idempotency marks of all shards of a node.
pub(super) const MARKS_BYTES: usize = 64 << 20;
/// How long a key is remembered.
pub(super) const MARKS_WINDOW_MS: u64 = 5 * 60 * 1_000;
/// The most records of one log that are read for their keys: more marks than this the index does not hold.
const MARKS_READ: u64 = 600_000;

/// The shortest and the longest time between two loads of one shard.
const RELOAD_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Which shard, of which data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) dir: u16,
    pub(crate) shard: u8,
    /// The key of the hashes of idempotency keys.
    pub(crate) key: [u8; 16],
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:02}", self.dir, self.shard)
    }
}

/// Why a shard cannot be loaded.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{log}: {error}")]
    Read { log: LogName, error: ReadError },
    #[error("{log}, record {offset}: {why}")]
    Record { log: LogName, offset: Offset, why: String },
    #[error("{log}: {error}")]
    Write { log: LogName, error: Box<PublishError> },
    /// What it shows may be less than what it holds: what is not seen now must not be taken for gone.
    #[error("{log}: {why}")]
    Stopped { log: LogName, why: Stopped },
    #[error("{0}")]
    Said(String),
}

impl LoadError {
    /// There was no room to open a log, as for a new one.
    pub(super) fn is_no_space(&self) -> bool {
        matches!(self, Self::Open(OpenError::Disk(disk)) if disk.is_no_space())
    }
}

/// A shard as it was found.
pub(crate) struct Loaded {
    pub(super) state: state::Shard,
    pub(super) queues: HashMap<QueueId, Runtime>,
    pub(super) next_seq: HashMap<QueueId, Seq>,
    pub(super) events: Log,
    pub(super) marks: Marks,
    pub(super) marks_log: Log,
}

/// Opens a log that must be whole. Blocks.
///
/// # Errors
/// Of opening it, or that it shows less than it holds.
pub(crate) fn open_whole(node: &Node, name: &str, small: bool) -> Result<Log, LoadError> {
    let name = LogName::new(name).map_err(|error| LoadError::Said(error.to_string()))?;
    let mut options = LogOptions::default();
    options.small = small;
    let log = node.open_log(&name, options)?;
    match log.stopped() {
        Some(why) => Err(LoadError::Stopped { log: name, why }),
        None => Ok(log),
    }
}

/// Loads a shard. Blocks.
///
/// # Errors
/// Of opening and reading its logs. Those of queues that cannot be opened stand by themselves: the others are served.
pub(crate) fn load(
    node: &Node,
    time: &Time,
    layout: Layout,
    metas: Vec<QueueMeta>,
    present: &HashSet<(QueueId, Band)>,
) -> Result<Loaded, LoadError> {
    let events = open_whole(node, &crate::logs::events(layout.shard), true)?;
    if events.tail() == Offset(0) {
        if metas.iter().any(|meta| present.iter().any(|(id, _)| *id == meta.id)) {
            // It is made before any queue has a log. Without it all that was acknowledged would come back.
            let log = events.name();
            return Err(LoadError::Said(format!(
                "{log} has no events, though its queues have messages: bring it back"
            )));
        }
        // The log has a file from now on, so that events go on when there is no space for one.
        for entry in Entry::snapshot(state::Shard::new().snapshot()) {
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            let written = events.publish(WriteClass::Coordination, &[NewRecord::new(&bytes)]);
            written.map_err(|error| LoadError::Write {
                log: events.name().clone(),
                error: Box::new(error),
            })?;
        }
    }
    let frame = Frame { boot: time.boot(), now_ms: time.boot_ms() };
    let mut state = replay(&events, &metas, &frame)?;
    let marks_log = open_whole(node, &crate::logs::marks(layout.shard), true)?;
    let mut marks = Marks::new(layout.key, MARKS_BYTES, MARKS_WINDOW_MS);
    restore_carried(&mut marks, &marks_log, time)?;
    let mut queues = HashMap::new();
    let mut next_seq = HashMap::new();
    for meta in metas {
        let id = meta.id;
        let mut runtime = Runtime::new(meta);
        let known = state.queue(id).map_or(Seq(1), state::Queue::next_seq);
        let mut next = known.max(Seq(1));
        // The first band is there for publishes; each that was ever published to has a log.
        if let Some(why) = missing(&state, id, present) {
            tracing::error!(queue = %runtime.meta.name, why, "a queue's log is missing");
            runtime.unreadable = Some((why, Duration::MAX));
        }
        for band in (0..10).filter_map(Band::new).filter(|band| present.contains(&(id, *band))) {
            let log = match open_whole(node, &crate::logs::queue(id, band), false) {
                Ok(log) => log,
                Err(error) => {
                    tracing::error!(queue = %runtime.meta.name, %error, "a queue's log cannot be opened");
                    runtime.unreadable = Some((error.to_string(), Duration::ZERO));
                    let total =
                        state.queue(id).map_or(0, |queue| super::publish::total(queue, band));
                    let mut lane = Lane::new(BandLog::Opening, total);
                    lane.exists = true;
                    runtime.lanes.insert(band, lane);
                    continue;
                }
            };
            if let Some(why) = shrunk(&state, id, band, &log) {
                tracing::error!(queue = %runtime.meta.name, why, "a queue's log is shorter than it was");
                runtime.unreadable = Some((why, Duration::MAX));
                continue;
            }
            next = next.max(confirm(&mut state, id, band, &log, last_head(&log)));
            let now = time.stamp();
            published(&log, band, marks.digests(), since(&log, time), |key, mark, millis| {
                marks.restore_message(id, key, mark, millis, &now);
            });
            let total = state.queue(id).map_or(0, |queue| super::publish::total(queue, band));
            runtime.lanes.insert(band, Lane::new(BandLog::Open(log), total));
        }
        next_seq.insert(id, next);
        queues.insert(id, runtime);
    }
    Ok(Loaded { state, queues, next_seq, events, marks, marks_log })
}

/// Whether messages of a queue were delivered from a log that is not there. As a new one it would give out their numbers
/// again.
fn missing(
    state: &state::Shard,
    id: QueueId,
    present: &HashSet<(QueueId, Band)>,
) -> Option<String> {
    let queue = state.queue(id)?;
    let gone = |band: &Band| queue.cursor(*band) > Offset(0) && !present.contains(&(id, *band));
    let band = queue.bands().map(|(band, _)| band).find(gone)?;
    Some(format!("{} is missing: bring it back, or delete the queue", crate::logs::queue(id, band)))
}

/// Whether a log ends before messages that were delivered from it, which were durable then: some of its files are gone. Other
/// messages would get their places, and count as delivered with the next start.
pub(super) fn shrunk(state: &state::Shard, id: QueueId, band: Band, log: &Log) -> Option<String> {
    let (end, cursor) = (log.durable(), state.queue(id)?.cursor(band));
    let why = || {
        let log = log.name();
        format!(
            "{log} ends at {end}, and messages up to {cursor} were delivered: bring its files back, or delete the queue"
        )
    };
    (end < cursor).then(why)
}

/// The state after the last whole snapshot and all events since it began.
fn replay(events: &Log, metas: &[QueueMeta], frame: &Frame) -> Result<state::Shard, LoadError> {
    let catalogue = metas.iter().map(|meta| (meta.id, meta.settings.clone())).collect();
    let mut replay = Replay::new(catalogue, *frame);
    let read = |error| LoadError::Read { log: events.name().clone(), error };
    let mut reader = events.read_from(events.head()).map_err(read)?;
    while let Some(record) = reader.next().map_err(read)? {
        let taken = Entry::decode(&record.payload).and_then(|entry| replay.take(entry));
        taken.map_err(|error| LoadError::Record {
            log: events.name().clone(),
            offset: record.offset,
            why: error.to_string(),
        })?;
    }
    if events.head() > Offset(0) && !replay.restored() {
        // Without it leases and finished messages of the part that is gone would be taken for neither.
        return Err(LoadError::Said(format!(
            "{} begins at {} without a whole snapshot: bring back the segments before it",
            events.name(),
            events.head()
        )));
    }
    Ok(replay.finish())
}

/// The head of a log's last message; none if its last segment holds none, or it cannot be read.
pub(super) fn last_head(log: &Log) -> Option<message::MessageHead> {
    let last = Offset(log.durable().0.checked_sub(1)?);
    let mut reader = log.read_from(last).ok()?;
    let head = reader.next_with(|found| message::decode_head(found.headers).ok()).ok()??;
    if head.is_none() {
        tracing::error!(log = %log.name(), offset = last.0, "the last record is no message");
    }
    head
}

fn restore_carried(marks: &mut Marks, log: &Log, time: &Time) -> Result<(), LoadError> {
    let read = |error| LoadError::Read { log: log.name().clone(), error };
    let mut reader = log.read_from(log.head()).map_err(read)?;
    let now = time.stamp();
    while let Some(record) = reader.next().map_err(read)? {
        match marks::decode(&record.payload) {
            Ok(found) => {
                found.marks.iter().for_each(|mark| marks.restore_carried(&found.at, mark, &now))
            }
            // Marks guard against doubles only; a bad one must not keep the shard from starting.
            Err(error) => {
                tracing::error!(log = %log.name(), offset = record.offset.0, %error, "no marks")
            }
        }
    }
    Ok(())
}

/// Tells the state what a log holds, and gives the number that the queue's next message has at least.
pub(super) fn confirm(
    state: &mut state::Shard,
    id: QueueId,
    band: Band,
    log: &Log,
    last: Option<message::MessageHead>,
) -> Seq {
    let next = last.map_or(Seq(1), |head| Seq(head.seq.0 + 1));
    let Some(mut queue) = state.queue_mut(id) else { return next };
    queue.confirmed(band, log.durable(), last.map_or(0, |head| head.total), next);
    let (from, to) = (queue.floor(band), log.head());
    if from < to {
        tracing::error!(log = %log.name(), %from, %to, "messages that were not finished are missing");
        queue.skip(band, to);
    }
    let cursor = queue.cursor(band);
    // Behind the cursor a repair may have declared a gap, of as many offsets as the file could hold: nobody's depth.
    if cursor < log.durable()
        && let Err(ReadError::Gone { next: behind, .. }) = log.read_from(cursor)
    {
        tracing::error!(log = %log.name(), from = %cursor, to = %behind, "messages are missing, as a repair has declared");
        queue.skip(band, behind);
    }
    next
}

/// From where on a log holds keys that still count.
pub(super) fn since(log: &Log, time: &Time) -> Offset {
    let since = time.wall_ms().saturating_sub(MARKS_WINDOW_MS);
    // Not to be told where, it reads more.
    let from = log.offset_for_time(since).unwrap_or(Offset(0)).max(log.head());
    from.max(Offset(log.durable().0.saturating_sub(MARKS_READ)))
}

/// Finds the messages with keys in a log: key, mark, and when it was written. Blocks.
pub(super) fn published(
    log: &Log,
    band: Band,
    digests: Digests,
    from: Offset,
    mut each: impl FnMut(&str, Mark, u64),
) {
    let result = (|| -> Result<(), ReadError> {
        let mut reader = match log.read_from(from) {
            // A gap that a repair declared.
            Err(ReadError::Gone { next, .. }) => log.read_from(next)?,
            other => other?,
        };
        loop {
            let read = reader.next_with(|found| {
                let Ok(Some(key)) = message::decode_key(found.headers) else { return };
                let payload = bytes::Bytes::copy_from_slice(found.payload);
                let millis = found.header.millis;
                let Ok((_, message)) = message::decode(found.headers, payload, millis) else {
                    return;
                };
                let place = Place { band, offset: found.offset };
                let mark = Mark::of(digests, &message, place);
                each(key, mark, millis);
            })?;
            if read.is_none() {
                return Ok(());
            }
        }
    })();
    if let Err(error) = result {
        tracing::error!(log = %log.name(), %error, "idempotency keys of this log are not known");
    }
}

impl Owner {
    /// Loads the shard again after its event log failed. What was under way is answered by now.
    pub(super) fn reload(&mut self) {
        self.mode = Mode::Loading;
        let (shared, layout, time) = (Arc::clone(&self.shared), self.layout, self.time.clone());
        let metas: Vec<QueueMeta> =
            self.queues.values().map(|runtime| runtime.meta.clone()).collect();
        let present = self
            .queues
            .iter()
            .flat_map(|(id, runtime)| runtime.lanes.keys().map(|band| (*id, *band)))
            .collect();
        let work = self.block(move || load(&shared.node, &time, layout, metas, &present));
        self.fly(async move {
            let loaded = work.await;
            let loaded = match loaded {
                Some(Ok(loaded)) => Ok(loaded),
                failed => {
                    // The disk is given a moment.
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    failed
                        .unwrap_or_else(|| Err(LoadError::Said("the load did not end".to_owned())))
                }
            };
            super::Done::Loaded(Box::new(loaded))
        });
    }

    /// Goes on from what was loaded, or tries again.
    pub(super) fn loaded(&mut self, result: Result<Loaded, LoadError>) {
        let Loaded { state, mut queues, next_seq, events, marks, marks_log } = match result {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::error!(shard = %self.layout, %error, "the shard cannot be loaded");
                self.mode = Mode::Draining;
                return;
            }
        };
        // Those who wait still do.
        for (id, old) in self.queues.drain() {
            let Some(new) = queues.get_mut(&id) else { continue };
            new.jobs = old.jobs;
            new.waiters = old.waiters;
            new.consumers = old.consumers;
            new.last_receive = old.last_receive;
            (new.published, new.delivered, new.acked) = (old.published, old.delivered, old.acked);
        }
        self.state = state;
        self.queues = queues;
        // Numbers that were given out are not given out again, though what had them is not there.
        for (id, next) in next_seq {
            let known = self.next_seq.entry(id).or_insert(next);
            *known = next.max(*known);
        }
        self.journal = Journal::new(events);
        self.marks = marks;
        self.marks_log = marks_log;
        self.reset_upkeep();
        self.mode = Mode::Running;
        // One that fails at once again is not loaded without a pause.
        self.reload_pause = (self.reload_pause * 2).clamp(RELOAD_PAUSE.0, RELOAD_PAUSE.1);
        self.reload_at = self.time.elapsed() + self.reload_pause;
        for id in self.queues.keys().copied().collect::<Vec<_>>() {
            self.touched(id);
            self.advance_waiting(id);
        }
        self.open_closed();
        let parked = std::mem::take(&mut self.waiting_keys).into_values().flatten();
        self.woken.extend(parked);
        tracing::info!(shard = %self.layout, "the shard is loaded again");
    }
}
