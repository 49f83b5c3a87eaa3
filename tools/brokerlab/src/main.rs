//! The command `brokerlab`: 0 where all held, 1 where something did not or it could not be run to its end, 2 for wrong use.
#![allow(clippy::disallowed_methods, reason = "not the engine: a tool")]

use brokerlab::report::{Report, Verdict};
use brokerlab::scenario;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// Proves the broker from outside: runs `plimsoll serve`, breaks what is round it, and checks what was promised. It runs the
/// `plimsoll` beside itself, or the one that PLIMSOLL_BIN names.
#[derive(Parser)]
#[command(name = "brokerlab", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Subcommand)]
enum Scenario {
    Million(scenario::million::Args),
    Fill(scenario::fill::Args),
    Cgroup(scenario::cgroup::Args),
    Hang(scenario::hang::Args),
    Vanish(scenario::vanish::Args),
    Queues(scenario::queues::Args),
    Latency(scenario::latency::Args),
    Small(scenario::small::Args),
}

impl Scenario {
    fn name(&self) -> &'static str {
        match self {
            Self::Million(_) => "million",
            Self::Fill(_) => "fill",
            Self::Cgroup(_) => "cgroup",
            Self::Hang(_) => "hang",
            Self::Vanish(_) => "vanish",
            Self::Queues(_) => "queues",
            Self::Latency(_) => "latency",
            Self::Small(_) => "small",
        }
    }

    async fn run(&self, report: &mut Report) -> anyhow::Result<()> {
        match self {
            Self::Million(args) => scenario::million::run(args, report).await,
            Self::Fill(args) => scenario::fill::run(args, report).await,
            Self::Cgroup(args) => scenario::cgroup::run(args, report).await,
            Self::Hang(args) => scenario::hang::run(args, report).await,
            Self::Vanish(args) => scenario::vanish::run(args, report).await,
            Self::Queues(args) => scenario::queues::run(args, report).await,
            Self::Latency(args) => scenario::latency::run(args, report).await,
            Self::Small(args) => scenario::small::run(args, report).await,
        }
    }
}

/// Runs it to its end, or until it is told to stop: what it mounted and started must not stay behind.
async fn until_told(run: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    tokio::select! {
        ran = run => ran,
        _ = term.recv() => anyhow::bail!("stopped by SIGTERM"),
        _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("brokerlab: {error}");
            return ExitCode::from(2);
        }
    };
    let mut report = Report::new(cli.scenario.name()).loud(true);
    let ran = runtime.block_on(until_told(cli.scenario.run(&mut report)));
    if let Err(error) = ran {
        report.broken(format!("not run to its end: {error:#}"));
    }
    print!("{report}");
    match report.verdict() {
        Verdict::Broken => ExitCode::from(1),
        Verdict::Held | Verdict::Skipped(_) => ExitCode::SUCCESS,
    }
}
