//! What an ack costs while 64 publishers hammer: at ok, and at hard, where they are refused.

use super::fill::mount;
use super::pulse::preload;
use crate::client::{Answer, Client, Publish, Receive, Settled, Wire, settings};
use crate::place::{Filler, room};
use crate::report::Report;
use crate::server::{Server, Setup};
use crate::stats::{Millis, Times};
use anyhow::bail;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Measures acks while publishers hammer, at ok and at hard, in interleaved rounds
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Rounds, each with both levels over both protocols
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// Publishers
    #[arg(long, default_value_t = 64)]
    pub publishers: usize,
    /// Milliseconds of each measurement
    #[arg(long, default_value_t = 2_000)]
    pub length: u64,
    /// MiB of the disk
    #[arg(long, default_value_t = 1_024)]
    pub disk: u64,
    /// What the p99 at hard may be, times the p99 at ok; 0 for anything
    #[arg(long, default_value_t = 2.0)]
    pub bound: f64,
    /// Refused publishers wait as they are told, where they hammer on otherwise
    #[arg(long)]
    pub polite: bool,
}

impl Args {
    /// A short run, which shows that acks are answered and holds to no time.
    #[must_use]
    pub fn short() -> Self {
        Self { rounds: 1, publishers: 64, length: 500, disk: 256, bound: 0.0, polite: false }
    }
}

const LEVELS: [&str; 2] = ["ok", "hard"];
const WIRES: [Wire; 2] = [Wire::H2, Wire::H1];

/// Runs it.
///
/// # Errors
/// The broker does not start or answer. What this machine cannot make is a report that says so.
pub async fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let mount = match mount("ext4", args.disk) {
        Ok(mount) => mount,
        Err(why) => {
            *report = Report::skipped("latency", why);
            return Ok(());
        }
    };
    let mut server = Server::started(Setup::new(&mount.path().join("data"))).await?;
    let mut client = server.client(Wire::H1);
    for queue in ["acks", "sink"] {
        client.declare(queue, &settings()).await.done()?;
    }
    let mut filler = Filler::new(mount.path());
    let total = room(mount.path())?.total;
    // By wire and level.
    let mut acks: [[Times; 2]; 2] = Default::default();
    let mut idle = [Times::default(), Times::default()];
    for _ in 0..args.rounds {
        for (wire, (acks, idle)) in WIRES.into_iter().zip(acks.iter_mut().zip(&mut idle)) {
            for (level, acks) in LEVELS.into_iter().zip(acks.iter_mut()) {
                if level == "hard" {
                    filler.leave(total * 15 / 100)?;
                } else {
                    filler.empty();
                    client.command("sink", "purge").await.done()?;
                }
                server.until_level(&[level], Duration::from_secs(60)).await?;
                if level == "ok" {
                    // More than can be acknowledged one by one until this is done for the next round.
                    client.command("acks", "purge").await.done()?;
                    let enough = usize::try_from(args.length * 3 * 5)?;
                    preload(&mut client, "acks", enough, 64).await?;
                    idle.merge(&measure(args, &server, wire, level, false, report).await?);
                }
                acks.merge(&measure(args, &server, wire, level, true, report).await?);
            }
        }
    }
    for (wire, (acks, idle)) in WIRES.into_iter().zip(acks.iter().zip(&idle)) {
        let how = if wire == Wire::H2 { "the same connection" } else { "its own connection" };
        report.line(&format!("{wire}, {how}: acks with no publishers"), idle);
        report.line(&format!("{wire}, {how}: acks at ok"), &acks[0]);
        report.line(&format!("{wire}, {how}: acks at hard"), &acks[1]);
        let (ok, hard) = (acks[0].at(99.0), acks[1].at(99.0));
        let ratio = hard.as_secs_f64() / ok.as_secs_f64().max(1e-6);
        report.line(&format!("{wire}: p99 at hard to p99 at ok"), format!("{ratio:.2}"));
        report.expect(
            args.bound == 0.0 || ratio <= args.bound,
            format!("{wire}: p99 is {} at hard and {} at ok", Millis(hard), Millis(ok)),
        );
    }
    if let Some(wrong) = server.end_clean().await? {
        report.broken(wrong);
    }
    Ok(())
}

/// Acks one message after the other for a while; how long each took.
async fn measure(
    args: &Args,
    server: &Server,
    wire: Wire,
    level: &str,
    hammered: bool,
    report: &mut Report,
) -> anyhow::Result<Times> {
    let stop = Arc::new(AtomicBool::new(false));
    let stored = Arc::new(AtomicU64::new(0));
    let refused = Arc::new(AtomicU64::new(0));
    let mut acker = server.client(wire);
    acker.status("/healthz").await.map_err(|fail| anyhow::anyhow!("{fail}"))?;
    let mut hammers = JoinSet::new();
    for _ in 0..if hammered { args.publishers } else { 0 } {
        let client = acker.share().await.map_err(|fail| anyhow::anyhow!("{fail}"))?;
        let (stop, stored, refused) =
            (Arc::clone(&stop), Arc::clone(&stored), Arc::clone(&refused));
        hammers.spawn(hammer(client, args.polite, stop, stored, refused));
    }
    let mut times = Times::default();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(args.length) {
        let (messages, _) = acker.receive("acks", &Receive::now(32)).await.done()?;
        if messages.is_empty() {
            bail!("no messages are left to acknowledge: give more, or measure for a shorter time");
        }
        for message in messages {
            let sent = Instant::now();
            let answer = acker.settle("acks", "ack", &[message.receipt]).await.done()?;
            times.add(sent.elapsed());
            report.expect(answer == [Settled::Done], format!("an ack is answered {answer:?}"));
        }
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(done) = hammers.join_next().await {
        if let Some(wrong) = done? {
            report.broken(wrong);
        }
    }
    let (stored, refused) = (stored.load(Ordering::Relaxed), refused.load(Ordering::Relaxed));
    if hammered {
        report.line(
            &format!("{wire} at {level}"),
            format!("{} acks, {stored} publishes stored, {refused} refused", times.count()),
        );
        report.expect(
            level != "hard" || stored == 0,
            format!("{stored} publishes are stored at hard"),
        );
    }
    Ok(times)
}

async fn hammer(
    mut client: Client,
    polite: bool,
    stop: Arc<AtomicBool>,
    stored: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
) -> Option<String> {
    let message = Publish { payload: Bytes::from(vec![b'h'; 1_024]), key: None };
    while !stop.load(Ordering::Relaxed) {
        match client.publish("sink", &message).await {
            Answer::Done(_) => {
                stored.fetch_add(1, Ordering::Relaxed);
            }
            Answer::Limited(refusal) => {
                refused.fetch_add(1, Ordering::Relaxed);
                if polite {
                    tokio::time::sleep(refusal.retry_after.min(Duration::from_millis(200))).await;
                }
            }
            other => return Some(format!("a publish is answered {other:?}")),
        }
    }
    None
}
