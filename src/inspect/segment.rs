//! One file: a segment of a log, a spare, or whatever stands there instead.

use super::cursor::{Cursor, Frame};
use super::leftovers::survey;
use super::outcome::Outcome;
use super::pieces::{Piece, Pieces, VouchedBy, take_apart};
use super::report::{CheckpointView, DamagedRange, KeySource, RecordsView, SegmentReport, Stop};
use super::spares::standing;
use super::window::Window;
use crate::format::checkpoint::{self, Checkpoint};
use crate::format::header::{Header, HeaderError};
use crate::format::record::{self, HEADER_LEN, RecordError};
use crate::format::{BLOCK_LEN, CHECKPOINT_POSITION, Key, RECORDS_POSITION, SECTOR_LEN, SETTLING};
use crate::fs::{File, FileKind, FileSystem};
use crate::types::Offset;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How often something suspicious is looked at again before it is believed.
pub(crate) const LOOKS: usize = 3;

/// The most damaged ranges that are listed for one file.
const DAMAGE_LISTED: usize = 1000;

/// Looks at one file, and goes on behind damage. Reads all of it once, with one buffer.
///
/// `settle` is called before something suspicious is looked at again, a few times at most: a node may be writing the
/// file at this moment. It should wait for a moment, 50 ms or so.
///
/// What the system refuses is an outcome, not an error.
#[must_use]
pub fn segment(fs: &dyn FileSystem, path: &Path, settle: &(dyn Fn() + Sync)) -> SegmentReport {
    examine(fs, path, Extent::Whole, None, settle)
}

/// How much of a file to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything, and what it is.
    Whole,
    /// The records, and what there is behind a stop that could be one; not what else stands behind the last.
    Records,
}

/// As [`segment`]; `sealed` is where the next segment says that this one ends.
pub(crate) fn examine(
    fs: &dyn FileSystem,
    path: &Path,
    extent: Extent,
    sealed: Option<Offset>,
    settle: &(dyn Fn() + Sync),
) -> SegmentReport {
    let mut report = SegmentReport::new(path);
    let Some(file) = open(fs, path, &mut report) else { return report };
    report.standing = standing(fs, path);
    if report.standing.is_some() {
        // A name among the spares means nothing.
        report.name_base = None;
    }
    if let Err(error) = look(&file, extent, sealed, &mut report) {
        report.say(Outcome::Unreadable, None, None, format!("cannot be read: {error}"));
        return report;
    }
    if let Some(standing) = report.standing {
        report.excuse(match standing.next_generation {
            Some(_) => "among the spares nothing was promised; a start stamps it",
            None => "among the spares nothing was promised; a start deletes it",
        });
    }
    for _ in 0..LOOKS {
        // What the device does not give back is no work of a node, even if it comes back the next time.
        if report.outcome < Outcome::TornTail || !report.unreadable.is_empty() {
            break;
        }
        settle();
        if let Some((outcome, detail)) = look_again(fs, &file, &report) {
            report.take_back(outcome, detail);
        }
    }
    report
}

fn open(fs: &dyn FileSystem, path: &Path, report: &mut SegmentReport) -> Option<Arc<dyn File>> {
    let refuse = |report: &mut SegmentReport, detail: String| {
        report.say(Outcome::Unreadable, None, None, detail);
        None
    };
    match fs.metadata(path) {
        Ok(found) => match found.kind {
            FileKind::File => report.disk_bytes = found.disk_bytes,
            FileKind::Directory => return refuse(report, "is a directory, expected a file".into()),
            FileKind::Link => {
                return refuse(report, "is a symbolic link, which is never followed".into());
            }
            FileKind::Other => {
                return refuse(report, "is a socket, pipe or device, expected a file".into());
            }
        },
        Err(error) => return refuse(report, format!("cannot be looked up: {error}")),
    }
    match fs.open_read(path) {
        Ok(file) => Some(file),
        Err(error) => refuse(report, format!("cannot be opened: {error}")),
    }
}

/// Whether the file is still what the report says, and stops where it says. What it found suspicious is taken back if a
/// node was at work there.
fn look_again(
    fs: &dyn FileSystem,
    file: &Arc<dyn File>,
    report: &SegmentReport,
) -> Option<(Outcome, String)> {
    let gone = |detail: &str| Some((Outcome::Gone, detail.to_owned()));
    match fs.metadata(&report.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return gone("the file went away while it was read");
        }
        _ => {}
    }
    let header = read_header(&**file).ok()?;
    if report.header.is_ok() && header != report.header {
        return gone("the file went on to another use while it was read");
    }
    if report.header.is_err() && header.is_ok() {
        return gone("the file's header was written while it was read");
    }
    let (stop, header) = (report.stop?, report.header.as_ref().ok()?);
    let in_use = header.in_use?;
    let frame = Frame {
        key: Key::new(in_use.log, header.generation, in_use.base),
        generation: header.generation,
    };
    let end = header.capacity.min(file.len().ok()?);
    let mut cursor = Cursor::new(Window::new(Arc::clone(file), end), frame);
    cursor.seek(stop.position, stop.offset?.0.checked_sub(in_use.base.0)?);
    let moved = matches!(cursor.step().ok()?, super::cursor::Next::Record(_));
    // The header once more, since it is written before any record of another use.
    if read_header(&**file).ok()? != report.header {
        return gone("the file went on to another use while it was read");
    }
    moved.then(|| (Outcome::BeingWritten, "a record was being written here".to_owned()))
}

pub(crate) fn read_header(file: &dyn File) -> io::Result<Result<Header, HeaderError>> {
    let mut sector = [0; SECTOR_LEN];
    let read = file.read_at(0, &mut sector)?;
    Ok(Header::parse(&sector[..read]))
}

fn look(
    file: &Arc<dyn File>,
    extent: Extent,
    sealed: Option<Offset>,
    report: &mut SegmentReport,
) -> io::Result<()> {
    report.file_len = file.len()?;
    let mut window = Window::new(Arc::clone(file), report.file_len);
    let head = window.bytes(0, 2 * BLOCK_LEN)?.to_vec();
    report.header = Header::parse(&head);
    report.settling = head.get(SECTOR_LEN..).is_some_and(|rest| rest.starts_with(&SETTLING));
    look_at_header(&head, report);
    let end = report.header.map_or(report.file_len, |header| header.capacity.min(report.file_len));
    let mut window = Window::new(Arc::clone(file), end);
    match find_key(&mut window, report)? {
        None => {
            let from = RECORDS_POSITION.min(end);
            if extent == Extent::Whole {
                report.beyond = survey(&mut window, from, end, None)?;
            }
            report.unreadable = window.unreadable().to_vec();
        }
        Some(frame) => {
            let mut cursor = Cursor::new(window, frame);
            look_at_records(&mut cursor, sealed, report)?;
            // Where the next segment says that this one has no record, nothing is missing.
            if sealed.is_none() {
                note_misplaced_header(cursor.window(), &head, frame, report)?;
            }
            let from = report.records.end_position.min(end);
            if extent == Extent::Whole {
                let own = Some(frame.generation);
                report.beyond = survey(cursor.window(), from, end, own)?;
                if sealed.is_some() {
                    // A start zeroes behind the end of the last segment only.
                    report.beyond.own_places = 0;
                }
            }
            report.unreadable = cursor.window().unreadable().to_vec();
        }
    }
    note_missing_length(sealed, report);
    for range in report.unreadable.clone() {
        let detail = format!("up to byte {} the device gives: {}", range.to, range.error);
        report.say(Outcome::Damaged, Some(range.from), None, detail);
    }
    Ok(())
}

fn look_at_header(head: &[u8], report: &mut SegmentReport) {
    let header = match report.header {
        Ok(header) => header,
        Err(error) => {
            let position = error.position();
            let outcome = match error {
                HeaderError::Newer(_) => Outcome::Unreadable,
                _ => Outcome::Damaged,
            };
            report.say(outcome, Some(position), None, format!("header: {error}"));
            return;
        }
    };
    if report.file_len > header.capacity {
        let detail =
            format!("{} bytes more than the header says", report.file_len - header.capacity);
        report.say(Outcome::Clean, Some(header.capacity), None, detail);
    }
    if let (Some(in_use), Some(named)) = (header.in_use, report.name_base)
        && in_use.base != named
    {
        let detail = format!("base offset: found {}, the file is named {named}", in_use.base);
        report.say(Outcome::Clean, Some(40), None, detail);
    }
    report.checkpoint = view_checkpoint(head, &header);
    if report.standing.is_some() && matches!(report.checkpoint, CheckpointView::Valid(_)) {
        let detail = format!("byte {CHECKPOINT_POSITION}: the file was given up");
        report.checkpoint = CheckpointView::Ignored(detail);
    }
    if let CheckpointView::Valid(checkpoint) = &report.checkpoint {
        report.vouched = Some((checkpoint.position, VouchedBy::Checkpoint));
    }
}

/// A file has its full length, durable, before it is used, so no crash makes a short one. What was in the rest nobody
/// can tell, unless the next segment says that all is there.
fn note_missing_length(sealed: Option<Offset>, report: &mut SegmentReport) {
    let Ok(header) = report.header else { return };
    if report.file_len >= header.capacity {
        return;
    }
    let whole = header.in_use.is_none()
        || report.standing.is_some()
        || sealed.is_some_and(|end| report.records.next >= Some(end) && report.damage_count == 0);
    let outcome = if whole { Outcome::Clean } else { Outcome::Damaged };
    let detail = format!("the file ends here, its header says {} bytes", header.capacity);
    report.say(outcome, Some(report.file_len), None, detail);
}

fn view_checkpoint(head: &[u8], header: &Header) -> CheckpointView {
    let Some(block) = head.get(BLOCK_LEN..BLOCK_LEN + SECTOR_LEN) else {
        return CheckpointView::Absent;
    };
    if block.iter().all(|&byte| byte == 0) {
        return CheckpointView::Absent;
    }
    let at = CHECKPOINT_POSITION;
    let ignored = |text: String| CheckpointView::Ignored(text);
    let Some(checkpoint) = Checkpoint::parse(block) else {
        return ignored(if block[..8] == checkpoint::MAGIC {
            format!("byte {}: the CRC32 or a field does not fit: torn or damaged", at + 508)
        } else {
            format!("byte {at}, magic: found {:02x?}", &block[..8])
        });
    };
    if checkpoint.generation != header.generation {
        let (found, expected) = (checkpoint.generation.get(), header.generation.get());
        return ignored(format!(
            "byte {}, generation: found {found}, the file's is {expected}",
            at + 8
        ));
    }
    match header.in_use {
        None => ignored(format!("byte {at}: the file is a spare")),
        Some(in_use) if in_use.log != checkpoint.log => {
            let (found, expected) = (checkpoint.log, in_use.log);
            ignored(format!("byte {}, log id: found {found}, the file's is {expected}", at + 40))
        }
        Some(_) if !checkpoint.belongs_to(header) => {
            let (position, next) = (checkpoint.position, checkpoint.next);
            ignored(format!("byte {}: record {next} cannot come at byte {position}", at + 16))
        }
        Some(_) => CheckpointView::Valid(checkpoint),
    }
}

/// The key of the records that the file may hold. A file whose header cannot be read still shows its records if the
/// first one proves a key.
fn find_key(window: &mut Window, report: &mut SegmentReport) -> io::Result<Option<Frame>> {
    match report.header {
        _ if report.standing.is_some() => Ok(None),
        Ok(Header { in_use: Some(in_use), generation, .. }) => {
            report.key = KeySource::Header;
            Ok(Some(Frame { key: Key::new(in_use.log, generation, in_use.base), generation }))
        }
        Ok(_) => Ok(None),
        Err(_) => {
            let frame = derive(window)?;
            if let Some(frame) = frame {
                report.key = KeySource::FirstRecord(frame.generation);
            }
            Ok(frame)
        }
    }
}

/// A header that is not the one the file's first record was written behind, as recovery tells it.
fn note_misplaced_header(
    window: &mut Window,
    head: &[u8],
    own: Frame,
    report: &mut SegmentReport,
) -> io::Result<()> {
    let Ok(Header { in_use: Some(in_use), .. }) = report.header else { return Ok(()) };
    let empty = report.records.count == 0
        && report.damage_count == 0
        && report.stop.is_some_and(|stop| stop.position == RECORDS_POSITION);
    if !empty {
        return Ok(());
    }
    let checkpoint = head.get(BLOCK_LEN..).and_then(Checkpoint::parse);
    let of_another =
        |found: Checkpoint| found.generation == own.generation && found.log != in_use.log;
    let detail = if checkpoint.is_some_and(of_another) {
        "the checkpoint of this use of the file is another log's: so was its header"
    } else if derive(window)?
        .is_some_and(|found| found.generation == own.generation && found.key != own.key)
    {
        "records of another log's or another use's header stand behind this one"
    } else {
        return Ok(());
    };
    report.say(Outcome::Damaged, Some(RECORDS_POSITION), report.absolute(0), detail.to_owned());
    Ok(())
}

/// The key that the first record's own checksums prove.
pub(crate) fn derive(window: &mut Window) -> io::Result<Option<Frame>> {
    let position = RECORDS_POSITION;
    let left = window.end().saturating_sub(position);
    let head = window.bytes(position, HEADER_LEN)?;
    if head.len() < HEADER_LEN {
        return Ok(None);
    }
    let Some((key, generation)) = record::derive_key(head, position) else { return Ok(None) };
    let Ok(parsed) = record::parse(head, left, key, position, generation) else { return Ok(None) };
    let fits = super::cursor::check_body(window, key, &parsed, position)?.is_ok();
    Ok((fits && parsed.header.relative == 0).then_some(Frame { key, generation }))
}

fn look_at_records(
    cursor: &mut Cursor,
    sealed: Option<Offset>,
    report: &mut SegmentReport,
) -> io::Result<()> {
    let base = report.base();
    let checkpoint = match (&report.checkpoint, base) {
        (CheckpointView::Valid(checkpoint), Some(base)) => {
            Some((checkpoint.position, checkpoint.next.0.wrapping_sub(base.0)))
        }
        _ => None,
    };
    let sealed = sealed.zip(base).map(|(sealed, base)| sealed.0.saturating_sub(base.0));
    let found = take_apart(cursor, checkpoint, sealed)?;
    if let Some((claim, by)) = found.claim
        && report.vouched.is_none_or(|(vouched, _)| vouched < claim)
    {
        report.vouched = Some((claim, VouchedBy::Record(by)));
    }
    let vouched = report.vouched.map_or(0, |(vouched, _)| vouched);
    let end = found.end(vouched, sealed);
    let last = end.unwrap_or(found.pieces.len() - 1);
    let first = found.pieces[0];
    let offset = report.absolute(first.next());
    report.stop = Some(Stop { position: first.to, offset, error: first.stop });
    // What stands beyond the end of a sealed segment is of a branch that a heal cut off: none of the log's records (I2).
    let mut own = found.pieces[..=last].to_vec();
    if let (Some(piece), Some(end)) = (found.sealed, own.last_mut()) {
        *end = piece;
    }
    report.records = sum(&own, report);
    let all: u64 = found.pieces.iter().map(|piece| piece.count).sum();
    report.records.cut_off = all - report.records.count + found.strays;
    note_damage(&found, end, sealed, report);
    if let Some((position, next)) = found.checkpoint_wrong
        && let CheckpointView::Valid(checkpoint) = report.checkpoint
    {
        let detail = format!(
            "the checkpoint puts record {} at byte {}, where record {} is found",
            checkpoint.next,
            checkpoint.position,
            report.absolute(next).unwrap_or_default(),
        );
        report.say(Outcome::Damaged, Some(position), None, detail);
    }
    if end.is_some() && sealed.is_none() {
        note_tail(&found, last, report);
    }
    Ok(())
}

fn sum(pieces: &[Piece], report: &SegmentReport) -> RecordsView {
    let mut view = RecordsView { end_position: RECORDS_POSITION, ..RecordsView::default() };
    for piece in pieces {
        view.count += piece.count;
        view.bytes += piece.to - piece.from;
        view.payload_bytes += piece.payload_bytes;
        view.headers_bytes += piece.headers_bytes;
        view.max_millis = view.max_millis.max(piece.millis_max);
        view.end_position = piece.to;
        view.next = report.absolute(piece.next());
        let Some((first, last)) = piece.millis else { continue };
        view.first_millis = view.first_millis.or(Some(first));
        view.last_millis = Some(last);
        view.first = view.first.or(report.absolute(piece.first));
        view.last = report.absolute(piece.next() - 1);
    }
    view
}

fn note_damage(
    found: &Pieces,
    end: Option<usize>,
    sealed: Option<u64>,
    report: &mut SegmentReport,
) {
    let last = end.unwrap_or(found.pieces.len() - 1);
    let mut ranges = Vec::new();
    for pair in found.pieces[..=last].windows(2) {
        let (from_offset, to_offset) =
            (report.absolute(pair[0].next()), report.absolute(pair[1].first));
        ranges.push(DamagedRange {
            from: pair[0].to,
            to: pair[1].from,
            from_offset,
            to_offset,
            error: pair[0].stop,
        });
    }
    if end.is_none() {
        let piece = found.pieces[last];
        let vouched = report.vouched.map_or(piece.to, |(vouched, _)| vouched);
        if sealed.is_some() {
            report.vouched = Some((vouched.max(piece.to), VouchedBy::NextSegment));
        }
        let from_offset = report.absolute(piece.next());
        let to = vouched.max(piece.to);
        ranges.push(DamagedRange {
            from: piece.to,
            to,
            from_offset,
            to_offset: None,
            error: piece.stop,
        });
    }
    report.damage_count = ranges.len() as u64;
    ranges.truncate(DAMAGE_LISTED);
    for range in &ranges {
        let by = match report.vouched {
            Some((_, VouchedBy::NextSegment)) => "the next segment's header".to_owned(),
            Some((to, VouchedBy::Checkpoint)) => format!("the checkpoint, up to byte {to}"),
            Some((to, VouchedBy::Record(at))) => {
                format!("the record at byte {at}, up to byte {to}")
            }
            None => "a record behind it".to_owned(),
        };
        let mut detail = format!("{}; it was durable: so says {by}", range.error);
        if let Some(next) = range.to_offset {
            detail = format!("{detail}; good again from byte {}, record {next}", range.to);
        }
        report.say(Outcome::Damaged, Some(range.from), range.from_offset, detail);
    }
    report.damage = ranges;
}

/// What stands at the end of the last segment, if a crash may have left it.
fn note_tail(found: &Pieces, last: usize, report: &mut SegmentReport) {
    let piece = found.pieces[last];
    let nothing = matches!(
        piece.stop,
        RecordError::Nothing | RecordError::Generation { .. } | RecordError::Short(_)
    );
    let offset = report.absolute(piece.next());
    if report.records.cut_off > 0 {
        let detail = format!(
            "{}; {} records behind it, none of which vouches for it",
            piece.stop, report.records.cut_off
        );
        report.say(Outcome::TornTail, Some(piece.to), offset, detail);
    } else if !nothing {
        report.say(Outcome::TornTail, Some(piece.to), offset, piece.stop.to_string());
    }
}
