//! `plimsoll inspect --records`: every record of a file, on past damage.

use crate::bytes_json::{insert_bytes, insert_headers, time};
use crate::failure::Failure;
use crate::output;
use plimsoll::Offset;
use plimsoll::fs::OsFileSystem;
use plimsoll::inspect::{self, FileRecord, Item};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;

/// The most bytes of a payload that a line shows.
const SHOWN: usize = 40;

/// Prints the records of a file. What stands at `end` or behind it a heal cut off: it is marked. A break is told where it is; whether it is damage is for the file's report to say.
pub(crate) fn print(path: &Path, end: Option<Offset>, as_json: bool) -> Result<(), Failure> {
    let mut out = output::bulk()?;
    let records = inspect::records(&OsFileSystem, path)?;
    for item in records {
        let line = match item? {
            Item::Record(record) => {
                let cut_off = end.is_some_and(|end| record.offset >= Some(end));
                if as_json { object(&record, cut_off).to_string() } else { text(&record, cut_off) }
            }
            Item::Break { position, offset, error, next_position } if as_json => json!({
                "position": position, "offset": offset.map(|offset| offset.0), "error": error.to_string(),
                "next_position": next_position,
            })
            .to_string(),
            // Where nothing follows it is the end, which the report tells.
            Item::Break { next_position: None, .. } => continue,
            Item::Break { position, error, next_position: Some(next), .. } => {
                format!("  byte {position}: no valid record ({error}); the next one stands at byte {next}")
            }
        };
        writeln!(out, "{line}").map_err(|error| Failure::output(&error))?;
    }
    out.flush().map_err(|error| Failure::output(&error))
}

fn object(record: &FileRecord, cut_off: bool) -> Value {
    let mut object = Map::new();
    object.insert("offset".to_owned(), json!(record.offset.map(|offset| offset.0)));
    object.insert("position".to_owned(), json!(record.position));
    object.insert("len".to_owned(), json!(record.len));
    object.insert("generation".to_owned(), json!(record.generation.get()));
    object.insert("durable_below".to_owned(), json!(record.claim));
    object.insert("cut_off".to_owned(), json!(cut_off));
    object.insert("time".to_owned(), time(record.millis));
    insert_headers(&mut object, &record.headers);
    insert_bytes(&mut object, "payload", &record.payload);
    Value::Object(object)
}

fn text(record: &FileRecord, cut_off: bool) -> String {
    let offset = record
        .offset
        .map_or_else(|| format!("base + {}", record.relative), |offset| offset.to_string());
    let stamp = match time(record.millis) {
        Value::String(stamp) => stamp,
        other => other.to_string(),
    };
    let cut_off = if cut_off { "  (cut off: the next segment begins before it)" } else { "" };
    let shown = &record.payload[..record.payload.len().min(SHOWN)];
    let more = if shown.len() < record.payload.len() { "..." } else { "" };
    format!(
        "  {offset}  byte {}  {stamp}  {} + {} bytes  \"{}\"{more}{cut_off}",
        record.position,
        record.headers.len(),
        record.payload.len(),
        shown.escape_ascii()
    )
}
