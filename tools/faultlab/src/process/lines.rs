//! The lines that the lab and a driver say to each other. Text, one thing a line, so that any program can stand in.

use plimsoll::WriteClass;
use std::fmt;

/// What the lab asks a driver for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Append the record `id` with a payload of `len` bytes.
    Append { log: String, id: u64, len: usize, class: WriteClass },
    /// Give up what lies before an offset.
    Truncate { log: String, before: u64 },
}

/// What a driver answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Durable.
    Ack { log: String, id: u64, offset: u64 },
    /// It will never be read.
    NotWritten { log: String, id: u64, reason: String },
    /// It may be read later, or not.
    Unknown { log: String, id: u64, reason: String },
    /// The log begins at `head` now.
    Truncated { log: String, head: u64 },
    /// What was to go may be there or not.
    TruncateFailed { log: String, reason: String },
}

/// What a dump shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A record; without a number its bytes are not what was appended.
    Record { log: String, offset: u64, id: Option<u64>, len: usize },
    /// All records of a log were shown: from `head` up to before `next`.
    End { log: String, head: u64, next: u64 },
    /// A log cannot be read to its end, or takes no appends.
    Stopped { log: String, reason: String },
    /// A file below the data directory, and what it is for.
    File { kind: FileKind, path: String },
    /// Something in the data directory that a clean start does not leave.
    Finding(String),
    /// The dump is whole.
    Done,
}

/// What a file in a data directory is for: exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A log's.
    Live,
    /// Waits to be used again.
    Spare,
    /// Is being deleted.
    Trash,
    /// Was put aside by a repair.
    Quarantine,
    /// The directory's own: locks, settings.
    Own,
}

const CLASSES: [(&str, WriteClass); 5] = [
    ("publish", WriteClass::Publish),
    ("replicate", WriteClass::Replicate),
    ("acknowledge", WriteClass::Acknowledge),
    ("coordination", WriteClass::Coordination),
    ("recovery", WriteClass::Recovery),
];

const KINDS: [(&str, FileKind); 5] = [
    ("live", FileKind::Live),
    ("spare", FileKind::Spare),
    ("trash", FileKind::Trash),
    ("quarantine", FileKind::Quarantine),
    ("own", FileKind::Own),
];

/// A reason as part of a line.
#[must_use]
pub fn one_line(reason: &impl fmt::Display) -> String {
    reason.to_string().replace(['\n', '\r'], " ")
}

fn class_name(class: WriteClass) -> &'static str {
    CLASSES.iter().find(|(_, known)| *known == class).map_or("publish", |(name, _)| name)
}

/// Words, and what is left behind the first so many of them.
fn split(line: &str, words: usize) -> Option<(Vec<&str>, &str)> {
    let mut parts = line.splitn(words + 1, ' ');
    let first: Vec<&str> = parts.by_ref().take(words).collect();
    (first.len() == words).then_some((first, parts.next().unwrap_or("")))
}

impl Request {
    /// Whom it is for.
    #[must_use]
    pub fn log(&self) -> &str {
        match self {
            Self::Append { log, .. } | Self::Truncate { log, .. } => log,
        }
    }

    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let class =
            |name: &str| CLASSES.iter().find(|(known, _)| *known == name).map(|(_, class)| *class);
        let log = |name: &str| name.to_owned();
        match words[..] {
            ["append", name, id, len] => Some(Self::Append {
                log: log(name),
                id: id.parse().ok()?,
                len: len.parse().ok()?,
                class: WriteClass::Publish,
            }),
            ["append", name, id, len, of] => Some(Self::Append {
                log: log(name),
                id: id.parse().ok()?,
                len: len.parse().ok()?,
                class: class(of)?,
            }),
            ["truncate", name, before] => {
                Some(Self::Truncate { log: log(name), before: before.parse().ok()? })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append { log, id, len, class } => {
                write!(f, "append {log} {id} {len} {}", class_name(*class))
            }
            Self::Truncate { log, before } => write!(f, "truncate {log} {before}"),
        }
    }
}

impl Answer {
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        match word {
            "ack" => {
                let (words, _) = split(rest, 3)?;
                let (id, offset) = (words[1].parse().ok()?, words[2].parse().ok()?);
                Some(Self::Ack { log: words[0].to_owned(), id, offset })
            }
            "not-written" | "unknown" => {
                let (words, reason) = split(rest, 2)?;
                let (log, id) = (words[0].to_owned(), words[1].parse().ok()?);
                let reason = reason.to_owned();
                Some(if word == "unknown" {
                    Self::Unknown { log, id, reason }
                } else {
                    Self::NotWritten { log, id, reason }
                })
            }
            "truncated" => {
                let (words, _) = split(rest, 2)?;
                Some(Self::Truncated { log: words[0].to_owned(), head: words[1].parse().ok()? })
            }
            "truncate-failed" => {
                let (words, reason) = split(rest, 1)?;
                Some(Self::TruncateFailed { log: words[0].to_owned(), reason: reason.to_owned() })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ack { log, id, offset } => write!(f, "ack {log} {id} {offset}"),
            Self::NotWritten { log, id, reason } => write!(f, "not-written {log} {id} {reason}"),
            Self::Unknown { log, id, reason } => write!(f, "unknown {log} {id} {reason}"),
            Self::Truncated { log, head } => write!(f, "truncated {log} {head}"),
            Self::TruncateFailed { log, reason } => write!(f, "truncate-failed {log} {reason}"),
        }
    }
}

impl Shown {
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["done"] => Some(Self::Done),
            ["end", log, head, next] => Some(Self::End {
                log: log.to_owned(),
                head: head.parse().ok()?,
                next: next.parse().ok()?,
            }),
            ["stopped", ..] => {
                let (words, reason) = split(line, 2)?;
                Some(Self::Stopped { log: words[1].to_owned(), reason: reason.to_owned() })
            }
            ["file", of, ..] => {
                let kind = KINDS.iter().find(|(name, _)| *name == of)?.1;
                let (_, path) = split(line, 2)?;
                Some(Self::File { kind, path: path.to_owned() })
            }
            ["finding", ..] => Some(Self::Finding(line.split_once(' ')?.1.to_owned())),
            [log, offset, id, len, state] => {
                let id = match state {
                    "ok" => Some(id.parse().ok()?),
                    "bad" => None,
                    _ => return None,
                };
                let (offset, len) = (offset.parse().ok()?, len.parse().ok()?);
                Some(Self::Record { log: log.to_owned(), offset, id, len })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record { log, offset, id: Some(id), len } => {
                write!(f, "{log} {offset} {id} {len} ok")
            }
            Self::Record { log, offset, id: None, len } => write!(f, "{log} {offset} - {len} bad"),
            Self::End { log, head, next } => write!(f, "end {log} {head} {next}"),
            Self::Stopped { log, reason } => write!(f, "stopped {log} {reason}"),
            Self::File { kind, path } => {
                let name =
                    KINDS.iter().find(|(_, known)| known == kind).map_or("", |(name, _)| name);
                write!(f, "file {name} {path}")
            }
            Self::Finding(text) => write!(f, "finding {text}"),
            Self::Done => f.write_str("done"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Request, Shown};

    #[test]
    fn every_line_is_read_as_it_was_written() {
        for line in ["append a/b 7 300 acknowledge", "truncate a/b 12"] {
            assert_eq!(Request::parse(line).unwrap().to_string(), line);
        }
        assert_eq!(Request::parse("append a 7 300").unwrap().to_string(), "append a 7 300 publish");
        for line in [
            "ack a 7 300",
            "not-written a 7 no space left",
            "unknown a 7 ",
            "truncated a 9",
            "truncate-failed a an error",
        ] {
            assert_eq!(Answer::parse(line).unwrap().to_string(), line);
        }
        for line in [
            "a 3 7 300 ok",
            "a 3 - 300 bad",
            "end a 0 4",
            "stopped a it is damaged",
            "file live logs/a b/1.seg",
            "finding stray x",
            "done",
        ] {
            assert_eq!(Shown::parse(line).unwrap().to_string(), line);
        }
    }

    #[test]
    fn a_line_that_is_none_is_refused() {
        for line in ["", "append a", "append a x 1", "append a 1 1 nobody", "sync"] {
            assert_eq!(Request::parse(line), None, "{line}");
        }
        for line in ["", "ack a 1", "ack a 1 x", "nack a 1 1", "truncated a"] {
            assert_eq!(Answer::parse(line), None, "{line}");
        }
        for line in ["", "a 1 2 3 maybe", "a x 2 3 ok", "end a 1", "file of x", "a 1 - 3 ok"] {
            assert_eq!(Shown::parse(line), None, "{line}");
        }
    }
}
