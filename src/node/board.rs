//! Who is told of levels: attention items for operators, and whoever waits for a change.

use super::pressure::{Pressure, Watch};
use crate::permit::LimitReason;
use crate::types::Level;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Something that an operator should know, for as long as it lasts: the node opens it and clears it by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attention {
    /// What there is too little of.
    pub reason: LimitReason,
    /// The data directory whose device it is about; `None` for memory.
    pub device: Option<PathBuf>,
    /// The level, soft or higher.
    pub level: Level,
    /// Since when it has been open, Unix milliseconds.
    pub since_millis: u64,
    /// What is short, in a sentence.
    pub detail: String,
}

impl fmt::Display for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is at level {}: {}", self.reason, self.level, self.detail)
    }
}

/// What an item is about: its place among a node's gauges.
pub(super) type Subject = usize;

#[derive(Debug, Default)]
struct State {
    /// Counts the changes.
    version: u64,
    items: std::collections::BTreeMap<Subject, Attention>,
    /// Of the tasks that wait, by subscription: the last one that asked.
    wakers: std::collections::BTreeMap<u64, Waker>,
    subscriptions: u64,
    closed: bool,
}

/// The items that are open, and who waits.
#[derive(Debug, Default)]
pub(super) struct Board {
    state: Mutex<State>,
    changed: Condvar,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The level of `subject` changed to that of `item`, which is open from soft on. [`Board::wake`] is to follow.
    pub(super) fn changed(&self, subject: Subject, mut item: Attention) {
        let mut state = self.lock();
        state.version += 1;
        if item.level == Level::Ok {
            state.items.remove(&subject);
        } else {
            if let Some(open) = state.items.get(&subject) {
                item.since_millis = open.since_millis;
            }
            state.items.insert(subject, item);
        }
    }

    /// Nothing changes any more.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.wake();
    }

    /// Wakes who waits. Runs foreign code: the caller holds no lock.
    pub(super) fn wake(&self) {
        let wakers = std::mem::take(&mut self.lock().wakers);
        self.changed.notify_all();
        wakers.into_values().for_each(Waker::wake);
    }

    pub(super) fn items(&self) -> Vec<Attention> {
        self.lock().items.values().cloned().collect()
    }
}

/// Tells of changes of level: see [`Node::pressure_changes`](crate::Node::pressure_changes). Changes that follow each other
/// while nobody looks are told as one.
#[derive(Debug)]
pub struct PressureChanges {
    watch: Arc<Watch>,
    number: u64,
    seen: u64,
}

impl PressureChanges {
    pub(super) fn new(watch: Arc<Watch>) -> Self {
        let mut state = watch.board.lock();
        state.subscriptions += 1;
        let (number, seen) = (state.subscriptions, state.version);
        drop(state);
        Self { watch, number, seen }
    }

    /// Waits until a level has changed since the last call that gave one, at most `timeout`; gives the pressure then. `None`
    /// after the timeout, and when the node is closed. Blocks.
    pub fn wait(&mut self, timeout: Duration) -> Option<Pressure> {
        let watch = Arc::clone(&self.watch);
        let state = watch.board.lock();
        let same = |state: &mut State| state.version == self.seen && !state.closed;
        let waited = watch.board.changed.wait_timeout_while(state, timeout, same);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let new = self.look(&state);
        drop(state);
        new.then(|| watch.pressure())
    }

    /// The same for a task: ready when a level has changed; `None` when the node is closed.
    pub fn changed(&mut self) -> impl Future<Output = Option<Pressure>> + '_ {
        Changed(self)
    }

    fn look(&mut self, state: &State) -> bool {
        let new = state.version != self.seen && !state.closed;
        self.seen = state.version;
        new
    }
}

impl Drop for PressureChanges {
    fn drop(&mut self) {
        let waker = self.watch.board.lock().wakers.remove(&self.number);
        drop(waker);
    }
}

#[derive(Debug)]
struct Changed<'a>(&'a mut PressureChanges);

impl Future for Changed<'_> {
    type Output = Option<Pressure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let watch = Arc::clone(&self.0.watch);
        let mut state = watch.board.lock();
        if state.version == self.0.seen && !state.closed {
            let former = state.wakers.insert(self.0.number, context.waker().clone());
            drop(state);
            // It may be the last of its task.
            drop(former);
            return Poll::Pending;
        }
        let new = self.0.look(&state);
        drop(state);
        Poll::Ready(new.then(|| watch.pressure()))
    }
}
