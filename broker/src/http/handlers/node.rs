//! The node: what it is, how it is, its limits.

use super::Call;
use crate::http::answer::Answer;
use crate::http::backend::Backend;
use crate::http::error::{Code, Problem};
use crate::http::front::Front;
use crate::http::node_view::NodeGive;
use crate::http::wire::AttentionGive;
use crate::http::{limits, metrics};
use serde_json::Value;

const INDEX: &str = "\
Plimsoll: durable work queues.

  /api/v1/queue      queues
  /api/v1/node       levels, space, memory, counters
  /api/v1/attention  what an operator should know now
  /metrics           numbers for Prometheus
  /healthz, /readyz  for probes
  /openapi.json      all routes, with their fields and errors
";

pub(super) fn index() -> Answer {
    Answer::text(200, INDEX)
}

pub(super) fn metrics<B: Backend>(front: &Front<B>) -> Answer {
    Answer::typed("text/plain; version=0.0.4; charset=utf-8", metrics::text(front))
}

pub(super) fn show<B: Backend>(front: &Front<B>) -> Answer {
    Answer::json(200, &NodeGive::of(front))
}

pub(super) fn attention<B: Backend>(front: &Front<B>) -> Answer {
    let items = front.backend.nodes().iter().flat_map(plimsoll::Node::attention);
    // Memory is one for all directories, and each node tells of it.
    let mut seen = Vec::new();
    for item in items {
        let again = |had: &plimsoll::Attention| {
            item.device.is_none() && had.device.is_none() && had.reason == item.reason
        };
        if !seen.iter().any(again) {
            seen.push(item);
        }
    }
    Answer::json(200, &AttentionGive { items: seen.iter().map(Into::into).collect() })
}

pub(super) async fn set_limits<B: Backend>(mut call: Call<'_, B>) -> Result<Answer, Problem> {
    let patch: Value = call.json().await?;
    let _one_at_a_time = call.front.limits.lock().await;
    let backend = call.front.backend.clone();
    // Locks of the pool, under which others call the disk: not on a thread of the runtime.
    let changed = tokio::task::spawn_blocking(move || limits::change(&backend, &patch));
    changed.await.unwrap_or_else(|_| {
        Err(Problem::new(
            Code::Internal,
            "a mistake in the server; the limits may have been changed",
        ))
    })
}
