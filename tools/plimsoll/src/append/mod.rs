//! `plimsoll append`: standard input into a log, confirmed batch by batch.
//!
//! One thread reads and takes the input apart, this one appends what has arrived. While a commit is under way the input
//! goes on, so slow disks get large batches and slow inputs small ones; nothing that has arrived is held back.

mod batch;
mod decode;
mod feed;
mod handover;
mod lines;
mod ndjson;
mod prefixed;
mod pressure;
mod tally;

use crate::failure::{Exit, Failure};
use crate::settings::SettingsFile;
use crate::{output, signals, store};
use batch::Batch;
use clap::Args;
use decode::Decoder;
use handover::{Handover, Taken};
use plimsoll::error::{AppendError, PublishError};
use plimsoll::{LimitReason, LogName, LogOptions, Node};
use pressure::{NotAppended, Way};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tally::Tally;

/// Append standard input to a log, a record for each line
///
/// A record's payload is the line without its newline, whatever bytes it has; an empty line is an empty payload, and a
/// last line without a newline counts too. The data directory and the log are made if they are missing. Records are
/// confirmed in batches: each is durable before the next is written. SIGINT and SIGTERM end after the last confirmed
/// batch, say which offset that was, and give exit code 130 or 143, as the rest of the input was not appended.
///
/// When space or memory runs low, appends are slowed by up to 50 ms a batch (level soft); from level hard on they are
/// refused. A batch that is refused waits as long as it is told to and tries again, until --timeout is over; then
/// the command ends with exit code 75 and says which offset was confirmed last. Both are told on standard error when they
/// begin and when they end, or with --json as events. `plimsoll pressure` shows the levels.
#[derive(Args, Debug)]
#[command(after_help = "\
With --ndjson a line is an object such as
  {\"headers\":{\"type\":\"order\"},\"payload\":\"text\"}
with `payload_base64` in place of `payload` for bytes, and {\"base64\":\"...\"} for a header's value that is no text.

Examples:
  plimsoll append /var/lib/plimsoll orders < orders.txt
  tail -F app.log | plimsoll append /var/lib/plimsoll app --confirm")]
pub(crate) struct Append {
    /// The data directory
    dir: PathBuf,
    /// The log
    log: LogName,
    /// Read a JSON object from each line, with headers and payload
    #[arg(long, conflicts_with = "length_prefixed")]
    ndjson: bool,
    /// Read binary records: a length (u32, little-endian), then the payload
    #[arg(long)]
    length_prefixed: bool,
    /// Print the first and last offset of each batch as soon as it is durable
    #[arg(long)]
    confirm: bool,
    /// Keep the log's segment files small; for logs of metadata and acknowledgements
    #[arg(long)]
    small: bool,
    /// How long a batch waits that is refused for lack of space or memory; 0s for not at all
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    #[command(flatten)]
    settings: SettingsFile,
}

/// What an append works with.
struct Job<'a> {
    args: &'a Append,
    way: Way<'a>,
    tally: Tally,
    as_json: bool,
}

impl Append {
    /// Runs it.
    pub(crate) fn run(&self, as_json: bool) -> Result<(), Failure> {
        let settings = self.settings.read()?;
        let node = store::open_or_create(&self.dir, &settings)?;
        let result = self.append(&node, as_json);
        store::close(node, result)
    }

    fn append(&self, node: &Node, as_json: bool) -> Result<(), Failure> {
        let mut options = LogOptions::default();
        options.small = self.small;
        let log = node.open_log(&self.log, options)?;
        let handover = Arc::new(Handover::default());
        let stopped = handover.clone();
        signals::on_interrupt(move |signal| stopped.stop(signal))?;
        feed::spawn(self.decoder(), handover.clone())?;
        let quiet = as_json || self.confirm;
        let way = Way::new(node, log, &handover, self.timeout, as_json);
        let mut job = Job { args: self, way, tally: Tally::start(quiet), as_json };
        let result = job.work(&handover);
        // Whatever ended the work: what was confirmed before is told first.
        let told = job.tally.finish(&job.way.cost(), as_json);
        result.and(told)
    }

    fn decoder(&self) -> Box<dyn Decoder + Send> {
        if self.ndjson {
            Box::new(ndjson::Ndjson::default())
        } else if self.length_prefixed {
            Box::new(prefixed::Prefixed::default())
        } else {
            Box::new(lines::Lines::default())
        }
    }
}

impl Job<'_> {
    fn work(&mut self, handover: &Handover) -> Result<(), Failure> {
        let mut spare = Batch::default();
        loop {
            match handover.take(spare) {
                Taken::Batch(batch) => {
                    self.append(&batch)?;
                    spare = batch;
                }
                Taken::End(Ok(())) => return Ok(()),
                Taken::End(Err(failure)) => return Err(self.with_confirmed(failure)),
                Taken::Stopped(signal) => {
                    let failure = Failure::new(Exit::Signal(signal), "interrupted");
                    return Err(self.with_confirmed(failure));
                }
            }
        }
    }

    /// Appends a batch; where one of its records is too large, the ones before it.
    fn append(&mut self, batch: &Batch) -> Result<(), Failure> {
        let records = batch.records();
        match self.publish(batch, records.len()) {
            Err(NotAppended::Error(PublishError::Append(AppendError::RecordTooLarge {
                index,
                len,
                max,
            }))) => {
                if index > 0 {
                    let before = self.publish(batch, index);
                    before.map_err(|error| self.refused(batch, error))??;
                }
                let sentence = format!(
                    "standard input, {} {}: the record takes {len} bytes with its header, expected at most {max}",
                    self.args.unit(),
                    batch.first_item() + index as u64,
                );
                let failure = Failure::usage(sentence).with("bytes", len).with("max_bytes", max);
                Err(self.with_confirmed(
                    failure.with(self.args.unit(), batch.first_item() + index as u64),
                ))
            }
            Err(error) => Err(self.refused(batch, error)),
            Ok(told) => told,
        }
    }

    /// Appends the first `count` records. The inner result is that of telling.
    fn publish(&mut self, batch: &Batch, count: usize) -> Result<Result<(), Failure>, NotAppended> {
        let records = &batch.records()[..count];
        let appended = self.way.publish(records, &self.tally)?;
        let bytes =
            records.iter().map(|record| (record.headers.len() + record.payload.len()) as u64).sum();
        self.tally.confirmed(appended, bytes);
        let (first, last) = (appended.first.0, appended.first.0 + appended.count - 1);
        let told = if self.as_json {
            output::line(serde_json::json!({"event": "confirmed", "first": first, "last": last}))
        } else if self.args.confirm {
            output::line(format_args!("confirmed offsets {first} to {last}"))
        } else {
            Ok(())
        };
        Ok(told.and_then(|()| self.way.go_on(&self.tally)))
    }

    fn refused(&self, batch: &Batch, error: NotAppended) -> Failure {
        let error = match error.into_failure() {
            Ok(failure) => return self.with_confirmed(failure),
            Err(error) => error,
        };
        let unit = self.args.unit();
        let (first, last) = (batch.first_item(), batch.first_item() + batch.len() as u64 - 1);
        let is_disk =
            matches!(&error, PublishError::Limited(limited) if limited.reason == LimitReason::Disk);
        let advice = if is_disk {
            "; free space there, or free segments with `plimsoll truncate`"
        } else {
            ""
        };
        let failure = Failure::from(error).and(advice).within(format_args!(
            "{}, {unit}s {first} to {last} of standard input: ",
            self.args.log
        ));
        self.with_confirmed(failure)
    }

    /// Says in the sentence up to where all is well.
    fn with_confirmed(&self, failure: Failure) -> Failure {
        match self.tally.last() {
            Some(last) => failure
                .and(format_args!("; the last confirmed offset is {last}"))
                .with("last_confirmed", last),
            None => failure
                .and("; nothing was confirmed")
                .with("last_confirmed", serde_json::Value::Null),
        }
    }
}

impl Append {
    /// What the input consists of.
    fn unit(&self) -> &'static str {
        if self.length_prefixed { "record" } else { "line" }
    }
}
