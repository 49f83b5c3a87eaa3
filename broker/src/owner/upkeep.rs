//! What an owner does beside commands: leases and waits that end, truncation, snapshots, marks.
//!
//! A message's bytes are freed only after the event that finished it is durable, and after the idempotency marks that its
//! segment holds are carried to the marks log.

use super::{Done, Mode, Owner};
use crate::api::{Band, QueueId};
use crate::event::Entry;
use crate::marks::{self, CarriedMark};
use plimsoll::error::AppendError;
use plimsoll::permit::Decision;
use plimsoll::{NewRecord, Offset, WriteClass};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Leases of one queue that are ended in one turn.
const EXPIRE_A_TURN: usize = 1_000;
/// Truncations under way at once.
const TRUNCATIONS_MAX: usize = 4;
/// A snapshot is written when there are so many times its size of events since the last one.
const SNAPSHOT_TIMES: u64 = 4;
/// Segments of the event log that call for a snapshot, so that small disks get their files back.
const SNAPSHOT_SEGMENTS: usize = 4;
/// How long marks that could not be written are not tried again.
const CARRY_AGAIN: Duration = Duration::from_secs(5);
/// How often old marks are looked for.
const MARKS_EVERY: Duration = Duration::from_secs(5);

/// What upkeep remembers between two turns.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// Queues whose floors may have risen.
    pub(super) dirty: HashSet<QueueId>,
    truncations: usize,
    snapshot: Snapshot,
    marks_at: Duration,
    marks_busy: bool,
    /// Where the marks log ended, and when: the last window's, one every few seconds.
    marks_ends: VecDeque<(Duration, Offset)>,
}

/// How far a snapshot is.
#[derive(Debug, Default)]
struct Snapshot {
    running: bool,
    /// Its first entry's offset and one more, when its last one is durable; 0 before.
    done: Arc<AtomicU64>,
    last_bytes: u64,
}

/// Marks that were written to the marks log, or not.
#[derive(Debug)]
pub(super) struct Carried {
    queue: QueueId,
    band: Band,
    marks: Vec<CarriedMark>,
    result: Result<(), String>,
}

impl Owner {
    /// Looks at what time brings.
    pub(super) fn tick(&mut self) {
        let now = self.time.elapsed();
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + super::IDLE_TICK;
        if self.mode != Mode::Running {
            if self.mode == Mode::Draining && self.work.is_empty() && now >= self.reload_at {
                self.reload();
            }
            return;
        }
        for queue in self.watched.iter().copied().collect::<Vec<_>>() {
            self.expire(queue, EXPIRE_A_TURN);
            self.dispatch(queue);
            self.end_waits(queue, now);
            self.forget_ahead(queue, now);
        }
        self.free();
        self.snapshot();
        self.old_marks(now);
    }

    /// Drops what was read ahead for nobody, and stops watching a queue in which nothing is to happen by itself.
    fn forget_ahead(&mut self, queue: QueueId, now: Duration) {
        let (Some(runtime), Some(state)) = (self.queues.get_mut(&queue), self.state.queue(queue))
        else {
            self.watched.remove(&queue);
            return;
        };
        if !runtime.waiters.is_empty() {
            return;
        }
        let recent =
            runtime.last_receive.is_some_and(|last| now.saturating_sub(last) < super::AHEAD_KEPT);
        if recent {
            return;
        }
        runtime.again = std::collections::HashMap::new();
        for lane in runtime.lanes.values_mut() {
            lane.ahead.clear();
        }
        if state.next_deadline().is_none() {
            self.watched.remove(&queue);
        }
    }

    /// Frees the segments whose messages are all finished, when that is durable.
    fn free(&mut self) {
        let (pushed, durable) = (self.journal.pushed(), self.journal.durable());
        let now = self.time.elapsed();
        let mut again = HashSet::new();
        for queue in std::mem::take(&mut self.upkeep.dirty) {
            let (Some(state), Some(runtime)) =
                (self.state.queue(queue), self.queues.get_mut(&queue))
            else {
                continue;
            };
            let mut due = Vec::new();
            for (&band, lane) in &mut runtime.lanes {
                if lane.truncating || now < lane.carry_at {
                    again.insert(queue);
                    continue;
                }
                let floor = state.floor(band);
                let Some(log) = lane.open() else { continue };
                // Only whole segments go: nothing to do while the floor is in the first one.
                let head = log
                    .segments()
                    .iter()
                    .map(|view| view.base)
                    .take_while(|base| *base <= floor)
                    .last();
                let Some(head) = head.filter(|head| *head > log.head()) else {
                    lane.floor = None;
                    continue;
                };
                again.insert(queue);
                match lane.floor {
                    Some((to, at)) if durable >= at => due.push((band, to)),
                    Some(_) => {}
                    None => lane.floor = Some((head, pushed)),
                }
            }
            for (band, to) in due {
                if self.upkeep.truncations < TRUNCATIONS_MAX {
                    self.truncate(queue, band, to);
                }
            }
        }
        self.upkeep.dirty = again;
    }

    fn truncate(&mut self, queue: QueueId, band: Band, to: Offset) {
        let Some(lane) = self.lane(queue, band) else { return };
        let Some(log) = lane.open().cloned() else { return };
        lane.truncating = true;
        lane.floor = None;
        self.upkeep.truncations += 1;
        let marks = self.marks.carry(queue, band, to, self.time.boot_ms());
        if !marks.is_empty() {
            return self.carry(queue, band, marks);
        }
        let work = self.block(move || log.truncate_before(to));
        self.fly(async move {
            if let Some(Err(error)) = work.await {
                tracing::warn!(%queue, %error, "finished messages are still on the disk");
            }
            Done::Truncated(queue, band)
        });
    }

    pub(super) fn truncated(&mut self, queue: QueueId, band: Band) {
        self.upkeep.truncations -= 1;
        if let Some(lane) = self.lane(queue, band) {
            lane.truncating = false;
        }
        self.upkeep.dirty.insert(queue);
    }

    /// Writes marks to the marks log; the truncation follows in a later turn.
    fn carry(&mut self, queue: QueueId, band: Band, marks: Vec<CarriedMark>) {
        let log = self.marks_log.clone();
        let at = self.time.stamp();
        let work = self.block(move || {
            let records = marks::encode(&at, &marks);
            let result = append_all(&log, &records);
            (marks, result)
        });
        self.fly(async move {
            let (marks, result) =
                work.await.unwrap_or_else(|| (Vec::new(), Err("no thread".to_owned())));
            Done::MarksCarried(Box::new(Carried { queue, band, marks, result }))
        });
    }

    pub(super) fn marks_carried(&mut self, carried: Carried) {
        let Carried { queue, band, marks, result } = carried;
        match result {
            Ok(()) => self.marks.carried(&marks),
            Err(error) => {
                tracing::warn!(%queue, error, "marks are not carried; their segment stays");
                // A disk that takes nothing is not asked forty times a second.
                let again = self.time.elapsed() + CARRY_AGAIN;
                if let Some(lane) = self.lane(queue, band) {
                    lane.carry_at = again;
                }
            }
        }
        self.truncated(queue, band);
    }

    /// Marks that are too old go, from memory and from their log: what was in it a window ago. By boot time, as a wall clock
    /// that is set forward would free marks that live.
    fn old_marks(&mut self, now: Duration) {
        if self.upkeep.marks_busy || now < self.upkeep.marks_at {
            return;
        }
        self.upkeep.marks_at = now + MARKS_EVERY;
        self.marks.expire(self.time.boot_ms());
        let ends = &mut self.upkeep.marks_ends;
        ends.push_back((now, self.marks_log.durable()));
        let window = Duration::from_millis(super::load::MARKS_WINDOW_MS);
        let mut to = None;
        while ends.front().is_some_and(|(then, _)| now.saturating_sub(*then) > window) {
            to = ends.pop_front().map(|(_, end)| end);
        }
        let Some(to) = to.filter(|_| self.marks_log.segments().len() > 1) else { return };
        let log = self.marks_log.clone();
        self.upkeep.marks_busy = true;
        let work = self.block(move || log.truncate_before(to));
        self.fly(async move {
            if let Some(Err(error)) = work.await {
                tracing::warn!(%error, "old marks are still on the disk");
            }
            Done::MarksFreed
        });
    }

    pub(super) fn marks_freed(&mut self) {
        self.upkeep.marks_busy = false;
    }

    /// Writes a snapshot when what it lets go is worth it, and frees what is before it when its end is durable.
    fn snapshot(&mut self) {
        let done = self.upkeep.snapshot.done.swap(0, Ordering::Relaxed);
        if done > 0 {
            self.upkeep.snapshot.running = false;
            let log = self.journal.log().clone();
            let work = self.block(move || log.truncate_before(Offset(done - 1)));
            self.fly(async move {
                if let Some(Err(error)) = work.await {
                    tracing::warn!(%error, "old events are still on the disk");
                }
                Done::Nothing
            });
            return;
        }
        if self.upkeep.snapshot.running {
            return;
        }
        let worth =
            self.shared.snapshot_bytes.max(self.upkeep.snapshot.last_bytes * SNAPSHOT_TIMES);
        let long = self.journal.written_bytes() >= worth;
        let many = self.journal.log().segments().len() >= SNAPSHOT_SEGMENTS
            && self.journal.written_bytes() > self.upkeep.snapshot.last_bytes;
        if long || many {
            self.write_snapshot();
        }
    }

    fn write_snapshot(&mut self) {
        self.upkeep.snapshot.running = true;
        let parts = self.state.snapshot();
        self.upkeep.snapshot.last_bytes = parts.iter().map(|part| part.len() as u64).sum();
        let begin = Arc::new(AtomicU64::new(0));
        for entry in Entry::snapshot(parts) {
            let begin = Arc::clone(&begin);
            let done = Arc::clone(&self.upkeep.snapshot.done);
            let then: Option<super::journal::Then> = match entry {
                Entry::SnapshotBegin { .. } => Some(Box::new(move |durable| {
                    if let Ok(offset) = durable {
                        begin.store(offset.0 + 1, Ordering::Relaxed);
                    }
                })),
                // In order: its begin is durable when this is.
                Entry::SnapshotEnd { .. } => Some(Box::new(move |durable| {
                    if durable.is_ok() {
                        done.store(begin.load(Ordering::Relaxed), Ordering::Relaxed);
                    }
                })),
                Entry::SnapshotPart(_) | Entry::Event(_) => None,
            };
            self.journal.push(&entry, then);
        }
        self.journal.reset_written();
    }

    /// After a reload nothing of an earlier snapshot counts.
    pub(super) fn reset_upkeep(&mut self) {
        let last_bytes = self.upkeep.snapshot.last_bytes;
        self.upkeep.snapshot = Snapshot { last_bytes, ..Snapshot::default() };
        (self.upkeep.truncations, self.upkeep.marks_busy) = (0, false);
    }
}

/// Appends records and waits for the disk. Blocks.
fn append_all(log: &plimsoll::Log, records: &[Vec<u8>]) -> Result<(), String> {
    for record in records {
        let record = [NewRecord::new(record)];
        loop {
            let permit = match log.admit(WriteClass::Acknowledge, record[0].payload.len() as u64) {
                Decision::Admit(permit) | Decision::Delay { permit, .. } => permit,
                Decision::Refuse(limited) => return Err(limited.to_string()),
            };
            match log.append(permit, &record) {
                Ok(ticket) => {
                    ticket.wait().map_err(|error| error.to_string())?;
                    break;
                }
                Err(AppendError::Permit(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }
    Ok(())
}
