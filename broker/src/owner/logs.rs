//! Opening a queue's logs: at its first publish, or again after one has failed.

use super::publish::{no_space, total};
use super::queue::{BandLog, Lane};
use super::{Done, Owner};
use crate::api::{Band, Fault, QueueId, Seq};
use crate::event::Place;
use crate::logs;
use crate::marks::{Digests, Mark};
use crate::message::{self, MessageHead};
use plimsoll::error::{OpenError, Stopped};
use plimsoll::{Log, LogName, LogOptions, Offset};

/// A message that is in a log beyond what its owner had confirmed: the outcome of its publish was not known, and it is there.
#[derive(Debug)]
pub(super) struct Survivor {
    head: MessageHead,
    key: Option<String>,
    mark: Mark,
    millis: u64,
}

/// What an opened log holds from `end` on. Without this it would be delivered, and its key be free. Blocks.
fn survivors(log: &Log, band: Band, end: Offset, digests: Digests) -> Vec<Survivor> {
    let mut found = Vec::new();
    let Ok(mut reader) = log.read_from(end) else { return found };
    // At most what was not confirmed when the log failed: a window of the engine's.
    while let Ok(Some(record)) = reader.next() {
        let place = Place { band, offset: record.offset };
        let millis = record.millis;
        let decoded = message::decode(&record.headers, record.payload.into(), millis);
        let Ok((head, stored)) = decoded else { continue };
        let mark = Mark::of(digests, &stored, place);
        found.push(Survivor { head, key: stored.content.key, mark, millis });
    }
    found
}

impl Owner {
    /// Opens the log of a band, making it if there is none.
    pub(super) fn open(&mut self, queue: QueueId, band: Band) {
        let node = self.shared.node.clone();
        let end = self.state.queue(queue).and_then(|state| state.band(band).map(|band| band.end()));
        let digests = self.marks.digests();
        let work = self.block(move || {
            let name = LogName::new(&logs::queue(queue, band)).map_err(|_| OpenError::Closed)?;
            let log = node.open_log(&name, LogOptions::default())?;
            let found = survivors(&log, band, end.unwrap_or(log.head()), digests);
            Ok((log, found))
        });
        self.fly(async move {
            let result = work.await.unwrap_or(Err(OpenError::Closed));
            Done::Opened(queue, band, result)
        });
    }

    /// A log is open, or cannot be opened.
    pub(super) fn opened(
        &mut self,
        queue: QueueId,
        band: Band,
        result: Result<(Log, Vec<Survivor>), OpenError>,
    ) {
        if !self.queues.contains_key(&queue) {
            // It was deleted meanwhile.
            if result.is_ok() {
                self.give_up(queue, vec![band]);
            }
            return;
        }
        match result {
            Ok((log, found)) => {
                let now = self.time.stamp();
                let mut next = self.next_seq.get(&queue).copied().unwrap_or(Seq(1));
                for Survivor { head, key, mark, millis } in found {
                    next = next.max(Seq(head.seq.0 + 1));
                    if let Some(key) = key {
                        self.marks.restore_message(queue, &key, mark, millis, &now);
                    }
                    let end = mark.place.offset.plus(1);
                    if let Some(mut state) = self.state.queue_mut(queue) {
                        state.confirmed(band, end, head.total, next);
                    }
                }
                self.next_seq.insert(queue, next);
                let total = self.state.queue(queue).map_or(0, |state| total(state, band));
                if let Some(runtime) = self.queues.get_mut(&queue) {
                    let lane = runtime.lanes.entry(band);
                    let lane = lane.or_insert_with(|| Lane::new(BandLog::Opening, total));
                    lane.log = BandLog::Open(log);
                    if lane.flying == 0 {
                        lane.total = total;
                    }
                }
                self.touched(queue);
            }
            Err(error) => {
                let fault = match &error {
                    OpenError::Disk(disk) if disk.is_no_space() => no_space(&error.to_string()),
                    _ => Fault::Unavailable(error.to_string().into()),
                };
                if let Some(runtime) = self.queues.get_mut(&queue) {
                    runtime.lanes.remove(&band);
                    for job in std::mem::take(&mut runtime.jobs) {
                        job.refuse(&fault);
                    }
                }
            }
        }
        self.advance_waiting(queue);
        self.dispatch(queue);
    }

    /// Opens a log again that failed. One that is damaged stays as it is until it is repaired: it can be read.
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
