//! A hex dump with the name and value of each field.

use crate::failure::{Exit, Failure};
use crate::output;
use plimsoll::Offset;
use plimsoll::format::{BLOCK_LEN, CHECKPOINT_POSITION, RECORDS_POSITION, SECTOR_LEN};
use plimsoll::fs::{FileSystem, OsFileSystem};
use plimsoll::inspect::{self, Field, Which};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// The most bytes of one field that are dumped.
const BYTES_SHOWN: usize = 4096;
const ROW_LEN: usize = 16;

/// Reads what to dump: a record's offset, or a byte of the file behind an `@`.
pub(crate) fn parse_which(text: &str) -> Result<Which, String> {
    const EXPECTED: &str = "expected a record's offset, or a byte of the file such as @8192";
    match text.strip_prefix('@') {
        Some(position) => position.parse().map(Which::Position),
        None => text.parse().map(|offset| Which::Offset(Offset(offset))),
    }
    .map_err(|_| EXPECTED.to_owned())
}

/// What is dumped.
struct Dump {
    position: u64,
    bytes: Vec<u8>,
    fields: Vec<Field>,
    wrong: Option<String>,
}

/// Dumps a record, or the header or checkpoint block that a byte lies in.
pub(crate) fn run(path: &Path, which: Which, as_json: bool) -> Result<(), Failure> {
    let dump = match which {
        Which::Position(position) if position < RECORDS_POSITION => block(path, position)?,
        which => record(path, which)?,
    };
    if as_json {
        print_json(path, &dump)?;
    } else {
        print_text(&dump)?;
    }
    match &dump.wrong {
        None => Ok(()),
        Some(wrong) => {
            let sentence =
                format!("{}, byte {}: no valid record: {wrong}", path.display(), dump.position);
            Err(Failure::new(Exit::Damage, sentence)
                .with("file", path.display().to_string())
                .with("position", dump.position))
        }
    }
}

fn record(path: &Path, which: Which) -> Result<Dump, Failure> {
    let found = inspect::record_bytes(&OsFileSystem, path, which)?;
    let Some(found) = found else {
        let wanted = match which {
            Which::Offset(offset) => format!("record {offset}"),
            Which::Position(position) => format!("record at byte {position}"),
        };
        let sentence = format!("{}: holds no {wanted}", path.display());
        return Err(Failure::new(Exit::Io, sentence).with("file", path.display().to_string()));
    };
    let wrong = found.error.map(|error| error.to_string());
    Ok(Dump { position: found.position, bytes: found.bytes, fields: found.fields, wrong })
}

/// The header block or the checkpoint block: the sector of it that holds fields.
fn block(path: &Path, position: u64) -> Result<Dump, Failure> {
    let fail = |error| Failure::io("read", path.display(), &error);
    let position = if position < CHECKPOINT_POSITION { 0 } else { CHECKPOINT_POSITION };
    let file = OsFileSystem.open_read(path).map_err(fail)?;
    let mut bytes = vec![0; BLOCK_LEN];
    let read = file.read_at(position, &mut bytes).map_err(fail)?;
    bytes.truncate(read.min(SECTOR_LEN));
    let fields = if position == 0 {
        inspect::header_fields(&bytes)
    } else {
        inspect::checkpoint_fields(&bytes)
    };
    Ok(Dump { position, bytes, fields: fields.unwrap_or_default(), wrong: None })
}

fn field_bytes<'a>(dump: &'a Dump, field: &Field) -> &'a [u8] {
    let start = usize::try_from(field.position - dump.position).unwrap_or(usize::MAX);
    let len = usize::try_from(field.len).unwrap_or(usize::MAX);
    dump.bytes.get(start..start.saturating_add(len)).unwrap_or_default()
}

fn print_json(path: &Path, dump: &Dump) -> Result<(), Failure> {
    let field = |field: &Field| {
        json!({
            "position": field.position, "len": field.len, "name": field.name, "value": field.value,
            "hex": hex(field_bytes(dump, field)),
        })
    };
    output::line(json!({
        "file": path.display().to_string(), "position": dump.position, "len": dump.bytes.len(),
        "fields": dump.fields.iter().map(field).collect::<Vec<Value>>(), "error": dump.wrong,
    }))
}

fn print_text(dump: &Dump) -> Result<(), Failure> {
    if dump.fields.is_empty() {
        return dump_rows(dump.position, &dump.bytes);
    }
    for field in &dump.fields {
        let title = output::styled(output::BOLD, field.name);
        output::line(format_args!("{title}: {}", field.value))?;
        dump_rows(field.position, field_bytes(dump, field))?;
    }
    Ok(())
}

fn dump_rows(position: u64, bytes: &[u8]) -> Result<(), Failure> {
    let shown = &bytes[..bytes.len().min(BYTES_SHOWN)];
    for row in rows(position, shown) {
        output::line(row)?;
    }
    if shown.len() < bytes.len() {
        output::line(format_args!("  ... and {} bytes more", bytes.len() - shown.len()))?;
    }
    Ok(())
}

/// Rows of sixteen bytes: position, hex, text. Rows like the one before are left out, the last one aside.
fn rows(position: u64, bytes: &[u8]) -> Vec<String> {
    let chunks: Vec<&[u8]> = bytes.chunks(ROW_LEN).collect();
    let mut out = Vec::new();
    let mut skipped = false;
    for (index, chunk) in chunks.iter().enumerate() {
        let alike = index > 0 && index + 1 < chunks.len() && chunks[index - 1] == *chunk;
        if alike {
            if !skipped {
                out.push("  *".to_owned());
            }
            skipped = true;
            continue;
        }
        skipped = false;
        let text: String = chunk
            .iter()
            .map(|&byte| if matches!(byte, 0x20..0x7f) { char::from(byte) } else { '.' })
            .collect();
        let at = position + (index * ROW_LEN) as u64;
        out.push(format!("  {at:08x}  {:<47}  {text}", spaced(chunk)));
    }
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn spaced(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_show_position_hex_and_text_and_leave_repeats_out() {
        assert_eq!(
            rows(0x2000, b"AB\0\xff"),
            ["  00002000  41 42 00 ff                                      AB.."]
        );
        let zeroes = rows(0, &[0; 16 * 5]);
        assert_eq!(zeroes.len(), 3);
        assert_eq!(zeroes[1], "  *");
        assert!(zeroes[2].starts_with("  00000040  00"));
    }

    #[test]
    fn what_to_dump_is_an_offset_or_a_byte() {
        assert_eq!(parse_which("7"), Ok(Which::Offset(Offset(7))));
        assert_eq!(parse_which("@8192"), Ok(Which::Position(8192)));
        assert!(
            parse_which("x").is_err() && parse_which("@").is_err() && parse_which("-1").is_err()
        );
    }
}
