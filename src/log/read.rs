//! Reading: durable records, in order.

use super::index::{Index, Place};
use super::recent::RecentFile;
use super::state::{Segment, State, Status};
use super::{Record, Shared};
use crate::error::{Damage, DiskContext, DiskError, ReadError, Stopped};
use crate::format::RECORDS_POSITION;
use crate::fs::File;
use crate::segment::{Access, Found, Memory, Step, Walker};
use crate::types::Offset;
use std::ops::ControlFlow;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that a reader takes at a time once it has read on for a while. From the page cache larger reads are faster, up to
/// about this.
const READ_AHEAD: usize = 1 << 20;

/// What a reader may read of one segment.
#[derive(Clone, Debug)]
struct Range {
    segment: Arc<Segment>,
    /// Behind the last record that may be read.
    end: Offset,
    /// No byte from here on is read, as it may still change.
    end_position: u64,
    /// Where the log goes on after `end`; `None` at the durable end.
    then: Option<Offset>,
}

/// Reads a log's durable records in order. Holds one descriptor and one buffer.
///
/// A segment that a reader is in can be read to its end, also when it is truncated meanwhile: its space comes back when the
/// reader has left it, see [`NodeStats::pinned_bytes`](crate::NodeStats::pinned_bytes).
#[derive(Debug)]
pub struct Reader {
    log: Arc<Shared>,
    next: Offset,
    current: Option<(Range, Walker<Arc<dyn File>>)>,
    /// Between two files: what the last walk left.
    memory: Memory,
    read_ahead: usize,
}

impl Shared {
    pub(super) fn reader(self: &Arc<Self>, from: Offset) -> Result<Reader, ReadError> {
        let state = self.lock();
        Self::check_readable(&state)?;
        if from > state.durable {
            return Err(ReadError::Beyond { wanted: from, end: state.durable });
        }
        drop(state);
        if let Some(range) = self.range(from)?
            && from >= range.end
            && let Some(next) = range.then
        {
            return Err(ReadError::Gone { wanted: from, next });
        }
        self.recent.enter();
        Ok(Reader {
            log: Arc::clone(self),
            next: from,
            current: None,
            memory: Memory::default(),
            read_ahead: READ_AHEAD,
        })
    }

    fn check_readable(state: &State) -> Result<(), ReadError> {
        match &state.status {
            Status::Stopped(why @ (Stopped::Closed | Stopped::Deleted)) => Err(why.clone().into()),
            _ => Ok(()),
        }
    }

    /// What may be read from `offset` on; `None` if nothing is there yet.
    fn range(&self, offset: Offset) -> Result<Option<Range>, ReadError> {
        let state = self.lock();
        Self::check_readable(&state)?;
        let head = state.head();
        if offset < head {
            return Err(ReadError::Gone { wanted: offset, next: head });
        }
        // A file that is only staged holds nothing that may be read.
        let durable = state.segments.iter().take_while(|segment| segment.is_committed()).count();
        let Some(at) = state.segment_of(offset).map(|at| at.min(durable.saturating_sub(1))) else {
            return Ok(None);
        };
        if durable == 0 {
            return Ok(None);
        }
        let segment = Arc::clone(&state.segments[at]);
        let end = state.end_of(at);
        let then = state.segments.get(at + 1).filter(|next| next.is_committed());
        let then = then.map(|next| next.base);
        let end_position = segment.durable();
        Ok(Some(Range { segment, end, end_position, then }))
    }

    fn walker(
        self: &Arc<Self>,
        segment: &Segment,
        (position, next): (u64, Offset),
        end: u64,
    ) -> Result<Walker<Arc<dyn File>>, ReadError> {
        let file = match self.files.get(segment.id, &segment.path, Access::Read) {
            Ok(file) => file,
            Err(error) => {
                let head = self.lock().head();
                // Truncated, and given up before it was opened.
                if error.kind() == std::io::ErrorKind::NotFound && segment.base < head {
                    return Err(ReadError::Gone { wanted: next, next: head });
                }
                return Err(DiskError::new("open", &segment.path, error).into());
            }
        };
        let file = RecentFile { log: Arc::clone(self), id: segment.id, file };
        let file: Arc<dyn File> = Arc::new(file);
        let header = segment.header();
        Ok(Walker::new(file, segment.log, &header, segment.base, (position, next), end))
    }

    /// The index of a segment, walked until `done`.
    fn indexed(
        self: &Arc<Self>,
        range: &Range,
        mut done: impl FnMut(&Place) -> bool,
        find: impl FnOnce(&Index) -> Place,
    ) -> Result<Place, ReadError> {
        let segment = &range.segment;
        let start = Place {
            offset: segment.base,
            position: RECORDS_POSITION,
            millis_before: segment.previous_millis,
        };
        let index = self.indexes.get(segment.id, start);
        let mut index = index.lock().unwrap_or_else(PoisonError::into_inner);
        let reached = index.reached();
        let at = (reached.position, reached.offset);
        let mut walker = self.walker(segment, at, range.end_position)?.read_ahead(1 << 20);
        let end = range.end;
        let damage = |position, offset, why: String| damage(segment, position, offset, &why);
        index
            .extend(&mut walker, |place| place.offset >= end || done(place), damage)
            .disk("read", &segment.path)??;
        Ok(find(&index))
    }

    pub(super) fn offset_for_time(self: &Arc<Self>, millis: u64) -> Result<Offset, ReadError> {
        let from = {
            let state = self.lock();
            Self::check_readable(&state)?;
            // The first record that reaches `millis` is in the last segment before which none does.
            let committed = state.segments.iter().filter(|segment| segment.is_committed());
            let before = committed.take_while(|segment| segment.previous_millis < millis);
            match before.last() {
                Some(segment) => segment.base,
                None => return Ok(state.head()),
            }
        };
        let Some(range) = self.range(from)? else { return Ok(from) };
        let place = self.indexed(
            &range,
            |place| place.millis_before >= millis,
            |index| index.before_time(millis),
        )?;
        let at = (place.position, place.offset);
        let mut walker = self.walker(&range.segment, at, range.end_position)?;
        while walker.next_offset() < range.end {
            let (position, offset) = (walker.position(), walker.next_offset());
            match walker.step().disk("read", &range.segment.path)? {
                Step::Record(found) if found.header.millis >= millis => return Ok(offset),
                Step::Record(_) => {}
                Step::Stop(why) => {
                    return Err(damage(&range.segment, position, offset, &why.to_string()).into());
                }
            }
        }
        Ok(range.then.unwrap_or(range.end))
    }

    /// A damaged log does not just end.
    fn at_end(&self) -> Result<(), ReadError> {
        match &self.lock().status {
            Status::Stopped(Stopped::Damaged(damage)) => Err(damage.clone().into()),
            _ => Ok(()),
        }
    }

    /// Blocks until a record at `offset` is durable, at most `timeout`.
    fn wait_for(&self, offset: Offset, timeout: Duration) -> Result<bool, ReadError> {
        let begun = self.clock.elapsed();
        let mut state: MutexGuard<'_, State> = self.lock();
        loop {
            Self::check_readable(&state)?;
            if state.durable > offset {
                return Ok(true);
            }
            let gone = self.clock.elapsed().saturating_sub(begun);
            let Some(left) = timeout.checked_sub(gone).filter(|left| !left.is_zero()) else {
                return Ok(false);
            };
            state.followers += 1;
            let waited = self.readable.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.followers -= 1;
        }
    }
}

fn damage(segment: &Segment, position: u64, offset: Offset, why: &str) -> Damage {
    Damage {
        file: segment.path.clone(),
        position,
        offset: Some(offset),
        detail: format!("{why}, in bytes that were known durable").into(),
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.log.recent.leave(self.log.clock.elapsed());
    }
}

impl Reader {
    /// Sets how many bytes are read at a time at most, 1 MiB by default, and so the size of the buffer. Reads begin small
    /// and come to it when the reader reads on; a larger record is read whole.
    ///
    /// For who holds many readers that are all behind: at the durable end each of them gives a large buffer back.
    #[must_use]
    pub fn read_ahead(mut self, bytes: usize) -> Self {
        self.read_ahead = bytes;
        self
    }

    /// The offset of the next record.
    #[must_use]
    pub fn position(&self) -> Offset {
        self.next
    }

    /// The next record, or `None` at the durable end; more may come, see [`Reader::wait`].
    ///
    /// Goes over a gap that a repair declared. Blocks on the disk.
    ///
    /// # Errors
    /// [`ReadError::Gone`] if it was truncated meanwhile; damage; closed or deleted; the disk.
    #[allow(clippy::should_implement_trait, reason = "it goes on after None")]
    pub fn next(&mut self) -> Result<Option<Record>, ReadError> {
        self.next_with(|found| Record {
            offset: found.offset,
            millis: found.header.millis,
            headers: found.headers.to_vec(),
            payload: found.payload.to_vec(),
        })
    }

    /// As [`Reader::next`], without copying the record: `take` sees it where it was read.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn next_with<T>(
        &mut self,
        take: impl FnOnce(&Found<'_>) -> T,
    ) -> Result<Option<T>, ReadError> {
        if !self.advance()? {
            return Ok(None);
        }
        let Some((range, walker)) = &mut self.current else { return Ok(None) };
        let (position, offset) = (walker.position(), walker.next_offset());
        match walker.step().disk("read", &range.segment.path)? {
            Step::Record(found) => {
                self.next = offset.plus(1);
                Ok(Some(take(&found)))
            }
            Step::Stop(why) => {
                Err(damage(&range.segment, position, offset, &why.to_string()).into())
            }
        }
    }

    /// Gives `take` one record after the other, where it was read, until it breaks or the durable end is reached; gives what
    /// it broke with. A record that it broke at is behind the reader, as all before it are.
    ///
    /// The way to read many small records: a look at what may be read is taken once a file, not once a record. Blocks on
    /// the disk.
    ///
    /// # Errors
    /// As [`Reader::next`], also behind records that were taken: [`Reader::position`] is the one that failed.
    pub fn scan<B>(
        &mut self,
        mut take: impl FnMut(&Found<'_>) -> ControlFlow<B>,
    ) -> Result<Option<B>, ReadError> {
        while self.advance()? {
            let Some((range, walker)) = &mut self.current else { break };
            while self.next < range.end {
                let (position, offset) = (walker.position(), self.next);
                let found = match walker.step().disk("read", &range.segment.path)? {
                    Step::Record(found) => found,
                    Step::Stop(why) => {
                        let why = why.to_string();
                        return Err(damage(&range.segment, position, offset, &why).into());
                    }
                };
                self.next = offset.plus(1);
                if let ControlFlow::Break(with) = take(&found) {
                    return Ok(Some(with));
                }
            }
        }
        Ok(None)
    }

    /// Stands before a record that may be read, or says that there is none.
    fn advance(&mut self) -> Result<bool, ReadError> {
        loop {
            if let Some((range, _)) = &self.current
                && self.next < range.end
            {
                return Ok(true);
            }
            let Some(range) = self.log.range(self.next)? else { return Ok(false) };
            if self.next >= range.end {
                match range.then {
                    // Over a declared gap, or simply into the next file.
                    Some(then) => {
                        self.next = self.next.max(then);
                        // The file is given up also if there turns out to be no next one.
                        if let Some((_, walker)) = self.current.take() {
                            self.memory = walker.into_memory();
                        }
                        continue;
                    }
                    None => {
                        // It may be long until there is more.
                        if let Some((_, walker)) = &mut self.current {
                            walker.rest();
                        }
                        return self.log.at_end().map(|()| false);
                    }
                }
            }
            self.current = Some(self.enter(range)?);
        }
    }

    fn enter(&mut self, range: Range) -> Result<(Range, Walker<Arc<dyn File>>), ReadError> {
        if let Some((old, mut walker)) = self.current.take() {
            if old.segment.id == range.segment.id {
                walker.extend_to(range.end_position);
                return Ok((range, walker));
            }
            self.memory = walker.into_memory();
        }
        let next = self.next;
        let start = if next == range.segment.base {
            (RECORDS_POSITION, next)
        } else {
            let reach = |place: &Place| place.offset >= next;
            let place = self.log.indexed(&range, reach, |index| index.before_offset(next))?;
            (place.position, place.offset)
        };
        let walker = self.log.walker(&range.segment, start, range.end_position)?;
        let memory = std::mem::take(&mut self.memory);
        let mut walker = walker.read_ahead(self.read_ahead).with_memory(memory);
        while walker.next_offset() < next {
            let (position, offset) = (walker.position(), walker.next_offset());
            if let Step::Stop(why) = walker.step().disk("read", &range.segment.path)? {
                return Err(damage(&range.segment, position, offset, &why.to_string()).into());
            }
        }
        Ok((range, walker))
    }

    /// Blocks until there is a next record, at most `timeout`; says whether there is.
    ///
    /// # Errors
    /// If the log was closed or deleted.
    pub fn wait(&self, timeout: Duration) -> Result<bool, ReadError> {
        self.log.wait_for(self.next, timeout)
    }
}
