//! What is measured, and what is asked of the engine. Pure: sizes, names and bounds, no I/O.

use serde::{Deserialize, Serialize};

/// What a workload does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One writer, one durable record after the other.
    Single { payload: usize },
    /// Many writers of one log, each of which waits for its own record.
    Writers { writers: usize, slow: bool },
    /// Batches of 1 MiB, each durable before the one after the next.
    Batches,
    /// All of a log, with checksums.
    Scan,
    /// As many logs, one writer each.
    Logs { logs: usize },
    /// The start after a kill: one long log, or many short ones.
    Reopen { many: bool },
    /// Memory of open logs that nobody uses.
    Idle,
    /// Latency where much is stored already.
    Growth,
}

impl Kind {
    /// Payload of a record in bytes.
    pub(crate) fn payload(self) -> usize {
        match self {
            Self::Single { payload } => payload,
            Self::Idle => 16,
            _ => 1 << 10,
        }
    }

    /// What its numbers are.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Single { .. } | Self::Writers { .. } | Self::Logs { .. } | Self::Growth => {
                "appends/s"
            }
            Self::Batches | Self::Scan => "MB/s",
            Self::Reopen { .. } => "s",
            Self::Idle => "KiB/log",
        }
    }

    /// Whether a larger number is the better one.
    pub(crate) fn more_is_better(self) -> bool {
        !matches!(self, Self::Reopen { .. } | Self::Idle)
    }

    /// Microseconds that each sync takes longer.
    pub(crate) fn slow_micros(self) -> u64 {
        if matches!(self, Self::Writers { slow: true, .. }) { 2000 } else { 0 }
    }

    /// Rounds, where a round is a life of its own and takes seconds.
    pub(crate) fn rounds(self, asked: usize) -> usize {
        match self {
            Self::Reopen { .. } => asked.min(3),
            Self::Idle => 1,
            _ => asked,
        }
    }
}

/// A workload by name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    pub(crate) id: &'static str,
    pub(crate) kind: Kind,
    pub(crate) says: &'static str,
}

const fn workload(id: &'static str, kind: Kind, says: &'static str) -> Workload {
    Workload { id, kind, says }
}

/// In the order in which they run.
pub(crate) const WORKLOADS: &[Workload] = &[
    workload("single-128", Kind::Single { payload: 128 }, "one writer, 128 B, each durable"),
    workload("single-1k", Kind::Single { payload: 1 << 10 }, "one writer, 1 KiB, each durable"),
    workload("single-16k", Kind::Single { payload: 16 << 10 }, "one writer, 16 KiB, each durable"),
    workload(
        "writers-16",
        Kind::Writers { writers: 16, slow: false },
        "16 writers of one log, 1 KiB, each waits for its own",
    ),
    workload(
        "writers-64",
        Kind::Writers { writers: 64, slow: false },
        "64 writers of one log, 1 KiB, each waits for its own",
    ),
    workload(
        "writers-16-slow",
        Kind::Writers { writers: 16, slow: true },
        "as writers-16, each sync 2 ms slower",
    ),
    workload(
        "writers-64-slow",
        Kind::Writers { writers: 64, slow: true },
        "as writers-64, each sync 2 ms slower",
    ),
    workload("batches-1g", Kind::Batches, "1 KiB records in batches of 1 MiB, each batch durable"),
    workload("scan-1g", Kind::Scan, "reads all 1 KiB records of a log, with checksums"),
    workload("logs-64", Kind::Logs { logs: 64 }, "64 logs, one writer each, 1 KiB, each durable"),
    workload("reopen-1g", Kind::Reopen { many: false }, "opens one long log after a kill"),
    workload(
        "reopen-1000",
        Kind::Reopen { many: true },
        "opens many logs of 32 records after a kill",
    ),
    workload("idle-10k", Kind::Idle, "anonymous memory of open logs with one record each"),
    workload("growth", Kind::Growth, "one writer, 1 KiB, where much is stored already"),
];

/// How large things are.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Scale {
    /// Milliseconds of a turn of appends. Short, so that all systems of a round see one state of the disk.
    pub(crate) turn_ms: u64,
    /// The same with slow syncs.
    pub(crate) slow_turn_ms: u64,
    /// Bytes of `batches-1g`, `scan-1g` and `reopen-1g`.
    pub(crate) long: u64,
    /// Logs of `reopen-1000`.
    pub(crate) reopen_logs: usize,
    /// Logs of `idle-10k`, of the engine and of peers that keep all logs in one place.
    pub(crate) idle_logs: usize,
    /// Logs of `idle-10k`, of peers that take files or threads for each.
    pub(crate) idle_logs_few: usize,
    /// Bytes stored at the points of `growth`; the first is what the others are held against.
    pub(crate) stored: [u64; 3],
    /// Logs at the points of `growth`.
    pub(crate) logs: [usize; 3],
}

impl Scale {
    /// `free`: bytes of the file system that nobody has.
    pub(crate) fn full(free: u64) -> Self {
        Self {
            turn_ms: 300,
            slow_turn_ms: 500,
            long: 1 << 30,
            reopen_logs: 1000,
            idle_logs: 10_000,
            idle_logs_few: 1000,
            stored: [1 << 30, 10 << 30, if free >= 90 << 30 { 50 << 30 } else { 0 }],
            logs: [1, 100, 10_000],
        }
    }

    /// For a first look.
    pub(crate) fn quick() -> Self {
        Self {
            turn_ms: 100,
            slow_turn_ms: 150,
            long: 128 << 20,
            reopen_logs: 100,
            idle_logs: 500,
            idle_logs_few: 100,
            stored: [64 << 20, 512 << 20, 0],
            logs: [1, 100, 1000],
        }
    }
}

/// What a number of the engine is held against, of the same round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    /// The best of these systems, of those that ran.
    Best(&'static [&'static str]),
    /// The best peer; of those that check what they open where that is asked.
    BestPeer,
    /// What the same child measured beside it.
    Beside,
    /// The first point of the same series.
    FirstPoint,
    /// Nothing: the number itself.
    Itself,
}

/// Which of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The rate, seconds or bytes.
    Value,
    /// Microseconds within which 99% of the appends were durable.
    P99,
    /// The median of an append in microseconds.
    P50,
}

/// What is asked of the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) workload: &'static str,
    pub(crate) measure: Measure,
    pub(crate) against: Against,
    pub(crate) bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

pub(crate) const BUFFERED: &str = "floor-buffered-written";
const DIRECT: &[&str] = &["floor-direct-written", "floor-dsync-written"];

const fn target(
    workload: &'static str,
    measure: Measure,
    against: Against,
    bound: Bound,
) -> Target {
    Target { workload, measure, against, bound }
}

macro_rules! single {
    ($id:literal) => {
        [
            target($id, Measure::Value, Against::Best(&[BUFFERED]), Bound::AtLeast(1.1)),
            target($id, Measure::Value, Against::Best(DIRECT), Bound::AtLeast(0.92)),
            target($id, Measure::P99, Against::Best(DIRECT), Bound::AtMost(1.3)),
        ]
    };
}

pub(crate) const TARGETS: &[&[Target]] = &[
    &single!("single-128"),
    &single!("single-1k"),
    &single!("single-16k"),
    &[
        target("writers-16", Measure::Value, Against::BestPeer, Bound::AtLeast(1.5)),
        target("writers-64", Measure::Value, Against::BestPeer, Bound::AtLeast(1.5)),
        target("writers-16-slow", Measure::Value, Against::BestPeer, Bound::AtLeast(1.4)),
        target("writers-64-slow", Measure::Value, Against::BestPeer, Bound::AtLeast(1.4)),
        target("batches-1g", Measure::Value, Against::Best(DIRECT), Bound::AtLeast(0.85)),
        target("scan-1g", Measure::Value, Against::Beside, Bound::AtLeast(0.9)),
        target(
            "logs-64",
            Measure::Value,
            Against::Best(&["okaywal", "raft-engine-64"]),
            Bound::AtLeast(2.0),
        ),
        target("reopen-1g", Measure::Value, Against::BestPeer, Bound::AtLeast(5.0)),
        target("reopen-1000", Measure::Value, Against::BestPeer, Bound::AtLeast(5.0)),
        target("idle-10k", Measure::Value, Against::Itself, Bound::AtMost(4.0)),
        target("growth", Measure::P50, Against::FirstPoint, Bound::AtMost(1.1)),
    ],
];

/// Bytes that do not compress.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..len).map(|_| step()).collect()
}
