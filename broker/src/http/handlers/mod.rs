//! What answers each route. Thin: the broker decides.

mod messages;
mod node;
mod publish;
mod queue;

use super::answer::Answer;
use super::backend::Backend;
use super::body::{self, Takes};
use super::error::{Code, Problem};
use super::front::Front;
use super::route::{Endpoint, Route};
use super::watch::Peer;
use super::wire::ask;
use crate::api::Verb;
use crate::name::QueueName;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, TRANSFER_ENCODING};
use http::request::Parts;
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

/// A request on its way.
pub(super) struct Call<'a, B> {
    pub(super) front: &'a Front<B>,
    pub(super) peer: &'a Peer,
    pub(super) parts: &'a Parts,
    pub(super) body: &'a mut Incoming,
    pub(super) route: &'static Route,
    pub(super) queue: Option<QueueName>,
    /// As `X-Request-Id` has it.
    pub(super) id: &'a str,
}

/// The fields of a query that a route knows, each once.
///
/// # Errors
/// 400 for any other.
fn query(route: &Route, text: &str) -> Result<Vec<(&'static str, String)>, Problem> {
    let mut fields: Vec<(&'static str, String)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let known = route.query.iter().find(|field| field.name == name);
        let Some(known) = known.filter(|known| fields.iter().all(|(had, _)| *had != known.name))
        else {
            let known: Vec<&str> = route.query.iter().map(|field| field.name).collect();
            let message = format!("the query has {name:?}; known here, each once: {known:?}");
            return Err(Problem::invalid(message));
        };
        let value = value.replace('+', " ");
        let value = percent_decode_str(&value).decode_utf8();
        let value = value.map_err(|_| Problem::invalid(format!("{name} is no UTF-8")))?;
        fields.push((known.name, value.into_owned()));
    }
    Ok(fields)
}

impl<B: Backend> Call<'_, B> {
    fn queue(&self) -> Result<&QueueName, Problem> {
        self.queue.as_ref().ok_or_else(|| Problem::new(Code::NotFound, "the path names no queue"))
    }

    fn query(&self) -> Result<Vec<(&'static str, String)>, Problem> {
        query(self.route, self.parts.uri.query().unwrap_or_default())
    }

    /// A header's value, if it comes once and is text.
    fn header(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.parts.headers.get_all(name).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(Problem::invalid(format!("{name} comes more than once")));
        }
        let text = std::str::from_utf8(value.as_bytes());
        text.map(Some).map_err(|_| Problem::invalid(format!("{name} is no UTF-8")))
    }

    /// Checks what can be checked before a body is read.
    fn check_body(&self) -> Result<(), Problem> {
        // The framing goes by the last coding alone; another before it would be stored as part of the payload.
        if let Some(coding) = self.header(TRANSFER_ENCODING.as_str())?
            && !coding.eq_ignore_ascii_case("chunked")
        {
            let message = format!("Transfer-Encoding {coding:?} is not supported");
            return Err(Problem::new(Code::Encoding, message));
        }
        match self.header(CONTENT_ENCODING.as_str())? {
            Some(encoding) if !encoding.eq_ignore_ascii_case("identity") => {
                let message = format!("Content-Encoding {encoding:?} is not supported");
                Err(Problem::new(Code::Encoding, message))
            }
            _ => Ok(()),
        }
    }

    /// The body, all of it. Its memory is given back at once: JSON is small.
    async fn bytes(&mut self) -> Result<Bytes, Problem> {
        self.check_body()?;
        let Front { budget, timers, .. } = self.front;
        let (bytes, _) = body::read(self.body, Takes::Json, budget, timers).await?;
        Ok(bytes)
    }

    async fn json<T: DeserializeOwned>(&mut self) -> Result<T, Problem> {
        ask::read(&self.bytes().await?)
    }

    async fn json_or_default<T: DeserializeOwned + Default>(&mut self) -> Result<T, Problem> {
        ask::read_or_default(&self.bytes().await?)
    }
}

fn number(name: &str, text: &str, min: usize, max: usize) -> Result<usize, Problem> {
    let number = text.parse().ok().filter(|number| (min..=max).contains(number));
    number
        .ok_or_else(|| Problem::invalid(format!("{name} is {text:?}; {min} to {max} are allowed")))
}

/// Answers a request.
pub(super) async fn handle<B: Backend>(call: Call<'_, B>) -> Result<Answer, Problem> {
    let fields = call.query()?;
    match call.route.endpoint {
        Endpoint::Index => Ok(node::index()),
        Endpoint::Health => Ok(Answer::text(200, "ok\n")),
        Endpoint::Ready if call.front.is_stopping() => Err(Problem::stopping()),
        Endpoint::Ready => Ok(Answer::text(200, "ready\n")),
        Endpoint::Metrics => Ok(node::metrics(call.front)),
        Endpoint::OpenApi => Ok(Answer::typed("application/json", call.front.openapi.clone())),
        Endpoint::Queues => queue::list(&call, &fields),
        Endpoint::Declare => queue::declare(call).await,
        Endpoint::Show => queue::show(&call).await,
        Endpoint::Delete => queue::delete(&call).await,
        Endpoint::Publish => publish::publish(call).await,
        Endpoint::Peek => messages::peek(&call, &fields).await,
        Endpoint::Receive => messages::receive(call).await,
        Endpoint::Ack => messages::settle(call, Verb::Ack).await,
        Endpoint::Nack => messages::settle(call, Verb::Nack).await,
        Endpoint::Reject => messages::settle(call, Verb::Reject).await,
        Endpoint::Extend => messages::extend(call).await,
        Endpoint::Purge => queue::purge(call).await,
        Endpoint::Pause => queue::pause(&call, true).await,
        Endpoint::Resume => queue::pause(&call, false).await,
        Endpoint::Explain => queue::explain(&call).await,
        Endpoint::Consumers => queue::consumers(&call).await,
        Endpoint::Node => Ok(node::show(call.front)),
        Endpoint::Limits => Ok(super::limits::show(&call.front.backend)),
        Endpoint::SetLimits => node::set_limits(call).await,
        Endpoint::Attention => Ok(node::attention(call.front)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::route::ROUTES;

    #[test]
    fn a_query_has_known_fields_and_each_once() {
        let route = ROUTES.iter().find(|route| route.endpoint == Endpoint::Queues).unwrap();
        let read = |text| query(route, text).map_err(|problem| problem.code.status());
        assert_eq!(read(""), Ok(vec![]));
        let both = vec![("after", "a b&c+".to_owned()), ("limit", "5".to_owned())];
        assert_eq!(read("after=a+b%26c%2B&limit=5"), Ok(both));
        for text in ["x=1", "limit=1&limit=2", "Limit=1", "after=%ff", "token=secret"] {
            assert_eq!(read(text), Err(400), "{text}");
        }
        assert_eq!(number("limit", "7", 1, 7).map_err(drop), Ok(7));
        for text in ["0", "8", "-1", "", "7x"] {
            assert!(number("limit", text, 1, 7).is_err(), "{text}");
        }
    }
}
