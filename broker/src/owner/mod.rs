//! The owner of a shard: the one task that changes its queues.
//!
//! A command is checked against the state in memory, its event is queued for the event log and applied in the same step, and it
//! is answered when the event is durable. So later commands see earlier ones, and nobody is told what a crash could take back.
//! If the event log fails, memory is ahead of the disk for good: then the shard is loaded again, as at a start.

mod command;
mod deliver;
mod journal;
mod load;
mod logs;
mod look;
mod publish;
mod queue;
mod settle;
mod upkeep;

pub(crate) use command::{Answer, Change, Command, Handed, Held};
pub(crate) use load::{Layout, LoadError, Loaded, load, open_whole};

use crate::api::{Fault, QueueId, Seq};
use crate::boot::Time;
use crate::broker::Registry;
use crate::event::{Entry, Event};
use crate::marks::Marks;
use crate::receipt::Receipts;
use crate::state::{self, Frame};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use journal::{After, Journal, JournalDone, Then};
use plimsoll::{Log, Node};
use publish::{Job, PublishDone};
use queue::Runtime;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// How often an owner looks at leases, waits that are over, and what can be freed.
const TICK: Duration = Duration::from_millis(25);
/// The same while nothing is to happen by time alone.
const IDLE_TICK: Duration = Duration::from_secs(2);
/// How long messages that were read ahead are kept after the last receive.
const AHEAD_KEPT: Duration = Duration::from_secs(2);
/// How long an owner that is to stop waits for its disk: one that hangs, or has no space for an event, must not keep the
/// process.
pub(crate) const STOP_MAX: Duration = Duration::from_secs(10);
/// How long a read that failed is not tried again.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// The same of a log that could not be opened, which reads more.
const OPEN_AGAIN: Duration = Duration::from_secs(2);
/// How many commands are taken before what they staged is driven.
const COMMANDS_A_TURN: usize = 128;
/// Between two tries of what cannot be done now.
const RETRY: Duration = Duration::from_millis(200);

/// What the owners of one node share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) node: Node,
    pub(crate) receipts: Receipts,
    pub(crate) time: Time,
    /// Blocking work on this device: a device that hangs must not take the threads of the others.
    pub(crate) blocking: Arc<Semaphore>,
    /// Messages in flight in all shards of all nodes, and the most that are allowed.
    pub(crate) in_flight: Arc<AtomicU64>,
    pub(crate) in_flight_max: u64,
    pub(crate) snapshot_bytes: u64,
    /// Bytes of idempotency marks of all shards of this node.
    pub(crate) marks_bytes: AtomicU64,
    pub(crate) registry: Arc<Registry>,
}

/// What an owner counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) published: u64,
    pub(crate) duplicates: u64,
    pub(crate) queue_full: u64,
    pub(crate) delivered: u64,
    pub(crate) undone: u64,
    pub(crate) acked: u64,
    pub(crate) expired: u64,
    pub(crate) dead: u64,
    pub(crate) marks: u64,
    pub(crate) marks_dropped: u64,
    pub(crate) reloads: u64,
}

/// What an owner's work gives when it is done.
enum Done {
    Journal(JournalDone),
    Publish(Box<PublishDone>),
    Delayed(Box<Job>),
    Opened(QueueId, crate::api::Band, Result<logs::Found, LoadError>),
    Read(Box<deliver::ReadDone>),
    Truncated(QueueId, crate::api::Band),
    MarksCarried(Box<upkeep::Carried>),
    MarksFreed,
    Loaded(Box<Result<Loaded, LoadError>>),
    Nothing,
}

type Work = Pin<Box<dyn Future<Output = Done> + Send>>;

/// How an owner stands to its disk.
#[derive(Debug, PartialEq, Eq)]
enum Mode {
    Running,
    /// The event log failed: what is under way is waited for, then the shard is loaded again.
    Draining,
    Loading,
}

pub(crate) struct Owner {
    shared: Arc<Shared>,
    layout: Layout,
    commands: mpsc::Receiver<Command>,
    /// Queues declared and deleted. Whoever tells of one holds the catalogue, and must not wait for this shard's disk.
    declared: mpsc::UnboundedReceiver<Change>,
    stop: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
    handed: mpsc::UnboundedReceiver<Handed>,
    hand: mpsc::UnboundedSender<Handed>,
    time: Time,
    state: state::Shard,
    queues: HashMap<QueueId, Runtime>,
    next_seq: HashMap<QueueId, Seq>,
    journal: Journal,
    marks: Marks,
    marks_log: Log,
    waiting_keys: HashMap<(QueueId, String), Vec<Job>>,
    woken: Vec<Job>,
    work: FuturesUnordered<Work>,
    mode: Mode,
    stopping: Option<oneshot::Sender<()>>,
    /// When it ends even if the disk still owes answers.
    stop_at: Duration,
    stats: Tally,
    tally: Arc<std::sync::Mutex<Tally>>,
    /// Queues whose counts changed, or that may have something to free.
    touched: HashSet<QueueId>,
    /// Queues with receivers that wait or with leases.
    watched: HashSet<QueueId>,
    /// In flight here, as it was last told to all.
    in_flight_told: u64,
    /// The same of bytes of marks.
    marks_told: u64,
    upkeep: upkeep::Upkeep,
    next_tick: Duration,
    /// When the shard may be loaded again, and how long it was to wait for that.
    reload_at: Duration,
    reload_pause: Duration,
    retry_at: Option<Duration>,
}

/// A way to a shard's owner.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) declared: mpsc::UnboundedSender<Change>,
    /// Heard also while the owner waits for its disk and takes no commands.
    pub(crate) stop: mpsc::UnboundedSender<oneshot::Sender<()>>,
    pub(crate) tally: Arc<std::sync::Mutex<Tally>>,
}

impl Owner {
    /// Starts the task of a shard that was loaded.
    pub(crate) fn spawn(
        shared: Arc<Shared>,
        layout: Layout,
        loaded: Loaded,
        list: impl FnOnce(&Handle),
    ) -> Handle {
        let (send, commands) = mpsc::channel(1_024);
        let (declare, declared) = mpsc::unbounded_channel();
        let (end, stop) = mpsc::unbounded_channel();
        let (hand, handed) = mpsc::unbounded_channel();
        let tally = Arc::new(std::sync::Mutex::new(Tally::default()));
        let time = shared.time.clone();
        let Loaded { state, queues, next_seq, events, marks, marks_log } = loaded;
        let mut owner = Self {
            time,
            shared,
            layout,
            commands,
            declared,
            stop,
            handed,
            hand,
            state,
            touched: queues.keys().copied().collect(),
            watched: queues.keys().copied().collect(),
            queues,
            next_seq,
            journal: Journal::new(events),
            marks,
            marks_log,
            waiting_keys: HashMap::new(),
            woken: Vec::new(),
            work: FuturesUnordered::new(),
            mode: Mode::Running,
            stopping: None,
            stop_at: Duration::MAX,
            stats: Tally::default(),
            tally: Arc::clone(&tally),
            in_flight_told: 0,
            marks_told: 0,
            upkeep: upkeep::Upkeep::default(),
            next_tick: Duration::ZERO,
            reload_at: Duration::ZERO,
            reload_pause: Duration::ZERO,
            retry_at: None,
        };
        let handle = Handle { commands: send, declared: declare, stop: end, tally };
        list(&handle);
        owner.open_closed();
        owner.tell();
        tokio::spawn(owner.run());
        handle
    }

    async fn run(mut self) {
        loop {
            let runs = self.mode == Mode::Running;
            let takes = runs && !self.journal.is_full() && self.stopping.is_none();
            let wait = self.next_tick.saturating_sub(self.time.elapsed());
            tokio::select! {
                biased;
                Some(answer) = self.stop.recv() => self.begin_stop(answer),
                // What it says while the shard is loaded again is for the state that is loaded.
                Some(handed) = self.handed.recv(), if runs => {
                    self.hand_over(handed);
                    self.take_handed();
                }
                Some(change) = self.declared.recv(), if runs => self.change(change),
                Some(done) = self.work.next(), if !self.work.is_empty() => self.done(done),
                command = self.commands.recv(), if takes => match command {
                    Some(command) => {
                        self.command(command);
                        self.take_commands();
                    }
                    // The broker is gone without a word.
                    None => return,
                },
                () = tokio::time::sleep(wait) => {}
            }
            self.wake_jobs();
            self.tick();
            self.drive();
            self.tell();
            if !self.is_idle() {
                self.next_tick = self.next_tick.min(self.time.elapsed() + TICK);
            }
            if self.ended() {
                return;
            }
        }
    }

    /// Nothing happens here by time alone, for now: an owner without work does not wake up forty times a second.
    fn is_idle(&self) -> bool {
        self.mode == Mode::Running
            && self.watched.is_empty()
            && self.upkeep.dirty.is_empty()
            && self.stopping.is_none()
            && self.retry_at.is_none()
    }

    fn take_handed(&mut self) {
        for _ in 0..COMMANDS_A_TURN {
            let Ok(handed) = self.handed.try_recv() else { return };
            self.hand_over(handed);
        }
    }

    /// Takes what else is there, so that one append serves many.
    fn take_commands(&mut self) {
        for _ in 0..COMMANDS_A_TURN {
            if self.mode != Mode::Running || self.journal.is_full() || self.stopping.is_some() {
                return;
            }
            let Ok(command) = self.commands.try_recv() else { return };
            self.command(command);
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Declare(meta, answer) => self.declare(meta, answer),
            Change::Delete(queue, answer) => self.delete(queue, answer),
        }
    }

    /// What was asked before is still done, if the disk lets it.
    fn begin_stop(&mut self, answer: oneshot::Sender<()>) {
        self.stopping = Some(answer);
        self.stop_at = self.time.elapsed() + STOP_MAX;
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            match self.mode {
                Mode::Running => self.command(command),
                Mode::Draining | Mode::Loading => command.refuse(&stopping()),
            }
        }
    }

    fn command(&mut self, command: Command) {
        // A queue is told of before anything is asked of it, but by another way.
        while let Ok(change) = self.declared.try_recv() {
            self.change(change);
        }
        match command {
            Command::Publish(queue, messages, held, answer) => {
                self.publish(Job::new(queue, messages, held, answer))
            }
            Command::Receive(queue, ask, answer) => self.receive(queue, ask, answer),
            Command::Settle(queue, verb, receipts, answer) => {
                self.settle(queue, verb, &receipts, answer)
            }
            Command::Peek(queue, max, answer) => self.peek(queue, max, answer),
            Command::Purge(queue, dead, answer) => self.purge(queue, dead, answer),
            Command::Pause(queue, paused, answer) => self.pause(queue, paused, answer),
            Command::Show(queue, answer) => self.show(queue, answer),
            Command::Explain(queue, answer) => self.explain(queue, answer),
            Command::Consumers(queue, answer) => self.consumers(queue, answer),
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Journal(done) => {
                let durable = self.journal.durable();
                let after = self.journal.handle(done, |flight| {
                    self.work.push(Box::pin(async move { Done::Journal(flight.await) }));
                });
                if self.journal.durable() > durable {
                    self.reload_pause = Duration::ZERO;
                }
                self.after(after);
            }
            Done::Publish(done) => self.publish_done(*done),
            Done::Delayed(job) => self.delay_over(*job),
            Done::Opened(queue, band, result) => self.opened(queue, band, result),
            Done::Read(read) => self.read_done(*read),
            Done::Truncated(queue, band) => self.truncated(queue, band),
            Done::MarksCarried(carried) => self.marks_carried(*carried),
            Done::MarksFreed => self.marks_freed(),
            Done::Loaded(result) => self.loaded(*result),
            Done::Nothing => {}
        }
    }

    fn fly(&mut self, work: impl Future<Output = Done> + Send + 'static) {
        self.work.push(Box::pin(work));
    }

    /// Runs what blocks on this device, at most so many at a time.
    fn block<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(
        &self,
        work: F,
    ) -> impl Future<Output = Option<T>> + Send + use<T, F> {
        let blocking = Arc::clone(&self.shared.blocking);
        async move {
            let _held = blocking.acquire_owned().await.ok()?;
            tokio::task::spawn_blocking(work).await.ok()
        }
    }

    /// Writes an event and applies it; `then` is told when it is durable.
    fn event(&mut self, event: Event, then: Option<Then>) {
        let frame = self.frame();
        self.state.apply(&event, &frame);
        self.journal.push(&Entry::Event(event), then);
    }

    fn frame(&self) -> Frame {
        Frame { boot: self.time.boot(), now_ms: self.time.boot_ms() }
    }

    fn drive(&mut self) {
        if self.mode != Mode::Running || self.retry_at.is_some_and(|at| self.time.elapsed() < at) {
            return;
        }
        self.retry_at = None;
        let work = &mut self.work;
        let after = self.journal.drive(|flight| {
            work.push(Box::pin(async move { Done::Journal(flight.await) }));
        });
        self.after(after);
    }

    fn after(&mut self, after: After) {
        match after {
            After::Nothing => {}
            After::Retry => self.retry_at = Some(self.time.elapsed() + RETRY),
            After::Lost(why) => {
                if self.mode == Mode::Running {
                    tracing::error!(shard = %self.layout, why, "the event log failed; the shard is loaded again");
                    self.mode = Mode::Draining;
                    self.stats.reloads += 1;
                }
                self.journal.drop_pending(&why);
            }
        }
    }

    fn wake_jobs(&mut self) {
        if self.mode != Mode::Running {
            return;
        }
        // A job that waits again stands in `waiting_keys`, not here.
        for job in std::mem::take(&mut self.woken) {
            self.publish(job);
        }
    }

    fn no_queue(&self, queue: QueueId) -> Fault {
        self.shared.registry.no_queue(queue)
    }

    fn lane(&mut self, queue: QueueId, band: crate::api::Band) -> Option<&mut queue::Lane> {
        self.queues.get_mut(&queue)?.lanes.get_mut(&band)
    }

    /// The queue's counts have changed.
    fn touched(&mut self, queue: QueueId) {
        self.touched.insert(queue);
        self.watched.insert(queue);
    }

    /// Tells those who read numbers without asking.
    fn tell(&mut self) {
        tell_share(&self.shared.in_flight, &mut self.in_flight_told, self.state.in_flight());
        for queue in &self.touched {
            if let Some(state) = self.state.queue(*queue) {
                self.shared.registry.tell(*queue, &state.counts(), state.paused());
            }
        }
        self.upkeep.dirty.extend(self.touched.drain());
        let marks = self.marks.bytes() as u64;
        tell_share(&self.shared.marks_bytes, &mut self.marks_told, marks);
        let all = self.shared.marks_bytes.load(Ordering::Relaxed);
        // What the other shards do not use, and an eighth of all in any case. After a start there may be more than all.
        let all = usize::try_from(all).unwrap_or(usize::MAX);
        let (free, over) =
            (load::MARKS_BYTES.saturating_sub(all), all.saturating_sub(load::MARKS_BYTES));
        let most = self.marks.bytes().saturating_add(free).saturating_sub(over);
        self.marks.set_max_bytes(most.max(load::MARKS_BYTES / 8));
        self.stats.marks = self.marks.len() as u64;
        self.stats.marks_dropped = self.marks.dropped();
        *self.tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = self.stats;
    }

    /// It was stopped, and all that was under way is answered.
    fn ended(&mut self) -> bool {
        if self.stopping.is_none() {
            return false;
        }
        self.turn_away();
        let owes = !self.work.is_empty() || (self.mode == Mode::Running && !self.journal.is_idle());
        if owes && self.time.elapsed() < self.stop_at {
            return false;
        }
        self.journal.drop_pending("the broker has stopped");
        if let Some(answer) = self.stopping.take() {
            let _ = answer.send(());
        }
        true
    }
}

pub(crate) fn stopping() -> Fault {
    Fault::Unavailable("the broker is stopping".into())
}

/// Brings one's share of a sum from what it was told to what it is now.
fn tell_share(sum: &AtomicU64, told: &mut u64, now: u64) {
    if now >= *told {
        sum.fetch_add(now - *told, Ordering::Relaxed);
    } else {
        sum.fetch_sub(*told - now, Ordering::Relaxed);
    }
    *told = now;
}
