//! Many messages through publish, receive and ack, while the broker is killed every few seconds: Q1, Q2, Q5, Q6 and order.

use super::consumer::{self, consumer};
use super::load::Load;
use super::publisher::{self, publisher};
use crate::check::Breach;
use crate::client::Wire;
use crate::report::Report;
use crate::server::{Server, Setup};
use crate::stats::Times;
use anyhow::Context;
use fastrand::Rng;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Publishes, receives and acknowledges many messages while the broker is killed again and again
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Messages in all
    #[arg(long, default_value_t = 1_000_000)]
    pub messages: u64,
    /// Publishers, each with one connection
    #[arg(long, default_value_t = 8)]
    pub publishers: u64,
    /// Consumers, each with one connection
    #[arg(long, default_value_t = 8)]
    pub consumers: u64,
    /// Queues
    #[arg(long, default_value_t = 4)]
    pub queues: u8,
    /// Milliseconds between two kills, give or take half; 0 for none
    #[arg(long, default_value_t = 4_000)]
    pub kill_every: u64,
    /// The most messages of the first queue: beyond, publishes to it are refused
    #[arg(long, default_value_t = 2_000)]
    pub depth: u64,
    /// The most lines of a publish of many
    #[arg(long, default_value_t = 64)]
    pub lines: usize,
    /// The most bytes of a payload
    #[arg(long, default_value_t = 1_024)]
    pub size: usize,
    /// Seconds that it may take
    #[arg(long, default_value_t = 3_600)]
    pub within: u64,
    /// Of chance
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the data goes; a temporary directory by default
    #[arg(long)]
    pub data: Option<PathBuf>,
}

impl Args {
    /// A short run.
    #[must_use]
    pub fn short() -> Self {
        Self {
            messages: 12_000,
            publishers: 4,
            consumers: 4,
            queues: 2,
            kill_every: 1_500,
            depth: 300,
            lines: 32,
            size: 1_024,
            within: 120,
            seed: 1,
            data: None,
        }
    }
}

/// Runs it.
///
/// # Errors
/// The broker cannot be started, or does not answer.
pub async fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let data = args.data.clone().unwrap_or_else(|| home.path().to_owned());
    let mut server = Server::started(Setup::new(&data)).await?;
    let mut chance = Rng::with_seed(args.seed);
    let each = args.messages.div_ceil(args.publishers.max(1));
    let queues = (0..args.queues).map(|queue| format!("million-{queue}")).collect();
    let load = Load::new(server.addr(), chance.u64(..0xffff_ffff), queues, args.publishers, each);
    let settings = json!({ "max_attempts": 1000, "max_queue_depth": 0, "lease_ms": 5_000 });
    let mut client = server.client(Wire::H1);
    load.declare(&mut client, &settings).await?;
    // One that is soon full, so that there are refusals.
    let mut full = settings;
    full["max_queue_depth"] = json!(args.depth);
    let name = load.queue(0);
    client.delete(name).await.done()?;
    client.declare(name, &full).await.done()?;
    let begun = Instant::now();
    let mut consumers = JoinSet::new();
    for index in 0..args.consumers {
        let plan = consumer::Plan {
            queue: u8::try_from(index % u64::from(args.queues.max(1)))?,
            wire: if index % 2 == 0 { Wire::H1 } else { Wire::H2 },
            name: (index % 3 > 0).then(|| format!("consumer-{index}")),
            mischief: true,
            lease_ms: (1_000, 3_000),
            max: 32,
            pause: Duration::ZERO,
            seed: chance.u64(..),
        };
        consumers.spawn(consumer(Arc::clone(&load), plan));
    }
    let mut publishers = JoinSet::new();
    for index in 0..args.publishers {
        let plan = publisher::Plan {
            index,
            count: each,
            wire: if index % 2 == 0 { Wire::H2 } else { Wire::H1 },
            queues: (0..args.queues).collect(),
            sizes: 32..=args.size,
            keyed: 30,
            batched: 30,
            lines: args.lines,
            heed: Duration::from_millis(50),
            seed: chance.u64(..),
        };
        publishers.spawn(publisher(Arc::clone(&load), plan));
    }
    let mut starts = Times::default();
    let mut kills = 0_u64;
    let mut published = None;
    // Kills go on while there is much to consume; the last messages are left in peace.
    let few = args.messages / 50;
    while !publishers.is_empty() || load.check().open() > few {
        let pause = match args.kill_every {
            0 => Duration::from_secs(1),
            every => Duration::from_millis(chance.u64(every / 2..=every * 3 / 2)),
        };
        let until = Instant::now() + pause;
        while Instant::now() < until {
            tokio::select! {
                () = sleep(until.saturating_duration_since(Instant::now())) => {}
                Some(done) = publishers.join_next() => { done.context("a publisher")?; }
            }
        }
        if publishers.is_empty() && published.is_none() {
            published = Some(begun.elapsed());
        }
        if args.kill_every > 0 {
            starts.add(load.restart(&mut server).await?);
            kills += 1;
        }
        let (seen, open, breaches) = load.standing();
        report.progress(format!(
            "{} confirmed, {open} to be finished, {kills} kills, {breaches} broken",
            seen.confirmed
        ));
        if begun.elapsed() > Duration::from_secs(args.within) {
            load.check().found(Breach::Lost, format!("not done within {} s", args.within));
            break;
        }
    }
    load.drained(Duration::from_secs(60)).await.or_else(|left| {
        load.check().found(Breach::Lost, left);
        anyhow::Ok(())
    })?;
    // A last start, so that what is left is left on disk.
    starts.add(load.restart(&mut server).await?);
    load.settle(&server, Duration::from_secs(20)).await?;
    let took = begun.elapsed();
    load.stop();
    while let Some(done) = consumers.join_next().await {
        done.context("a consumer")?;
    }
    if let Some(wrong) = server.end_clean().await? {
        report.broken(wrong);
    }
    let confirmed = load.check().seen().confirmed;
    report.line(
        "took",
        format!(
            "{:.1} s, {:.1} s of them with publishers",
            took.as_secs_f64(),
            published.unwrap_or(took).as_secs_f64()
        ),
    );
    report.line("messages a second", confirmed * 1000 / u64::try_from(took.as_millis())?.max(1));
    report.line("kills", format!("{}, start after one: {starts}", kills + 1));
    report.line("publish requests", &load.took().publish);
    report.line("ack requests", &load.took().ack);
    load.check().tell(report);
    Ok(())
}
