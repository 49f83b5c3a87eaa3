//! A consumer: receives, and settles in every way that a consumer may.

use super::load::Load;
use crate::check::{Breach, Got, Told, Verb};
use crate::client::{Answer, Client, Message, Receive, Settled, Wire};
use crate::content;
use fastrand::Rng;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// What a consumer does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its queue.
    pub queue: u8,
    /// What it speaks.
    pub wire: Wire,
    /// Its name, if it says one.
    pub name: Option<String>,
    /// It does more than receive and ack: nacks, rejects, late acks, repeats, receipts of nobody, leases left to end.
    pub mischief: bool,
    /// Leases that it asks for, in milliseconds.
    pub lease_ms: (u64, u64),
    /// The most messages of one receive.
    pub max: usize,
    /// How long it waits between two receives.
    pub pause: Duration,
    /// Its chance.
    pub seed: u64,
}

/// A delivery that it holds.
#[derive(Clone, Debug)]
struct Held {
    slot: u64,
    attempts: u32,
    receipt: String,
}

struct Consumer {
    load: Arc<Load>,
    plan: Plan,
    client: Client,
    chance: Rng,
}

const PATIENCE: Duration = Duration::from_secs(120);

/// Consumes until the load is stopped.
pub async fn consumer(load: Arc<Load>, plan: Plan) {
    let client = Client::new(load.addr, plan.wire);
    let chance = Rng::with_seed(plan.seed);
    let mut consumer = Consumer { load, plan, client, chance };
    while !consumer.load.stopped() {
        consumer.round().await;
        sleep(consumer.plan.pause).await;
    }
}

impl Consumer {
    async fn round(&mut self) {
        let lease_ms = self.chance.u64(self.plan.lease_ms.0..=self.plan.lease_ms.1);
        let held = self.receive(lease_ms).await;
        if held.is_empty() {
            return;
        }
        let way = if self.plan.mischief { self.chance.u16(..1_000) } else { 0 };
        match way {
            0..700 => self.settle(Verb::Ack, &held, false).await,
            700..705 => {
                // Later than the lease: late, or gone.
                sleep(Duration::from_millis(lease_ms + 300)).await;
                self.settle(Verb::Ack, &held, false).await;
            }
            _ => {
                for one in held {
                    self.single(one, lease_ms).await;
                }
            }
        }
    }

    async fn receive(&mut self, lease_ms: u64) -> Vec<Held> {
        let wait = Duration::from_millis(*self.chance.choice(&[0, 50, 200, 500]).unwrap_or(&0));
        let ask = Receive {
            max: self.chance.usize(1..=self.plan.max),
            wait,
            lease: Some(Duration::from_millis(lease_ms)),
            consumer: self.plan.name.clone(),
            concurrency: None,
        };
        let mut asked = self.load.check().asking(self.plan.queue, self.load.now_ms());
        let sent = Instant::now();
        let queue = self.load.queue(self.plan.queue).to_owned();
        let messages = match self.client.receive(&queue, &ask).await {
            Answer::Done((messages, reason)) => {
                if messages.is_empty() && reason.is_none() {
                    self.load.check().found(Breach::Settle, "an empty receive says no reason (Q7)");
                }
                if messages.len() > ask.max {
                    self.load.check().found(
                        Breach::Settle,
                        format!("{} messages where {} were asked for", messages.len(), ask.max),
                    );
                }
                messages
            }
            Answer::Wrong(status, body) => {
                self.load
                    .check()
                    .found(Breach::Settle, format!("a receive is answered {status}: {body}"));
                Vec::new()
            }
            Answer::Limited(refusal) => {
                self.load
                    .check()
                    .found(Breach::Settle, format!("a receive is refused: {refusal:?} (Q3)"));
                Vec::new()
            }
            Answer::NotDone(_) | Answer::Unknown(_) => {
                sleep(Duration::from_millis(20)).await;
                Vec::new()
            }
        };
        if !messages.is_empty() && wait.is_zero() {
            self.load.took().receive.add(sent.elapsed());
        }
        let at_ms = self.load.now_ms();
        let mut check = self.load.check();
        let mut held = Vec::with_capacity(messages.len());
        for message in messages {
            let slot = content::slot_of(self.load.run, &message.payload);
            let Message { id, attempts, receipt, .. } = message;
            check.delivered(&mut asked, Got { slot, id, attempts, lease_ms, at_ms });
            if let Some(slot) = slot {
                held.push(Held { slot, attempts, receipt });
            }
        }
        held
    }

    async fn single(&mut self, one: Held, lease_ms: u64) {
        let one = [one];
        match self.chance.u8(..100) {
            0..60 => {
                self.settle(Verb::Ack, &one, false).await;
                if self.chance.u8(..100) < 20 {
                    self.settle(Verb::Ack, &one, true).await;
                }
            }
            60..75 => self.settle(Verb::Nack, &one, false).await,
            // The consumer dies, for all that the broker knows.
            75..85 => {}
            85..97 => {
                let longer = self.chance.u64(lease_ms / 2..=lease_ms * 2);
                self.settle(Verb::Extend(longer), &one, false).await;
                if self.chance.bool() {
                    self.settle(Verb::Ack, &one, false).await;
                }
            }
            _ => self.settle(Verb::Reject, &one, false).await,
        }
    }

    /// Settles until there is a definite answer. `repeat` says that the same was answered with success before.
    async fn settle(&mut self, verb: Verb, held: &[Held], repeat: bool) {
        let queue = self.load.queue(self.plan.queue).to_owned();
        let mut receipts: Vec<String> = held.iter().map(|one| one.receipt.clone()).collect();
        // One of nobody among them must not disturb the others.
        let stranger = self.plan.mischief && self.chance.u8(..100) < 5;
        if stranger {
            receipts.push(format!("nobody-{}", self.chance.u32(..)));
        }
        let begun = Instant::now();
        let mut cut = false;
        while begun.elapsed() < PATIENCE {
            let sent_ms = self.load.now_ms();
            {
                let mut check = self.load.check();
                for one in held {
                    match verb {
                        Verb::Nack => check.releasing(one.slot, one.attempts),
                        Verb::Extend(lease_ms) => {
                            check.extending(one.slot, one.attempts, lease_ms, sent_ms)
                        }
                        Verb::Ack | Verb::Reject => {}
                    }
                }
            }
            let sent = Instant::now();
            let answer = match verb {
                Verb::Ack => self.client.settle(&queue, "ack", &receipts).await,
                Verb::Nack => self.client.settle(&queue, "nack", &receipts).await,
                Verb::Reject => self.client.settle(&queue, "reject", &receipts).await,
                Verb::Extend(lease_ms) => {
                    self.client.extend(&queue, &receipts, Duration::from_millis(lease_ms)).await
                }
            };
            match answer {
                Answer::Done(answers) => {
                    self.load.took().ack.add(sent.elapsed());
                    self.tell(verb, held, &answers, repeat, cut, sent_ms);
                    return;
                }
                Answer::NotDone(_) => {}
                Answer::Unknown(_) => cut = true,
                Answer::Limited(refusal) => {
                    self.load
                        .check()
                        .found(Breach::Settle, format!("{verb:?} is refused: {refusal:?} (Q3)"));
                }
                Answer::Wrong(status, body) => {
                    self.load
                        .check()
                        .found(Breach::Settle, format!("{verb:?} is answered {status}: {body}"));
                    return;
                }
            }
            sleep(Duration::from_millis(20)).await;
        }
        self.load
            .check()
            .found(Breach::Settle, format!("{verb:?} has no definite answer for {PATIENCE:?}"));
    }

    fn tell(
        &self,
        verb: Verb,
        held: &[Held],
        answers: &[Settled],
        repeat: bool,
        cut: bool,
        sent_ms: u64,
    ) {
        let at_ms = self.load.now_ms();
        let mut check = self.load.check();
        for (one, answer) in held.iter().zip(answers) {
            // What a repetition may be told follows from what is known to be finished by this very receipt.
            let before =
                (repeat && check.finished_by(one.slot, one.attempts)).then_some(Settled::Done);
            let (slot, attempts, answer) = (one.slot, one.attempts, *answer);
            let cut = cut || (repeat && before.is_none());
            check.settled(Told { slot, attempts, verb, answer, before, cut, sent_ms, at_ms });
        }
        if let Some(answer) = answers.get(held.len()).filter(|answer| **answer != Settled::Foreign)
        {
            check.found(Breach::Settle, format!("a receipt of nobody is answered {answer:?}"));
        }
    }
}
