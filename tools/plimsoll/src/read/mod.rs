//! `plimsoll read`.

mod print;
mod since;

use crate::failure::Failure;
use crate::signals::Interrupt;
use crate::view::{self, NoRecord, Records, Store, Unsettled, View};
use crate::{numbers, output};
use clap::Args;
use plimsoll::{LogName, Offset};
use print::Form;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often a follower looks for more, unless a look takes long.
const FOLLOW_STEP: Duration = Duration::from_millis(100);

/// Print the records of a log, a payload a line
///
/// Prints durable records only, from the log's first one or from where it is told. With --json a record is an object of
/// `offset`, `time`, `headers`, and `payload` where that is text, else `payload_base64`. Works beside a process that
/// appends; the last records of that show when the next ones, or some seconds of quiet, make them known as durable.
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
    /// Print also records that may not be durable yet, and may never be
    #[arg(long)]
    unconfirmed: bool,
}

impl Read {
    /// Runs it.
    pub(crate) fn run(&self, as_json: bool) -> Result<(), Failure> {
        let store = Store::open(&self.dir)?;
        let dir = store.log_dir(&self.log)?;
        let (view, unsettled) = view::settled(&store, &self.log, &dir, self.unconfirmed)?;
        if let Some(why) = unsettled {
            self.note_hidden(&view, why);
        }
        let interrupt = if self.follow { Some(Interrupt::watch()?) } else { None };
        let start = self.start(&view)?;
        // "Not there yet" would deny what was confirmed behind the damage.
        if let Some(damage) = view.damage().filter(|_| start > view.end()) {
            return Err(damage.clone().into());
        }
        let records = Records::new(view, start)?;
        self.print(records, self.form(as_json), interrupt.as_ref())
    }

    fn form(&self, as_json: bool) -> Form {
        match (as_json, self.raw, self.length_prefixed) {
            (true, ..) => Form::Json,
            (_, true, _) => Form::Raw,
            (.., true) => Form::LengthPrefixed,
            _ => Form::Lines,
        }
    }

    fn start(&self, view: &View) -> Result<Offset, Failure> {
        match (self.from, self.since) {
            (Some(from), _) => Ok(Offset(from)),
            (None, Some(millis)) => view.offset_for_time(millis),
            (None, None) => Ok(view.head()),
        }
    }

    /// Tells how many records are there that are not printed.
    fn note_hidden(&self, view: &View, why: Unsettled) {
        let (log, why) = (&self.log, why.reason());
        let are = |count: u64| if count == 1 { "is" } else { "are" };
        match (view.hidden(), view.unconfirmed()) {
            (0, 0) => {}
            (0, shown) => {
                let records = numbers::count(shown, "record");
                output::note(format_args!("{log}: {records} at the end {} {why}", are(shown)));
            }
            (hidden, _) => {
                let records = numbers::count(hidden, "more record");
                let are = are(hidden);
                output::note(format_args!(
                    "{log}: {records} {are} {why}; --unconfirmed shows what is there"
                ));
            }
        }
    }

    fn print(
        &self,
        mut records: Records,
        form: Form,
        interrupt: Option<&Interrupt>,
    ) -> Result<(), Failure> {
        let fail = |error| Failure::output(&error);
        let mut out = output::bulk()?;
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            match records.next() {
                Ok(Some(record)) => {
                    form.write(&mut out, &record).map_err(fail)?;
                    left -= 1;
                }
                Ok(None) => {
                    out.flush().map_err(fail)?;
                    if let Some(damage) = records.view().damage() {
                        return Err(damage.clone().into());
                    }
                    let Some(interrupt) = interrupt else { break };
                    if !self.wait(&mut records, interrupt)? {
                        break;
                    }
                }
                Err(NoRecord::Gone { wanted, next }) => {
                    out.flush().map_err(fail)?;
                    let last = next.0.saturating_sub(1);
                    let log = &self.log;
                    output::note(format_args!(
                        "{log}: records {wanted} to {last} are gone; reading goes on at {next}"
                    ));
                    records.skip_to(next);
                }
                Err(NoRecord::Failed(failure)) => {
                    // What comes before the damage is printed before the damage is told.
                    out.flush().map_err(fail)?;
                    return Err(failure);
                }
            }
        }
        out.flush().map_err(fail)
    }

    /// Waits until there is more; `false` if a signal came first.
    fn wait(&self, records: &mut Records, interrupt: &Interrupt) -> Result<bool, Failure> {
        let mut pause = FOLLOW_STEP;
        loop {
            let start = Instant::now();
            while start.elapsed() < pause {
                if interrupt.is_up() {
                    return Ok(false);
                }
                std::thread::sleep(FOLLOW_STEP.min(pause - start.elapsed().min(pause)));
            }
            let start = Instant::now();
            records.refresh(self.unconfirmed)?;
            if records.position() < records.view().end() || records.view().damage().is_some() {
                return Ok(true);
            }
            // A log of thousands of segments takes time to look at: a tenth of ours, and no more, goes there.
            pause = FOLLOW_STEP.max(start.elapsed() * 9);
        }
    }
}
