//! The way of deliveries from their owner to their receiver.

use crate::api::QueueId;
use crate::event::DeliveryId;
use crate::owner::Handed;
use tokio::sync::mpsc;

/// Deliveries on their way to their receiver. Dropped before [`HandOff::done`], they are undone: they cost no attempt, and
/// nothing is leased.
#[derive(Debug)]
pub struct HandOff(Option<Way>);

#[derive(Debug)]
struct Way {
    owner: mpsc::UnboundedSender<Handed>,
    queue: QueueId,
    items: Vec<DeliveryId>,
    lease_ms: u64,
    leased_ms: u64,
}

impl HandOff {
    pub(crate) fn new(
        owner: mpsc::UnboundedSender<Handed>,
        queue: QueueId,
        items: Vec<DeliveryId>,
        lease_ms: u64,
        leased_ms: u64,
    ) -> Self {
        Self(Some(Way { owner, queue, items, lease_ms, leased_ms }))
    }

    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// They are with their receiver: the leases begin now.
    pub fn done(&mut self) {
        self.tell(true);
    }

    fn tell(&mut self, done: bool) {
        let Some(Way { owner, queue, items, lease_ms, leased_ms }) = self.0.take() else { return };
        // An owner that has ended keeps the leases as they were written.
        let _ = owner.send(Handed { queue, items, lease_ms: done.then_some(lease_ms), leased_ms });
    }
}

impl Drop for HandOff {
    fn drop(&mut self) {
        self.tell(false);
    }
}
