//! Lines the log's files up as they are to be, and lays down the steps that lead there. No I/O.

use super::plan::say;
use super::weigh::{Fate, Own, Weighed};
use super::{Carried, LogPlan, NewSegment, Sizes, Step};
use crate::format::header::{Header, InUse, Origin};
use crate::format::layout;
use crate::format::record::HEADER_LEN;
use crate::format::{NO_BASE, RECORDS_POSITION};
use crate::inspect::Gap;
use crate::inspect::pieces::Piece;
use crate::types::{Offset, SizeClass};
use std::path::PathBuf;

/// The last offset that can be a base.
const OFFSET_MAX: Offset = Offset(NO_BASE - 1);

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

/// The chain in the making.
pub(super) struct Chain<'a> {
    plan: &'a mut LogPlan,
    sizes: Sizes,
    elements: Vec<Element>,
    keep: Vec<PathBuf>,
    remove: Vec<PathBuf>,
    remove_first: Vec<PathBuf>,
    /// The end of the log before the first element, where files were dropped before it.
    begin: Option<Offset>,
}

impl<'a> Chain<'a> {
    pub(super) fn new(plan: &'a mut LogPlan, sizes: Sizes) -> Self {
        let (keep, remove, remove_first) = (Vec::new(), Vec::new(), Vec::new());
        Self { plan, sizes, elements: Vec::new(), keep, remove, remove_first, begin: None }
    }

    pub(super) fn build(mut self, files: &[Weighed]) {
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
        } else {
            self.clear_the_way(files);
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
                self.remove_first.push(file.path.clone());
            }
        }
        self.empty(last.name, None);
        self.begin = Some(last.name);
    }

    /// A file in the taking is the start's to deal with only while it is behind the last segment. In front of a new one
    /// it would be damage, so it goes before that is made.
    fn clear_the_way(&mut self, files: &[Weighed]) {
        let Some(last) = self.elements.last().map(|element| element.base) else { return };
        for file in files.iter().filter(|file| matches!(file.fate, Fate::Leave)) {
            if file.name <= last {
                self.keep.push(file.path.clone());
            }
            if file.name < last {
                self.remove_first.push(file.path.clone());
            }
        }
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
        let (class, capacity) = self.size_for(own, piece.to - piece.from);
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

    /// The smallest class that holds the records: a file with many damages must not cost its size for each of them.
    fn size_for(&self, own: &Own, bytes: u64) -> (SizeClass, u64) {
        let needed = RECORDS_POSITION + bytes;
        let of_layout = self.sizes.and_then(|sizes| {
            let fits = |class: &SizeClass| sizes.of(*class) >= needed;
            SizeClass::ALL.into_iter().find(fits).map(|class| (class, sizes.of(class)))
        });
        of_layout.unwrap_or((own.header.class, own.header.capacity))
    }

    /// A new last segment without records.
    fn empty(&mut self, base: Offset, like: Option<&Own>) {
        let tiny = self.sizes.map(|sizes| (SizeClass::Tiny, sizes.tiny));
        let (class, capacity) = tiny
            .or(like.map(|own| (own.header.class, own.header.capacity)))
            .unwrap_or((SizeClass::Tiny, layout::TINY_MIN));
        let previous_millis = like.map_or(0, |own| own.in_use.previous_millis);
        let base = base.min(OFFSET_MAX);
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
        steps.extend(self.remove_first.into_iter().map(|path| Step::Remove { path }));
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
