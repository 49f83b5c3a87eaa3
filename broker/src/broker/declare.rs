//! The catalogue: declarations and deletions, one after the other, each durable before it is told.

use super::Inner;
use crate::api::{Declared, Deleted, Fault, QueueSettings};
use crate::catalogue::{Catalogue, Record};
use crate::logs::CATALOGUE;
use crate::name::QueueName;
use crate::owner::{Change, Command, Handle, open_whole, stopping};
use plimsoll::error::{Outcome, Stopped};
use plimsoll::{Log, NewRecord, Node, Offset, WriteClass};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Records of a compaction that are appended at once: a queue's takes at most some 700 bytes.
const COMPACTION_PART: usize = 1_000;

/// The catalogue with its log.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) catalogue: Catalogue,
    pub(super) log: Log,
    pub(super) node: Node,
    /// Records since the last compaction.
    pub(super) since: u64,
}

impl Keeper {
    /// Writes a record and applies it.
    async fn write(&mut self, record: &Record) -> Result<(), Fault> {
        self.append(vec![record.encode()]).await?;
        let applied = self.catalogue.apply(record);
        applied.map_err(|error| Fault::Unavailable(error.to_string().into()))?;
        self.since += 1;
        if self.catalogue.wants_compaction(self.since) {
            self.compact().await;
        }
        Ok(())
    }

    async fn append(&mut self, records: Vec<Vec<u8>>) -> Result<Offset, Fault> {
        if let Some(Stopped::Failed(_)) = self.log.stopped() {
            self.reopen().await?;
        }
        let log = self.log.clone();
        let written = tokio::task::spawn_blocking(move || {
            let records: Vec<_> = records.iter().map(|record| NewRecord::new(record)).collect();
            log.publish(WriteClass::Coordination, &records)
        });
        let written = written.await.map_err(|error| Fault::Unknown(error.to_string().into()))?;
        match written {
            Ok(done) => Ok(done.first),
            Err(error) => Err(match error.outcome() {
                Outcome::NotWritten => {
                    Fault::Unavailable(format!("the catalogue takes nothing: {error}").into())
                }
                Outcome::Unknown => Fault::Unknown(error.to_string().into()),
            }),
        }
    }

    /// Opens the log again that has failed, so that a disk that failed for a while needs no restart.
    async fn reopen(&mut self) -> Result<(), Fault> {
        let node = self.node.clone();
        let opened = tokio::task::spawn_blocking(move || open_whole(&node, CATALOGUE, true));
        let opened = opened.await.map_err(|error| Fault::Unavailable(error.to_string().into()))?;
        let log = opened.map_err(|error| Fault::Unavailable(error.to_string().into()))?;
        // All that was confirmed is in the catalogue.
        if log.tail() != self.log.durable() {
            // A record whose outcome was not known is there: only a start reads it.
            let why = "the catalogue holds a change that was not confirmed: restart the broker";
            return Err(Fault::Unavailable(why.into()));
        }
        self.log = log;
        Ok(())
    }

    /// Writes what stands for all before it, and frees that. A failure costs nothing but space.
    async fn compact(&mut self) {
        self.since = 0;
        let mut records: Vec<_> = self.catalogue.compaction().iter().map(Record::encode).collect();
        let mut begin = None;
        // A part at a time: the log takes no more at once. Nothing else is written between, as this holds the catalogue.
        while !records.is_empty() {
            let rest = records.split_off(records.len().min(COMPACTION_PART));
            match self.append(std::mem::replace(&mut records, rest)).await {
                Ok(first) => begin = begin.or(Some(first)),
                Err(error) => {
                    tracing::warn!(%error, "the catalogue is not compacted");
                    return;
                }
            }
        }
        let Some(first) = begin else { return };
        let log = self.log.clone();
        let freed = tokio::task::spawn_blocking(move || log.truncate_before(first)).await;
        if let Ok(Err(error)) = freed {
            tracing::warn!(%error, "old records of the catalogue are still on the disk");
        }
    }
}

impl Inner {
    pub(super) async fn declare(
        self: Arc<Self>,
        name: QueueName,
        settings: QueueSettings,
        if_match: Option<u64>,
    ) -> Result<Declared, Fault> {
        let mut keeper = self.keeper.lock().await;
        self.check_running()?;
        let now = self.time.wall_ms();
        let (declared, record) = keeper.catalogue.plan_declare(&name, &settings, if_match, now)?;
        let Some(record) = record else { return Ok(declared) };
        keeper.write(&record).await?;
        let meta = keeper.catalogue.get(&name).cloned();
        let meta = meta.ok_or_else(|| Fault::NoQueue(name.clone()))?;
        let owner = self.owner_of(&meta)?.clone();
        // The owner is told before anybody can ask for it, and in the order of the catalogue. Its answer is not waited for with
        // the catalogue in hand: a shard whose disk fails would keep all others from being declared.
        let told = tell(&owner, |answer| Change::Declare(meta.clone(), answer));
        self.registry.put(&meta, &owner);
        drop(keeper);
        answered(told?).await.map(|()| declared)
    }

    pub(super) async fn delete(
        self: Arc<Self>,
        name: QueueName,
        if_match: Option<u64>,
    ) -> Result<Deleted, Fault> {
        let mut keeper = self.keeper.lock().await;
        self.check_running()?;
        let (meta, record) = keeper.catalogue.plan_delete(&name, if_match, self.time.wall_ms())?;
        keeper.write(&record).await?;
        self.registry.remove(&name);
        let told = tell(self.owner_of(&meta)?, |answer| Change::Delete(meta.id, answer));
        drop(keeper);
        answered(told?).await
    }
}

/// Tells an owner of a change, and gives where it answers. Waits for nothing.
fn tell<T>(
    owner: &Handle,
    change: impl FnOnce(crate::owner::Answer<T>) -> Change,
) -> Result<oneshot::Receiver<Result<T, Fault>>, Fault> {
    let (answer, told) = oneshot::channel();
    owner.declared.send(change(answer)).map_err(|_| stopping())?;
    Ok(told)
}

async fn answered<T>(told: oneshot::Receiver<Result<T, Fault>>) -> Result<T, Fault> {
    told.await.unwrap_or_else(|_| Err(Fault::Unknown("the queue's owner gave no answer".into())))
}

/// Asks an owner. What it does not answer may have been done.
pub(super) async fn ask<T>(
    owner: &Handle,
    command: impl FnOnce(crate::owner::Answer<T>) -> Command,
) -> Result<T, Fault> {
    let (answer, told) = oneshot::channel();
    let sent = owner.commands.send(command(answer)).await;
    sent.map_err(|_| stopping())?;
    answered(told).await
}
