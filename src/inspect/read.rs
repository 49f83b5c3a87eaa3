//! Reads a log's records from its directory alone: of a running node, of one that is not running, or of a copy on a disk
//! that cannot be written.
//!
//! Only what is known to have been durable is given out: a later record's claim, a checkpoint or a later segment says so.
//! Records behind that may be cut off by the next start, or be unfinished; they are only counted.

use super::cursor::{Cursor, Frame, Next};
use super::records::{FileRecord, file_record};
use super::segment::read_header;
use super::window::Window;
use crate::error::{Damage, DiskContext, DiskError, ReadError};
use crate::format::checkpoint::Checkpoint;
use crate::format::header::Header;
use crate::format::name::parse_segment_file;
use crate::format::{BLOCK_LEN, CHECKPOINT_POSITION, Key, RECORDS_POSITION};
use crate::fs::{File, FileSystem};
use crate::recovery::{self, RecoverError, SegmentInfo};
use crate::types::Offset;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How often the directory is read again because a file went away in the middle.
const LOOKS_MAX: usize = 8;

/// A segment that is open for reading.
#[derive(Debug)]
struct Place {
    file: Arc<dyn File>,
    header: Header,
    base: Offset,
    path: PathBuf,
    cursor: Cursor,
}

/// Reads a log in order, and can look again for more.
#[derive(Debug)]
pub struct LogReader {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    /// The bases in the names of the directory when it was last read as a whole.
    names: Vec<Offset>,
    segments: Vec<SegmentInfo>,
    place: Option<Place>,
    wanted: Offset,
    /// In the last segment: a position up to which all is vouched, and the offset that comes there.
    vouched: (u64, Offset),
    behind: u64,
    damage: Option<Damage>,
}

impl LogReader {
    /// Opens the log in `dir` to read from `from`, or from its first record. Blocks on reads.
    ///
    /// # Errors
    /// [`ReadError::Gone`] below the log's head; [`ReadError::Beyond`] above the end of what is vouched for; the disk.
    pub fn open(
        fs: Arc<dyn FileSystem>,
        dir: &Path,
        from: Option<Offset>,
    ) -> Result<Self, ReadError> {
        let mut reader = Self {
            fs,
            dir: dir.to_path_buf(),
            names: Vec::new(),
            segments: Vec::new(),
            place: None,
            wanted: from.unwrap_or_default(),
            vouched: (RECORDS_POSITION, Offset::ZERO),
            behind: 0,
            damage: None,
        };
        reader.look()?;
        let head = reader.head();
        let (wanted, end) = (from.unwrap_or(head), reader.end());
        if wanted < head {
            return Err(ReadError::Gone { wanted, next: head });
        }
        if wanted > end {
            return Err(ReadError::Beyond { wanted, end });
        }
        reader.wanted = wanted;
        Ok(reader)
    }

    /// The first offset that the log holds.
    #[must_use]
    pub fn head(&self) -> Offset {
        self.segments.first().map_or(self.end(), |segment| segment.base)
    }

    /// All records before this one are vouched for, as of the last look.
    #[must_use]
    pub fn end(&self) -> Offset {
        self.vouched.1
    }

    /// How many records stood behind [`Self::end`] at the last look: confirmed or not, nothing in the files says so yet.
    #[must_use]
    pub fn behind(&self) -> u64 {
        self.behind
    }

    /// The offset of the record that comes next.
    #[must_use]
    pub fn position(&self) -> Offset {
        self.wanted
    }

    /// The next record that is vouched for, or `None` at their end; [`Self::refresh`] looks for more. Blocks on reads.
    ///
    /// # Errors
    /// [`ReadError::Gone`] if it was truncated meanwhile, or lies in a gap that a repair declared; the next call goes on
    /// behind that. Damage, at which the log's readable part ends. The disk.
    #[allow(clippy::should_implement_trait, reason = "there may be more after `None`")]
    pub fn next(&mut self) -> Result<Option<FileRecord>, ReadError> {
        for _ in 0..LOOKS_MAX {
            if self.wanted >= self.end() {
                return match &self.damage {
                    Some(damage) => Err(damage.clone().into()),
                    None => Ok(None),
                };
            }
            if !self.turn()? {
                continue;
            }
            if let Some(record) = self.read()? {
                self.wanted = self.wanted.plus(1);
                return Ok(Some(record));
            }
        }
        let again = io::Error::other("its files change too fast to be read");
        Err(DiskError::new("read", &self.dir, again).into())
    }

    /// Looks for more records; says whether there are any. Cheap where no file came or went: it lists the directory and
    /// reads on from the end. Blocks on reads.
    ///
    /// # Errors
    /// The disk.
    pub fn refresh(&mut self) -> Result<bool, ReadError> {
        if self.names()? != self.names || !self.read_on()? {
            self.look()?;
        }
        if let Some(place) = &mut self.place {
            place.cursor.window().forget();
        }
        Ok(self.wanted < self.end())
    }

    fn names(&self) -> Result<Vec<Offset>, ReadError> {
        let entries = self.fs.list(&self.dir).disk("list", &self.dir)?;
        Ok(entries.iter().filter_map(|entry| parse_segment_file(&entry.name)).collect())
    }

    /// Reads the directory as a whole.
    fn look(&mut self) -> Result<(), ReadError> {
        // Before the look: a file that comes during it is met by the next refresh.
        self.names = self.names()?;
        let look = recovery::look(&*self.fs, &self.dir).map_err(|error| self.refused(error))?;
        let end = look.end();
        self.vouched = match (&look.tail, &look.damage) {
            // Whatever tells of the damage vouches for all before it.
            (_, Some(_)) | (None, None) => (end.position, end.next),
            (Some(tail), None) => (tail.vouched.position, tail.vouched.next),
        };
        self.behind = end.next.0.saturating_sub(self.vouched.1.0);
        self.segments = look.segments;
        self.damage = look.damage;
        Ok(())
    }

    fn refused(&self, error: RecoverError) -> ReadError {
        let source = match error {
            RecoverError::Io { source, .. } => source,
            other => io::Error::other(other),
        };
        DiskError::new("read", &self.dir, source).into()
    }

    /// Reads on from the end of what is vouched for; `false` if the last file is not what it was.
    fn read_on(&mut self) -> Result<bool, ReadError> {
        let Some(last) = self.segments.last() else { return Ok(true) };
        if self.damage.is_some() {
            return Ok(false);
        }
        let Some(mut place) = self.open_place(last)? else { return Ok(false) };
        let path = place.path.clone();
        let (position, next) = self.vouched;
        place.go_to(position, next);
        if let Some(checkpoint) = place.checkpoint().disk("read", &path)?
            && checkpoint.position > position
        {
            place.go_to(checkpoint.position, checkpoint.next);
        }
        let (vouched, end) = place.walk().disk("read", &path)?;
        if place.cursor.claim().is_some_and(|(claim, _)| claim > place.cursor.position()) {
            return Ok(false);
        }
        self.vouched = vouched;
        self.behind = end.0.saturating_sub(vouched.1.0);
        Ok(true)
    }

    /// Makes the open segment the one that holds the wanted record; `false` if the directory had to be read again.
    fn turn(&mut self) -> Result<bool, ReadError> {
        let holds = self.segments.partition_point(|segment| segment.base <= self.wanted);
        let next_base = self.segments.get(holds).map(|segment| segment.base);
        let previous_end = self.segments.get(holds).map(|segment| segment.previous_end);
        let Some(segment) = holds.checked_sub(1).and_then(|at| self.segments.get(at)) else {
            return self.gone(self.head());
        };
        if let Some(next) = next_base.filter(|_| previous_end <= Some(self.wanted)) {
            return self.gone(next);
        }
        if self.place.as_ref().is_some_and(|place| place.path == segment.path) {
            return Ok(true);
        }
        match self.open_place(segment)? {
            Some(mut place) => {
                let path = place.path.clone();
                let checkpoint = place.checkpoint().disk("read", &path)?;
                match checkpoint.filter(|checkpoint| checkpoint.next <= self.wanted) {
                    Some(checkpoint) => place.go_to(checkpoint.position, checkpoint.next),
                    None => place.go_to(RECORDS_POSITION, place.base),
                }
                self.place = Some(place);
                Ok(true)
            }
            None => self.look_for_wanted(),
        }
    }

    /// The file of a segment; `None` if it is not there any more, or is another use of it.
    fn open_place(&self, segment: &SegmentInfo) -> Result<Option<Place>, ReadError> {
        let path = &segment.path;
        let file = match self.fs.open_read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.disk("open", path)?,
        };
        let header = read_header(&*file).disk("read", path)?;
        let Some(header) = header.ok().filter(|header| header.generation == segment.generation)
        else {
            return Ok(None);
        };
        let Some(in_use) = header.in_use.filter(|in_use| in_use.base == segment.base) else {
            return Ok(None);
        };
        let frame = Frame {
            key: Key::new(in_use.log, header.generation, in_use.base),
            generation: header.generation,
        };
        let end = header.capacity.min(file.len().disk("read the length of", path)?);
        let cursor = Cursor::new(Window::new(Arc::clone(&file), end), frame);
        let (base, path) = (in_use.base, path.clone());
        Ok(Some(Place { file, header, base, path, cursor }))
    }

    /// The wanted record from the open segment; `None` if the directory had to be read again.
    fn read(&mut self) -> Result<Option<FileRecord>, ReadError> {
        let Some(place) = &mut self.place else { return Ok(None) };
        let found = place.find(self.wanted).disk("read", &place.path)?;
        let error = match found {
            Ok(record) => return Ok(Some(record)),
            Err(error) => error,
        };
        // The header by its name decides: another use of the file is no damage.
        let (path, header) = (place.path.clone(), place.header);
        let now = match self.fs.open_read(&path).and_then(|file| read_header(&*file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => other.disk("read", &path)?.ok(),
        };
        let position = place.cursor.position();
        self.place = None;
        if now == Some(header) {
            let offset = Some(self.wanted);
            let detail = format!("{error}; it was known to be durable").into();
            return Err(Damage { file: path, position, offset, detail }.into());
        }
        self.look_for_wanted().map(|_| None)
    }

    fn look_for_wanted(&mut self) -> Result<bool, ReadError> {
        self.place = None;
        self.look()?;
        if self.wanted < self.head() {
            return self.gone(self.head());
        }
        Ok(false)
    }

    fn gone<T>(&mut self, next: Offset) -> Result<T, ReadError> {
        let wanted = std::mem::replace(&mut self.wanted, next);
        Err(ReadError::Gone { wanted, next })
    }
}

impl Place {
    fn go_to(&mut self, position: u64, next: Offset) {
        self.cursor.seek(position, next.0.saturating_sub(self.base.0));
    }

    fn checkpoint(&self) -> io::Result<Option<Checkpoint>> {
        let mut block = [0; BLOCK_LEN];
        let read = self.file.read_at(CHECKPOINT_POSITION, &mut block)?;
        let found = Checkpoint::parse(&block[..read]);
        Ok(found.filter(|found| found.belongs_to(&self.header)))
    }

    /// Walks to the record `wanted` and reads it, or says why that cannot be done.
    fn find(&mut self, wanted: Offset) -> io::Result<Result<FileRecord, String>> {
        let wanted = wanted.0.saturating_sub(self.base.0);
        if self.cursor.next_relative() > wanted {
            self.cursor.seek(RECORDS_POSITION, 0);
        }
        let mut looked_again = false;
        loop {
            let at = self.cursor.next_relative();
            match self.cursor.step()? {
                Next::Record(found) if at == wanted => {
                    let offset = Some(self.base.plus(wanted));
                    return Ok(match self.cursor.read(&found)? {
                        Some(bytes) => Ok(file_record(&found, offset, &bytes)),
                        None => Err("the record changed while it was read".to_owned()),
                    });
                }
                Next::Record(_) => {}
                // The buffer may have been filled before the record was written.
                Next::Stop(_) if !looked_again => {
                    looked_again = true;
                    self.cursor.window().forget();
                }
                Next::Stop(error) => return Ok(Err(error.to_string())),
            }
        }
    }

    /// Walks on to where the records stop. Gives the end of what is vouched for, from the cursor on, and that of all.
    fn walk(&mut self) -> io::Result<((u64, Offset), Offset)> {
        let mut vouched = (self.cursor.position(), self.cursor.next_relative());
        let mut since = VecDeque::new();
        while let Next::Record(_) = self.cursor.step()? {
            since.push_back((self.cursor.position(), self.cursor.next_relative()));
            let claim = self.cursor.claim().map_or(0, |(claim, _)| claim);
            while let Some(boundary) = since.pop_front() {
                if boundary.0 > claim {
                    since.push_front(boundary);
                    break;
                }
                vouched = boundary;
            }
        }
        let end = self.base.plus(self.cursor.next_relative());
        Ok(((vouched.0, self.base.plus(vouched.1)), end))
    }
}
