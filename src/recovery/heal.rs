//! Takes a log on in another file when its last one can no longer be written.

use super::tail::TailFacts;
use super::{Context, SegmentInfo, Tail};
use crate::format::header::{Header, InUse, Origin};
use crate::format::name::segment_file;
use crate::format::record::{self, RecordHeader};
use crate::format::{Key, RECORDS_POSITION};
use crate::fs::{FileSystem, Write};
use crate::planted::{self, Fault};
use crate::segment::{Reuse, Spare, Step, Walker, Want, install, rename_in};
use crate::types::{LogId, Offset, WriteClass};
use std::io;
use std::path::Path;

/// The file that a log goes on in.
pub(super) struct Healed {
    pub(super) segment: SegmentInfo,
    pub(super) tail: Tail,
    pub(super) bytes_written: u64,
}

/// Records of the failed file encoded for the new one.
struct Carried {
    bytes: Vec<u8>,
    next: Offset,
    millis: u64,
}

/// Puts a new file behind the vouched end of `failed` and carries the records beyond it over: they may have been
/// confirmed, though nothing says so any more.
///
/// Where nothing in the failed file is vouched for, the new one takes its name, by one rename and with its header
/// durable, so that the log's next offset is never without a file that says it (I8) [R].
pub(super) fn heal(
    ctx: &Context<'_>,
    dir: &Path,
    log: LogId,
    failed: &SegmentInfo,
    tail: &TailFacts,
) -> io::Result<Healed> {
    let base = tail.vouched.next;
    let room = tail.end.position - tail.vouched.position;
    let want = Want { class: failed.class, room, purpose: WriteClass::Recovery, dir };
    let spare = ctx.source.take(&want)?;
    // Read before anything is installed. After a failed sync the page cache may have the new bytes or the old; each
    // record proves itself, and one that was confirmed is in both.
    let carried = match carry(ctx.fs, log, failed, tail, &spare, base) {
        Ok(carried) => carried,
        Err(error) => {
            ctx.source.give_back(spare);
            return Err(error);
        }
    };
    let in_use = if base == failed.base {
        // It takes the failed file's place, and with it what that one's header says of the segment before: a gap that a
        // repair declared would else be damage at the next start.
        InUse {
            log,
            base,
            previous_end: failed.previous_end,
            previous_millis: failed.previous_millis,
            origin: failed.origin,
        }
    } else {
        InUse {
            log,
            base,
            previous_end: base,
            previous_millis: tail.vouched.millis,
            origin: Origin::Heal,
        }
    };
    let header = Header {
        generation: spare.generation,
        class: spare.class,
        capacity: spare.capacity,
        created_millis: ctx.clock.unix_millis(),
        in_use: Some(in_use),
    };
    let writes = [Write { position: RECORDS_POSITION, bytes: &carried.bytes }];
    let name = segment_file(base);
    let spares = ctx.source.spares_dir();
    let rename = |to: &Path| rename_in(ctx.fs, ctx.source, &spare, to);
    let path = match install(ctx.fs, &spare, &header, &writes, [dir, spares], &name, rename) {
        Ok(path) => path,
        Err(error) => {
            if error.raw_os_error() == Some(libc::EXDEV) {
                ctx.source.cannot_rename_into(dir);
            }
            // It may have been written, so it is no spare any more. If it was renamed already this finds nothing, and
            // the next recovery finds a segment like any other.
            let _ =
                ctx.source.give_up(&spare.path, Reuse::Never).map(|gone| ctx.source.given_up(gone));
            return Err(error);
        }
    };
    let tail = Tail::Open {
        position: RECORDS_POSITION + carried.bytes.len() as u64,
        next: carried.next,
        millis: carried.millis,
    };
    let segment = SegmentInfo::new(&header, &in_use, &path);
    let bytes_written = carried.bytes.len() as u64 + crate::format::BLOCK_LEN as u64;
    Ok(Healed { segment, tail, bytes_written })
}

/// Encodes the records between the vouched place and the end at their positions in the new file. Bounded by the window
/// and one record, as no record starts further past what is vouched for.
fn carry(
    fs: &dyn FileSystem,
    log: LogId,
    failed: &SegmentInfo,
    tail: &TailFacts,
    spare: &Spare,
    base: Offset,
) -> io::Result<Carried> {
    let file = fs.open_read(&failed.path)?;
    let from = (tail.vouched.position, tail.vouched.next);
    let key = Key::new(log, failed.generation, failed.base);
    let end = tail.end.position;
    let mut walker = Walker::with_key(&*file, key, failed.generation, failed.base, from, end);
    let new_key = Key::new(log, spare.generation, base);
    let mut carried = Carried { bytes: Vec::new(), next: base, millis: tail.vouched.millis };
    while let Step::Record(found) = walker.step()? {
        if planted::is(Fault::HealAtOpenCarriesNothing) {
            break;
        }
        let at = carried.bytes.len();
        let position = RECORDS_POSITION + at as u64;
        let header = RecordHeader {
            generation: spare.generation,
            // All of it becomes durable with one sync, so none of it vouches for any other.
            unsynced: u32::try_from(at).map_err(io::Error::other)?,
            relative: u32::try_from(found.offset.0 - base.0).map_err(io::Error::other)?,
            ..found.header
        };
        let len = usize::try_from(header.record_len()).map_err(io::Error::other)?;
        carried.bytes.resize(at + len, 0);
        let out = &mut carried.bytes[at..];
        record::encode(out, new_key, position, &header, found.headers, found.payload);
        carried.next = found.offset.plus(1);
        carried.millis = carried.millis.max(found.header.millis);
    }
    if RECORDS_POSITION + carried.bytes.len() as u64 > spare.capacity {
        return Err(io::Error::other("the records do not fit the new file"));
    }
    Ok(carried)
}
