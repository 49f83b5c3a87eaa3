//! Finds what stands where below a data directory. Links are named and never followed.

use super::outcome::{Finding, Outcome};
use crate::format::name::{LogName, SEGMENT_SUFFIX, parse_segment_file};
use crate::fs::{DirEntry, FileKind, FileSystem};
use std::io;
use std::path::{Path, PathBuf};

/// The directory of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogDir {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

pub(crate) fn finding(outcome: Outcome, file: &Path, detail: impl Into<String>) -> Finding {
    let (position, offset) = (None, None);
    Finding { outcome, file: file.to_path_buf(), position, offset, detail: detail.into() }
}

/// What a file or directory that cannot be read comes to: one that is not there any more is gone, as happens beside a
/// running node.
pub(crate) fn refused(file: &Path, doing: &str, error: &io::Error) -> Finding {
    let outcome = match error.kind() {
        io::ErrorKind::NotFound => Outcome::Gone,
        _ => Outcome::Unreadable,
    };
    finding(outcome, file, format!("cannot be {doing}: {error}"))
}

/// What stands at a name and is neither a file nor a directory.
pub(crate) fn special(path: &Path, kind: FileKind) -> Option<Finding> {
    match kind {
        FileKind::File | FileKind::Directory => None,
        FileKind::Link => {
            Some(finding(Outcome::Foreign, path, "is a symbolic link, which is never followed"))
        }
        FileKind::Other => Some(finding(Outcome::Foreign, path, "is a socket, pipe or device")),
    }
}

/// The logs below `logs`, sorted by name: the directories that hold a segment file, or no directory.
pub(crate) fn find_logs(
    fs: &dyn FileSystem,
    logs: &Path,
    findings: &mut Vec<Finding>,
) -> Vec<LogDir> {
    let mut found = Vec::new();
    let mut folders = vec![(String::new(), logs.to_path_buf())];
    while let Some((name, path)) = folders.pop() {
        let entries = match fs.list(&path) {
            Ok(entries) => entries,
            Err(error) => {
                findings.push(refused(&path, "listed", &error));
                continue;
            }
        };
        let of = |kind| entries.iter().filter(move |entry| entry.kind == kind);
        let holds_segment = of(FileKind::File).any(is_segment);
        // A directory with a segment's name is no folder of logs: it is in the way of the log that it is in.
        let is_folder = |entry: &&DirEntry| parse_segment_file(&entry.name).is_none();
        let holds_folder = of(FileKind::Directory).any(|entry| is_folder(&entry));
        let is_log = !name.is_empty() && (holds_segment || !holds_folder);
        if is_log && holds_folder {
            let detail = "is a log and a folder of logs at once, expected one of the two";
            findings.push(finding(Outcome::Foreign, &path, detail));
        }
        if is_log {
            found.push(LogDir { name: name.clone(), path: path.clone() });
        } else {
            // What is in a log's directory is judged there.
            for entry in &entries {
                let path = path.join(&entry.name);
                findings.extend(special(&path, entry.kind));
                if entry.kind == FileKind::File {
                    findings.push(finding(Outcome::Stray, &path, "is a file outside of any log"));
                }
            }
        }
        for entry in of(FileKind::Directory).filter(|entry| !is_log || is_folder(entry)) {
            let path = path.join(&entry.name);
            match inner_name(&name, entry) {
                Ok(name) => folders.push((name, path)),
                Err(reason) => findings.push(finding(Outcome::Foreign, &path, reason)),
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn is_segment(entry: &DirEntry) -> bool {
    entry.name.as_encoded_bytes().ends_with(SEGMENT_SUFFIX.as_bytes())
}

fn inner_name(folder: &str, entry: &DirEntry) -> Result<String, String> {
    let part = entry.name.to_str().ok_or("has a name that is not text")?;
    let name = if folder.is_empty() { part.to_owned() } else { format!("{folder}/{part}") };
    LogName::new(&name).map(|_| name).map_err(|error| error.to_string())
}
