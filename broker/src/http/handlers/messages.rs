//! Messages: received, settled, looked at.

use super::{Call, number};
use crate::api::{
    Fault, LEASE_MAX, LEASE_MIN, RECEIVE_MAX, Receive, SETTLE_MAX, Settled, Verb, WAIT_MAX,
};
use crate::http::answer::Answer;
use crate::http::backend::{Backend, Got};
use crate::http::budget::{Hold, Purse};
use crate::http::error::{Code, Problem};
use crate::http::front::Front;
use crate::http::wire::{
    ExtendAsk, MessagesGive, ReceiveAsk, ReceivedGive, ResultGive, ResultsGive, SettleAsk, millis,
};
use crate::name::ConsumerName;
use std::time::Duration;
use tokio::time::timeout;

type Given = Result<Answer, Problem>;

pub(super) async fn peek<B: Backend>(call: &Call<'_, B>, fields: &[(&str, String)]) -> Given {
    let max = fields.first().map(|(name, text)| number(name, text, 1, RECEIVE_MAX)).transpose()?;
    let messages = call.front.backend.peek(call.queue()?, max.unwrap_or(1)).await?;
    let give = MessagesGive { messages: messages.iter().map(Into::into).collect() };
    let answer = Answer::json(200, &give);
    drop(messages);
    let hold = room(call.front, answer.body.len()).await?;
    Ok(Answer { hold, ..answer })
}

/// Memory for messages on their way to a client: those of clients that take nothing are bounded together, and each by the
/// time that it may take. Waits for them a little.
async fn room<B: Backend>(front: &Front<B>, bytes: usize) -> Result<Hold, Problem> {
    // What it really takes: JSON makes up to two bytes of one.
    let bytes = bytes as u64;
    let mut hold = Hold::default();
    let covered = front.budget.cover(Purse::Answers, &mut hold, bytes);
    match timeout(front.timers.room, covered).await {
        Ok(true) => Ok(hold),
        Ok(false) | Err(_) => {
            let said = "answers that other clients do not take fill the memory for them";
            Err(Fault::Unavailable(said.into()).into())
        }
    }
}

fn bounded(
    field: &str,
    millis_asked: u64,
    min: Duration,
    max: Duration,
) -> Result<Duration, Problem> {
    let asked = Duration::from_millis(millis_asked);
    if (min..=max).contains(&asked) {
        return Ok(asked);
    }
    let (min, max) = (millis(min), millis(max));
    Err(Problem::invalid(format!("{field} is {millis_asked}; {min} to {max} are allowed")))
}

fn lease(millis: u64) -> Result<Duration, Problem> {
    bounded("lease_ms", millis, LEASE_MIN, LEASE_MAX)
}

impl TryFrom<ReceiveAsk> for Receive {
    type Error = Problem;

    fn try_from(ask: ReceiveAsk) -> Result<Self, Problem> {
        let max = ask.max.unwrap_or(1);
        if !(1..=RECEIVE_MAX).contains(&max) {
            return Err(Problem::invalid(format!("max is {max}; 1 to {RECEIVE_MAX} are allowed")));
        }
        let consumer = ask.consumer.as_deref().map(ConsumerName::new).transpose();
        let consumer = consumer.map_err(Fault::Name)?;
        if ask.concurrency.is_some() && consumer.is_none() {
            return Err(Problem::invalid("concurrency needs consumer: it is counted by name"));
        }
        if ask.concurrency == Some(0) {
            return Err(Problem::invalid("concurrency is 0; at least 1 is needed"));
        }
        let wait = bounded("wait_ms", ask.wait_ms, Duration::ZERO, WAIT_MAX)?;
        let lease = ask.lease_ms.map(lease).transpose()?;
        Ok(Self { max, wait, lease, consumer, concurrency: ask.concurrency })
    }
}

pub(super) async fn receive<B: Backend>(mut call: Call<'_, B>) -> Given {
    let ask: ReceiveAsk = call.json_or_default().await?;
    let ask = Receive::try_from(ask)?;
    let front = call.front;
    let Got { messages, why, hand_off } = tokio::select! {
        biased;
        got = front.backend.receive(call.queue()?, ask) => got?,
        // Who waits for messages would hold the end up.
        () = front.stopped() => return Err(Problem::stopping()),
    };
    let give = ReceivedGive { messages: messages.iter().map(Into::into).collect(), reason: why };
    let answer = Answer::json(200, &give);
    drop(messages);
    // If there is none the hand-off goes, and the messages to somebody else.
    let hold = room(front, answer.body.len()).await?;
    Ok(Answer { hand_off: Some(hand_off), hold, ..answer })
}

/// Receipts of one request, and whether it is a single one.
fn receipts(
    many: Option<Vec<String>>,
    one: Option<String>,
) -> Result<(Vec<String>, bool), Problem> {
    match (many, one) {
        (Some(many), None) if (1..=SETTLE_MAX).contains(&many.len()) => Ok((many, false)),
        (Some(many), None) => {
            let len = many.len();
            Err(Problem::invalid(format!("{len} receipts; 1 to {SETTLE_MAX} are allowed")))
        }
        (None, Some(one)) => Ok((vec![one], true)),
        _ => Err(Problem::invalid("one of receipts and receipt is needed")),
    }
}

pub(super) async fn settle<B: Backend>(mut call: Call<'_, B>, verb: Verb) -> Given {
    let SettleAsk { receipts: many, receipt: one } = call.json().await?;
    let (receipts, single) = receipts(many, one)?;
    settled(&call, verb, receipts, single).await
}

pub(super) async fn extend<B: Backend>(mut call: Call<'_, B>) -> Given {
    let ExtendAsk { receipts: many, receipt: one, lease_ms } = call.json().await?;
    let (receipts, single) = receipts(many, one)?;
    settled(&call, Verb::Extend(lease(lease_ms)?), receipts, single).await
}

async fn settled<B: Backend>(
    call: &Call<'_, B>,
    verb: Verb,
    receipts: Vec<String>,
    single: bool,
) -> Given {
    let results = call.front.backend.settle(call.queue()?, verb, receipts).await?;
    match results.first() {
        Some(Settled::Gone) if single => Err(Problem::new(
            Code::Gone,
            "the message was delivered again since, or is finished in another way",
        )),
        Some(Settled::Foreign) if single => {
            Err(Problem::new(Code::ReceiptForeign, "this is no receipt of this queue"))
        }
        Some(result) if single => Ok(Answer::json(200, &ResultGive { result: *result })),
        _ => Ok(Answer::json(200, &ResultsGive { results })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn ask(value: Value) -> Result<Receive, u16> {
        let ask: ReceiveAsk = serde_json::from_value(value).map_err(|_| 400u16)?;
        Receive::try_from(ask).map_err(|problem| problem.code.status())
    }

    #[test]
    fn a_receive_is_held_to_its_bounds() {
        let plain = ask(json!({})).unwrap();
        assert_eq!((plain.max, plain.wait, plain.lease), (1, Duration::ZERO, None));
        let all = json!({
            "max": 32, "wait_ms": 60_000, "lease_ms": 100, "consumer": "a", "concurrency": 5,
        });
        let all = ask(all).unwrap();
        assert_eq!((all.max, all.wait, all.concurrency), (32, WAIT_MAX, Some(5)));
        for wrong in [
            json!({ "max": 0 }),
            json!({ "max": 33 }),
            json!({ "max": -1 }),
            json!({ "wait_ms": 60_001 }),
            json!({ "lease_ms": 99 }),
            json!({ "lease_ms": 43_200_001 }),
            json!({ "concurrency": 1 }),
            json!({ "consumer": "a", "concurrency": 0 }),
            json!({ "consumer": "" }),
            json!({ "wait": 1 }),
        ] {
            assert_eq!(ask(wrong.clone()).map(drop), Err(400), "{wrong}");
        }
    }

    #[test]
    fn receipts_come_in_one_way_and_are_bounded() {
        let some = |len| Some(vec![String::new(); len]);
        let one = || Some(String::new());
        assert_eq!(receipts(some(1_000), None).unwrap().0.len(), 1_000);
        assert!(receipts(None, one()).unwrap().1);
        for (many, one) in [(some(0), None), (some(1_001), None), (None, None), (some(1), one())] {
            assert_eq!(receipts(many, one).unwrap_err().code.status(), 400);
        }
    }
}
