//! What a scenario saw: figures, and what was broken.

use std::fmt;

/// So many breaches are told in words; the rest are counted.
const TOLD: usize = 20;

/// How a scenario ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All that was promised held.
    Held,
    /// Something did not.
    Broken,
    /// This machine cannot run it, with the reason.
    Skipped(String),
}

/// The report of one scenario.
#[derive(Clone, Debug, Default)]
pub struct Report {
    name: String,
    lines: Vec<(String, String)>,
    told: Vec<String>,
    broken: u64,
    skipped: Option<String>,
    loud: bool,
}

impl Report {
    /// An empty one for a scenario.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// One that says every line on standard error when it is known.
    #[must_use]
    pub fn loud(mut self, loud: bool) -> Self {
        self.loud = loud;
        self
    }

    /// One for a scenario that this machine cannot run.
    #[must_use]
    pub fn skipped(name: &str, reason: impl Into<String>) -> Self {
        Self { name: name.to_owned(), skipped: Some(reason.into()), ..Self::default() }
    }

    /// Adds a figure.
    pub fn line(&mut self, what: &str, value: impl fmt::Display) {
        let value = value.to_string();
        if self.loud {
            eprintln!("{}: {what}: {value}", self.name);
        }
        self.lines.push((what.to_owned(), value));
    }

    /// Says how far it is, where anybody listens; no part of the report.
    pub fn progress(&self, text: impl fmt::Display) {
        if self.loud {
            eprintln!("{}: … {text}", self.name);
        }
    }

    /// Adds a breach.
    pub fn broken(&mut self, what: impl Into<String>) {
        let what = what.into();
        if self.loud && self.told.len() < TOLD {
            eprintln!("{}: BROKEN: {what}", self.name);
        }
        self.broken += 1;
        if self.told.len() < TOLD {
            self.told.push(what);
        }
    }

    /// Adds a breach if `held` is false.
    pub fn expect(&mut self, held: bool, what: impl Into<String>) {
        if !held {
            self.broken(what);
        }
    }

    /// Takes over the breaches and figures of another report.
    pub fn absorb(&mut self, other: Self) {
        for (what, value) in other.lines {
            self.lines.push((format!("{}: {what}", other.name), value));
        }
        self.broken += other.broken;
        let room = TOLD.saturating_sub(self.told.len());
        self.told.extend(
            other.told.into_iter().take(room).map(|told| format!("{}: {told}", other.name)),
        );
    }

    /// How many breaches there were.
    #[must_use]
    pub fn breaches(&self) -> u64 {
        self.broken
    }

    /// How it ended.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match &self.skipped {
            Some(reason) => Verdict::Skipped(reason.clone()),
            None if self.broken == 0 => Verdict::Held,
            None => Verdict::Broken,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        let width = self.lines.iter().map(|(what, _)| what.chars().count()).max().unwrap_or(0);
        for (what, value) in &self.lines {
            writeln!(f, "  {what:<width$}  {value}")?;
        }
        for told in &self.told {
            writeln!(f, "  BROKEN: {told}")?;
        }
        let more = self.broken - self.told.len() as u64;
        if more > 0 {
            writeln!(f, "  BROKEN: {more} more")?;
        }
        match self.verdict() {
            Verdict::Held => writeln!(f, "  held"),
            Verdict::Broken => writeln!(f, "  {} broken", self.broken),
            Verdict::Skipped(reason) => writeln!(f, "  SKIPPED: {reason}"),
        }
    }
}
