//! The floors: the least that a log could do with ordinary system calls. No checksum, no header, no offset.

use super::merged::Merged;
use super::raw::{Raw, State, Way};
use super::{Role, Shape, Store, System};
use crate::workload::Kind;
use std::path::Path;

struct Floor {
    files: Vec<Merged>,
}

impl Store for Floor {
    fn append(&self, log: usize, payload: &[u8]) {
        self.files[log].append(payload);
    }

    fn batch(&self, log: usize, payload: &[u8], count: usize) {
        self.files[log].append_alone(&payload.repeat(count));
    }

    fn batches(&self, log: usize, payload: &[u8], count: usize, batches: usize) {
        // What is written was there before: this is the disk, not the copying.
        let bytes = payload.repeat(count);
        (0..batches).for_each(|_| self.files[log].append_alone(&bytes));
    }
}

fn open(dir: &Path, shape: &Shape, way: Way, state: State) -> Box<dyn Store> {
    let len = match (state, shape.kind) {
        // As many bytes as a main segment of the engine has; or of a batch workload all, so that it is sequential.
        (State::Written, Kind::Batches) => shape.bytes,
        (State::Written, Kind::Logs { .. }) => u64::from(super::FILE_OF_MANY),
        (State::Written, _) => 64 << 20,
        // More than any workload appends; nothing is written to most of it.
        _ => 2 << 30,
    };
    let files = (0..shape.logs)
        .map(|log| Merged::new(Raw::new(&dir.join(format!("floor-{log}")), way, state, len)))
        .collect();
    Box::new(Floor { files })
}

/// A floor that has a part in a workload of one writer only, or in those of many too.
fn leaves_out_others(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Single { .. } => None,
        _ => Some("a floor of one writer"),
    }
}

fn leaves_out(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Single { .. } | Kind::Writers { .. } | Kind::Logs { .. } | Kind::Batches => None,
        Kind::Scan => Some("measured beside each system, on its own files"),
        Kind::Reopen { .. } | Kind::Idle | Kind::Growth => Some("has no such thing"),
    }
}

macro_rules! floor {
    ($name:literal, $way:ident, $state:ident, $mode:literal, $leaves_out:ident) => {
        System {
            name: $name,
            role: Role::Floor,
            package: None,
            mode: $mode,
            durable: true,
            unchecked: None,
            few_logs: true,
            slow_batches: false,
            leaves_out: $leaves_out,
            open: |dir, shape| open(dir, shape, Way::$way, State::$state),
        }
    };
}

#[rustfmt::skip]
pub(crate) fn systems() -> Vec<System> {
    vec![
        floor!("floor-buffered-written", Buffered, Written, "pwrite + fdatasync, written file", leaves_out),
        floor!("floor-buffered-allocated", Buffered, Allocated, "pwrite + fdatasync, fallocated file", leaves_out_others),
        floor!("floor-buffered-growing", Buffered, Growing, "pwrite + fdatasync, growing file", leaves_out_others),
        floor!("floor-direct-written", Direct, Written, "O_DIRECT pwrite + fdatasync, written file", leaves_out),
        floor!("floor-direct-allocated", Direct, Allocated, "O_DIRECT pwrite + fdatasync, fallocated file", leaves_out_others),
        floor!("floor-direct-growing", Direct, Growing, "O_DIRECT pwrite + fdatasync, growing file", leaves_out_others),
        floor!("floor-dsync-written", Dsync, Written, "O_DIRECT pwritev2 RWF_DSYNC, written file", leaves_out),
        floor!("floor-dsync-allocated", Dsync, Allocated, "O_DIRECT pwritev2 RWF_DSYNC, fallocated file", leaves_out_others),
        floor!("floor-dsync-growing", Dsync, Growing, "O_DIRECT pwritev2 RWF_DSYNC, growing file", leaves_out_others),
    ]
}
