//! What becomes of published messages: the state of a shard's queues, in memory, and how events change it.
//!
//! State is by ranges: of each band only where its messages end and which was never delivered first (its *cursor*). Below the
//! cursor, messages that still matter have an entry: leased, ready again, or dead. A backlog costs no memory.
//!
//! All here is pure: time comes with the events, and nothing waits or reads.

mod apply;
mod index;
mod lease;
mod live;
mod plan;
mod queue;
mod replay;
mod settle;
mod shard;
mod snapshot;

#[cfg(test)]
mod tests;

pub use lease::Expired;
pub use plan::{Next, Ready};
pub use queue::{BandState, Dead, Queue};
pub use replay::Replay;
pub use settle::{Batch, Standing, settled};
pub use shard::{FINISHED_MAX, QueueMut, Shard};

/// How long after its event a delivery may be handed off, in milliseconds: where the hand-off is not known, a lease runs so
/// much longer, so that no message is delivered again while its receiver still holds it.
pub const HAND_OFF_MS: u64 = 5_000;

/// Now, in the clock that deadlines are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Which boot of the machine this is: 64 bits of its id.
    pub boot: u64,
    /// Milliseconds of `CLOCK_BOOTTIME`.
    pub now_ms: u64,
}
