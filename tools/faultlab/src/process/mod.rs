//! The lab with real processes: a driver that owns the engine is killed, starved and lied to, and what it said before is
//! held against what the disk shows after.
//!
//! - [`lines`], [`payload`]: what lab and driver say to each other. [`seam`]: any program that speaks so is a driver.
//! - [`driver`], [`dump`]: this engine's.
//! - [`oracle`]: pure; [`history`] feeds it from a file.
//! - [`session`]: one process after the other over one data directory. [`kill`], [`inject`], [`full`]: what is done to
//!   them. [`trace`]: what system calls prove.
pub mod child;
pub mod driver;
pub mod dump;
pub mod full;
pub mod history;
pub mod inject;
pub mod kill;
pub mod lines;
pub mod oracle;
#[cfg(test)]
mod oracle_tests;
pub mod payload;
pub mod random;
pub mod seam;
pub mod session;
pub mod trace;
#[cfg(test)]
mod trace_tests;
