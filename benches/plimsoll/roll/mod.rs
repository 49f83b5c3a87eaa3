//! Going from one file to the next: what reused files are worth beside files that were made ahead, files that are only
//! allocated, and files that grow.
//!
//! One writer appends 4 KiB at a time and waits for each; the log is truncated behind it. Twice: with bare system calls in
//! one thread, the work behind the writer left out of the times, and files that are not made ahead made by the append that
//! needs them; and with the engine, whose threads do that work while the writer goes on, and which has a file of any kind
//! made when three quarters of the one before are full. The kinds of files take turns of some files each, in one process
//! on one disk.
//!
//! Each round makes directories and files of its own, each time another kind first. Inodes that share a block are written
//! together: on ext4 the second of two directory syncs was a third cheaper, and a roll an eighth, where a log's directory
//! and that of the spares stood in one block of the inode table. With directories made once for all rounds that chance
//! was one column's.
//!
//! All columns truncate at each roll, on another thread in the engine. Reused files are renamed, which takes the syncs of
//! two directories, and stamped; the others are deleted, which takes one. The pool has files prepared within the time that
//! is measured, as a node would.
//!
//! The time of a roll is that of the append that begins a file, all of it. Rolls are among the appends, too.

mod bare;
mod engine;
mod withheld;

use crate::report::{Column, Goal, Report, Rounds};
use crate::setup::Settings;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// Bytes of an append.
const APPEND: usize = 4 << 10;

/// What the next file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Served before: truncated, and given its next generation.
    Reused,
    /// Made ahead, all of it written, and never used before.
    Prepared,
    /// Made with its space allocated, none of it written.
    Preallocated,
    /// Made with nothing: it grows as it is written.
    Growing,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Reused, Self::Prepared, Self::Preallocated, Self::Growing];

    fn name(self) -> &'static str {
        match self {
            Self::Reused => "reused",
            Self::Prepared => "prepared",
            Self::Preallocated => "preallocated",
            Self::Growing => "growing",
        }
    }
}

/// How large, and how often.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Bytes of a file.
    file: u64,
    /// Rolls of each kind in a round.
    rolls: usize,
    /// Turns that they are shared out to.
    turns: usize,
    /// Most of a file is filled fast and not timed.
    skips: bool,
}

impl Size {
    /// Once so much is left in a file no more is skipped.
    const TIMED_END: u64 = 512 << 10;
    /// Appends that are timed after each roll before the rest is skipped.
    const TIMED_BEGIN: usize = 128;
}

/// A log of one kind of files.
trait Writer {
    /// Appends 4 KiB and waits until they are durable. Says whether that began a file.
    fn append(&mut self) -> bool;

    /// What follows the beginning of a file: the log is truncated to it.
    fn truncate(&mut self);

    /// Fills the file until at most [`Size::TIMED_END`] is left.
    fn skip(&mut self);

    /// Waits until what goes on behind the writer is done, so that it does not fall into another's turn.
    fn settle(&mut self);
}

/// What a turn, or all turns of a round, gave, in seconds.
#[derive(Clone, Debug, Default)]
struct Samples {
    rolls: Vec<f64>,
    appends: Vec<f64>,
}

fn turn(writer: &mut dyn Writer, size: Size, rolls: usize, samples: &mut Samples) {
    let (mut rolled, mut since) = (0, 0);
    while rolled < rolls {
        let begun = Instant::now();
        let began = writer.append();
        let took = begun.elapsed().as_secs_f64();
        samples.appends.push(took);
        since += 1;
        if began {
            samples.rolls.push(took);
            (rolled, since) = (rolled + 1, 0);
            writer.truncate();
        } else if size.skips && since == Size::TIMED_BEGIN {
            writer.skip();
        }
    }
    writer.settle();
}

/// Makes the writer of a column in a directory.
type Make<'a> = &'a dyn Fn(&Path, usize) -> Box<dyn Writer>;

/// One round: each in its turn, another one first in each.
fn round(writers: &mut [Box<dyn Writer>], size: Size, round: usize) -> Vec<Samples> {
    let mut samples = vec![Samples::default(); writers.len()];
    for number in 0..size.turns {
        for place in 0..writers.len() {
            let at = (number + place + round) % writers.len();
            turn(&mut *writers[at], size, size.rolls / size.turns, &mut samples[at]);
        }
    }
    samples
}

/// The smallest of `seconds` that no more than a share of `1 - quantile` is above, in microseconds.
fn at(seconds: &[f64], quantile: f64) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * quantile).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1] * 1e6
}

/// What was measured, for one table or more.
struct Measured {
    size: Size,
    names: Vec<&'static str>,
    rounds: Vec<Vec<Samples>>,
}

impl Measured {
    /// Each round has files and directories of its own, and another writer makes its own first: where the file system puts
    /// an inode or a file, a matter of luck, is worth tens of microseconds for as long as it stays there.
    fn new(
        settings: &Settings,
        size: Size,
        scratch: &str,
        names: &[&'static str],
        make: Make<'_>,
    ) -> Self {
        let fresh = |number: usize| {
            let scratch = settings.scratch(scratch);
            let mut places: Vec<usize> = (0..names.len()).collect();
            places.rotate_left(number % names.len());
            let made = places.into_iter().map(|at| (at, make(scratch.path(), at)));
            let by_column: BTreeMap<usize, Box<dyn Writer>> = made.collect();
            let mut writers: Vec<_> = by_column.into_values().collect();
            // The way up to main files, and until the pool is at rest.
            for writer in &mut writers {
                turn(&mut **writer, size, 8, &mut Samples::default());
            }
            round(&mut writers, size, number)
        };
        let rounds = (0..settings.rounds).map(fresh).collect();
        Self { size, names: names.to_vec(), rounds }
    }

    /// Prints the columns of these writers, the first beside the others.
    fn table(&self, report: &Report, title: &str, shown: &[usize], judged: bool) {
        let title = format!("{title}, {} MiB files", self.size.file >> 20);
        let names: Vec<_> = shown.iter().map(|&at| self.names[at]).collect();
        report.columns(&title, &names);
        let row = |what: &str, value: &dyn Fn(&Samples) -> f64| {
            let column = |&at: &usize| Column {
                name: self.names[at],
                rounds: self.rounds.iter().map(|samples| value(&samples[at])).collect(),
            };
            let columns: Vec<_> = shown.iter().map(column).collect();
            report.row(&title, what, "us", &columns, judged);
        };
        let quantiles = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];
        for (name, quantile) in quantiles {
            // Of the rolls of a round that is the maximum.
            if name != "p99.9" {
                row(&format!("roll {name}"), &|samples| at(&samples.rolls, quantile));
            }
        }
        for (name, quantile) in quantiles {
            row(&format!("append {name}"), &|samples| at(&samples.appends, quantile));
        }
    }
}

/// Files of 1 MiB.
pub(crate) fn run(settings: &Settings, report: &mut Report) {
    let (rolls, turns) = if settings.small { (8, 2) } else { (200, 8) };
    both(settings, report, Size { file: 1 << 20, rolls, turns, skips: false });
}

/// Files of 64 MiB, of which only the beginning and the end are timed.
pub(crate) fn run_large(settings: &Settings, report: &mut Report) {
    let (rolls, turns) = if settings.small { (4, 2) } else { (24, 4) };
    both(settings, report, Size { file: 64 << 20, rolls, turns, skips: true });
}

fn both(settings: &Settings, report: &Report, size: Size) {
    bare(settings, report, size);
    let tally = engine::Tally::default();
    let make = |dir: &Path, at: usize| -> Box<dyn Writer> {
        Box::new(engine::Engine::new(dir, Kind::ALL[at], size, &tally))
    };
    let names = Kind::ALL.map(Kind::name);
    let measured = Measured::new(settings, size, "roll-engine", &names, &make);
    measured.table(report, "the engine", &[0, 1, 2, 3], true);
    // Else the columns would not be what they are called.
    for (kind, share) in tally.shares() {
        let what = format!("files taken as {} that were so", kind.name());
        report.value(&what, "share", &Rounds::new(vec![share]), Goal::AtLeast(0.99));
    }
}

fn bare(settings: &Settings, report: &Report, size: Size) {
    // The least that is durable comes last. One that cannot be finished is left in the log, and a file that served before
    // cannot be had like this.
    let columns = Kind::ALL.map(|kind| (kind.name(), kind, false)).into_iter().chain([
        ("alloc. in place", Kind::Preallocated, true),
        ("grown in place", Kind::Growing, true),
    ]);
    let columns: Vec<_> = columns.collect();
    let make = |dir: &Path, at: usize| -> Box<dyn Writer> {
        let (name, kind, in_place) = columns[at];
        Box::new(bare::Bare::new(&dir.join(name), kind, in_place, size))
    };
    let names: Vec<_> = columns.iter().map(|&(name, ..)| name).collect();
    let measured = Measured::new(settings, size, "roll-bare", &names, &make);
    measured.table(report, "bare calls", &[0, 1, 2, 3], true);
    measured.table(report, "least calls", &[0, 4, 5], false);
}
