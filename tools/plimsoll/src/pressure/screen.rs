//! Where `--watch` shows its looks: on a terminal one over the other, elsewhere one below the other.

use crate::failure::Failure;
use crate::output;
use std::io::{IsTerminal, Write};

/// The terminal's other screen, so that what stood there before comes back; to its beginning; from there on clear.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_REST: &str = "\x1b[J";

/// See the top of the file. Dropped, it gives the terminal back.
#[derive(Debug)]
pub(crate) struct Screen {
    in_place: bool,
    /// What was drawn last.
    last: Vec<String>,
}

impl Screen {
    /// Takes the terminal, if standard output is one.
    pub(crate) fn new() -> Result<Self, Failure> {
        let in_place = std::io::stdout().is_terminal();
        let this = Self { in_place, last: Vec::new() };
        if in_place {
            write(ENTER)?;
        }
        Ok(this)
    }

    /// Shows some lines.
    pub(crate) fn draw(&mut self, lines: Vec<String>) -> Result<(), Failure> {
        if self.in_place {
            let lines: String = lines.iter().map(|line| format!("{line}{CLEAR_LINE}\n")).collect();
            write(&format!("{HOME}{lines}{CLEAR_REST}"))?;
        } else {
            // A block at a time, and a line between two.
            let first = self.last.is_empty();
            output::line(format_args!("{}{}", if first { "" } else { "\n" }, lines.join("\n")))?;
        }
        self.last = lines;
        Ok(())
    }

    /// Gives the terminal back, with the last look on it.
    pub(crate) fn close(mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.in_place) {
            write(LEAVE)?;
            self.last.iter().try_for_each(output::line)?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.in_place {
            // Where it cannot be written to there is nothing to give back.
            let _ = write(LEAVE);
        }
    }
}

/// To the terminal. Colours are taken out where they are not wanted; what moves the cursor goes past that.
fn write(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::output(&error))
}
