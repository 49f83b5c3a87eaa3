//! What was confirmed so far, on the terminal while it goes on and in a line at the end.

use super::pressure::Cost;
use crate::failure::Failure;
use crate::numbers::{rate, size, thousands};
use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plimsoll::log::Appended;
use serde_json::json;
use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Counts what is confirmed.
#[derive(Debug)]
pub(crate) struct Tally {
    start: Instant,
    first: Option<u64>,
    last: Option<u64>,
    records: u64,
    bytes: u64,
    progress: ProgressBar,
}

impl Tally {
    /// Starts the clock. The progress line is for a terminal, and not for one that somebody types the input on.
    pub(crate) fn start(quiet: bool) -> Self {
        let progress = if quiet || !output::is_watched() || io::stdin().is_terminal() {
            ProgressBar::hidden()
        } else {
            bar(input_len())
        };
        Self { start: Instant::now(), first: None, last: None, records: 0, bytes: 0, progress }
    }

    /// Counts a batch.
    pub(crate) fn confirmed(&mut self, appended: Appended, bytes: u64) {
        self.first.get_or_insert(appended.first.0);
        self.last = Some(appended.first.0 + appended.count.saturating_sub(1));
        self.records += appended.count;
        self.bytes += bytes;
        if !self.progress.is_hidden() {
            // A line's newline is input too, though not payload.
            self.progress.set_position(self.bytes + self.records);
            self.progress.set_message(self.rates());
        }
    }

    /// Tells something in between, without tearing the progress line.
    pub(crate) fn note(&self, text: impl Display) {
        self.progress.suspend(|| output::note(text));
    }

    /// The last offset that was confirmed.
    pub(crate) fn last(&self) -> Option<u64> {
        self.last
    }

    fn rates(&self) -> String {
        let seconds = self.start.elapsed().as_secs_f64();
        format!(
            "{} records/s, {}/s",
            thousands(rate(self.records, seconds)),
            size(rate(self.bytes, seconds))
        )
    }

    /// Prints the sum, and what pressure has cost.
    pub(crate) fn finish(&self, cost: &Cost, as_json: bool) -> Result<(), Failure> {
        self.progress.finish_and_clear();
        if as_json {
            let mut sum = json!({
                "event": "appended", "records": self.records, "first": self.first, "last": self.last,
                "bytes": self.bytes, "seconds": self.start.elapsed().as_secs_f64(),
            });
            if let Some(sum) = sum.as_object_mut() {
                cost.insert(sum);
            }
            return output::line(sum);
        }
        let (Some(first), Some(last)) = (self.first, self.last) else {
            return output::line(format_args!("appended 0 records{}", cost.text()));
        };
        let records = if self.records == 1 { "record" } else { "records" };
        output::line(format_args!(
            "appended {} {records}, offsets {first} to {last}, {}, {}{}",
            self.records,
            size(self.bytes),
            self.rates(),
            cost.text()
        ))
    }
}

/// How long the input is, where it is a file.
fn input_len() -> Option<u64> {
    let file = std::fs::File::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
    let metadata = file.metadata().ok()?;
    metadata.is_file().then_some(metadata.len()).filter(|&len| len > 0)
}

fn bar(len: Option<u64>) -> ProgressBar {
    let template = match len {
        Some(_) => "{wide_bar} {binary_bytes}/{binary_total_bytes} {msg} eta {eta}",
        None => "{spinner} {binary_bytes} {msg}",
    };
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let target = ProgressDrawTarget::stderr_with_hz(5);
    let bar = ProgressBar::with_draw_target(len, target).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
