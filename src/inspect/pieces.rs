//! Takes the records of one file apart into unbroken runs, and decides which breaks are damage.

use super::cursor::{At, Cursor, Next};
use crate::format::record::RecordError;
use std::io;

/// The most runs that are told apart in one file. Each is followed by a break of at least 8 bytes.
const PIECES_MAX: usize = 4096;

/// Records without a break between them, and what stands behind the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Offset of the first record, counted from the base.
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) headers_bytes: u64,
    pub(crate) millis: Option<(u64, u64)>,
    pub(crate) millis_max: u64,
    /// Why the run ends at `to`.
    pub(crate) stop: RecordError,
}

impl Piece {
    fn new(cursor: &Cursor) -> Self {
        Self {
            from: cursor.position(),
            to: cursor.position(),
            first: cursor.next_relative(),
            count: 0,
            payload_bytes: 0,
            headers_bytes: 0,
            millis: None,
            millis_max: 0,
            stop: RecordError::Nothing,
        }
    }

    /// Offset of the record that would come next, counted from the base.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.count
    }

    fn take(&mut self, at: &At) {
        self.to = at.end();
        self.count += 1;
        self.payload_bytes += u64::from(at.header.payload_len);
        self.headers_bytes += u64::from(at.header.headers_len);
        let first = self.millis.map_or(at.header.millis, |(first, _)| first);
        self.millis = Some((first, at.header.millis));
        self.millis_max = self.millis_max.max(at.header.millis);
    }
}

/// Something that says that all bytes below a position were durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VouchedBy {
    /// The checkpoint block.
    Checkpoint,
    /// The record at this position.
    Record(u64),
    /// The next segment's header, by its *previous end*.
    NextSegment,
}

/// All that was found between the first record's place and the end of the file.
#[derive(Clone, Debug)]
pub(crate) struct Pieces {
    /// Never empty; the first begins where a file's first record stands.
    pub(crate) pieces: Vec<Piece>,
    /// Records behind a break whose offset does not fit what is before them.
    pub(crate) strays: u64,
    /// The furthest claim of any valid record, and where that record stands.
    pub(crate) claim: Option<(u64, u64)>,
    /// There are more breaks than are told apart; what is behind the last one was not looked at.
    pub(crate) more: bool,
    /// What the checkpoint said of a place where records were met, if it was wrong.
    pub(crate) checkpoint_wrong: Option<(u64, u64)>,
    /// The piece in which the offset was met where the segment is to end, as far as it goes up to there.
    pub(crate) sealed: Option<Piece>,
}

/// Reads on to the end of the file. `checkpoint` is a position and the relative offset of the record that comes there;
/// `sealed` the relative offset where the next segment says that this one ends.
pub(crate) fn take_apart(
    cursor: &mut Cursor,
    checkpoint: Option<(u64, u64)>,
    sealed: Option<u64>,
) -> io::Result<Pieces> {
    let mut found = Pieces {
        pieces: Vec::new(),
        strays: 0,
        claim: None,
        more: false,
        checkpoint_wrong: None,
        sealed: None,
    };
    loop {
        let mut piece = Piece::new(cursor);
        piece.stop = loop {
            let next = piece.next();
            if sealed == Some(next) {
                found.sealed.get_or_insert(piece);
            }
            if checkpoint.is_some_and(|(position, said)| piece.to == position && next != said) {
                found.checkpoint_wrong.get_or_insert((piece.to, next));
            }
            match cursor.step()? {
                Next::Record(at) => {
                    let inside = |position| at.position < position && position < at.end();
                    if checkpoint.is_some_and(|(position, _)| inside(position)) {
                        found.checkpoint_wrong.get_or_insert((at.position, next));
                    }
                    piece.take(&at);
                }
                Next::Stop(error) => break error,
            }
        };
        found.pieces.push(piece);
        found.more = found.pieces.len() >= PIECES_MAX;
        if found.more || !found.resume(cursor, &piece)? {
            found.claim = cursor.claim();
            return Ok(found);
        }
    }
}

impl Pieces {
    /// Moves the cursor behind a break, to the next record that fits.
    fn resume(&mut self, cursor: &mut Cursor, before: &Piece) -> io::Result<bool> {
        let at = cursor.find_fitting(before.to, before.next(), &mut self.strays)?;
        let Some(at) = at else { return Ok(false) };
        cursor.seek(at.position, at.header.relative.into());
        Ok(true)
    }

    /// The place of the log's end in this file, among `pieces`: the first break that nothing vouches for. `None` if
    /// something vouches even for bytes behind the last record.
    ///
    /// `sealed` is the relative offset where the next segment says that this one ends.
    pub(crate) fn end(&self, vouched: u64, sealed: Option<u64>) -> Option<usize> {
        self.pieces.iter().position(|piece| match sealed {
            Some(next) => piece.next() >= next,
            None => piece.to >= vouched,
        })
    }
}
