//! Standard output and standard error. Colour only on a terminal, and not where `NO_COLOR` asks for none.

use crate::failure::Failure;
use anstyle::{AnsiColor, Style};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::fd::AsFd;

/// Bold.
pub(crate) const BOLD: Style = Style::new().bold();
/// For what is well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// For what is damaged or failed.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// For what should be looked at.
pub(crate) const ODD: Style = AnsiColor::Yellow.on_default();

/// Text in a style.
pub(crate) fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Standard output for bulk data: one large buffer, and none of the standard library's flushing at each line.
pub(crate) fn bulk() -> Result<BufWriter<File>, Failure> {
    let fd = io::stdout().as_fd().try_clone_to_owned().map_err(|error| Failure::output(&error))?;
    Ok(BufWriter::with_capacity(256 * 1024, File::from(fd)))
}

/// Writes lines to standard output at once; styles are taken out where it is no terminal.
pub(crate) fn line(text: impl Display) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
}

/// A note on standard error. Where that is closed there is nobody to tell.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(anstream::stderr().lock(), "plimsoll: {text}");
}

/// The sentence of an error.
pub(crate) fn error_line(text: &str) {
    let label = styled(BAD, "error:");
    let _ = writeln!(anstream::stderr().lock(), "{label} {text}");
}

/// A line on standard error as it is.
pub(crate) fn plain_error_line(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether people look at standard error.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}
