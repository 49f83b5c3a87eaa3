//! `plimsoll delete`.

use crate::failure::Failure;
use crate::settings::SettingsFile;
use crate::{numbers, output, store};
use clap::Args;
use plimsoll::{LogName, Node};
use serde_json::json;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

/// Delete a log with all its records
///
/// Asks first on a terminal; anywhere else it wants --yes. A log that is made later under the same name starts at
/// offset 0.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  plimsoll delete /var/lib/plimsoll orders --yes")]
pub(crate) struct Delete {
    /// The data directory
    dir: PathBuf,
    /// The log
    log: LogName,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    settings: SettingsFile,
}

impl Delete {
    /// Runs it.
    pub(crate) fn run(&self, as_json: bool) -> Result<(), Failure> {
        let can_ask = io::stdin().is_terminal() && output::is_watched();
        if !self.yes && !can_ask {
            return Err(Failure::usage(format!(
                "deleting {} takes --yes where there is no terminal to ask on",
                self.log
            )));
        }
        let settings = self.settings.read()?;
        let node = store::open(&self.dir, &settings)?;
        let result = self.delete(&node, as_json);
        store::close(node, result)
    }

    fn delete(&self, node: &Node, as_json: bool) -> Result<(), Failure> {
        // Opened first so that a wrong name gets its list of similar ones, and for what is told and asked.
        let log = store::open_log(node, &self.dir, &self.log)?;
        let records = log.durable().0.saturating_sub(log.head().0);
        let on_disk = log.bytes().on_disk;
        drop(log);
        if !self.yes && !self.confirmed(records, on_disk)? {
            return Err(Failure::usage(format!("{} was not deleted", self.log)));
        }
        node.delete_log(&self.log)?;
        if as_json {
            return output::line(json!({
                "deleted": self.log.as_str(), "records": records, "disk_bytes": on_disk,
            }));
        }
        output::line(format_args!(
            "deleted {} with {}, {} on disk",
            self.log,
            numbers::count(records, "record"),
            numbers::size(on_disk)
        ))
    }

    fn confirmed(&self, records: u64, on_disk: u64) -> Result<bool, Failure> {
        let fail = |error| Failure::io("ask on", "the terminal", &error);
        let mut terminal = anstream::stderr().lock();
        write!(
            terminal,
            "Delete {} with {}, {} on disk? [y/N] ",
            self.log,
            numbers::count(records, "record"),
            numbers::size(on_disk)
        )
        .and_then(|()| terminal.flush())
        .map_err(fail)?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map_err(fail)?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }
}
