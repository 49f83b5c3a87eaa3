//! The node as it is shown.

use super::backend::Backend;
use super::front::Front;
use crate::broker::BrokerStats;
use plimsoll::Level;
use plimsoll::pressure::{DiskReading, MemoryReading};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// A broker.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Node")]
pub(super) struct NodeGive {
    version: &'static str,
    /// It takes no new work.
    stopping: bool,
    /// The worst level of all: `ok`, `soft`, `hard` or `reserve`.
    level: &'static str,
    /// Data directories, in the order of the setting `data_dir` of queues.
    data: Vec<DataGive>,
    http: HttpGive,
    broker: StatsGive,
}

/// Storage.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DataDirectory")]
struct DataGive {
    level: &'static str,
    disks: Vec<DiskGive>,
    memory: MemoryGive,
}

/// A device.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Disk")]
struct DiskGive {
    /// Directories on it.
    dirs: Vec<String>,
    level: &'static str,
    reason: String,
    since_ms: u64,
    total_bytes: u64,
    /// With spares that can be released; what levels are held against.
    free_bytes: u64,
    spare_bytes: u64,
    soft_bytes: u64,
    hard_bytes: u64,
    reserve_bytes: u64,
    clear_bytes: u64,
    /// How long, at the present rate, until publishes are refused; null if that is not to be expected.
    hard_in_ms: Option<u64>,
}

/// Memory.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Memory")]
struct MemoryGive {
    level: &'static str,
    reason: String,
    since_ms: u64,
    used_bytes: u64,
    limit_bytes: u64,
    limit_from: String,
    soft_bytes: u64,
    hard_bytes: u64,
    clear_bytes: u64,
}

/// The front.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Http")]
struct HttpGive {
    /// Connections now.
    connections: u64,
    connections_max: u64,
    /// Bytes that bodies of publishes may still take.
    body_budget_free_bytes: u64,
    body_budget_bytes: u64,
}

/// Since the broker's start, but for what is said to be now.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BrokerStats")]
struct StatsGive {
    /// Now.
    queues: u64,
    /// Confirmed publishes.
    published: u64,
    /// Duplicates answered from their key.
    duplicates: u64,
    /// Publishes refused because a queue was full.
    queue_full: u64,
    delivered: u64,
    /// Deliveries that never reached their receiver.
    undone: u64,
    acked: u64,
    /// Leases that ended.
    expired: u64,
    /// Messages given up or rejected.
    dead: u64,
    /// Now.
    in_flight: u64,
    /// Idempotency marks held now.
    marks: u64,
    /// Marks that left before their time for want of room.
    marks_dropped: u64,
    /// How often a shard was loaded again because its event log failed.
    reloads: u64,
}

impl From<BrokerStats> for StatsGive {
    fn from(of: BrokerStats) -> Self {
        Self {
            queues: of.queues,
            published: of.published,
            duplicates: of.duplicates,
            queue_full: of.queue_full,
            delivered: of.delivered,
            undone: of.undone,
            acked: of.acked,
            expired: of.expired,
            dead: of.dead,
            in_flight: of.in_flight,
            marks: of.marks,
            marks_dropped: of.marks_dropped,
            reloads: of.reloads,
        }
    }
}

impl From<&DiskReading> for DiskGive {
    fn from(of: &DiskReading) -> Self {
        let dirs = of.dirs.iter().map(|dir: &std::path::PathBuf| Path::display(dir).to_string());
        Self {
            dirs: dirs.collect(),
            level: of.level.name(),
            reason: of.reason.to_string(),
            since_ms: of.since_unix_millis,
            total_bytes: of.total,
            free_bytes: of.free,
            spare_bytes: of.reclaimable,
            soft_bytes: of.thresholds.soft,
            hard_bytes: of.thresholds.hard,
            reserve_bytes: of.thresholds.reserve,
            clear_bytes: of.thresholds.clear,
            hard_in_ms: of
                .hard_in
                .map(|time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

impl From<&MemoryReading> for MemoryGive {
    fn from(of: &MemoryReading) -> Self {
        Self {
            level: of.level.name(),
            reason: of.reason.to_string(),
            since_ms: of.since_unix_millis,
            used_bytes: of.used,
            limit_bytes: of.limit,
            limit_from: of.limit_from.to_string(),
            soft_bytes: of.soft,
            hard_bytes: of.hard,
            clear_bytes: of.clear,
        }
    }
}

impl NodeGive {
    pub(super) fn of<B: Backend>(front: &Front<B>) -> Self {
        let pressures: Vec<_> =
            front.backend.nodes().iter().map(plimsoll::Node::pressure).collect();
        let level = pressures.iter().map(|pressure| pressure.level).fold(Level::Ok, Level::max);
        let data = pressures.iter().map(|pressure| DataGive {
            level: pressure.level.name(),
            disks: pressure.disks.iter().map(DiskGive::from).collect(),
            memory: MemoryGive::from(&pressure.memory),
        });
        Self {
            version: env!("CARGO_PKG_VERSION"),
            stopping: front.is_stopping(),
            level: level.name(),
            data: data.collect(),
            http: HttpGive {
                connections: front.connections() as u64,
                connections_max: front.connections_max as u64,
                body_budget_free_bytes: front.budget.free(),
                body_budget_bytes: front.budget.max(),
            },
            broker: front.backend.stats().into(),
        }
    }
}
