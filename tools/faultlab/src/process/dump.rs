//! Recovers a data directory and shows every record, and what every file of it is for.

use super::lines::{FileKind, Shown, one_line};
use super::payload::id_of;
use plimsoll::format::name::segment_file;
use plimsoll::fs::OsFileSystem;
use plimsoll::inspect::{self, Depth, Outcome};
use plimsoll::{Log, Node};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes it all to `out`; a dump that is whole ends in `done`.
///
/// # Errors
/// If the node does not open or close, or the reader went away, in words.
pub fn dump(dir: &Path, out: &mut impl Write) -> Result<(), String> {
    let node = Node::open(dir, super::driver::options()).map_err(|error| error.to_string())?;
    let mut live = BTreeSet::new();
    for (name, log) in node.open_all().map_err(|error| error.to_string())? {
        let name = name.to_string();
        let shown = match log {
            Ok(log) => records(&name, &log, out).map(|()| {
                let folder = PathBuf::from("logs").join(&name);
                live.extend(log.segments().iter().map(|one| folder.join(segment_file(one.base))));
            }),
            Err(error) => say(out, &Shown::Stopped { log: name, reason: one_line(&error) }),
        };
        shown.map_err(|error| error.to_string())?;
    }
    node.close().map_err(|error| format!("not closed clean: {error}"))?;
    files(dir, &live, out).map_err(|error| error.to_string())?;
    say(out, &Shown::Done).and_then(|()| out.flush()).map_err(|error| error.to_string())
}

fn say(out: &mut impl Write, shown: &Shown) -> io::Result<()> {
    writeln!(out, "{shown}")
}

fn records(name: &str, log: &Log, out: &mut impl Write) -> io::Result<()> {
    let stopped = |reason: String| Shown::Stopped { log: name.to_owned(), reason };
    if let Some(why) = log.stopped() {
        say(out, &stopped(one_line(&why)))?;
    }
    let (head, next) = (log.head(), log.durable());
    let mut reader = match log.read_from(head) {
        Ok(reader) => reader,
        Err(error) => return say(out, &stopped(one_line(&error))),
    };
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                let (offset, len) = (record.offset.0, record.payload.len());
                let id = id_of(name, &record.payload);
                say(out, &Shown::Record { log: name.to_owned(), offset, id, len })?;
            }
            Ok(None) => break,
            Err(error) => return say(out, &stopped(one_line(&error))),
        }
    }
    say(out, &Shown::End { log: name.to_owned(), head: head.0, next: next.0 })
}

/// What the engine says that the files of a closed node are for. The lab holds it against what it finds itself.
fn files(dir: &Path, live: &BTreeSet<PathBuf>, out: &mut impl Write) -> io::Result<()> {
    let file = |kind, path: &Path, out: &mut _| {
        let path = path.strip_prefix(dir).unwrap_or(path).display().to_string();
        say(out, &Shown::File { kind, path })
    };
    for path in live {
        file(FileKind::Live, path, out)?;
    }
    let report = inspect::node(&OsFileSystem, dir, Depth::Ends, &|| {});
    for spare in report.spares.iter().filter(|spare| !spare.temporary) {
        file(FileKind::Spare, &spare.path, out)?;
    }
    for (kind, kept) in
        [(FileKind::Trash, &report.trash), (FileKind::Quarantine, &report.quarantine)]
    {
        for one in kept {
            file(kind, &one.path, out)?;
        }
    }
    for own in ["LOCK", "LAYOUT"] {
        file(FileKind::Own, &dir.join(own), out)?;
    }
    for finding in report.all_findings().filter(|finding| finding.outcome > Outcome::Gone) {
        say(out, &Shown::Finding(format!("{} {}", finding.outcome, one_line(finding))))?;
    }
    Ok(())
}
