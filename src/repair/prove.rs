//! Proves what a file was whose header is lost or wrong: by its checkpoint, which names log and generation, or by
//! records whose checksums fit only under that log's key.

use crate::format::checkpoint::Checkpoint;
use crate::format::header::Header;
use crate::format::record::{self, GENERATION_AT, HEADER_LEN};
use crate::format::{BLOCK_LEN, CHECKPOINT_POSITION, Key, RECORDS_POSITION, u16_at};
use crate::fs::File;
use crate::inspect::cursor::{Cursor, Frame};
use crate::inspect::segment::derive;
use crate::inspect::window::{READ_LEN, Window};
use crate::types::{Generation, LogId, Offset};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Distance of the places where a record may stand.
const STEP: usize = 8;

/// What a file was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proof {
    pub(super) frame: Frame,
    /// The log, if that is known; without it only the key is.
    pub(super) log: Option<LogId>,
    /// The checkpoint proves it: a position and the offset that comes there.
    pub(super) checkpoint: Option<(u64, Offset)>,
    /// The generation stands where the header has it, though the header as a whole is not valid.
    pub(super) in_header: bool,
}

/// Looks for a proof. `base` is the one in the file's name; `log` is the identity that the log's other files have;
/// `header` is the file's own, if it is valid but not the one that it should have.
pub(super) fn prove(
    file: &Arc<dyn File>,
    base: Offset,
    log: Option<LogId>,
    header: Option<&Header>,
) -> io::Result<Option<Proof>> {
    let len = file.len()?;
    let mut window = Window::new(Arc::clone(file), len);
    let raw = window.bytes(0, BLOCK_LEN)?.get(12..14).map(|field| u16_at(field, 0));
    let proof = |frame: Frame, log, checkpoint| {
        let in_header = raw == Some(frame.generation.get());
        Some(Proof { frame, log, checkpoint, in_header })
    };
    let block = window.bytes(CHECKPOINT_POSITION, BLOCK_LEN)?;
    if let Some(found) = Checkpoint::parse(block)
        && log.is_none_or(|log| log == found.log)
        && header.is_none_or(|header| header.generation == found.generation)
    {
        // Its own checksum proves it; but it may be of an earlier use by the same log, so a record has to agree, or
        // there must be none of a later one.
        let frame = Frame {
            key: Key::new(found.log, found.generation, base),
            generation: found.generation,
        };
        let later =
            newest(&mut window, found.log, base)?.filter(|newest| *newest > found.generation);
        if later.is_none() {
            return Ok(proof(frame, Some(found.log), Some((found.position, found.next))));
        }
    }
    if let Some(log) = log {
        let generation = match header {
            Some(header) => Some(header.generation),
            None => newest(&mut window, log, base)?,
        };
        let Some(generation) = generation else { return Ok(None) };
        let frame = Frame { key: Key::new(log, generation, base), generation };
        let found = Cursor::new(window, frame).find(RECORDS_POSITION)?;
        return Ok(found.and_then(|_| proof(frame, Some(log), None)));
    }
    let frame = derive(&mut window)?;
    let fits = |frame: &Frame| header.is_none_or(|header| header.generation == frame.generation);
    Ok(frame.filter(fits).and_then(|frame| proof(frame, None, None)))
}

/// The highest generation of which the file holds a record header by `log` under `base`: the last use that wrote anything.
fn newest(window: &mut Window, log: LogId, base: Offset) -> io::Result<Option<Generation>> {
    let mut keys: BTreeMap<Generation, Key> = BTreeMap::new();
    let mut newest = None;
    let mut position = RECORDS_POSITION;
    let end = window.end();
    loop {
        let chunk = window.bytes(position, READ_LEN)?;
        if chunk.len() < HEADER_LEN {
            return Ok(newest);
        }
        let last = chunk.len() - HEADER_LEN;
        for at in (0..=last).step_by(STEP) {
            let Some(generation) = Generation::new(u16_at(chunk, at + GENERATION_AT)) else {
                continue;
            };
            if Some(generation) <= newest {
                continue;
            }
            let key = *keys.entry(generation).or_insert_with(|| Key::new(log, generation, base));
            let (here, head) = (position + at as u64, &chunk[at..at + HEADER_LEN]);
            if record::parse(head, end - here, key, here, generation).is_ok() {
                newest = Some(generation);
            }
        }
        position += (last / STEP + 1) as u64 * STEP as u64;
    }
}
