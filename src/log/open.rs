//! From what recovery found to a log that works.

use super::gather::Gather;
use super::recent::{Recent, RecentBudget};
use super::state::{Active, Segment, State, Status};
use super::{BufferPool, CommitCounts, Helper, Indexes, Ladder, Log, LogOptions, Shared};
use crate::clock::Clock;
use crate::error::{DiskError, OpenError, Stopped};
use crate::format::name::LogName;
use crate::fs::{FileSystem, Lock};
use crate::permit::Gate;
use crate::recovery::{self, Context, RecoverError, Recovered, SegmentInfo, Tail};
use crate::segment::{Files, SegmentSource};
use crate::types::{LogId, Offset};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// What a node gives a log.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) name: LogName,
    pub(crate) dir: PathBuf,
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) source: Arc<dyn SegmentSource>,
    pub(crate) files: Arc<Files>,
    pub(crate) buffers: Arc<BufferPool>,
    pub(crate) indexes: Arc<Indexes>,
    pub(crate) helper: Arc<dyn Helper>,
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) record_max: u64,
    pub(crate) gather: bool,
    pub(crate) direct: bool,
    pub(crate) counts: Arc<CommitCounts>,
    pub(crate) recent: Arc<RecentBudget>,
    /// The data directory's lock: held until the log can write no more, also when the node is gone before.
    pub(crate) lock: Arc<dyn Lock>,
}

impl Shared {
    /// Recovers the log in `parts.dir`, whose parents up to `logs` are given, innermost first.
    pub(crate) fn open(
        parts: Parts,
        parents: &[PathBuf],
        options: LogOptions,
    ) -> Result<Log, OpenError> {
        let context = Context { fs: &*parts.fs, source: &*parts.source, clock: &*parts.clock };
        let recovered = recovery::recover(&context, &parts.dir, parents)?;
        let report = recovered.report.clone();
        tracing::debug!(log = %parts.name, ?report, "recovered");
        let state = state(&parts, recovered);
        let durable_seen = AtomicU64::new(state.durable.0);
        let ladder = Ladder { sizes: parts.source.sizes(), small: options.small };
        let shared = Self {
            record_max: parts.record_max.min(ladder.room_max()),
            device: parts.gate.device(),
            name: parts.name,
            dir: parts.dir,
            fs: parts.fs,
            clock: parts.clock,
            source: parts.source,
            files: parts.files,
            buffers: parts.buffers,
            indexes: parts.indexes,
            helper: parts.helper,
            ladder,
            gather_enabled: parts.gather,
            direct: AtomicBool::new(parts.direct),
            counts: parts.counts,
            recent: Recent::new(parts.recent),
            state: Mutex::new(state),
            rolling: Mutex::default(),
            truncating: Mutex::default(),
            told_retired: AtomicBool::new(false),
            committed: Default::default(),
            durable_seen,
            room: Condvar::new(),
            readable: Condvar::new(),
        };
        Ok(Log { shared: Arc::new(shared), gate: parts.gate, report: Arc::new(report) })
    }
}

fn state(parts: &Parts, recovered: Recovered) -> State {
    let (end, next, millis, status) = match recovered.tail {
        Tail::Empty => (0, Offset::ZERO, 0, Status::Open),
        Tail::Open { position, next, millis } => (position, next, millis, Status::Open),
        Tail::ReadOnly { position, next, reason } => {
            (position, next, 0, Status::Stopped(Stopped::ReadOnly(reason)))
        }
        Tail::Damaged { position, next, damage } => {
            (position, next, 0, Status::Stopped(Stopped::Damaged(damage)))
        }
    };
    let id = recovered.id;
    let last = recovered.segments.len().saturating_sub(1);
    let segments = recovered.segments.into_iter().enumerate().filter_map(|(at, info)| {
        let durable = if at == last { end } else { info.capacity };
        Some(Arc::new(segment(parts, id?, info, durable)))
    });
    let mut state = State::new(segments.collect(), next, millis, status);
    state.id = id;
    state.lock = Some(Arc::clone(&parts.lock));
    state.last_append = parts.clock.elapsed();
    if let Status::Open = state.status {
        state.active = state.segments.back().cloned().map(Active::new);
    }
    state
}

fn segment(parts: &Parts, log: LogId, info: SegmentInfo, durable: u64) -> Segment {
    Segment {
        id: parts.files.new_id(),
        path: info.path,
        log,
        base: info.base,
        previous_end: info.previous_end,
        previous_millis: info.previous_millis,
        generation: info.generation,
        class: info.class,
        capacity: info.capacity,
        origin: info.origin,
        created_millis: 0,
        failed: AtomicBool::new(info.failed),
        committed: AtomicBool::new(true),
        durable: AtomicU64::new(durable),
    }
}

impl State {
    fn new(
        segments: std::collections::VecDeque<Arc<Segment>>,
        next: Offset,
        millis: u64,
        status: Status,
    ) -> Self {
        Self {
            status,
            closing: None,
            id: None,
            lock: None,
            segments,
            retired: std::collections::VecDeque::new(),
            pinned: Vec::new(),
            truncated: Offset::ZERO,
            next,
            durable: next,
            millis,
            durable_millis: millis,
            active: None,
            chunks: std::collections::VecDeque::new(),
            in_flight: 0,
            reserved: std::collections::VecDeque::new(),
            opening: None,
            wanted: None,
            prepares: 0,
            prepare_error: None,
            to_heal: None,
            heal_error: None,
            followers: 0,
            epoch: Arc::default(),
            leader: false,
            leader_waits: false,
            next_seq: 0,
            waiting: [0; 2],
            released: [0; 2],
            gather: Gather::default(),
            want_room: 0,
            sync_time: Duration::ZERO,
            healed_since_commit: false,
            commit_scheduled: false,
            prepare_scheduled: false,
            last_append: Duration::ZERO,
            wakers: Vec::new(),
        }
    }
}

impl From<RecoverError> for OpenError {
    fn from(error: RecoverError) -> Self {
        match error {
            RecoverError::Io { operation, path, source, .. } => {
                DiskError::of(operation, &path, source).into()
            }
            RecoverError::Link { ref path }
            | RecoverError::Foreign { ref path }
            | RecoverError::Gone { ref path }
            | RecoverError::Newer { ref path, .. } => {
                let (path, whole) = (path.clone(), error.to_string());
                let prefix = format!("{}: ", path.display());
                let reason = whole.strip_prefix(&prefix).unwrap_or(&whole).to_owned();
                Self::Foreign { path, reason }
            }
        }
    }
}
