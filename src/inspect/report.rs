//! What is to be known of one file, for whoever shows it.

use super::leftovers::Beyond;
use super::outcome::{Finding, Outcome, worst};
use super::pieces::VouchedBy;
use super::spares::Standing;
use super::window::Unreadable;
use crate::format::checkpoint::Checkpoint;
use crate::format::header::{Header, HeaderError};
use crate::format::name;
use crate::format::record::RecordError;
use crate::types::{Generation, Offset};
use std::path::{Path, PathBuf};

/// What the checkpoint block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckpointView {
    /// Valid, and of the file's present use.
    Valid(Checkpoint),
    /// All zero, or the file has no such block.
    Absent,
    /// Ignored, as recovery ignores it; the text says which field does not fit.
    Ignored(String),
}

/// Where the key of the records' checksums came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The header names log and generation.
    Header,
    /// The header cannot be read; the first record's checksums agree with each other.
    FirstRecord(Generation),
    /// None: records cannot be told from other bytes.
    None,
}

/// Where the unbroken run of records from the file's start ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The byte.
    pub position: u64,
    /// The record that is expected there, where the base is known.
    pub offset: Option<Offset>,
    /// Why there is none.
    pub error: RecordError,
}

/// The records of a file's present use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordsView {
    /// Valid records up to the end.
    pub count: u64,
    /// Offset of the first one.
    pub first: Option<Offset>,
    /// Offset of the last one.
    pub last: Option<Offset>,
    /// Offset of the record that comes next; the base in a file without records.
    pub next: Option<Offset>,
    /// What they take in the file, header and padding included.
    pub bytes: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// Bytes of their headers.
    pub headers_bytes: u64,
    /// Where the last one ends, or the first one would begin.
    pub end_position: u64,
    /// Stamp of the first one, Unix milliseconds.
    pub first_millis: Option<u64>,
    /// Stamp of the last one.
    pub last_millis: Option<u64>,
    /// The largest stamp, which a clock that stepped may have left before the last.
    pub max_millis: u64,
    /// Valid records behind the end. The next start cuts them off: one before them is missing, and nothing says that
    /// they were durable; or the log went on in another file after this one failed.
    pub cut_off: u64,
}

/// A range of bytes that were durable and hold no valid records now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    /// The first byte.
    pub from: u64,
    /// The byte behind the last: where the next valid record stands, or how far something vouches.
    pub to: u64,
    /// The first record that is missing.
    pub from_offset: Option<Offset>,
    /// The first record behind the damage, if there is one in this file.
    pub to_offset: Option<Offset>,
    /// What is wrong at `from`.
    pub error: RecordError,
}

/// What is to be known of one file.
#[derive(Clone, Debug)]
pub struct SegmentReport {
    /// The file.
    pub path: PathBuf,
    /// The worst of the findings.
    pub outcome: Outcome,
    /// Its length in bytes.
    pub file_len: u64,
    /// What it takes on the disk.
    pub disk_bytes: u64,
    /// How it stands among the spares of a data directory; `None` if it does not stand there. Such a file belongs to no
    /// log, whatever its header says: all its records are leftovers, and nothing in it is damage.
    pub standing: Option<Standing>,
    /// The base offset in its name, if it has a segment's name.
    pub name_base: Option<Offset>,
    /// Its header, or what is wrong with it.
    pub header: Result<Header, HeaderError>,
    /// Whether a recovery was under way in it: it marks the file before it changes it, and did not come to the end.
    pub settling: bool,
    /// Its checkpoint.
    pub checkpoint: CheckpointView,
    /// Where the key came from that its records were checked with.
    pub key: KeySource,
    /// Its records.
    pub records: RecordsView,
    /// Where the first run of records stops; `None` in a spare and where no key is known.
    pub stop: Option<Stop>,
    /// Up to where bytes are known to have been durable, and what says so.
    pub vouched: Option<(u64, VouchedBy)>,
    /// Damaged ranges, the first thousand of them.
    pub damage: Vec<DamagedRange>,
    /// How many damaged ranges there are.
    pub damage_count: u64,
    /// What stands behind the end of the records; in a spare, all that stands where records would.
    pub beyond: Beyond,
    /// What the device does not give back.
    pub unreadable: Vec<Unreadable>,
    /// All that there is to say, worst or not.
    pub findings: Vec<Finding>,
}

impl SegmentReport {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            outcome: Outcome::Clean,
            file_len: 0,
            disk_bytes: 0,
            standing: None,
            name_base: path.file_name().and_then(name::parse_segment_file),
            header: Err(HeaderError::Short(0)),
            settling: false,
            checkpoint: CheckpointView::Absent,
            key: KeySource::None,
            records: RecordsView::default(),
            stop: None,
            vouched: None,
            damage: Vec::new(),
            damage_count: 0,
            beyond: Beyond::default(),
            unreadable: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// The generation of the file's present use, from its header or from its first record.
    #[must_use]
    pub fn generation(&self) -> Option<Generation> {
        match (&self.header, self.key) {
            (Ok(header), _) => Some(header.generation),
            (Err(_), KeySource::FirstRecord(generation)) => Some(generation),
            _ => None,
        }
    }

    /// The offset of the file's first record: from its header, or else from its name.
    #[must_use]
    pub fn base(&self) -> Option<Offset> {
        match &self.header {
            Ok(header) => header.in_use.map(|in_use| in_use.base),
            Err(_) => self.name_base,
        }
    }

    pub(super) fn say(
        &mut self,
        outcome: Outcome,
        position: Option<u64>,
        offset: Option<Offset>,
        detail: String,
    ) {
        let file = self.path.clone();
        self.findings.push(Finding { outcome, file, position, offset, detail });
        self.outcome = worst(&self.findings);
    }

    pub(super) fn absolute(&self, relative: u64) -> Option<Offset> {
        self.base().map(|base| base.plus(relative))
    }

    /// What would be wrong elsewhere is right here, and said as a remark.
    pub(super) fn excuse(&mut self, why: &str) {
        for finding in &mut self.findings {
            if matches!(finding.outcome, Outcome::TornTail | Outcome::Damaged) {
                finding.outcome = Outcome::Clean;
                finding.detail = format!("{}; {why}", finding.detail);
            }
        }
        self.outcome = worst(&self.findings);
    }

    /// What was suspicious is what a node at work looks like.
    pub(super) fn take_back(&mut self, outcome: Outcome, detail: String) {
        self.findings.retain(|finding| finding.outcome < Outcome::TornTail);
        self.damage.clear();
        self.damage_count = 0;
        let stop = self.stop.map(|stop| (stop.position, stop.offset));
        let (position, offset) = stop.map_or((None, None), |(at, offset)| (Some(at), offset));
        self.say(outcome, position, offset, detail);
    }
}
