//! What can be tested: any program that speaks the lines of [`super::lines`].

use std::ffi::OsString;
use std::fmt::Debug;
use std::path::Path;
use std::process::Command;

/// The engine under test, as two command lines. Both are started in a process group of their own, may be killed at any
/// moment, and get nothing but the directory.
pub trait Driver: Debug + Sync {
    /// Owns the data directory, answers [`super::lines::Request`]s, ends when its input does.
    fn driver(&self, dir: &Path) -> Command;

    /// Recovers the data directory, prints [`super::lines::Shown`]s, ends.
    fn dump(&self, dir: &Path) -> Command;
}

/// A program that is called with `driver DIR` or `dump DIR` behind its own words.
#[derive(Clone, Debug)]
pub struct Program {
    words: Vec<OsString>,
    /// More words for the driver, before the directory.
    options: Vec<OsString>,
}

impl Program {
    /// This engine's driver in the binary `faultlab` at `path`; `threads` append to each log, and commits may be `buffered`.
    #[must_use]
    pub fn own(path: &Path, threads: usize, buffered: bool) -> Self {
        let mut options: Vec<OsString> = vec!["--threads".into(), threads.to_string().into()];
        options.extend(buffered.then(|| "--buffered".into()));
        Self { words: vec![path.into()], options }
    }

    /// A command line of words between blanks; `None` for an empty one.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        (!words.is_empty()).then_some(Self { words, options: Vec::new() })
    }

    fn command(&self, verb: &str, options: &[OsString], dir: &Path) -> Command {
        let mut words = self.words.iter();
        let mut command = Command::new(words.next().cloned().unwrap_or_default());
        command.args(words).arg(verb).args(options).arg(dir);
        command
    }
}

impl Driver for Program {
    fn driver(&self, dir: &Path) -> Command {
        self.command("driver", &self.options, dir)
    }

    fn dump(&self, dir: &Path) -> Command {
        self.command("dump", &[], dir)
    }
}
