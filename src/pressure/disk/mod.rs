//! One device: samples of its free space, the books between them, and the level that both give.

mod account;
mod monitor;
mod reading;
#[cfg(test)]
mod tests;

pub use monitor::DiskMonitor;
pub use reading::{DiskChange, DiskReading, DiskReason, Shortage};
