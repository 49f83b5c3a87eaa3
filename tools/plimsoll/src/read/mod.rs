//! `plimsoll read`.

mod print;
mod since;

use crate::failure::Failure;
use crate::signals::Interrupt;
use crate::{output, store};
use clap::Args;
use plimsoll::error::ReadError;
use plimsoll::{Log, LogName, Node, Offset, Reader};
use print::Form;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// How long a signal may stay unnoticed.
const FOLLOW_STEP: Duration = Duration::from_millis(200);

/// Print the records of a log, a payload a line
///
/// Prints durable records only, from the log's first one or from where it is told. With --json a record is an object of
/// `offset`, `time`, `headers`, and `payload` where that is text, else `payload_base64`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  plimsoll read /var/lib/plimsoll orders --from 1000 --count 10
  plimsoll read /var/lib/plimsoll orders --since 10m --json
  plimsoll read /var/lib/plimsoll orders --follow")]
pub(crate) struct Read {
    /// The data directory
    dir: PathBuf,
    /// The log
    log: LogName,
    /// Begin at this offset
    #[arg(long, value_name = "N", conflicts_with = "since")]
    from: Option<u64>,
    /// Begin at this time: RFC 3339, or a span before now such as 10m
    #[arg(long, value_name = "TIME", value_parser = since::parse)]
    since: Option<u64>,
    /// Print at most this many records
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// At the end wait for more, until SIGINT or SIGTERM
    #[arg(long, short)]
    follow: bool,
    /// Print payloads with nothing between them
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Print binary records: the payload's length (u32, little-endian), then the payload
    #[arg(long, conflicts_with_all = ["json", "raw"])]
    length_prefixed: bool,
}

impl Read {
    /// Runs it.
    pub(crate) fn run(&self, as_json: bool) -> Result<(), Failure> {
        let node = store::open(&self.dir)?;
        let result = self.read(&node, self.form(as_json));
        store::close(node, result)
    }

    fn form(&self, as_json: bool) -> Form {
        match (as_json, self.raw, self.length_prefixed) {
            (true, ..) => Form::Json,
            (_, true, _) => Form::Raw,
            (.., true) => Form::LengthPrefixed,
            _ => Form::Lines,
        }
    }

    fn read(&self, node: &Node, form: Form) -> Result<(), Failure> {
        let log = store::open_log(node, &self.dir, &self.log)?;
        let interrupt = if self.follow { Some(Interrupt::watch()?) } else { None };
        let mut out = output::bulk()?;
        let mut reader = self.open(&log, self.start(&log)?)?;
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            match reader.next() {
                Ok(Some(record)) => {
                    form.write(&mut out, &record).map_err(|error| Failure::output(&error))?;
                    left -= 1;
                }
                Ok(None) => {
                    out.flush().map_err(|error| Failure::output(&error))?;
                    let Some(interrupt) = &interrupt else { break };
                    while !interrupt.is_up() && !reader.wait(FOLLOW_STEP)? {}
                    if interrupt.is_up() {
                        break;
                    }
                }
                Err(ReadError::Gone { wanted, next }) => reader = self.skip(&log, wanted, next)?,
                Err(error) => {
                    // What comes before the damage is printed before the damage is told.
                    out.flush().map_err(|error| Failure::output(&error))?;
                    return Err(error.into());
                }
            }
        }
        out.flush().map_err(|error| Failure::output(&error))
    }

    fn start(&self, log: &Log) -> Result<Offset, Failure> {
        match (self.from, self.since) {
            (Some(from), _) => Ok(Offset(from)),
            (None, Some(millis)) => Ok(log.offset_for_time(millis)?),
            (None, None) => Ok(log.head()),
        }
    }

    fn open(&self, log: &Log, start: Offset) -> Result<Reader, Failure> {
        match log.read_from(start) {
            Err(ReadError::Gone { wanted, next }) => self.skip(log, wanted, next),
            other => Ok(other?),
        }
    }

    /// Goes on behind records that were truncated, or that a repair declared lost, and says so.
    fn skip(&self, log: &Log, wanted: Offset, next: Offset) -> Result<Reader, Failure> {
        let last = next.0.saturating_sub(1);
        output::note(format_args!(
            "{}: records {wanted} to {last} are gone; reading goes on at {next}",
            self.log
        ));
        Ok(log.read_from(next)?)
    }
}
