//! The fault lab: breaks the storage in every way that a machine can, and says what the engine made of it.
//!
//! [`sim`] is one simulated machine, driven in one thread: crashes at every operation, random lives, and known mistakes
//! that must be caught. [`mounts`] makes small file systems of each kind for tests on real ones.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "not the engine: a test of it, which ends with a panic where an invariant does not hold"
)]

pub mod crowd;
pub mod distinct;
pub mod group;
pub mod mounts;
pub mod process;
pub mod sim;
