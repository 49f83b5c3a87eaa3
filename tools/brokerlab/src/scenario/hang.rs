//! One of two disks does not answer for some seconds: nobody on the other notices.

use super::consumer::{self, consumer};
use super::load::Load;
use super::publisher::{self, publisher};
use super::pulse::{Beats, Pulse, preload};
use crate::check::Breach;
use crate::client::{Wire, settings};
use crate::hangfs::HangFs;
use crate::report::Report;
use crate::server::{Server, Setup};
use crate::stats::Millis;
use anyhow::Context;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Lets the reads, writes and syncs of one of two data directories hang
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Milliseconds that it hangs
    #[arg(long, default_value_t = 5_000)]
    pub hang: u64,
    /// How often
    #[arg(long, default_value_t = 3)]
    pub times: u32,
    /// Milliseconds that 99% of the other disk's acks and of /healthz may take meanwhile
    #[arg(long, default_value_t = 100)]
    pub bound: u64,
}

impl Args {
    /// A short run, with a generous bound.
    #[must_use]
    pub fn short() -> Self {
        Self { hang: 5_000, times: 1, bound: 1_000 }
    }
}

fn told(report: &mut Report, when: &str, wire: Wire, beats: Beats, bound: Option<Duration>) {
    report.line(&format!("{when}, {wire}: receives"), &beats.receive);
    report.line(&format!("{when}, {wire}: acks"), &beats.settle);
    report.line(&format!("{when}, {wire}: /healthz"), &beats.health);
    report.expect(beats.settle.count() > 0, format!("{when}, {wire}: the other disk stands still"));
    if let Some(bound) = bound {
        for (what, times) in [("acks", &beats.settle), ("/healthz", &beats.health)] {
            let slow = times.at(99.0);
            report.expect(
                slow <= bound,
                format!("{when}, {wire}: {what} take {} (p99)", Millis(slow)),
            );
        }
    }
    for wrong in beats.wrong {
        report.broken(format!("{when}, {wire}: {wrong}"));
    }
}

/// Runs it.
///
/// # Errors
/// The broker does not start or answer. Without FUSE the report says so.
pub async fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let (good, below, bad) =
        (home.path().join("good"), home.path().join("below"), home.path().join("bad"));
    std::fs::create_dir(&below)?;
    std::fs::create_dir(&bad)?;
    let fs = match HangFs::mount(&below, &bad) {
        Ok(fs) => fs,
        Err(why) => {
            *report = Report::skipped("hang", why);
            return Ok(());
        }
    };
    let setup = Setup { data: vec![good, fs.path().join("data")], ..Setup::default() };
    let mut server = Server::started(setup).await?;
    let ran = hang(args, &fs, &mut server, report).await;
    // A broker that waits for the disk cannot be killed before the disk answers.
    fs.hang().set(false);
    drop(server);
    sleep(Duration::from_millis(200)).await;
    ran
}

async fn hang(
    args: &Args,
    fs: &HangFs,
    server: &mut Server,
    report: &mut Report,
) -> anyhow::Result<()> {
    let load =
        Load::new(server.addr(), fastrand::u64(..0xffff_ffff), vec!["hung".into()], 4, 50_000);
    let mut client = server.client(Wire::H1);
    let mut hung = settings();
    hung["data_dir"] = serde_json::json!(1);
    load.declare(&mut client, &hung).await?;
    client.declare("good", &settings()).await.done()?;
    preload(&mut client, "good", 2_000, 512).await?;
    let pulses = [Wire::H1, Wire::H2].map(|wire| (wire, Pulse::start(server.addr(), "good", wire)));
    let (mut publishers, mut consumers) = (JoinSet::new(), JoinSet::new());
    for index in 0..4 {
        let wire = if index % 2 == 0 { Wire::H1 } else { Wire::H2 };
        let plan = publisher::Plan {
            index,
            count: 50_000,
            wire,
            queues: vec![0],
            sizes: 64..=2_048,
            keyed: 30,
            batched: 10,
            lines: 16,
            heed: Duration::from_millis(50),
            seed: index,
        };
        publishers.spawn(publisher(Arc::clone(&load), plan));
        let plan = consumer::Plan {
            queue: 0,
            wire,
            name: None,
            mischief: false,
            lease_ms: (2_000, 3_000),
            max: 32,
            pause: Duration::from_millis(1),
            seed: index,
        };
        consumers.spawn(consumer(Arc::clone(&load), plan));
    }
    sleep(Duration::from_secs(1)).await;
    for (wire, pulse) in &pulses {
        told(report, "before", *wire, pulse.take(), None);
    }
    for time in 1..=args.times {
        let before = load.check().seen().confirmed;
        fs.hang().set(true);
        sleep(Duration::from_millis(args.hang)).await;
        let meanwhile = load.check().seen().confirmed - before;
        let beats: Vec<Beats> = pulses.iter().map(|(_, pulse)| pulse.take()).collect();
        fs.hang().set(false);
        let begun = Instant::now();
        let bound = Duration::from_millis(args.bound);
        for ((wire, _), beats) in pulses.iter().zip(beats) {
            told(report, &format!("hang {time}"), *wire, beats, Some(bound));
        }
        report.line(&format!("hang {time}: confirmed on the hung disk"), meanwhile);
        let on = load.check().seen().confirmed;
        while load.check().seen().confirmed < on + 100 && begun.elapsed() < Duration::from_secs(60)
        {
            sleep(Duration::from_millis(10)).await;
        }
        let goes_on = load.check().seen().confirmed >= on + 100;
        report.expect(
            goes_on,
            format!("hang {time}: publishing does not go on, level {:?}", server.level().await),
        );
        report.line(&format!("hang {time}: goes on after"), Millis(begun.elapsed()));
    }
    load.publishers_end();
    while let Some(done) = publishers.join_next().await {
        done.context("a publisher")?;
    }
    if let Err(left) = load.drained(Duration::from_secs(60)).await {
        load.check().found(Breach::Lost, left);
    }
    load.settle(server, Duration::from_secs(20)).await?;
    load.stop();
    while let Some(done) = consumers.join_next().await {
        done.context("a consumer")?;
    }
    for (_, pulse) in pulses {
        pulse.end().await;
    }
    load.check().tell(report);
    if let Some(wrong) = server.end_clean().await? {
        report.broken(wrong);
    }
    Ok(())
}
