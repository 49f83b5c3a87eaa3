//! Queues: declared, shown, emptied, paused, deleted.

use super::{Call, number};
use crate::api::{Declared, QueueSettings};
use crate::http::answer::Answer;
use crate::http::backend::Backend;
use crate::http::error::Problem;
use crate::http::wire::{
    ConsumersGive, DeclaredGive, ExplainedGive, PurgeAsk, QueueGive, QueuesGive,
};
use http::header::{ETAG, IF_MATCH};

type Given = Result<Answer, Problem>;

const LIST_MAX: usize = 1_000;
const LIST_DEFAULT: usize = 100;

fn etag(revision: u64) -> String {
    format!("\"{revision}\"")
}

/// The revision in `If-Match`: in quotation marks, or bare.
fn revision(text: &str) -> Result<u64, Problem> {
    let text = text.trim();
    let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let digits = !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit());
    let revision = digits.then(|| bare.parse().ok()).flatten();
    revision.ok_or_else(|| {
        Problem::invalid(format!("If-Match is {text:?}; expected one revision, as ETag has it"))
    })
}

pub(super) fn list<B: Backend>(call: &Call<'_, B>, fields: &[(&str, String)]) -> Given {
    let field = |name| fields.iter().find(|(had, _)| *had == name).map(|(_, value)| value.as_str());
    let limit = field("limit").map(|text| number("limit", text, 1, LIST_MAX)).transpose()?;
    let limit = limit.unwrap_or(LIST_DEFAULT);
    let mut queues = call.front.backend.list(field("after"), limit + 1);
    let more = queues.len() > limit;
    queues.truncate(limit);
    let last = queues.last().filter(|_| more);
    let next = last.map(|queue| queue.name.as_str().to_owned());
    Ok(Answer::json(200, &QueuesGive { queues: queues.iter().map(Into::into).collect(), next }))
}

pub(super) async fn declare<B: Backend>(mut call: Call<'_, B>) -> Given {
    let if_match = call.header(IF_MATCH.as_str())?.map(revision).transpose()?;
    let settings: QueueSettings = call.json_or_default().await?;
    settings.check().map_err(|error| Problem::invalid(error.to_string()))?;
    let name = call.queue()?;
    let declared = call.front.backend.declare(name, settings.clone(), if_match).await?;
    let status = if declared == Declared::Created { 201 } else { 200 };
    let give = DeclaredGive::new(name.as_str(), settings, declared);
    Ok(Answer::json(status, &give).with(ETAG, &etag(give.revision)))
}

pub(super) async fn show<B: Backend>(call: &Call<'_, B>) -> Given {
    let view = call.front.backend.show(call.queue()?).await?;
    Ok(Answer::json(200, &QueueGive::from(&view)).with(ETAG, &etag(view.summary.revision)))
}

pub(super) async fn delete<B: Backend>(call: &Call<'_, B>) -> Given {
    let if_match = call.header(IF_MATCH.as_str())?.map(revision).transpose()?;
    Ok(Answer::json(200, &call.front.backend.delete(call.queue()?, if_match).await?))
}

pub(super) async fn purge<B: Backend>(mut call: Call<'_, B>) -> Given {
    let ask: PurgeAsk = call.json_or_default().await?;
    Ok(Answer::json(200, &call.front.backend.purge(call.queue()?, ask.dead).await?))
}

pub(super) async fn pause<B: Backend>(call: &Call<'_, B>, paused: bool) -> Given {
    Ok(Answer::json(200, &call.front.backend.pause(call.queue()?, paused).await?))
}

pub(super) async fn explain<B: Backend>(call: &Call<'_, B>) -> Given {
    let explained = call.front.backend.explain(call.queue()?).await?;
    Ok(Answer::json(200, &ExplainedGive::from(&explained)))
}

pub(super) async fn consumers<B: Backend>(call: &Call<'_, B>) -> Given {
    let consumers = call.front.backend.consumers(call.queue()?).await?;
    let consumers = consumers.iter().map(Into::into).collect();
    Ok(Answer::json(200, &ConsumersGive { consumers }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_comes_back_as_it_was_given() {
        assert_eq!(revision(&etag(7)).unwrap(), 7);
        assert_eq!(revision(" 7 ").unwrap(), 7);
        for text in ["", "*", "\"7", "W/\"7\"", "\"7\", \"8\"", "+7", "-1", "\"\"", "x"] {
            assert_eq!(revision(text).unwrap_err().code.status(), 400, "{text}");
        }
    }
}
