//! `plimsoll logs`.

use crate::cost::Cost;
use crate::failure::Failure;
use crate::table::{Cell, Lean};
use crate::view::{self, Store, Unsettled, View};
use crate::{numbers, output, table};
use anstyle::Style;
use clap::Args;
use plimsoll::LogName;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Logs are looked at by so many threads: most of the time is waiting for the disk.
const THREADS: usize = 8;

/// List the logs of a data directory
///
/// For each log: its first offset (head), the offset that comes next (tail), the end of what is durable, the bytes that
/// its records hold, the size of its files, what they take on the disk, how much of that holds records, the number of
/// segments, and its state. A full segment is not read for this: its records count as large as its file.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  plimsoll logs /var/lib/plimsoll")]
pub(crate) struct Logs {
    /// The data directory
    dir: PathBuf,
}

/// What is told of a log.
struct Row {
    name: LogName,
    view: Result<(View, Cost), Failure>,
    unsettled: Option<Unsettled>,
}

impl Logs {
    /// Runs it.
    pub(crate) fn run(&self, as_json: bool) -> Result<(), Failure> {
        let store = Store::open(&self.dir)?;
        let mut rows = look_at_all(&store, store.names()?);
        recover(&store, &mut rows)?;
        if as_json {
            output::line(Value::Array(rows.iter().map(Row::json).collect()))?;
        } else {
            print_table(&rows)?;
        }
        worst(rows)
    }
}

fn look(store: &Store, name: LogName) -> Row {
    let view = store.log_dir(&name).and_then(|dir| {
        let view = View::look(&dir, false)?;
        let cost = view.cost()?;
        Ok((view, cost))
    });
    Row { name, view, unsettled: None }
}

fn look_at_all(store: &Store, names: Vec<LogName>) -> Vec<Row> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut rows = Vec::new();
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            rows.push(look(store, name.clone()));
        }
        rows
    };
    let mut rows = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..THREADS.min(names.len())).map(|_| scope.spawn(work)).collect();
        let mut rows = work();
        for thread in threads {
            rows.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        rows
    });
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

/// Recovers the logs whose end is not known to be durable, if this process may, and looks at them again.
fn recover(store: &Store, rows: &mut [Row]) -> Result<(), Failure> {
    let open = |row: &Row| row.view.as_ref().is_ok_and(|(view, _)| !view.is_settled());
    let names: Vec<LogName> =
        rows.iter().filter(|row| open(row)).map(|row| row.name.clone()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let why = view::recover(store, &names.iter().collect::<Vec<_>>())?;
    for row in rows.iter_mut().filter(|row| names.contains(&row.name)) {
        *row = look(store, row.name.clone());
        row.unsettled = why.or(open(row).then_some(Unsettled::NotRecovered));
    }
    Ok(())
}

/// The damaged logs decide the exit code, then those that cannot be read.
fn worst(rows: Vec<Row>) -> Result<(), Failure> {
    let mut unreadable = None;
    for row in rows {
        let within = format!("{}: ", row.name);
        match row.view {
            Ok((view, _)) => {
                if let Some(damage) = view.damage() {
                    return Err(Failure::from(damage.clone()).within(within));
                }
            }
            Err(failure) => {
                unreadable.get_or_insert(failure.within(within));
            }
        }
    }
    unreadable.map_or(Ok(()), Err)
}

impl Row {
    fn state(&self) -> (&'static str, Style) {
        match (&self.view, self.unsettled) {
            (Err(failure), _) if failure.field("outcome") == Some(view::FOREIGN) => {
                (view::FOREIGN, output::BAD)
            }
            (Err(_), _) => ("unreadable", output::BAD),
            (Ok((view, _)), _) if view.damage().is_some() => ("damaged", output::BAD),
            (_, Some(Unsettled::BeingWritten)) => ("being written", output::GOOD),
            (_, Some(Unsettled::NotRecovered)) => ("not recovered", output::ODD),
            (_, None) => ("ok", output::GOOD),
        }
    }

    fn json(&self) -> Value {
        let view = self.view.as_ref().ok().map(|(view, _)| view);
        let cost = self.view.as_ref().ok().map(|(_, cost)| cost);
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
        put("name", json!(self.name.as_str()));
        put("head", json!(view.map(|view| view.head().0)));
        put("tail", json!(view.map(|view| view.tail().0)));
        put("durable", json!(view.map(|view| view.end().0)));
        put("segments", json!(view.map(View::segments)));
        put("state", json!(self.state().0));
        Cost::insert(cost, &mut object);
        Value::Object(object)
    }

    fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![Cell::new(self.name.as_str())];
        match &self.view {
            Err(_) => cells.extend(vec![Cell::new("-"); 8]),
            Ok((view, cost)) => cells.extend([
                Cell::new(view.head().to_string()),
                Cell::new(view.tail().to_string()),
                Cell::new(view.end().to_string()),
                Cell::new(numbers::size(cost.held.bytes)),
                Cell::new(numbers::size(cost.files)),
                Cell::new(numbers::size(cost.on_disk)),
                Cell::new(cost.used()),
                Cell::new(numbers::thousands(view.segments() as u64)),
            ]),
        }
        let (state, style) = self.state();
        cells.push(Cell::styled(style, state));
        cells
    }
}

fn print_table(rows: &[Row]) -> Result<(), Failure> {
    use Lean::{Left, Right};
    let columns = [
        ("NAME", Left),
        ("HEAD", Right),
        ("TAIL", Right),
        ("DURABLE", Right),
        ("HELD", Right),
        ("FILES", Right),
        ("ON DISK", Right),
        ("USED", Right),
        ("SEGMENTS", Right),
        ("STATE", Left),
    ];
    let cells: Vec<Vec<Cell>> = rows.iter().map(Row::cells).collect();
    table::lines(&columns, &cells).iter().try_for_each(output::line)?;
    let costs = rows.iter().filter_map(|row| row.view.as_ref().ok()).map(|(_, cost)| *cost);
    output::line(format_args!(
        "{}: {}",
        numbers::count(rows.len() as u64, "log"),
        Cost::sum(costs).text()
    ))
}
