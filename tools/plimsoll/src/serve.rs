//! `plimsoll serve`: the broker.

use crate::failure::{Exit, Failure};
use crate::numbers::size;
use crate::output::{self, BOLD, styled};
use crate::settings::SettingsFile;
use crate::{signals, store};
use clap::Args;
use plimsoll::pressure::DiskReading;
use plimsoll_broker::broker::{Broker, BrokerOptions, StartError};
use plimsoll_broker::http::{HttpOptions, ListenError, Listener};
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Serve durable work queues over HTTP
///
/// Makes the data directories if they are missing. From level soft on publishes are slowed, from hard on they are refused
/// with 429 ERR_LIMITED, the reason and a hint when to try again; receiving, acknowledging, purging and administration go on
/// at every level. All routes with their fields and errors are at /openapi.json.
///
/// Listens on loopback addresses only, as there are no access tokens yet. SIGINT and SIGTERM end it in order: no new work,
/// what is under way is answered (10 s at most), logs are closed. A second signal ends it at once; nothing that was
/// confirmed is lost in either case, nor by SIGKILL.
///
/// From the settings file it takes the section `limits`, and if there is one the section `broker`: `hosts`, names under
/// which it is reached beside localhost, and `in_flight_max`, the most messages in flight in all queues together.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  plimsoll serve
  plimsoll serve --data /var/lib/plimsoll-queues --listen 127.0.0.1:8080
  plimsoll serve --data /mnt/a/queues --data /mnt/b/queues --settings plimsoll.toml")]
pub(crate) struct Serve {
    /// A data directory; several make room on several devices. Always name all of them
    #[arg(long, value_name = "DIR", default_value = "./plimsoll-data")]
    data: Vec<PathBuf>,
    /// The address: a loopback one; with port 0 any port that is free
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7272")]
    listen: SocketAddr,
    #[command(flatten)]
    settings: SettingsFile,
}

/// What a blocking call may still hold when all else has ended.
const LAST_WAIT: Duration = Duration::from_secs(1);

impl Serve {
    /// Runs it until a signal comes.
    pub(crate) fn run(&self, as_json: bool) -> Result<(), Failure> {
        let settings = self.settings.read()?;
        let of_broker = self.settings.read_broker()?;
        self.data.iter().try_for_each(|dir| store::check_usable(dir))?;
        let mut http = HttpOptions::new(self.listen);
        http.hosts = of_broker.hosts;
        let mut options = BrokerOptions::new(self.data.clone());
        options.node = settings.options();
        if let Some(max) = of_broker.in_flight_max {
            options.in_flight_max = max;
        }
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_ansi(output::is_watched())
            .with_writer(io::stderr)
            .init();
        let signal = Arc::new(Notify::new());
        let told = Arc::clone(&signal);
        // One that comes before anybody waits is kept.
        signals::on_interrupt(move |_| told.notify_one())?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::io("start", "threads", &error))?;
        let served = runtime.block_on(serve(http, options, &signal, as_json));
        runtime.shutdown_timeout(LAST_WAIT);
        served
    }
}

async fn serve(
    http: HttpOptions,
    options: BrokerOptions,
    signal: &Notify,
    as_json: bool,
) -> Result<(), Failure> {
    // First: an address that cannot be had is told before anything is made or recovered.
    let listener = Listener::bind(http)?;
    let broker = Broker::start(options).await?;
    let server = listener.serve(broker.clone());
    // A full disk under a file that this is written to must not keep the broker from starting.
    if greet(server.address(), &broker, as_json).is_err() {
        tracing::warn!(address = %server.address(), "serves, and cannot write that to standard output");
    }
    signal.notified().await;
    tracing::info!("ends: what is under way is answered");
    server.stop().await;
    broker.stop().await;
    Ok(())
}

/// The disks of each data directory, in order.
fn disks(broker: &Broker) -> Vec<Vec<DiskReading>> {
    broker.nodes().iter().map(|node| node.pressure().disks).collect()
}

fn greet(address: SocketAddr, broker: &Broker, as_json: bool) -> Result<(), Failure> {
    if as_json {
        let disks = disks(broker).into_iter().flatten().map(|disk| as_value(&disk));
        let disks: Vec<Value> = disks.collect();
        return output::line(json!({ "url": format!("http://{address}"), "data": disks }));
    }
    let version = env!("CARGO_PKG_VERSION");
    output::line(styled(BOLD, format_args!("Plimsoll {version} at http://{address}")))?;
    for disk in disks(broker).iter().flatten() {
        about(disk).iter().try_for_each(output::line)?;
    }
    output::line(examples(address))
}

fn as_value(disk: &DiskReading) -> Value {
    json!({
        "dirs": disk.dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<String>>(),
        "level": disk.level.name(),
        "free_bytes": disk.free,
        "total_bytes": disk.total,
        "soft_bytes": disk.thresholds.soft,
        "hard_bytes": disk.thresholds.hard,
    })
}

fn about(disk: &DiskReading) -> Vec<String> {
    let mut lines: Vec<String> =
        disk.dirs.iter().map(|dir| format!("  data   {}", dir.display())).collect();
    let [free, total, soft, hard] =
        [disk.free, disk.total, disk.thresholds.soft, disk.thresholds.hard].map(size);
    lines.push(format!(
        "  level  {}: {free} of {total} are free; publishes are slowed below {soft}, refused below {hard}",
        disk.level
    ));
    lines
}

/// Four lines that can be pasted into a shell: declare, publish, receive, acknowledge.
fn examples(address: SocketAddr) -> String {
    let queue = format!("http://{address}/api/v1/queue/jobs");
    let receipt = r#"$(echo "$got" | sed 's/.*"receipt":"\([^"]*\)".*/\1/')"#;
    format!(
        "\nTry it:\n  \
         curl -X PUT {queue}\n  \
         curl -H 'Content-Type: text/plain' -d 'hello' {queue}/messages\n  \
         got=$(curl -s -X POST {queue}/receive); echo \"$got\"\n  \
         curl -d \"{{\\\"receipt\\\":\\\"{receipt}\\\"}}\" {queue}/ack\n"
    )
}

impl From<ListenError> for Failure {
    fn from(error: ListenError) -> Self {
        match error {
            ListenError::NotLoopback(_) => Self::usage(error.to_string()).with("field", "listen"),
            _ => Self::new(Exit::Io, error.to_string()),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Open(error) => error.into(),
            _ => Self::new(Exit::Io, error.to_string()),
        }
    }
}
