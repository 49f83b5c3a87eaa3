//! Requests.

use crate::http::error::Problem;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// How messages are received.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Receive")]
pub(in crate::http) struct ReceiveAsk {
    /// At most so many, 1 to 32; 1 by default.
    pub(in crate::http) max: Option<usize>,
    /// How long to wait while there is none, 0 to 60000; 0 by default.
    pub(in crate::http) wait_ms: u64,
    /// How long they are leased, 100 to 43200000; the queue's lease by default.
    pub(in crate::http) lease_ms: Option<u64>,
    /// Who asks: a name for `consumers`.
    pub(in crate::http) consumer: Option<String>,
    /// The most that this consumer wants in flight. Needs `consumer`.
    pub(in crate::http) concurrency: Option<u32>,
}

/// Deliveries to acknowledge, give back or reject: one of both fields.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Settle")]
pub(in crate::http) struct SettleAsk {
    /// At most 1,000; answered by `results` in the same order.
    pub(in crate::http) receipts: Option<Vec<String>>,
    /// A single one; answered by `result`, or by 404 or 410.
    pub(in crate::http) receipt: Option<String>,
}

/// Deliveries whose leases are to run longer: one of `receipts` and `receipt`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Extend")]
pub(in crate::http) struct ExtendAsk {
    /// At most 1,000; answered by `results` in the same order.
    pub(in crate::http) receipts: Option<Vec<String>>,
    /// A single one; answered by `result`, or by 404 or 410.
    pub(in crate::http) receipt: Option<String>,
    /// How long the leases run from now, 100 to 43200000.
    pub(in crate::http) lease_ms: u64,
}

/// What a purge takes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Purge")]
pub(in crate::http) struct PurgeAsk {
    /// Dead messages too.
    pub(in crate::http) dead: bool,
}

/// Reads a body as JSON.
pub(in crate::http) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body)
        .map_err(|error| Problem::invalid(format!("the body is not what is expected: {error}")))
}

/// The same; no body is all defaults.
pub(in crate::http) fn read_or_default<T: DeserializeOwned + Default>(
    body: &[u8],
) -> Result<T, Problem> {
    if body.iter().all(u8::is_ascii_whitespace) { Ok(T::default()) } else { read(body) }
}
