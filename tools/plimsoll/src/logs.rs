//! `plimsoll logs`.

use crate::failure::Failure;
use crate::table::{Cell, Lean};
use crate::{numbers, output, store, table};
use clap::Args;
use plimsoll::error::Stopped;
use plimsoll::{Log, LogName};
use serde_json::{Value, json};
use std::path::PathBuf;

/// List the logs of a data directory
///
/// For each log: its first offset (head), the offset that comes next (tail), the end of what is durable, the bytes that
/// its records and its files take, the number of segments, and its state.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  plimsoll logs /var/lib/plimsoll")]
pub(crate) struct Logs {
    /// The data directory
    dir: PathBuf,
}

/// What is told of a log.
struct Row {
    name: LogName,
    /// `None` where the log could not be opened.
    log: Option<Log>,
    state: &'static str,
}

impl Logs {
    /// Runs it.
    pub(crate) fn run(&self, as_json: bool) -> Result<(), Failure> {
        let node = store::open(&self.dir)?;
        let mut worst = None;
        let rows = node.open_all().map_err(Failure::from)?.into_iter();
        let rows: Vec<Row> = rows
            .map(|(name, opened)| match opened {
                Ok(log) => {
                    let (state, failure) = state(&log);
                    worst = worst.take().or(failure);
                    Row { name, log: Some(log), state }
                }
                Err(error) => {
                    worst.get_or_insert_with(|| {
                        Failure::from(error).within(format_args!("{name}: "))
                    });
                    Row { name, log: None, state: "unreadable" }
                }
            })
            .collect();
        let result = if as_json { print_json(&rows) } else { print_table(&rows) };
        let result = result.and(worst.map_or(Ok(()), Err));
        store::close(node, result)
    }
}

fn state(log: &Log) -> (&'static str, Option<Failure>) {
    let stopped = log.stopped();
    let name = match &stopped {
        None => "ok",
        Some(Stopped::Damaged(_)) => "damaged",
        Some(Stopped::ReadOnly(_)) => "read-only",
        Some(_) => "failed",
    };
    (name, stopped.map(|stopped| Failure::from(stopped).within(format_args!("{}: ", log.name()))))
}

fn print_json(rows: &[Row]) -> Result<(), Failure> {
    let object = |row: &Row| {
        let Some(log) = &row.log else {
            return json!({"name": row.name.as_str(), "state": row.state});
        };
        let bytes = log.bytes();
        json!({
            "name": row.name.as_str(), "head": log.head().0, "tail": log.tail().0, "durable": log.durable().0,
            "bytes": bytes.held, "disk_bytes": bytes.on_disk, "segments": log.segments().len(),
            "state": row.state,
        })
    };
    output::line(Value::Array(rows.iter().map(object).collect()))
}

fn print_table(rows: &[Row]) -> Result<(), Failure> {
    use Lean::{Left, Right};
    let columns = [
        ("NAME", Left),
        ("HEAD", Right),
        ("TAIL", Right),
        ("DURABLE", Right),
        ("BYTES", Right),
        ("ON DISK", Right),
        ("SEGMENTS", Right),
        ("STATE", Left),
    ];
    let cells = |row: &Row| {
        let style = if row.state == "ok" { output::GOOD } else { output::BAD };
        let numbers = row.log.as_ref().map_or_else(
            || vec![Cell::new("-"); 6],
            |log| {
                let bytes = log.bytes();
                vec![
                    Cell::new(log.head().to_string()),
                    Cell::new(log.tail().to_string()),
                    Cell::new(log.durable().to_string()),
                    Cell::new(numbers::size(bytes.held)),
                    Cell::new(numbers::size(bytes.on_disk)),
                    Cell::new(numbers::thousands(log.segments().len() as u64)),
                ]
            },
        );
        [vec![Cell::new(row.name.as_str())], numbers, vec![Cell::styled(style, row.state)]].concat()
    };
    let rows: Vec<Vec<Cell>> = rows.iter().map(cells).collect();
    table::lines(&columns, &rows).iter().try_for_each(output::line)
}
