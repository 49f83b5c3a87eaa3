//! Reads the files of a log and says of each whether it is the log's, and what its header is or has to be.

use super::plan::say;
use super::prove::{Proof, prove};
use super::{LogPlan, Sizes};
use crate::format::checkpoint::Checkpoint;
use crate::format::header::{Header, InUse, Origin};
use crate::format::record::HEADER_LEN;
use crate::format::{
    BLOCK_LEN, CHECKPOINT_POSITION, Key, RECORDS_POSITION, SECTOR_LEN, is_capacity,
};
use crate::fs::{File, FileSystem};
use crate::inspect::cursor::{Cursor, Frame};
use crate::inspect::pieces::{Pieces, take_apart};
use crate::inspect::window::Window;
use crate::recovery::{Judged, Verdict, misplaced};
use crate::types::{LogId, Offset, SizeClass};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A file that is a segment of the log, or was.
pub(super) struct Own {
    pub(super) name: Offset,
    pub(super) path: PathBuf,
    /// Its header, as it is or as it has to be.
    pub(super) header: Header,
    pub(super) in_use: InUse,
    /// The header has to be written.
    pub(super) lost_header: bool,
    /// Its records have to go to a new file, as no header would fit them here.
    pub(super) carry: bool,
    pub(super) frame: Frame,
    pub(super) found: Pieces,
    pub(super) vouched: u64,
    pub(super) len: u64,
}

/// What a file comes to.
pub(super) enum Fate {
    /// A start deals with it.
    Leave,
    Own(Box<Own>),
    /// Nothing in it can be proved to be the log's.
    Drop {
        reason: String,
    },
}

pub(super) struct Weighed {
    pub(super) name: Offset,
    pub(super) path: PathBuf,
    pub(super) len: u64,
    pub(super) fate: Fate,
}

/// Weighs one file. `limit` is the base in the next one's name; `millis` the largest stamp so far.
pub(super) fn weigh(
    fs: &dyn FileSystem,
    judged: &Judged,
    limit: Option<Offset>,
    sizes: Sizes,
    plan: &mut LogPlan,
    millis: &mut u64,
) -> io::Result<Weighed> {
    let (name, path) = (judged.name, judged.path.clone());
    let file = fs.open_read(&path)?;
    let len = file.len()?;
    let fate = match judged.verdict {
        Verdict::BackToPool | Verdict::Remove | Verdict::Refuse => Fate::Leave,
        Verdict::Keep => match judged.header.ok().and_then(|header| Some((header, header.in_use?)))
        {
            Some((header, in_use)) => {
                let key = Key::new(in_use.log, header.generation, in_use.base);
                let frame = Frame { key, generation: header.generation };
                let found = read(&file, frame, header.capacity)?;
                let vouched = vouched(&file, &header, &found)?;
                let empty = found.pieces.iter().all(|piece| piece.count == 0);
                let other = if empty {
                    misplaced(&*file, &header, header.capacity.min(len))?
                } else {
                    None
                };
                if let Some(reason) = other {
                    // A start refuses the log for it, and whose the records are nothing here proves.
                    say(plan, &path, Some(RECORDS_POSITION), Some(name), reason.to_owned());
                    Fate::Drop {
                        reason: "its header is not the one that was written there".to_owned(),
                    }
                } else {
                    let (lost_header, carry) = (false, false);
                    let path = path.clone();
                    Fate::Own(Box::new(Own {
                        name,
                        path,
                        header,
                        in_use,
                        lost_header,
                        carry,
                        frame,
                        found,
                        vouched,
                        len,
                    }))
                }
            }
            None => Fate::Leave,
        },
        Verdict::Corrupt(reason) => {
            let said = match &judged.header {
                Err(error) => format!("header: {error}; {reason}"),
                Ok(_) => reason.to_owned(),
            };
            let position = judged.header.err().map_or(0, |error| error.position());
            say(plan, &path, Some(position), Some(name), said);
            rebuild(&file, judged, limit, sizes, plan, *millis)?
        }
    };
    if let Fate::Own(own) = &fate {
        *millis = (*millis).max(own.in_use.previous_millis);
        let stamps = own.found.pieces.iter().map(|piece| piece.millis_max);
        *millis = stamps.fold(*millis, u64::max);
    }
    Ok(Weighed { name, path, len, fate })
}

fn read(file: &Arc<dyn File>, frame: Frame, capacity: u64) -> io::Result<Pieces> {
    let end = capacity.min(file.len()?);
    take_apart(&mut Cursor::new(Window::new(Arc::clone(file), end), frame), None, None)
}

/// Up to where the file's bytes are known to have been durable.
fn vouched(file: &Arc<dyn File>, header: &Header, found: &Pieces) -> io::Result<u64> {
    let mut block = [0; SECTOR_LEN];
    let read = file.read_at(CHECKPOINT_POSITION, &mut block)?;
    let checkpoint = Checkpoint::parse(&block[..read])
        .filter(|checkpoint| checkpoint.belongs_to(header))
        .map_or(0, |checkpoint| checkpoint.position);
    Ok(found.claim.map_or(0, |(claim, _)| claim).max(checkpoint))
}

/// A header for a file that has lost its own, if something proves what it was.
fn rebuild(
    file: &Arc<dyn File>,
    judged: &Judged,
    limit: Option<Offset>,
    sizes: Sizes,
    plan: &mut LogPlan,
    millis: u64,
) -> io::Result<Fate> {
    let drop = |reason: &str| Ok(Fate::Drop { reason: reason.to_owned() });
    let of_another = judged.header.ok().filter(|header| header.in_use.is_some());
    if of_another.is_some() {
        return drop("it is another log's file");
    }
    let Some(proof) = prove(file, judged.name, plan.id, judged.header.as_ref().ok())? else {
        return drop("nothing in it proves to be this log's");
    };
    let len = file.len()?;
    let whole = is_capacity(len);
    let capacity = if whole { len } else { len.next_multiple_of(BLOCK_LEN as u64) };
    let found = read(file, proof.frame, capacity)?;
    if !belongs(&proof, &found, judged.name, limit, millis) {
        return drop("its records are those of an earlier use of the file");
    }
    // With no header left, the log's identity may be known to no file.
    let log = plan.id.or(proof.log);
    plan.id = log;
    let in_use = InUse {
        log: log.unwrap_or(LogId([0; 16])),
        base: judged.name,
        previous_end: judged.name,
        previous_millis: millis,
        origin: Origin::Repair,
    };
    let by_size = sizes
        .and_then(|sizes| SizeClass::ALL.into_iter().find(|class| sizes.of(*class) == capacity));
    let class = judged.header.map_or(by_size.unwrap_or(SizeClass::Main), |header| header.class);
    let header = Header {
        generation: proof.frame.generation,
        class,
        capacity: if is_capacity(capacity) {
            capacity
        } else {
            RECORDS_POSITION + BLOCK_LEN as u64
        },
        created_millis: 0,
        in_use: Some(in_use),
    };
    let vouched = vouched(file, &header, &found)?;
    let carry = !whole || proof.log.is_none();
    Ok(Fate::Own(Box::new(Own {
        name: judged.name,
        path: judged.path.clone(),
        header,
        in_use,
        lost_header: true,
        carry,
        frame: proof.frame,
        found,
        vouched,
        len,
    })))
}

/// Whether the proved records are those of the file's present use. An earlier use by the same log proves as well, and
/// where the present one has no records it must not come back (I2).
fn belongs(
    proof: &Proof,
    found: &Pieces,
    name: Offset,
    limit: Option<Offset>,
    millis: u64,
) -> bool {
    let first = &found.pieces[0];
    if let Some((position, next)) = proof.checkpoint {
        // It says what offset comes at its position, so it proves the base too.
        let Some(relative) = next.0.checked_sub(name.0) else { return false };
        let most = position.saturating_sub(RECORDS_POSITION) / HEADER_LEN as u64;
        let met = found.pieces.iter().find(|piece| piece.from <= position && position <= piece.to);
        return relative <= most
            && met.is_none_or(|piece| piece.first <= relative && relative <= piece.next());
    }
    let reaches_next = limit.is_some_and(|limit| first.next() == limit.0 - name.0);
    let later =
        found.pieces.iter().find_map(|piece| piece.millis).is_some_and(|(at, _)| at >= millis);
    proof.in_header || reaches_next || later
}
