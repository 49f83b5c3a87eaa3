//! Figures as a table for people, or as one JSON object for programs.
use serde_json::Value;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// Where a command prints.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
}

/// A table: every cell is text, columns of figures are flush right.
#[derive(Debug, Default)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    /// Columns of words beside the first.
    words: &'static [usize],
    rows: Vec<Vec<String>>,
}

impl Table {
    /// The first column is words, the others are figures.
    pub(crate) fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), ..Self::default() }
    }

    /// These columns are words too.
    pub(crate) fn words(self, words: &'static [usize]) -> Self {
        Self { words, ..self }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn lines(&self) -> Vec<String> {
        let head: Vec<String> = self.head.iter().map(|&cell| cell.to_owned()).collect();
        let rows: Vec<&Vec<String>> = std::iter::once(&head).chain(&self.rows).collect();
        let width = |column: usize| {
            rows.iter().filter_map(|row| Some(row.get(column)?.chars().count())).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let line = |row: &&Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if column == 0 || self.words.contains(&column) {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        rows.iter().map(line).collect()
    }
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// A line for people; nothing with `--json`.
    pub(crate) fn say(&self, text: impl std::fmt::Display) {
        if !self.json {
            out(format_args!("{text}"));
        }
    }

    /// What went wrong: on standard error, with `--json` too.
    pub(crate) fn wrong(&self, text: impl std::fmt::Display) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// A table for people; nothing with `--json`.
    pub(crate) fn table(&self, table: &Table) {
        for line in table.lines() {
            self.say(line);
        }
    }

    /// The object for programs; nothing without `--json`.
    pub(crate) fn json(&self, value: &Value) {
        if self.json {
            out(format_args!("{value:#}"));
        }
    }

    /// A bar on standard error, on a terminal only. Without `len` it counts.
    pub(crate) fn bar(&self, len: Option<u64>, what: &'static str) -> indicatif::ProgressBar {
        use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
        if !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = len.map_or_else(ProgressBar::no_length, ProgressBar::new);
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(8));
        let shape = if len.is_some() {
            "{elapsed_precise} [{bar:30}] {human_pos}/{human_len} {prefix} {msg}"
        } else {
            "{elapsed_precise} {spinner} {human_pos} {prefix} {msg}"
        };
        if let Ok(style) = ProgressStyle::with_template(shape) {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        bar
    }
}

/// A reader that went away, as `head` does, ends the command and is no failure of it.
fn out(text: std::fmt::Arguments<'_>) {
    if writeln!(io::stdout().lock(), "{text}").is_err() {
        std::process::exit(0);
    }
}

/// A number with spaces between thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// How many in a second.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a figure to read"
)]
pub(crate) fn per_second(number: u64, elapsed: Duration) -> u64 {
    (number as f64 / elapsed.as_secs_f64().max(1e-9)) as u64
}
