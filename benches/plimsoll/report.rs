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
