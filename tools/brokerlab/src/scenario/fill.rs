//! A small disk gets full: publishes are slowed, then refused, all else goes on, and it comes back by itself.

use super::consumer::{self, consumer};
use super::load::Load;
use super::publisher::{self, Met, publisher};
use super::pulse::{Pulse, preload};
use super::zero;
use crate::check::Breach;
use crate::client::{Wire, find, settings};
use crate::mounts::Mount;
use crate::place::room;
use crate::report::Report;
use crate::server::{Server, Setup};
use crate::stats::{Mib, Millis, Times};
use anyhow::{Context, bail};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Fills a small disk with publishers, and empties it by acknowledging; again with kills, and again without a byte free
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// MiB of the disk
    #[arg(long, default_value_t = 64)]
    pub mib: u64,
    /// Kinds of file systems: ext4, xfs, btrfs, tmpfs
    #[arg(long, value_delimiter = ',', default_value = "ext4,tmpfs")]
    pub on: Vec<String>,
    /// Bytes of a payload
    #[arg(long, default_value_t = 4_096)]
    pub size: usize,
    /// The longest delay of a publish, in milliseconds
    #[arg(long, default_value_t = 50)]
    pub max_delay: u64,
    /// Which parts: plain, kills, zero
    #[arg(long, value_delimiter = ',', default_value = "plain,kills,zero")]
    pub parts: Vec<String>,
}

impl Args {
    /// A short run of one part on one kind.
    #[must_use]
    pub fn short(kind: &str, part: &str) -> Self {
        Self {
            mib: 64,
            on: vec![kind.to_owned()],
            size: 16_384,
            max_delay: 20,
            parts: vec![part.to_owned()],
        }
    }

    /// The settings of the broker.
    #[must_use]
    pub fn settings(&self) -> String {
        format!("[limits.slow]\nmax_delay = \"{}ms\"\n", self.max_delay)
    }
}

/// A mount of a kind.
///
/// # Errors
/// This machine cannot make it.
pub fn mount(kind: &str, mib: u64) -> Result<Mount, String> {
    match kind {
        "tmpfs" => Mount::tmpfs(mib << 20),
        kind => Mount::image(kind, mib << 20, ""),
    }
}

/// Runs it.
///
/// # Errors
/// The broker does not start or answer. A mount that cannot be made is a report that says so.
pub async fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    for kind in &args.on {
        let mount = match mount(kind, args.mib) {
            Ok(mount) => mount,
            Err(why) => {
                *report = Report::skipped("fill", format!("no {kind} here: {why}"));
                return Ok(());
            }
        };
        for part in &args.parts {
            let dir = mount.path().join(part);
            std::fs::create_dir(&dir)?;
            let mut own = Report::new(&format!("{kind}, {part}")).loud(true);
            let ran = match part.as_str() {
                "plain" => fill(args, &dir, false, &mut own).await,
                "kills" => fill(args, &dir, true, &mut own).await,
                "zero" => zero::run(args, &dir, &mut own).await,
                other => bail!("no part {other:?}"),
            };
            if let Err(error) = ran {
                own.broken(format!("{error:#}"));
            }
            report.absorb(own);
            std::fs::remove_dir_all(&dir)?;
        }
    }
    Ok(())
}

const FILL: u8 = 0;
const PUBLISHERS: u64 = 4;

/// Figures of one stage.
fn stage(
    report: &mut Report,
    name: &str,
    load: &Load,
    pulse: &Pulse,
    dir: &Path,
) -> anyhow::Result<Times> {
    let beats = pulse.take();
    let room = room(dir)?;
    let published = std::mem::take(&mut load.took().publish);
    report.line(
        &format!("{name}: available"),
        format!("{} of {}", Mib(room.available), Mib(room.total)),
    );
    report.line(&format!("{name}: publishes"), &published);
    report.line(&format!("{name}: other queue's receives"), &beats.receive);
    report.line(&format!("{name}: other queue's acks"), &beats.settle);
    report.expect(beats.settle.count() > 0, format!("{name}: the other queue stands still"));
    for wrong in beats.wrong {
        report.broken(format!("{name}: {wrong}"));
    }
    Ok(published)
}

async fn kill(
    load: &Load,
    wanted: bool,
    name: &str,
    server: &mut Server,
    report: &mut Report,
) -> anyhow::Result<()> {
    if wanted {
        let took = load.restart(server).await.with_context(|| format!("a start {name}"))?;
        report.line(&format!("start {name}"), Millis(took));
    }
    Ok(())
}

async fn fill(args: &Args, dir: &Path, kills: bool, report: &mut Report) -> anyhow::Result<()> {
    let data = dir.join("data");
    let setup = Setup { settings: Some(args.settings()), ..Setup::new(&data) };
    let mut server = Server::started(setup).await?;
    let run = fastrand::u64(..0xffff_ffff);
    let load = Load::new(server.addr(), run, vec!["fill".into()], PUBLISHERS, 200_000);
    let mut client = server.client(Wire::H1);
    load.declare(&mut client, &settings()).await?;
    client.declare("other", &settings()).await.done()?;
    preload(&mut client, "other", 1_000, 512).await?;
    let pulse = Pulse::start(server.addr(), "other", Wire::H1);
    let mut publishers = publishers(args, &load);

    sleep(Duration::from_millis(300)).await;
    kill(&load, kills, "at ok", &mut server, report).await?;
    server.until_level(&["soft", "hard"], Duration::from_secs(120)).await?;
    let at_ok = stage(report, "ok", &load, &pulse, dir)?;
    sleep(Duration::from_millis(500)).await;
    kill(&load, kills, "at soft", &mut server, report).await?;
    server.until_level(&["hard", "reserve"], Duration::from_secs(300)).await?;
    let at_soft = stage(report, "soft", &load, &pulse, dir)?;
    let longest = Duration::from_millis(args.max_delay) / 2;
    report.expect(
        at_soft.most() >= longest && at_soft.at(50.0) > at_ok.at(50.0),
        format!("publishes are not slowed before they are refused: {at_soft}"),
    );
    refused(&load, report, "at hard").await?;
    kill(&load, kills, "at hard", &mut server, report).await?;
    refused(&load, report, "still at hard").await?;
    sleep(Duration::from_secs(1)).await;
    let explained = client.get("/api/v1/queue/fill/explain").await.done()?;
    report.expect(
        find(&explained, "publish").is_some_and(|waits| waits.to_string().contains("disk")),
        format!("explain does not say what holds publishes: {explained}"),
    );
    stage(report, "hard", &load, &pulse, dir)?;

    // Acknowledging makes room, and publishing goes on by itself.
    let before = load.check().seen().confirmed;
    let mut consumers = consumers(&load);
    sleep(Duration::from_millis(300)).await;
    kill(&load, kills, "while it is emptied", &mut server, report).await?;
    let begun = Instant::now();
    while load.check().seen().confirmed < before + 50 {
        if begun.elapsed() > Duration::from_secs(90) {
            bail!("publishing does not go on: level {}, {:?}", server.level().await?, room(dir)?);
        }
        sleep(Duration::from_millis(20)).await;
    }
    report.line("publishing goes on after", Millis(begun.elapsed()));
    stage(report, "emptied", &load, &pulse, dir)?;
    load.publishers_end();
    let mut refusals = 0;
    while let Some(met) = publishers.join_next().await {
        refusals += met.context("a publisher")?.refusals;
    }
    report.line("refusals", refusals);
    if let Err(left) = load.drained(Duration::from_secs(30)).await {
        load.check().found(Breach::Lost, left);
    }
    kill(&load, kills, "when it is empty", &mut server, report).await?;
    load.settle(&server, Duration::from_secs(40)).await?;
    load.stop();
    while let Some(done) = consumers.join_next().await {
        done.context("a consumer")?;
    }
    case_a14(&server, report).await?;
    server.until_level(&["ok"], Duration::from_secs(60)).await?;
    pulse.end().await;
    if let Some(wrong) = server.end_clean().await? {
        report.broken(wrong);
    }
    load.check().tell(report);
    Ok(())
}

fn publishers(args: &Args, load: &Arc<Load>) -> JoinSet<Met> {
    let mut publishers = JoinSet::new();
    for index in 0..PUBLISHERS {
        let plan = publisher::Plan {
            index,
            count: 200_000,
            wire: if index % 2 == 0 { Wire::H1 } else { Wire::H2 },
            queues: vec![FILL],
            sizes: args.size..=args.size,
            keyed: 0,
            batched: 0,
            lines: 1,
            heed: Duration::from_millis(50),
            seed: index,
        };
        publishers.spawn(publisher(Arc::clone(load), plan));
    }
    publishers
}

fn consumers(load: &Arc<Load>) -> JoinSet<()> {
    let mut consumers = JoinSet::new();
    for index in 0..4 {
        let plan = consumer::Plan {
            queue: FILL,
            wire: if index % 2 == 0 { Wire::H1 } else { Wire::H2 },
            name: None,
            mischief: false,
            lease_ms: (4_000, 8_000),
            max: 32,
            pause: Duration::from_millis(5),
            seed: index,
        };
        consumers.spawn(consumer(Arc::clone(load), plan));
    }
    consumers
}

/// Waits until each publisher may have been refused several times, for the disk, and nothing is stored any more.
async fn refused(load: &Load, report: &mut Report, when: &str) -> anyhow::Result<()> {
    let begun = Instant::now();
    let first = load.check().seen().refused;
    while load.check().seen().refused < first + 40 {
        if begun.elapsed() > Duration::from_secs(60) {
            bail!("publishes are not refused {when}");
        }
        sleep(Duration::from_millis(20)).await;
    }
    let refusal = load.refusal();
    let said = refusal.as_ref().map(|refusal| (refusal.reason.as_str(), refusal.code.as_str()));
    report.line(&format!("refusals {when}"), format!("{refusal:?}"));
    report
        .expect(said == Some(("disk", "ERR_LIMITED")), format!("{when} the refusal says {said:?}"));
    Ok(())
}

/// A14: consumers that are gone without goodbye, and files that are deleted, hold nothing.
async fn case_a14(server: &Server, report: &mut Report) -> anyhow::Result<()> {
    for _ in 0..20 {
        let body = br#"{"max":32,"wait_ms":30000}"#;
        let mut tcp = crate::client::raw::connect(server.addr()).await?;
        let path = "/api/v1/queue/fill/receive";
        let mut ask =
            crate::client::raw::head(server.addr(), "POST", path, "application/json", body.len());
        ask.extend_from_slice(body);
        crate::client::raw::send(&mut tcp, &ask).await?;
        crate::client::raw::reset(tcp);
    }
    let begun = Instant::now();
    loop {
        let held = server.deleted_files();
        if held.is_empty() {
            report.line("case A14: no deleted file is held after", Millis(begun.elapsed()));
            return Ok(());
        }
        if begun.elapsed() > Duration::from_secs(10) {
            report.broken(format!("A14: deleted files are held: {held:?}"));
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
}
