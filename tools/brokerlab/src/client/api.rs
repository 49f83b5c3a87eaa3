//! The calls of the broker, with answers that are definite: done, refused, not done, not known, or wrong.

use super::conn::{Ask, Conn, Fail, Reply};
use super::wire::{Message, Messages, Refusal, Settled, Stored};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use hyper::Method;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// What became of a call.
#[derive(Clone, Debug)]
pub enum Answer<T> {
    /// Done.
    Done(T),
    /// Refused with 429: nothing was applied.
    Limited(Refusal),
    /// Not done: 503, or it was never sent.
    NotDone(String),
    /// Perhaps done: 504, or the connection was cut.
    Unknown(String),
    /// Any other status, with the body; or an answer that cannot be read.
    Wrong(u16, String),
}

impl<T> Answer<T> {
    /// What was done; all else is an error.
    ///
    /// # Errors
    /// It was not done.
    pub fn done(self) -> anyhow::Result<T> {
        match self {
            Self::Done(value) => Ok(value),
            Self::Limited(refusal) => anyhow::bail!("refused: {refusal:?}"),
            Self::NotDone(why) => anyhow::bail!("not done: {why}"),
            Self::Unknown(why) => anyhow::bail!("not known: {why}"),
            Self::Wrong(status, body) => anyhow::bail!("status {status}: {body}"),
        }
    }

    /// It was never applied.
    #[must_use]
    pub fn refused(&self) -> bool {
        matches!(self, Self::Limited(_) | Self::NotDone(_))
    }

    fn map<U>(self, with: impl FnOnce(T) -> Answer<U>) -> Answer<U> {
        match self {
            Self::Done(value) => with(value),
            Self::Limited(refusal) => Answer::Limited(refusal),
            Self::NotDone(why) => Answer::NotDone(why),
            Self::Unknown(why) => Answer::Unknown(why),
            Self::Wrong(status, body) => Answer::Wrong(status, body),
        }
    }
}

/// One message of a publish.
#[derive(Clone, Debug)]
pub struct Publish {
    /// Its bytes.
    pub payload: Bytes,
    /// Its idempotency key.
    pub key: Option<String>,
}

/// A receive.
#[derive(Clone, Debug)]
pub struct Receive {
    /// At most so many.
    pub max: usize,
    /// How long to wait.
    pub wait: Duration,
    /// How long they are leased.
    pub lease: Option<Duration>,
    /// Who asks.
    pub consumer: Option<String>,
    /// The most that it wants in flight.
    pub concurrency: Option<u32>,
}

impl Receive {
    /// At most so many, without waiting, with the queue's lease.
    #[must_use]
    pub fn now(max: usize) -> Self {
        Self { max, wait: Duration::ZERO, lease: None, consumer: None, concurrency: None }
    }

    /// Its body.
    #[must_use]
    pub fn body(&self) -> Bytes {
        let mut body = Map::new();
        body.insert("max".into(), json!(self.max));
        body.insert("wait_ms".into(), millis(self.wait));
        if let Some(lease) = self.lease {
            body.insert("lease_ms".into(), millis(lease));
        }
        if let Some(consumer) = &self.consumer {
            body.insert("consumer".into(), json!(consumer));
        }
        if let Some(concurrency) = self.concurrency {
            body.insert("concurrency".into(), json!(concurrency));
        }
        Value::Object(body).to_string().into()
    }
}

fn millis(time: Duration) -> Value {
    json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// The calls over one connection.
#[derive(Debug)]
pub struct Client {
    /// The connection.
    pub conn: Conn,
}

impl Client {
    /// Over a connection of its own.
    #[must_use]
    pub fn new(addr: SocketAddr, wire: super::Wire) -> Self {
        Self { conn: Conn::new(addr, wire) }
    }

    /// Another over the same HTTP/2 connection.
    ///
    /// # Errors
    /// It cannot be opened.
    pub async fn share(&mut self) -> Result<Self, Fail> {
        Ok(Self { conn: self.conn.share().await? })
    }

    /// Any request.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn raw(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Bytes,
    ) -> Result<Reply, Fail> {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.conn.call(&Ask { method, path: path.to_owned(), headers, body }).await
    }

    async fn json(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Bytes,
    ) -> Answer<(u16, Value)> {
        let reply = match self.raw(method, path, headers, body).await {
            Ok(reply) => reply,
            Err(Fail::NotSent(why)) => return Answer::NotDone(why),
            Err(Fail::Cut(why)) => return Answer::Unknown(why),
        };
        let text = || String::from_utf8_lossy(&reply.body).into_owned();
        match reply.status {
            200..=299 if reply.body.is_empty() => Answer::Done((reply.status, Value::Null)),
            200..=299 => match serde_json::from_slice(&reply.body) {
                Ok(value) => Answer::Done((reply.status, value)),
                Err(error) => Answer::Wrong(reply.status, format!("{error}: {}", text())),
            },
            429 => match serde_json::from_slice::<Value>(&reply.body) {
                Ok(value) if value.get("results").is_some() => Answer::Done((429, value)),
                Ok(value) => {
                    let header = reply.headers.get("retry-after");
                    let header =
                        header.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
                    // A refusal of a whole request must have the header; its absence is a fault of the hint.
                    Answer::Limited(refusal(&value, Some(header.unwrap_or_default())))
                }
                Err(error) => Answer::Wrong(429, format!("{error}: {}", text())),
            },
            503 => Answer::NotDone(text()),
            504 => Answer::Unknown(text()),
            status => Answer::Wrong(status, text()),
        }
    }

    async fn post(&mut self, queue: &str, verb: &str, body: Bytes) -> Answer<Value> {
        let path = format!("/api/v1/queue/{queue}/{verb}");
        let kind = [("content-type", "application/json")];
        self.json(Method::POST, &path, &kind, body).await.map(|(_, value)| Answer::Done(value))
    }

    /// Declares; the status.
    pub async fn declare(&mut self, queue: &str, settings: &Value) -> Answer<u16> {
        let path = format!("/api/v1/queue/{queue}");
        let kind = [("content-type", "application/json")];
        let body = settings.to_string().into();
        self.json(Method::PUT, &path, &kind, body).await.map(|(status, _)| Answer::Done(status))
    }

    /// All that is to be seen of a queue.
    pub async fn show(&mut self, queue: &str) -> Answer<Value> {
        self.get(&format!("/api/v1/queue/{queue}")).await
    }

    /// A GET with a JSON answer.
    pub async fn get(&mut self, path: &str) -> Answer<Value> {
        self.json(Method::GET, path, &[], Bytes::new()).await.map(|(_, value)| Answer::Done(value))
    }

    /// Deletes a queue.
    pub async fn delete(&mut self, queue: &str) -> Answer<Value> {
        let path = format!("/api/v1/queue/{queue}");
        self.json(Method::DELETE, &path, &[], Bytes::new())
            .await
            .map(|(_, value)| Answer::Done(value))
    }

    /// Publishes one message as a raw body.
    pub async fn publish(&mut self, queue: &str, message: &Publish) -> Answer<Stored> {
        let path = format!("/api/v1/queue/{queue}/messages");
        // No content type: it is a part of the content that a key stands for, and lines have none either.
        let mut headers: Vec<(&'static str, &str)> = Vec::new();
        if let Some(key) = &message.key {
            headers.push(("idempotency-key", key));
        }
        let answer = self.json(Method::POST, &path, &headers, message.payload.clone()).await;
        answer.map(|(status, value)| match stored(&value) {
            Some(stored) => Answer::Done(stored),
            None => Answer::Wrong(status, value.to_string()),
        })
    }

    /// Publishes many as NDJSON: an answer for each.
    pub async fn publish_many(
        &mut self,
        queue: &str,
        messages: &[Publish],
    ) -> Answer<Vec<Answer<Stored>>> {
        let path = format!("/api/v1/queue/{queue}/messages");
        let kind = [("content-type", "application/x-ndjson")];
        let answer = self.json(Method::POST, &path, &kind, lines(messages)).await;
        answer.map(|(status, value)| {
            let results = value.get("results").and_then(Value::as_array);
            match results.filter(|results| results.len() == messages.len()) {
                Some(results) => match batch_fault(status, results) {
                    None => Answer::Done(results.iter().map(line).collect()),
                    Some(fault) => Answer::Wrong(status, fault),
                },
                None => Answer::Wrong(status, value.to_string()),
            }
        })
    }

    /// Receives; messages, and the reason if there is none.
    pub async fn receive(
        &mut self,
        queue: &str,
        ask: &Receive,
    ) -> Answer<(Vec<Message>, Option<String>)> {
        self.post(queue, "receive", ask.body()).await.map(messages)
    }

    /// Peeks.
    pub async fn peek(&mut self, queue: &str) -> Answer<Vec<Message>> {
        let answer = self.get(&format!("/api/v1/queue/{queue}/messages")).await;
        answer.map(messages).map(|(messages, _)| Answer::Done(messages))
    }

    /// Settles receipts: `ack`, `nack` or `reject`.
    pub async fn settle(
        &mut self,
        queue: &str,
        verb: &str,
        receipts: &[String],
    ) -> Answer<Vec<Settled>> {
        let body = json!({ "receipts": receipts }).to_string().into();
        self.post(queue, verb, body).await.map(|value| settled(&value, receipts.len()))
    }

    /// Extends leases.
    pub async fn extend(
        &mut self,
        queue: &str,
        receipts: &[String],
        lease: Duration,
    ) -> Answer<Vec<Settled>> {
        let body = json!({ "receipts": receipts, "lease_ms": millis(lease) }).to_string().into();
        self.post(queue, "extend", body).await.map(|value| settled(&value, receipts.len()))
    }

    /// Purge, pause or resume.
    pub async fn command(&mut self, queue: &str, verb: &str) -> Answer<Value> {
        self.post(queue, verb, Bytes::new()).await
    }

    /// The status of a GET.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn status(&mut self, path: &str) -> Result<u16, Fail> {
        Ok(self.raw(Method::GET, path, &[], Bytes::new()).await?.status)
    }
}

/// Lines of NDJSON; text where the payload is text, base64 where it is not.
fn lines(messages: &[Publish]) -> Bytes {
    let mut body = String::new();
    for message in messages {
        let mut line = Map::new();
        match std::str::from_utf8(&message.payload) {
            Ok(text) => line.insert("payload".into(), json!(text)),
            Err(_) => {
                let text = BASE64_STANDARD.encode(&message.payload);
                line.insert("payload_base64".into(), json!(text))
            }
        };
        if let Some(key) = &message.key {
            line.insert("idempotency_key".into(), json!(key));
        }
        body.push_str(&Value::Object(line).to_string());
        body.push('\n');
    }
    body.into()
}

fn stored(value: &Value) -> Option<Stored> {
    let id = value.get("id")?.as_str()?.parse().ok()?;
    let duplicate = value.get("duplicate").and_then(Value::as_bool).unwrap_or(false);
    Some(Stored { id, duplicate })
}

fn refusal(value: &Value, header: Option<String>) -> Refusal {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let after = value.get("retry_after_ms").and_then(Value::as_u64).unwrap_or(0);
    let retry_after = Duration::from_millis(after);
    Refusal { reason: text("reason"), code: text("code"), retry_after, header }
}

fn line(value: &Value) -> Answer<Stored> {
    let status = value.get("status").and_then(Value::as_u64).unwrap_or(0);
    match status {
        200..=299 => match stored(value) {
            Some(stored) => Answer::Done(stored),
            None => Answer::Wrong(200, value.to_string()),
        },
        429 => {
            // The line may hold the refusal itself, or under a name.
            let inner = value.get("error").filter(|error| error.is_object()).unwrap_or(value);
            Answer::Limited(refusal(inner, None))
        }
        503 => Answer::NotDone(value.to_string()),
        504 => Answer::Unknown(value.to_string()),
        _ => Answer::Wrong(u16::try_from(status).unwrap_or(0), value.to_string()),
    }
}

/// Whether the status of a whole batch says what its lines say: 200 all, 429 none, 207 some.
fn batch_fault(status: u16, results: &[Value]) -> Option<String> {
    let stored = results.iter().filter(|line| {
        line.get("status")
            .and_then(Value::as_u64)
            .is_some_and(|status| (200..=299).contains(&status))
    });
    let stored = stored.count();
    let right = match status {
        200 | 201 => stored == results.len(),
        207 => stored < results.len(),
        429 => stored == 0,
        _ => false,
    };
    (!right).then(|| format!("{stored} of {} lines stored", results.len()))
}

fn messages(value: Value) -> Answer<(Vec<Message>, Option<String>)> {
    let read: Messages = match serde_json::from_value(value) {
        Ok(read) => read,
        Err(error) => return Answer::Wrong(200, error.to_string()),
    };
    let reason = read.reason;
    match read.messages.into_iter().map(super::wire::RawMessage::read).collect() {
        Ok(messages) => Answer::Done((messages, reason)),
        Err(error) => Answer::Wrong(200, error),
    }
}

fn settled(value: &Value, asked: usize) -> Answer<Vec<Settled>> {
    let results = value.get("results").cloned().unwrap_or_default();
    match serde_json::from_value::<Vec<Settled>>(results) {
        Ok(results) if results.len() == asked => Answer::Done(results),
        _ => Answer::Wrong(200, value.to_string()),
    }
}
