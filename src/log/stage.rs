//! Staging: offsets are assigned and records encoded into the buffers that commits write.

use super::buffer::Buffer;
use super::place::{Fit, Missing, fit};
use super::state::{Active, Segment, State, Status};
use super::{Appended, NewRecord, Shared, Ticket};
use crate::error::{AppendError, DiskContext, DiskError, PublishError, Stopped};
use crate::format::header::Origin;
use crate::format::name::segment_file;
use crate::format::record::{self, RecordHeader, record_len};
use crate::format::{BLOCK_LEN, Key, RECORDS_POSITION, WINDOW};
use crate::permit::Permit;
use crate::planted::{self, Fault};
use crate::segment::{Access, Spare, TakeError, Want};
use crate::types::{LogId, Offset, SizeClass, WriteClass};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

/// A file is reserved early if at the present rate it is begun within this time.
const RESERVED_FOR: Duration = Duration::from_secs(10);

/// What stands between a batch and its staging.
#[derive(Debug)]
pub(super) enum Need {
    /// Nothing.
    Nothing,
    /// More bytes are under way than the window allows: commit first.
    Room,
    /// A file.
    File(Missing),
    /// The block that the next record begins in must be read from the file.
    Tail,
    /// Someone is healing the log.
    Healing,
    /// Healing must be tried again.
    Heal,
}

/// A batch that has been checked against what does not change.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    pub(super) records: &'a [NewRecord<'a>],
    /// Bytes of all but the last: where the last one starts.
    before_last: u64,
    total: u64,
}

impl<'a> Batch<'a> {
    pub(super) fn check(records: &'a [NewRecord<'a>], max: u64) -> Result<Self, AppendError> {
        let (mut total, mut last) = (0, 0);
        for (index, record) in records.iter().enumerate() {
            let headers = record.headers.len();
            if headers > usize::from(u16::MAX) {
                return Err(AppendError::HeadersTooLarge { index, len: headers });
            }
            last = record_len(headers, record.payload.len());
            if last > max {
                return Err(AppendError::RecordTooLarge { index, len: last, max });
            }
            total += last;
        }
        if records.is_empty() {
            return Err(AppendError::Empty);
        }
        let before_last = total - last;
        if before_last > WINDOW {
            return Err(AppendError::BatchTooLarge { len: before_last, max: WINDOW });
        }
        Ok(Self { records, before_last, total })
    }

    /// Length of each record with header and padding.
    fn lens(&self) -> impl Iterator<Item = u64> {
        self.records.iter().map(|new| record_len(new.headers.len(), new.payload.len()))
    }

    /// Whether its first record goes into a file that has so much left.
    fn stays(&self, left: Option<(SizeClass, u64)>) -> bool {
        left.is_some_and(|(_, left)| self.lens().next().is_some_and(|len| len <= left))
    }
}

/// Buffers for the chunks that a batch begins: one at most, unless it goes through several files.
#[derive(Debug, Default)]
struct Buffers {
    one: Option<Buffer>,
    more: Vec<Buffer>,
}

impl Buffers {
    fn push(&mut self, buffer: Buffer) {
        match &self.one {
            None => self.one = Some(buffer),
            Some(_) => self.more.push(buffer),
        }
    }

    fn pop(&mut self) -> Option<Buffer> {
        self.more.pop().or_else(|| self.one.take())
    }
}

impl Shared {
    /// Stages a batch, waiting for whatever it needs. The caller of a permit has waited out its delay.
    pub(super) fn append(
        self: &Arc<Self>,
        permit: Permit,
        records: &[NewRecord<'_>],
    ) -> Result<Ticket, AppendError> {
        self.append_locked(permit, records).map(|(ticket, _)| ticket)
    }

    /// The same, and waits until the batch is durable. Takes the lock once where appending and waiting take it twice.
    pub(super) fn append_and_wait(
        self: &Arc<Self>,
        permit: Permit,
        records: &[NewRecord<'_>],
    ) -> Result<Appended, PublishError> {
        let (ticket, state) = self.append_locked(permit, records)?;
        Ok(ticket.wait_locked(self, state)?)
    }

    fn append_locked(
        self: &Arc<Self>,
        permit: Permit,
        records: &[NewRecord<'_>],
    ) -> Result<(Ticket, MutexGuard<'_, State>), AppendError> {
        let batch = self.admit(&permit, records)?;
        let mut waited = false;
        let mut state = self.lock();
        {
            let State { gather, sync_time, .. } = &mut *state;
            gather.came_back(*sync_time, || self.clock.elapsed());
        }
        loop {
            match self.need(&state, &batch, permit.class())? {
                Need::Nothing => {
                    // What it was given for may be long past.
                    if waited {
                        permit.check_age(self.clock.elapsed())?;
                    }
                    let ticket = self.stage(&mut state, &batch, &permit)?;
                    return Ok((ticket, state));
                }
                Need::Room if state.leader => {
                    state.want_room += 1;
                    state = Self::wait(&self.room, state);
                    state.want_room -= 1;
                }
                // Whoever finds staging full commits, and waits for nobody: all others may be waiting too.
                Need::Room if planted::is(Fault::AppendWaitsForNobody) => {
                    return Err(AppendError::Busy);
                }
                Need::Room => state = self.lead(state),
                Need::Healing => {
                    state.want_room += 1;
                    state = Self::wait(&self.room, state);
                    state.want_room -= 1;
                }
                Need::Heal => {
                    state = self.heal_again(state);
                    if let Status::Unhealed = state.status {
                        return Err(self.no_file_error(&state));
                    }
                }
                Need::File(missing) => {
                    drop(state);
                    self.reserve(missing, permit.class())?;
                    state = self.lock();
                }
                Need::Tail => state = self.load_tail(state)?,
            }
            waited = true;
        }
    }

    /// Stages a batch if that needs no waiting and no disk; else asks for what is missing and says busy.
    pub(super) fn try_append(
        self: &Arc<Self>,
        permit: &Permit,
        records: &[NewRecord<'_>],
        waker: Option<&std::task::Waker>,
    ) -> Result<Ticket, AppendError> {
        let batch = self.admit(permit, records)?;
        let mut state = self.lock();
        let need = self.need(&state, &batch, permit.class())?;
        if let Need::Nothing = need {
            return self.stage(&mut state, &batch, permit);
        }
        if let Some(waker) = waker {
            state.wakers.push(waker.clone());
        }
        match need {
            Need::Room => {
                self.schedule_commit(&mut state);
            }
            Need::File(missing) => {
                // What pressure refuses first does not push out what it never refuses: it asks again.
                let class = permit.class();
                if state.wanted.as_ref().is_none_or(|(_, asked)| *asked <= class) {
                    state.wanted = Some((missing, class));
                }
                self.schedule_prepare(&mut state);
            }
            Need::Tail | Need::Heal => self.schedule_prepare(&mut state),
            Need::Nothing | Need::Healing => {}
        }
        Err(AppendError::Busy)
    }

    fn admit<'a>(
        &self,
        permit: &Permit,
        records: &'a [NewRecord<'a>],
    ) -> Result<Batch<'a>, AppendError> {
        let bytes = |record: &NewRecord<'_>| (record.headers.len() + record.payload.len()) as u64;
        permit.check(self.clock.elapsed(), records.iter().map(bytes).sum(), self.device)?;
        Batch::check(records, self.record_max)
    }

    fn need(
        &self,
        state: &State,
        batch: &Batch<'_>,
        purpose: WriteClass,
    ) -> Result<Need, AppendError> {
        if let Some(why) = &state.closing {
            return Err(why.clone().into());
        }
        match &state.status {
            Status::Open => {}
            Status::Healing => return Ok(Need::Healing),
            Status::Unhealed => return Ok(Need::Heal),
            Status::Stopped(stopped) => return Err(stopped.clone().into()),
        }
        // No record starts further than the window past the durable end, or recovery would not find what a crash
        // leaves of it.
        if state.unsynced() + batch.before_last > WINDOW {
            return Ok(Need::Room);
        }
        let left = state.space_left();
        let usable = usable(&state.reserved, purpose);
        if let Fit::Lacks(missing) = fit(&self.ladder, left, usable, batch.lens()) {
            return Ok(Need::File(missing));
        }
        // With a new file for the first record the old one's tail is not needed.
        let stays = batch.stays(left);
        let tail_missing = state.active.as_ref().is_some_and(|active| !active.tail.is_known())
            && state.chunks.back().is_none_or(|chunk| !state.is_open(chunk));
        Ok(if stays && tail_missing { Need::Tail } else { Need::Nothing })
    }

    /// Takes a file that a batch lacks, before its first record is staged (I9). Blocks on the disk.
    pub(super) fn reserve(&self, missing: Missing, purpose: WriteClass) -> Result<(), AppendError> {
        let _one_at_a_time = self.rolling.lock().unwrap_or_else(PoisonError::into_inner);
        // Held on while a file is made in the directory, which a close would else leave to others.
        let Some(_lock) = self.lock().lock.clone() else {
            return Err(Stopped::Closed.into());
        };
        if self.lock().id.is_none() {
            let mut id = [0; 16];
            self.fs.random(&mut id).disk("make an identity for", &self.dir)?;
            self.lock().id = Some(LogId(id));
        }
        // Somebody else may have taken it meanwhile.
        let had = usable(&self.lock().reserved, purpose).nth(missing.at);
        if had.is_some_and(|(_, room)| room >= missing.room) {
            return Ok(());
        }
        let want =
            Want { class: missing.class, room: missing.room, purpose, dir: self.dir.as_path() };
        let mut spare = self.source.take(&want).map_err(|error| match error {
            TakeError::Limited(limited) => AppendError::Limited(limited),
            TakeError::Disk(error) => {
                DiskError::new("take a segment file for", &self.dir, error).into()
            }
        })?;
        if missing.is_early() {
            spare = self.move_in(spare)?;
        }
        let mut state = self.lock();
        if let Status::Stopped(why) = &state.status {
            let why = why.clone();
            drop(state);
            self.source.give_back(spare);
            return Err(why.into());
        }
        // What is reserved from there on is too small, or not for this purpose, and files are begun in order.
        let keep = missing.at.min(state.reserved.len());
        let unfit: Vec<Spare> = state.reserved.drain(keep..).collect();
        state.reserved.push_back(spare);
        drop(state);
        unfit.into_iter().for_each(|spare| self.source.give_back(spare));
        Ok(())
    }

    /// Reads the block that the next record begins in, as writes cover whole blocks.
    pub(super) fn load_tail<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>, AppendError> {
        let Some(active) = &state.active else { return Ok(state) };
        let (segment, staged) = (Arc::clone(&active.segment), active.staged);
        drop(state);
        let start = staged - staged % BLOCK_LEN as u64;
        #[allow(clippy::cast_possible_truncation, reason = "below 4096")]
        let mut tail = vec![0; (staged - start) as usize];
        let context = "read the last block of";
        let file = self.files.get(segment.id, &segment.path, Access::Write);
        let file = file.disk("open", &segment.path)?;
        let read = file.read_at(start, &mut tail).disk(context, &segment.path)?;
        if read < tail.len() {
            let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(DiskError::new(context, &segment.path, short).into());
        }
        state = self.lock();
        if let Some(active) = &mut state.active
            && active.segment.id == segment.id
            && active.staged == staged
        {
            active.tail.set(&tail);
        }
        Ok(state)
    }

    fn stage(
        self: &Arc<Self>,
        state: &mut State,
        batch: &Batch<'_>,
        permit: &Permit,
    ) -> Result<Ticket, AppendError> {
        let now = self.clock.unix_millis().min(record::MILLIS_MAX);
        let first = state.next;
        let mut buffers = self.reserve_buffers(state, batch)?;
        permit.use_up()?;
        for (new, len) in batch.records.iter().zip(batch.lens()) {
            self.stage_one(state, &mut buffers, new, len, (now, permit.class()));
        }
        state.last_append = self.clock.elapsed();
        self.reserve_ahead(state);
        let seq = state.next_seq - 1;
        let epoch = Arc::clone(&state.epoch);
        Ok(Ticket::new(Arc::clone(self), epoch, first, batch.records.len() as u64, seq))
    }

    /// Makes sure of the memory before the first record is encoded, so that a batch is staged whole or not at all.
    /// Gives the buffers for the chunks that it begins.
    fn reserve_buffers(
        &self,
        state: &mut State,
        batch: &Batch<'_>,
    ) -> Result<Buffers, AppendError> {
        let refused = || AppendError::Memory(batch.total);
        // The tail block's image comes before the batch, and a commit pads its last block.
        let more = usize::try_from(batch.total).map_err(|_| refused())? + 2 * BLOCK_LEN;
        let left = state.space_left();
        // All that the batch needs is there, whatever it is for.
        let reserved = usable(&state.reserved, WriteClass::Recovery);
        let begins = match fit(&self.ladder, left, reserved, batch.lens()) {
            Fit::Begins(begins) => begins,
            Fit::Lacks(missing) => missing.at,
        };
        let stays = batch.stays(left);
        let mut buffers = Buffers::default();
        for _ in 0..begins + usize::from(stays && state.open_chunk().is_none()) {
            let mut buffer = Buffer::new(&self.buffers);
            if !buffer.reserve(more) {
                return Err(refused());
            }
            buffers.push(buffer);
        }
        if let Some(chunk) = state.open_chunk().filter(|_| stays)
            && !chunk.buffer.reserve(more)
        {
            return Err(refused());
        }
        Ok(buffers)
    }

    fn stage_one(
        &self,
        state: &mut State,
        buffers: &mut Buffers,
        new: &NewRecord<'_>,
        len: u64,
        (now, purpose): (u64, WriteClass),
    ) {
        if state.space_left().is_none_or(|(_, left)| left < len) {
            self.begin_file(state, purpose);
        }
        if state.open_chunk().is_none() {
            let buffer = buffers.pop().unwrap_or_else(|| Buffer::new(&self.buffers));
            state.begin_chunk(buffer);
        }
        let offset = state.next;
        let (Some(active), Some(chunk)) = (&mut state.active, state.chunks.back_mut()) else {
            unreachable!("a file and a chunk were begun above")
        };
        let (segment, position) = (&active.segment, active.staged);
        #[allow(clippy::cast_possible_truncation, reason = "sizes were checked by Batch::check")]
        let (header, len_in_memory) = (
            RecordHeader {
                payload_len: new.payload.len() as u32,
                headers_len: new.headers.len() as u16,
                generation: segment.generation,
                unsynced: unsynced(position - segment.durable()) as u32,
                relative: (offset.0 - segment.base.0) as u32,
                millis: now,
            },
            len as usize,
        );
        let key = Key::new(segment.log, segment.generation, segment.base);
        let out = chunk.buffer.extend(len_in_memory);
        record::encode(out, key, position, &header, new.headers, new.payload);
        // Once a file: the clock is no work for each record.
        active.begun.get_or_insert_with(|| (self.clock.elapsed(), position));
        active.staged += len;
        chunk.end = offset.plus(1);
        chunk.record_bytes += len;
        chunk.millis = chunk.millis.max(now);
        state.millis = state.millis.max(now);
        state.next = chunk.end;
    }

    /// Lets staging go on in the next reserved file. Nothing is written into it yet, not even its header.
    fn begin_file(&self, state: &mut State, purpose: WriteClass) {
        let Some(mut spare) = state.reserved.pop_front() else {
            unreachable!("all files of a batch are reserved before it is staged")
        };
        let segment = self.new_segment(state, &spare, state.next, state.millis, Origin::Roll);
        state.segments.push_back(Arc::clone(&segment));
        state.active = Some(Active::new(segment));
        spare.purpose = purpose;
        state.opening = Some(spare);
    }

    pub(super) fn new_segment(
        &self,
        state: &State,
        spare: &Spare,
        base: Offset,
        previous_millis: u64,
        origin: Origin,
    ) -> Arc<Segment> {
        let Some(log) = state.id else {
            unreachable!("the identity is made when the first file is reserved")
        };
        // In the place of an empty file it says of the segment before what that one said: a gap that a repair declared
        // would else be damage at the next start.
        let (previous_end, previous_millis, origin) = match state.segments.back() {
            Some(last) if last.base == base => {
                (last.previous_end, last.previous_millis, last.origin)
            }
            _ => (base, previous_millis, origin),
        };
        Arc::new(Segment {
            id: self.files.new_id(),
            path: self.dir.join(segment_file(base)),
            log,
            base,
            previous_end,
            previous_millis,
            generation: spare.generation,
            class: spare.class,
            capacity: spare.capacity,
            origin,
            created_millis: self.clock.unix_millis(),
            failed: AtomicBool::new(false),
            committed: AtomicBool::new(false),
            durable: AtomicU64::new(RECORDS_POSITION),
        })
    }

    /// At three quarters of a file the next one is asked for, so that a roll finds it ready.
    fn reserve_ahead(self: &Arc<Self>, state: &mut State) {
        let Some(class) = self.next_early(state) else { return };
        if !state.prepare_scheduled {
            state.wanted = Some((Missing::early(class), WriteClass::Publish));
            self.schedule_prepare(state);
        }
    }

    /// The class of the file that is to be reserved early, if it is time and none is.
    fn next_early(&self, state: &State) -> Option<SizeClass> {
        let active = state.active.as_ref()?;
        let full = active.staged >= active.segment.capacity / 4 * 3;
        // A slow log would hold a file for hours that others could use: thousands of them, more than all spares.
        let soon = || active.time_left(self.clock.elapsed()) <= RESERVED_FOR;
        let early = full && state.reserved.is_empty() && soon();
        early.then(|| self.ladder.next(Some(active.segment.class), 0))
    }

    /// The worker's part of an append that must not block: files, the tail block, healing.
    pub(crate) fn prepare(self: &Arc<Self>) {
        let mut state = self.lock();
        state.prepare_scheduled = false;
        let wanted = std::mem::take(&mut state.wanted);
        if let Status::Unhealed = state.status {
            state = self.heal_again(state);
        }
        // Without this whoever awaits an append asks again at once, and again, for as long as there is no file to heal into.
        let unhealed = match (&state.status, &state.heal_error) {
            (Status::Unhealed, Some(error)) => Some(AppendError::Disk(error.clone())),
            _ => None,
        };
        let open = matches!(state.status, Status::Open);
        // What was asked for early may have come with a batch that rolled by itself meanwhile: one more would lie idle.
        let late = self.next_early(&state).is_none();
        drop(state);
        let (mut result, mut of_class) = (unhealed.map_or(Ok(()), Err), None);
        let wanted = wanted.filter(|(missing, _)| open && !(missing.is_early() && late));
        if let Some((missing, purpose)) = wanted {
            let early = missing.is_early();
            of_class = Some(purpose);
            result = match self.reserve(missing, purpose) {
                // Nobody waits for it, and who waits for something else is not to be refused for it.
                Err(error) if early => {
                    tracing::debug!(log = %self.name, %error, "no file is reserved early");
                    Ok(())
                }
                other => other,
            };
        }
        if open && result.is_ok() {
            let state = self.lock();
            let missing = state.active.as_ref().is_some_and(|active| !active.tail.is_known());
            if missing && state.chunks.is_empty() && !state.leader {
                of_class = None;
                result = self.load_tail(state).map(drop);
            }
        }
        let mut state = self.lock();
        state.prepares += 1;
        state.prepare_error = result.err().map(|error| (of_class, error));
        self.wake_all(state);
    }

    fn no_file_error(&self, state: &State) -> AppendError {
        match &state.heal_error {
            Some(error) => AppendError::Disk(error.clone()),
            None => AppendError::Busy,
        }
    }
}

/// The reserved files that a write for `purpose` may begin, in order: their classes and the bytes that each has for records.
/// Ends at the first that it may not, as files are begun in order.
fn usable(
    reserved: &VecDeque<Spare>,
    purpose: WriteClass,
) -> impl Iterator<Item = (SizeClass, u64)> {
    reserved
        .iter()
        .take_while(move |spare| !spare.kept_back || purpose.may_use_kept_back())
        .map(|spare| (spare.class, spare.capacity - RECORDS_POSITION))
}

/// What a record says of the bytes before it: those that no sync has brought to the disk yet, its own batch's among
/// them. A torn batch whose records vouched for each other would be taken for damage.
fn unsynced(bytes: u64) -> u64 {
    if planted::is(Fault::ClaimsStagedAsDurable) { 0 } else { bytes }
}

/// Marks a file that must not be written again.
pub(super) fn mark_failed(segment: &Segment) {
    segment.failed.store(true, Ordering::Release);
}
