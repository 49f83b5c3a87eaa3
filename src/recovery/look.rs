//! Gathers and decides without acting: opens nothing for writing, changes no byte.

use super::decide::{self, Verdict};
use super::error::RecoverError;
use super::scan::{self, Gathered, SegmentFile};
use super::tail::{self, Boundary, TailFacts, Walk};
use super::{SegmentInfo, chain};
use crate::error::Damage;
use crate::format::RECORDS_POSITION;
use crate::format::header::{self, HeaderError, Origin};
use crate::fs::FileSystem;
use crate::types::{LogId, Offset};
use std::path::{Path, PathBuf};

/// How often a look starts again because a file vanished or changed under it.
const LOOKS_MAX: u32 = 8;

/// What recovery would do with a trailing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrailingFate {
    /// It was being taken, or is held in reserve by a live log: back to the pool.
    BackToPool,
    /// It has no header and no records: deleted.
    Remove,
}

/// A file behind the log's last segment that is not the log's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trailing {
    /// The file.
    pub path: PathBuf,
    /// The base offset in its name.
    pub base: Offset,
    /// What recovery would do with it.
    pub fate: TrailingFate,
}

/// What a log holds, as far as can be told without changing anything.
#[derive(Clone, Debug)]
pub struct Look {
    /// The log's identity; `None` if it has no segment.
    pub id: Option<LogId>,
    /// The segments, oldest first; of a damaged log, those up to the damage.
    pub segments: Vec<SegmentInfo>,
    /// The end of the last of them.
    pub tail: Option<TailFacts>,
    /// Damage to bytes that were durable. Recovery changes nothing then.
    pub damage: Option<Damage>,
    /// Files behind the last segment that recovery would give up, in the order of their names.
    pub trailing: Vec<Trailing>,
    /// Temporary files that recovery would delete.
    pub temporary: Vec<PathBuf>,
    /// Bytes read.
    pub bytes_read: u64,
}

impl Look {
    /// The end of what is readable.
    #[must_use]
    pub fn end(&self) -> Boundary {
        let nothing = Boundary { position: RECORDS_POSITION, next: Offset::ZERO, millis: 0 };
        self.tail.map_or(nothing, |tail| tail.end)
    }
}

/// Looks at the log in `dir`. For a live log the end is that of some moment during the call. Blocks on reads.
///
/// # Errors
/// [`RecoverError`]: the directory cannot be read, holds what it should not, or was written by a newer release. Damage
/// is no error; it is in [`Look::damage`].
pub fn look(fs: &dyn FileSystem, dir: &Path) -> Result<Look, RecoverError> {
    let mut seen = None;
    let mut looks = 0;
    loop {
        looks += 1;
        let again = looks < LOOKS_MAX;
        match look_once(fs, dir) {
            // Gone between listing and opening: its log has freed it.
            Err(error) if error.is_gone() && again => {}
            // A file may be given up and begin another use while it is read, which looks like damage, but not twice.
            Ok(look) if look.damage.is_some() && look.damage != seen && again => seen = look.damage,
            answer => return answer,
        }
    }
}

/// One look, for a log that nobody else changes.
pub(super) fn look_once(fs: &dyn FileSystem, dir: &Path) -> Result<Look, RecoverError> {
    let mut gathered = scan::gather(fs, dir)?;
    let mut bytes_read = gathered.bytes_read;
    let verdicts = verdicts(fs, &gathered, &mut bytes_read)?;
    let (segments, trailing, damage) = line_up(&mut gathered, &verdicts);
    let mut look = Look {
        id: gathered.log.filter(|_| !segments.is_empty()),
        segments,
        tail: None,
        damage,
        trailing,
        temporary: gathered.temporary,
        bytes_read,
    };
    mark_failed(&mut look.segments);
    let (Some(last), Some(log)) = (look.segments.last(), look.id) else { return Ok(look) };
    // The name of a file whose header is lost still says where the segment before it ends at most. What stands beyond
    // in that one may be of a branch that a heal cut off, and must not come back (I2).
    let after_last = gathered.files.get(look.segments.len());
    let until = look.damage.as_ref().and(after_last).map(|file| file.name);
    let file = fs.open_read(&last.path).map_err(RecoverError::io("opening", &last.path, 0))?;
    let tail = tail::scan(&*file, last, log, Walk { until, whole: false })?;
    if look.damage.is_none() {
        look.damage = tail_damage(last, &tail);
    }
    look.bytes_read += tail.bytes_read;
    look.tail = Some(tail);
    Ok(look)
}

/// A file of a log and what recovery makes of it.
#[derive(Debug)]
pub(crate) struct Judged {
    /// The base offset in its name.
    pub(crate) name: Offset,
    pub(crate) path: PathBuf,
    pub(crate) header: Result<header::Header, HeaderError>,
    pub(crate) verdict: Verdict,
}

impl Judged {
    /// What is wrong with the file by itself, in the log of this identity.
    pub(crate) fn damage(&self, log: Option<LogId>) -> Option<Damage> {
        let Verdict::Corrupt(reason) = self.verdict else { return None };
        let file = SegmentFile { name: self.name, path: self.path.clone(), header: self.header };
        let (position, detail) = describe(&file, log, reason);
        Some(damage(&file, position, detail))
    }
}

/// Judges each file of a log by itself, for repair, which goes on behind damage. `log` is the log's identity, where the
/// caller knows better than its oldest file; gives the identity by which was judged.
pub(crate) fn judge(
    fs: &dyn FileSystem,
    dir: &Path,
    log: Option<LogId>,
) -> Result<(Vec<Judged>, Option<LogId>), RecoverError> {
    let mut gathered = scan::gather(fs, dir)?;
    gathered.log = log.or(gathered.log);
    let verdicts = verdicts(fs, &gathered, &mut 0)?;
    let judged = gathered.files.into_iter().zip(verdicts).map(|(file, verdict)| {
        let SegmentFile { name, path, header } = file;
        Judged { name, path, header, verdict }
    });
    Ok((judged.collect(), gathered.log))
}

/// The damage at the end of `segment`, if the end is that.
pub(super) fn tail_damage(segment: &SegmentInfo, tail: &TailFacts) -> Option<Damage> {
    let reason = tail.damage?;
    let found = tail.stop.map_or_else(String::new, |stop| format!("{stop}; "));
    let proof = match (tail.beyond.claim, tail.checkpoint) {
        (Some(claim), _) => {
            format!(" (record at byte {}, durable below {})", claim.position, claim.durable)
        }
        (None, Some(checkpoint)) => format!(" (durable below {})", checkpoint.position),
        (None, None) => String::new(),
    };
    Some(Damage {
        file: segment.path.clone(),
        position: tail.end.position,
        offset: Some(tail.end.next),
        detail: format!("{found}{reason}{proof}").into(),
    })
}

/// Judges every file, the last one first: whether a file is trailing depends on what becomes of those after it.
fn verdicts(
    fs: &dyn FileSystem,
    gathered: &Gathered,
    bytes_read: &mut u64,
) -> Result<Vec<Verdict>, RecoverError> {
    let mut verdicts = Vec::with_capacity(gathered.files.len());
    let mut trailing = true;
    for file in gathered.files.iter().rev() {
        let facts = scan::facts(fs, file, gathered.log, trailing, bytes_read)?;
        let (_, verdict) = decide::file(&facts);
        trailing &= matches!(verdict, Verdict::BackToPool | Verdict::Remove);
        verdicts.push(verdict);
    }
    verdicts.reverse();
    Ok(verdicts)
}

/// Goes through the files, oldest first, until one is damaged or does not fit the one before.
fn line_up(
    gathered: &mut Gathered,
    verdicts: &[Verdict],
) -> (Vec<SegmentInfo>, Vec<Trailing>, Option<Damage>) {
    let mut segments: Vec<SegmentInfo> = Vec::new();
    let mut trailing: Vec<Trailing> = Vec::new();
    for (file, verdict) in gathered.files.iter().zip(verdicts) {
        let fate = match verdict {
            Verdict::Keep => {
                let in_use =
                    file.header.as_ref().ok().and_then(|header| Some((header, header.in_use?)));
                let Some((header, in_use)) = in_use else { continue };
                let info = SegmentInfo::new(header, &in_use, &file.path);
                if let Some(Err(misfit)) = segments.last().map(|last| chain::check(last, &info)) {
                    return (
                        segments,
                        Vec::new(),
                        Some(damage(file, misfit.position, misfit.detail)),
                    );
                }
                segments.push(info);
                continue;
            }
            Verdict::Corrupt(reason) => {
                let (position, detail) = describe(file, gathered.log, reason);
                return (segments, Vec::new(), Some(damage(file, position, detail)));
            }
            // Told apart while gathering: such a log is refused as a whole.
            Verdict::Refuse => continue,
            Verdict::BackToPool => TrailingFate::BackToPool,
            Verdict::Remove => TrailingFate::Remove,
        };
        trailing.push(Trailing { path: file.path.clone(), base: file.name, fate });
    }
    // A log's next offset is in the header of its last file, which is durable before any other goes. If nothing but
    // files in the taking is left, and they do not begin at 0, that header is lost, and starting again at 0 would give
    // confirmed offsets a second time (I8).
    let lost = trailing.first().filter(|first| segments.is_empty() && first.base != Offset::ZERO);
    if let Some(file) =
        lost.and_then(|lost| gathered.files.iter().find(|file| file.name == lost.base))
    {
        let detail = format!(
            "no segment is left, and this file's name (base offset {}) says that there were some",
            file.name
        );
        return (segments, Vec::new(), Some(damage(file, 0, detail)));
    }
    (segments, trailing, None)
}

fn damage(file: &SegmentFile, position: u64, detail: String) -> Damage {
    Damage { file: file.path.clone(), position, offset: Some(file.name), detail: detail.into() }
}

/// Where a header is wrong, and what it says. A header that is whole but of another use was lost as a whole.
fn describe(file: &SegmentFile, log: Option<LogId>, reason: &'static str) -> (u64, String) {
    let in_use = match &file.header {
        Err(error) => return (error_position(error), format!("{error}; {reason}")),
        Ok(header) => header.in_use,
    };
    match (in_use, log) {
        (None, _) => (0, format!("state (offset 10): found spare, expected in use; {reason}")),
        (Some(found), Some(log)) if found.base == file.name => {
            (64, format!("log identity (offset 64): found {}, expected {log}; {reason}", found.log))
        }
        (Some(found), _) => {
            let (found, expected) = (found.base, file.name);
            (0, format!("base offset (offset 40): found {found}, expected {expected}; {reason}"))
        }
    }
}

/// Where in the file the first wrong field of a header stands.
const fn error_position(error: &HeaderError) -> u64 {
    match error {
        HeaderError::Short(_) | HeaderError::Zero | HeaderError::Magic(_) => 0,
        HeaderError::Newer(_) => 8,
        HeaderError::Crc { .. } => header::CRC_AT as u64,
        HeaderError::Field { at, .. } => *at,
    }
}

/// A heal's file says that a write of the file before it failed, so that one is never used again.
fn mark_failed(segments: &mut [SegmentInfo]) {
    for at in 1..segments.len() {
        segments[at - 1].failed = segments[at].origin == Origin::Heal;
    }
}
