//! Reads the records of a view, segment after segment.

use super::View;
use crate::failure::{Exit, Failure};
use plimsoll::Offset;
use plimsoll::error::Damage;
use plimsoll::format::{Key, RECORDS_POSITION, SECTOR_LEN, header::Header};
use plimsoll::fs::{File, FileSystem, OsFileSystem};
use plimsoll::recovery::SegmentInfo;
use plimsoll::segment::{Found, Step, Walker};
use std::io;
use std::sync::Arc;

/// Few large reads: this is for going through a whole log.
const READ_AHEAD: usize = 1024 * 1024;

/// Why there is no next record.
#[derive(Debug)]
pub(crate) enum NoRecord {
    /// It was truncated, or a repair declared it lost; reading can go on at `next`.
    Gone {
        /// The offset asked for.
        wanted: Offset,
        /// The first offset at or after it that the log holds.
        next: Offset,
    },
    /// It cannot be read.
    Failed(Failure),
}

impl From<Failure> for NoRecord {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A place in a view, which goes on as the view does.
#[derive(Debug)]
pub(crate) struct Records {
    view: View,
    next: Offset,
    open: Option<Open>,
}

/// The segment that is being read.
#[derive(Debug)]
struct Open {
    segment: SegmentInfo,
    file: Arc<dyn File>,
    walker: Walker<Arc<dyn File>>,
}

impl Records {
    /// Begins at `from`.
    ///
    /// # Errors
    /// If it is above the end.
    pub(crate) fn new(view: View, from: Offset) -> Result<Self, Failure> {
        if from > view.end() {
            let sentence =
                format!("record {from} is not there yet; the log's durable end is {}", view.end());
            return Err(Failure::new(Exit::Io, sentence)
                .with("offset", from.0)
                .with("end", view.end().0));
        }
        Ok(Self { view, next: from, open: None })
    }

    /// The offset of the next record.
    pub(crate) fn position(&self) -> Offset {
        self.next
    }

    /// The view that is read.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Goes on at `next`, after [`NoRecord::Gone`].
    pub(crate) fn skip_to(&mut self, next: Offset) {
        self.next = next;
        self.open = None;
    }

    /// Looks again; more may have become durable.
    ///
    /// # Errors
    /// If the log is not what it was: deleted, made anew, cut.
    pub(crate) fn refresh(&mut self, unconfirmed: bool) -> Result<(), Failure> {
        let again = View::look(&self.view.dir, unconfirmed)?;
        let known = self.view.look.id;
        if known.is_some() && again.look.id != known || again.end() < self.next {
            let sentence =
                format!("{}: the log was deleted or repaired meanwhile", self.view.dir.display());
            return Err(Failure::new(Exit::Io, sentence));
        }
        self.view = again;
        if let Some(open) = &mut self.open {
            match self.view.look.segments.iter().find(|segment| open.is(segment)) {
                Some(segment) => open.walker.extend_to(self.view.end_position(segment)),
                None => self.open = None,
            }
        }
        Ok(())
    }

    /// The next record, or `None` at the end of the view.
    ///
    /// # Errors
    /// [`NoRecord::Gone`] where records are missing for a good reason; damage; the disk.
    pub(crate) fn next(&mut self) -> Result<Option<Found<'_>>, NoRecord> {
        if !self.advance()? {
            return Ok(None);
        }
        // Looked at twice, as the borrow of a record that is returned lasts.
        let wanted = self.next;
        let Some(open) = &mut self.open else { return Ok(None) };
        let position = open.walker.position();
        let failed = match open.walker.step() {
            Ok(Step::Record(found)) => {
                self.next = wanted.plus(1);
                return Ok(Some(found));
            }
            Ok(Step::Stop(why)) => Stopped::Record(why.to_string()),
            Err(error) => Stopped::Disk(error),
        };
        Err(explain(&self.view, wanted, &open.segment, &open.file, position, failed))
    }

    /// Opens the segment that holds the next record, and walks to it; `false` at the end.
    fn advance(&mut self) -> Result<bool, NoRecord> {
        let (view, next) = (&self.view, self.next);
        if next >= view.end() {
            return Ok(false);
        }
        if next < view.head() {
            return Err(NoRecord::Gone { wanted: next, next: view.head() });
        }
        let segments = &view.look.segments;
        let at = segments.partition_point(|segment| segment.base <= next).saturating_sub(1);
        let segment = &segments[at];
        // Between the end of a segment and the base of the next one a repair declared records lost.
        if let Some(after) = segments.get(at + 1)
            && next >= after.previous_end
        {
            return Err(NoRecord::Gone { wanted: next, next: after.base });
        }
        if self
            .open
            .as_ref()
            .is_none_or(|open| !open.is(segment) || open.walker.next_offset() != next)
        {
            self.open = Some(open(view, segment, next)?);
        }
        Ok(true)
    }
}

impl Open {
    fn is(&self, segment: &SegmentInfo) -> bool {
        self.segment.base == segment.base && self.segment.generation == segment.generation
    }
}

impl View {
    /// Behind which byte nothing is read.
    fn end_position(&self, segment: &SegmentInfo) -> u64 {
        match self.look.segments.last() {
            Some(last) if last.base == segment.base => self.end.position,
            _ => segment.capacity,
        }
    }

    /// The first offset whose record was stamped at `millis` or later, or the end.
    pub(crate) fn offset_for_time(&self, millis: u64) -> Result<Offset, Failure> {
        match self.search_time(millis) {
            // Truncated meanwhile; what is left is younger.
            Err(NoRecord::Gone { next, .. }) => Ok(next),
            Err(NoRecord::Failed(failure)) => Err(failure),
            Ok(offset) => Ok(offset),
        }
    }

    fn search_time(&self, millis: u64) -> Result<Offset, NoRecord> {
        // The first record that reaches `millis` is in the last segment before which none does.
        let before =
            self.look.segments.iter().take_while(|segment| segment.previous_millis < millis);
        let Some(segment) = before.last() else { return Ok(self.head()) };
        let last = self.look.segments.last().is_some_and(|last| last.base == segment.base);
        let next = self.look.segments.iter().find(|next| next.base > segment.base);
        let end = next.map_or(self.end(), |next| next.previous_end);
        let mut open = open(self, segment, segment.base)?;
        while open.walker.next_offset() < end {
            let (position, offset) = (open.walker.position(), open.walker.next_offset());
            let failed = match open.walker.step() {
                Ok(Step::Record(found)) if found.header.millis >= millis => return Ok(offset),
                Ok(Step::Record(_)) => continue,
                Ok(Step::Stop(why)) => Stopped::Record(why.to_string()),
                Err(error) => Stopped::Disk(error),
            };
            return Err(explain(self, offset, &open.segment, &open.file, position, failed));
        }
        Ok(if last { self.end() } else { next.map_or(end, |next| next.base) })
    }
}

/// Why a walk did not go on.
enum Stopped {
    Record(String),
    Disk(io::Error),
}

/// Opens a segment and walks to `next`.
fn open(view: &View, segment: &SegmentInfo, next: Offset) -> Result<Open, NoRecord> {
    let fs = OsFileSystem;
    let file = match fs.open_read(&segment.path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(gone(view, next)),
        Err(error) => return Err(disk("open", segment, error)),
    };
    let Some(log) = view.look.id else { return Err(gone(view, next)) };
    let (key, generation) = (Key::new(log, segment.generation, segment.base), segment.generation);
    let start = (RECORDS_POSITION, segment.base);
    let end = view.end_position(segment);
    let walker = Walker::with_key(Arc::clone(&file), key, generation, segment.base, start, end);
    let mut open = Open { segment: segment.clone(), file, walker: walker.read_ahead(READ_AHEAD) };
    while open.walker.next_offset() < next {
        let (position, offset) = (open.walker.position(), open.walker.next_offset());
        let failed = match open.walker.step() {
            Ok(Step::Record(_)) => continue,
            Ok(Step::Stop(why)) => Stopped::Record(why.to_string()),
            Err(error) => Stopped::Disk(error),
        };
        return Err(explain(view, offset, segment, &open.file, position, failed));
    }
    Ok(open)
}

/// A record that was there is not: its file was given up and went on to another use, or it is damaged.
fn explain(
    view: &View,
    wanted: Offset,
    segment: &SegmentInfo,
    file: &Arc<dyn File>,
    position: u64,
    stopped: Stopped,
) -> NoRecord {
    let why = match stopped {
        Stopped::Record(why) => why,
        Stopped::Disk(error) => return disk("read", segment, error),
    };
    let mut sector = [0; SECTOR_LEN];
    let read = file.read_at(0, &mut sector).unwrap_or(0);
    let same = Header::parse(&sector[..read]).is_ok_and(|header| {
        header.generation == segment.generation
            && header.in_use.is_some_and(|in_use| Some(in_use.log) == view.look.id)
    });
    if !same {
        return gone(view, wanted);
    }
    let detail = format!("{why}; records behind it were durable");
    let (file, offset) = (segment.path.clone(), Some(wanted));
    Failure::from(Damage { file, position, offset, detail: detail.into() }).into()
}

/// The log was truncated since the look: it goes on at what is its head now.
fn gone(view: &View, wanted: Offset) -> NoRecord {
    let next = View::look(&view.dir, true).map_or(view.end(), |again| again.head());
    // A look that raced with the truncation may still show the file; then it is the one after it.
    let after = view.look.segments.iter().map(|segment| segment.base).find(|&base| base > wanted);
    NoRecord::Gone { wanted, next: if next > wanted { next } else { after.unwrap_or(view.end()) } }
}

fn disk(doing: &'static str, segment: &SegmentInfo, error: io::Error) -> NoRecord {
    Failure::io(doing, segment.path.display(), &error).into()
}
