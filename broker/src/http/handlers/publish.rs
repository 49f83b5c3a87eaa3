//! Publishes, of one and of many.

use super::Call;
use crate::api::{Fault, HEADERS_MAX, NewMessage, PublishAnswer};
use crate::http::answer::Answer;
use crate::http::backend::Backend;
use crate::http::body::{self, Takes};
use crate::http::error::{Code, Problem};
use crate::http::front::{Front, with_hints};
use crate::http::wire::{LinesGive, StoredGive, headers_from_json, lines, message};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use std::time::Duration;

type Given = Result<Answer, Problem>;

/// How long the refusal of a publish takes that came before it was told to.
const EARLY: Duration = Duration::from_millis(20);
/// What a refusal tells to wait where it does not say more exactly.
const HINT: Duration = Duration::from_secs(1);

pub(super) async fn publish<B: Backend>(call: Call<'_, B>) -> Given {
    let peer = call.peer;
    let given = admitted(call).await;
    let hint = match &given {
        Err(Problem { refusal: Some(refusal), .. }) => Some(refusal.retry_after),
        Ok(answer) if answer.status == StatusCode::TOO_MANY_REQUESTS => Some(HINT),
        _ => None,
    };
    // Publishers that hammer on would take the processors from those who acknowledge, and free space.
    if hint.is_some_and(|hint| peer.refused(hint)) {
        tokio::time::sleep(EARLY).await;
    }
    given
}

async fn admitted<B: Backend>(call: Call<'_, B>) -> Given {
    if call.peer.kept && call.front.are_many() {
        let message =
            "so many connections are open that this one is kept for everything but publishes";
        return Err(Problem::new(Code::Connections, message));
    }
    if call.front.is_stopping() {
        return Err(Problem::stopping());
    }
    call.check_body()?;
    let media = call.header(CONTENT_TYPE.as_str())?.map(|media| {
        let essence = media.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("application/x-ndjson")
    });
    if media == Some(true) { many(call).await } else { one(call).await }
}

/// A message without its payload, from the headers.
fn message<B: Backend>(call: &Call<'_, B>) -> Result<NewMessage, Problem> {
    let text =
        |name| -> Result<Option<String>, Problem> { Ok(call.header(name)?.map(str::to_owned)) };
    let key = text("idempotency-key")?;
    if let Some(key) = &key {
        message::check_key(key).map_err(Problem::invalid)?;
    }
    let headers = call.header("plimsoll-headers")?.map(|text| headers_from_json(text.as_bytes()));
    let message = NewMessage {
        payload: bytes::Bytes::new(),
        headers: headers.transpose()?.unwrap_or_default(),
        content_type: text(CONTENT_TYPE.as_str())?,
        correlation_id: text("plimsoll-correlation-id")?,
        key,
    };
    let (len, max) = (message.headers_size() as u64, HEADERS_MAX as u64);
    if len > max {
        return Err(Fault::HeadersTooLarge { len, max }.into());
    }
    Ok(message)
}

async fn one<B: Backend>(call: Call<'_, B>) -> Given {
    let mut message = message(&call)?;
    let Front { budget, timers, backend, .. } = call.front;
    let (payload, hold) = body::read(call.body, Takes::Payload, budget, timers).await?;
    message.payload = payload;
    let name = call.queue.as_ref().ok_or_else(no_queue)?;
    let answers = backend.publish(name, vec![message], hold).await?;
    let stored = answers.into_iter().next().ok_or_else(no_answer)??;
    let status = if stored.duplicate { 200 } else { 201 };
    Ok(Answer::json(status, &StoredGive::from(&stored)))
}

fn no_queue() -> Problem {
    Problem::new(Code::NotFound, "the path names no queue")
}

fn no_answer() -> Problem {
    Problem::new(Code::Internal, "the broker gave no answer; the message may have been stored")
}

async fn many<B: Backend>(call: Call<'_, B>) -> Given {
    // Passed over in silence, a client would repeat what it holds for safe to repeat.
    for name in ["idempotency-key", "plimsoll-headers", "plimsoll-correlation-id"] {
        if call.header(name)?.is_some() {
            let said = format!("{name}: of one message; with lines it is a field of each");
            return Err(Problem::invalid(said));
        }
    }
    let Front { budget, timers, backend, .. } = call.front;
    let (body, hold) = body::read(call.body, Takes::Lines, budget, timers).await?;
    let messages = lines(&body)?;
    drop(body);
    let name = call.queue.as_ref().ok_or_else(no_queue)?;
    let count = messages.len();
    let answers = backend.publish(name, messages, hold).await?;
    if answers.len() != count {
        return Err(no_answer());
    }
    Ok(summary(&answers, call.id))
}

/// The status is the one that all lines share, 200 where all are stored, else 207.
fn summary(answers: &[PublishAnswer], id: &str) -> Answer {
    let results = answers.iter().map(Into::into).collect();
    let faults: Vec<&Fault> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    let longest = faults.iter().map(|fault| Problem::from(*fault));
    let longest = longest.max_by_key(|problem| problem.refusal.map(|refusal| refusal.retry_after));
    let Some(longest) = longest else {
        return Answer::json(200, &LinesGive { results, problem: None });
    };
    let same = |fault: &&Fault| fault.kind().status() == longest.code.status();
    if faults.len() < answers.len() || !faults.iter().all(same) {
        return with_hints(Answer::json(207, &LinesGive { results, problem: None }), &longest);
    }
    // The first one says why; the others were refused with it.
    let first = faults.first().map_or_else(|| longest.clone(), |fault| Problem::from(*fault));
    let problem = Some(first.body(id));
    with_hints(Answer::json(first.code.status(), &LinesGive { results, problem }), &longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Published, Seq};
    use http::header::RETRY_AFTER;
    use plimsoll::{Level, LimitReason, Limited, WriteClass};
    use serde_json::Value;

    fn stored(seq: u64) -> PublishAnswer {
        Ok(Published { seq: Seq(seq), bytes: 1, duplicate: false })
    }

    fn refused(millis: u64) -> PublishAnswer {
        let (class, level) = (WriteClass::Publish, Level::Hard);
        let hint = Duration::from_millis(millis);
        Err(Limited::new(LimitReason::Disk, class, level, hint, "it is full").into())
    }

    fn answered(answers: &[PublishAnswer]) -> (u16, Option<String>, Value) {
        let answer = summary(answers, "r1");
        let hint = answer.headers.get(RETRY_AFTER).map(|hint| hint.to_str().unwrap().to_owned());
        (answer.status.as_u16(), hint, serde_json::from_slice(&answer.body).unwrap())
    }

    #[test]
    fn lines_are_answered_one_by_one_and_together() {
        let (status, hint, body) = answered(&[stored(1), stored(2)]);
        assert_eq!((status, hint), (200, None));
        let first = serde_json::json!({ "status": 201, "id": "1", "bytes": 1, "duplicate": false });
        assert_eq!(body["results"][0], first);
        let (status, hint, body) = answered(&[stored(1), refused(1_500), refused(2_500)]);
        assert_eq!((status, hint.as_deref()), (207, Some("3")));
        let line = &body["results"][1];
        assert_eq!((&line["status"], &line["code"]), (&429.into(), &"ERR_LIMITED".into()));
        assert_eq!((&line["error"], &line["reason"]), (&"ERR_LIMITED".into(), &"disk".into()));
        assert_eq!(line["retry_after_ms"], 1_500);
        let (status, hint, body) = answered(&[refused(200), refused(10)]);
        assert_eq!((status, hint.as_deref()), (429, Some("1")));
        assert_eq!((&body["reason"], &body["results"][1]["status"]), (&"disk".into(), &429.into()));
        let unknown = || Err(Fault::Unknown("the disk failed".into()));
        assert_eq!(answered(&[unknown(), unknown()]).0, 504);
        assert_eq!(answered(&[unknown(), refused(1)]).0, 207);
    }
}
