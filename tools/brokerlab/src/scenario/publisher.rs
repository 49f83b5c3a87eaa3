//! A publisher: one connection, one request after the other, and no message left whose outcome it could still learn.

use super::load::Load;
use crate::check::Breach;
use crate::client::{Answer, Client, Publish, Stored, Wire};
use crate::content;
use fastrand::Rng;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// What a publisher does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its number.
    pub index: u64,
    /// How many messages it has.
    pub count: u64,
    /// What it speaks.
    pub wire: Wire,
    /// Queues it publishes to.
    pub queues: Vec<u8>,
    /// Bytes of a payload.
    pub sizes: RangeInclusive<usize>,
    /// The share of messages with an idempotency key, percent.
    pub keyed: u8,
    /// The share of requests that publish many, percent.
    pub batched: u8,
    /// The most lines of these.
    pub lines: usize,
    /// How long it heeds a hint at most.
    pub heed: Duration,
    /// Its chance.
    pub seed: u64,
}

/// What it met.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    /// Refusals, of one message or of a request.
    pub refusals: u64,
}

struct Publisher {
    load: Arc<Load>,
    plan: Plan,
    client: Client,
    chance: Rng,
    met: Met,
}

/// Longer than any restart takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Publishes all of the plan's messages: each is confirmed, refused for good, or of an outcome that cannot be learnt.
pub async fn publisher(load: Arc<Load>, plan: Plan) -> Met {
    let client = Client::new(load.addr, plan.wire);
    let chance = Rng::with_seed(plan.seed);
    let mut publisher = Publisher { load, plan, client, chance, met: Met::default() };
    publisher.run().await;
    publisher.met
}

impl Publisher {
    async fn run(&mut self) {
        let mut number = 0;
        while number < self.plan.count && !self.load.published() {
            let queue = self.plan.queues[self.chance.usize(..self.plan.queues.len())];
            let left = usize::try_from(self.plan.count - number).unwrap_or(usize::MAX);
            let count = match self.chance.u8(..100) < self.plan.batched {
                true => self.chance.usize(1..=self.plan.lines.min(left)),
                false => 1,
            };
            let first = self.load.check().slot(self.plan.index, number);
            let slots: Vec<u64> = (first..first + count as u64).collect();
            number += count as u64;
            let messages: Vec<Publish> = slots.iter().map(|slot| self.message(*slot)).collect();
            if count == 1 {
                self.one(slots[0], queue, &messages[0]).await;
            } else {
                self.many(&slots, queue, &messages).await;
            }
        }
    }

    fn message(&mut self, slot: u64) -> Publish {
        let size = self.chance.usize(self.plan.sizes.clone());
        let keyed = self.chance.u8(..100) < self.plan.keyed;
        let key = keyed.then(|| format!("{:x}-{slot}", self.load.run));
        Publish { payload: content::payload(self.load.run, slot, size), key }
    }

    /// One message, until its outcome is known, if it has a key.
    async fn one(&mut self, slot: u64, queue: u8, message: &Publish) {
        let begun = Instant::now();
        loop {
            self.load.check().sending(slot, queue);
            let sent = Instant::now();
            let name = self.load.queue(queue).to_owned();
            let answer = self.client.publish(&name, message).await;
            if matches!(answer, Answer::Done(_)) {
                self.load.took().publish.add(sent.elapsed());
            }
            let hint = self.learn(slot, &answer);
            let again = match answer {
                // A key makes a repetition safe, and it must show the same number.
                Answer::Done(_) => message.key.is_some() && self.chance.u8(..100) < 3,
                Answer::Limited(_) | Answer::NotDone(_) => {
                    sleep(hint.min(self.plan.heed)).await;
                    let leave = self.load.check().may_leave(slot);
                    // Refused for certain, it may be sent again without a key, or left for good.
                    let safe = leave || message.key.is_some();
                    safe && !(leave && self.chance.u8(..100) < 20)
                }
                Answer::Unknown(_) => {
                    sleep(Duration::from_millis(20)).await;
                    message.key.is_some()
                }
                Answer::Wrong(..) => false,
            };
            if !again || begun.elapsed() > PATIENCE {
                return;
            }
        }
    }

    /// Many in one request; what has a key and no outcome is repeated by itself.
    async fn many(&mut self, slots: &[u64], queue: u8, messages: &[Publish]) {
        for slot in slots {
            self.load.check().sending(*slot, queue);
        }
        let sent = Instant::now();
        let name = self.load.queue(queue).to_owned();
        let answer = self.client.publish_many(&name, messages).await;
        let lines = match answer {
            Answer::Done(lines) => {
                self.load.took().publish.add(sent.elapsed());
                lines
            }
            Answer::Limited(refusal) => vec![Answer::Limited(refusal); slots.len()],
            Answer::NotDone(why) => vec![Answer::NotDone(why); slots.len()],
            Answer::Unknown(why) => vec![Answer::Unknown(why); slots.len()],
            Answer::Wrong(status, body) => vec![Answer::Wrong(status, body); slots.len()],
        };
        let mut wait = Duration::ZERO;
        let mut over = false;
        for (slot, line) in slots.iter().zip(&lines) {
            wait = wait.max(self.learn(*slot, line));
            // After the first refusal for pressure or fullness the rest is refused too.
            if over && matches!(line, Answer::Done(stored) if !stored.duplicate) {
                self.load.check().found(
                    Breach::Order,
                    format!("message {slot} is stored behind a refused line"),
                );
            }
            over |= matches!(line, Answer::Limited(_));
        }
        for ((slot, message), line) in slots.iter().zip(messages).zip(&lines) {
            if message.key.is_some() && matches!(line, Answer::Unknown(_)) {
                self.one(*slot, queue, message).await;
            }
        }
        sleep(wait.min(self.plan.heed)).await;
    }

    /// Tells the checker; how long to wait.
    fn learn(&mut self, slot: u64, answer: &Answer<Stored>) -> Duration {
        let load = Arc::clone(&self.load);
        let mut check = load.check();
        match answer {
            Answer::Done(stored) => check.confirmed(slot, *stored),
            Answer::Limited(refusal) => {
                check.refused(slot);
                self.met.refusals += 1;
                if let Some(fault) = refusal.fault() {
                    check.found(Breach::Settle, format!("a refusal of message {slot}: {fault}"));
                }
                load.was_refused(refusal);
                return refusal.retry_after;
            }
            Answer::NotDone(_) => {
                check.not_sent(slot);
                return Duration::from_millis(20);
            }
            Answer::Unknown(_) => check.unknown(slot),
            Answer::Wrong(status, body) => {
                check.found(
                    Breach::Settle,
                    format!("a publish of message {slot} is answered {status}: {body}"),
                );
                check.unknown(slot);
            }
        }
        Duration::ZERO
    }
}
