//! How the front listens, and its bounds.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Settings of the front. The defaults are what `plimsoll serve` runs with.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// The address; only loopback ones are allowed. Port 0 takes any that is free.
    pub listen: SocketAddr,
    /// Names under which it is reached beside loopback ones and the address itself; compared without regard to case.
    pub hosts: Vec<String>,
    /// The most connections at once; more are told 503 and closed.
    pub connections: usize,
    /// Of those, how many do not take publishes (503), so that acks and administration find a place.
    pub connections_kept: usize,
    /// The most requests at once on one HTTP/2 connection.
    pub streams: u32,
    /// Bytes that bodies of publishes may take together while they are read and stored. By default a tenth of the memory
    /// limit, at least 8 MiB and at most 1 GiB. A quarter of it, at least 1 MiB, is there for all other bodies.
    pub body_budget: Option<u64>,
    /// How long things may take.
    pub timers: Timers,
}

/// How long things may take on a connection.
#[derive(Clone, Copy, Debug)]
pub struct Timers {
    /// The head of a request, from its first byte; for the first request from when the connection was made.
    pub header: Duration,
    /// Between two pieces of a body.
    pub body_idle: Duration,
    /// A whole body.
    pub body: Duration,
    /// A connection without a request.
    pub idle: Duration,
    /// A client that takes nothing of its answer.
    pub answer_idle: Duration,
    /// Reading a refused body to throw it away.
    pub drain: Duration,
    /// Waiting for a client to notice an answer that ends its connection.
    pub linger: Duration,
    /// Waiting for requests under way when the front stops.
    pub stop: Duration,
}

impl HttpOptions {
    /// Defaults at this address.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            hosts: Vec::new(),
            connections: 4_096,
            connections_kept: 256,
            streams: 128,
            body_budget: None,
            timers: Timers::default(),
        }
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 7272)))
    }
}

impl Default for Timers {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            header: seconds(10),
            body_idle: seconds(10),
            body: seconds(60),
            idle: seconds(60),
            answer_idle: seconds(30),
            drain: seconds(5),
            linger: seconds(2),
            stop: seconds(10),
        }
    }
}

impl Timers {
    /// How often a connection is looked at: often enough for its shortest timer, and at most once in 10 ms.
    pub(super) fn tick(&self) -> Duration {
        let shortest = self.header.min(self.idle).min(self.answer_idle);
        (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}
