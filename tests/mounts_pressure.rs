//! What the engine is for, on real file systems and in real control groups: space and memory run out, and publishes are
//! slowed and refused before anything fails, while all that frees space goes on.
//!
//! Mounts and control groups need root; where there is none each test says that it was skipped.
//!
//! `PLIMSOLL_FULL=1` runs the tests of memory at their full size (minutes, and 2 GiB on the disk).
#![allow(clippy::unwrap_used, clippy::panic)]
#![allow(clippy::disallowed_methods, reason = "not the engine: a test")]
#![allow(non_snake_case, reason = "tests are named for the cases that they hold")]

#[path = "mounts_pressure/changes.rs"]
mod changes;
#[path = "mounts_pressure/child.rs"]
mod child;
#[path = "mounts_pressure/depth.rs"]
mod depth;
#[path = "mounts_pressure/filling.rs"]
mod filling;
#[path = "mounts_pressure/flapping.rs"]
mod flapping;
#[path = "mounts_pressure/full.rs"]
mod full;
#[path = "mounts_pool/ledger.rs"]
mod ledger;
#[path = "mounts_pressure/memory.rs"]
mod memory;
#[path = "mounts_pressure/other.rs"]
mod other;
#[path = "common/outside.rs"]
mod outside;
#[path = "mounts_pressure/place.rs"]
mod place;
#[path = "mounts_pressure/readers.rs"]
mod readers;
#[path = "common/skip.rs"]
mod skip;
