//! Answers.

use super::MessageOut;
use crate::api::{
    Consumer, Counts, Declared, Explained, PublishAnswer, QueueSettings, QueueSummary, QueueView,
    Settled, Waits, Why,
};
use crate::http::error::{Problem, ProblemBody};
use plimsoll::Attention;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// Whole milliseconds, rounded up: who waits so long has waited long enough.
pub(in crate::http) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A declared queue.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Declared")]
pub(in crate::http) struct DeclaredGive {
    name: String,
    /// `created`, `same` or `changed`.
    result: &'static str,
    /// Changes with the settings; the same as `ETag`.
    pub(in crate::http) revision: u64,
    settings: QueueSettings,
}

impl DeclaredGive {
    pub(in crate::http) fn new(name: &str, settings: QueueSettings, declared: Declared) -> Self {
        let (result, revision) = match declared {
            Declared::Created => ("created", 1),
            Declared::Same(revision) => ("same", revision),
            Declared::Changed(revision) => ("changed", revision),
        };
        Self { name: name.to_owned(), result, revision, settings }
    }
}

/// A queue in a list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "QueueSummary")]
pub(in crate::http) struct SummaryGive {
    name: String,
    revision: u64,
    paused: bool,
    messages: Counts,
}

impl From<&QueueSummary> for SummaryGive {
    fn from(of: &QueueSummary) -> Self {
        let QueueSummary { name, revision, counts, paused } = of;
        let (name, revision) = (name.as_str().to_owned(), *revision);
        Self { name, revision, paused: *paused, messages: *counts }
    }
}

/// Queues by name.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Queues")]
pub(in crate::http) struct QueuesGive {
    pub(in crate::http) queues: Vec<SummaryGive>,
    /// Ask for the next ones with `after` set to it; null after the last.
    pub(in crate::http) next: Option<String>,
}

/// All that can be seen of a queue.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Queue")]
pub(in crate::http) struct QueueGive {
    #[serde(flatten)]
    summary: SummaryGive,
    settings: QueueSettings,
    /// Ready and in flight; what `max_queue_depth` bounds.
    depth: u64,
    /// Payloads and headers of the messages that it holds.
    bytes: u64,
    /// Bytes of its files.
    bytes_on_disk: u64,
    /// The number that the next message has at least.
    next_id: String,
    /// Receives that wait now.
    waiting: u64,
    /// Confirmed publishes since the broker's start.
    published: u64,
    /// Deliveries since the broker's start.
    delivered: u64,
    /// Acknowledged messages since the broker's start.
    acked: u64,
}

impl From<&QueueView> for QueueGive {
    fn from(of: &QueueView) -> Self {
        Self {
            summary: SummaryGive::from(&of.summary),
            settings: of.settings.clone(),
            depth: of.summary.counts.depth(),
            bytes: of.bytes,
            bytes_on_disk: of.bytes_on_disk,
            next_id: of.next_seq.to_string(),
            waiting: of.waiting,
            published: of.published,
            delivered: of.delivered,
            acked: of.acked,
        }
    }
}

/// A stored message.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Published")]
pub(in crate::http) struct StoredGive {
    /// Its number in its queue.
    id: String,
    /// Payload and headers.
    bytes: u64,
    /// It was stored before, with the same key and content.
    duplicate: bool,
}

impl From<&crate::api::Published> for StoredGive {
    fn from(of: &crate::api::Published) -> Self {
        Self { id: of.seq.to_string(), bytes: of.bytes, duplicate: of.duplicate }
    }
}

/// What became of one line: a message, or why it was not stored.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LineResult")]
pub(in crate::http) struct LineGive {
    /// 201, 200 for a duplicate, or that of the error.
    status: u16,
    #[serde(flatten)]
    stored: Option<StoredGive>,
    #[serde(flatten)]
    problem: Option<LineProblem>,
}

/// As the body of an answer, without what is the same for all lines.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LineError")]
struct LineProblem {
    code: &'static str,
    /// `ERR_LIMITED` for every refusal that ends by itself (429).
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    /// Of a refusal: `disk`, `memory` or `queue_full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    message: String,
    /// Of a refusal: when to try again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl From<&PublishAnswer> for LineGive {
    fn from(answer: &PublishAnswer) -> Self {
        match answer {
            Ok(published) => {
                let status = if published.duplicate { 200 } else { 201 };
                Self { status, stored: Some(published.into()), problem: None }
            }
            Err(fault) => {
                let problem = Problem::from(fault);
                let status = problem.code.status();
                let ProblemBody { code, error, reason, message, retry_after_ms, .. } =
                    problem.body("");
                let problem = LineProblem { code, error, reason, message, retry_after_ms };
                Self { status, stored: None, problem: Some(problem) }
            }
        }
    }
}

/// What became of a publish of many: a result for each line. Where no line was stored and all failed alike, the fields of
/// that error come beside.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Results")]
pub(in crate::http) struct LinesGive {
    pub(in crate::http) results: Vec<LineGive>,
    #[serde(flatten)]
    pub(in crate::http) problem: Option<ProblemBody>,
}

/// Messages that are delivered, or why there is none.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Received")]
pub(in crate::http) struct ReceivedGive<'a> {
    pub(in crate::http) messages: Vec<MessageOut<'a>>,
    /// Why there is none.
    pub(in crate::http) reason: Option<Why>,
}

/// What became of receipts, in their order.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Settled")]
pub(in crate::http) struct ResultsGive {
    pub(in crate::http) results: Vec<Settled>,
}

/// What became of a receipt.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SettledOne")]
pub(in crate::http) struct ResultGive {
    /// `done`, `already` or `late`.
    pub(in crate::http) result: Settled,
}

/// A reason to wait, and when it may end.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Waits")]
pub(in crate::http) struct WaitsGive {
    reason: &'static str,
    /// A sentence.
    detail: String,
    /// When it may end, where that is known.
    ends_in_ms: Option<u64>,
}

impl From<&Waits> for WaitsGive {
    fn from(of: &Waits) -> Self {
        let ends_in_ms = of.ends_in.map(millis);
        Self { reason: of.reason, detail: of.detail.clone(), ends_in_ms }
    }
}

/// Why publishers and receivers of a queue wait; nothing if they do not.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Explained")]
pub(in crate::http) struct ExplainedGive {
    publish: Vec<WaitsGive>,
    receive: Vec<WaitsGive>,
    /// What a receive would be told now; null if it would get a message.
    would: Option<Why>,
}

impl From<&Explained> for ExplainedGive {
    fn from(of: &Explained) -> Self {
        let all = |waits: &[Waits]| waits.iter().map(WaitsGive::from).collect();
        Self { publish: all(&of.publish), receive: all(&of.receive), would: of.would }
    }
}

/// Who received lately.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Consumer")]
pub(in crate::http) struct ConsumerGive {
    /// The name that it gives, or null.
    name: Option<String>,
    /// How many it holds.
    in_flight: u64,
    /// Receives of it that wait now.
    waiting: u64,
    /// How long ago it last asked.
    idle_ms: u64,
}

/// Consumers, the latest first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Consumers")]
pub(in crate::http) struct ConsumersGive {
    pub(in crate::http) consumers: Vec<ConsumerGive>,
}

impl From<&Consumer> for ConsumerGive {
    fn from(of: &Consumer) -> Self {
        let Consumer { name, in_flight, waiting, idle } = of;
        let (in_flight, waiting) = (*in_flight, *waiting);
        Self { name: name.clone(), in_flight, waiting, idle_ms: millis(*idle) }
    }
}

/// Something that an operator should know, for as long as it lasts.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AttentionItem")]
pub(in crate::http) struct ItemGive {
    /// `disk` or `memory`.
    reason: &'static str,
    /// `soft`, `hard` or `reserve`.
    level: &'static str,
    /// The data directory whose device it is about; null for memory.
    device: Option<String>,
    /// Since when, Unix milliseconds.
    since_ms: u64,
    /// A sentence.
    detail: String,
}

/// What an operator should know now.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Attention")]
pub(in crate::http) struct AttentionGive {
    pub(in crate::http) items: Vec<ItemGive>,
}

impl From<&Attention> for ItemGive {
    fn from(of: &Attention) -> Self {
        Self {
            reason: of.reason.name(),
            level: of.level.name(),
            device: of.device.as_ref().map(|dir| dir.display().to_string()),
            since_ms: of.since_millis,
            detail: of.detail.clone(),
        }
    }
}
