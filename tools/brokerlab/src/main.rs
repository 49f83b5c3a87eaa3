//! The command `brokerlab`: 0 where all held, 1 where something did not, 2 for wrong use or trouble with this machine.
#![allow(clippy::disallowed_methods, reason = "not the engine: a tool")]

use brokerlab::report::{Report, Verdict};
use brokerlab::scenario;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

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
    let ran = runtime.block_on(cli.scenario.run(&mut report));
    print!("{report}");
    if let Err(error) = ran {
        eprintln!("brokerlab: {error:#}");
        return ExitCode::from(if report.verdict() == Verdict::Broken { 1 } else { 2 });
    }
    match report.verdict() {
        Verdict::Broken => ExitCode::from(1),
        Verdict::Held | Verdict::Skipped(_) => ExitCode::SUCCESS,
    }
}
