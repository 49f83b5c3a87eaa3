//! `faultlab mounts`.
use super::kill::{self, HEAD};
use super::output::{Table, count};
use super::place::Place;
use super::seam::Seam;
use super::{Output, Verdict};
use faultlab::mounts::{ENOUGH, Mount};
use faultlab::process::full::{Promise, Report as Full, run as full};
use faultlab::process::kill::{Report as Kill, run as kill_rounds};
use faultlab::process::random::Random;
use nix::sys::signal::{SigSet, Signal};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Small mounts of each kind of file system: kill rounds, and filled to the last byte.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which file systems
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Kind::ALL)]
    kinds: Vec<Kind>,
    /// How many drivers are killed on each
    #[arg(long, default_value_t = 100)]
    rounds: u64,
    /// Where histories are kept; the place for temporary files by default
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where chance begins
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    seam: Seam,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Ext4,
    Xfs,
    Btrfs,
    Tmpfs,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Ext4, Self::Xfs, Self::Btrfs, Self::Tmpfs];

    fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Tmpfs => "tmpfs",
        }
    }

    fn mount(self) -> Result<Mount, String> {
        match self {
            Self::Ext4 => Mount::ext4(96 << 20),
            Self::Xfs => Mount::xfs(ENOUGH),
            Self::Btrfs => Mount::btrfs(ENOUGH),
            Self::Tmpfs => Mount::tmpfs(64 << 20),
        }
    }

    fn promise(self) -> Promise {
        if self == Self::Btrfs { Promise::Definite } else { Promise::Reserve }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The mount of the moment, which must not outlive the lab.
type Held = Arc<Mutex<Option<Mount>>>;

/// SIGINT and SIGTERM unmount first. Children start with no signal blocked.
fn unmount_on_signals(held: &Held) -> Result<(), String> {
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    signals.thread_block().map_err(|error| error.to_string())?;
    let held = Arc::clone(held);
    let body = move || {
        if let Ok(signal) = signals.wait() {
            drop(held.lock().unwrap_or_else(PoisonError::into_inner).take());
            std::process::exit(128 + signal as i32);
        }
    };
    spawn(body);
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "not the engine: the lab waits for signals")]
fn spawn(body: impl FnOnce() + Send + 'static) {
    std::thread::spawn(body);
}

struct Done {
    kind: Kind,
    kill: Kill,
    full: Full,
}

impl Done {
    fn violations(&self) -> usize {
        self.kill.violations.len() + self.full.violations.len()
    }
}

pub(crate) fn run(args: &Args, output: &Output) -> super::Result {
    let program = args.seam.program(2)?;
    let mut place = Place::new(args.dir.as_deref(), "mounts")?;
    let seed = args.seed.unwrap_or_else(Random::any_seed);
    let held: Held = Arc::default();
    unmount_on_signals(&held)?;
    let (mut done, mut skipped) = (Vec::new(), Vec::new());
    for &kind in &args.kinds {
        let home = place.path().join(kind.name());
        let bar = output.bar(Some(args.rounds), kind.name());
        // A mount for each of the two, so that the one does not fill the other's.
        let mut on_a_mount =
            |what: &str, work: &mut dyn FnMut(PathBuf) -> Result<(), String>| match kind.mount() {
                Ok(mount) => {
                    let data = mount.path().join("data");
                    *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(mount);
                    let worked = work(data);
                    drop(held.lock().unwrap_or_else(PoisonError::into_inner).take());
                    worked.map(|()| true)
                }
                Err(reason) => {
                    skipped.push((format!("{kind} {what}"), reason));
                    Ok(false)
                }
            };
        let (mut kill, mut filled) = (Kill::default(), Full::default());
        let killed = on_a_mount("kill", &mut |data| {
            let tick = |report: &Kill| bar.set_position(report.rounds);
            kill = kill_rounds(&program, &home.join("kill"), &data, args.rounds, seed, tick)?;
            Ok(())
        })?;
        let full = on_a_mount("full", &mut |data| {
            filled = full(&program, &home.join("full"), &data, kind.promise())?;
            Ok(())
        })?;
        bar.finish_and_clear();
        if killed || full {
            done.push(Done { kind, kill, full: filled });
        }
    }
    print(&done, &skipped, output);
    output.json(&json!({
        "command": "mounts",
        "seed": seed,
        "kinds": done.iter().map(object).collect::<Vec<_>>(),
        "skipped": skipped.iter().map(|(what, why)| json!({ "what": what, "reason": why })).collect::<Vec<_>>(),
    }));
    if done.iter().all(|one| one.violations() == 0) {
        return Ok(Verdict::Held);
    }
    place.keep();
    for one in &done {
        for violation in one.kill.violations.iter().chain(&one.full.violations).take(20) {
            output.say(format_args!("{}: {violation}", one.kind));
        }
        for kept in one.kill.kept.iter().chain(&one.full.kept) {
            output.say(format_args!("kept: {}", kept.display()));
        }
    }
    Ok(Verdict::Broken)
}

fn print(done: &[Done], skipped: &[(String, String)], output: &Output) {
    let mut kills = Table::new(&HEAD);
    let mut fulls = Table::new(&[
        "full",
        "published",
        "refused",
        "acknowledged",
        "ack refused",
        "unknown",
        "after truncation",
        "starts",
        "records checked",
        "seconds",
        "violations",
    ]);
    for Done { kind, kill, full } in done {
        kills.row(kill::row(kind.name(), kill));
        fulls.row(vec![
            kind.name().to_owned(),
            count(full.published),
            count(full.refused),
            count(full.acknowledged),
            count(full.ack_refused),
            count(full.unknown),
            count(full.after_truncation),
            count(full.starts),
            count(full.checked),
            format!("{:.0}", full.elapsed.as_secs_f64()),
            count(full.violations.len() as u64),
        ]);
    }
    output.table(&kills);
    output.say("");
    output.table(&fulls);
    for (what, reason) in skipped {
        output.say(format_args!("SKIPPED {what}: {reason}"));
    }
    output.say(format_args!("{} skipped", skipped.len()));
}

fn object(one: &Done) -> Value {
    let Done { kind, kill: killed, full } = one;
    json!({
        "kind": kind.name(),
        "kill": kill::object(killed),
        "full": {
            "published": full.published,
            "published_bytes": full.published_bytes,
            "refused": full.refused,
            "acknowledged": full.acknowledged,
            "acknowledgements_refused": full.ack_refused,
            "unknown": full.unknown,
            "after_truncation": full.after_truncation,
            "starts": full.starts,
            "records_checked": full.checked,
            "seconds": full.elapsed.as_secs_f64(),
            "violations": full.violations.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "kept": full.kept,
        },
    })
}
