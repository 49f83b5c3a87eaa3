//! Reads a log's files and decides what is to become of each. Changes nothing.

use super::prove::{Proof, prove};
use super::{Carried, LogPlan, NewSegment, Plan, RepairError, Sizes, Step};
use crate::error::{DiskContext, DiskError};
use crate::format::checkpoint::Checkpoint;
use crate::format::header::{Header, InUse, Origin};
use crate::format::layout::{self, LayoutError};
use crate::format::name::LogName;
use crate::format::record::HEADER_LEN;
use crate::format::{
    BLOCK_LEN, CHECKPOINT_POSITION, Key, RECORDS_POSITION, SECTOR_LEN, is_capacity,
};
use crate::fs::{File, FileSystem};
use crate::inspect::cursor::{Cursor, Frame};
use crate::inspect::pieces::{Piece, Pieces, take_apart};
use crate::inspect::tree::find_logs;
use crate::inspect::window::Window;
use crate::inspect::{Finding, Gap, Outcome};
use crate::recovery::{Judged, RecoverError, Verdict, judge};
use crate::types::{LogId, Offset, SizeClass};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) fn plan(
    fs: &dyn FileSystem,
    dir: &Path,
    log: Option<&LogName>,
) -> Result<Plan, RepairError> {
    let (sizes, layout) = read_layout(fs, dir)?;
    let logs = dir.join("logs");
    let mut names = Vec::new();
    match log {
        Some(log) => {
            let path = log.dir(&logs);
            match fs.metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(RepairError::Missing(log.clone()));
                }
                other => drop(other.disk("look at", &path)?),
            }
            names.push((log.as_str().to_owned(), path));
        }
        None => {
            let mut findings = Vec::new();
            let found = find_logs(fs, &logs, &mut findings);
            // A log that is not seen is not a good one.
            let unseen = |finding: &Finding| finding.outcome != Outcome::Foreign;
            if let Some(finding) = findings.into_iter().find(unseen) {
                return Err(RepairError::Unreadable(finding));
            }
            names.extend(found.into_iter().map(|log| (log.name, log.path)));
        }
    }
    let mut plan = Plan { layout, logs: Vec::new() };
    for (name, path) in names {
        let log = plan_log(fs, name, &path, sizes)?;
        if !log.steps.is_empty() || log.refused.is_some() {
            plan.logs.push(log);
        }
    }
    Ok(plan)
}

pub(super) fn read_layout(
    fs: &dyn FileSystem,
    dir: &Path,
) -> Result<(Sizes, Option<LayoutError>), DiskError> {
    let path = dir.join("LAYOUT");
    let mut text = vec![0; BLOCK_LEN];
    let read = match fs.open_read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, None)),
        other => other.disk("open", &path)?.read_at(0, &mut text).disk("read", &path)?,
    };
    Ok(match layout::parse(&text[..read]) {
        Ok(sizes) => (Some(sizes), None),
        // What the next start makes again, and what this release must leave alone.
        Err(LayoutError::Empty | LayoutError::Newer(_)) => (None, None),
        Err(error) => (None, Some(error)),
    })
}

/// A file that is a segment of the log, or was.
struct Own {
    name: Offset,
    path: PathBuf,
    /// Its header, as it is or as it has to be.
    header: Header,
    in_use: InUse,
    /// The header has to be written.
    lost_header: bool,
    /// Its records have to go to a new file, as no header would fit them here.
    carry: bool,
    frame: Frame,
    found: Pieces,
    vouched: u64,
    len: u64,
}

/// What a file comes to.
enum Fate {
    /// A start deals with it.
    Leave,
    Own(Box<Own>),
    /// Nothing in it can be proved to be the log's.
    Drop {
        reason: String,
    },
}

struct Weighed {
    name: Offset,
    path: PathBuf,
    len: u64,
    fate: Fate,
}

pub(super) fn plan_log(
    fs: &dyn FileSystem,
    log: String,
    dir: &Path,
    sizes: Sizes,
) -> Result<LogPlan, RepairError> {
    let (damage, lost, steps) = (Vec::new(), Vec::new(), Vec::new());
    let dir = dir.to_path_buf();
    let mut plan = LogPlan { log, dir, damage, lost, steps, refused: None, id: None };
    let (files, id) = match judge_by_most(fs, &plan.dir) {
        Ok(judged) => judged,
        Err(
            error @ (RecoverError::Link { .. }
            | RecoverError::Foreign { .. }
            | RecoverError::Newer { .. }),
        ) => {
            plan.refused = Some(error.to_string());
            return Ok(plan);
        }
        Err(error) => return Err(error.into()),
    };
    plan.id = id;
    let mut weighed = Vec::new();
    let mut millis = 0;
    for at in 0..files.len() {
        let file = &files[at];
        let limit = files.get(at + 1).map(|next| next.name);
        if let Some(reason) = misnamed(file, id) {
            plan.refused = Some(reason);
            return Ok(plan);
        }
        let weighed_file =
            weigh(fs, file, limit, sizes, &mut plan, &mut millis).disk("read", &file.path)?;
        weighed.push(weighed_file);
    }
    Chain::new(&mut plan, sizes).build(&weighed);
    Ok(plan)
}

/// Judges by the identity that most files of the log have: the oldest may be the stranger.
fn judge_by_most(
    fs: &dyn FileSystem,
    dir: &Path,
) -> Result<(Vec<Judged>, Option<LogId>), RecoverError> {
    let (files, oldest) = judge(fs, dir, None)?;
    let mut counts: BTreeMap<LogId, usize> = BTreeMap::new();
    for file in &files {
        let in_use = file.header.ok().and_then(|header| header.in_use);
        if let Some(in_use) = in_use.filter(|in_use| in_use.base == file.name) {
            *counts.entry(in_use.log).or_default() += 1;
        }
    }
    let most = counts.values().max().copied();
    let by_oldest = oldest.is_some_and(|oldest| counts.get(&oldest).copied() == most);
    match counts.into_iter().find(|(_, count)| Some(*count) == most) {
        Some((id, _)) if !by_oldest => judge(fs, dir, Some(id)),
        _ => Ok((files, oldest)),
    }
}

/// A file whose valid header says that it is another segment of this log: whoever renamed it has to say why.
fn misnamed(file: &Judged, id: Option<LogId>) -> Option<String> {
    let in_use = file.header.ok()?.in_use?;
    let ours = in_use.base != file.name && Some(in_use.log) == id;
    (ours && matches!(file.verdict, Verdict::Corrupt(_))).then(|| {
        format!(
            "{} is this log's segment {} by its header: give it that name, or take it away if there is one already",
            file.path.display(),
            in_use.base,
        )
    })
}

fn weigh(
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
                let key = Key::new(in_use.log, header.generation);
                let frame = Frame { key, generation: header.generation };
                let found = read(&file, frame, header.capacity)?;
                let vouched = vouched(&file, &header, &found)?;
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

fn say(
    plan: &mut LogPlan,
    path: &Path,
    position: Option<u64>,
    offset: Option<Offset>,
    detail: String,
) {
    let (outcome, file) = (Outcome::Damaged, path.to_path_buf());
    plan.damage.push(Finding { outcome, file, position, offset, detail });
}

fn read(file: &Arc<dyn File>, frame: Frame, capacity: u64) -> io::Result<Pieces> {
    let end = capacity.min(file.len()?);
    take_apart(&mut Cursor::new(Window::new(Arc::clone(file), end), frame), None)
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
    let Some(proof) = prove(file, plan.id, judged.header.as_ref().ok())? else {
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

/// A segment of the log as it is to be.
struct Element {
    base: Offset,
    end: Offset,
    kind: Kind,
}

enum Kind {
    /// A file that stays, with its header written again if the flag is set.
    Stays { path: PathBuf, header: Header, in_use: InUse, write: bool },
    /// A new file.
    New { class: SizeClass, capacity: u64, previous_millis: u64, records: Option<Carried> },
}

struct Chain<'a> {
    plan: &'a mut LogPlan,
    sizes: Sizes,
    elements: Vec<Element>,
    keep: Vec<PathBuf>,
    remove: Vec<PathBuf>,
    /// The end of the log before the first element, where files were dropped before it.
    begin: Option<Offset>,
}

impl<'a> Chain<'a> {
    fn new(plan: &'a mut LogPlan, sizes: Sizes) -> Self {
        let (elements, keep, remove) = (Vec::new(), Vec::new(), Vec::new());
        Self { plan, sizes, elements, keep, remove, begin: None }
    }

    fn build(mut self, files: &[Weighed]) {
        let is_left = |file: &&Weighed| matches!(file.fate, Fate::Leave);
        let counted: Vec<&Weighed> = files.iter().filter(|file| !is_left(file)).collect();
        for (at, file) in counted.iter().enumerate() {
            let next = counted.get(at + 1).copied();
            match &file.fate {
                Fate::Own(own) => self.own(own, next),
                Fate::Drop { reason } => self.drop(file, reason, next.is_none()),
                Fate::Leave => {}
            }
        }
        if counted.is_empty() {
            self.nothing_left(files);
        }
        self.link();
    }

    /// The files of a log that has none left but some in the taking: the log's next offset is at least in their names.
    fn nothing_left(&mut self, files: &[Weighed]) {
        let Some(last) = files.last().filter(|_| files[0].name != Offset::ZERO) else { return };
        let detail = "no segment is left, and the names of these files say that there were some";
        let begin = files[0].name;
        say(self.plan, &files[0].path, Some(0), Some(begin), detail.to_owned());
        for file in files {
            self.keep.push(file.path.clone());
            if file.name != last.name {
                self.remove.push(file.path.clone());
            }
        }
        self.empty(last.name, None);
        self.begin = Some(last.name);
    }

    fn own(&mut self, own: &Own, next: Option<&Weighed>) {
        let base = own.name;
        let limit = next.map(|next| limit(own, next));
        let pieces = &own.found.pieces;
        let cut = limit.map(|limit| limit.0.saturating_sub(base.0));
        // Of the last segment, what is behind the end was never confirmed; of others, nothing counts behind their end.
        let end = own.found.end(own.vouched, cut);
        let last = end.unwrap_or(pieces.len() - 1);
        let short = next.is_none() && own.len < own.header.capacity;
        let clip = |piece: &Piece| {
            cut.map_or(piece.count, |cut| piece.count.min(cut.saturating_sub(piece.first)))
        };
        let mut damaged = own.lost_header;
        let mut reached = base;
        for (at, piece) in pieces[..=last].iter().enumerate() {
            let count = clip(piece);
            if at > 0 && count == 0 {
                continue;
            }
            if at > 0 {
                let before = &pieces[at - 1];
                let offset = Some(base.plus(before.next()));
                say(self.plan, &own.path, Some(before.to), offset, before.stop.to_string());
                damaged = true;
            }
            let end = base.plus(piece.first + count);
            if at == 0 && !own.carry {
                let (path, header, in_use) = (own.path.clone(), own.header, own.in_use);
                let kind = Kind::Stays { path, header, in_use, write: own.lost_header };
                self.elements.push(Element { base, end, kind });
            } else if count > 0 {
                let kind = self.carried(own, piece, count);
                self.elements.push(Element { base: base.plus(piece.first), end, kind });
            }
            reached = end;
        }
        if own.carry {
            // A new file of the same name takes its place by its rename; without one it is removed.
            if !self.elements.iter().any(|element| element.base == base) {
                self.remove.push(own.path.clone());
            }
        }
        if end.is_none() || short {
            let piece = &pieces[last];
            if limit.is_none_or(|limit| reached < limit) {
                let position = if end.is_none() { piece.to } else { own.len };
                let detail = if short && end.is_some() {
                    format!("the file ends here, its header says {} bytes", own.header.capacity)
                } else {
                    format!("{}; more was durable", piece.stop)
                };
                say(self.plan, &own.path, Some(position), Some(reached), detail);
                damaged = true;
            }
            if next.is_none() {
                // What was confirmed behind the damage nobody knows; it was no more than the file can hold.
                let most = own.header.capacity.saturating_sub(piece.to) / HEADER_LEN as u64;
                self.empty(reached.plus(most.max(1)), Some(own));
            }
        }
        if damaged {
            self.keep.push(own.path.clone());
        }
    }

    fn carried(&self, own: &Own, piece: &Piece, count: u64) -> Kind {
        let (class, capacity) = self.size_of(own);
        let records = Carried {
            from: own.path.clone(),
            position: piece.from,
            count,
            frame: own.frame,
            relative: piece.first,
        };
        Kind::New {
            class,
            capacity,
            previous_millis: own.in_use.previous_millis,
            records: Some(records),
        }
    }

    /// A size that holds all that the file held.
    fn size_of(&self, own: &Own) -> (SizeClass, u64) {
        let capacity = own.header.capacity;
        let of_layout = self.sizes.and_then(|sizes| {
            SizeClass::ALL
                .into_iter()
                .find(|class| sizes.of(*class) >= capacity)
                .map(|class| (class, sizes.of(class)))
        });
        of_layout.unwrap_or((own.header.class, capacity))
    }

    /// A new last segment without records.
    fn empty(&mut self, base: Offset, like: Option<&Own>) {
        let tiny = self.sizes.map(|sizes| (SizeClass::Tiny, sizes.tiny));
        let (class, capacity) = tiny
            .or(like.map(|own| (own.header.class, own.header.capacity)))
            .unwrap_or((SizeClass::Tiny, layout::TINY_MIN));
        let previous_millis = like.map_or(0, |own| own.in_use.previous_millis);
        let kind = Kind::New { class, capacity, previous_millis, records: None };
        self.elements.push(Element { base, end: base, kind });
    }

    fn drop(&mut self, file: &Weighed, reason: &str, last: bool) {
        let offset = Some(file.name);
        say(self.plan, &file.path, None, offset, format!("the whole file is lost: {reason}"));
        self.keep.push(file.path.clone());
        if self.elements.is_empty() {
            self.begin = Some(self.begin.map_or(file.name, |begin| begin.min(file.name)));
        }
        let mut replaced = false;
        if last {
            let most = file.len.saturating_sub(RECORDS_POSITION) / HEADER_LEN as u64;
            replaced = most == 0;
            self.empty(file.name.plus(most), None);
        }
        if !replaced {
            self.remove.push(file.path.clone());
        }
    }

    /// Lets each header say where the segment before it ends, and lays down the order of the steps.
    fn link(self) {
        let mut end = self.begin;
        let mut millis = 0;
        let mut writes = Vec::new();
        let first = self.elements.first().map(|element| element.base);
        for element in self.elements {
            let (base, is_first) = (element.base, Some(element.base) == first);
            let previous_end = end.map_or(base, |end| end.min(base));
            let declare = |plan: &mut LogPlan| {
                if previous_end < base {
                    plan.lost.push(Gap { from: previous_end, to: base });
                }
            };
            match element.kind {
                Kind::Stays { path, mut header, mut in_use, write } => {
                    millis = millis.max(in_use.previous_millis);
                    // Of the first segment nobody asks; what it says may be of a segment that was truncated.
                    let asked = !is_first || self.begin.is_some();
                    let wrong = asked && in_use.previous_end != previous_end;
                    if wrong && !write {
                        let found = in_use.previous_end;
                        let detail = format!(
                            "previous end: found {found}, the segment before ends at {previous_end}"
                        );
                        say(self.plan, &path, Some(48), Some(previous_end), detail);
                    }
                    if write || wrong {
                        if asked || write {
                            in_use.previous_end = previous_end;
                        }
                        in_use.origin = Origin::Repair;
                        header.in_use = Some(in_use);
                        declare(self.plan);
                        writes.push(Step::Header { path: path.clone(), header });
                        if !write {
                            self.plan.steps.push(Step::Keep { path });
                        }
                    }
                }
                Kind::New { class, capacity, previous_millis, records } => {
                    millis = millis.max(previous_millis);
                    let previous_millis = millis;
                    declare(self.plan);
                    writes.push(Step::NewSegment(NewSegment {
                        base,
                        previous_end,
                        previous_millis,
                        class,
                        capacity,
                        records,
                    }));
                }
            }
            end = Some(element.end);
        }
        let steps = &mut self.plan.steps;
        for path in self.keep {
            if !steps.contains(&Step::Keep { path: path.clone() }) {
                steps.push(Step::Keep { path });
            }
        }
        // From the end to the front: what is right of a gap is complete before the gap is declared.
        steps.extend(writes.into_iter().rev());
        steps.extend(self.remove.into_iter().map(|path| Step::Remove { path }));
        if !steps.iter().any(|step| !matches!(step, Step::Keep { .. })) {
            steps.clear();
        }
    }
}

/// Where `own` ends at most: where the next file says, or where it begins.
fn limit(own: &Own, next: &Weighed) -> Offset {
    match &next.fate {
        Fate::Own(next) if !next.lost_header && next.in_use.previous_end >= own.name => {
            next.in_use.previous_end.min(next.name)
        }
        _ => next.name,
    }
}
