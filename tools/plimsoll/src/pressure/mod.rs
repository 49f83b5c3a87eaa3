//! `plimsoll pressure`: how near the devices of data directories, and the memory, are to their limits.

mod gauges;
mod json;
mod screen;
mod show;

use crate::failure::{Exit, Failure};
use crate::inspect::verdict;
use crate::output;
use crate::pool::once_each;
use crate::settings::{Settings, SettingsFile};
use crate::signals::Interrupt;
use clap::Args;
use gauges::{Gauges, Look};
use plimsoll::Level;
use screen::Screen;
use std::path::PathBuf;
use std::time::Duration;

/// Show how near disks and memory are to their limits
///
/// From level soft on publishes are slowed, from hard on they are refused (ERR_LIMITED), from reserve on catch-up of
/// followers is refused too; acknowledgements, truncation, deletion and recovery go on at every level. What levels are held
/// against is free space with the spares that can be released. A log that needs a new file is refused already where the
/// file would take the device to hard. Directories on one device share it and are shown as one.
///
/// A single look takes a level by its line alone. A running node holds a level until free space is above its line by
/// CLEAR, and holds hard after an allocation that found no room, which only it knows. With --watch a level is held as a
/// node holds it, and the time until hard is known after ten seconds. Memory is that of this command's control group: a
/// node's only if it runs in the same one.
///
/// Opens for reading only, takes no lock and changes nothing, so it works beside a running node. Exit code 3 if something
/// cannot be read, 1 if a LAYOUT is damaged; with --check 75 if a device is at hard or reserve.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  plimsoll pressure /var/lib/plimsoll
  plimsoll pressure /var/lib/plimsoll --check > /dev/null || echo publishes are refused
  plimsoll pressure /var/lib/plimsoll --watch --json --interval 10s")]
pub(crate) struct Pressure {
    /// The data directories
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Go on until a signal comes: on a terminal in place, elsewhere a block, or with --json a line, each time
    #[arg(long)]
    watch: bool,
    /// How often --watch shows it, 100ms at least
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval, requires = "watch")]
    interval: Duration,
    /// End with exit code 75 if a device is at hard or reserve, for scripts; memory does not count
    #[arg(long, conflicts_with = "watch")]
    check: bool,
    #[command(flatten)]
    settings: SettingsFile,
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time < Duration::from_millis(100) {
        return Err("100ms at least, such as 1s or 10s".to_owned());
    }
    Ok(time)
}

impl Pressure {
    /// Runs it.
    pub(crate) fn run(&self, as_json: bool) -> Result<(), Failure> {
        let settings = self.settings.read()?;
        let mut gauges = Gauges::new(&once_each(&self.dirs), &settings.limits);
        let look = gauges.look();
        if self.watch {
            // What is wrong with the command line is told before the screen is taken.
            verdict(look.outcome(), &look.findings)?;
            return self.watch(&mut gauges, &settings, as_json);
        }
        if as_json {
            output::line(json::look(&look, &settings))?;
        } else {
            show::look(&look, &settings).iter().try_for_each(output::line)?;
        }
        verdict(look.outcome(), &look.findings)?;
        if self.check { check(&look) } else { Ok(()) }
    }

    fn watch(
        &self,
        gauges: &mut Gauges,
        settings: &Settings,
        as_json: bool,
    ) -> Result<(), Failure> {
        let interrupt = Interrupt::watch()?;
        gauges.start(self.interval)?;
        if as_json {
            while !interrupt.is_up() {
                output::line(json::look(&gauges.look(), settings))?;
                interrupt.wait(self.interval);
            }
            return Ok(());
        }
        let mut screen = Screen::new()?;
        while !interrupt.is_up() {
            screen.draw(show::look(&gauges.look(), settings))?;
            interrupt.wait(self.interval);
        }
        screen.close()
    }
}

/// The worst device decides.
fn check(look: &Look) -> Result<(), Failure> {
    let short = look.disks.iter().filter(|disk| disk.level >= Level::Hard);
    let Some(disk) = short.max_by_key(|disk| disk.level) else { return Ok(()) };
    Err(Failure::new(Exit::Limited, disk.to_string())
        .with("reason", "disk")
        .with("level", disk.level.name())
        .with("device", disk.dirs.first().map(|dir| dir.display().to_string()))
        .with("free_bytes", disk.free)
        .with("threshold_bytes", disk.thresholds.of(disk.level)))
}
