//! One request: the checks that come before anything else, the route, the answer.

use super::answer::{Answer, AnswerBody};
use super::backend::Backend;
use super::body;
use super::budget::Budget;
use super::error::{Code, Problem, Refusal};
use super::handlers;
use super::host::{Hosts, check_origin};
use super::openapi;
use super::options::{HttpOptions, Timers};
use super::path;
use super::route::{self, Found};
use super::watch::Peer;
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Method, Request, Response, Version, request::Parts};
use hyper::body::Incoming;
use plimsoll::clock::{Clock, SystemClock};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::watch;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const NO_SNIFF: HeaderName = HeaderName::from_static("x-content-type-options");

/// What all connections share.
#[derive(Debug)]
pub(super) struct Front<B> {
    pub(super) backend: B,
    pub(super) budget: Budget,
    pub(super) timers: Timers,
    pub(super) openapi: Bytes,
    pub(super) connections_max: usize,
    /// With more connections than these, those beyond take no publishes.
    publishers_max: usize,
    connections: AtomicUsize,
    /// Held while limits are changed, so that no change undoes another.
    pub(super) limits: tokio::sync::Mutex<()>,
    hosts: Hosts,
    stopping: watch::Receiver<bool>,
    /// The process's start, so that numbers of requests differ between two.
    started: u64,
    requests: AtomicU64,
}

/// Counts a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Counted<B>(Arc<Front<B>>);

impl<B> Drop for Counted<B> {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<B: Backend> Front<B> {
    /// `address` is where the server listens indeed.
    pub(super) fn new(
        backend: B,
        address: std::net::SocketAddr,
        options: &HttpOptions,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let memory = backend.nodes().first().map_or(0, |node| node.pressure().memory.limit);
        Self {
            budget: Budget::new(options.body_budget, memory),
            timers: options.timers,
            openapi: Answer::json(200, &openapi::document()).body,
            connections_max: options.connections,
            publishers_max: options.connections.saturating_sub(options.connections_kept),
            connections: AtomicUsize::new(0),
            limits: tokio::sync::Mutex::default(),
            hosts: Hosts::new(address, &options.hosts),
            stopping,
            started: SystemClock.unix_millis(),
            requests: AtomicU64::new(0),
            backend,
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits until the front stops.
    pub(super) async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        // An error says that its sender is gone: stopped as well.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// More are open than may publish. A connection that came then publishes again when there are fewer.
    pub(super) fn are_many(&self) -> bool {
        self.connections() > self.publishers_max
    }

    /// One more connection, with how many there are now.
    pub(super) fn count(self: &Arc<Self>) -> (Counted<B>, usize) {
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        (Counted(Arc::clone(self)), before + 1)
    }

    /// Answers a request. Dropping the future ends what only its client wanted.
    pub(super) async fn respond(
        self: Arc<Self>,
        peer: Arc<Peer>,
        request: Request<Incoming>,
    ) -> Response<AnswerBody> {
        let multiplexed = request.version() >= Version::HTTP_2;
        let _running = peer.request(multiplexed);
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:x}-{number:x}", self.started);
        let (parts, mut body) = request.into_parts();
        let work = AssertUnwindSafe(self.work(&peer, &parts, &mut body, &id)).catch_unwind();
        let result = work.await.unwrap_or_else(|_| {
            // Its message was told by the hook.
            Err(Problem::new(
                Code::Internal,
                "a mistake in the server; what was asked for may have been done",
            ))
        });
        let slow = matches!(&result, Err(problem) if problem.code == Code::BodyTooSlow);
        let mut answer = result.unwrap_or_else(|problem| failed(&problem, &id));
        if answer.status.is_server_error() {
            tracing::warn!(
                request = id,
                status = answer.status.as_u16(),
                path = parts.uri.path(),
                "failed"
            );
        }
        let kept = !slow && body::drain(&mut body, &parts.headers, multiplexed, &self.timers).await;
        if !kept && !multiplexed {
            answer = answer.with(CONNECTION, "close");
            peer.linger();
        }
        finished(answer, &id, parts.method == Method::HEAD, &peer)
    }

    async fn work(
        &self,
        peer: &Peer,
        parts: &Parts,
        body: &mut Incoming,
        id: &str,
    ) -> Result<Answer, Problem> {
        let authority = self.hosts.check(parts)?;
        let path = parts.uri.path();
        let (route, queue) = match route::find(&parts.method, path) {
            Found::Route(route, queue) => (route, queue),
            Found::OtherMethods(allow) => {
                let message = format!("the methods here are {allow}");
                let problem = Problem::new(Code::MethodNotAllowed, message);
                return Err(Problem { allow: Some(allow.into()), ..problem });
            }
            Found::Nothing => {
                return Err(Problem::new(Code::NotFound, "there is nothing at this path"));
            }
        };
        check_origin(&parts.method, &parts.headers, &authority)?;
        let queue = queue.map(path::queue_name).transpose()?;
        handlers::handle(handlers::Call { front: self, peer, parts, body, route, queue, id }).await
    }
}

/// The answer to what was not done.
fn failed(problem: &Problem, id: &str) -> Answer {
    let answer = Answer::json(problem.status().as_u16(), &problem.body(id));
    with_hints(answer, problem)
}

/// Headers that say what a problem's body says.
pub(super) fn with_hints(mut answer: Answer, problem: &Problem) -> Answer {
    if let Some(allow) = &problem.allow {
        answer = answer.with(ALLOW, allow);
    }
    let unavailable = (problem.code.status() == 503).then_some(1);
    match problem.refusal.map(Refusal::seconds).or(unavailable) {
        Some(seconds) => answer.with(RETRY_AFTER, &seconds.to_string()),
        None => answer,
    }
}

/// What every answer has.
fn finished(answer: Answer, id: &str, head: bool, peer: &Arc<Peer>) -> Response<AnswerBody> {
    let len = answer.body.len();
    let mut answer = answer.with(REQUEST_ID, id).with(CONTENT_LENGTH, &len.to_string());
    answer.headers.insert(NO_SNIFF, HeaderValue::from_static("nosniff"));
    answer.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let body = if head { Bytes::new() } else { answer.body };
    let mut response = Response::new(AnswerBody::new(body, answer.hand_off, answer.hold, peer));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}
