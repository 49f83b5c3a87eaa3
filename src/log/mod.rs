//! A log: stage, commit, read, truncate, heal.

use crate::admission::Permit;
use crate::error::{AppendError, CommitError, DiskError, PublishError, ReadError, Stopped};
use crate::format::name::LogName;
use crate::types::{Offset, SizeClass, WriteClass};
use std::time::Duration;

/// A record to append: borrowed, copied once, into the staging buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewRecord<'a> {
    /// Headers: opaque to the log, at most 65,535 bytes; [`crate::format::headers`] is the usual encoding.
    pub headers: &'a [u8],
    /// The payload; may be empty.
    pub payload: &'a [u8],
}

impl<'a> NewRecord<'a> {
    /// A record without headers.
    #[must_use]
    pub const fn new(payload: &'a [u8]) -> Self {
        Self { headers: &[], payload }
    }
}

/// A record as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its offset.
    pub offset: Offset,
    /// When it was appended, by the wall clock, Unix milliseconds.
    pub millis: u64,
    /// Its headers.
    pub headers: Vec<u8>,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// Where a confirmed batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub first: Offset,
    /// How many records it has.
    pub count: u64,
}

/// What a truncation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The log's head now: the first offset that it holds, at or before the one asked for, since only whole segments go.
    pub head: Offset,
    /// How many segment files were freed.
    pub segments_freed: u64,
    /// Their sizes.
    pub bytes_freed: u64,
}

/// The sizes of a log, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogBytes {
    /// What its records take, headers and padding included.
    pub held: u64,
    /// The sizes of its files.
    pub on_disk: u64,
}

/// One of a log's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentView {
    /// Offset of its first record.
    pub base: Offset,
    /// Its size class.
    pub class: SizeClass,
    /// Its file's size in bytes.
    pub capacity: u64,
}

/// How a log is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LogOptions {
    /// Make the log if there is none.
    pub create: bool,
    /// Stop at small segments; for logs of metadata and acknowledgements.
    pub small: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { create: true, small: false }
    }
}

/// A log. Cheap to clone; all clones are the same log.
#[derive(Clone, Debug)]
pub struct Log {}

/// A staged batch on its way to the disk. Wait for it, poll it, or drop it: it is committed in any case.
#[derive(Debug)]
pub struct Ticket {}

impl Ticket {
    /// Blocks until the batch is durable.
    ///
    /// # Errors
    /// [`CommitError`] says whether it may have been written.
    pub fn wait(self) -> Result<Appended, CommitError> {
        todo!()
    }
}

impl std::future::Future for Ticket {
    type Output = Result<Appended, CommitError>;
    fn poll(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        todo!()
    }
}

/// Reads a log's durable records in order.
#[derive(Debug)]
pub struct Reader {}

impl Reader {
    /// The next record, or `None` at the durable end; more may come, see [`Reader::wait`].
    ///
    /// # Errors
    /// [`ReadError::Gone`] if it was truncated meanwhile; damage; closed; the disk.
    pub fn next(&mut self) -> Result<Option<Record>, ReadError> {
        todo!()
    }

    /// Blocks until there is a next record, at most `timeout`; says whether there is.
    ///
    /// # Errors
    /// If the log was closed or deleted.
    pub fn wait(&self, _timeout: Duration) -> Result<bool, ReadError> {
        todo!()
    }

    /// The offset of the next record.
    pub fn position(&self) -> Offset {
        todo!()
    }
}

#[allow(missing_docs)]
impl Log {
    pub fn name(&self) -> &LogName {
        todo!()
    }
    /// Stages and gives a ticket. Blocks for staging room or a file.
    pub fn append(&self, _permit: Permit, _r: &[NewRecord<'_>]) -> Result<Ticket, AppendError> {
        todo!()
    }
    /// Admit, wait, append, wait for the disk.
    pub fn publish(&self, _c: WriteClass, _r: &[NewRecord<'_>]) -> Result<Appended, PublishError> {
        todo!()
    }
    pub fn read_from(&self, _offset: Offset) -> Result<Reader, ReadError> {
        todo!()
    }
    /// The first offset whose running maximum of stamps is at or above `millis`, or the durable end.
    pub fn offset_for_time(&self, _millis: u64) -> Result<Offset, ReadError> {
        todo!()
    }
    pub fn truncate_before(&self, _offset: Offset) -> Result<Truncated, DiskError> {
        todo!()
    }
    pub fn head(&self) -> Offset {
        todo!()
    }
    pub fn tail(&self) -> Offset {
        todo!()
    }
    pub fn durable(&self) -> Offset {
        todo!()
    }
    pub fn bytes(&self) -> LogBytes {
        todo!()
    }
    pub fn segments(&self) -> Vec<SegmentView> {
        todo!()
    }
    /// `None` while it takes appends.
    pub fn stopped(&self) -> Option<Stopped> {
        todo!()
    }
}
