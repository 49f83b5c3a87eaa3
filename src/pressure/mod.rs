//! How near a device, and the memory, is to its end: samples become a [`Level`](crate::types::Level).
//!
//! Nothing here is stored, so no level outlives its cause: a start begins with a fresh sample. Nothing here has a thread
//! either; the node calls [`DiskMonitor::sample`] and [`MemoryMonitor::sample`] once a second, each from a thread that may
//! hang with its call. Who reads a level looks at the age of the sample, so a call that hangs holds nobody up: what is older
//! than [`STALE`] counts as soft at least.
//!
//! Between two samples a device's books go on ([`DiskMonitor::allocate`], [`DiskMonitor::released`]), so that what the node
//! itself does counts at once.

mod disk;
mod forecast;
mod gauge;
mod hysteresis;
mod memory;
mod say;
mod since;
mod thresholds;

pub use disk::{DiskMonitor, DiskReading, DiskReason, Shortage};
pub(crate) use gauge::millis;
pub use gauge::{Gauge, STALE};
pub use memory::{
    GroupMemory, LimitFrom, MemoryMonitor, MemoryReading, MemoryReason, MemorySample, MemorySource,
    NoMemory, SystemMemory,
};
pub use thresholds::Thresholds;
