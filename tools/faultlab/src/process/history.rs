//! The history of a run as lines in a file: what was asked, answered and shown, in the order in which the lab saw it.
//!
//! `> request`, `< answer`, `= shown`, `* file on the disk`, `~ shown by a dump that was killed`, `! the process is gone`,
//! `# remark`. A `= done` ends a dump. The file of a failing run can be checked again without the engine.

use super::lines::{Answer, Request, Shown};
use super::oracle::{Oracle, Violation};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes a history. A disk that does not take it is the lab's trouble and stops nothing.
#[derive(Debug)]
pub struct History(BufWriter<File>);

impl History {
    /// # Errors
    /// If the file cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(BufWriter::new(File::create(path)?)))
    }

    pub fn note(&mut self, kind: char, what: impl Display) {
        let _ = writeln!(self.0, "{kind} {what}");
    }

    pub fn flush(&mut self) {
        let _ = self.0.flush();
    }
}

/// Feeds a history to an oracle and gives what is wrong with it.
///
/// # Errors
/// A line that is none, with its number.
pub fn check(text: &str) -> Result<Vec<Violation>, String> {
    let mut oracle = Oracle::default();
    let (mut shown, mut files, mut wrong) = (Vec::new(), BTreeSet::new(), Vec::new());
    for (number, line) in text.lines().map(str::trim).enumerate() {
        let bad = || format!("line {}: {line}", number + 1);
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "" | "#" => {}
            ">" => oracle.asked(&Request::parse(rest).ok_or_else(bad)?),
            "<" => oracle.answered(&Answer::parse(rest).ok_or_else(bad)?),
            "!" => oracle.ended(),
            "~" => oracle.glimpsed(&Shown::parse(rest).ok_or_else(bad)?),
            "*" => {
                files.insert(rest.to_owned());
            }
            "=" => {
                shown.push(Shown::parse(rest).ok_or_else(bad)?);
                if shown.last() == Some(&Shown::Done) {
                    oracle.dumped(&shown, Some(&files));
                    shown.clear();
                    files.clear();
                }
            }
            _ => return Err(bad()),
        }
        wrong.append(&mut oracle.take_violations());
    }
    if !shown.is_empty() {
        oracle.dumped(&shown, None);
        wrong.append(&mut oracle.take_violations());
    }
    Ok(wrong)
}
