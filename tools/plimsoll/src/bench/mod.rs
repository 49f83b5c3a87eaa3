//! `plimsoll bench`: what a disk does, and what the engine makes of it.

mod disk;
mod engine;
mod folder;
mod json;
mod machine;
mod merged;
mod quiet;
mod report;
mod show;
mod stats;
mod turns;

use crate::failure::{Exit, Failure};
use crate::output;
use crate::signals::Interrupt;
use clap::{Args, ValueEnum};
use folder::Folder;
use machine::Machine;
use plimsoll::fs::{FileSystem, OsFileSystem};
use quiet::Ticks;
use report::Report;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use turns::{Case, Limit};

/// Measure what a disk does, and what the engine makes of it
///
/// Ways of committing (write and sync) are compared, with latencies in percentiles, then syncs in parallel, then appends to
/// logs of a node of its own beside bare system calls. All of them take turns of some milliseconds, again and again, so
/// that a ratio is of what saw the same disk. A way that the file system does not have is named as such.
///
/// DIR must be there, and says which disk. All files are in a folder `plimsoll-bench.1` (or the next number) that is made in
/// it and removed at the end, on errors and on SIGINT and SIGTERM too; a second signal ends it at once and leaves the folder.
/// A data directory is refused: take one beside it. It needs up to 552 MiB, and begins only where twice as much as it
/// needs is free.
///
/// What is told names no host, no user and no path, so that it can be sent to somebody.
#[derive(Args, Debug)]
#[command(after_help = "\
With --json it is one object:
  version, kernel, cpus
  file_system     type, options (those about syncs), total_bytes, free_bytes
  device          logical_block_bytes, physical_block_bytes, write_cache, fua, rotational
  seconds, rounds, turn_ms
  quiet           false where others had much of the CPUs; others_share, steal_share from 0 to 1
  disk            ways, parallel, sequential: rows
  engine          commits_by, delayed_ms, cases: rows
  sync_histogram  from_us, to_us, count
  meaning         a sentence
A row has what, file, bytes, threads, supported, why_not, per_second (median of the rounds),
samples, p50_us, p90_us, p99_us, p999_us, max_us, and beside, beside_per_second, ratio,
ratio_spread: what it is held against, the median ratio to that in the same round, and the
distance of its quartiles over it.
What is not known, was not measured or has too few samples is null.

Examples:
  plimsoll bench /var/lib
  plimsoll bench /mnt/a --seconds 60 --only disk
  plimsoll bench /mnt/a --json > mnt-a.json")]
pub(crate) struct Bench {
    /// A directory on the disk
    dir: PathBuf,
    /// How long it takes about; longer where so many seconds are too few for three rounds
    #[arg(
        long,
        value_name = "N",
        default_value_t = 30,
        value_parser = clap::value_parser!(u16).range(5..=3600)
    )]
    seconds: u16,
    /// Measure one of them alone
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Ways of committing, syncs in parallel, sequential writing
    Disk,
    /// Appends to logs, and what they are held against
    Engine,
}

/// Of the run's time, what closing and removing may take.
const LAST: Duration = Duration::from_millis(500);

impl Bench {
    /// Runs it.
    pub(crate) fn run(&self, as_json: bool) -> Result<(), Failure> {
        let begun = Instant::now();
        let interrupt = Interrupt::watch()?;
        let folder = Folder::make(&self.dir)?;
        let measured = self.measure(folder.path(), &interrupt, begun, as_json);
        let removed = folder.remove();
        let report = measured?;
        removed?;
        if let Some(signal) = interrupt.signal() {
            return Err(Failure::new(Exit::Signal(signal), "interrupted; its folder is removed"));
        }
        if as_json {
            output::line(json::report(&report))
        } else {
            show::report(&report).iter().try_for_each(output::line)
        }
    }

    fn measures(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }

    /// The most bytes that it takes.
    fn needed(&self) -> u64 {
        let parts = [(Part::Disk, disk::NEEDED), (Part::Engine, engine::NEEDED)];
        parts.iter().filter(|(part, _)| self.measures(*part)).map(|(_, bytes)| bytes).sum()
    }

    fn measure(
        &self,
        folder: &Path,
        interrupt: &Interrupt,
        begun: Instant,
        as_json: bool,
    ) -> Result<Report, Failure> {
        let fail = |error| Failure::io("ask for the free space of", self.dir.display(), &error);
        let space = OsFileSystem.space(folder).map_err(fail)?;
        folder::check_room(self.needed(), space.available)
            .map_err(|failure| failure.within(format_args!("{}: ", self.dir.display())))?;
        if !as_json && output::is_watched() {
            output::note(format_args!("measures for about {} s", self.seconds));
        }
        let mut report = Report {
            machine: Machine::look(folder),
            space,
            spent: Duration::ZERO,
            rounds: 0,
            turn: Duration::ZERO,
            quiet: None,
            engine: None,
            cases: Vec::new(),
        };
        if self.measures(Part::Disk) {
            report.cases = disk::cases(folder)?;
        }
        if self.measures(Part::Engine) && !interrupt.is_up() {
            let engine = engine::Engine::open(folder)?;
            let ran = engine
                .cases(folder, &mut report.cases)
                .and_then(|()| self.take_turns(&mut report, interrupt, begun));
            report.engine =
                Some(report::Engine { commits_by: engine.commits_by(), delayed: engine.delayed() });
            // Files are removed only when nobody writes to them any more.
            let closed = engine.close();
            ran?;
            closed?;
        } else {
            self.take_turns(&mut report, interrupt, begun)?;
        }
        report.spent = begun.elapsed();
        Ok(report)
    }

    fn take_turns(
        &self,
        report: &mut Report,
        interrupt: &Interrupt,
        begun: Instant,
    ) -> Result<(), Failure> {
        let end = begun + Duration::from_secs(self.seconds.into()) - LAST;
        let left = end.saturating_duration_since(Instant::now());
        let cases: &mut [Case] = &mut report.cases;
        report.turn = turns::turn_time(left, cases.len());
        let before = Ticks::now();
        report.rounds = turns::run(cases, Limit { time: report.turn, interrupt }, end)?;
        report.quiet = before.zip(Ticks::now()).and_then(|(before, after)| before.until(&after));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_and_page_say_how_much_it_needs() {
        let page = include_str!("../../../../docs/performance.md");
        let help = include_str!("mod.rs");
        for (bytes, texts) in
            [(disk::NEEDED + engine::NEEDED, [page, help]), (disk::NEEDED, [page, page])]
        {
            let told = crate::numbers::size(bytes);
            assert!(texts.iter().all(|text| text.contains(&told)), "{told}");
        }
    }
}
