//! Which queues there are, and their counts as their owners last told them: for lists and metrics, which wait for nobody.

use crate::api::{Counts, Fault, QueueId, QueueSummary};
use crate::catalogue::QueueMeta;
use crate::name::QueueName;
use crate::owner::Handle;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// A queue as everybody may see it.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) id: QueueId,
    pub(crate) owner: Handle,
    revision: AtomicU64,
    ready: AtomicU64,
    in_flight: AtomicU64,
    redelivered: AtomicU64,
    dead: AtomicU64,
    paused: AtomicBool,
}

#[derive(Debug, Default)]
struct Queues {
    by_name: BTreeMap<QueueName, Arc<Listed>>,
    by_id: HashMap<QueueId, (QueueName, Arc<Listed>)>,
}

/// All queues.
#[derive(Debug, Default)]
pub(crate) struct Registry(RwLock<Queues>);

impl Registry {
    fn read(&self) -> std::sync::RwLockReadGuard<'_, Queues> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Queues> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, name: &QueueName) -> Result<Arc<Listed>, Fault> {
        self.read().by_name.get(name).cloned().ok_or_else(|| Fault::NoQueue(name.clone()))
    }

    /// A queue is there, or has another revision.
    pub(crate) fn put(&self, meta: &QueueMeta, owner: &Handle) {
        let mut queues = self.write();
        if let Some(listed) = queues.by_name.get(&meta.name).filter(|listed| listed.id == meta.id) {
            listed.revision.store(meta.revision, Ordering::Relaxed);
            return;
        }
        let zero = || AtomicU64::new(0);
        let listed = Arc::new(Listed {
            id: meta.id,
            owner: owner.clone(),
            revision: AtomicU64::new(meta.revision),
            ready: zero(),
            in_flight: zero(),
            redelivered: zero(),
            dead: zero(),
            paused: AtomicBool::new(false),
        });
        queues.by_id.insert(meta.id, (meta.name.clone(), Arc::clone(&listed)));
        queues.by_name.insert(meta.name.clone(), listed);
    }

    pub(crate) fn remove(&self, name: &QueueName) {
        let mut queues = self.write();
        if let Some(listed) = queues.by_name.remove(name) {
            queues.by_id.remove(&listed.id);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.read().by_name.len()
    }

    /// What an owner says to those who ask for a queue that it does not have: it was deleted, or its number is not known.
    pub(crate) fn no_queue(&self, id: QueueId) -> Fault {
        match self.read().by_id.get(&id) {
            Some((name, _)) => Fault::NoQueue(name.clone()),
            None => Fault::Invalid(format!("queue {id} was deleted").into()),
        }
    }

    /// An owner tells a queue's counts.
    pub(crate) fn tell(&self, id: QueueId, counts: &Counts, paused: bool) {
        let queues = self.read();
        let Some((_, listed)) = queues.by_id.get(&id) else { return };
        listed.ready.store(counts.ready, Ordering::Relaxed);
        listed.in_flight.store(counts.in_flight, Ordering::Relaxed);
        listed.redelivered.store(counts.redelivered, Ordering::Relaxed);
        listed.dead.store(counts.dead, Ordering::Relaxed);
        listed.paused.store(paused, Ordering::Relaxed);
    }

    pub(crate) fn list(&self, after: Option<&str>, max: usize) -> Vec<QueueSummary> {
        let queues = self.read();
        // By bytes: what follows a name that cannot be one is well defined, too.
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let listed = queues.by_name.range::<str, _>((from, Bound::Unbounded)).take(max);
        listed
            .map(|(name, listed)| QueueSummary {
                name: name.clone(),
                revision: listed.revision.load(Ordering::Relaxed),
                counts: Counts {
                    ready: listed.ready.load(Ordering::Relaxed),
                    in_flight: listed.in_flight.load(Ordering::Relaxed),
                    redelivered: listed.redelivered.load(Ordering::Relaxed),
                    dead: listed.dead.load(Ordering::Relaxed),
                },
                paused: listed.paused.load(Ordering::Relaxed),
            })
            .collect()
    }
}
