//! Lines of JSON: `{"headers":{"name":"value"},"payload":"text"}`.

use super::decode::{Decoder, Sink, Wrong, payload_max};
use super::lines::Splitter;
use crate::bytes_json::{self, Pairs};
use crate::failure::Failure;
use plimsoll::format::headers;
use serde_json::Value;
use serde_json::value::RawValue;

/// Takes lines of JSON apart.
#[derive(Debug, Default)]
pub(crate) struct Ndjson {
    splitter: Splitter,
}

impl Decoder for Ndjson {
    fn feed(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), Wrong> {
        // A byte of payload takes at most six characters, as \u0000 does.
        let len_max = payload_max() * 6 + 1024 * 1024;
        self.splitter.feed(bytes, len_max, |number, line| push(number, line, sink))
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<(), Wrong> {
        self.splitter.finish(|number, line| push(number, line, sink))
    }
}

fn push(number: u64, line: &[u8], sink: &mut Sink<'_>) -> Result<(), Wrong> {
    match record(line) {
        Ok((headers, payload)) => sink.push(number, &headers, &payload),
        Err(Refused { field, found }) => {
            let named = if field.is_empty() { String::new() } else { format!("{field}: ") };
            let failure = Failure::usage(format!("standard input, line {number}: {named}{found}"))
                .with("line", number);
            Err(if field.is_empty() { failure } else { failure.with("field", field) }.into())
        }
    }
}

/// What is wrong with a line.
#[derive(Debug)]
struct Refused {
    /// The field, or nothing where it is the line itself.
    field: String,
    found: String,
}

fn refused(field: impl Into<String>, found: impl Into<String>) -> Refused {
    Refused { field: field.into(), found: found.into() }
}

/// The headers, encoded, and the payload of a line.
fn record(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Refused> {
    let (mut headers, mut payload) = (None, None);
    for (field, value) in object::<&RawValue>(line, "")?.0 {
        let raw = value.get().as_bytes();
        match &*field {
            "headers" => set(&mut headers, &field, encode_headers(raw)?)?,
            "headers_base64" => set(&mut headers, &field, base64(&field, raw)?)?,
            "payload" => set(&mut payload, &field, text(&field, raw)?.into_bytes())?,
            "payload_base64" => set(&mut payload, &field, base64(&field, raw)?)?,
            _ => {
                return Err(refused(
                    bytes_json::quoted(&field),
                    "unknown field, expected headers, headers_base64, payload or payload_base64",
                ));
            }
        }
    }
    let payload =
        payload.ok_or_else(|| refused("payload", "missing, expected payload or payload_base64"))?;
    let headers = headers.unwrap_or_default();
    if headers.len() > headers::HEADERS_LEN_MAX {
        let found =
            format!("found {} bytes, expected at most {}", headers.len(), headers::HEADERS_LEN_MAX);
        return Err(refused("headers", found));
    }
    Ok((headers, payload))
}

fn set(slot: &mut Option<Vec<u8>>, field: &str, bytes: Vec<u8>) -> Result<(), Refused> {
    match slot.replace(bytes) {
        None => Ok(()),
        Some(_) => Err(refused(field, "found twice, expected once, as text or as base64")),
    }
}

fn object<'a, T: serde::Deserialize<'a>>(
    json: &'a [u8],
    field: &str,
) -> Result<Pairs<'a, T>, Refused> {
    serde_json::from_slice(json).map_err(|error| {
        let at =
            if field.is_empty() { format!("column {}: ", error.column()) } else { String::new() };
        refused(field, format!("{at}{}", bytes_json::without_place(&error)))
    })
}

fn text(field: &str, raw: &[u8]) -> Result<String, Refused> {
    match serde_json::from_slice(raw) {
        Ok(Value::String(text)) => Ok(text),
        Ok(other) => {
            Err(refused(field, format!("found {}, expected a string", bytes_json::kind(&other))))
        }
        Err(error) => Err(refused(field, bytes_json::without_place(&error))),
    }
}

fn base64(field: &str, raw: &[u8]) -> Result<Vec<u8>, Refused> {
    bytes_json::decode_base64(&text(field, raw)?).map_err(|found| refused(field, found))
}

fn encode_headers(raw: &[u8]) -> Result<Vec<u8>, Refused> {
    let mut pairs: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, value) in object::<Value>(raw, "headers")?.0 {
        let values = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        for value in values {
            let value = bytes_json::value_bytes(&value).map_err(|found| {
                refused(format!("headers.{}", bytes_json::quoted(&name)), found)
            })?;
            pairs.push((name.clone().into_owned(), value));
        }
    }
    let borrowed = pairs.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
    headers::encode(borrowed).map_err(|error| refused("headers", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_payload_are_taken_as_text_and_as_base64() {
        let line = br#"{"headers":{"b":"2","a":["1","3"],"raw":{"base64":"/wA="}},"payload":"caf\u00e9\n"}"#;
        let (encoded, payload) = record(line).unwrap();
        let pairs: [(&str, &[u8]); 4] = [("b", b"2"), ("a", b"1"), ("a", b"3"), ("raw", b"\xff\0")];
        assert_eq!(headers::parse(&encoded).unwrap(), pairs);
        assert_eq!(payload, "café\n".as_bytes());
        assert_eq!(record(br#"{"payload_base64":"AAH/"}"#).unwrap(), (vec![], vec![0, 1, 255]));
        assert_eq!(record(br#" { "payload" : "" } "#).unwrap(), (vec![], vec![]));
    }

    #[test]
    fn a_line_that_is_wrong_is_refused_with_field_and_reason() {
        let long = format!(r#"{{"payload":"","headers":{{"{}":""}}}}"#, "n".repeat(256));
        let cases: [(&str, &str, &str); 18] = [
            (r#"{"payload":"a","colour":1}"#, "\"colour\"", "unknown field, expected headers"),
            (r#"{"headers":{}}"#, "payload", "missing"),
            (r#"{"payload":5}"#, "payload", "found a number, expected a string"),
            (r#"{"payload":null}"#, "payload", "found null, expected a string"),
            (r#"{"payload":"a","payload_base64":""}"#, "payload_base64", "found twice"),
            (r#"{"payload":"a","payload":"b"}"#, "payload", "found twice"),
            (r#"{"payload_base64":"a b"}"#, "payload_base64", "not base64"),
            (
                r#"{"payload":"","headers":[]}"#,
                "headers",
                "invalid type: sequence, expected an object",
            ),
            (
                r#"{"payload":"","headers":{"a":1}}"#,
                "headers.\"a\"",
                "found a number, expected a string",
            ),
            (r#"{"payload":"","headers":{"a":["x",true]}}"#, "headers.\"a\"", "found a boolean"),
            (r#"{"payload":"","headers":{"":"x"}}"#, "headers", "name of 0 bytes"),
            (r#"{"payload":"","headers":{"a":{"base64":"?"}}}"#, "headers.\"a\"", "not base64"),
            (&long, "headers", "name of 256 bytes"),
            ("", "", "EOF while parsing"),
            ("[1]", "", "expected an object"),
            (r#"{"payload":"a""#, "", "column 14: EOF"),
            (r#"{"payload":"a"} x"#, "", "column 17: trailing characters"),
            (r#"{"payload":"\ud800"}"#, "payload", "unexpected end of hex escape"),
        ];
        for (line, field, found) in cases {
            let refused = record(line.as_bytes()).unwrap_err();
            assert_eq!(refused.field, field, "{line}: {refused:?}");
            assert!(refused.found.contains(found), "{line}: {refused:?}");
        }
        assert!(record(b"{\"payload\":\"\xff\"}").is_err());
    }
}
