//! One data directory: its lock, its layout, its sub-directories, the names of its logs.

use crate::clock::Clock;
use crate::error::{DiskContext, DiskError, OpenError};
use crate::format::header::Header;
use crate::format::layout::{self, ClassSizes, LayoutError};
use crate::format::name::{LogName, parse_segment_file};
use crate::format::{LAYOUT_VERSION, SECTOR_LEN};
use crate::fs::{DirEntry, FileKind, FileSystem, Lock, Write, is_no_space};
use crate::planted::{self, Fault};
use crate::pool::{SparePool, sync_below};
use crate::segment::SegmentSource;
use crate::types::SizeClass;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An open data directory. The lock is released when it is dropped.
#[derive(Debug)]
pub(super) struct DataDir {
    pub(super) path: PathBuf,
    pub(super) logs: PathBuf,
    pub(super) trash: PathBuf,
    pub(super) source: Arc<dyn SegmentSource>,
    lock: Mutex<Option<Arc<dyn Lock>>>,
    /// Held while folders are made, and while empty ones are removed: else a log is made in one that is just going.
    folders: Mutex<()>,
}

/// The extension of what is in the trash, but perhaps not durably.
const MOVING: &str = "moving";

fn is_moving(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == MOVING)
}

const DIRS: [&str; 4] = ["logs", "spares", "trash", "quarantine"];

fn foreign(path: &Path, reason: impl Into<String>) -> OpenError {
    OpenError::Foreign { path: path.to_path_buf(), reason: reason.into() }
}

impl DataDir {
    pub(super) fn open(
        fs: &Arc<dyn FileSystem>,
        clock: &Arc<dyn Clock>,
        path: &Path,
        segment_size: u64,
        create: bool,
        pool: &mut SparePool,
    ) -> Result<Self, OpenError> {
        Self::make(&**fs, path, create)?;
        check_ours(&**fs, path, create)?;
        let lock_path = path.join("LOCK");
        let lock = match fs.lock(&lock_path) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(OpenError::Locked { path: path.to_path_buf() });
            }
            other => other.disk("lock", &lock_path)?,
        };
        // Names first: what a dead process made may be only in the cache.
        for dir in DIRS {
            make_dir(&**fs, &path.join(dir))?;
        }
        fs.sync_dir(path).disk("sync", path)?;
        let spares = path.join("spares");
        if !planted::is(Fault::NamesNotSyncedAtOpen) {
            fs.sync_dir(&spares).disk("sync", &spares)?;
        }
        let sizes = read_layout(&**fs, path, segment_size)?;
        let logs = path.join("logs");
        let source = pool.add(fs, clock, &spares, &logs, sizes).disk("look at", &spares)?;
        let this = Self {
            path: path.to_path_buf(),
            logs,
            trash: path.join("trash"),
            source,
            lock: Mutex::new(Some(Arc::from(lock))),
            folders: Mutex::new(()),
        };
        this.settle_trash(&**fs)?;
        this.empty_trash(&**fs)?;
        Ok(this)
    }

    /// The directory's lock, unless the node is closed. Who can write holds it.
    pub(super) fn lock(&self) -> Result<Arc<dyn Lock>, OpenError> {
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner).clone();
        lock.ok_or(OpenError::Closed)
    }

    /// Lets go of the lock; logs that are still open hold it on.
    pub(super) fn unlock(&self) {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn make(fs: &dyn FileSystem, path: &Path, create: bool) -> Result<(), OpenError> {
        match fs.metadata(path) {
            Ok(found) if found.kind == FileKind::Directory => Ok(()),
            Ok(found) if found.kind == FileKind::Link => {
                Err(foreign(path, "a symbolic link, expected a directory"))
            }
            Ok(_) => Err(foreign(path, "not a directory")),
            Err(error) if error.kind() == io::ErrorKind::NotFound && create => {
                Ok(fs.create_dir(path).disk("make the data directory", path)?)
            }
            Err(error) => Err(DiskError::new("open the data directory", path, error).into()),
        }
    }

    /// Moves a log's directory to the trash and makes that durable; `unique` names it there.
    ///
    /// It gets the name under which it is emptied only then. If its files went first, a power cut could bring the
    /// directory back to its old place with some of them: a log with a hole, or one that begins again at 0 [R].
    pub(super) fn bury(
        &self,
        fs: &dyn FileSystem,
        log_dir: &Path,
        parent: &Path,
        unique: u64,
    ) -> Result<(), DiskError> {
        // Nor may another's deletion remove the folder before it is synced here.
        let _one_at_a_time = self.hold_folders();
        let target = self.trash.join(format!("{unique:016x}"));
        let moving = target.with_extension(MOVING);
        let emptied_early = planted::is(Fault::TrashEmptiedBeforeSync);
        let first = if emptied_early { &target } else { &moving };
        fs.rename(log_dir, first).disk("move to the trash", log_dir)?;
        // Both: a deleted log that is back after a power cut would bring old records back.
        if !planted::is(Fault::DeleteWithoutSync) {
            fs.sync_dir(parent).disk("sync", parent)?;
            fs.sync_dir(&self.trash).disk("sync", &self.trash)?;
        }
        if emptied_early { Ok(()) } else { fs.rename(&moving, &target).disk("rename", &moving) }
    }

    /// Removes the folders of a deleted log that held only it, innermost first: left, they would look like logs without
    /// records. Ends at the first that holds more.
    pub(super) fn remove_folders(
        &self,
        fs: &dyn FileSystem,
        parents: &[PathBuf],
    ) -> Result<(), DiskError> {
        let _one_at_a_time = self.hold_folders();
        for (folder, parent) in parents.iter().zip(parents.iter().skip(1)) {
            if fs.remove_dir(folder).is_err() {
                break;
            }
            fs.sync_dir(parent).disk("sync", parent)?;
        }
        Ok(())
    }

    fn hold_folders(&self) -> MutexGuard<'_, ()> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes durable what a process that died was moving to the trash. From where it came is not known, so every
    /// directory that may have held a log's is synced.
    fn settle_trash(&self, fs: &dyn FileSystem) -> Result<(), DiskError> {
        let entries = fs.list(&self.trash).disk("list", &self.trash)?;
        let paths = entries.iter().map(|entry| self.trash.join(&entry.name));
        let moving: Vec<PathBuf> = paths.filter(|path| is_moving(path)).collect();
        if moving.is_empty() {
            return Ok(());
        }
        sync_below(fs, &self.logs, &|| false)
            .map_err(|(path, error)| DiskError::new("sync", &path, error))?;
        fs.sync_dir(&self.trash).disk("sync", &self.trash)?;
        for path in moving {
            match fs.rename(&path, &path.with_extension("")) {
                // Some file systems need room for a name. A full disk stops no start: it is emptied after the next one.
                Err(error) if is_no_space(&error) => {
                    tracing::warn!(path = %path.display(), %error, "the trash is not emptied");
                }
                renamed => renamed.disk("rename", &path)?,
            }
        }
        Ok(())
    }

    /// Empties the trash: logs that were deleted, whose files go one by one.
    pub(super) fn empty_trash(&self, fs: &dyn FileSystem) -> Result<(), DiskError> {
        let mut removed = false;
        for entry in fs.list(&self.trash).disk("list", &self.trash)? {
            let path = self.trash.join(&entry.name);
            if !is_moving(&path) {
                remove_tree(fs, &path, entry.kind)?;
                removed = true;
            }
        }
        if removed { fs.sync_dir(&self.trash).disk("sync", &self.trash) } else { Ok(()) }
    }

    /// The names of all logs: directories that hold no directory. One that is empty is a log without records.
    pub(super) fn log_names(&self, fs: &dyn FileSystem) -> Result<Vec<LogName>, OpenError> {
        let mut names = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let dir = self.logs.join(&folder);
            let entries = fs.list(&dir).disk("list", &dir)?;
            let inner: Vec<&DirEntry> = entries.iter().filter(is_folder).collect();
            if inner.is_empty() && !folder.is_empty() {
                names.push(LogName::new(&folder).map_err(|error| foreign(&dir, error.reason))?);
            }
            for entry in inner {
                let part =
                    entry.name.to_str().ok_or_else(|| foreign(&dir, "a name that is not text"))?;
                let name =
                    if folder.is_empty() { part.to_owned() } else { format!("{folder}/{part}") };
                LogName::new(&name).map_err(|error| foreign(&dir.join(part), error.reason))?;
                folders.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Finds, or makes, the directory of a log, and makes its name durable.
    ///
    /// Gives the directory and its parents up to `logs`, innermost first; `None` if it is missing and not to be made.
    pub(super) fn log_dir(
        &self,
        fs: &dyn FileSystem,
        name: &LogName,
        create: bool,
    ) -> Result<Option<(PathBuf, Vec<PathBuf>)>, OpenError> {
        let _one_at_a_time = create.then(|| self.hold_folders());
        let taken = |reason: String| OpenError::NameTaken { name: name.clone(), reason };
        let mut parents = vec![self.logs.clone()];
        let mut dir = self.logs.clone();
        let parts: Vec<&str> = name.parts().collect();
        for (at, part) in parts.iter().enumerate() {
            dir.push(part);
            match fs.metadata(&dir) {
                Ok(found) if found.kind == FileKind::Directory => {}
                Ok(found) if found.kind == FileKind::Link => {
                    return Err(foreign(&dir, "a symbolic link, expected a directory"));
                }
                Ok(_) => return Err(foreign(&dir, "a file, expected a directory")),
                // A folder may be made by the opening of another log in it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound && create => {
                    make_dir(fs, &dir)?;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(DiskError::new("open", &dir, error).into()),
            }
            let entries = fs.list(&dir).disk("list", &dir)?;
            let is_log = entries.iter().any(|entry| parse_segment_file(&entry.name).is_some());
            let is_folder = entries.iter().any(|entry| is_folder(&entry));
            let last = at + 1 == parts.len();
            if !last && is_log {
                return Err(taken(format!("{} is a log", parts[..=at].join("/"))));
            }
            if last && is_folder {
                return Err(taken("it is a folder of other logs".to_owned()));
            }
            if !last {
                parents.push(dir.clone());
            }
        }
        parents.reverse();
        Ok(Some((dir, parents)))
    }
}

/// Whether a log may be below it. A directory with a segment's name is foreign, and in the way of one log only.
fn is_folder(entry: &&DirEntry) -> bool {
    entry.kind == FileKind::Directory && parse_segment_file(&entry.name).is_none()
}

/// Refuses a directory that is somebody else's, before anything is made in it.
fn check_ours(fs: &dyn FileSystem, path: &Path, create: bool) -> Result<(), OpenError> {
    let entries = fs.list(path).disk("list", path)?;
    let is_ours =
        |entry: &DirEntry| ["LAYOUT", "LOCK", "logs"].iter().any(|own| entry.name == *own);
    if entries.iter().any(is_ours) {
        return Ok(());
    }
    if !create {
        return Err(foreign(path, "not a data directory: it has no LAYOUT, LOCK or logs"));
    }
    // Of the names that a start makes, a power cut may keep any; and a file system that was just made has `lost+found`.
    let of_a_start =
        |entry: &&DirEntry| entry.name == "LAYOUT.tmp" || DIRS.iter().any(|dir| entry.name == *dir);
    match entries.iter().find(|entry| !of_a_start(entry) && entry.name != "lost+found") {
        Some(other) => Err(foreign(
            path,
            format!("not a data directory, and not empty: it holds {}", other.name.display()),
        )),
        None => Ok(()),
    }
}

/// The directory that `path` is in.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn make_dir(fs: &dyn FileSystem, path: &Path) -> Result<(), OpenError> {
    match fs.create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match fs.metadata(path).disk("look at", path)?.kind {
                FileKind::Directory => Ok(()),
                FileKind::Link => Err(foreign(path, "a symbolic link, expected a directory")),
                _ => Err(foreign(path, "not a directory")),
            }
        }
        other => Ok(other.disk("make", path)?),
    }
}

/// Removes what stands at `path`; a link is removed and not followed.
fn remove_tree(fs: &dyn FileSystem, path: &Path, kind: FileKind) -> Result<(), DiskError> {
    if kind != FileKind::Directory {
        return fs.remove_file(path).disk("remove", path);
    }
    for entry in fs.list(path).disk("list", path)? {
        remove_tree(fs, &path.join(&entry.name), entry.kind)?;
    }
    fs.remove_dir(path).disk("remove", path)
}

/// Makes the name of a data directory that has no `LAYOUT` yet durable: it may have been made by a process that died
/// before it could, and with the name all would be gone that is ever confirmed in it [R]. Where there is a `LAYOUT`, this
/// was done.
fn sync_own_name(fs: &dyn FileSystem, path: &Path) -> Result<(), DiskError> {
    if planted::is(Fault::DataDirNotSynced) {
        return Ok(());
    }
    let parent = parent(path);
    match fs.sync_dir(parent) {
        // Who may not read the directory above has not made this one.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other.disk("sync", parent),
    }
}

/// Reads `LAYOUT`; makes it in a new directory, and again where it is missing or empty beside good segments.
fn read_layout(
    fs: &dyn FileSystem,
    path: &Path,
    segment_size: u64,
) -> Result<ClassSizes, OpenError> {
    let file = path.join("LAYOUT");
    let temporary = path.join("LAYOUT.tmp");
    match fs.remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(DiskError::new("remove", &temporary, error).into());
        }
        _ => {}
    }
    let text = match fs.open_read(&file) {
        Ok(open) => {
            let mut text = vec![0; 4096];
            let read = open.read_at(0, &mut text).disk("read", &file)?;
            text.truncate(read);
            text
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(DiskError::new("open", &file, error).into()),
    };
    match layout::parse(&text) {
        Ok(sizes) => return Ok(sizes),
        Err(LayoutError::Empty) => {}
        Err(error) => return Err(foreign(&file, error.to_string())),
    }
    let sizes = match largest_main(fs, &path.join("logs"))? {
        Some(main) => {
            tracing::warn!(path = %file.display(), "made again from the segments");
            ClassSizes::from_main(main)
        }
        None => {
            let total = fs.space(path).disk("ask for the free space of", path)?.total;
            ClassSizes::for_file_system(segment_size, total)
        }
    };
    sync_own_name(fs, path)?;
    let new = fs.create(&temporary).disk("make", &temporary)?;
    let text = layout::encode(&sizes);
    new.write_and_sync(&[Write { position: 0, bytes: text.as_bytes() }])
        .disk("write", &temporary)?;
    fs.rename(&temporary, &file).disk("rename", &temporary)?;
    fs.sync_dir(path).disk("sync", path)?;
    debug_assert_eq!(LAYOUT_VERSION, 1, "a newer layout must not be written over an older one");
    Ok(sizes)
}

/// The size of main files as the headers below `dir` tell it.
fn largest_main(fs: &dyn FileSystem, dir: &Path) -> Result<Option<u64>, OpenError> {
    let mut main = None;
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs.list(&dir).disk("list", &dir)? {
            let path = dir.join(&entry.name);
            if entry.kind == FileKind::Directory {
                dirs.push(path);
            } else if entry.kind == FileKind::File && parse_segment_file(&entry.name).is_some() {
                let mut sector = [0; SECTOR_LEN];
                let open = fs.open_read(&path).disk("open", &path)?;
                open.read_at(0, &mut sector).disk("read", &path)?;
                if let Ok(header) = Header::parse(&sector) {
                    let scale = match header.class {
                        SizeClass::Tiny => 256,
                        SizeClass::Small => 8,
                        SizeClass::Main => 1,
                    };
                    // Classes below 64 KiB are raised to it, so the largest answer is the nearest.
                    let floor = crate::format::layout::TINY_MIN;
                    let exact = scale == 1 || header.capacity > floor;
                    main = main.max(exact.then_some(header.capacity * scale));
                }
            }
        }
    }
    Ok(main)
}
