//! One connection.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::{http1, http2};
use hyper::header::HeaderMap;
use hyper::{Method, Request, Response, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// No answer is longer than a receive of 32 of the largest messages, as base64.
const ANSWER_MAX: usize = 32 << 20;
const CONNECT: Duration = Duration::from_secs(5);

/// Which protocol a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// HTTP/1.1: one request after the other.
    H1,
    /// HTTP/2 with prior knowledge: many at once.
    H2,
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::H1 => "HTTP/1.1",
            Self::H2 => "HTTP/2",
        })
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its method.
    pub method: Method,
    /// Its path, with the query.
    pub path: String,
    /// Names and values.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: Bytes,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub enum Fail {
    /// The request was never sent.
    NotSent(String),
    /// It was sent, whole or in part: it may have been done.
    Cut(String),
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSent(why) => write!(f, "not sent: {why}"),
            Self::Cut(why) => write!(f, "cut off: {why}"),
        }
    }
}

#[derive(Debug)]
enum Sender {
    H1(http1::SendRequest<Full<Bytes>>),
    H2(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    fn is_closed(&self) -> bool {
        match self {
            Self::H1(sender) => sender.is_closed(),
            Self::H2(sender) => sender.is_closed(),
        }
    }

    /// Sends; the second part of an error says that nothing left.
    async fn send(
        &mut self,
        ask: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, (String, bool)> {
        let (ready, sent) = match self {
            Self::H1(sender) => match sender.ready().await {
                Ok(()) => (Ok(()), Some(sender.try_send_request(ask).await)),
                Err(error) => (Err(error), None),
            },
            Self::H2(sender) => match sender.ready().await {
                Ok(()) => (Ok(()), Some(sender.try_send_request(ask).await)),
                Err(error) => (Err(error), None),
            },
        };
        ready.map_err(|error| (chain(&error), true))?;
        match sent {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(mut error)) => {
                let kept = error.take_message().is_some();
                Err((chain(error.error()), kept))
            }
            None => Err(("not ready".into(), true)),
        }
    }
}

/// An error with what caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// A connection to one address, opened when it is first needed and again after it broke.
#[derive(Debug)]
pub struct Conn {
    addr: SocketAddr,
    wire: Wire,
    sender: Option<Sender>,
    /// How long an answer may take.
    pub patience: Duration,
    /// How often it was opened.
    pub opened: u64,
}

impl Conn {
    /// A connection that is not open yet.
    #[must_use]
    pub fn new(addr: SocketAddr, wire: Wire) -> Self {
        Self { addr, wire, sender: None, patience: Duration::from_secs(90), opened: 0 }
    }

    /// Where it goes.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Another handle of the same HTTP/2 connection, which is opened for it; over HTTP/1.1 a connection of its own.
    ///
    /// # Errors
    /// It cannot be opened.
    pub async fn share(&mut self) -> Result<Self, Fail> {
        let (addr, wire, patience) = (self.addr, self.wire, self.patience);
        let sender = match self.open().await? {
            Sender::H2(sender) => Some(Sender::H2(sender.clone())),
            Sender::H1(_) => None,
        };
        Ok(Self { addr, wire, sender, patience, opened: 0 })
    }

    async fn open(&mut self) -> Result<&mut Sender, Fail> {
        // An HTTP/1.1 sender, not an HTTP/2 one, must be closed before it says so: a stale one is found at the sending.
        if self.sender.as_ref().is_some_and(Sender::is_closed) {
            self.sender = None;
        }
        let not_sent = |error: &dyn std::error::Error| Fail::NotSent(chain(error));
        let fresh = match self.sender.take() {
            Some(sender) => sender,
            None => {
                let tcp = timeout(CONNECT, TcpStream::connect(self.addr)).await;
                let tcp =
                    tcp.map_err(|error| not_sent(&error))?.map_err(|error| not_sent(&error))?;
                tcp.set_nodelay(true).map_err(|error| not_sent(&error))?;
                self.opened += 1;
                let io = TokioIo::new(tcp);
                match self.wire {
                    Wire::H1 => {
                        let pair = http1::handshake(io).await.map_err(|error| not_sent(&error))?;
                        tokio::spawn(async move { drop(pair.1.await) });
                        Sender::H1(pair.0)
                    }
                    Wire::H2 => {
                        let pair = http2::handshake(TokioExecutor::new(), io).await;
                        let pair = pair.map_err(|error| not_sent(&error))?;
                        tokio::spawn(async move { drop(pair.1.await) });
                        Sender::H2(pair.0)
                    }
                }
            }
        };
        Ok(self.sender.insert(fresh))
    }

    /// Closes it.
    pub fn close(&mut self) {
        self.sender = None;
    }

    /// Asks, and reads the whole answer.
    ///
    /// # Errors
    /// There is none within its patience; says whether it may have been done all the same.
    pub async fn call(&mut self, ask: &Ask) -> Result<Reply, Fail> {
        let patience = self.patience;
        let mut said = Fail::NotSent(String::new());
        // Once more if the connection had gone stale, so that nothing was sent.
        for _ in 0..2 {
            let fail = match timeout(patience, self.once(ask)).await {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(fail)) => fail,
                Err(_) => Fail::Cut(format!("no answer in {} s", patience.as_secs())),
            };
            self.sender = None;
            said = fail;
            if matches!(said, Fail::Cut(_)) {
                break;
            }
        }
        Err(said)
    }

    async fn once(&mut self, ask: &Ask) -> Result<Reply, Fail> {
        let (addr, wire) = (self.addr, self.wire);
        let mut request = Request::builder().method(ask.method.clone());
        request = match wire {
            Wire::H1 => request.uri(&ask.path).header("host", addr.to_string()),
            Wire::H2 => request.uri(format!("http://{addr}{}", ask.path)),
        };
        for (name, value) in &ask.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(ask.body.clone()));
        let request = request.map_err(|error| Fail::NotSent(error.to_string()))?;
        let sender = self.open().await?;
        let answer = sender.send(request).await;
        let answer =
            answer.map_err(|(why, kept)| if kept { Fail::NotSent(why) } else { Fail::Cut(why) })?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_MAX).collect().await;
        let body = body.map_err(|error| Fail::Cut(chain(error.as_ref())))?;
        Ok(Reply { status: head.status.as_u16(), headers: head.headers, body: body.to_bytes() })
    }
}
