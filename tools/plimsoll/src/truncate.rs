//! `plimsoll truncate`.

use crate::failure::Failure;
use crate::settings::SettingsFile;
use crate::{numbers, output, store};
use clap::Args;
use plimsoll::{LogName, Node, Offset};
use serde_json::json;
use std::path::PathBuf;

/// Free the segments that hold only records before an offset
///
/// Only whole segments go, the oldest first, and the last one always stays, so the log's first offset afterwards may lie
/// before N. Offsets never start again. Works while appends are refused for lack of space.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  plimsoll truncate /var/lib/plimsoll orders --before 1000000")]
pub(crate) struct Truncate {
    /// The data directory
    dir: PathBuf,
    /// The log
    log: LogName,
    /// The first offset to keep
    #[arg(long, value_name = "N")]
    before: u64,
    #[command(flatten)]
    settings: SettingsFile,
}

impl Truncate {
    /// Runs it.
    pub(crate) fn run(&self, as_json: bool) -> Result<(), Failure> {
        let settings = self.settings.read()?;
        let node = store::open(&self.dir, &settings)?;
        let result = self.truncate(&node, as_json);
        store::close(node, result)
    }

    fn truncate(&self, node: &Node, as_json: bool) -> Result<(), Failure> {
        let log = store::open_log(node, &self.dir, &self.log)?;
        let end = log.durable();
        if self.before > end.0 {
            return Err(Failure::usage(format!(
                "--before {}: the end of log {} is {end}, expected at most that",
                self.before, self.log
            ))
            .with("field", "--before")
            .with("end", end.0));
        }
        let done = log.truncate_before(Offset(self.before))?;
        if as_json {
            return output::line(json!({
                "log": self.log.as_str(), "head": done.head.0,
                "segments_freed": done.segments_freed, "bytes_freed": done.bytes_freed,
            }));
        }
        output::line(format_args!(
            "freed {}, {}; {} begins at offset {}",
            numbers::count(done.segments_freed, "segment"),
            numbers::size(done.bytes_freed),
            self.log,
            done.head
        ))
    }
}
