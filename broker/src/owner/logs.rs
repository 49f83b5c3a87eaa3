//! Opening a queue's logs: at its first publish, or again after one has failed.

use super::load::{LoadError, confirm, last_head, open_whole, published, shrunk, since};
use super::publish::{no_space, total};
use super::queue::{BandLog, Lane};
use super::{Done, Mode, OPEN_AGAIN, Owner};
use crate::api::{Band, Fault, QueueId};
use crate::logs;
use crate::marks::Mark;
use crate::message::MessageHead;
use plimsoll::error::Stopped;
use plimsoll::{Log, LogName};
use std::time::Duration;

/// A log that was opened, with what it holds beyond what its owner knew: the outcome of a publish was not known, and it is
/// there. Without this it would be delivered, and its key be free.
#[derive(Debug)]
pub(super) struct Found {
    log: Log,
    last: Option<MessageHead>,
    /// Keys with their marks, and when their messages were written.
    keys: Vec<(String, Mark, u64)>,
}

impl Owner {
    /// Opens the log of a band, making it if there is none.
    pub(super) fn open(&mut self, queue: QueueId, band: Band) {
        let opened = self.opening(queue, band);
        self.fly(async move { Done::Opened(queue, band, opened.await) });
    }

    /// The same in a moment, as the disk refused.
    fn open_later(&mut self, queue: QueueId, band: Band) {
        let opened = self.opening(queue, band);
        self.fly(async move {
            tokio::time::sleep(OPEN_AGAIN).await;
            Done::Opened(queue, band, opened.await)
        });
    }

    /// Opens the logs that a load could not open.
    pub(super) fn open_closed(&mut self) {
        let closed: Vec<_> = self
            .queues
            .iter()
            .flat_map(|(id, runtime)| {
                runtime.lanes.iter().map(move |(band, lane)| (*id, *band, lane))
            })
            .filter(|(_, _, lane)| lane.is_closed())
            .map(|(id, band, _)| (id, band))
            .collect();
        for (queue, band) in closed {
            self.open_later(queue, band);
        }
    }

    fn opening(
        &self,
        queue: QueueId,
        band: Band,
    ) -> impl Future<Output = Result<Found, LoadError>> + Send + use<> {
        let (node, time) = (self.shared.node.clone(), self.time.clone());
        let known =
            self.state.queue(queue).and_then(|state| state.band(band).map(|band| band.end()));
        let digests = self.marks.digests();
        let work = self.block(move || {
            let log = open_whole(&node, &logs::queue(queue, band), false)?;
            let mut keys = Vec::new();
            let from = since(&log, &time).max(known.unwrap_or_default());
            published(&log, band, digests, from, |key, mark, millis| {
                keys.push((key.to_owned(), mark, millis));
            });
            Ok(Found { last: last_head(&log), log, keys })
        });
        async move {
            work.await.unwrap_or_else(|| Err(LoadError::Said("the log was not opened".to_owned())))
        }
    }

    /// A log is open, or cannot be opened.
    pub(super) fn opened(&mut self, queue: QueueId, band: Band, result: Result<Found, LoadError>) {
        if !self.queues.contains_key(&queue) {
            // It was deleted meanwhile.
            if result.is_ok() {
                self.give_up(queue, vec![band]);
            }
            return;
        }
        match result {
            Ok(Found { log, last, keys }) => {
                if let Some(why) = shrunk(&self.state, queue, band, &log) {
                    return self.is_shrunk(queue, band, why);
                }
                let now = self.time.stamp();
                for (key, mark, millis) in keys {
                    self.marks.restore_message(queue, &key, mark, millis, &now);
                }
                let next = confirm(&mut self.state, queue, band, &log, last);
                let known = self.next_seq.entry(queue).or_insert(next);
                *known = next.max(*known);
                let total = self.state.queue(queue).map_or(0, |state| total(state, band));
                if let Some(runtime) = self.queues.get_mut(&queue) {
                    let lane = runtime.lanes.entry(band);
                    let lane = lane.or_insert_with(|| Lane::new(BandLog::Opening, total));
                    (lane.log, lane.exists) = (BandLog::Open(log), true);
                    if lane.flying == 0 {
                        lane.total = total;
                    }
                    if !runtime.lanes.values().any(Lane::is_closed) {
                        runtime.unreadable = None;
                    }
                }
                self.touched(queue);
            }
            Err(error) => self.not_opened(queue, band, &error),
        }
        self.advance_waiting(queue);
        self.dispatch(queue);
    }

    fn is_shrunk(&mut self, queue: QueueId, band: Band, why: String) {
        let Some(runtime) = self.queues.get_mut(&queue) else { return };
        tracing::error!(queue = %runtime.meta.name, why, "a queue's log is shorter than it was");
        let fault = Fault::Unavailable(why.as_str().into());
        runtime.unreadable = Some((why, Duration::MAX));
        runtime.lanes.remove(&band);
        for job in std::mem::take(&mut runtime.jobs) {
            job.refuse(&fault);
        }
    }

    fn not_opened(&mut self, queue: QueueId, band: Band, error: &LoadError) {
        let fault = if error.is_no_space() {
            no_space(&error.to_string())
        } else {
            Fault::Unavailable(error.to_string().into())
        };
        let again = self.time.elapsed() + OPEN_AGAIN;
        let Some(runtime) = self.queues.get_mut(&queue) else { return };
        for job in std::mem::take(&mut runtime.jobs) {
            job.refuse(&fault);
        }
        if !runtime.lanes.get(&band).is_some_and(|lane| lane.exists) {
            // It was to be made, by the next publish again.
            runtime.lanes.remove(&band);
            return;
        }
        if runtime.unreadable.is_none() {
            tracing::error!(queue = %runtime.meta.name, %error, "a queue's log cannot be opened");
        }
        runtime.unreadable = Some((error.to_string(), again));
        // It has messages, and the queue would seem empty: it is tried until it opens. A load tries by itself.
        if self.mode == Mode::Running && self.stopping.is_none() {
            self.open_later(queue, band);
        }
    }

    /// Opens a log again that failed. One that is damaged stays as it is, readable up to there, until the next start.
    pub(super) fn reopen(&mut self, queue: QueueId, band: Band, why: &Stopped) {
        if !matches!(why, Stopped::Failed(_)) {
            return;
        }
        tracing::warn!(%queue, %why, "a log is opened again");
        if let Some(lane) = self.lane(queue, band) {
            // What it had confirmed is on the disk; its offsets go on. What is under way is still to be heard of.
            lane.log = BandLog::Opening;
            lane.ahead.clear();
            self.open(queue, band);
        }
    }

    /// Deletes the logs of a queue that is not there any more.
    pub(super) fn give_up(&mut self, queue: QueueId, bands: Vec<Band>) {
        let node = self.shared.node.clone();
        let work = self.block(move || {
            for band in bands {
                let Ok(name) = LogName::new(&logs::queue(queue, band)) else { continue };
                if let Err(error) = node.delete_log(&name) {
                    tracing::warn!(%queue, %error, "a deleted queue's log is still there");
                }
            }
        });
        self.fly(async move {
            let _ = work.await;
            Done::Nothing
        });
    }
}
