//! Writes a new segment with records from another file.

use super::Carried;
use crate::format::checkpoint::Checkpoint;
use crate::format::header::{Header, InUse};
use crate::format::name::segment_file;
use crate::format::record::{self, HEADER_LEN, RecordHeader};
use crate::format::{BLOCK_LEN, CHECKPOINT_POSITION, Key, RECORDS_POSITION};
use crate::fs::{File, FileSystem, Write};
use crate::inspect::cursor::{Cursor, Next};
use crate::inspect::window::Window;
use crate::segment::{Spare, install};
use crate::types::{Generation, WriteClass};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How much is written at a time.
const STRIDE: usize = 1 << 20;

/// The end of the names of files in the making, which a start removes.
const TEMPORARY: &str = "repair.tmp";

/// Makes the file among the spares, writes all of it, and gives it its name in the log's directory when it is durable.
pub(super) fn make(
    fs: &dyn FileSystem,
    header: &Header,
    in_use: &InUse,
    records: Option<&Carried>,
    dir: &Path,
    spares: &Path,
) -> io::Result<()> {
    let path = spares.join(TEMPORARY);
    match fs.remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = fs.create(&path)?;
    let result = fill(fs, &file, header, in_use, records).and_then(|checkpoint| {
        let block = checkpoint.encode();
        let writes = [Write { position: CHECKPOINT_POSITION, bytes: &block }];
        let spare = Spare {
            path: path.clone(),
            file,
            generation: header.generation,
            class: header.class,
            capacity: header.capacity,
            kept_back: false,
            purpose: WriteClass::Recovery,
        };
        // One sync of all of it, header and checkpoint included, before it has a name in the log.
        let name = segment_file(in_use.base);
        let rename = |to: &Path| fs.rename(&spare.path, to);
        install(fs, &spare, header, &writes, [dir, spares], &name, rename).map(drop)
    });
    if result.is_err() {
        // If it was renamed already this finds nothing, and it is a segment like any other.
        let _ = fs.remove_file(&path);
    }
    result
}

/// Writes the records and, behind them, zeroes up to the file's end. Gives a checkpoint that vouches for all of them.
fn fill(
    fs: &dyn FileSystem,
    file: &Arc<dyn File>,
    header: &Header,
    in_use: &InUse,
    records: Option<&Carried>,
) -> io::Result<Checkpoint> {
    match file.allocate(header.capacity) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        other => other?,
    }
    // Both blocks, which the headers of `install` then overwrite in part.
    file.write_at(0, &[0; 2 * BLOCK_LEN])?;
    let mut out = Out { file: &**file, position: RECORDS_POSITION, bytes: Vec::new() };
    let mut millis = in_use.previous_millis;
    let mut next = in_use.base;
    if let Some(records) = records {
        let key = Key::new(in_use.log, header.generation, in_use.base);
        let source = fs.open_read(&records.from)?;
        let end = source.len()?;
        let mut cursor = Cursor::new(Window::new(source, end), records.frame);
        cursor.seek(records.position, records.relative);
        for relative in 0..records.count {
            let relative = u32::try_from(relative).map_err(io::Error::other)?;
            millis = millis.max(carry(&mut cursor, &mut out, key, header.generation, relative)?);
            next = next.plus(1);
        }
    }
    let position = out.end();
    if position > header.capacity {
        return Err(io::Error::other("the records do not fit the new file"));
    }
    out.zeroes(header.capacity)?;
    let (generation, log) = (header.generation, in_use.log);
    Ok(Checkpoint { generation, log, position, next, millis })
}

/// Moves one record over; gives its stamp.
fn carry(
    cursor: &mut Cursor,
    out: &mut Out<'_>,
    key: Key,
    generation: Generation,
    relative: u32,
) -> io::Result<u64> {
    let changed = || io::Error::other("a record changed while it was carried over");
    let Next::Record(at) = cursor.step()? else { return Err(changed()) };
    let bytes = cursor.read(&at)?.ok_or_else(changed)?;
    let body = &bytes[HEADER_LEN..];
    let (headers, rest) = body.split_at(at.header.headers_len.into());
    let payload = &rest[..at.header.payload_len as usize];
    // Nothing before it is unsynced: the file gets its name when all of it is durable.
    let header = RecordHeader { generation, unsynced: 0, relative, ..at.header };
    let position = out.end();
    let place = out.grow(header.record_len())?;
    record::encode(place, key, position, &header, headers, payload);
    out.flush(STRIDE)?;
    Ok(at.header.millis)
}

/// Writes a file from front to end in large pieces.
struct Out<'a> {
    file: &'a dyn File,
    position: u64,
    bytes: Vec<u8>,
}

impl Out<'_> {
    fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }

    fn grow(&mut self, len: u64) -> io::Result<&mut [u8]> {
        let at = self.bytes.len();
        let len = usize::try_from(len).map_err(io::Error::other)?;
        self.bytes.resize(at + len, 0);
        Ok(&mut self.bytes[at..])
    }

    /// Writes what there is, if it is at least so much.
    fn flush(&mut self, least: usize) -> io::Result<()> {
        if self.bytes.len() >= least {
            self.file.write_at(self.position, &self.bytes)?;
            self.position = self.end();
            self.bytes.clear();
        }
        Ok(())
    }

    /// Reserved space that was never written costs a journal entry at each commit.
    fn zeroes(mut self, to: u64) -> io::Result<()> {
        self.flush(0)?;
        while self.position < to {
            let len = usize::try_from(to - self.position).unwrap_or(STRIDE).min(STRIDE);
            self.bytes.resize(len, 0);
            self.flush(0)?;
        }
        Ok(())
    }
}
