//! What a declaration and a deletion are answered, and what is to be written for them.

use super::{Catalogue, QUEUES_MAX, QueueMeta, Record};
use crate::api::{Declared, Fault, QueueSettings};
use crate::name::QueueName;

impl Catalogue {
    /// What declaring this does, and the record for it; none if nothing changes. The record is to be durable, and then
    /// applied, before the answer.
    ///
    /// # Errors
    /// Settings out of bounds, too many queues, or another directory than the queue has: [`Fault::Invalid`]. Other settings
    /// without `if_match`: [`Fault::OtherSettings`]. Another revision than `if_match`, or no such queue with it:
    /// [`Fault::OtherRevision`].
    pub fn plan_declare(
        &self,
        name: &QueueName,
        settings: &QueueSettings,
        if_match: Option<u64>,
        now_ms: u64,
    ) -> Result<(Declared, Option<Record>), Fault> {
        settings.check().map_err(|error| invalid(error.to_string()))?;
        let queue = self.get(name);
        let at = queue.map_or(0, |queue| queue.revision);
        // Without a queue no revision is the right one, not even 0.
        if if_match.is_some_and(|wanted| queue.is_none() || wanted != at) {
            return Err(Fault::OtherRevision { queue: name.clone(), revision: at });
        }
        let Some(queue) = queue else { return self.plan_new(name, settings, now_ms) };
        if queue.settings == *settings {
            return Ok((Declared::Same(at), None));
        }
        if if_match.is_none() {
            return Err(Fault::OtherSettings { queue: name.clone(), revision: at });
        }
        if queue.settings.data_dir != settings.data_dir {
            return Err(invalid("data_dir: fixed when the queue is declared".to_owned()));
        }
        let revision = at.saturating_add(1);
        Ok((Declared::Changed(revision), Some(declare(queue.id, name, settings, revision, now_ms))))
    }

    fn plan_new(
        &self,
        name: &QueueName,
        settings: &QueueSettings,
        now_ms: u64,
    ) -> Result<(Declared, Option<Record>), Fault> {
        let directories = self.format().directories.len();
        if usize::from(settings.data_dir) >= directories {
            return Err(invalid(format!("data_dir: 0 to {} are there", directories - 1)));
        }
        if self.len() >= QUEUES_MAX {
            return Err(invalid(format!("there are {QUEUES_MAX} queues, and no more are allowed")));
        }
        Ok((Declared::Created, Some(declare(self.next_id(), name, settings, 1, now_ms))))
    }

    /// The queue that deleting this takes, and the record for it. The queue is gone when that is durable.
    ///
    /// # Errors
    /// [`Fault::NoQueue`]; another revision than `if_match`: [`Fault::OtherRevision`].
    pub fn plan_delete(
        &self,
        name: &QueueName,
        if_match: Option<u64>,
        now_ms: u64,
    ) -> Result<(QueueMeta, Record), Fault> {
        let queue = self.get(name).ok_or_else(|| Fault::NoQueue(name.clone()))?;
        if if_match.is_some_and(|wanted| wanted != queue.revision) {
            return Err(Fault::OtherRevision { queue: name.clone(), revision: queue.revision });
        }
        Ok((queue.clone(), Record::Delete { id: queue.id, at_ms: now_ms }))
    }
}

fn declare(
    id: crate::api::QueueId,
    name: &QueueName,
    settings: &QueueSettings,
    revision: u64,
    at_ms: u64,
) -> Record {
    Record::Declare { id, name: name.clone(), settings: settings.clone(), revision, at_ms }
}

fn invalid(said: String) -> Fault {
    Fault::Invalid(said.into())
}
