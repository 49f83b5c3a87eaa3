//! The accept loop and its connections.

use super::answer::AnswerBody;
use super::backend::Backend;
use super::front::Front;
use super::options::{HttpOptions, Timers};
use super::socket::{self, Socket};
use super::watch::{Peer, Verdict};
use crate::broker::Broker;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

/// Why the front cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is not a loopback one.
    #[error(
        "{0} can be reached from other machines, and there are no access tokens yet: listen on a loopback address such as \
         127.0.0.1:7272"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be had.
    #[error("cannot listen on {address}: {error}")]
    Io {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
}

/// An address that is taken; connections wait until they are served.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    options: HttpOptions,
}

/// A front that is served.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stopping: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Listener {
    /// Takes the address.
    ///
    /// # Errors
    /// An address beyond loopback, and what the system refuses.
    ///
    /// # Panics
    /// Outside of a runtime of tokio with I/O.
    pub fn bind(options: HttpOptions) -> Result<Self, ListenError> {
        let address = options.listen;
        if !address.ip().to_canonical().is_loopback() {
            return Err(ListenError::NotLoopback(address));
        }
        let fail = |error| ListenError::Io { address, error };
        let listener = listen(address).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        Ok(Self { listener, address, options })
    }

    /// Where it listens, with the port that it got.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves a broker, until it is stopped.
    #[must_use]
    pub fn serve(self, broker: Broker) -> Server {
        self.serve_backend(broker)
    }

    pub(super) fn serve_backend<B: Backend>(self, backend: B) -> Server {
        let (stopping, stopped) = watch::channel(false);
        let Self { listener, address, options } = self;
        let front = Arc::new(Front::new(backend, address, &options, stopped));
        let accepting = tokio::spawn(accept(listener, front, options));
        Server { address, stopping, accepting }
    }
}

impl Server {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections and requests, ends long polls, waits for what is under way, at most
    /// [`Timers::stop`](super::Timers::stop), and cuts the rest.
    pub async fn stop(self) {
        let _ = self.stopping.send(true);
        // It does not panic, and nobody aborts it.
        let _ = self.accepting.await;
    }
}

/// Connections inherit the sizes of the buffers. Left to the kernel, each could hold several megabytes that nobody reads,
/// and an answer would count as taken while all of it is still here.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    const BUFFER: u32 = 128 << 10;
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of a server before this one may still be ending.
    socket.set_reuseaddr(true)?;
    socket.set_recv_buffer_size(BUFFER)?;
    socket.set_send_buffer_size(BUFFER)?;
    socket.bind(address)?;
    socket.listen(1024)
}

fn builder(options: &HttpOptions) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // Heads and pieces of bodies: what a connection holds before it has asked for anything.
    builder.http1().timer(TokioTimer::new()).max_buf_size(32 << 10).max_headers(64);
    // Timed by the watch, which knows an idle connection from a slow one.
    builder.http1().header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(options.streams)
        .initial_stream_window_size(64 << 10)
        .initial_connection_window_size(256 << 10)
        .max_frame_size(16 << 10)
        .max_header_list_size(16 << 10)
        .max_send_buf_size(32 << 10)
        // A client that begins and resets streams without end.
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(256)
        // One that is gone without a word leaves its connection within this.
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}

/// An error of one connection that was not even accepted; the next one may be fine.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// What a connection is told that finds no place.
fn full() -> String {
    let body =
        "{\"code\":\"CONNECTIONS_FULL\",\"message\":\"there are no more connections to have\"}\n";
    let len = body.len();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n\
         Content-Type: application/json\r\nContent-Length: {len}\r\n\r\n{body}"
    )
}

async fn accept<B: Backend>(listener: TcpListener, front: Arc<Front<B>>, options: HttpOptions) {
    let builder = Arc::new(builder(&options));
    let mut connections = JoinSet::new();
    let mut failing = false;
    loop {
        let accepted = tokio::select! {
            biased;
            () = front.stopped() => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) if is_of_connection(&error) => continue,
            Err(error) => {
                // No descriptor or no memory: those that are open go on, and free some. To try again at once would only
                // take their time.
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(%error, "cannot accept connections; trying again");
                }
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        failing = false;
        let (counted, count) = front.count();
        if count > options.connections {
            // Best effort: a fresh connection takes so little.
            let _ = stream.try_write(full().as_bytes());
            continue;
        }
        let kept = front.are_many();
        let (front, builder) = (Arc::clone(&front), Arc::clone(&builder));
        connections.spawn(async move {
            connection(stream, front, &builder, kept).await;
            drop(counted);
        });
    }
    drop(listener);
    let rest = async { while connections.join_next().await.is_some() {} };
    if timeout(options.timers.stop, rest).await.is_err() {
        tracing::warn!(cut = connections.len(), "requests were not done in time");
    }
    connections.shutdown().await;
}

async fn connection<B: Backend>(
    stream: TcpStream,
    front: Arc<Front<B>>,
    builder: &Builder<TokioExecutor>,
    kept: bool,
) {
    // Small answers must not wait for the acknowledgement of those before.
    let _ = stream.set_nodelay(true);
    let (stream, peer) = (Arc::new(stream), Arc::new(Peer::new(kept)));
    let timers = front.timers;
    serve(&stream, &peer, front, builder, &timers).await;
    if peer.lingers() {
        socket::linger(&stream, Instant::now() + timers.linger).await;
    }
}

/// Serves until the connection has ended, by its client, by a timer or by the front's end.
async fn serve<B: Backend>(
    stream: &Arc<TcpStream>,
    peer: &Arc<Peer>,
    front: Arc<Front<B>>,
    builder: &Builder<TokioExecutor>,
    timers: &Timers,
) {
    let socket = TokioIo::new(Socket::new(Arc::clone(stream), Arc::clone(peer)));
    let service = service_fn(|request: Request<Incoming>| {
        let answer = Arc::clone(&front).respond(Arc::clone(peer), request);
        async { Ok::<Response<AnswerBody>, Infallible>(answer.await) }
    });
    let mut connection = pin!(builder.serve_connection(socket, service));
    let mut tick = interval(timers.tick());
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stopped = pin!(front.stopped());
    let mut stopping = false;
    let mut ends: Option<Instant> = None;
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended");
                }
                return;
            }
            () = &mut stopped, if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            _ = tick.tick() => match peer.verdict(timers) {
                Verdict::Keep => {}
                Verdict::Cut => return,
                Verdict::End => match ends {
                    None => {
                        ends = Some(Instant::now() + timers.linger);
                        connection.as_mut().graceful_shutdown();
                    }
                    // The client does not answer.
                    Some(until) if Instant::now() >= until => return,
                    Some(_) => {}
                },
            }
        }
    }
}
