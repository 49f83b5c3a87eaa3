//! What can be seen of a queue, and why its users wait.

use super::Owner;
use super::command::Answer;
use crate::api::{
    Consumer, Explained, Fault, QueueId, QueueSummary, QueueView, Receive, Seq, Waits, Why,
};
use plimsoll::WriteClass;
use plimsoll::permit::Decision;
use std::time::Duration;

impl Owner {
    pub(super) fn show(&self, queue: QueueId, answer: Answer<QueueView>) {
        let _ = answer.send(self.view(queue).ok_or_else(|| self.no_queue(queue)));
    }

    fn view(&self, queue: QueueId) -> Option<QueueView> {
        let (state, runtime) = (self.state.queue(queue)?, self.queues.get(&queue)?);
        let logs = runtime.lanes.values().filter_map(|lane| lane.open());
        let meta = &runtime.meta;
        Some(QueueView {
            summary: QueueSummary {
                name: meta.name.clone(),
                revision: meta.revision,
                counts: state.counts(),
                paused: state.paused(),
            },
            settings: meta.settings.clone(),
            bytes: state.bytes(),
            bytes_on_disk: logs.map(|log| log.bytes().on_disk).sum(),
            next_seq: self.next_seq.get(&queue).copied().unwrap_or(Seq(1)).0,
            waiting: runtime.waiters.len() as u64,
            published: runtime.published,
            delivered: runtime.delivered,
            acked: runtime.acked,
        })
    }

    pub(super) fn consumers(&self, queue: QueueId, answer: Answer<Vec<Consumer>>) {
        let (Some(state), Some(runtime)) = (self.state.queue(queue), self.queues.get(&queue))
        else {
            let _ = answer.send(Err(self.no_queue(queue)));
            return;
        };
        let now = self.time.elapsed();
        let mut consumers: Vec<Consumer> = Vec::with_capacity(runtime.consumers.len());
        for (name, last) in &runtime.consumers {
            let waiting = runtime.waiters.iter().filter(|waiter| {
                waiter.ask.consumer.as_ref().map(crate::name::ConsumerName::as_str)
                    == name.as_deref()
            });
            let known = name.as_deref().and_then(|name| crate::name::ConsumerName::new(name).ok());
            consumers.push(Consumer {
                name: name.clone(),
                in_flight: state.in_flight_of(known.as_ref()),
                waiting: waiting.count() as u64,
                idle: now.saturating_sub(*last),
            });
        }
        consumers.sort_by_key(|consumer| consumer.idle);
        let _ = answer.send(Ok(consumers));
    }

    /// Asks what a publish and a receive would be told now (Q7). Takes nothing, but counts as one decision of admission's.
    pub(super) fn explain(&mut self, queue: QueueId, answer: Answer<Explained>) {
        let explained = self.explained(queue).ok_or_else(|| self.no_queue(queue));
        let _ = answer.send(explained);
    }

    fn explained(&self, queue: QueueId) -> Option<Explained> {
        let (state, runtime) = (self.state.queue(queue)?, self.queues.get(&queue)?);
        let mut explained = Explained::default();
        let lane = runtime.lanes.values().find_map(|lane| lane.open());
        match lane.unwrap_or(self.journal.log()).admit(WriteClass::Publish, 1) {
            Decision::Admit(_) => {}
            Decision::Delay { wait, .. } => explained.publish.push(Waits {
                reason: "delayed",
                detail: "space or memory runs short: publishes are slowed".to_owned(),
                ends_in: Some(wait),
            }),
            Decision::Refuse(limited) => explained.publish.push(Waits {
                reason: limited.reason.name(),
                detail: limited.to_string(),
                ends_in: Some(limited.retry_after),
            }),
        }
        let (counts, settings) = (state.counts(), &runtime.meta.settings);
        if settings.max_queue_depth > 0 && counts.depth() >= settings.max_queue_depth {
            explained.publish.push(Waits {
                reason: "queue_full",
                detail: format!(
                    "{} messages of at most {} (max_queue_depth)",
                    counts.depth(),
                    settings.max_queue_depth
                ),
                ends_in: None,
            });
        }
        if let Some(why) = runtime.lanes.values().find_map(|lane| lane.open()?.stopped()) {
            explained.publish.push(Waits {
                reason: "storage",
                detail: why.to_string(),
                ends_in: None,
            });
        }
        let ask = Receive {
            max: 1,
            wait: Duration::ZERO,
            lease: None,
            consumer: None,
            concurrency: None,
        };
        explained.would = self.allowed(queue, &ask).err();
        if let Some((why, _)) = &runtime.unreadable {
            explained.receive.push(Waits {
                reason: "unreadable",
                detail: why.clone(),
                ends_in: None,
            });
        }
        match explained.would {
            Some(why) => explained.receive.push(Waits {
                reason: why.name(),
                detail: sentence(why, &counts, settings.max_in_flight),
                ends_in: self.ends_in(queue, why),
            }),
            None if runtime.waiters.is_empty()
                && counts.ready > 0
                && runtime.unreadable.is_none() =>
            {
                explained.receive.push(Waits {
                    reason: "no_consumer",
                    detail: format!("nobody asks for what is ready ({})", counts.ready),
                    ends_in: None,
                })
            }
            None => {}
        }
        Some(explained)
    }

    /// When the next lease ends, where that would help.
    fn ends_in(&self, queue: QueueId, why: Why) -> Option<Duration> {
        match why {
            Why::Empty | Why::InFlightCap | Why::Concurrency => {
                let deadline = self.state.queue(queue)?.next_deadline()?;
                Some(Duration::from_millis(deadline.saturating_sub(self.time.boot_ms())))
            }
            Why::Paused | Why::NodeInFlightCap | Why::Storage => None,
        }
    }

    /// Receivers of a broker that stops are told so, and publishes that wait for a log too.
    pub(super) fn turn_away(&mut self) {
        let fault = Fault::Unavailable("the broker is stopping".into());
        let jobs = std::mem::take(&mut self.waiting_keys).into_values().flatten();
        for job in jobs.chain(std::mem::take(&mut self.woken)) {
            job.refuse(&fault);
        }
        for runtime in self.queues.values_mut() {
            for waiter in runtime.waiters.drain(..) {
                let _ = waiter.answer.send(Err(fault.clone()));
            }
            for job in runtime.jobs.drain(..) {
                job.refuse(&fault);
            }
        }
    }
}

fn sentence(why: Why, counts: &crate::api::Counts, max_in_flight: u32) -> String {
    match why {
        Why::Empty if counts.in_flight > 0 => {
            format!(
                "no message is ready; {} are in flight and come back when their leases end",
                counts.in_flight
            )
        }
        Why::Empty => "there is no message".to_owned(),
        Why::Paused => "the queue is paused until it is resumed".to_owned(),
        Why::InFlightCap => {
            format!("{} are in flight of at most {max_in_flight} (max_in_flight)", counts.in_flight)
        }
        Why::NodeInFlightCap => "as many messages are in flight as the broker allows".to_owned(),
        Why::Concurrency => "this consumer holds as many as it asked for".to_owned(),
        Why::Storage => "deliveries cannot be written: the disk takes nothing".to_owned(),
    }
}
