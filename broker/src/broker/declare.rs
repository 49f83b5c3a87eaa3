//! The catalogue: declarations and deletions, one after the other, each durable before it is told.

use super::Inner;
use crate::api::{Declared, Deleted, Fault, QueueSettings};
use crate::catalogue::{Catalogue, Record};
use crate::name::QueueName;
use crate::owner::{Command, Handle};
use plimsoll::error::Outcome;
use plimsoll::{Log, NewRecord, Offset, WriteClass};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The catalogue with its log.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) catalogue: Catalogue,
    pub(super) log: Log,
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

    async fn append(&self, records: Vec<Vec<u8>>) -> Result<Offset, Fault> {
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

    /// Writes what stands for all before it, and frees that. A failure costs nothing but space.
    async fn compact(&mut self) {
        self.since = 0;
        let records = self.catalogue.compaction().iter().map(Record::encode).collect();
        match self.append(records).await {
            Ok(first) => {
                let log = self.log.clone();
                let freed = tokio::task::spawn_blocking(move || log.truncate_before(first)).await;
                if let Ok(Err(error)) = freed {
                    tracing::warn!(%error, "old records of the catalogue are still on the disk");
                }
            }
            Err(error) => tracing::warn!(%error, "the catalogue is not compacted"),
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
        // The owner knows it before anybody can ask for it.
        ask(&owner, |answer| Command::Declare(meta.clone(), answer)).await?;
        self.registry.put(&meta, &owner);
        Ok(declared)
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
        let owner = self.owner_of(&meta)?.clone();
        drop(keeper);
        ask(&owner, |answer| Command::Delete(meta.id, answer)).await
    }
}

/// Asks an owner. What it does not answer may have been done.
pub(super) async fn ask<T>(
    owner: &Handle,
    command: impl FnOnce(crate::owner::Answer<T>) -> Command,
) -> Result<T, Fault> {
    let (answer, told) = oneshot::channel();
    let sent = owner.commands.send(command(answer)).await;
    sent.map_err(|_| Fault::Unavailable("the broker is stopping".into()))?;
    told.await.unwrap_or_else(|_| Err(Fault::Unknown("the queue's owner gave no answer".into())))
}
