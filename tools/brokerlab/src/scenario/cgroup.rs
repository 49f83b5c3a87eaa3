//! Little memory: slow bodies by the hundred, a backlog that nobody consumes, and a start with more on disk than memory.

use super::fill::mount;
use super::slow::{Bodies, crowd};
use crate::client::{Answer, Client, Publish, Wire, settings};
use crate::group::Group;
use crate::report::Report;
use crate::server::{Server, Setup};
use crate::stats::{Mib, Millis};
use anyhow::bail;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Runs the broker with little memory: slow bodies, publishing without consumers, and a start with a large backlog (E5)
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// MiB of the control group
    #[arg(long, default_value_t = 256)]
    pub mib: u64,
    /// How often, each time with a new broker
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
    /// Slow clients at once
    #[arg(long, default_value_t = 500)]
    pub clients: usize,
    /// MiB of the disk that publishing without consumers fills
    #[arg(long, default_value_t = 512)]
    pub disk: u64,
    /// Seconds that slow bodies are sent at most
    #[arg(long, default_value_t = 30)]
    pub seconds: u64,
    /// MiB of backlog in 50 queues for case E5; 0 for none
    #[arg(long, default_value_t = 0)]
    pub backlog: u64,
    /// MiB of the control group for case E5
    #[arg(long, default_value_t = 128)]
    pub backlog_mib: u64,
    /// Where that backlog goes, on a disk; a temporary directory by default
    #[arg(long)]
    pub data: Option<PathBuf>,
}

impl Args {
    /// A short run.
    #[must_use]
    pub fn short() -> Self {
        Self {
            mib: 256,
            rounds: 1,
            clients: 100,
            disk: 96,
            seconds: 5,
            backlog: 0,
            backlog_mib: 128,
            data: None,
        }
    }
}

/// Runs it.
///
/// # Errors
/// The broker does not start or answer. What this machine cannot make is a report that says so.
pub async fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    for round in 1..=args.rounds {
        let group = match Group::new(&format!("lab-{round}"), args.mib << 20) {
            Ok(group) => group,
            Err(why) => {
                *report = Report::skipped("cgroup", why);
                return Ok(());
            }
        };
        let mount = match mount("ext4", args.disk) {
            Ok(mount) => mount,
            Err(why) => {
                *report = Report::skipped("cgroup", why);
                return Ok(());
            }
        };
        let setup =
            Setup { group: Some(group.dir().to_owned()), ..Setup::new(&mount.path().join("data")) };
        let mut server = Server::started(setup).await?;
        let name = if args.rounds > 1 { format!("round {round}: ") } else { String::new() };
        one(args, &name, &mut server, &group, report).await?;
        drop(server);
    }
    if args.backlog > 0 {
        case_e5(args, report).await?;
    }
    Ok(())
}

/// It lives, and nothing in its group was killed.
async fn alive(
    name: &str,
    server: &mut Server,
    group: &Group,
    report: &mut Report,
) -> anyhow::Result<()> {
    let killed = group.killed();
    report.expect(killed == 0, format!("{name}: the kernel killed {killed} for want of memory"));
    if let Some(status) = server.ended() {
        bail!("{name}: the broker ended ({status}):\n{}", server.said());
    }
    let mut client = server.client(Wire::H1);
    client.conn.patience = Duration::from_secs(20);
    let health = client.status("/healthz").await;
    report.expect(matches!(health, Ok(200)), format!("{name}: /healthz: {health:?}"));
    let peak = group.peak().map_or("?".into(), |peak| Mib(peak).to_string());
    let (rss, anonymous) =
        (server.memory("VmHWM").unwrap_or(0), server.memory("RssAnon").unwrap_or(0));
    report.line(
        &format!("{name}: memory"),
        format!(
            "{} anonymous now, {} resident at most, {peak} in the group at most",
            Mib(anonymous),
            Mib(rss)
        ),
    );
    Ok(())
}

async fn one(
    args: &Args,
    name: &str,
    server: &mut Server,
    group: &Group,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut client = server.client(Wire::H1);
    client.declare("slow", &settings()).await.done()?;
    client.declare("backlog", &settings()).await.done()?;
    let patience = Duration::from_secs(args.seconds);
    let every = Duration::from_millis(100);
    let big = Bodies {
        clients: args.clients,
        len: 16 << 20,
        step: 64 << 10,
        every,
        lines: false,
        patience,
    };
    let ends = crowd(server.addr(), "slow", big).await;
    told(&format!("{name}bodies of 16 MiB"), &ends, &["413", "429 memory", "408"], report);
    alive(&format!("{name}after bodies of 16 MiB"), server, group, report).await?;
    let lines = Bodies {
        clients: args.clients,
        len: 4 << 20,
        step: 32 << 10,
        every,
        lines: true,
        patience,
    };
    let ends = crowd(server.addr(), "slow", lines).await;
    told(&format!("{name}lines of 4 MiB"), &ends, &["200", "207", "429 memory", "408"], report);
    alive(&format!("{name}after lines of 4 MiB"), server, group, report).await?;
    let ends = hammer(server, "backlog", 8, 64 << 10).await?;
    let unheard = ends.keys().filter(|end| !end.starts_with("refused for ") && *end != "stored");
    let unheard: Vec<_> = unheard.cloned().collect();
    report.line(&format!("{name}publishing without consumers"), format!("{ends:?}"));
    report.expect(unheard.is_empty(), format!("{name}publishes are answered {unheard:?}"));
    alive(&format!("{name}after publishing without consumers"), server, group, report).await
}

/// Whatever becomes of a slow body must be said with a status; a client that gives up may hear nothing.
fn told(what: &str, ends: &super::slow::Ends, allowed: &[&str], report: &mut Report) {
    report.line(what, format!("{ends:?}"));
    let silent = [
        "gave up",
        "cut in the body",
        "cut at the end",
        "reset",
        "not connected",
        "cut at the head",
    ];
    for (end, count) in ends {
        let fine = allowed.contains(&end.as_str()) || silent.contains(&end.as_str());
        report.expect(fine, format!("{what}: {count} end with {end:?}"));
    }
}

/// Publishes until the disk refuses it, for a minute at most.
async fn hammer(
    server: &Server,
    queue: &str,
    publishers: usize,
    size: usize,
) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut all = JoinSet::new();
    for _ in 0..publishers {
        let (mut client, queue) = (server.client(Wire::H1), queue.to_owned());
        all.spawn(async move {
            let message = Publish { payload: Bytes::from(vec![7; size]), key: None };
            let (begun, mut ends) = (Instant::now(), BTreeMap::<String, u64>::new());
            let mut refused = 0;
            while refused < 20 && begun.elapsed() < Duration::from_secs(60) {
                let end = match client.publish(&queue, &message).await {
                    Answer::Done(_) => "stored".into(),
                    Answer::Limited(refusal) => {
                        refused += 1;
                        let wait = refusal.retry_after.min(Duration::from_millis(100));
                        tokio::time::sleep(wait).await;
                        refusal.fault().unwrap_or_else(|| format!("refused for {}", refusal.reason))
                    }
                    other => format!("{other:?}"),
                };
                *ends.entry(end).or_default() += 1;
            }
            ends
        });
    }
    let mut ends = BTreeMap::new();
    while let Some(one) = all.join_next().await {
        for (end, count) in one? {
            *ends.entry(end).or_default() += count;
        }
    }
    Ok(ends)
}

/// E5: more on disk than there is memory; it is killed, and comes up.
async fn case_e5(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    const QUEUES: u64 = 50;
    let group = match Group::new("lab-e5", args.backlog_mib << 20) {
        Ok(group) => group,
        Err(why) => {
            *report = Report::skipped("cgroup", why);
            return Ok(());
        }
    };
    let home = tempfile::tempdir()?;
    let data = args.data.clone().unwrap_or_else(|| home.path().to_owned());
    let setup = Setup { group: Some(group.dir().to_owned()), ..Setup::new(&data) };
    let mut server = Server::started(setup).await?;
    let mut client = server.client(Wire::H1);
    let each = (args.backlog << 20) / QUEUES;
    let message = Publish { payload: Bytes::from(vec![b'e'; 32 << 10]), key: None };
    let batch = vec![message; 32];
    let begun = Instant::now();
    let mut stored = 0;
    for queue in 0..QUEUES {
        let name = format!("backlog-{queue}");
        client.declare(&name, &settings()).await.done()?;
        for _ in 0..(each >> 20).max(1) {
            stored += publish_all(&mut client, &name, &batch).await?;
        }
    }
    report.line(
        "E5: backlog",
        format!("{} in {QUEUES} queues, in {:.0} s", Mib(stored), begun.elapsed().as_secs_f64()),
    );
    alive("E5: when it is stored", &mut server, &group, report).await?;
    server.kill9().await?;
    report.line("E5: start", Millis(server.start().await?));
    alive("E5: after the start", &mut server, &group, report).await?;
    let high = server.memory("VmHWM").unwrap_or(u64::MAX);
    report.expect(high < 100 << 20, format!("E5: {} resident at the start", Mib(high)));
    for queue in 0..QUEUES {
        let name = format!("backlog-{queue}");
        let (messages, _) = client.receive(&name, &crate::client::Receive::now(32)).await.done()?;
        report.expect(!messages.is_empty(), format!("E5: {name} has nothing"));
    }
    alive("E5: when all were asked", &mut server, &group, report).await
}

/// Publishes all lines, as often as it takes; their bytes.
async fn publish_all(client: &mut Client, queue: &str, lines: &[Publish]) -> anyhow::Result<u64> {
    let begun = Instant::now();
    let mut left = lines.to_vec();
    let mut bytes = 0;
    while !left.is_empty() {
        let answers = match client.publish_many(queue, &left).await {
            Answer::Done(answers) => answers,
            Answer::Limited(refusal) if begun.elapsed() < Duration::from_secs(60) => {
                tokio::time::sleep(refusal.retry_after).await;
                continue;
            }
            other => bail!("a publish is answered {other:?}"),
        };
        let mut again = Vec::new();
        for (line, answer) in left.into_iter().zip(answers) {
            match answer {
                Answer::Done(_) => bytes += line.payload.len() as u64,
                Answer::Limited(_) if begun.elapsed() < Duration::from_secs(60) => again.push(line),
                other => bail!("a line is answered {other:?}"),
            }
        }
        left = again;
    }
    Ok(bytes)
}
