//! The broker lab: runs `plimsoll serve` as a process, breaks what is round it, and proves from outside what the broker
//! promises. It shares no code with the broker: what it knows came over the wire.
#![allow(
    clippy::disallowed_methods,
    reason = "not the engine: it starts processes, measures by the system's clock and fills disks"
)]

pub mod check;
pub mod client;
pub mod content;
#[path = "../../faultlab/src/group.rs"]
#[allow(missing_docs, reason = "shared with the fault lab")]
pub mod group;
pub mod hangfs;
#[path = "../../faultlab/src/mounts.rs"]
#[allow(missing_docs, reason = "shared with the fault lab")]
pub mod mounts;
pub mod place;
pub mod report;
pub mod scenario;
pub mod server;
pub mod stats;
