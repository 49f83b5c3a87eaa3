//! Opening a queue's logs: at its first publish, or again after one has failed.

use super::queue::{BandLog, Lane};
use super::{Done, Owner};
use crate::api::{Band, QueueId};
use crate::logs;
use plimsoll::error::{OpenError, Stopped};
use plimsoll::{LogName, LogOptions};

impl Owner {
    /// Opens the log of a band, making it if there is none.
    pub(super) fn open(&mut self, queue: QueueId, band: Band) {
        let node = self.shared.node.clone();
        let work = self.block(move || {
            let name = LogName::new(&logs::queue(queue, band)).map_err(|_| OpenError::Closed)?;
            node.open_log(&name, LogOptions::default())
        });
        self.fly(async move {
            let result = work.await.unwrap_or(Err(OpenError::Closed));
            Done::Opened(queue, band, result)
        });
    }

    /// Opens a log again that failed. One that is damaged stays as it is until it is repaired: it can be read.
    pub(super) fn reopen(&mut self, queue: QueueId, band: Band, why: &Stopped) {
        if !matches!(why, Stopped::Failed(_)) {
            return;
        }
        tracing::warn!(%queue, %why, "a log is opened again");
        if let Some(lane) = self.lane(queue, band) {
            // What it had confirmed is on the disk; its offsets go on.
            *lane = Lane {
                log: BandLog::Opening,
                ahead: Default::default(),
                ..Lane::new(BandLog::Opening, lane.total)
            };
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
