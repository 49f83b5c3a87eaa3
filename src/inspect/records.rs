//! The records of one file, one after the other, on past damage; and the bytes of one, field by field.

use super::annotate::{Field, record_fields};
use super::cursor::{At, Cursor, Frame, Next};
use super::segment::derive;
use super::window::Window;
use crate::error::{DiskContext, DiskError};
use crate::format::header::Header;
use crate::format::record::{self, HEADER_LEN, RecordError};
use crate::format::{BLOCK_LEN, Key, RECORDS_POSITION, name};
use crate::fs::FileSystem;
use crate::types::{Generation, Offset};
use std::io;
use std::path::{Path, PathBuf};

/// A valid record of a file's present use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRecord {
    /// Where it stands.
    pub position: u64,
    /// What it takes, header and padding included.
    pub len: u64,
    /// Its offset, where the file's base is known.
    pub offset: Option<Offset>,
    /// Its offset, counted from the base.
    pub relative: u32,
    /// Unix milliseconds.
    pub millis: u64,
    /// The position below which all was durable when it was staged.
    pub claim: u64,
    /// Its generation.
    pub generation: Generation,
    /// Its headers, as stored.
    pub headers: Vec<u8>,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// What comes next in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A valid record.
    Record(FileRecord),
    /// The run of records breaks off here. Whether that is damage or what a crash left, [`super::segment`] tells.
    Break {
        /// Where.
        position: u64,
        /// The record that was expected.
        offset: Option<Offset>,
        /// Why there is none.
        error: RecordError,
        /// Where the next valid record stands; `None` if there is none.
        next_position: Option<u64>,
    },
}

/// Iterates over a file's records. Holds one record.
#[derive(Debug)]
pub struct Records {
    path: PathBuf,
    base: Option<Offset>,
    /// `None` when there is nothing more to come.
    cursor: Option<Cursor>,
}

/// Opens a file to go over its records. A spare, and a file that shows no key, have none.
///
/// # Errors
/// Of opening and reading it.
pub fn records(fs: &dyn FileSystem, path: &Path) -> Result<Records, DiskError> {
    let file = fs.open_read(path).disk("open", path)?;
    let len = file.len().disk("read the length of", path)?;
    let mut window = Window::new(file, len);
    let header = Header::parse(window.bytes(0, BLOCK_LEN).disk("read", path)?);
    let (base, frame) = match header {
        Ok(Header { in_use: Some(in_use), generation, .. }) => (
            Some(in_use.base),
            Some(Frame { key: Key::new(in_use.log, generation, in_use.base), generation }),
        ),
        Ok(_) => (None, None),
        Err(_) => {
            let named = path.file_name().and_then(name::parse_segment_file);
            (named, derive(&mut window).disk("read", path)?)
        }
    };
    window.limit(header.map_or(len, |header| header.capacity));
    let cursor = frame.map(|frame| Cursor::new(window, frame));
    Ok(Records { path: path.to_path_buf(), base, cursor })
}

impl Records {
    fn offset(&self, relative: u64) -> Option<Offset> {
        self.base.map(|base| base.plus(relative))
    }

    fn step(&mut self) -> io::Result<Option<Item>> {
        let Some(cursor) = &mut self.cursor else { return Ok(None) };
        let (position, expected) = (cursor.position(), cursor.next_relative());
        match cursor.step()? {
            Next::Record(at) => match cursor.read(&at)? {
                Some(bytes) => {
                    let offset = self.offset(at.header.relative.into());
                    Ok(Some(Item::Record(file_record(&at, offset, &bytes))))
                }
                None => {
                    self.cursor = None;
                    Err(io::Error::other("the record changed while it was read"))
                }
            },
            Next::Stop(error) => {
                let next = cursor.find_fitting(position, expected, &mut 0)?;
                let next_position = next.map(|at| at.position);
                match next {
                    Some(at) => cursor.seek(at.position, at.header.relative.into()),
                    None => self.cursor = None,
                }
                let offset = self.offset(expected);
                Ok(Some(Item::Break { position, offset, error, next_position }))
            }
        }
    }
}

impl Iterator for Records {
    type Item = Result<Item, DiskError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.step().disk("read", &self.path);
        if item.is_err() {
            self.cursor = None;
        }
        item.transpose()
    }
}

pub(crate) fn file_record(at: &At, offset: Option<Offset>, bytes: &[u8]) -> FileRecord {
    let body = &bytes[HEADER_LEN..];
    let (headers, rest) = body.split_at(at.header.headers_len.into());
    FileRecord {
        position: at.position,
        len: at.header.record_len(),
        offset,
        relative: at.header.relative,
        millis: at.header.millis,
        claim: at.claim(),
        generation: at.header.generation,
        headers: headers.to_vec(),
        payload: rest[..at.header.payload_len as usize].to_vec(),
    }
}

/// Which record of a file is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one with this offset.
    Offset(Offset),
    /// Whatever stands at this byte.
    Position(u64),
}

/// The bytes of one record, or of what stands where one should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordBytes {
    /// Where it stands.
    pub position: u64,
    /// All its bytes; only those of a header where there is no valid record.
    pub bytes: Vec<u8>,
    /// What they are, in order.
    pub fields: Vec<Field>,
    /// Why it is not valid.
    pub error: Option<RecordError>,
}

/// One record of a file, for a hex dump; `None` if the file has no such record.
///
/// # Errors
/// Of opening and reading the file.
pub fn record_bytes(
    fs: &dyn FileSystem,
    path: &Path,
    which: Which,
) -> Result<Option<RecordBytes>, DiskError> {
    let mut records = records(fs, path)?;
    let Some(cursor) = &mut records.cursor else { return Ok(None) };
    let base = records.base.unwrap_or_default();
    loop {
        let (position, expected) = (cursor.position(), cursor.next_relative());
        let next = match which {
            Which::Position(wanted) => {
                cursor.seek(wanted.max(RECORDS_POSITION), 0);
                return one(cursor).disk("read", path).map(Some);
            }
            Which::Offset(wanted) if base.plus(expected) == wanted => {
                return one(cursor).disk("read", path).map(Some);
            }
            Which::Offset(wanted) if base.plus(expected) > wanted => return Ok(None),
            Which::Offset(_) => cursor.step().disk("read", path)?,
        };
        if let Next::Stop(_) = next {
            let found = cursor.find_fitting(position, expected, &mut 0).disk("read", path)?;
            let Some(at) = found else { return Ok(None) };
            cursor.seek(at.position, at.header.relative.into());
        }
    }
}

/// The record at the cursor, valid or not.
fn one(cursor: &mut Cursor) -> io::Result<RecordBytes> {
    let position = cursor.position();
    let frame = cursor.frame();
    let left = cursor.window().end().saturating_sub(position);
    let head = cursor.window().bytes(position, HEADER_LEN)?.to_vec();
    let parsed = record::parse(&head, left, frame.key, position, frame.generation);
    let mut error = parsed.err();
    let mut bytes = head;
    if let Ok(parsed) = parsed {
        let len = usize::try_from(parsed.header.record_len()).unwrap_or(usize::MAX);
        bytes = vec![0; len];
        let read = cursor.window().read_whole(position, &mut bytes)?;
        bytes.truncate(read);
        error = if read < len {
            Some(RecordError::Short(read as u64))
        } else {
            record::check_body(&parsed, frame.key, position, &bytes[HEADER_LEN..]).err()
        };
    }
    let fields = record_fields(&bytes, position, frame.key);
    Ok(RecordBytes { position, bytes, fields, error })
}
