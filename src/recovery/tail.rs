//! Walks a segment from the last known durable place to where its records stop. Reads only.

use super::SegmentInfo;
use super::beyond::{self, Beyond, Search};
use super::decide::{self, StopFacts, StopVerdict};
use super::error::RecoverError;
use crate::format::checkpoint::Checkpoint;
use crate::format::header::Header;
use crate::format::record::{HEADER_LEN, RecordError};
use crate::format::{
    BLOCK_LEN, CHECKPOINT_POSITION, Key, RECORDS_POSITION, SETTLING, SETTLING_POSITION, WINDOW,
};
use crate::fs::File;
use crate::planted::{self, Fault};
use crate::segment::{Step, Walker};
use crate::types::{Generation, LogId, Offset};
use std::collections::VecDeque;
use std::io;

/// A checkpoint no further in than this is not trusted to skip what is before it: reading that much costs little and
/// finds damage that would be met only later.
const READ_ANYWAY: u64 = 256 * 1024;

/// How often a walk goes on because a record has appeared at Stop meanwhile. Only a live writer makes that happen.
const CHASES_MAX: u32 = 64;

/// A place between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// Position in the file.
    pub position: u64,
    /// Offset of the record that comes there.
    pub next: Offset,
    /// The largest stamp of any record before, Unix milliseconds.
    pub millis: u64,
}

/// What a walk over a segment found.
#[derive(Clone, Copy, Debug)]
pub struct TailFacts {
    /// Up to here the bytes are known to have been durable: by the checkpoint or a record's claim.
    pub vouched: Boundary,
    /// Whether anything says that the header block was durable.
    pub header_vouched: bool,
    /// Where the records stop.
    pub end: Boundary,
    /// What stands there; `None` where the walk ended because the next segment begins.
    pub stop: Option<RecordError>,
    /// The file's checkpoint, if it is of this use of the file.
    pub checkpoint: Option<Checkpoint>,
    /// What stands beyond the end.
    pub beyond: Beyond,
    /// Records walked over.
    pub records: u64,
    /// Records between the vouched place and the end.
    pub records_past_vouched: u64,
    /// Length of the file.
    pub len: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Why the end is damage, if it is.
    pub damage: Option<&'static str>,
    /// A writer was at work: the end has moved while it was looked at.
    pub live: bool,
    /// An earlier recovery has changed the file and did not come to the sync. What is seen beyond the end may be its
    /// zeroes, in the page cache only.
    pub settling: bool,
}

impl TailFacts {
    /// Whether the header and every record up to the end are known to have been durable.
    #[must_use]
    pub fn is_vouched(&self) -> bool {
        // The header of a segment without records may be in the page cache only, and the log's next offset with it (I8).
        self.header_vouched && self.vouched.position == self.end.position
    }
}

/// How to walk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    /// From the first record, wherever the checkpoint is.
    pub(crate) whole: bool,
    /// The next segment begins with this record: do not walk into what an earlier life left behind it.
    pub(crate) until: Option<Offset>,
}

/// The boundaries since the last vouched one, so that a claim can be turned into an offset without a second walk.
struct Vouched {
    at: Boundary,
    since: VecDeque<Boundary>,
}

impl Vouched {
    /// Records are 32 bytes at least and start at most a window past what is durable, so no more are ever needed.
    #[allow(clippy::cast_possible_truncation, reason = "a constant of 2 MiB")]
    const MAX: usize = (WINDOW as usize / HEADER_LEN) + 2;

    fn boundary(&mut self, boundary: Boundary) {
        if self.since.len() == Self::MAX {
            // Only a claim that breaks the window gets here. Knowing fewer boundaries writes more again, never less.
            self.since.pop_front();
        }
        self.since.push_back(boundary);
    }

    fn claim(&mut self, durable: u64) {
        while self.since.front().is_some_and(|boundary| boundary.position <= durable) {
            if let Some(boundary) = self.since.pop_front() {
                self.at = boundary;
            }
        }
    }
}

/// Reads the checkpoint block of `segment`, whoever's it is.
fn read_checkpoint(
    file: &dyn File,
    segment: &SegmentInfo,
) -> Result<Option<Checkpoint>, RecoverError> {
    let mut block = [0; BLOCK_LEN];
    let read = file.read_at(CHECKPOINT_POSITION, &mut block).map_err(RecoverError::io(
        "reading the checkpoint",
        &segment.path,
        CHECKPOINT_POSITION,
    ))?;
    Ok(Checkpoint::parse(&block[..read]))
}

/// Why the valid header of a file in which no record of its own stands is not the one that was written there, if it is
/// not. For whoever judges a file without walking its tail.
pub(crate) fn misplaced(
    file: &dyn File,
    header: &Header,
    limit: u64,
) -> io::Result<Option<&'static str>> {
    let Some(in_use) = header.in_use else { return Ok(None) };
    let mut block = [0; BLOCK_LEN];
    let read = file.read_at(CHECKPOINT_POSITION, &mut block)?;
    let checkpoint = Checkpoint::parse(&block[..read]);
    let own = (Key::new(in_use.log, header.generation, in_use.base), header.generation);
    misplaced_header(file, own, checkpoint, in_use.log, limit, &mut 0)
}

/// Why the header of a file without a record of its own is not the one that was written there, if it is not.
///
/// A generation of a file is used once and by one log. No crash puts another log's header block over it: then the log
/// would read as empty, and begin again at 0 over records that were confirmed (I4, I8).
fn misplaced_header(
    file: &dyn File,
    own: (Key, Generation),
    checkpoint: Option<Checkpoint>,
    log: LogId,
    limit: u64,
    bytes_read: &mut u64,
) -> io::Result<Option<&'static str>> {
    let (_, generation) = own;
    if checkpoint.is_some_and(|found| found.generation == generation && found.log != log) {
        return Ok(Some(
            "the checkpoint of this use of the file is another log's: so was its header",
        ));
    }
    let other = beyond::first_is_of_another(file, own, limit, bytes_read)?;
    Ok(other.then_some("records of another log's or another use's header stand behind this one"))
}

/// Whether a recovery of this file was cut off.
fn is_settling(file: &dyn File, segment: &SegmentInfo) -> Result<bool, RecoverError> {
    let mut mark = [0; SETTLING.len()];
    let read = file.read_at(SETTLING_POSITION, &mut mark).map_err(RecoverError::io(
        "reading the header block",
        &segment.path,
        SETTLING_POSITION,
    ))?;
    Ok(read == mark.len() && mark == SETTLING)
}

/// Walks `segment`, whose header is known to be valid, and says where it stops and what is beyond.
pub(crate) fn scan(
    file: &dyn File,
    segment: &SegmentInfo,
    log: LogId,
    walk: Walk,
) -> Result<TailFacts, RecoverError> {
    let path = &segment.path;
    let len = file.len().map_err(RecoverError::io("asking for the length", path, 0))?;
    let limit = len.min(segment.capacity);
    let any_checkpoint = read_checkpoint(file, segment)?;
    // A reused file keeps the checkpoint of its last use, which speaks of bytes that are long gone.
    // Judged by the size that the file was made with: if the file was cut since, what the checkpoint vouches for is lost.
    let own =
        |found: &Checkpoint| found.is_of(segment.generation, log, segment.base, segment.capacity);
    let checkpoint = any_checkpoint.filter(own);
    let first = Boundary {
        position: RECORDS_POSITION,
        next: segment.base,
        millis: segment.previous_millis,
    };
    let start = match checkpoint {
        // Of a file that was cut below its checkpoint, what is left is read from the front.
        Some(found)
            if !walk.whole
                && (RECORDS_POSITION + READ_ANYWAY + 1..=limit).contains(&found.position) =>
        {
            Boundary {
                position: found.position,
                next: found.next,
                millis: found.millis.max(segment.previous_millis),
            }
        }
        _ => first,
    };
    let mut vouched = Vouched { at: start, since: VecDeque::new() };
    let mut header_vouched = checkpoint.is_some();
    let checkpointed = checkpoint.map_or(0, |found| found.position);
    let (mut end, mut records, mut bytes_read, mut chases) = (start, 0, 0, 0);
    let (stop, beyond, verdict, misplaced) = loop {
        let from = (end.position, end.next);
        let key = Key::new(log, segment.generation, segment.base);
        let mut walker = Walker::with_key(file, key, segment.generation, segment.base, from, limit);
        let records_before = records;
        let stop = loop {
            if walk.until == Some(end.next) {
                break None;
            }
            let position = end.position;
            let step =
                walker.step().map_err(RecoverError::io("reading records", path, position))?;
            let found = match step {
                Step::Record(found) => found,
                Step::Stop(error) => break Some(error),
            };
            let claim = found.header.claim(found.position);
            // The first batch is staged before its file's header is written, so a claim of the very first position says
            // nothing about the header.
            header_vouched |= claim > RECORDS_POSITION;
            records += 1;
            end = Boundary {
                position: found.position + found.header.record_len(),
                next: found.offset.plus(1),
                millis: end.millis.max(found.header.millis),
            };
            vouched.boundary(end);
            vouched.claim(claim.max(checkpointed));
        };
        bytes_read += walker.bytes_read();
        if stop.is_none() {
            break (None, Beyond::default(), StopVerdict::End, None);
        }
        let search = Search {
            file,
            key,
            generation: segment.generation,
            stop: end.position,
            expected: end.next.0.saturating_sub(segment.base.0),
            end: limit,
        };
        let beyond =
            search.run().map_err(RecoverError::io("reading beyond the end", path, end.position))?;
        bytes_read += beyond.bytes_read;
        let verdict = decide::stop(StopFacts {
            checkpoint: checkpointed > end.position,
            claim: beyond.claim.is_some() && !planted::is(Fault::StopTakenForEnd),
            next_segment: walk.until.is_some_and(|until| until > end.next),
        });
        let misplaced = if end == first && verdict == StopVerdict::End {
            let own = (key, segment.generation);
            misplaced_header(file, own, any_checkpoint, log, limit, &mut bytes_read)
                .map_err(RecoverError::io("reading the first record", path, end.position))?
        } else {
            None
        };
        // A reader of a live log may see a record appear at Stop after it looked there and before it looked beyond.
        // So look once more: where nothing has come, whatever reaches beyond is no live writer's.
        if verdict == StopVerdict::End || (chases > 0 && records == records_before) {
            break (stop, beyond, verdict, misplaced);
        }
        if chases == CHASES_MAX {
            break (stop, beyond, StopVerdict::End, None);
        }
        chases += 1;
    };
    let mut next = end.next;
    if planted::is(Fault::OffsetsRestartWhenEmpty) && end == first {
        next = Offset::ZERO;
    }
    Ok(TailFacts {
        vouched: vouched.at,
        header_vouched,
        end: Boundary { next, ..end },
        stop,
        checkpoint,
        beyond,
        records,
        records_past_vouched: end.next.0 - vouched.at.next.0,
        len,
        bytes_read,
        damage: match verdict {
            // A file has its length before it is used, so somebody cut it; and with it went whatever said how many
            // offsets were given out (I8).
            _ if len < RECORDS_POSITION => {
                Some("the file was cut, in front of where its records begin")
            }
            StopVerdict::End => misplaced,
            StopVerdict::Corrupt(reason) => Some(reason),
        },
        live: chases > 0 && verdict == StopVerdict::End,
        settling: is_settling(file, segment)?,
    })
}
