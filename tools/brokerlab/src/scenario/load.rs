//! Publishers and consumers whose every answer the checker hears, whatever happens to the broker meanwhile.

use crate::check::{Checker, Seen};
use crate::client::{Client, Refusal};
use crate::server::Server;
use crate::stats::Times;
use anyhow::{Context, bail};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How long it took.
#[derive(Debug, Default)]
pub struct Took {
    /// Confirmed publishes, of one message or of many.
    pub publish: Times,
    /// Receives that did not wait for messages.
    pub receive: Times,
    /// Acks.
    pub ack: Times,
}

/// What publishers and consumers share.
#[derive(Debug)]
pub struct Load {
    /// The broker's address, the same in all its lives.
    pub addr: SocketAddr,
    /// Names this run in payloads and keys.
    pub run: u64,
    /// The queues, by their number.
    pub queues: Vec<String>,
    checker: Mutex<Checker>,
    took: Mutex<Took>,
    refusal: Mutex<Option<Refusal>>,
    begun: Instant,
    stopped: AtomicBool,
    published: AtomicBool,
}

impl Load {
    /// For so many publishers with so many messages each, over these queues.
    #[must_use]
    pub fn new(
        addr: SocketAddr,
        run: u64,
        queues: Vec<String>,
        publishers: u64,
        each: u64,
    ) -> Arc<Self> {
        let count = u8::try_from(queues.len()).unwrap_or(u8::MAX);
        Arc::new(Self {
            addr,
            run,
            queues,
            checker: Mutex::new(Checker::new(publishers, each, count)),
            took: Mutex::default(),
            refusal: Mutex::default(),
            begun: Instant::now(),
            stopped: AtomicBool::new(false),
            published: AtomicBool::new(false),
        })
    }

    /// The checker's clock.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The checker.
    pub fn check(&self) -> MutexGuard<'_, Checker> {
        self.checker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts, messages that are not finished, and breaches.
    #[must_use]
    pub fn standing(&self) -> (Seen, u64, u64) {
        let check = self.check();
        (check.seen(), check.open(), check.breaches())
    }

    /// The durations.
    pub fn took(&self) -> MutexGuard<'_, Took> {
        self.took.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of a queue.
    #[must_use]
    pub fn queue(&self, number: u8) -> &str {
        self.queues.get(usize::from(number)).map_or("", String::as_str)
    }

    /// Tells consumers to end.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// They were told.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Tells publishers to end.
    pub fn publishers_end(&self) {
        self.published.store(true, Ordering::Relaxed);
    }

    /// Publishers were told to end.
    #[must_use]
    pub fn published(&self) -> bool {
        self.published.load(Ordering::Relaxed) || self.stopped()
    }

    /// The latest refusal of a publish.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A publish was refused.
    pub fn was_refused(&self, refusal: &Refusal) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal.clone());
    }

    /// Declares the queues.
    ///
    /// # Errors
    /// One is not.
    pub async fn declare(&self, client: &mut Client, settings: &Value) -> anyhow::Result<()> {
        for queue in &self.queues {
            client
                .declare(queue, settings)
                .await
                .done()
                .with_context(|| format!("declare {queue}"))?;
        }
        Ok(())
    }

    /// Kills the broker and starts it again; how long the start took.
    ///
    /// # Errors
    /// It had ended by itself, or does not start.
    pub async fn restart(&self, server: &mut Server) -> anyhow::Result<Duration> {
        server.kill9().await?;
        self.check().restarted();
        server.start().await
    }

    /// Waits until all that is stored for certain is finished, or perhaps so.
    ///
    /// # Errors
    /// Nothing was finished for `patience`.
    pub async fn drained(&self, patience: Duration) -> anyhow::Result<()> {
        let (mut least, mut since) = (u64::MAX, Instant::now());
        loop {
            let left = {
                let check = self.check();
                check.open() - check.perhaps()
            };
            if left == 0 {
                return Ok(());
            }
            if left < least {
                (least, since) = (left, Instant::now());
            }
            if since.elapsed() > patience {
                bail!("{left} messages are left, and none was finished for {patience:?}");
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the queues say that they are empty, and settles the account: what is not finished now is lost.
    ///
    /// # Errors
    /// They do not answer.
    pub async fn settle(&self, server: &Server, patience: Duration) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut client = server.client(crate::client::Wire::H1);
        loop {
            let mut left = Vec::new();
            for queue in &self.queues {
                let view = client.show(queue).await.done()?;
                let count = |name| crate::client::number(&view, name);
                let (ready, flying) = (count("ready"), count("in_flight"));
                if (ready, flying) != (Some(0), Some(0)) {
                    left.push(format!("{queue}: {ready:?} ready, {flying:?} in flight"));
                }
            }
            if left.is_empty() {
                break;
            }
            if begun.elapsed() > patience {
                self.check().found(
                    crate::check::Breach::Lost,
                    format!("still there after {patience:?}: {}", left.join("; ")),
                );
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
        self.check().finish();
        Ok(())
    }
}
