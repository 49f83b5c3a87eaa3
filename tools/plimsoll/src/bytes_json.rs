//! Bytes in JSON: text where they are text, else base64; stamps; and JSON objects whose order and repetitions count.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use plimsoll::format::headers;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// The fields of an object, in order, repetitions included.
#[derive(Debug)]
pub(crate) struct Pairs<'a, T>(pub(crate) Vec<(Cow<'a, str>, T)>);

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<'de, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Pairs<'de, T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    pairs.push((name, value));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// The bytes of a header's value: a string, or `{"base64": "..."}`. The error is what was found and expected.
pub(crate) fn value_bytes(value: &Value) -> Result<Vec<u8>, String> {
    match value {
        Value::String(text) => Ok(text.clone().into_bytes()),
        Value::Object(object) if object.len() == 1 => match object.get("base64") {
            Some(Value::String(text)) => decode_base64(text),
            _ => Err("found an object, expected a string or {\"base64\":\"...\"}".to_owned()),
        },
        other => Err(format!("found {}, expected a string", kind(other))),
    }
}

/// Bytes as a header's value.
fn bytes_value(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

/// Adds bytes to an object as `name` where they are text, else as `name_base64`.
pub(crate) fn insert_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), json!(text)),
        Err(_) => object.insert(format!("{name}_base64"), json!(STANDARD.encode(bytes))),
    };
}

/// Adds a record's headers to an object; as base64 where they are not pairs, since a log takes any bytes.
pub(crate) fn insert_headers(object: &mut Map<String, Value>, bytes: &[u8]) {
    let Ok(pairs) = headers::parse(bytes) else {
        object.insert("headers_base64".to_owned(), json!(STANDARD.encode(bytes)));
        return;
    };
    let mut fields = Map::new();
    for (name, value) in pairs {
        let value = bytes_value(value);
        match fields.get_mut(name) {
            None => {
                fields.insert(name.to_owned(), value);
            }
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = json!([first.take(), value]),
        }
    }
    object.insert("headers".to_owned(), Value::Object(fields));
}

/// Unix milliseconds in RFC 3339; as a number where they lie beyond the year 9999, which that cannot say.
pub(crate) fn time(millis: u64) -> Value {
    let stamp =
        i64::try_from(millis).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    stamp.map_or_else(|| json!(millis), |stamp| json!(format!("{stamp:.3}")))
}

/// Decodes base64, padded, of the standard alphabet.
pub(crate) fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|error| format!("not base64: {error}"))
}

/// What a value is, with its article.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A name from the input, quoted and escaped, and cut where it is long.
pub(crate) fn quoted(name: &str) -> String {
    let short: String = name.chars().take(80).collect();
    format!("{short:?}")
}

/// An error of the parser without the line and column, which count within a line of ours.
pub(crate) fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_come_twice_or_are_no_text_survive() {
        let pairs: [(&str, &[u8]); 4] = [("a", b"1"), ("b", b"\xff"), ("a", b"2"), ("a", b"3")];
        let encoded = headers::encode(pairs).unwrap();
        let mut object = Map::new();
        insert_headers(&mut object, &encoded);
        assert_eq!(
            Value::Object(object),
            json!({"headers": {"a": ["1", "2", "3"], "b": {"base64": "/w=="}}})
        );
    }

    #[test]
    fn headers_of_another_encoding_are_given_as_bytes() {
        let mut object = Map::new();
        insert_headers(&mut object, b"\x05");
        insert_bytes(&mut object, "payload", b"\xff");
        assert_eq!(
            Value::Object(object),
            json!({"headers_base64": "BQ==", "payload_base64": "/w=="})
        );
    }

    #[test]
    fn a_stamp_that_no_calendar_holds_is_a_number() {
        assert_eq!(time((1 << 48) - 1), json!((1u64 << 48) - 1));
        assert_eq!(time(0), json!("1970-01-01T00:00:00.000Z"));
    }
}
