//! The files among the spares: what each is, and what a start makes of it. Nothing in them is a message.

use super::layout::read_layout;
use super::outcome::{Finding, Outcome};
use super::segment::read_header;
use super::tree::{finding, refused, special};
use crate::format::header::{Header, HeaderError};
use crate::format::layout::ClassSizes;
use crate::format::name::SEGMENT_SUFFIX;
use crate::fs::{FileKind, FileSystem};
use crate::types::Generation;
use std::io;
use std::path::{Path, PathBuf};

/// A file among the spares.
#[derive(Clone, Debug)]
pub struct SpareEntry {
    /// The file.
    pub path: PathBuf,
    /// Its length in bytes.
    pub file_len: u64,
    /// What it takes on the disk.
    pub disk_bytes: u64,
    /// Its header, or what is wrong with it; `None` if it cannot be read at all. A file that was given up just before a
    /// crash may still say *in use*; one without a spare's name was being made.
    pub header: Option<Result<Header, HeaderError>>,
    /// Whether a start removes it, since its name says that it was being made.
    pub temporary: bool,
}

/// How a file stands among the spares of its data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What it is.
    pub state: SpareState,
    /// The generation that a start stamps it with; `None` if a start deletes it.
    pub next_generation: Option<Generation>,
}

/// What a file among the spares is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpareState {
    /// Stamped as a spare.
    Stamped,
    /// Given up by a log and not stamped yet: its header still says *in use*.
    GivenUp,
    /// Not of the size that its header or the directory's layout gives its class.
    WrongSize,
    /// Its header cannot be read, so its generation is not known.
    Damaged,
    /// Its name says that it is being made.
    BeingMade,
}

impl SpareEntry {
    /// What the file is. `sizes` are those of the directory, where they are known.
    #[must_use]
    pub fn state(&self, sizes: Option<&ClassSizes>) -> SpareState {
        if self.temporary {
            return SpareState::BeingMade;
        }
        let Some(Ok(header)) = self.header else { return SpareState::Damaged };
        if self.file_len != header.capacity
            || sizes.is_some_and(|sizes| sizes.of(header.class) != header.capacity)
        {
            return SpareState::WrongSize;
        }
        if header.in_use.is_some() { SpareState::GivenUp } else { SpareState::Stamped }
    }

    /// The generation that a start stamps it with; `None` if a start deletes it, as a generation is never guessed and
    /// never wraps.
    #[must_use]
    pub fn next_generation(&self, sizes: Option<&ClassSizes>) -> Option<Generation> {
        let good = matches!(self.state(sizes), SpareState::Stamped | SpareState::GivenUp);
        self.header.filter(|_| good)?.ok()?.generation.next()
    }
}

impl SpareState {
    /// The name as tools print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stamped => "stamped",
            Self::GivenUp => "given up",
            Self::WrongSize => "wrong size",
            Self::Damaged => "damaged",
            Self::BeingMade => "being made",
        }
    }
}

/// How the file at `path` stands among the spares; `None` if it does not stand there.
pub(super) fn standing(fs: &dyn FileSystem, path: &Path) -> Option<Standing> {
    let dir = data_dir_of_spare(fs, path)?;
    let sizes = read_layout(fs, &dir.join("LAYOUT")).ok().and_then(Result::ok);
    let (spare, _) = read_spare(fs, path.to_path_buf()).ok()?;
    let (state, next_generation) =
        (spare.state(sizes.as_ref()), spare.next_generation(sizes.as_ref()));
    Some(Standing { state, next_generation })
}

/// The data directory among whose spares `path` is a name. A log may be named `spares` too; its directory stands below
/// `logs`, where no `LAYOUT` and no `LOCK` is.
fn data_dir_of_spare<'a>(fs: &dyn FileSystem, path: &'a Path) -> Option<&'a Path> {
    let spares = path.parent()?;
    let dir =
        spares.parent().filter(|_| spares.file_name().is_some_and(|name| name == "spares"))?;
    let is_file =
        |name: &str| fs.metadata(&dir.join(name)).is_ok_and(|found| found.kind == FileKind::File);
    (is_file("LAYOUT") || is_file("LOCK")).then_some(dir)
}

/// The files in `dir`, and what to say of what else is there. A directory that is not there has none.
pub(super) fn look_at_spares(
    fs: &dyn FileSystem,
    dir: &Path,
    findings: &mut Vec<Finding>,
) -> Vec<SpareEntry> {
    let entries = fs.list(dir).unwrap_or_else(|error| {
        findings.push(refused(dir, "listed", &error));
        Vec::new()
    });
    let mut spares = Vec::new();
    for entry in entries {
        let path = dir.join(&entry.name);
        if let Some(finding) = special(&path, entry.kind) {
            findings.push(finding);
            continue;
        }
        if entry.kind == FileKind::Directory {
            let detail = "is a directory, expected spare files";
            findings.push(finding(Outcome::Foreign, &path, detail));
            continue;
        }
        match read_spare(fs, path.clone()) {
            Ok((spare, _)) => spares.push(spare),
            // Taken since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => findings.push(refused(&path, "looked up", &error)),
        }
    }
    spares
}

/// One file; and the error, if its content cannot be read.
fn read_spare(fs: &dyn FileSystem, path: PathBuf) -> io::Result<(SpareEntry, Option<io::Error>)> {
    let found = fs.metadata(&path)?;
    let (header, error) = match fs.open_read(&path).and_then(|file| read_header(&*file)) {
        Ok(header) => (Some(header), None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
        Err(error) => (None, Some(error)),
    };
    let name = path.file_name().unwrap_or_default();
    let temporary = !name.as_encoded_bytes().ends_with(SEGMENT_SUFFIX.as_bytes());
    let (file_len, disk_bytes) = (found.len, found.disk_bytes);
    Ok((SpareEntry { path, file_len, disk_bytes, header, temporary }, error))
}

/// Looks again at what was suspicious: a node may have been stamping, taking or making it at that moment. Then says what
/// is left of it.
pub(super) fn settle_spares(
    fs: &dyn FileSystem,
    spares: &mut Vec<SpareEntry>,
    sizes: Option<&ClassSizes>,
    settle: &(dyn Fn() + Sync),
    findings: &mut Vec<Finding>,
) {
    let odd = |spare: &SpareEntry| {
        matches!(spare.state(sizes), SpareState::Damaged | SpareState::WrongSize)
    };
    if !spares.iter().any(odd) {
        return;
    }
    settle();
    spares.retain_mut(|spare| {
        if !odd(spare) {
            return true;
        }
        let Ok((again, error)) = read_spare(fs, spare.path.clone()) else { return false };
        *spare = again;
        findings.extend(match error {
            Some(error) => Some(refused(&spare.path, "read", &error)),
            None => remark(spare, sizes),
        });
        true
    });
}

fn remark(spare: &SpareEntry, sizes: Option<&ClassSizes>) -> Option<Finding> {
    let detail = match (spare.state(sizes), spare.header?) {
        (SpareState::WrongSize, Ok(header)) => {
            let (len, class, capacity) = (spare.file_len, header.class, header.capacity);
            let expected = sizes.map_or(capacity, |sizes| sizes.of(class));
            format!(
                "size: {len} bytes, {capacity} by its header, expected {expected} for a {class} file; a start deletes it"
            )
        }
        (SpareState::Damaged, Err(error)) => format!("header: {error}; a start deletes it"),
        _ => return None,
    };
    Some(finding(Outcome::Clean, &spare.path, detail))
}
