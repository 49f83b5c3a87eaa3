//! Numbers: gathered by round, printed as a table or as JSON.

use crate::setup::Settings;
use std::fmt::Write;

/// What several rounds gave.
#[derive(Clone, Debug)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    pub(crate) fn new(values: Vec<f64>) -> Self {
        let mut values = values;
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    fn at(&self, share: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * share).round() as usize]
    }

    pub(crate) fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// Distance of the quartiles over the median: how far to trust it.
    fn spread(&self) -> f64 {
        (self.at(0.75) - self.at(0.25)) / self.median().abs()
    }
}

/// What a number should be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    None,
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn met(self, value: f64) -> Option<bool> {
        match self {
            Self::None => None,
            Self::AtLeast(bound) => Some(value >= bound),
            Self::AtMost(bound) => Some(value <= bound),
        }
    }
}

/// One column of a table: a value for each round.
#[derive(Clone, Debug)]
pub(crate) struct Column<'a> {
    pub(crate) name: &'a str,
    pub(crate) rounds: Vec<f64>,
}

/// Prints as it goes.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) json: bool,
}

impl Report {
    pub(crate) fn start(&self, settings: &Settings) {
        if self.json {
            return;
        }
        println!("in {}, {} rounds each", settings.dir().display(), settings.rounds);
        println!("spread: distance of the quartiles over the median\n");
        println!(
            "{:44} {:>12} {:>12} {:>12} {:>7}  goal",
            "what", "engine", "floor", "ratio", "spread"
        );
    }

    /// A rate beside its floor, a value of each for every round. The ratio is that of the rounds, not of the medians: both
    /// sides of one round saw the same disk.
    pub(crate) fn rate(&self, what: &str, unit: &str, pairs: &[(f64, f64)], goal: Goal) {
        let engine = Rounds::new(pairs.iter().map(|(engine, _)| *engine).collect());
        let floor = Rounds::new(pairs.iter().map(|(_, floor)| *floor).collect());
        let ratio = Rounds::new(pairs.iter().map(|(engine, floor)| engine / floor).collect());
        if self.json {
            let mut line = self.object(what, unit, &engine, Goal::None);
            let _ = write!(line, ",\"floor\":{:.4}", floor.median());
            let _ = write!(line, ",\"ratio\":{:.4}", ratio.median());
            let _ = write!(line, ",\"ratio_spread\":{:.4}", ratio.spread());
            if let Some(met) = goal.met(ratio.median()) {
                let _ = write!(line, ",\"goal_met\":{met}");
            }
            println!("{line}}}");
            return;
        }
        println!(
            "{:44} {:>12} {:>12} {:>12.3} {:>6.1}%  {}",
            format!("{what} ({unit})"),
            number(engine.median()),
            number(floor.median()),
            ratio.median(),
            ratio.spread() * 100.0,
            said(goal, ratio.median()),
        );
    }

    /// A number by itself.
    pub(crate) fn value(&self, what: &str, unit: &str, rounds: &Rounds, goal: Goal) {
        if self.json {
            println!("{}}}", self.object(what, unit, rounds, goal));
            return;
        }
        println!(
            "{:44} {:>12} {:>12} {:>12} {:>6.1}%  {}",
            format!("{what} ({unit})"),
            number(rounds.median()),
            "",
            "",
            rounds.spread() * 100.0,
            said(goal, rounds.median()),
        );
    }

    /// Begins a table whose first column is held against each of the others.
    pub(crate) fn columns(&self, title: &str, names: &[&str]) {
        if self.json {
            return;
        }
        let mut line = format!("\n{title:26} {:>10}", names[0]);
        for name in &names[1..] {
            let _ = write!(line, " {name:>13} {:>17}", "ratio, spread");
        }
        println!("{line}");
    }

    /// A row of it, of what should be small: the first column is behind another where the ratio is above 1 in three
    /// quarters of the rounds. The ratio is that of the rounds, as in [`Report::rate`].
    pub(crate) fn row(
        &self,
        title: &str,
        what: &str,
        unit: &str,
        columns: &[Column<'_>],
        judged: bool,
    ) {
        let (own, others) = columns.split_first().unwrap();
        let first = Rounds::new(own.rounds.clone());
        let mut line = format!("{:26} {:>10}", format!("{what} ({unit})"), number(first.median()));
        let (mut behind, mut level) = (Vec::new(), false);
        for other in others {
            let beside = Rounds::new(other.rounds.clone());
            let pairs = own.rounds.iter().zip(&other.rounds);
            let ratio = Rounds::new(pairs.map(|(own, other)| own / other).collect());
            if self.json {
                let what = format!("{title}, {what}, {} beside {}", own.name, other.name);
                let mut line = self.object(&what, unit, &first, Goal::None);
                let _ = write!(line, ",\"beside\":{:.4}", beside.median());
                let _ = write!(line, ",\"ratio\":{:.4}", ratio.median());
                let _ = write!(line, ",\"ratio_spread\":{:.4}", ratio.spread());
                if judged {
                    let _ = write!(line, ",\"goal_met\":{}", ratio.at(0.25) <= 1.0);
                }
                println!("{line}}}");
                continue;
            }
            let (median, spread) = (ratio.median(), ratio.spread() * 100.0);
            let _ = write!(line, " {:>13} {median:>9.3} {spread:>6.1}%", number(beside.median()));
            if ratio.at(0.25) > 1.0 {
                behind.push(other.name);
            }
            level |= median > 0.995;
        }
        match (judged, behind.is_empty()) {
            _ if self.json => return,
            (true, false) => {
                let _ = write!(line, "  BEHIND {}", behind.join(", "));
            }
            (true, true) => line.push_str(if level { "  ahead or level" } else { "  ahead" }),
            (false, _) => {}
        }
        println!("{line}");
    }

    /// The object without its end.
    fn object(&self, what: &str, unit: &str, rounds: &Rounds, goal: Goal) -> String {
        let mut line = format!("{{\"what\":\"{what}\",\"unit\":\"{unit}\"");
        let _ = write!(line, ",\"value\":{:.4}", rounds.median());
        let _ = write!(line, ",\"spread\":{:.4},\"rounds\":{}", rounds.spread(), rounds.0.len());
        if let Some(met) = goal.met(rounds.median()) {
            let _ = write!(line, ",\"goal_met\":{met}");
        }
        line
    }
}

fn said(goal: Goal, value: f64) -> String {
    let met = match goal.met(value) {
        None => return String::new(),
        Some(true) => "met",
        Some(false) => "MISSED",
    };
    match goal {
        Goal::None => String::new(),
        Goal::AtLeast(bound) => format!(">= {bound}: {met}"),
        Goal::AtMost(bound) => format!("<= {bound}: {met}"),
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1000.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
