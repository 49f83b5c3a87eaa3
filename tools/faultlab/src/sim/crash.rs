//! Where a life ends, and how the machine goes down.

use super::aloud::{is_aloud, say, words};
use super::random::Random;
use plimsoll::fs::sim::{
    AllPersisted, Answer, Choice, Chooser, NothingPersisted, Scripted, Seeded, SimFileSystem,
};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// How the machine goes down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process dies; the page cache stays.
    Death,
    /// The process dies, and the kernel drops every clean page.
    Evict,
    /// The power fails after everything got to the disk.
    All,
    /// The power fails and only what was synced is left.
    Nothing,
    /// The power fails and this seed says what is left.
    Seed(u64),
    /// The power fails, and this seed says of bytes and of names apart whether none, some or all of them are lost.
    Mixed(u64),
    /// The power fails and these answers say what is left; after the last one nothing is.
    Script(Vec<usize>),
    /// The power fails and everything got to the disk, but for these questions and their answers.
    But(Vec<(usize, usize)>),
}

/// See [`Crash::But`].
struct But<'a> {
    answers: &'a [(usize, usize)],
    asked: usize,
}

impl Chooser for But<'_> {
    fn choose(&mut self, _: Choice, options: usize) -> usize {
        let at = self.asked;
        self.asked += 1;
        let own = self.answers.iter().find(|(question, _)| *question == at);
        own.map_or(options - 1, |(_, picked)| *picked)
    }
}

/// See [`Crash::Mixed`].
struct Mixed {
    random: Random,
    /// Of eight answers so many are any at all; the others are the last one.
    bytes: u64,
    names: u64,
}

impl Mixed {
    fn of(seed: u64) -> Self {
        let mut random = Random::of(&[seed]);
        let mut share = || random.one_of(&[0, 1, 4, 8]);
        let (bytes, names) = (share(), share());
        Self { random, bytes, names }
    }
}

impl Chooser for Mixed {
    fn choose(&mut self, what: Choice, options: usize) -> usize {
        let share = match what {
            Choice::Name { .. } | Choice::Names => self.names,
            _ => self.bytes,
        };
        // All at once are the oldest, as far as they can be.
        if share == 8 {
            return 0;
        }
        if self.random.below(8) < share {
            usize::try_from(self.random.below(options as u64)).unwrap_or(0)
        } else {
            options - 1
        }
    }
}

/// Notes what another one was asked, and what it answered.
struct Noting<'a> {
    inside: &'a mut dyn Chooser,
    answers: Vec<Answer>,
}

impl Chooser for Noting<'_> {
    fn choose(&mut self, what: Choice, options: usize) -> usize {
        let picked = self.inside.choose(what, options).min(options - 1);
        self.answers.push(Answer { what, options, picked });
        picked
    }
}

impl Crash {
    pub fn strike(&self, fs: &SimFileSystem) {
        if is_aloud() {
            self.strike_aloud(fs);
            return;
        }
        if !self.ends_process(fs) {
            self.with_chooser(|chooser| fs.power_cut(chooser));
        }
    }

    /// As [`Crash::strike`]; gives what a power cut asked, and the answers.
    pub fn strike_noting(&self, fs: &SimFileSystem) -> Vec<Answer> {
        if self.ends_process(fs) {
            return Vec::new();
        }
        self.with_chooser(|inside| {
            let mut noting = Noting { inside, answers: Vec::new() };
            fs.power_cut(&mut noting);
            noting.answers
        })
    }

    fn strike_aloud(&self, fs: &SimFileSystem) {
        let trace = fs.trace();
        let before = fs.fork();
        say(format_args!("crash: {self}"));
        for Answer { what, options, picked } in self.strike_noting(fs) {
            if picked + 1 == options {
                continue;
            }
            let file = |inode| before.path_of(inode).unwrap_or_else(|| PathBuf::from("(no name)"));
            let lost = match what {
                Choice::Bytes { inode, position } => {
                    format!("{} at {position}", file(inode).display())
                }
                Choice::Length { inode } => format!("the length of {}", file(inode).display()),
                Choice::Writes { inode } => format!("the last writes to {}", file(inode).display()),
                Choice::Name { op } => match trace.iter().find(|other| other.number == op) {
                    Some(op) => format!("operation {}: {}", op.number, words(op)),
                    None => format!("operation {op}, of an earlier life"),
                },
                Choice::Names => "the last operations on names".to_owned(),
            };
            say(format_args!("  lost: {lost} (version {picked} of 0 to {})", options - 1));
        }
    }

    /// Ends the process alone, if that is what this is.
    fn ends_process(&self, fs: &SimFileSystem) -> bool {
        match self {
            Self::Death => fs.process_death(),
            Self::Evict => {
                fs.process_death();
                fs.evict_all();
            }
            _ => return false,
        }
        true
    }

    fn with_chooser<T>(&self, cut: impl FnOnce(&mut dyn Chooser) -> T) -> T {
        match self {
            Self::Death | Self::Evict | Self::All => cut(&mut AllPersisted),
            Self::Nothing => cut(&mut NothingPersisted),
            Self::Seed(seed) => cut(&mut Seeded::new(*seed)),
            Self::Mixed(seed) => cut(&mut Mixed::of(*seed)),
            Self::Script(script) => cut(&mut Scripted::new(script.clone())),
            Self::But(answers) => cut(&mut But { answers, asked: 0 }),
        }
    }

    /// The same power cut of this machine as [`Crash::But`]; none if only the process dies.
    pub fn as_but(&self, fs: &SimFileSystem) -> Option<Self> {
        if matches!(self, Self::Death | Self::Evict) {
            return None;
        }
        let answers = self.strike_noting(&fs.fork());
        let lost =
            answers.iter().enumerate().filter(|(_, answer)| answer.picked + 1 < answer.options);
        Some(Self::But(lost.map(|(question, answer)| (question, answer.picked)).collect()))
    }

    /// Whether the state is the disk alone, so that equal bytes are equal states.
    pub fn settles(&self) -> bool {
        !matches!(self, Self::Death | Self::Evict)
    }
}

fn list<T>(parts: &[T], part: impl Fn(&T) -> String) -> String {
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Crash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Death => out.write_str("death"),
            Self::Evict => out.write_str("evict"),
            Self::All => out.write_str("all"),
            Self::Nothing => out.write_str("nothing"),
            Self::Seed(seed) => write!(out, "seed:{seed}"),
            Self::Mixed(seed) => write!(out, "mixed:{seed}"),
            Self::Script(script) => write!(out, "script:{}", list(script, usize::to_string)),
            Self::But(answers) => {
                write!(out, "but:{}", list(answers, |(at, picked)| format!("{at}={picked}")))
            }
        }
    }
}

impl FromStr for Crash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().map_err(|error| format!("{text}: {error}"));
        let parts = |parts: &str| -> Vec<String> {
            parts.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
        };
        Ok(match text.split_once(':') {
            None if text == "death" => Self::Death,
            None if text == "evict" => Self::Evict,
            None if text == "all" => Self::All,
            None if text == "nothing" => Self::Nothing,
            Some(("seed", seed)) => {
                Self::Seed(seed.parse().map_err(|error| format!("{text}: {error}"))?)
            }
            Some(("mixed", seed)) => {
                Self::Mixed(seed.parse().map_err(|error| format!("{text}: {error}"))?)
            }
            Some(("script", picks)) => {
                let picks = parts(picks);
                Self::Script(picks.iter().map(|pick| number(pick)).collect::<Result<_, _>>()?)
            }
            Some(("but", answers)) => {
                let answer = |answer: &String| {
                    let (at, picked) =
                        answer.split_once('=').ok_or_else(|| format!("{text}: QUESTION=ANSWER"))?;
                    Ok::<_, String>((number(at)?, number(picked)?))
                };
                Self::But(parts(answers).iter().map(answer).collect::<Result<_, _>>()?)
            }
            _ => return Err(format!("{text}: no kind of crash")),
        })
    }
}

/// Where a life ends: before the operation with this number, or in it after so many bytes if it is a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub op: u64,
    pub bytes: usize,
}

impl fmt::Display for Point {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}+{}", self.op, self.bytes)
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('+').and_then(|(op, bytes)| {
            Some(Self { op: op.parse().ok()?, bytes: bytes.parse().ok()? })
        });
        parts.ok_or_else(|| format!("{text}: expected OP+BYTES"))
    }
}

#[test]
fn crashes_are_read_as_they_are_written() {
    for text in [
        "death",
        "evict",
        "all",
        "nothing",
        "seed:7",
        "mixed:7",
        "script:",
        "script:0,2",
        "but:",
        "but:3=0,5=1",
    ] {
        assert_eq!(text.parse::<Crash>().unwrap().to_string(), text);
    }
    for wrong in ["", "deaths", "seed:", "but:3", "script:x"] {
        wrong.parse::<Crash>().unwrap_err();
    }
}
