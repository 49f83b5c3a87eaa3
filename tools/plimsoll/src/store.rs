//! Opens data directories and logs, and says which log was perhaps meant.

use crate::failure::{Exit, Failure};
use crate::settings::Settings;
use plimsoll::error::OpenError;
use plimsoll::fs::{FileSystem, OsFileSystem};
use plimsoll::{Log, LogName, LogOptions, Node};
use std::ffi::OsString;
use std::path::Path;

/// The most similar names that are told.
const SIMILAR_MAX: usize = 5;

/// Opens the node of a data directory that must be there.
pub(crate) fn open(dir: &Path, settings: &Settings) -> Result<Node, Failure> {
    check_ours(dir)?;
    let mut options = settings.options();
    options.create = false;
    Ok(Node::open(dir, options)?)
}

/// Opens the node of a data directory, made if it is missing.
pub(crate) fn open_or_create(dir: &Path, settings: &Settings) -> Result<Node, Failure> {
    check_usable(dir)?;
    Ok(Node::open(dir, settings.options())?)
}

/// Refuses a directory that holds something else.
pub(crate) fn check_usable(dir: &Path) -> Result<(), Failure> {
    // Somebody's home directory is not filled with segment files for a slip of the hand. What a new file system holds
    // does not count.
    if let Some(mut other) = other_names(dir) {
        other.retain(|name| name != "lost+found");
        if let Some(name) = other.first() {
            let sentence = format!(
                "{} is no data directory, as it has none of LAYOUT, LOCK and logs, and holds {}; expected a data \
                 directory, an empty one or none",
                dir.display(),
                name.display()
            );
            return Err(Failure::new(Exit::Io, sentence).with("file", dir.display().to_string()));
        }
    }
    Ok(())
}

/// Refuses a directory that is no data directory.
pub(crate) fn check_ours(dir: &Path) -> Result<(), Failure> {
    let Some(other) = other_names(dir) else { return Ok(()) };
    let found = if other.is_empty() { "is empty" } else { "has none of LAYOUT, LOCK and logs" };
    let sentence = format!("{} {found}, expected a data directory", dir.display());
    Err(Failure::new(Exit::Io, sentence).with("file", dir.display().to_string()))
}

/// The names in a directory that is no data directory; `None` for one, and where the engine is to say what is wrong.
fn other_names(dir: &Path) -> Option<Vec<OsString>> {
    let names: Vec<OsString> = match OsFileSystem.list(dir) {
        Ok(entries) => entries.into_iter().map(|entry| entry.name).collect(),
        Err(_) => return None,
    };
    let ours = names.iter().any(|name| name == "LAYOUT" || name == "LOCK" || name == "logs");
    (!ours).then_some(names)
}

/// Opens a log that must be there.
pub(crate) fn open_log(node: &Node, dir: &Path, name: &LogName) -> Result<Log, Failure> {
    let mut options = LogOptions::default();
    options.create = false;
    match node.open_log(name, options) {
        Err(OpenError::Missing(_)) => Err(missing(dir, name, &node.logs()?)),
        other => Ok(other?),
    }
}

/// There is no such log; the names that come near it are told.
pub(crate) fn missing(dir: &Path, name: &LogName, all: &[LogName]) -> Failure {
    let failure =
        Failure::from(OpenError::Missing(name.clone())).and(format_args!(" in {}", dir.display()));
    let near = similar(name.as_str(), all.iter().map(LogName::as_str));
    let failure = match (near.as_slice(), all.len()) {
        ([], 0) => failure.and("; it holds no logs"),
        ([], count) => failure.and(format_args!("; none of its {count} has a similar name")),
        (near, _) => failure.and(format_args!("; similar names: {}", near.join(", "))),
    };
    failure.with("similar", near)
}

/// The names nearest to `wanted`, the nearest first.
fn similar<'a>(wanted: &str, all: impl Iterator<Item = &'a str>) -> Vec<String> {
    let score = |name: &str| {
        let inside = name.contains(wanted) || wanted.contains(name);
        let likeness = strsim::jaro_winkler(&wanted.to_lowercase(), &name.to_lowercase());
        if inside { likeness.max(0.9) } else { likeness }
    };
    let mut scored: Vec<(f64, &str)> = all.map(|name| (score(name), name)).collect();
    scored.retain(|(score, _)| *score >= 0.8);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(SIMILAR_MAX).map(|(_, name)| name.to_owned()).collect()
}

/// Closes the node; an error of it counts only where all else went well.
pub(crate) fn close(node: Node, result: Result<(), Failure>) -> Result<(), Failure> {
    let closed = node.close();
    result?;
    Ok(closed?)
}

#[cfg(test)]
mod tests {
    use super::similar;

    #[test]
    fn similar_names_come_nearest_first() {
        let all = ["audit", "orders", "orders/eu", "order", "payments"];
        assert_eq!(similar("ordres", all.into_iter()), ["orders", "order", "orders/eu"]);
        assert_eq!(similar("Orders", all.into_iter())[0], "orders");
        assert_eq!(similar("eu", all.into_iter()), ["orders/eu"]);
        assert!(similar("zzz", all.into_iter()).is_empty());
    }
}
