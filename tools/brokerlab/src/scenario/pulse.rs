//! A consumer of a queue that has nothing to do with the trouble: it must not notice.

use crate::client::{Answer, Client, Publish, Receive, Settled, Wire};
use crate::stats::Times;
use anyhow::Context;
use bytes::Bytes;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// What it met since it was last asked.
#[derive(Clone, Debug, Default)]
pub struct Beats {
    /// Receives.
    pub receive: Times,
    /// Acks and nacks.
    pub settle: Times,
    /// GETs of `/healthz`.
    pub health: Times,
    /// What went wrong, in words; at most ten.
    pub wrong: Vec<String>,
}

/// It receives one message after the other, and gives all but every eighth back. The broker may be killed meanwhile: what is
/// not done for that is no fault.
#[derive(Debug)]
pub struct Pulse {
    beats: Arc<Mutex<Beats>>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

/// Publishes so many messages to a queue.
///
/// # Errors
/// They are not all stored.
pub async fn preload(
    client: &mut Client,
    queue: &str,
    count: usize,
    size: usize,
) -> anyhow::Result<()> {
    let mut left = count;
    while left > 0 {
        let lines = left.min(200.min((3 << 20) / (size + 64)).max(1));
        let message = Publish { payload: Bytes::from(vec![b'p'; size]), key: None };
        for line in
            client.publish_many(queue, &vec![message; lines]).await.done().context("preload")?
        {
            line.done().context("preload")?;
        }
        left -= lines;
    }
    Ok(())
}

impl Pulse {
    /// Starts it on a queue that has messages.
    #[must_use]
    pub fn start(addr: SocketAddr, queue: &str, wire: Wire) -> Self {
        let beats = Arc::new(Mutex::new(Beats::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let beater = Beater {
            queue: queue.to_owned(),
            client: Client::new(addr, wire),
            beats: Arc::clone(&beats),
        };
        let told = Arc::clone(&stop);
        let task = tokio::spawn(async move { beater.run(&told).await });
        Self { beats, stop, task }
    }

    /// What it met since this was last called.
    #[must_use]
    pub fn take(&self) -> Beats {
        std::mem::take(&mut *self.beats.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends it, when its call is answered; what it met since it was last asked.
    pub async fn end(self) -> Beats {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.task.await;
        std::mem::take(&mut *self.beats.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Beater {
    queue: String,
    client: Client,
    beats: Arc<Mutex<Beats>>,
}

impl Beater {
    async fn run(mut self, stop: &AtomicBool) {
        let mut beat = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            beat += 1;
            if let Err(wrong) = self.beat(beat).await {
                let mut beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
                if beats.wrong.len() < 10 {
                    beats.wrong.push(wrong);
                }
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    fn note(&self, add: impl FnOnce(&mut Beats)) {
        add(&mut self.beats.lock().unwrap_or_else(PoisonError::into_inner));
    }

    async fn beat(&mut self, beat: u64) -> Result<(), String> {
        if beat.is_multiple_of(4) {
            let sent = Instant::now();
            if let Ok(status) = self.client.status("/healthz").await {
                self.note(|beats| beats.health.add(sent.elapsed()));
                if status != 200 {
                    return Err(format!("/healthz is answered {status}"));
                }
            }
        }
        let sent = Instant::now();
        let (messages, reason) = match self.client.receive(&self.queue, &Receive::now(1)).await {
            Answer::Done(got) => got,
            Answer::NotDone(_) | Answer::Unknown(_) => return Ok(()),
            wrong => return Err(format!("a receive is answered {wrong:?}")),
        };
        let Some(message) = messages.into_iter().next() else {
            // Leased to a life of ours whose answer was cut off, perhaps.
            return if reason.is_some() {
                Ok(())
            } else {
                Err("an empty receive says no reason".into())
            };
        };
        self.note(|beats| beats.receive.add(sent.elapsed()));
        let verb = if beat.is_multiple_of(8) { "ack" } else { "nack" };
        let sent = Instant::now();
        match self.client.settle(&self.queue, verb, &[message.receipt]).await {
            Answer::Done(answers) if matches!(answers[..], [Settled::Done]) => {
                self.note(|beats| beats.settle.add(sent.elapsed()));
                Ok(())
            }
            Answer::NotDone(_) | Answer::Unknown(_) => Ok(()),
            wrong => Err(format!("{verb} is answered {wrong:?}")),
        }
    }
}
