//! What logs ask the node to do: commits and preparations, taken by threads or by a simulator's steps.

use crate::log::{Helper, Shared};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Something to do for a log.
#[derive(Debug)]
pub(super) enum Job {
    Commit(Arc<Shared>),
    Prepare(Arc<Shared>),
}

#[derive(Debug, Default)]
struct Queues {
    commits: VecDeque<Arc<Shared>>,
    prepares: VecDeque<Arc<Shared>>,
    closing: bool,
    ended: bool,
    /// Threads that wait for a commit and for a preparation: to wake nobody is a system call too.
    idle_commit: usize,
    idle_prepare: usize,
}

impl Queues {
    /// Committers that wait for a commit, without those that one is there for; negative if commits wait for them.
    fn spare_committers(&self) -> isize {
        self.idle_commit.cast_signed() - self.commits.len().cast_signed()
    }
}

/// The queues.
#[derive(Debug, Default)]
pub(super) struct Hub {
    queues: Mutex<Queues>,
    /// [`Queues::spare_committers`], for who has not got the lock.
    spare_committers: AtomicIsize,
    commit: Condvar,
    prepare: Condvar,
    closing: Condvar,
}

impl Hub {
    fn lock(&self) -> std::sync::MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, queues: &Queues) {
        self.spare_committers.store(queues.spare_committers(), Ordering::Relaxed);
    }

    /// The next commit; blocks for one. `None` when the node closes.
    pub(super) fn next_commit(&self) -> Option<Arc<Shared>> {
        let mut queues = self.lock();
        loop {
            if let Some(log) = queues.commits.pop_front() {
                self.note(&queues);
                return Some(log);
            }
            if queues.closing {
                return None;
            }
            queues.idle_commit += 1;
            self.note(&queues);
            queues = self.commit.wait(queues).unwrap_or_else(PoisonError::into_inner);
            queues.idle_commit -= 1;
            self.note(&queues);
        }
    }

    /// The next preparation; blocks for one, at most `timeout`. The flag says that the node closes.
    pub(super) fn next_prepare(&self, timeout: Duration) -> (Option<Arc<Shared>>, bool) {
        let mut queues = self.lock();
        if queues.prepares.is_empty() && !queues.closing {
            queues.idle_prepare += 1;
            let waited = self.prepare.wait_timeout(queues, timeout);
            queues = waited.unwrap_or_else(PoisonError::into_inner).0;
            queues.idle_prepare -= 1;
        }
        (queues.prepares.pop_front(), queues.closing)
    }

    /// The next job of any kind, without waiting.
    pub(super) fn try_next(&self) -> Option<Job> {
        let mut queues = self.lock();
        let prepare = queues.prepares.pop_front().map(Job::Prepare);
        let job = prepare.or_else(|| queues.commits.pop_front().map(Job::Commit));
        self.note(&queues);
        job
    }

    /// Whether the node closes.
    pub(super) fn is_closing(&self) -> bool {
        self.lock().closing
    }

    /// Waits until the node closes, at most `timeout`.
    pub(super) fn wait_to_close(&self, timeout: Duration) {
        let queues = self.lock();
        let open = |queues: &mut Queues| !queues.closing;
        drop(self.closing.wait_timeout_while(queues, timeout, open));
    }

    /// Lets the threads end once their queues are empty.
    pub(super) fn close(&self) {
        let mut queues = self.lock();
        queues.closing = true;
        if queues.idle_commit > 0 {
            self.commit.notify_all();
        }
        if queues.idle_prepare > 0 {
            self.prepare.notify_all();
        }
        self.closing.notify_all();
    }

    /// Lets go of what nobody will do any more, and takes nothing from now on: a queue that is left holds logs, which hold
    /// the queue, and none of them would ever be freed.
    pub(super) fn end(&self) {
        let mut queues = self.lock();
        queues.ended = true;
        let left = (std::mem::take(&mut queues.commits), std::mem::take(&mut queues.prepares));
        drop(queues);
        // A log's last handle may be among them, and closing files is no work for under a lock.
        drop(left);
    }
}

impl Helper for Hub {
    fn has_idle_committer(&self) -> bool {
        self.spare_committers.load(Ordering::Relaxed) > 0
    }

    fn commits_wait(&self) -> bool {
        self.spare_committers.load(Ordering::Relaxed) < 0
    }

    fn commit(&self, log: Arc<Shared>) -> bool {
        let mut queues = self.lock();
        let spare = queues.spare_committers() > 0;
        if !queues.ended {
            queues.commits.push_back(log);
            self.note(&queues);
            if queues.idle_commit > 0 {
                self.commit.notify_one();
            }
        }
        spare
    }

    fn prepare(&self, log: Arc<Shared>) {
        let mut queues = self.lock();
        if !queues.ended {
            queues.prepares.push_back(log);
            if queues.idle_prepare > 0 {
                self.prepare.notify_one();
            }
        }
    }
}
