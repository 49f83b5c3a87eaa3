//! One failing run as a small text file, that replays it.
//!
//! What is in a case means something to the scripts and the random lives of the commit that wrote it. They may change, and
//! then it is another run; the file says which commit it was.

use super::caught::{caught, first_line, kind_of};
use super::commits::CommitPath;
use super::crash::Crash;
use super::explore::{self, End, Ends, Failure};
use super::lives::{self, Met, Run};
use super::{planted as known, shrink};
use plimsoll::planted::Fault;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

const VERSION: &str = "faultlab case 1";

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A way through the plan of this name.
    Plan(String, Ends),
    /// Random lives.
    Lives(Run),
    /// A check that needs no crash, by name.
    Check(String),
}

/// See the top of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub what: What,
    /// How its commits are written.
    pub path: CommitPath,
    /// The known mistake that was switched on.
    pub planted: Option<Fault>,
    /// The first line of the violation when it was written.
    pub was: String,
}

/// The fault of this name.
pub fn fault(name: &str) -> Result<Fault, String> {
    let found = Fault::ALL.iter().find(|fault| format!("{fault:?}") == name);
    found.copied().ok_or_else(|| format!("{name}: no planted fault has this name"))
}

impl Case {
    /// Panics where an invariant does not hold.
    fn go(&self) {
        let go = || match &self.what {
            What::Plan(name, ends) => explore::replay(&super::plan(name), ends),
            What::Lives(run) => lives::run(run, false, &mut Met::default()),
            What::Check(name) => known::check(name).expect("a check of this name")(),
        };
        self.path.on(|| known::under(self.planted, go));
    }

    /// Runs it; gives the violation, if there is one.
    pub fn violation(&self) -> Option<String> {
        caught(|| self.go()).err()
    }

    /// Whether it still shows what it did when it was written: with a planted fault a violation of the same kind, and
    /// otherwise none at all, as what it found was mended. An error says what it was instead.
    pub fn holds(&self) -> Result<(), String> {
        match (self.violation(), self.planted) {
            (None, None) => Ok(()),
            (Some(what), None) => Err(what),
            (None, Some(fault)) => Err(format!("{fault:?} was not caught; it was {}", self.was)),
            (Some(what), Some(_)) if kind_of(&what) == kind_of(&self.was) => Ok(()),
            (Some(what), Some(fault)) => {
                Err(format!("{fault:?} was caught otherwise: {what}; it was {}", self.was))
            }
        }
    }

    /// A name for its file.
    pub fn file_name(&self) -> String {
        let name = match &self.what {
            What::Plan(name, _) | What::Check(name) => name.clone(),
            What::Lives(run) => format!("lives-{}", run.seed),
        };
        // One that fails on both paths leaves two.
        let path = match self.path {
            CommitPath::Direct => "",
            CommitPath::Buffered => "-buffered",
        };
        match self.planted {
            Some(fault) => format!("{fault:?}-{name}{path}.case"),
            None => format!("{name}{path}.case"),
        }
    }

    /// Writes it into a directory, which is made if it is not there.
    pub fn write(&self, dir: &Path) -> std::io::Result<PathBuf> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join(self.file_name());
        std::fs::write(&path, format!("{self}# plimsoll {}\n", version()))?;
        Ok(path)
    }
}

/// Version, and commit where it is known.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let git = std::process::Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "--short=12", "HEAD"])
        .output();
    match git {
        Ok(out) if out.status.success() => {
            format!("{version}, commit {}", String::from_utf8_lossy(&out.stdout).trim())
        }
        _ => version.to_owned(),
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{VERSION}")?;
        match &self.what {
            What::Plan(name, ends) => {
                writeln!(out, "plan {name}")?;
                for End { point, crash } in ends {
                    match crash {
                        Some(crash) => writeln!(out, "end {point} {crash}")?,
                        None => writeln!(out, "end {point}")?,
                    }
                }
            }
            What::Check(name) => writeln!(out, "check {name}")?,
            What::Lives(run) => {
                writeln!(out, "lives {}", run.seed)?;
                if let Some(lives) = run.lives {
                    writeln!(out, "only {lives}")?;
                }
                for life in &run.without_lives {
                    writeln!(out, "without {life}")?;
                }
                for (life, action) in &run.without_actions {
                    writeln!(out, "without {life}.{action}")?;
                }
                for life in &run.undoomed {
                    writeln!(out, "undoomed {life}")?;
                }
                for (life, crash) in &run.crashes {
                    writeln!(out, "crash {life} {crash}")?;
                }
            }
        }
        writeln!(out, "path {}", self.path)?;
        if let Some(fault) = self.planted {
            writeln!(out, "planted {fault:?}")?;
        }
        writeln!(out, "was {}", self.was)
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, first)| first != VERSION) {
            return Err(format!("the first line is not {VERSION:?}"));
        }
        let (mut what, mut planted, mut was) = (None, None, String::new());
        // What was written before there were direct writes does not name a path.
        let mut path = CommitPath::Buffered;
        for (at, line) in lines {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let mut read = || -> Result<(), String> {
                match (word, &mut what) {
                    ("planted", _) => planted = Some(fault(rest)?),
                    ("was", _) => was = rest.to_owned(),
                    ("path", _) => path = rest.parse()?,
                    ("plan", None) => {
                        super::find(rest).ok_or_else(|| format!("no plan {rest}"))?;
                        what = Some(What::Plan(rest.to_owned(), Ends::new()));
                    }
                    ("check", None) => {
                        known::check(rest).ok_or_else(|| format!("no check {rest}"))?;
                        what = Some(What::Check(rest.to_owned()));
                    }
                    ("lives", None) => what = Some(What::Lives(Run::of(number(rest)?))),
                    ("end", Some(What::Plan(_, ends))) if ends.len() < 2 => ends.push(end(rest)?),
                    (_, Some(What::Lives(run))) => part(run, word, rest)?,
                    _ => return Err(format!("{word:?} is not expected here")),
                }
                Ok(())
            };
            read().map_err(|why| format!("line {}: {why}", at + 1))?;
        }
        let mut what = what.ok_or("it does not say what to run: plan, lives or check")?;
        if let What::Lives(run) = &mut what {
            run.path = path;
        }
        Ok(Self { what, path, planted, was })
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| format!("{text:?}: {error}"))
}

fn end(text: &str) -> Result<End, String> {
    let (point, crash) = text.split_once(' ').map_or((text, None), |(p, crash)| (p, Some(crash)));
    Ok(End { point: point.parse()?, crash: crash.map(str::parse).transpose()? })
}

fn part(run: &mut Run, word: &str, rest: &str) -> Result<(), String> {
    match (word, rest.split_once(['.', ' '])) {
        ("only", None) => run.lives = Some(number(rest)?),
        ("without", None) => run.without_lives.extend([number(rest)?]),
        ("without", Some((life, action))) => {
            run.without_actions.insert((number(life)?, number(action)?));
        }
        ("undoomed", None) => run.undoomed.extend([number(rest)?]),
        ("crash", Some((life, crash))) => {
            run.crashes.insert(number(life)?, crash.parse::<Crash>()?);
        }
        _ => return Err(format!("{word:?} is not expected here")),
    }
    Ok(())
}

/// How long a search for a smaller case may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The case of a plan that failed, made smaller.
pub fn of_plan(name: &str, path: CommitPath, planted: Option<Fault>, failure: &Failure) -> Case {
    let what = What::Plan(name.to_owned(), failure.ends.clone());
    smaller(Case { what, path, planted, was: first_line(&failure.what) })
}

/// The case of random lives that failed after what was met, made smaller.
pub fn of_lives(seed: u64, planted: Option<Fault>, met: &Met, what: &str) -> Case {
    // What follows the life that failed was never reached.
    let last = met.actions.last_key_value().map(|(life, _)| life + 1);
    let lives = if met.calm { None } else { last };
    let run = Run { lives, ..Run::of(seed) };
    let path = run.path;
    smaller(Case { what: What::Lives(run), path, planted, was: first_line(what) })
}

/// A smaller case of the same violation. What cannot be brought about again stays as it is.
pub fn smaller(case: Case) -> Case {
    let smaller = shrink::shrink(&case, PATIENCE);
    let was = smaller.violation().map(|what| first_line(&what));
    Case { was: was.unwrap_or_else(|| case.was.clone()), ..smaller }
}

/// The cases of a directory by name; none if it is not there.
pub fn all_in(dir: &Path) -> Result<Vec<(PathBuf, Case)>, String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Ok(Vec::new()) };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "case"));
    paths.sort();
    let read = |path: PathBuf| {
        let wrong = |why: String| format!("{}: {why}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        let case = text.parse().map_err(wrong)?;
        Ok((path, case))
    };
    paths.into_iter().map(read).collect()
}

/// Where the cases are that tests replay.
pub fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions")
}

/// Replays every case that is kept; panics at the first that does not hold. Those with a planted fault need a build that
/// can plant one.
pub fn replay_all() {
    for (path, case) in all_in(&kept()).unwrap() {
        if case.planted.is_none() || known::CAN_PLANT {
            let anew = match case.planted {
                Some(fault) => format!(
                    "\nif the engine's calls are others now: faultlab mutants {fault:?} --cases DIR"
                ),
                None => String::new(),
            };
            case.holds().unwrap_or_else(|what| panic!("{}: {what}{anew}", path.display()));
        }
    }
}

#[test]
fn cases_that_are_kept_hold() {
    assert!(!all_in(&kept()).unwrap().is_empty());
    replay_all();
}

#[test]
fn a_case_is_read_as_it_is_written() {
    let ends = vec![
        End { point: "61+0".parse().unwrap(), crash: Some(Crash::Death) },
        End { point: "93+512".parse().unwrap(), crash: Some(Crash::But(vec![(3, 0)])) },
    ];
    let run = Run {
        lives: Some(4),
        without_lives: [1].into(),
        without_actions: [(2, 3)].into(),
        undoomed: [2].into(),
        crashes: [(3, Crash::Seed(9))].into(),
        ..Run::of(17)
    };
    for what in [
        What::Plan("truncate".to_owned(), ends),
        What::Lives(run),
        What::Check("damage_in_the_middle".to_owned()),
    ] {
        for planted in [None, Some(Fault::TailNotWrittenAgain)] {
            for path in CommitPath::BOTH {
                let what = match what.clone() {
                    What::Lives(run) => What::Lives(Run { path, ..run }),
                    other => other,
                };
                let case = Case { what, path, planted, was: "I1: log a".to_owned() };
                assert_eq!(case.to_string().parse::<Case>(), Ok(case.clone()));
                // Without its path it is one that was written when all commits were buffered.
                let old = case.to_string().replace(&format!("path {path}\n"), "");
                let old: Case = old.parse().unwrap();
                assert_eq!(old.path, CommitPath::Buffered);
                assert!(!matches!(old.what, What::Lives(run) if run.path != old.path));
            }
        }
    }
    for wrong in [
        "",
        "lives 1",
        "faultlab case 1",
        "faultlab case 1\nplan none",
        "faultlab case 1\nlives x",
        "faultlab case 1\nlives 1\npath neither",
    ] {
        wrong.parse::<Case>().unwrap_err();
    }
}
