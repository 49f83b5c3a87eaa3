//! Messages, as they come and as they go.

use crate::api::{Delivered, HEADERS_MAX, KEY_MAX, NewMessage, PUBLISH_MAX, StoredMessage};
use crate::http::error::Problem;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// Names and values in the order in which they were written; no name twice.
#[derive(Debug, Default)]
pub(in crate::http) struct Pairs(pub(in crate::http) Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs: Vec<(String, String)> = Vec::new();
                let mut seen = std::collections::HashSet::new();
                let mut size = 0;
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    if name.is_empty() || !seen.insert(name.clone()) {
                        return Err(A::Error::custom("headers need names, each once"));
                    }
                    size += name.len() + value.len();
                    pairs.push((name, value));
                    if size > HEADERS_MAX {
                        break;
                    }
                }
                // They are too large, which is said later: the rest of a long line must not take many times its size.
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Read)
    }
}

/// The value of `Plimsoll-Headers`.
pub(in crate::http) fn headers_from_json(text: &[u8]) -> Result<Vec<(String, String)>, Problem> {
    let pairs: Result<Pairs, _> = serde_json::from_slice(text);
    pairs.map(|pairs| pairs.0).map_err(|error| {
        Problem::invalid(format!("Plimsoll-Headers is no object of strings: {error}"))
    })
}

/// A line of a publish of many: one of `payload` and `payload_base64`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Line")]
pub(in crate::http) struct LineIn {
    /// The payload as text.
    payload: Option<String>,
    /// The payload in base64, with padding (RFC 4648, section 4).
    payload_base64: Option<String>,
    /// Names and values of the publisher's own.
    #[serde(default)]
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    headers: Option<Pairs>,
    /// At most 255 bytes.
    idempotency_key: Option<String>,
    /// Given back as it came.
    content_type: Option<String>,
    /// Given back as it came.
    correlation_id: Option<String>,
}

/// What an idempotency key must be.
pub(in crate::http) fn check_key(key: &str) -> Result<(), String> {
    if key.is_empty() || key.len() > KEY_MAX {
        return Err(format!("the idempotency key has {} bytes, 1 to 255 are allowed", key.len()));
    }
    Ok(())
}

impl LineIn {
    fn into_message(self) -> Result<NewMessage, String> {
        let payload = match (self.payload, self.payload_base64) {
            (Some(text), None) => Bytes::from(text),
            (None, Some(base64)) => {
                let bytes = STANDARD.decode(base64);
                bytes.map_err(|error| format!("payload_base64 is no base64: {error}"))?.into()
            }
            _ => return Err("one of payload and payload_base64 is needed".to_owned()),
        };
        if let Some(key) = &self.idempotency_key {
            check_key(key)?;
        }
        Ok(NewMessage {
            payload,
            headers: self.headers.unwrap_or_default().0,
            content_type: self.content_type,
            correlation_id: self.correlation_id,
            key: self.idempotency_key,
        })
    }
}

/// All lines of a publish of many; empty ones do not count.
///
/// # Errors
/// The first line that is none, by its number.
pub(in crate::http) fn lines(body: &[u8]) -> Result<Vec<NewMessage>, Problem> {
    let mut messages = Vec::new();
    for (at, line) in body.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if messages.len() == PUBLISH_MAX {
            return Err(Problem::invalid(format!("more than {PUBLISH_MAX} messages")));
        }
        let message = super::ask::object(line).and_then(LineIn::into_message);
        let number = at + 1;
        let message =
            message.map_err(|error| Problem::invalid(format!("line {number}: {error}")))?;
        crate::message::check(&message).map_err(|fault| {
            let problem = Problem::from(fault);
            Problem { message: format!("line {number}: {}", problem.message).into(), ..problem }
        })?;
        messages.push(message);
    }
    if messages.is_empty() {
        return Err(Problem::invalid("there is no line"));
    }
    Ok(messages)
}

#[derive(Debug)]
struct PairsOut<'a>(&'a [(String, String)]);

impl Serialize for PairsOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// A message: `payload` where it is text without control characters but tab and line ends, else `payload_base64`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Message")]
pub(in crate::http) struct MessageOut<'a> {
    /// Its number in its queue.
    id: String,
    /// Names this delivery in `ack`, `nack`, `reject` and `extend`.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// As it was published.
    content_type: Option<&'a str>,
    /// As it was published.
    correlation_id: Option<&'a str>,
    /// As they were published, in their order.
    #[schemars(with = "BTreeMap<String, String>")]
    headers: PairsOut<'a>,
    /// When it was published, Unix milliseconds.
    published_ms: u64,
    /// How often it was delivered, this time included.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u32>,
    /// When it was first delivered, Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_delivered_ms: Option<u64>,
    /// How long the lease runs, from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
}

/// Text goes as text where it stays about as long: control characters take six bytes in JSON.
fn as_text(payload: &[u8]) -> Option<&str> {
    let odd = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r');
    if payload.iter().any(odd) { None } else { std::str::from_utf8(payload).ok() }
}

impl<'a> From<&'a StoredMessage> for MessageOut<'a> {
    fn from(message: &'a StoredMessage) -> Self {
        let content = &message.content;
        let text = as_text(&content.payload);
        Self {
            id: message.seq.to_string(),
            receipt: None,
            payload: text,
            payload_base64: text.is_none().then(|| STANDARD.encode(&content.payload)),
            content_type: content.content_type.as_deref(),
            correlation_id: content.correlation_id.as_deref(),
            headers: PairsOut(&content.headers),
            published_ms: message.published_ms,
            attempts: None,
            first_delivered_ms: None,
            lease_ms: None,
        }
    }
}

impl<'a> From<&'a Delivered> for MessageOut<'a> {
    fn from(delivered: &'a Delivered) -> Self {
        Self {
            receipt: Some(&delivered.receipt),
            attempts: Some(delivered.attempts),
            first_delivered_ms: Some(delivered.first_delivered_ms),
            lease_ms: Some(super::millis(delivered.lease)),
            ..Self::from(&delivered.message)
        }
    }
}

/// Ready messages, in the order of delivery.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Messages")]
pub(in crate::http) struct MessagesGive<'a> {
    pub(in crate::http) messages: Vec<MessageOut<'a>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Seq;

    fn read(text: &str) -> Result<Vec<NewMessage>, String> {
        lines(text.as_bytes()).map_err(|problem| problem.message.into_string())
    }

    #[test]
    fn a_line_is_a_message() {
        let text = concat!(
            r#"{"payload":"a","headers":{"z":"1","a":"2"},"idempotency_key":"k","content_type":"text/plain","correlation_id":"c"}"#,
            "\r\n\n",
            r#"{"payload_base64":"/wA="}"#,
        );
        let first = NewMessage {
            payload: Bytes::from_static(b"a"),
            headers: vec![("z".into(), "1".into()), ("a".into(), "2".into())],
            content_type: Some("text/plain".into()),
            correlation_id: Some("c".into()),
            key: Some("k".into()),
        };
        let second = NewMessage { payload: Bytes::from_static(&[255, 0]), ..NewMessage::default() };
        assert_eq!(read(text), Ok(vec![first, second]));
    }

    /// All names and values of a long line were built before their size was looked at: many times the line's own.
    #[test]
    fn headers_that_are_too_large_are_not_all_kept() {
        let names = (0..100_000).map(|at| format!("\"{at}\":\"\"")).collect::<Vec<_>>().join(",");
        let pairs: Pairs = serde_json::from_str(&format!("{{{names}}}")).unwrap();
        assert!((1_000..2_000).contains(&pairs.0.len()), "{}", pairs.0.len());
        let line = format!("{{\"payload\":\"a\",\"headers\":{{{names}}}}}");
        let problem = lines(line.as_bytes()).unwrap_err();
        assert_eq!(problem.code.name(), "HEADERS_TOO_LARGE");
    }

    #[test]
    fn one_wrong_line_is_named_and_nothing_is_taken() {
        let good = r#"{"payload":"a"}"#;
        for wrong in [
            "{",
            "{}",
            "[]",
            "null",
            r#"["a"]"#,
            r#"["a",null,null,null,null,null]"#,
            r#"{"payload":"a","payload_base64":"YQ=="}"#,
            r#"{"payload_base64":"*"}"#,
            r#"{"payload":"a","other":1}"#,
            r#"{"payload":"a","headers":{"a":1}}"#,
            r#"{"payload":"a","headers":{"a":"1","a":"2"}}"#,
            r#"{"payload":"a","headers":{"":"1"}}"#,
            r#"{"payload":"a","idempotency_key":""}"#,
            r#"{"payload":"a"}{"payload":"b"}"#,
        ] {
            let message = read(&format!("{good}\n\n{wrong}\n{good}")).unwrap_err();
            assert!(message.starts_with("line 3: "), "{wrong}: {message}");
        }
        assert!(lines(b"{\"payload\":\"\xff\"}").is_err());
        assert!(read("\n \n").is_err());
        assert_eq!(read(&format!("{good}\n").repeat(1_000)).map(|all| all.len()), Ok(1_000));
        assert!(read(&format!("{good}\n").repeat(1_001)).is_err());
    }

    #[test]
    fn a_payload_comes_back_as_text_or_in_base64() {
        let field = |payload: &'static [u8]| {
            let content =
                NewMessage { payload: Bytes::from_static(payload), ..NewMessage::default() };
            let message = StoredMessage { seq: Seq(7), published_ms: 1, content };
            let json = serde_json::to_value(MessageOut::from(&message)).unwrap();
            assert_eq!((&json["id"], &json["headers"]), (&"7".into(), &serde_json::json!({})));
            (json.get("payload").cloned(), json.get("payload_base64").cloned())
        };
        assert_eq!(field(b"a\tb\r\n"), (Some("a\tb\r\n".into()), None));
        assert_eq!(field("ä".as_bytes()), (Some("ä".into()), None));
        assert_eq!(field(b""), (Some("".into()), None));
        assert_eq!(field(b"a\0"), (None, Some("YQA=".into())));
        assert_eq!(field(&[255]), (None, Some("/w==".into())));
    }
}
