//! One device: samples of its free space, the books between them, and the level that both give.

mod account;
mod monitor;
#[cfg(test)]
mod only_space;
mod reading;
#[cfg(test)]
#[allow(non_snake_case, reason = "tests are named by the case that they hold")]
mod tests;

pub use monitor::DiskMonitor;
pub use reading::{DiskReading, DiskReason, Shortage};
