//! Publishes: replay, admission, limits, claim, append, confirm, in this order, for a chunk of a publish at a time.

use super::command::{Answer, Held};
use super::queue::{BandLog, Lane, Loaded};
use super::{Done, Mode, Owner};
use crate::api::{
    Band, Fault, Full, NewMessage, PublishAnswer, Published, QueueId, Seq, StoredMessage,
};
use crate::event::Place;
use crate::marks::{Look, Mark};
use crate::message::{self, MessageHead};
use plimsoll::error::{AppendError, CommitError, Outcome};
use plimsoll::permit::{Decision, Permit, PermitError};
use plimsoll::{Appended, LimitReason, Limited, Log, NewRecord, Offset, Ticket, WriteClass};
use std::collections::btree_map::Entry;
use std::time::Duration;

/// The most bytes and messages of one append.
const CHUNK_BYTES: u64 = 1 << 20;
/// See [`CHUNK_BYTES`].
const CHUNK_MESSAGES: usize = 256;
/// The hint of a queue that is full: fixed, not computed from how fast it drains.
const FULL_HINT: Duration = Duration::from_secs(5);

/// A publish, as far as it is.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) queue: QueueId,
    messages: Vec<NewMessage>,
    /// Of those before `at`.
    answers: Vec<Option<PublishAnswer>>,
    at: usize,
    /// It has waited out its delay.
    permit: Option<Permit>,
    held: Held,
    answer: Answer<Vec<PublishAnswer>>,
}

impl Job {
    pub(super) fn new(
        queue: QueueId,
        messages: Vec<NewMessage>,
        held: Held,
        answer: Answer<Vec<PublishAnswer>>,
    ) -> Self {
        let answers = vec![None; messages.len()];
        Self { queue, messages, answers, at: 0, permit: None, held, answer }
    }

    /// Answers all that have no answer yet.
    pub(super) fn refuse(mut self, fault: &Fault) {
        for answer in &mut self.answers {
            if answer.is_none() {
                *answer = Some(Err(fault.clone()));
            }
        }
        self.finish();
    }

    fn finish(self) {
        let Self { answers, messages, held, answer, .. } = self;
        // Before the answer: who publishes next must find the room.
        drop((messages, held));
        // Whoever published may have left; it is stored all the same.
        let _ = answer.send(Ok(answers.into_iter().flatten().collect()));
    }
}

/// Messages of one job on their way into one log.
#[derive(Debug)]
pub(super) struct Chunk {
    job: Job,
    band: Band,
    picks: Vec<Pick>,
    /// The first message of the job after it.
    until: usize,
    /// All bytes of the band with it.
    total: u64,
}

/// A message of a chunk.
#[derive(Debug)]
struct Pick {
    /// Which of the job.
    index: usize,
    seq: Seq,
    headers: Vec<u8>,
    /// For its key; without one it is not used.
    content_hash: u64,
}

/// What became of a chunk.
#[derive(Debug)]
pub(super) enum PublishDone {
    /// An append that had to wait is staged, or not.
    Staged(Result<Ticket, AppendError>, Chunk),
    /// It is durable, or not.
    Settled(Result<Appended, CommitError>, Chunk),
}

/// What a publish meets at its next message.
enum Ahead {
    /// These are new, up to `until`; their bytes.
    New { picks: Vec<(usize, u64)>, until: usize, bytes: u64 },
    /// Another publish with this key is under way.
    Waits(String),
    /// Nothing is left.
    End,
}

impl Chunk {
    fn records(&self) -> Vec<NewRecord<'_>> {
        let messages = &self.job.messages;
        let records = self.picks.iter().map(|pick| NewRecord {
            headers: &pick.headers,
            payload: &messages[pick.index].payload,
        });
        records.collect()
    }
}

impl Owner {
    /// Takes a new publish.
    pub(super) fn publish(&mut self, job: Job) {
        if self.mode != Mode::Running {
            // Until the shard is loaded again.
            return self.woken.push(job);
        }
        let Some(runtime) = self.queues.get_mut(&job.queue) else {
            let fault = self.no_queue(job.queue);
            return job.refuse(&fault);
        };
        // In order of arrival while a log is waited for.
        if runtime.jobs.is_empty() {
            self.advance(job);
        } else {
            runtime.jobs.push_back(job);
        }
    }

    /// Lets publishes go on that waited for their queue's log.
    pub(super) fn advance_waiting(&mut self, queue: QueueId) {
        if self.mode != Mode::Running {
            return;
        }
        loop {
            let Some(runtime) = self.queues.get_mut(&queue) else { return };
            let stands = runtime
                .lanes
                .get(&Band::DEFAULT)
                .is_some_and(|lane| lane.busy || matches!(lane.log, BandLog::Opening));
            if stands {
                return;
            }
            let Some(job) = runtime.jobs.pop_front() else { return };
            self.advance(job);
        }
    }

    /// Does with a publish what can be done now.
    pub(super) fn advance(&mut self, mut job: Job) {
        // Each turn answers messages, or leaves.
        loop {
            let queue = job.queue;
            let Some(log) = self.log_for(&job) else { return self.wait_for_log(job) };
            let log = match log {
                Ok(log) => log,
                Err(fault) => return job.refuse(&fault),
            };
            let (picks, until, bytes) = match self.look_ahead(&mut job) {
                Ahead::New { picks, until, bytes } => (picks, until, bytes),
                Ahead::End => return job.finish(),
                Ahead::Waits(key) => {
                    self.waiting_keys.entry((queue, key)).or_default().push(job);
                    return;
                }
            };
            let permit = match job.permit.take() {
                Some(permit) if permit.bytes() >= bytes => permit,
                _ => match log.admit(WriteClass::Publish, bytes) {
                    Decision::Admit(permit) => permit,
                    Decision::Delay { wait, permit } => {
                        job.permit = Some(permit);
                        return self.delay(job, wait);
                    }
                    Decision::Refuse(limited) => return job.refuse(&limited.into()),
                },
            };
            let (picks, until, full) = self.room(queue, picks, until);
            if picks.is_empty() {
                return job.refuse(&full);
            }
            match self.stage(job, &log, permit, &picks, until) {
                Some(back) => job = back,
                None => return,
            }
        }
    }

    /// The log of the band, if it is there and takes appends now. `None` if it must be waited for.
    fn log_for(&mut self, job: &Job) -> Option<Result<Log, Fault>> {
        let Some(runtime) = self.queues.get_mut(&job.queue) else {
            return Some(Err(self.no_queue(job.queue)));
        };
        match runtime.lanes.get(&Band::DEFAULT) {
            Some(lane) if lane.busy => None,
            Some(Lane { log: BandLog::Open(log), .. }) => match log.stopped() {
                Some(why) => {
                    // What has failed can be opened again; damage cannot.
                    self.reopen(job.queue, Band::DEFAULT, &why);
                    Some(Err(Fault::Unavailable(why.to_string().into())))
                }
                None => Some(Ok(log.clone())),
            },
            Some(Lane { log: BandLog::Opening, .. }) => None,
            None if runtime
                .unreadable
                .as_ref()
                .is_some_and(|(_, until)| *until == Duration::MAX) =>
            {
                let why = runtime.unreadable.as_ref().map_or("", |(why, _)| why.as_str());
                Some(Err(Fault::Unavailable(why.into())))
            }
            None => {
                // A directory needs space too, where none is left for publishes.
                if let Decision::Refuse(limited) = self.journal.log().admit(WriteClass::Publish, 1)
                {
                    return Some(Err(limited.into()));
                }
                None
            }
        }
    }

    fn wait_for_log(&mut self, job: Job) {
        let queue = job.queue;
        let Some(runtime) = self.queues.get_mut(&queue) else { return };
        runtime.jobs.push_front(job);
        if let Entry::Vacant(vacant) = runtime.lanes.entry(Band::DEFAULT) {
            vacant.insert(Lane::new(BandLog::Opening, 0));
            self.open(queue, Band::DEFAULT);
        }
    }

    /// Answers what was stored before, and gathers what is new, up to what one append takes.
    fn look_ahead(&mut self, job: &mut Job) -> Ahead {
        let mut picks = Vec::new();
        let mut bytes = 0;
        let mut at = job.at;
        let now = self.time.boot_ms();
        // A key that comes twice in one chunk is new only once.
        let mut keys = std::collections::HashSet::new();
        while at < job.messages.len() && picks.len() < CHUNK_MESSAGES {
            let message = &job.messages[at];
            // Hashed only where there is a key to tell it by: it takes time in proportion to the payload.
            let (look, hash) = match &message.key {
                None => (Look::New, 0),
                Some(key) if keys.contains(key.as_str()) => (Look::InProgress, 0),
                Some(key) => {
                    let hash = self.marks.digests().content(message);
                    (self.marks.look(job.queue, key, hash, now), hash)
                }
            };
            match look {
                Look::New => {
                    let size = message.size();
                    if bytes + size > CHUNK_BYTES && !picks.is_empty() {
                        break;
                    }
                    bytes += size + encoding_max(message);
                    keys.extend(message.key.as_deref());
                    picks.push((at, hash));
                }
                Look::InProgress if picks.is_empty() => {
                    let key = message.key.clone().unwrap_or_default();
                    job.at = at;
                    return Ahead::Waits(key);
                }
                Look::InProgress => break,
                Look::Stored { seq, bytes } => {
                    // After a delay the same lines are looked at again.
                    self.stats.duplicates += u64::from(job.answers[at].is_none());
                    job.answers[at] = Some(Ok(Published { seq, bytes, duplicate: true }));
                }
                Look::OtherContent(seq) => job.answers[at] = Some(Err(Fault::KeyReused(seq))),
            }
            at += 1;
        }
        if picks.is_empty() {
            job.at = at;
            // All that were looked at are answered; the bound of a chunk counts only what is new.
            return Ahead::End;
        }
        Ahead::New { picks, until: at, bytes }
    }

    /// How many of the chunk the queue's own limits let in, and what is said to the rest.
    fn room(
        &mut self,
        queue: QueueId,
        mut picks: Vec<(usize, u64)>,
        mut until: usize,
    ) -> (Vec<(usize, u64)>, usize, Fault) {
        let Some(runtime) = self.queues.get(&queue) else {
            return (Vec::new(), until, self.no_queue(queue));
        };
        let max = runtime.meta.settings.max_queue_depth;
        let counts = self.state.queue(queue).map(|queue| queue.counts()).unwrap_or_default();
        let depth = counts.depth() + runtime.staged;
        let full = Fault::Full(Box::new(Full {
            queue: runtime.meta.name.clone(),
            limit: "max_queue_depth",
            depth,
            max,
            retry_after: FULL_HINT,
        }));
        let left = if max == 0 { u64::MAX } else { max.saturating_sub(depth) };
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        if picks.len() > left {
            // The next turn meets the limit at once, and refuses the rest.
            until = picks[left].0;
            picks.truncate(left);
        }
        if picks.is_empty() {
            self.stats.queue_full += 1;
        }
        (picks, until, full)
    }

    /// Claims, and appends. Gives the job back if it must be looked at again.
    fn stage(
        &mut self,
        mut job: Job,
        log: &Log,
        permit: Permit,
        picks: &[(usize, u64)],
        until: usize,
    ) -> Option<Job> {
        let queue = job.queue;
        let Some(lane) =
            self.queues.get_mut(&queue).and_then(|runtime| runtime.lanes.get_mut(&Band::DEFAULT))
        else {
            job.refuse(&self.no_queue(queue));
            return None;
        };
        let mut total = lane.total;
        let mut next = self.next_seq.get(&queue).copied().unwrap_or(Seq(1));
        let mut chunk_picks = Vec::with_capacity(picks.len());
        for &(index, content_hash) in picks {
            let message = &job.messages[index];
            total += message.size();
            let head = MessageHead { seq: next, band: Band::DEFAULT, total };
            let mut headers = Vec::new();
            message::encode_headers(&head, message, &mut headers);
            chunk_picks.push(Pick { index, seq: next, headers, content_hash });
            next = Seq(next.0 + 1);
        }
        job.permit = None;
        let chunk = Chunk { job, band: Band::DEFAULT, picks: chunk_picks, until, total };
        let staged = log.try_append(&permit, &chunk.records());
        match staged {
            Ok(ticket) => {
                self.claimed(&chunk, next);
                self.fly(async move {
                    Done::Publish(Box::new(PublishDone::Settled(ticket.await, chunk)))
                });
                None
            }
            Err(AppendError::Busy) => {
                self.claimed(&chunk, next);
                if let Some(lane) = self.lane(queue, Band::DEFAULT) {
                    lane.busy = true;
                }
                let log = log.clone();
                self.fly(async move {
                    let records = chunk.records();
                    let staged = log.append_async(permit, &records).await;
                    drop(records);
                    Done::Publish(Box::new(PublishDone::Staged(staged, chunk)))
                });
                None
            }
            // It waited too long for its turn: what was admitted then is not good for now.
            Err(AppendError::Permit(PermitError::Expired | PermitError::TooSmall { .. })) => {
                Some(chunk.job)
            }
            Err(AppendError::Permit(PermitError::TooEarly { wait })) => {
                let mut job = chunk.job;
                job.permit = Some(permit);
                self.delay(job, wait);
                None
            }
            Err(error) => {
                chunk.job.refuse(&self.refusal(error));
                None
            }
        }
    }

    /// Marks what is on its way, so that nobody else stores the same or takes its place.
    fn claimed(&mut self, chunk: &Chunk, next: Seq) {
        let queue = chunk.job.queue;
        self.next_seq.insert(queue, next);
        for pick in &chunk.picks {
            if let Some(key) = &chunk.job.messages[pick.index].key {
                self.marks.claim(queue, key);
            }
        }
        if let Some(runtime) = self.queues.get_mut(&queue) {
            runtime.staged += chunk.picks.len() as u64;
            if let Some(lane) = runtime.lanes.get_mut(&chunk.band) {
                lane.flying += 1;
                lane.total = chunk.total;
            }
        }
    }

    fn delay(&mut self, job: Job, wait: Duration) {
        self.fly(async move {
            tokio::time::sleep(wait).await;
            Done::Delayed(Box::new(job))
        });
    }

    /// A publish has waited out its delay.
    pub(super) fn delay_over(&mut self, job: Job) {
        // A job that waits for the log goes before those that come now; a delayed one takes its turn among them.
        self.publish(job);
    }

    /// Takes note of what became of a chunk.
    pub(super) fn publish_done(&mut self, done: PublishDone) {
        match done {
            PublishDone::Staged(staged, chunk) => {
                let queue = chunk.job.queue;
                if let Some(lane) = self.lane(queue, chunk.band) {
                    lane.busy = false;
                }
                match staged {
                    Ok(ticket) => self.fly(async move {
                        Done::Publish(Box::new(PublishDone::Settled(ticket.await, chunk)))
                    }),
                    Err(AppendError::Permit(_)) => {
                        let job = self.not_stored(chunk);
                        if let Some(runtime) = self.queues.get_mut(&queue) {
                            runtime.jobs.push_front(job);
                        } else {
                            job.refuse(&self.no_queue(queue));
                        }
                    }
                    Err(error) => {
                        let fault = self.refusal(error);
                        self.not_stored(chunk).refuse(&fault);
                    }
                }
                self.advance_waiting(queue);
            }
            PublishDone::Settled(Ok(done), chunk) => self.stored(done, chunk),
            PublishDone::Settled(Err(error), chunk) => {
                let fault = match error.outcome {
                    Outcome::NotWritten => Fault::Unavailable(error.to_string().into()),
                    Outcome::Unknown => Fault::Unknown(error.to_string().into()),
                };
                self.not_stored(chunk).refuse(&fault);
            }
        }
    }

    /// Takes the claim of a chunk back: it leaves no trace (Q2).
    fn not_stored(&mut self, chunk: Chunk) -> Job {
        let queue = chunk.job.queue;
        for pick in &chunk.picks {
            if let Some(key) = &chunk.job.messages[pick.index].key {
                self.marks.release(queue, key);
            }
        }
        let confirmed = self.state.queue(queue).map(|state| total(state, chunk.band));
        if let Some(runtime) = self.queues.get_mut(&queue) {
            runtime.staged -= chunk.picks.len() as u64;
            if let Some(lane) = runtime.lanes.get_mut(&chunk.band) {
                lane.flying -= 1;
                if lane.flying == 0 {
                    lane.total = confirmed.unwrap_or(lane.total);
                }
            }
        }
        self.wake_keys(&chunk);
        chunk.job
    }

    fn stored(&mut self, done: Appended, chunk: Chunk) {
        let queue = chunk.job.queue;
        let (wall, boot) = (self.time.wall_ms(), self.time.boot_ms());
        let mut job_at = Vec::with_capacity(chunk.picks.len());
        for (at, pick) in chunk.picks.iter().enumerate() {
            let message = &chunk.job.messages[pick.index];
            let place = Place { band: chunk.band, offset: done.first.plus(at as u64) };
            if let Some(key) = &message.key {
                let bytes = u32::try_from(message.size()).unwrap_or(u32::MAX);
                let mark = Mark { content: pick.content_hash, seq: pick.seq, bytes, place };
                self.marks.stored(queue, key, mark, boot);
            }
            job_at.push((pick.index, place, pick.seq));
        }
        let count = chunk.picks.len() as u64;
        let end = done.first.plus(count);
        let next = self.next_seq.get(&queue).copied().unwrap_or(Seq(1));
        if let Some(mut state) = self.state.queue_mut(queue) {
            state.confirmed(chunk.band, end, chunk.total, next);
        }
        self.stats.published += count;
        if let Some(runtime) = self.queues.get_mut(&queue) {
            runtime.staged -= count;
            runtime.published += count;
            if let Some(lane) = runtime.lanes.get_mut(&chunk.band) {
                lane.flying -= 1;
            }
        }
        self.read_ahead_published(&chunk, &job_at, wall);
        self.wake_keys(&chunk);
        let mut job = chunk.job;
        for (index, _, seq) in job_at {
            let bytes = job.messages[index].size();
            job.answers[index] = Some(Ok(Published { seq, bytes, duplicate: false }));
        }
        job.at = chunk.until;
        if job.at >= job.messages.len() {
            job.finish();
        } else {
            self.publish(job);
        }
        self.touched(queue);
        self.dispatch(queue);
    }

    /// What is published while somebody receives need not be read from the disk.
    fn read_ahead_published(&mut self, chunk: &Chunk, stored: &[(usize, Place, Seq)], wall: u64) {
        let queue = chunk.job.queue;
        let now = self.time.elapsed();
        let Some(cursor) = self.state.queue(queue).map(|state| state.cursor(chunk.band)) else {
            return;
        };
        let Some(runtime) = self.queues.get_mut(&queue) else { return };
        let wanted = !runtime.waiters.is_empty()
            || runtime
                .last_receive
                .is_some_and(|last| now.saturating_sub(last) < super::AHEAD_KEPT);
        let Some(lane) = runtime.lanes.get_mut(&chunk.band) else { return };
        if !wanted || lane.ahead.loading {
            return;
        }
        for &(index, place, seq) in stored {
            let next = lane.ahead.next.filter(|_| !lane.ahead.messages.is_empty());
            let expected: Offset = next.map_or(cursor, |next| next.max(cursor));
            if lane.ahead.is_full() || place.offset != expected {
                return;
            }
            let content = chunk.job.messages[index].clone();
            let message = StoredMessage { seq, published_ms: wall, content };
            lane.ahead.push(Loaded { place, message });
        }
    }

    /// Publishes that wait for the keys of a chunk look again.
    fn wake_keys(&mut self, chunk: &Chunk) {
        if self.waiting_keys.is_empty() {
            return;
        }
        for pick in &chunk.picks {
            let Some(key) = chunk.job.messages[pick.index].key.clone() else { continue };
            for job in self.waiting_keys.remove(&(chunk.job.queue, key)).unwrap_or_default() {
                self.woken.push(job);
            }
        }
    }

    /// What a publisher is told whose append was not staged.
    fn refusal(&self, error: AppendError) -> Fault {
        match error {
            AppendError::Limited(limited) => limited.into(),
            // The engine holds the device at hard from now on.
            AppendError::Disk(error) if error.is_no_space() => no_space(&error.to_string()),
            AppendError::Memory(bytes) => Fault::Limited(Limited::new(
                LimitReason::Memory,
                WriteClass::Publish,
                plimsoll::Level::Hard,
                Duration::from_secs(1),
                format!("there is no memory for {bytes} bytes"),
            )),
            error => Fault::Unavailable(error.to_string().into()),
        }
    }
}

pub(super) fn no_space(why: &str) -> Fault {
    Fault::Limited(Limited::new(
        LimitReason::Disk,
        WriteClass::Publish,
        plimsoll::Level::Hard,
        Duration::from_secs(1),
        why,
    ))
}

/// The most bytes that a message takes beside those of its size.
fn encoding_max(message: &NewMessage) -> u64 {
    128 + 8 * message.headers.len() as u64
}

/// All bytes that were ever published to a band and confirmed.
pub(super) fn total(queue: &crate::state::Queue, band: Band) -> u64 {
    queue.band(band).map_or(0, crate::state::BandState::total)
}
