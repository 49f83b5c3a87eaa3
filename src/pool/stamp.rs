//! Headers of files that have left their log.

use crate::format::SECTOR_LEN;
use crate::format::header::Header;
use crate::format::layout::ClassSizes;
use crate::fs::{File, FileSystem, Write};
use crate::planted::{self, Fault};
use crate::types::{Generation, SizeClass};
use std::io;
use std::path::Path;

/// Why a file cannot serve again.
#[derive(Debug)]
pub(super) enum Unfit {
    /// It was used as often as it can be.
    LastGeneration,
    /// It cannot be opened now.
    Unopened(io::Error),
    /// Its header is not valid, or not that of a file of this directory's sizes, or it cannot be read or written. A
    /// generation is never guessed.
    Unreadable(io::Error),
}

impl From<io::Error> for Unfit {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

/// A header that was written for the next use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub(super) class: SizeClass,
    pub(super) generation: Generation,
    /// It was a spare's already.
    pub(super) again: bool,
}

/// What serves again is of one of the sizes, and whole.
pub(super) fn class_of(
    fs: &dyn FileSystem,
    path: &Path,
    sizes: &ClassSizes,
) -> Result<Header, Unfit> {
    let file = fs.open_read(path)?;
    header_of(&*file, sizes)
}

fn header_of(file: &dyn File, sizes: &ClassSizes) -> Result<Header, Unfit> {
    let mut sector = [0; SECTOR_LEN];
    let read = file.read_at(0, &mut sector)?;
    if planted::is(Fault::GenerationGuessed)
        && let Err(_) = Header::parse(&sector[..read])
        && let Some(class) = SizeClass::ALL
            .into_iter()
            .find(|class| Ok(sizes.of(*class)) == file.len().map_err(drop))
    {
        let capacity = sizes.of(class);
        let generation = Generation::FIRST;
        return Ok(Header { generation, class, capacity, created_millis: 0, in_use: None });
    }
    let invalid =
        |what: String| Unfit::Unreadable(io::Error::new(io::ErrorKind::InvalidData, what));
    let header = Header::parse(&sector[..read]).map_err(|error| invalid(error.to_string()))?;
    let len = file.len()?;
    if header.capacity != sizes.of(header.class) || len != header.capacity {
        return Err(invalid(format!("{len} bytes, its header says {}", header.capacity)));
    }
    Ok(header)
}

/// The generation of the next use of a file; `last` is the last one that a file may have.
pub(super) fn next(generation: Generation, last: Generation) -> Result<Generation, Unfit> {
    if planted::is(Fault::GenerationWraps) && generation >= last {
        return Ok(Generation::FIRST);
    }
    generation.next().filter(|next| *next <= last).ok_or(Unfit::LastGeneration)
}

/// Writes the spare header with the next generation over the header of the file at `path`, and syncs it: whatever the file
/// holds is of an earlier one from now on, and no record with the new one can be older than this header (I7).
///
/// The file must have no other name that a power cut could bring back.
pub(super) fn stamp(
    fs: &dyn FileSystem,
    path: &Path,
    sizes: &ClassSizes,
    last: Generation,
    now: u64,
) -> Result<Stamp, Unfit> {
    let file = fs.open_write(path).map_err(Unfit::Unopened)?;
    let header = header_of(&*file, sizes)?;
    let generation = if planted::is(Fault::StampedWithSameGeneration) {
        header.generation
    } else {
        next(header.generation, last)?
    };
    let spare = Header { generation, created_millis: now, in_use: None, ..header };
    let block = spare.encode();
    if planted::is(Fault::StampNotSynced) {
        file.write_at(0, &block)?;
    } else {
        file.write_and_sync(&[Write { position: 0, bytes: &block }])?;
    }
    Ok(Stamp { class: header.class, generation, again: header.in_use.is_none() })
}
