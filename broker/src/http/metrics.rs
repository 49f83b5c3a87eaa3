//! Numbers for Prometheus, in its text format 0.0.4.

use super::backend::Backend;
use super::front::Front;
use plimsoll::{LimitReason, WriteClass};
use std::fmt::{Display, Write};

/// Queues with numbers of their own; the rest is counted.
const QUEUES_MAX: usize = 1_000;

#[derive(Debug, Default)]
struct Text(String);

/// A label's value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = write!(self.0, "# HELP plimsoll_{name} {help}\n# TYPE plimsoll_{name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels = labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        let _ = writeln!(self.0, "plimsoll_{name}{labels} {value}");
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}

/// All of it. Reads memory, under locks that others hold for a moment.
pub(super) fn text<B: Backend>(front: &Front<B>) -> String {
    let mut text = Text::default();
    storage(&mut text, &front.backend);
    broker(&mut text, &front.backend);
    text.single("http_connections", "gauge", "Connections now.", front.connections());
    let free = front.budget.free();
    let help = "Bytes that bodies of publishes may still take.";
    text.single("http_body_budget_free_bytes", "gauge", help, free);
    text.single("http_body_budget_bytes", "gauge", "All bytes of that budget.", front.budget.max());
    text.0
}

fn storage(text: &mut Text, backend: &impl Backend) {
    let pressures: Vec<_> = backend.nodes().iter().map(plimsoll::Node::pressure).collect();
    let disks = || pressures.iter().flat_map(|pressure| &pressure.disks);
    let mut of_disks =
        |name: &str, help: &str, value: &dyn Fn(&plimsoll::pressure::DiskReading) -> u64| {
            text.family(name, "gauge", help);
            for disk in disks() {
                let dir =
                    disk.dirs.first().map_or_else(String::new, |dir| dir.display().to_string());
                text.sample(name, &[("dir", &dir)], value(disk));
            }
        };
    let help = "0 ok, 1 soft (publishes slowed), 2 hard (publishes refused), 3 reserve.";
    of_disks("disk_level", help, &|disk| disk.level as u64);
    of_disks("disk_total_bytes", "Size of the device.", &|disk| disk.total);
    of_disks("disk_free_bytes", "Free, with spares that can be released.", &|disk| disk.free);
    of_disks("disk_spare_bytes", "Spares that can be released.", &|disk| disk.reclaimable);
    of_disks("disk_soft_bytes", "Publishes are slowed below.", &|disk| disk.thresholds.soft);
    of_disks("disk_hard_bytes", "Publishes are refused below.", &|disk| disk.thresholds.hard);
    of_disks("disk_reserve_bytes", "Catch-up is refused below.", &|disk| disk.thresholds.reserve);
    if let Some(pressure) = pressures.first() {
        let memory = &pressure.memory;
        text.single("memory_level", "gauge", "As plimsoll_disk_level.", memory.level as u8);
        text.single("memory_used_bytes", "gauge", "In use, not reclaimable.", memory.used);
        text.single("memory_limit_bytes", "gauge", "The limit that binds.", memory.limit);
    }
    let stats: Vec<_> = backend.nodes().iter().map(plimsoll::Node::stats).collect();
    let dir = |at: usize| {
        let pool = stats.get(at).and_then(|stats| stats.pools.first());
        let dir = pool.and_then(|pool| pool.dir.parent().map(|dir| dir.display().to_string()));
        dir.unwrap_or_default()
    };
    let mut of_reasons = |name: &str, help: &str, refused: bool| {
        text.family(name, "counter", help);
        for (at, stats) in stats.iter().enumerate() {
            let publish = &stats.admission.classes[WriteClass::Publish as usize];
            let counts = if refused { publish.refused } else { publish.delayed };
            for (reason, count) in LimitReason::ALL.into_iter().zip(counts) {
                if reason != LimitReason::QueueFull {
                    let labels = [("dir", dir(at)), ("reason", reason.name().to_owned())];
                    text.sample(name, &labels.each_ref().map(|(l, v)| (*l, v.as_str())), count);
                }
            }
        }
    };
    of_reasons("publishes_delayed_total", "Publishes that waited for space or memory.", false);
    of_reasons("publishes_refused_total", "Publishes refused for space or memory.", true);
}

fn broker(text: &mut Text, backend: &impl Backend) {
    let stats = backend.stats();
    for (name, help, value) in [
        ("published_total", "Confirmed publishes.", stats.published),
        ("duplicates_total", "Publishes answered from their key.", stats.duplicates),
        ("queue_full_total", "Publishes refused because a queue was full.", stats.queue_full),
        ("delivered_total", "Deliveries.", stats.delivered),
        ("undone_total", "Deliveries that never reached their receiver.", stats.undone),
        ("acked_total", "Acknowledged messages.", stats.acked),
        ("expired_total", "Leases that ended.", stats.expired),
        ("dead_total", "Messages given up or rejected.", stats.dead),
        ("marks_dropped_total", "Idempotency marks dropped for want of room.", stats.marks_dropped),
        ("reloads_total", "Shards loaded again because their event log failed.", stats.reloads),
    ] {
        text.single(name, "counter", help, value);
    }
    text.single("in_flight", "gauge", "Messages in flight.", stats.in_flight);
    text.single("marks", "gauge", "Idempotency marks held.", stats.marks);
    text.single("queues", "gauge", "Queues.", stats.queues);
    let queues = backend.list(None, QUEUES_MAX);
    let left_out = stats.queues.saturating_sub(queues.len() as u64);
    let help = "Queues without numbers of their own here: the first 1,000 by name have them.";
    text.single("queues_left_out", "gauge", help, left_out);
    let mut of_queues =
        |name: &str, help: &str, value: &dyn Fn(&crate::api::QueueSummary) -> u64| {
            text.family(name, "gauge", help);
            for queue in &queues {
                text.sample(name, &[("queue", queue.name.as_str())], value(queue));
            }
        };
    of_queues("queue_ready", "Messages that wait for delivery.", &|queue| queue.counts.ready);
    of_queues("queue_in_flight", "Messages in flight.", &|queue| queue.counts.in_flight);
    of_queues("queue_dead", "Dead messages.", &|queue| queue.counts.dead);
    of_queues("queue_paused", "1 while it is paused.", &|queue| u64::from(queue.paused));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_break_out_of_its_label() {
        let mut text = Text::default();
        text.sample("queue_ready", &[("queue", "a\"} 9\nb\\"), ("x", "y")], 1);
        let whole = r#"plimsoll_queue_ready{queue="a\"} 9\nb\\",x="y"} 1"#;
        assert_eq!(text.0, format!("{whole}\n"));
    }
}
