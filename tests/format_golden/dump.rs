//! Parses a segment file and says in plain text what a reader finds, as `storage-format.md` has it.

use plimsoll::format::checkpoint::Checkpoint;
use plimsoll::format::header::{Header, InUse};
use plimsoll::format::record::{self, HEADER_LEN, Parsed, RecordHeader};
use plimsoll::format::{CHECKPOINT_POSITION, Key, RECORD_ALIGN, RECORDS_POSITION, WINDOW, headers};
use plimsoll::fs::File;
use plimsoll::segment::{Step, Walker};
use plimsoll::types::{Generation, Offset};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

/// A file in memory that can be read and nothing else.
#[derive(Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl File for Bytes<'_> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_raw(&self, position: u64, into: &mut [u8]) -> io::Result<usize> {
        let at = usize::try_from(position).unwrap().min(self.0.len());
        let len = into.len().min(self.0.len() - at);
        into[..len].copy_from_slice(&self.0[at..at + len]);
        Ok(len)
    }

    fn write_raw(&self, _: u64, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The dump of the last segment of a log, or of one that `next` follows.
pub(crate) fn segment(bytes: &[u8], next: Option<&InUse>) -> String {
    let mut out = format!("{} bytes\n", bytes.len());
    let header = match Header::parse(bytes) {
        Ok(header) => header,
        Err(error) => {
            let at = error.position();
            writeln!(out, "header: {error}\nverdict: damage at {at}").unwrap();
            return out;
        }
    };
    let state = if header.in_use.is_some() { "in use" } else { "spare" };
    let Header { generation, class, capacity, created_millis, .. } = header;
    writeln!(
        out,
        "header: {state}, {class}, generation {}, capacity {capacity}, created {created_millis}",
        generation.get()
    )
    .unwrap();
    let Some(in_use) = header.in_use else {
        leftover(&mut out, bytes, RECORDS_POSITION, generation);
        out.push_str("verdict: a spare, without records\n");
        return out;
    };
    writeln!(
        out,
        "  log {}, base {}, previous end {}, previous millis {}, origin {}\n  key {:08x}",
        in_use.log,
        in_use.base,
        in_use.previous_end,
        in_use.previous_millis,
        in_use.origin.name(),
        Key::new(in_use.log, generation, in_use.base).0
    )
    .unwrap();
    if in_use.previous_end < in_use.base {
        let last = in_use.base.0 - 1;
        writeln!(out, "  declared gap: records {} to {last}", in_use.previous_end).unwrap();
    }
    let checkpoint = checkpoint(&mut out, bytes, &header);
    let end = header.capacity.min(bytes.len() as u64);
    let file = Bytes(bytes);
    let start = (RECORDS_POSITION, in_use.base);
    let mut walker = Walker::new(&file, in_use.log, &header, in_use.base, start, end);
    loop {
        if next.is_some_and(|next| walker.next_offset() == next.previous_end) {
            let (position, offset) = (walker.position(), walker.next_offset());
            writeln!(out, "verdict: ends at {position}, next offset {offset}, by the next segment")
                .unwrap();
            return out;
        }
        let stop = match walker.step().unwrap() {
            Step::Record(found) => {
                print_record(&mut out, found.position, found.offset, &found.header);
                print_headers(&mut out, found.headers);
                print_bytes(&mut out, "payload", found.payload);
                continue;
            }
            Step::Stop(error) => error,
        };
        let (position, offset) = (walker.position(), walker.next_offset());
        writeln!(out, "stop at {position}, next offset {offset}: {stop}").unwrap();
        if let Some(next) = next {
            let vouched = next.previous_end;
            writeln!(out, "verdict: damage at {position}, the next segment says up to {vouched}")
                .unwrap();
            return out;
        }
        leftover(&mut out, bytes, position, generation);
        let key = Key::new(in_use.log, generation, in_use.base);
        let missing = Missing { position, relative: offset.0 - in_use.base.0 };
        let vouched = vouched(&mut out, &bytes[..end as usize], key, generation, missing)
            .max(checkpoint.map_or(0, |checkpoint| checkpoint.position));
        if vouched > position {
            writeln!(out, "verdict: damage at {position}, vouched for up to {vouched}").unwrap();
        } else {
            writeln!(out, "verdict: ends at {position}, next offset {offset}").unwrap();
        }
        return out;
    }
}

fn checkpoint(out: &mut String, bytes: &[u8], header: &Header) -> Option<Checkpoint> {
    let checkpoint = Checkpoint::parse(&bytes[usize::try_from(CHECKPOINT_POSITION).unwrap()..]);
    let Some(Checkpoint { generation, log, position, next, millis }) = checkpoint else {
        out.push_str("checkpoint: none\n");
        return None;
    };
    let belongs = checkpoint.filter(|checkpoint| checkpoint.belongs_to(header));
    let ignored = if belongs.is_none() { ", ignored" } else { "" };
    writeln!(
        out,
        "checkpoint: position {position}, next {next}, millis {millis}, generation {}, log {log}{ignored}",
        generation.get()
    )
    .unwrap();
    belongs
}

fn print_record(out: &mut String, position: u64, offset: Offset, header: &RecordHeader) {
    let RecordHeader { unsynced, millis, .. } = *header;
    let len = header.record_len();
    writeln!(
        out,
        "record at {position}: offset {offset}, {len} bytes, unsynced {unsynced}, millis {millis}"
    )
    .unwrap();
}

fn print_headers(out: &mut String, bytes: &[u8]) {
    match headers::parse(bytes) {
        Ok(pairs) => {
            for (name, value) in pairs {
                print_bytes(out, &format!("header {name}"), value);
            }
        }
        Err(error) => writeln!(out, "  {error}").unwrap(),
    }
}

fn print_bytes(out: &mut String, what: &str, bytes: &[u8]) {
    let len = bytes.len();
    if len > 80 {
        writeln!(out, "  {what}, {len} bytes, CRC32 {:08x}", crc32fast::hash(bytes)).unwrap();
    } else {
        writeln!(out, "  {what}, {len} bytes: \"{}\"", bytes.escape_ascii()).unwrap();
    }
}

/// The whole record that stands at `position`, if there is one under `key`.
fn valid(bytes: &[u8], key: Key, generation: Generation, position: u64) -> Option<Parsed> {
    let at = usize::try_from(position).unwrap();
    let here = bytes.get(at..)?;
    let parsed = record::parse(here, here.len() as u64, key, position, generation).ok()?;
    let len = usize::try_from(parsed.header.record_len()).unwrap();
    record::check_body(&parsed, key, position, &here[HEADER_LEN..len]).ok()?;
    Some(parsed)
}

/// Says what of an earlier use stands at `position`: a record whose key comes from itself.
fn leftover(out: &mut String, bytes: &[u8], position: u64, current: Generation) {
    let here = &bytes[usize::try_from(position).unwrap().min(bytes.len())..];
    let Some((key, generation)) = record::derive_key(here, position) else { return };
    if generation == current {
        return;
    }
    if let Some(parsed) = valid(bytes, key, generation, position) {
        let RecordHeader { relative, .. } = parsed.header;
        writeln!(
            out,
            "left over at {position}: a record of generation {}, base + {relative}, derived key {:08x}",
            generation.get(),
            key.0
        )
        .unwrap();
    }
}

/// Where a search begins: the position without a valid record and the relative offset that was expected there.
#[derive(Clone, Copy)]
struct Missing {
    position: u64,
    relative: u64,
}

/// The furthest position that a record beyond Stop vouches for.
fn vouched(out: &mut String, bytes: &[u8], key: Key, generation: Generation, stop: Missing) -> u64 {
    let counts = |position: u64| {
        let here = bytes.get(usize::try_from(position).unwrap()..)?;
        let parsed = record::parse(here, here.len() as u64, key, position, generation).ok()?;
        let relative = u64::from(parsed.header.relative);
        let most = stop.relative + (position - stop.position) / HEADER_LEN as u64;
        (relative > stop.relative && relative <= most).then_some((position, parsed.header))
    };
    let aligned = |from: u64, to: u64| (from..=to).step_by(RECORD_ALIGN as usize);
    let end = bytes.len() as u64;
    let window = aligned(stop.position + RECORD_ALIGN, (stop.position + WINDOW).min(end));
    let mut found: BTreeMap<_, _> = window.filter_map(counts).collect();
    let at_stop = &bytes[usize::try_from(stop.position).unwrap()..];
    if at_stop.len() >= HEADER_LEN {
        let payload_len = u32::from_le_bytes(at_stop[8..12].try_into().unwrap());
        let headers_len = u16::from_le_bytes(at_stop[14..16].try_into().unwrap());
        let from = stop.position + record::record_len(headers_len.into(), payload_len as usize);
        found.extend(aligned(from, (from + WINDOW).min(end)).filter_map(counts));
    }
    let last = found.last_key_value();
    let behind = last.and_then(|(position, header)| counts(position + header.record_len()));
    found.extend(behind);
    for (position, header) in &found {
        let (claim, relative) = (header.claim(*position), header.relative);
        writeln!(out, "beyond, at {position}: record base + {relative}, which claims {claim}")
            .unwrap();
    }
    found.iter().map(|(position, header)| header.claim(*position)).max().unwrap_or(0)
}
