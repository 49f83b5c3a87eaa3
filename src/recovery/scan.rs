//! Gathers the facts about a log's directory: names, headers, and what stands behind a header that is not the log's.
//! Reads only.

use super::beyond::{self, Behind, Whose};
use super::decide::{FileFacts, HeaderFact};
use super::error::RecoverError;
use crate::format::checkpoint::Checkpoint;
use crate::format::header::{Header, HeaderError, InUse, Origin};
use crate::format::name::parse_segment_file;
use crate::format::{BLOCK_LEN, CHECKPOINT_POSITION, Key, SECTOR_LEN};
use crate::fs::{DirEntry, FileKind, FileSystem};
use crate::planted::{self, Fault};
use crate::types::{LogId, Offset};
use std::path::{Path, PathBuf};

/// The end of names that a crash may leave half-made; nothing in them was ever promised.
const TEMPORARY_SUFFIX: &[u8] = b".tmp";

/// What a name in a log's directory is.
#[derive(Debug, PartialEq, Eq)]
enum Name {
    Segment(Offset),
    Temporary,
    /// Logs are nested: `a/b` lives in the directory of `a`.
    Directory,
    Link,
    Foreign,
}

fn classify(entry: &DirEntry) -> Name {
    let temporary = entry.name.as_encoded_bytes().ends_with(TEMPORARY_SUFFIX);
    match (entry.kind, parse_segment_file(&entry.name)) {
        (FileKind::Link, _) => Name::Link,
        (FileKind::Directory, None) => Name::Directory,
        (FileKind::File, Some(base)) => Name::Segment(base),
        (FileKind::File, None) if temporary => Name::Temporary,
        (FileKind::File | FileKind::Directory | FileKind::Other, _) => Name::Foreign,
    }
}

/// A segment file and what its header says.
#[derive(Debug)]
pub(super) struct SegmentFile {
    /// The base offset in its name.
    pub(super) name: Offset,
    pub(super) path: PathBuf,
    pub(super) header: Result<Header, HeaderError>,
}

/// What was found in a log's directory.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// In the order of their names.
    pub(super) files: Vec<SegmentFile>,
    pub(super) temporary: Vec<PathBuf>,
    /// The identity of the log, by its first file with a header of its own.
    pub(super) log: Option<LogId>,
    pub(super) bytes_read: u64,
}

/// Reads names and headers. One file is open at a time, and one sector of each is read.
pub(super) fn gather(fs: &dyn FileSystem, dir: &Path) -> Result<Gathered, RecoverError> {
    let entries = fs.list(dir).map_err(RecoverError::io("listing", dir, 0))?;
    let mut gathered = Gathered::default();
    for entry in &entries {
        let path = dir.join(&entry.name);
        match classify(entry) {
            Name::Directory => {}
            Name::Temporary => gathered.temporary.push(path),
            Name::Link => return Err(RecoverError::Link { path }),
            Name::Foreign => return Err(RecoverError::Foreign { path }),
            Name::Segment(name) => {
                let header = read_header(fs, &path, &mut gathered.bytes_read)?;
                if let Err(error @ HeaderError::Newer(_)) = header {
                    return Err(RecoverError::Newer { path, error });
                }
                gathered.files.push(SegmentFile { name, path, header });
            }
        }
    }
    gathered.files.sort_unstable_by_key(|file| file.name);
    gathered.log = gathered.files.iter().find_map(|file| {
        let in_use = file.header.as_ref().ok()?.in_use?;
        (in_use.base == file.name).then_some(in_use.log)
    });
    if planted::is(Fault::TrailingFileTrusted) {
        adopt_strangers(&mut gathered);
    }
    Ok(gathered)
}

/// Reads the header of the file at `path`.
pub(super) fn read_header(
    fs: &dyn FileSystem,
    path: &Path,
    bytes_read: &mut u64,
) -> Result<Result<Header, HeaderError>, RecoverError> {
    let file = fs.open_read(path).map_err(RecoverError::io("opening", path, 0))?;
    let mut sector = [0; SECTOR_LEN];
    let read =
        file.read_at(0, &mut sector).map_err(RecoverError::io("reading the header", path, 0))?;
    *bytes_read += read as u64;
    Ok(Header::parse(&sector[..read]))
}

/// The mistake that [`Fault::TrailingFileTrusted`] plants: what stands in the directory is the log's.
fn adopt_strangers(gathered: &mut Gathered) {
    for file in &mut gathered.files {
        let (Ok(header), Some(log)) = (&mut file.header, gathered.log) else { continue };
        if header.in_use.is_none_or(|in_use| in_use.base != file.name) {
            header.in_use = Some(InUse {
                log,
                base: file.name,
                previous_end: file.name,
                previous_millis: 0,
                origin: Origin::Roll,
            });
        }
    }
}

/// The facts about a file; what stands behind its header is only looked at where that decides.
pub(super) fn facts(
    fs: &dyn FileSystem,
    file: &SegmentFile,
    log: Option<LogId>,
    trailing: bool,
    bytes_read: &mut u64,
) -> Result<FileFacts, RecoverError> {
    let header = HeaderFact::of(&file.header, file.name, log);
    let decides =
        matches!(header, HeaderFact::Zero | HeaderFact::Spare | HeaderFact::OtherBase) && trailing;
    let behind = if decides { look_behind(fs, file, log)? } else { Behind::default() };
    *bytes_read += behind.bytes_read;
    Ok(FileFacts { header, trailing, valid: behind.valid, claims: behind.claims })
}

fn look_behind(
    fs: &dyn FileSystem,
    file: &SegmentFile,
    log: Option<LogId>,
) -> Result<Behind, RecoverError> {
    let path = &file.path;
    let opened = fs.open_read(path).map_err(RecoverError::io("opening", path, 0))?;
    let len = opened.len().map_err(RecoverError::io("asking for the length", path, 0))?;
    let mut block = [0; BLOCK_LEN];
    let read = opened.read_at(CHECKPOINT_POSITION, &mut block).map_err(RecoverError::io(
        "reading the checkpoint",
        path,
        CHECKPOINT_POSITION,
    ))?;
    let header = file.header.as_ref().ok();
    let generation = header.map(|header| header.generation);
    let end = header.map_or(len, |header| len.min(header.capacity));
    // A spare's generation is durable before the file is taken, so a checkpoint or record that carries it is of the
    // use that began with this very header. A header of zeroes says nothing: then any use counts.
    let checkpoint = Checkpoint::parse(&block[..read])
        .filter(|found| generation.is_none_or(|generation| generation == found.generation));
    let in_use = header.and_then(|header| header.in_use);
    // A file under another name still holds the records of the base in its header; one without a base was being taken
    // for the base in its name.
    let base = in_use.map_or(file.name, |in_use| in_use.base);
    let log = in_use.map(|in_use| in_use.log).or_else(|| checkpoint.map(|found| found.log)).or(log);
    let whose = match (log, generation.or_else(|| checkpoint.map(|found| found.generation))) {
        (Some(log), Some(generation)) => Whose::Known(Key::new(log, generation, base), generation),
        // With the header's sector the whole first commit may be lost; later records prove themselves.
        (_, generation) => Whose::Anybody(generation),
    };
    let found = beyond::behind(&*opened, whose, end).map_err(RecoverError::io(
        "reading records",
        path,
        crate::format::RECORDS_POSITION,
    ))?;
    // A checkpoint is written after the header is durable, so it vouches for the header too.
    Ok(Behind {
        valid: found.valid || checkpoint.is_some(),
        claims: found.claims || checkpoint.is_some(),
        bytes_read: found.bytes_read + read as u64,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn names_are_told_apart_and_nothing_foreign_passes() {
        use FileKind::{Directory, File, Link, Other};
        let of = |name: &str, kind| classify(&DirEntry { name: name.into(), kind });
        let segment = "00000000000000000042.seg";
        assert_eq!(of(segment, File), Name::Segment(Offset(42)));
        assert_eq!(of(segment, Directory), Name::Foreign);
        assert_eq!(of(segment, Link), Name::Link);
        assert_eq!(of(segment, Other), Name::Foreign);
        assert_eq!(of("a", Directory), Name::Directory);
        assert_eq!(of("a.tmp", Directory), Name::Directory);
        assert_eq!(of("a.tmp", File), Name::Temporary);
        assert_eq!(of("a.tmp", Link), Name::Link);
        assert_eq!(of("a.tmp", Other), Name::Foreign);
        for foreign in ["42.seg", "0000000000000000004x.seg", "index", "99999999999999999999.seg"] {
            assert_eq!(of(foreign, File), Name::Foreign, "{foreign}");
        }
    }
}
