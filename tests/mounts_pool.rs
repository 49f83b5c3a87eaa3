//! The spare pool on real file systems, each in a small mount of its own.
#![allow(clippy::unwrap_used, clippy::panic)]
#![allow(clippy::disallowed_methods, reason = "not the engine: a test")]

#[path = "mounts_pool/apart.rs"]
mod apart;
#[path = "mounts_pool/dirs.rs"]
mod dirs;
#[path = "mounts_pool/full.rs"]
mod full;
#[path = "mounts_pool/full_btrfs.rs"]
mod full_btrfs;
#[path = "mounts_pool/lab.rs"]
mod lab;
#[path = "mounts_pool/ledger.rs"]
mod ledger;
#[path = "common/outside.rs"]
mod outside;
#[path = "mounts_pool/reuse.rs"]
mod reuse;
#[path = "common/skip.rs"]
mod skip;

use faultlab::mounts::Mount;

/// The mount, or `None` after saying that the test `name` was skipped.
fn or_skip(name: &str, mount: Result<Mount, String>) -> Option<Mount> {
    mount.inspect_err(|reason| skip::skip(name, reason)).ok()
}
