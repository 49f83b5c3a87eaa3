//! One log: its files in order, how they hang together, and what a start would make of it.

use super::outcome::{Finding, Outcome};
use super::report::SegmentReport;
use super::segment::{Extent, examine, read_header};
use super::tree::{finding, refused, special};
use crate::error::Damage;
use crate::format::RECORDS_POSITION;
use crate::format::header::{Header, HeaderError};
use crate::format::name::parse_segment_file;
use crate::fs::{FileKind, FileSystem};
use crate::recovery::{self, Look, RecoverError, TrailingFate, Verdict};
use crate::types::{LogId, Offset};
use std::io;
use std::path::{Path, PathBuf};

/// How far to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Headers, and the end of the last segment, as a start does. Reads little, whatever the log's length.
    Ends,
    /// All records of all segments.
    Records,
}

/// What a file in a log's directory is to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A segment of the log.
    Segment,
    /// Behind the last segment: it was being taken, or is held ready by a running node. A start gives it to the spares.
    BackToPool,
    /// Behind the last segment, without a header or records. A start deletes it.
    Remove,
    /// It comes after the damage, or is itself the damage.
    BehindDamage,
    /// The log as a whole is refused: see the findings.
    Unknown,
}

impl Role {
    /// The name as tools print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Segment => "segment",
            Self::BackToPool => "to the spares",
            Self::Remove => "to be removed",
            Self::BehindDamage => "behind damage",
            Self::Unknown => "unknown",
        }
    }
}

/// A file of a log.
#[derive(Clone, Debug)]
pub struct SegmentEntry {
    /// The file.
    pub path: PathBuf,
    /// The base offset in its name.
    pub base: Offset,
    /// What it is to the log.
    pub role: Role,
    /// Its header, or what is wrong with it; `None` if it cannot be read at all.
    pub header: Option<Result<Header, HeaderError>>,
    /// Its length in bytes.
    pub file_len: u64,
    /// What it takes on the disk.
    pub disk_bytes: u64,
    /// The offset at which it ends: where the next segment says so, or for the last one where its records stop.
    pub end: Option<Offset>,
    /// Whether the next segment says so.
    pub sealed: bool,
    /// Everything about it; with [`Depth::Records`] only.
    pub report: Option<Box<SegmentReport>>,
}

/// Offsets that a repair declared lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The first lost one.
    pub from: Offset,
    /// The first one that is there again.
    pub to: Offset,
}

/// What the records of a log take in its files, header and padding included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// In bytes; where it is not exact, the most that it can be.
    pub bytes: u64,
    /// Whether the records were counted. If not, a sealed segment counts as full, as it was not read.
    pub exact: bool,
}

impl Default for Held {
    /// Of no records.
    fn default() -> Self {
        Self { bytes: 0, exact: true }
    }
}

impl Held {
    /// What a look at a log's ends tells.
    #[must_use]
    pub fn of(look: &Look) -> Self {
        let Some((last, sealed)) = look.segments.split_last() else { return Self::default() };
        let room = |end: u64| end.saturating_sub(RECORDS_POSITION);
        let full: u64 = sealed.iter().map(|segment| room(segment.capacity)).sum();
        let last = room(look.tail.map_or(last.capacity, |tail| tail.end.position));
        Self { bytes: full + last, exact: sealed.is_empty() && look.tail.is_some() }
    }

    /// With what another log holds.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, exact: self.exact && other.exact }
    }
}

/// What is to be known of one log.
#[derive(Clone, Debug)]
pub struct LogReport {
    /// Its directory.
    pub dir: PathBuf,
    /// The worst of the findings, those of its segments included.
    pub outcome: Outcome,
    /// Its identity; `None` without a segment.
    pub id: Option<LogId>,
    /// Its first offset.
    pub head: Offset,
    /// The offset of the next record, as a start would find it; of a damaged log, the first that cannot be read.
    pub tail: Offset,
    /// All records before this one are known to have been durable. Those from here to the tail were confirmed, or not.
    pub vouched: Offset,
    /// Its files, by the base in their names.
    pub segments: Vec<SegmentEntry>,
    /// Offsets that a repair declared lost.
    pub gaps: Vec<Gap>,
    /// What its records take.
    pub held: Held,
    /// The lengths of its files.
    pub file_bytes: u64,
    /// What they take on the disk.
    pub disk_bytes: u64,
    /// Bytes at the end that a start writes again and zeroes, since nothing says that they are durable.
    pub unvouched_records: u64,
    /// Places behind the end that a start zeroes.
    pub places_to_zero: u64,
    /// Temporary files, which a start deletes.
    pub temporary: Vec<PathBuf>,
    /// All that there is to say.
    pub findings: Vec<Finding>,
}

impl LogReport {
    fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_path_buf(),
            outcome: Outcome::Clean,
            id: None,
            head: Offset::ZERO,
            tail: Offset::ZERO,
            vouched: Offset::ZERO,
            segments: Vec::new(),
            gaps: Vec::new(),
            held: Held::default(),
            file_bytes: 0,
            disk_bytes: 0,
            unvouched_records: 0,
            places_to_zero: 0,
            temporary: Vec::new(),
            findings: Vec::new(),
        }
    }

    pub(crate) fn say(&mut self, finding: Finding) {
        self.outcome = self.outcome.max(finding.outcome);
        self.findings.push(finding);
    }

    fn say_damage(&mut self, damage: &Damage) {
        self.say(Finding {
            outcome: Outcome::Damaged,
            file: damage.file.clone(),
            position: Some(damage.position),
            offset: damage.offset,
            detail: damage.detail.to_string(),
        });
    }
}

/// Looks at the log in `dir`. What the system refuses is an outcome, not an error. Blocks on reads; `settle` as in
/// [`super::segment`].
#[must_use]
pub fn log(fs: &dyn FileSystem, dir: &Path, depth: Depth, settle: &(dyn Fn() + Sync)) -> LogReport {
    let mut report = outline(fs, dir, settle);
    if depth < Depth::Records {
        return report;
    }
    for at in 0..report.segments.len() {
        let entry = &report.segments[at];
        let segment = examine_entry(fs, entry, Extent::Whole, settle);
        for found in &segment.findings {
            // Damage at the end of the last segment is known already.
            let same =
                |known: &Finding| known.file == found.file && known.position == found.position;
            if found.outcome > Outcome::Clean && !report.findings.iter().any(same) {
                report.say(found.clone());
            }
        }
        report.segments[at].report = Some(Box::new(segment));
    }
    let own = report.segments.iter().filter(|entry| entry.role == Role::Segment);
    let held = own.filter_map(|entry| entry.report.as_ref()).map(|found| found.records.bytes).sum();
    report.held = Held { bytes: held, exact: true };
    report
}

/// Reads all records of one of a log's files.
pub(crate) fn examine_entry(
    fs: &dyn FileSystem,
    entry: &SegmentEntry,
    extent: Extent,
    settle: &(dyn Fn() + Sync),
) -> SegmentReport {
    let sealed = entry.end.filter(|_| entry.sealed);
    let mut segment = examine(fs, &entry.path, extent, sealed, settle);
    if matches!(entry.role, Role::BackToPool | Role::Remove) {
        segment.excuse("a start gives it up, nothing in it was ever confirmed");
    }
    segment
}

/// The log's files and what a start would make of them, without reading all records.
pub(crate) fn outline(fs: &dyn FileSystem, dir: &Path, settle: &(dyn Fn() + Sync)) -> LogReport {
    let mut report = LogReport::new(dir);
    let looked = look(fs, dir, settle);
    // The directory once more, for what recovery does not tell: sizes, and what is behind the damage.
    match fs.list(dir) {
        Err(error) => {
            report.say(refused(dir, "listed", &error));
            return report;
        }
        Ok(entries) => {
            for entry in entries {
                let path = dir.join(&entry.name);
                match (special(&path, entry.kind), parse_segment_file(&entry.name)) {
                    (Some(finding), _) => report.say(finding),
                    (None, Some(base)) if entry.kind == FileKind::File => {
                        let entry = read_entry(fs, path, base, &mut report);
                        report.segments.push(entry);
                    }
                    (None, _) => {}
                }
            }
        }
    }
    report.file_bytes = report.segments.iter().map(|entry| entry.file_len).sum();
    report.disk_bytes = report.segments.iter().map(|entry| entry.disk_bytes).sum();
    match looked {
        Ok(look) => {
            judge(&look, &mut report);
            if let Some(damage) = &look.damage {
                judge_behind(fs, damage, &mut report);
            }
        }
        Err(error) => {
            let outcome = match &error {
                _ if error.is_gone() => Outcome::Gone,
                RecoverError::Link { .. } | RecoverError::Foreign { .. } => Outcome::Foreign,
                _ => Outcome::Unreadable,
            };
            let path = path_of(&error).to_path_buf();
            if !report.findings.iter().any(|known| known.file == path) {
                report.say(finding(outcome, &path, format!("the log is refused: {error}")));
            }
        }
    }
    note_sealed_ends(&mut report);
    report
}

/// What a start would see. Damage is looked at again after a moment: a running node gives files up meanwhile.
fn look(fs: &dyn FileSystem, dir: &Path, settle: &(dyn Fn() + Sync)) -> Result<Look, RecoverError> {
    let first = recovery::look(fs, dir)?;
    if first.damage.is_none() {
        return Ok(first);
    }
    settle();
    recovery::look(fs, dir)
}

fn read_entry(
    fs: &dyn FileSystem,
    path: PathBuf,
    base: Offset,
    report: &mut LogReport,
) -> SegmentEntry {
    let found = fs.metadata(&path);
    let (file_len, disk_bytes) = found.map_or((0, 0), |found| (found.len, found.disk_bytes));
    let header = match fs.open_read(&path).and_then(|file| read_header(&*file)) {
        Ok(header) => Some(header),
        Err(error) => {
            // Gone since it was listed: truncated.
            if error.kind() != io::ErrorKind::NotFound {
                report.say(refused(&path, "read", &error));
            }
            None
        }
    };
    let (role, end, sealed, report) = (Role::Unknown, None, false, None);
    SegmentEntry { path, base, role, header, file_len, disk_bytes, end, sealed, report }
}

fn judge(look: &Look, report: &mut LogReport) {
    report.id = look.id;
    report.held = Held::of(look);
    report.temporary.clone_from(&look.temporary);
    let end = look.end();
    report.tail = end.next;
    report.vouched = end.next;
    report.head = look.segments.first().map_or(end.next, |segment| segment.base);
    if let Some(tail) = &look.tail {
        report.vouched = tail.vouched.next;
        report.unvouched_records = tail.records_past_vouched;
        report.places_to_zero = tail.beyond.carrying;
        let last = look.segments.last().map_or(&report.dir, |segment| &segment.path).clone();
        if look.damage.is_none() && (tail.beyond.leftovers > 0 || torn(tail)) {
            let why = tail.stop.map_or_else(String::new, |stop| stop.to_string());
            let outcome = if tail.live { Outcome::BeingWritten } else { Outcome::TornTail };
            report.say(Finding {
                outcome,
                file: last,
                position: Some(tail.end.position),
                offset: Some(tail.end.next),
                detail: format!(
                    "{why}; nothing says that more was durable; {} records behind it are cut off",
                    tail.beyond.leftovers
                ),
            });
        }
    }
    for entry in &mut report.segments {
        let trailing = look.trailing.iter().find(|trailing| trailing.path == entry.path);
        entry.role = match trailing.map(|trailing| trailing.fate) {
            Some(TrailingFate::BackToPool) => Role::BackToPool,
            Some(TrailingFate::Remove) => Role::Remove,
            None if look.segments.iter().any(|own| own.path == entry.path) => Role::Segment,
            None if look.damage.is_some() => Role::BehindDamage,
            None => Role::Unknown,
        };
    }
    if let Some(last) = look.segments.last()
        && let Some(entry) = report.segments.iter_mut().find(|entry| entry.path == last.path)
    {
        entry.end = Some(end.next);
    }
    for pair in look.segments.windows(2) {
        let (from, to) = (pair[1].previous_end, pair[1].base);
        if from < to {
            report.gaps.push(Gap { from, to });
        }
    }
    if let Some(damage) = &look.damage {
        report.say_damage(damage);
    }
}

/// A start ends at the first damage. What is wrong with the files behind it, and which of them are not the log's, is told
/// as well.
fn judge_behind(fs: &dyn FileSystem, first: &Damage, report: &mut LogReport) {
    let Ok((judged, log)) = recovery::judge(fs, &report.dir, report.id) else { return };
    for file in judged.iter().filter(|file| file.path != first.file) {
        let behind =
            |entry: &&mut SegmentEntry| entry.path == file.path && entry.role == Role::BehindDamage;
        let Some(entry) = report.segments.iter_mut().find(behind) else { continue };
        match file.verdict {
            Verdict::BackToPool => entry.role = Role::BackToPool,
            Verdict::Remove => entry.role = Role::Remove,
            Verdict::Keep | Verdict::Corrupt(_) | Verdict::Refuse => {}
        }
        if let Some(damage) = file.damage(log) {
            report.say_damage(&damage);
        }
    }
}

/// Whether something of the file's present use stands where the records stop.
fn torn(tail: &recovery::TailFacts) -> bool {
    use crate::format::record::RecordError::{Generation, Nothing, Short};
    !matches!(tail.stop, None | Some(Nothing | Generation { .. } | Short(_)))
}

impl SegmentEntry {
    fn previous_end(&self) -> Option<Offset> {
        let kept = matches!(self.role, Role::Segment | Role::BehindDamage | Role::Unknown);
        let in_use = self.header.and_then(Result::ok).and_then(|header| header.in_use);
        match in_use.filter(|in_use| in_use.base == self.base) {
            Some(in_use) => kept.then_some(in_use.previous_end),
            // The header is lost; the name still says it, or the segment before would end where one further on begins.
            None => (self.role == Role::BehindDamage).then_some(self.base),
        }
    }
}

/// A segment ends where the next one says, also behind damage.
fn note_sealed_ends(report: &mut LogReport) {
    let mut next = None;
    for entry in report.segments.iter_mut().rev() {
        if let Some(end) = next {
            entry.end = Some(end);
            entry.sealed = true;
        }
        next = entry.previous_end().or(next);
    }
}

fn path_of(error: &RecoverError) -> &Path {
    match error {
        RecoverError::Io { path, .. }
        | RecoverError::Link { path }
        | RecoverError::Foreign { path }
        | RecoverError::Gone { path }
        | RecoverError::Newer { path, .. } => path,
    }
}
