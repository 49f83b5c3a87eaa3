//! What goes over the wire, as this client reads it: lenient in what it does not need.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// A stored message's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its number.
    pub id: u64,
    /// It was stored before, with the same key and content.
    pub duplicate: bool,
}

/// A refusal by the one family of 429.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// `disk`, `memory`, `queue_full` or `rate_limited`.
    pub reason: String,
    /// `ERR_LIMITED`, `QUEUE_FULL` or `rate_limited`.
    pub code: String,
    /// When to try again, by the body.
    pub retry_after: Duration,
    /// The header `Retry-After` as it came; none for a line of NDJSON.
    pub header: Option<String>,
}

impl Refusal {
    /// What is wrong with its hints: G5 wants a whole number of seconds in the header, at least 1, that is the body's
    /// milliseconds rounded up, and these above zero.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let millis = self.retry_after.as_millis();
        if millis == 0 {
            return Some("retry_after_ms is 0 or missing".into());
        }
        if !["disk", "memory", "queue_full", "rate_limited"].contains(&self.reason.as_str()) {
            return Some(format!("reason {:?}", self.reason));
        }
        let header = self.header.as_deref()?;
        match header.parse::<u128>() {
            Ok(seconds) if seconds >= 1 && seconds == millis.div_ceil(1000) => None,
            _ => Some(format!("Retry-After is {header:?} for {millis} ms")),
        }
    }
}

/// A delivered or peeked message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its number.
    pub id: u64,
    /// Names the delivery; empty in a peek.
    pub receipt: String,
    /// Its payload, decoded.
    pub payload: Bytes,
    /// How often it was delivered.
    pub attempts: u32,
    /// When it was first delivered, Unix milliseconds.
    pub first_delivered_ms: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct RawMessage {
    id: String,
    #[serde(default)]
    receipt: String,
    payload: Option<String>,
    payload_base64: Option<String>,
    #[serde(default)]
    attempts: u32,
    first_delivered_ms: Option<u64>,
}

impl RawMessage {
    pub(super) fn read(self) -> Result<Message, String> {
        let id = self.id.parse().map_err(|_| format!("id {:?}", self.id))?;
        let payload = match (self.payload, self.payload_base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(text)) => {
                BASE64_STANDARD.decode(text).map_err(|error| format!("payload_base64: {error}"))?
            }
            (payload, _) => {
                let both = payload.is_some();
                return Err(if both { "two payloads".into() } else { "no payload".into() });
            }
        };
        Ok(Message {
            id,
            receipt: self.receipt,
            payload: payload.into(),
            attempts: self.attempts,
            first_delivered_ms: self.first_delivered_ms,
        })
    }
}

#[derive(Deserialize)]
pub(super) struct Messages {
    pub(super) messages: Vec<RawMessage>,
    pub(super) reason: Option<String>,
}

/// The messages of an answer to a receive.
///
/// # Errors
/// It is none.
pub fn messages_in(body: &[u8]) -> Result<Vec<Message>, String> {
    let read: Messages = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    read.messages.into_iter().map(RawMessage::read).collect()
}

/// What became of a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// Done now.
    Done,
    /// Done before.
    Already,
    /// Done now, though the lease was over.
    Late,
    /// Delivered to another since, or finished in another way.
    Gone,
    /// No receipt of this queue.
    Foreign,
}

/// Settings of a queue for tests that are not about its limits: no depth, many attempts.
#[must_use]
pub fn settings() -> Value {
    serde_json::json!({ "max_attempts": 1000, "max_queue_depth": 0 })
}

/// The first value under `name` at any depth.
#[must_use]
pub fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) => {
            map.get(name).or_else(|| map.values().find_map(|inner| find(inner, name)))
        }
        Value::Array(list) => list.iter().find_map(|inner| find(inner, name)),
        _ => None,
    }
}

/// The first number under `name` at any depth.
#[must_use]
pub fn number(value: &Value, name: &str) -> Option<u64> {
    find(value, name).and_then(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(millis: u64, header: &str) -> Refusal {
        Refusal {
            reason: "disk".into(),
            code: "ERR_LIMITED".into(),
            retry_after: Duration::from_millis(millis),
            header: Some(header.into()),
        }
    }

    #[test]
    fn case_g5_a_hint_is_whole_seconds_rounded_up_and_never_zero() {
        for (millis, header) in [(1, "1"), (200, "1"), (999, "1"), (1000, "1"), (1001, "2")] {
            assert_eq!(refusal(millis, header).fault(), None);
        }
        for (millis, header) in
            [(0, "1"), (200, "0"), (200, "0.2"), (1001, "1"), (5, "-1"), (5, "")]
        {
            assert!(refusal(millis, header).fault().is_some(), "{millis} {header:?}");
        }
    }
}
