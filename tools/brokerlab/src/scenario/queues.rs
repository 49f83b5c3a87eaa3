//! Many queues: how long a start takes, and what they cost.

use crate::client::{Publish, Receive, Wire, number, settings};
use crate::place::usage;
use crate::report::Report;
use crate::server::{Server, Setup};
use crate::stats::{Mib, Millis};
use bytes::Bytes;
use std::path::PathBuf;
use std::time::Instant;
use tokio::task::JoinSet;

/// Publishes to many queues, kills the broker, and starts it
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Queues
    #[arg(long, default_value_t = 1_000)]
    pub queues: usize,
    /// Messages in each
    #[arg(long, default_value_t = 1_000)]
    pub messages: usize,
    /// Bytes of a payload
    #[arg(long, default_value_t = 100)]
    pub size: usize,
    /// Where the data goes; a temporary directory by default
    #[arg(long)]
    pub data: Option<PathBuf>,
}

impl Args {
    /// A short run.
    #[must_use]
    pub fn short() -> Self {
        Self { queues: 60, messages: 50, size: 100, data: None }
    }
}

/// Runs it.
///
/// # Errors
/// The broker does not start or answer.
pub async fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    const PUBLISHERS: usize = 8;
    let home = tempfile::tempdir()?;
    let data = args.data.clone().unwrap_or_else(|| home.path().to_owned());
    let mut server = Server::started(Setup::new(&data)).await?;
    report.line("empty", format!("{} on disk", Mib(usage(&data).0)));
    let begun = Instant::now();
    let mut publishers = JoinSet::new();
    for index in 0..PUBLISHERS {
        let (mut client, args) = (server.client(Wire::H2), args.clone());
        publishers.spawn(async move {
            for queue in (index..args.queues).step_by(PUBLISHERS) {
                let name = format!("many-{queue}");
                client.declare(&name, &settings()).await.done()?;
                let payload = Bytes::from(vec![b'm'; args.size]);
                let mut left = args.messages;
                while left > 0 {
                    let lines = left.min(1_000);
                    let message = Publish { payload: payload.clone(), key: None };
                    for line in client.publish_many(&name, &vec![message; lines]).await.done()? {
                        line.done()?;
                    }
                    left -= lines;
                }
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = publishers.join_next().await {
        done??;
    }
    report.line(
        "declared and published",
        format!(
            "{} times {} in {:.1} s",
            args.queues,
            args.messages,
            begun.elapsed().as_secs_f64()
        ),
    );
    let (bytes, files) = usage(&data);
    report.line(
        "on disk",
        format!(
            "{} in {files} files, {} a queue",
            Mib(bytes),
            Mib(bytes / args.queues.max(1) as u64)
        ),
    );
    report.line("memory", Mib(server.memory("VmRSS").unwrap_or(0)));
    report.line("start after a kill", Millis(server.restart().await?));
    report.line("memory after the start", Mib(server.memory("VmRSS").unwrap_or(0)));
    let mut client = server.client(Wire::H1);
    let begun = Instant::now();
    for queue in 0..args.queues {
        let name = format!("many-{queue}");
        let ready = number(&client.show(&name).await.done()?, "ready");
        report.expect(ready == Some(args.messages as u64), format!("{name} has {ready:?} ready"));
        if queue % 10 == 0 {
            let (messages, _) = client.receive(&name, &Receive::now(1)).await.done()?;
            report.expect(
                messages.len() == 1 && messages[0].attempts == 1,
                format!("{name}: {messages:?}"),
            );
        }
    }
    report.line("asked all", Millis(begun.elapsed()));
    let begun = Instant::now();
    let wrong = server.end_clean().await?;
    report.line("clean end", Millis(begun.elapsed()));
    report.line("start after that", Millis(server.start().await?));
    if let Some(wrong) = wrong {
        report.broken(wrong);
    }
    Ok(())
}
