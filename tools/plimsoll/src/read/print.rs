//! The forms in which records are printed.

use crate::bytes_json::{insert_bytes, insert_headers, time};
use plimsoll::Offset;
use plimsoll::segment::Found;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// A form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The payload and a newline.
    Lines,
    /// The payload and nothing else.
    Raw,
    /// The payload's length (`u32`, little-endian), then the payload.
    LengthPrefixed,
    /// An object a line.
    Json,
}

impl Form {
    /// Prints a record.
    pub(crate) fn write(self, out: &mut impl Write, record: &Found<'_>) -> io::Result<()> {
        match self {
            Self::Lines => {
                out.write_all(record.payload)?;
                out.write_all(b"\n")
            }
            Self::Raw => out.write_all(record.payload),
            Self::LengthPrefixed => {
                let len = u32::try_from(record.payload.len()).map_err(io::Error::other)?;
                out.write_all(&len.to_le_bytes())?;
                out.write_all(record.payload)
            }
            Self::Json => {
                let object =
                    object(record.offset, record.header.millis, record.headers, record.payload);
                serde_json::to_writer(&mut *out, &object)?;
                out.write_all(b"\n")
            }
        }
    }
}

/// A record as an object.
pub(crate) fn object(
    offset: Offset,
    millis: u64,
    headers: &[u8],
    payload: &[u8],
) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("offset".to_owned(), json!(offset.0));
    object.insert("time".to_owned(), time(millis));
    insert_headers(&mut object, headers);
    insert_bytes(&mut object, "payload", payload);
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll::format::record::RecordHeader;
    use plimsoll::types::Generation;

    fn printed(form: Form, headers: &[u8], payload: &[u8]) -> Vec<u8> {
        let header = RecordHeader {
            payload_len: u32::try_from(payload.len()).unwrap(),
            headers_len: u16::try_from(headers.len()).unwrap(),
            generation: Generation::FIRST,
            unsynced: 0,
            relative: 7,
            millis: 1_764_495_420_123,
        };
        let record = Found { position: 8192, offset: Offset(7), header, headers, payload };
        let mut out = Vec::new();
        form.write(&mut out, &record).unwrap();
        out
    }

    #[test]
    fn each_form_prints_what_it_says() {
        assert_eq!(printed(Form::Lines, b"", b"a\xff"), b"a\xff\n");
        assert_eq!(printed(Form::Raw, b"", b"a\xff"), b"a\xff");
        assert_eq!(printed(Form::LengthPrefixed, b"", b"abc"), b"\x03\0\0\0abc");
        let line = String::from_utf8(printed(Form::Json, b"\x01\x01\0kv", b"text")).unwrap();
        assert_eq!(
            line,
            "{\"offset\":7,\"time\":\"2025-11-30T09:37:00.123Z\",\"headers\":{\"k\":\"v\"},\"payload\":\"text\"}\n"
        );
    }
}
