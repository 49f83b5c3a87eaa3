//! Makes durable what recovery is about to show, and removes what must not come back. The only step that writes.
//!
//! The order is the point:
//!
//! 1. Names are synced. What is seen may be in the page cache only: a process died, and the power may fail next [R].
//! 2. Trailing files are given up, and the directory is synced.
//! 3. Header and unvouched tail are written again from what was read, what could come back to life beyond the end is
//!    zeroed, and one sync covers both. Nothing is shown before it has returned [R].
//! 4. If that fails, the log goes on in another file that carries the unvouched records: see `heal`.
//! 5. If that fails too, the log opens for reading, up to the vouched end, and nothing is cut.
//!
//! A crash between any two of them leaves a log of which recovery makes the same (I10): 2 only takes files that are
//! trailing again next time, 3 only rewrites bytes with themselves and zeroes what is beyond the end.

use super::look::{Look, TrailingFate, look_once};
use super::tail::TailFacts;
use super::{Context, RecoverError, Recovered, RecoveryReport, SegmentInfo, Tail, heal, zero};
use crate::format::header::Header;
use crate::format::record::HEADER_LEN;
use crate::format::{
    BLOCK_LEN, Key, RECORDS_POSITION, SECTOR_LEN, SETTLING, SETTLING_POSITION, WINDOW,
};
use crate::fs::{File, FileSystem};
use crate::planted::{self, Fault};
use crate::segment::{GivenUp, Reuse, Step, Walker};
use crate::types::{LogId, Offset};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BLOCK: u64 = BLOCK_LEN as u64;
const CHUNK: usize = 256 * 1024;
/// [`SETTLING_POSITION`] as an index.
const MARK: usize = SECTOR_LEN;

/// Recovers the log in `dir`, which nobody else uses.
///
/// `parents` are the directories above `dir`, innermost first, up to and including the one that holds all logs; their
/// names are synced too. Blocks on reads, writes and syncs.
///
/// # Errors
/// [`RecoverError`]: the log cannot be read, or was written by a newer release; nothing was changed. Damage, and a disk
/// that takes no writes, are no errors: see [`Tail`].
pub fn recover(
    ctx: &Context<'_>,
    dir: &Path,
    parents: &[PathBuf],
) -> Result<Recovered, RecoverError> {
    let names = sync_names(ctx.fs, dir, parents);
    let look = look_once(ctx.fs, dir)?;
    let mut report = RecoveryReport {
        bytes_read: look.bytes_read,
        records_past_vouched: look.tail.map_or(0, |tail| tail.records_past_vouched),
        stop: look.tail.and_then(|tail| tail.stop),
        ..RecoveryReport::default()
    };
    if let Some(damage) = look.damage.clone() {
        // Whatever is wrong, it is not made worse: nothing is written, nothing is removed (I4).
        let (position, next) = readable(&look, damage.offset);
        let tail = Tail::Damaged { position, next, damage };
        return Ok(Recovered { id: look.id, segments: look.segments, tail, report });
    }
    let tidied = names
        .map_err(|(path, error)| failed("sync of", &path, &error))
        .and_then(|()| tidy(ctx, dir, &look, &mut report));
    let Some(tail) = look.tail else {
        let tail = match tidied {
            Ok(()) => Tail::Empty,
            Err(reason) => {
                Tail::ReadOnly { position: RECORDS_POSITION, next: Offset::ZERO, reason }
            }
        };
        return Ok(Recovered { id: None, segments: Vec::new(), tail, report });
    };
    let mut segments = look.segments;
    let tail = match (tidied, look.id) {
        (Ok(()), Some(log)) => settle(ctx, dir, log, &mut segments, &tail, &mut report),
        (Err(reason), _) => read_only(&tail, reason),
        (Ok(()), None) => read_only(&tail, "the log's identity is not known".into()),
    };
    Ok(Recovered { id: look.id, segments, tail, report })
}

/// The end of what is readable of a damaged log.
fn readable(look: &Look, damaged: Option<Offset>) -> (u64, Offset) {
    match look.tail {
        Some(tail) => (tail.end.position, tail.end.next),
        None => (RECORDS_POSITION, damaged.unwrap_or_default()),
    }
}

fn failed(what: &str, path: &Path, error: &dyn Display) -> Arc<str> {
    format!("{what} {} failed: {error}", path.display()).into()
}

/// Readers may only be shown what stays: what is vouched for.
fn read_only(tail: &TailFacts, reason: Arc<str>) -> Tail {
    Tail::ReadOnly { position: tail.vouched.position, next: tail.vouched.next, reason }
}

/// A file may be seen under a name that only the page cache has; a power cut would take it away after it was shown [R].
fn sync_names(
    fs: &dyn FileSystem,
    dir: &Path,
    parents: &[PathBuf],
) -> Result<(), (PathBuf, io::Error)> {
    if planted::is(Fault::NamesNotSyncedAtOpen) {
        return Ok(());
    }
    std::iter::once(dir)
        .chain(parents.iter().map(PathBuf::as_path))
        .try_for_each(|dir| fs.sync_dir(dir).map_err(|error| (dir.to_path_buf(), error)))
}

/// Gives up trailing files, the last one first, and deletes temporary ones.
fn tidy(
    ctx: &Context<'_>,
    dir: &Path,
    look: &Look,
    report: &mut RecoveryReport,
) -> Result<(), Arc<str>> {
    let mut given_up = Vec::new();
    let tidied = move_out(ctx, dir, look, report, &mut given_up);
    for file in given_up {
        match tidied {
            // Only now may the pool write to it.
            Ok(()) => ctx.source.given_up(file),
            Err(_) => ctx.source.lost(file),
        }
    }
    tidied
}

fn move_out(
    ctx: &Context<'_>,
    dir: &Path,
    look: &Look,
    report: &mut RecoveryReport,
    given_up: &mut Vec<GivenUp>,
) -> Result<(), Arc<str>> {
    for trailing in look.trailing.iter().rev() {
        let reuse = match trailing.fate {
            TrailingFate::BackToPool => Reuse::Allowed,
            TrailingFate::Remove => Reuse::Never,
        };
        let gone = ctx.source.give_up(&trailing.path, reuse);
        given_up.push(gone.map_err(|error| failed("giving up", &trailing.path, &error))?);
        match reuse {
            Reuse::Allowed => report.files_given_up += 1,
            Reuse::Never => report.files_removed += 1,
        }
    }
    for path in &look.temporary {
        ctx.fs.remove_file(path).map_err(|error| failed("removing", path, &error))?;
        report.files_removed += 1;
    }
    if report.files_given_up + report.files_removed > 0 {
        // Before anything is appended: a name that came back would stand behind, or in the place of, the next segment.
        // A rename is durable for sure when both its directories are; the new name first, or there may be none.
        for dir in [ctx.source.spares_dir(), dir] {
            ctx.fs.sync_dir(dir).map_err(|error| failed("sync of", dir, &error))?;
        }
    }
    Ok(())
}

/// Makes the end of the last segment durable, in place or in another file.
fn settle(
    ctx: &Context<'_>,
    dir: &Path,
    log: LogId,
    segments: &mut Vec<SegmentInfo>,
    tail: &TailFacts,
    report: &mut RecoveryReport,
) -> Tail {
    let open =
        Tail::Open { position: tail.end.position, next: tail.end.next, millis: tail.end.millis };
    let Some(last) = segments.last().cloned() else { return Tail::Empty };
    if !needs_writing(tail, last.capacity) {
        return open;
    }
    // Nothing was written to the file yet, so failing here says nothing against it: no reason to heal.
    let opened = ctx.fs.open_write(&last.path).and_then(|file| Ok((header_of(&*file)?, file)));
    let (header, file) = match opened {
        Ok(opened) => opened,
        Err(error) => return read_only(tail, failed("opening", &last.path, &error)),
    };
    let error = match make_durable(&*file, &last, log, &header, tail, report) {
        Ok(()) => return open,
        Err(error) => failed("writing again", &last.path, &error),
    };
    match heal::heal(ctx, dir, log, &last, tail) {
        Ok(healed) => {
            report.bytes_written_again += healed.bytes_written;
            report.healed = Some(error);
            if healed.segment.base == last.base {
                segments.pop();
            } else if let Some(last) = segments.last_mut() {
                last.failed = true;
            }
            segments.push(healed.segment);
            healed.tail
        }
        Err(second) => read_only(tail, format!("{error}; healing failed too: {second}").into()),
    }
}

/// Whether the end may count as durable only after something was written. Where all is vouched for and nothing could come
/// back to life, as after a clean close, nothing is written: thousands of idle logs open without a sync of a file.
fn needs_writing(tail: &TailFacts, capacity: u64) -> bool {
    let unvouched = !tail.is_vouched() && !planted::is(Fault::TailNotWrittenAgain);
    let ghosts = tail.beyond.carrying > 0 && !planted::is(Fault::ZeroingLeftOut);
    unvouched || ghosts || is_settling(tail) || tail.len < capacity
}

fn is_settling(tail: &TailFacts) -> bool {
    tail.settling && !planted::is(Fault::SettlingNotMarked)
}

fn header_of(file: &dyn File) -> io::Result<Header> {
    let mut block = [0; BLOCK_LEN];
    let read = file.read_at(0, &mut block)?;
    Header::parse(&block[..read]).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes header and unvouched bytes again, zeroes beyond the end, and syncs once.
///
/// Written again, and not only synced: after an I/O error in an earlier life the pages are clean, and a sync of clean
/// pages answers `Ok` though the disk has other bytes [R]. What is durable already is overwritten with itself, in whole
/// blocks, which a disk is taken to survive.
///
/// Before the first change the file is marked. If the process dies before the sync, the next recovery reads zeroes in
/// the page cache where the disk still has records, and nothing else would tell it that they must be zeroed [R].
fn make_durable(
    file: &dyn File,
    segment: &SegmentInfo,
    log: LogId,
    header: &Header,
    tail: &TailFacts,
    report: &mut RecoveryReport,
) -> io::Result<()> {
    if tail.len < segment.capacity {
        // Someone cut the file. Behind its end nothing was vouched for, or this would be damage.
        file.set_len(segment.capacity)?;
    }
    let end = tail.end.position;
    let again = !planted::is(Fault::TailNotWrittenAgain);
    let mut written = 0;
    // The block of the end is written with the window, in one piece.
    let window_at = end / BLOCK * BLOCK;
    if !again {
        file.write_at(SETTLING_POSITION, &SETTLING)?;
    } else {
        let mut block = header.encode();
        block[MARK..MARK + SETTLING.len()].copy_from_slice(&SETTLING);
        file.write_at(0, &block)?;
        written += BLOCK;
        let mut buffer = vec![0; CHUNK];
        let mut at = tail.vouched.position / BLOCK * BLOCK;
        while at < window_at {
            let len = usize::try_from(window_at - at).unwrap_or(CHUNK).min(CHUNK);
            read_whole(file, at, &mut buffer[..len])?;
            file.write_at(at, &buffer[..len])?;
            at += len as u64;
            written += len as u64;
        }
    }
    written += write_window(file, segment, log, tail, window_at, report)?;
    file.sync()?;
    report.bytes_written_again += written;
    walk_again(file, segment, log, tail)?;
    // Not synced: where a power cut brings the mark back, the next recovery does a little more than it must.
    file.write_at(SETTLING_POSITION, &[0; SETTLING.len()])
}

/// What is shown must be what was written, and nothing that the page cache had and lost again in between: after an I/O
/// error in an earlier life a clean page may go at any time, and reading it again gives the disk's old bytes.
fn walk_again(
    file: &dyn File,
    segment: &SegmentInfo,
    log: LogId,
    tail: &TailFacts,
) -> io::Result<()> {
    let key = Key::new(log, segment.generation, segment.base);
    let from = (tail.vouched.position, tail.vouched.next);
    let end = tail.end.position;
    let mut walker = Walker::with_key(file, key, segment.generation, segment.base, from, end);
    while walker.position() < end {
        if let Step::Stop(error) = walker.step()? {
            let position = walker.position();
            return Err(io::Error::other(format!("byte {position}, read again: {error}")));
        }
    }
    Ok(())
}

/// Writes the end's block and what is zeroed within the window beyond; gives the bytes written.
fn write_window(
    file: &dyn File,
    segment: &SegmentInfo,
    log: LogId,
    tail: &TailFacts,
    at: u64,
    report: &mut RecoveryReport,
) -> io::Result<u64> {
    let end = tail.end.position;
    let last = (end + WINDOW).min(segment.capacity.saturating_sub(HEADER_LEN as u64));
    let window_end = (last + HEADER_LEN as u64).next_multiple_of(BLOCK).min(segment.capacity);
    let offset = |position: u64| usize::try_from(position.saturating_sub(at)).unwrap_or(usize::MAX);
    let mut window = vec![0; offset(window_end.max(at))];
    read_whole(file, at, &mut window)?;
    let (mut positions, mut changed) = (0, Vec::new());
    if !planted::is(Fault::ZeroingLeftOut) {
        let key = Key::new(log, segment.generation, segment.base);
        let valid = |from: usize, bytes: &[u8]| {
            let position = at + from as u64;
            let left = segment.capacity.saturating_sub(position);
            zero::whole_record(bytes, key, position, segment.generation, left)
        };
        (positions, changed) =
            zero::headers(&mut window, offset(end), offset(last), segment.generation, valid);
    }
    report.positions_zeroed += positions;
    let tail_block = 0..BLOCK_LEN.min(window.len());
    let unvouched = tail.vouched.position < end && !planted::is(Fault::TailNotWrittenAgain);
    if is_settling(tail) {
        // Which of it a recovery that was cut off has changed cannot be told.
        changed.clear();
        changed.push(0..window.len());
    } else if unvouched && end > at && changed.first().is_none_or(|first| first.start > 0) {
        changed.insert(0, tail_block);
    }
    let mut written = 0;
    for range in changed {
        file.write_at(at + range.start as u64, &window[range.clone()])?;
        written += range.len() as u64;
    }
    Ok(written)
}

fn read_whole(file: &dyn File, at: u64, into: &mut [u8]) -> io::Result<()> {
    if file.read_at(at, into)? < into.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}
