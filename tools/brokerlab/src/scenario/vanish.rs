//! Receivers that vanish about when they are assigned a message: it costs no attempt, and nothing is leased to nobody.

use crate::client::{Client, Message, Publish, Receive, Wire, raw, settings};
use crate::report::Report;
use crate::server::{Server, Setup};
use crate::stats::Times;
use anyhow::{Context, bail};
use bytes::Bytes;
use fastrand::Rng;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Lets receivers vanish at the moment of assignment
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// How often
    #[arg(long, default_value_t = 4_000)]
    pub times: u64,
    /// At once, each in a queue of its own
    #[arg(long, default_value_t = 4)]
    pub at_once: u64,
    /// The latest microsecond, from the publish, at which a receiver vanishes
    #[arg(long, default_value_t = 900)]
    pub within: u64,
    /// Of chance
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Args {
    /// A short run.
    #[must_use]
    pub fn short() -> Self {
        Self { times: 240, at_once: 4, within: 900, seed: 1 }
    }
}

/// How a receiver goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It says that nothing more will come from it, and reads on: whatever the broker sent is seen, so nothing is in doubt.
    HalfClose,
    /// With a reset.
    Reset,
    /// By closing.
    Close,
}

#[derive(Debug, Default)]
struct Tally {
    times: u64,
    /// The answer had come before it vanished.
    answered: u64,
    /// It vanished first: the message was to be had at once, with attempts 1.
    free: u64,
    /// The answer was sent into the closing: to be had when the lease was over.
    doubt: u64,
    at_once: Times,
    wrong: Vec<String>,
}

/// Runs it.
///
/// # Errors
/// The broker does not start or answer.
pub async fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let home = tempfile::tempdir()?;
    let mut server = Server::started(Setup::new(home.path())).await?;
    let mut workers = JoinSet::new();
    for index in 0..args.at_once {
        let (addr, args) = (server.addr(), args.clone());
        workers.spawn(async move {
            let mut worker = Worker {
                addr,
                queue: format!("vanish-{index}"),
                client: Client::new(addr, Wire::H1),
                chance: Rng::with_seed(args.seed * 1_000 + index),
                within: args.within,
                tally: Tally::default(),
            };
            worker.client.declare(&worker.queue, &settings()).await.done()?;
            for _ in 0..args.times / args.at_once.max(1) {
                worker.one().await?;
            }
            anyhow::Ok(worker.tally)
        });
    }
    let mut all = Tally::default();
    while let Some(tally) = workers.join_next().await {
        let tally = tally??;
        all.times += tally.times;
        all.answered += tally.answered;
        all.free += tally.free;
        all.doubt += tally.doubt;
        all.at_once.merge(&tally.at_once);
        all.wrong.extend(tally.wrong);
    }
    report.line("receivers vanished", all.times);
    report.line("after their answer", all.answered);
    report.line("before it, and the message was free", all.free);
    report.line("with the answer on its way", all.doubt);
    report.line("free again after", &all.at_once);
    for wrong in all.wrong {
        report.broken(wrong);
    }
    report.expect(all.free > 0, "no receiver vanished before its answer: nothing was tried");
    // A window of some microseconds between looking and closing; more says that answers go to nobody.
    report
        .expect(all.doubt * 20 <= all.times, format!("{} answers went into a closing", all.doubt));
    if let Some(wrong) = server.end_clean().await? {
        report.broken(wrong);
    }
    Ok(())
}

struct Worker {
    addr: SocketAddr,
    queue: String,
    client: Client,
    chance: Rng,
    within: u64,
    tally: Tally,
}

const LEASE: Duration = Duration::from_secs(4);
/// Long enough for a broker on a busy machine to notice, and well within the lease.
const AT_ONCE: Duration = Duration::from_millis(2_000);

impl Worker {
    async fn one(&mut self) -> anyhow::Result<()> {
        self.tally.times += 1;
        let way = match self.chance.u8(..10) {
            0..5 => Way::HalfClose,
            5..8 => Way::Reset,
            _ => Way::Close,
        };
        let mut tcp = self.ask().await?;
        // Mostly it waits already when the message comes.
        sleep(Duration::from_micros(self.chance.u64(..2_000))).await;
        let after = Duration::from_micros(self.chance.u64(..self.within));
        let number = self.tally.times;
        let message = Publish { payload: Bytes::from(format!("message {number}")), key: None };
        let queue = self.queue.clone();
        let publish = self.client.publish(&queue, &message);
        let vanish = async move {
            sleep(after).await;
            vanish(&mut tcp, way).await.inspect(|_| match way {
                Way::Reset => raw::reset(tcp),
                Way::HalfClose | Way::Close => drop(tcp),
            })
        };
        let (stored, seen) = tokio::join!(publish, vanish);
        let id = stored.done().context("a publish")?.id;
        let what = format!("{queue}, message {id}, {way:?} after {after:?}");
        let seen = seen?;
        if !seen.is_empty() {
            self.tally.answered += 1;
            let message = message_of(&seen).with_context(|| what.clone())?;
            return match message {
                Some(message) => self.finish(&what, id, message).await,
                None => {
                    bail!("{what}: an answer without a message: {}", String::from_utf8_lossy(&seen))
                }
            };
        }
        self.gone(&what, id, way).await
    }

    async fn ask(&mut self) -> anyhow::Result<TcpStream> {
        let mut body = Receive::now(1);
        body.wait = Duration::from_secs(30);
        body.lease = Some(LEASE);
        let body = body.body();
        let path = format!("/api/v1/queue/{}/receive", self.queue);
        let mut bytes = raw::head(self.addr, "POST", &path, "application/json", body.len());
        bytes.extend_from_slice(&body);
        let mut tcp = raw::connect(self.addr).await?;
        raw::send(&mut tcp, &bytes).await?;
        Ok(tcp)
    }

    /// Nothing came before it vanished: the message must be free, and as if nothing had been.
    async fn gone(&mut self, what: &str, id: u64, way: Way) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut ask = Receive::now(1);
        ask.wait = AT_ONCE;
        ask.lease = Some(LEASE);
        let (mut messages, reason) =
            self.client.receive(&self.queue, &ask).await.done().context("a receive")?;
        if messages.is_empty() && way != Way::HalfClose {
            // The answer may have been sent between our look and our closing: then it comes when its lease is over.
            self.tally.doubt += 1;
            ask.wait = LEASE + AT_ONCE;
            let (late, reason) = self.client.receive(&self.queue, &ask).await.done()?;
            match late.into_iter().next() {
                Some(message) if message.id == id => self.ack(message).await?,
                other => self.tally.wrong.push(format!("{what}: lost: {other:?}, {reason:?}")),
            }
            return Ok(());
        }
        match messages.pop() {
            Some(message) => {
                self.tally.free += 1;
                self.tally.at_once.add(begun.elapsed());
                self.finish(what, id, message).await
            }
            None => {
                self.tally.wrong.push(format!("{what}: leased to nobody ({reason:?})"));
                ask.wait = LEASE + AT_ONCE;
                let (late, _) = self.client.receive(&self.queue, &ask).await.done()?;
                for message in late {
                    self.ack(message).await?;
                }
                Ok(())
            }
        }
    }

    async fn finish(&mut self, what: &str, id: u64, message: Message) -> anyhow::Result<()> {
        if message.id != id || message.attempts != 1 {
            self.tally.wrong.push(format!(
                "{what}: comes as {} with attempts {}",
                message.id, message.attempts
            ));
        }
        self.ack(message).await
    }

    async fn ack(&mut self, message: Message) -> anyhow::Result<()> {
        let answer = self.client.settle(&self.queue, "ack", &[message.receipt]).await.done()?;
        if answer != [crate::client::Settled::Done] {
            self.tally
                .wrong
                .push(format!("{}: the ack of {} is answered {answer:?}", self.queue, message.id));
        }
        Ok(())
    }
}

/// Goes; what had come before that.
async fn vanish(tcp: &mut TcpStream, way: Way) -> anyhow::Result<Vec<u8>> {
    if way == Way::HalfClose {
        tcp.shutdown().await?;
        return Ok(raw::read_all(tcp, Duration::from_secs(20), 64 << 10).await);
    }
    let mut bytes = vec![0; 64 << 10];
    match tcp.try_read(&mut bytes) {
        Ok(read) => {
            bytes.truncate(read);
            Ok(bytes)
        }
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// The message in an answer.
fn message_of(answer: &[u8]) -> anyhow::Result<Option<Message>> {
    let text = std::str::from_utf8(answer)?;
    let (_, body) =
        text.split_once("\r\n\r\n").with_context(|| format!("half an answer: {text:?}"))?;
    // Its length may come with it, or its parts with theirs.
    let from = body.find('{').with_context(|| format!("no answer: {text:?}"))?;
    let to = body.rfind('}').with_context(|| format!("no answer: {text:?}"))?;
    let messages = crate::client::messages_in(&body.as_bytes()[from..=to]);
    Ok(messages.map_err(anyhow::Error::msg)?.into_iter().next())
}
