//! A server, and clients of both kinds: bytes as they are for HTTP/1.1, hyper's for HTTP/2.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use plimsoll_broker::broker::{Broker, BrokerOptions};
use plimsoll_broker::http::{HttpOptions, Listener, Server};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// Far more than anything takes that is not stuck.
const LONG: Duration = Duration::from_secs(30);

/// A server with its broker and directory.
pub(crate) struct Served {
    pub(crate) server: Server,
    pub(crate) broker: Broker,
    pub(crate) address: SocketAddr,
    directory: tempfile::TempDir,
}

impl Served {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut HttpOptions)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut options = BrokerOptions::new(vec![directory.path().join("data")]);
        options.node.segment_size = 1 << 20;
        let broker = Broker::start(options).await.unwrap();
        Self::over(broker, directory, change)
    }

    /// Over a broker that runs already.
    pub(crate) fn over(
        broker: Broker,
        directory: tempfile::TempDir,
        change: impl FnOnce(&mut HttpOptions),
    ) -> Self {
        let mut http = HttpOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)));
        change(&mut http);
        let server = Listener::bind(http).unwrap().serve(broker.clone());
        Self { address: server.address(), server, broker, directory }
    }

    pub(crate) async fn connect(&self) -> Conn {
        Conn::new(TcpStream::connect(self.address).await.unwrap())
    }

    /// A connection whose client takes in little that it does not read.
    pub(crate) async fn connect_small(&self) -> Conn {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        Conn::new(socket.connect(self.address).await.unwrap())
    }

    /// One request on a connection of its own.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: impl AsRef<[u8]>) -> Reply {
        self.connect().await.ask(method, path, body).await
    }

    pub(crate) async fn declare(&self, queue: &str) {
        let reply = self.ask("PUT", &format!("/api/v1/queue/{queue}"), "").await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }

    pub(crate) async fn publish(&self, queue: &str, payload: impl AsRef<[u8]>) -> Reply {
        self.ask("POST", &format!("/api/v1/queue/{queue}/messages"), payload).await
    }

    pub(crate) async fn receive(&self, queue: &str, ask: Value) -> Value {
        let path = format!("/api/v1/queue/{queue}/receive");
        let reply = self.ask("POST", &path, ask.to_string()).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    }

    pub(crate) async fn show(&self, queue: &str) -> Value {
        self.ask("GET", &format!("/api/v1/queue/{queue}"), "").await.json()
    }

    /// Windows are those that the protocol begins with: what is not read soon holds its stream up.
    pub(crate) async fn http2(&self) -> Http2 {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(65_535).initial_connection_window_size(65_535);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Http2 { sender, authority: self.address.to_string() }
    }

    /// Everything that stands beside the data directory.
    pub(crate) fn beside(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        entries.map(|entry| entry.unwrap().path()).filter(|path| !path.ends_with("data")).collect()
    }

    /// Every name below the data directory.
    pub(crate) fn below(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut dirs = vec![self.directory.path().join("data")];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let entry = entry.unwrap();
                names.push(entry.file_name().into_string().unwrap());
                if entry.file_type().unwrap().is_dir() {
                    dirs.push(entry.path());
                }
            }
        }
        names
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(had, _)| had == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The code of an error.
    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub(crate) fn is(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.code().as_str()), (status, code), "{self:?}");
        self
    }
}

/// A connection of HTTP/1.1 that says what it is told to.
pub(crate) struct Conn {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

/// A request's head and body.
pub(crate) fn request(method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

impl Conn {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, read: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: impl AsRef<[u8]>) -> Reply {
        self.ask_with(method, path, "", body).await
    }

    pub(crate) async fn ask_with(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: impl AsRef<[u8]>,
    ) -> Reply {
        self.send(request(method, path, headers, body.as_ref())).await;
        if method == "HEAD" { self.head().await } else { self.reply().await }
    }

    /// More bytes; `false` at the end.
    async fn more(&mut self) -> bool {
        let mut buf = [0; 16 << 10];
        let read = timeout(LONG, self.stream.read(&mut buf)).await.expect("no answer in time");
        let len = read.unwrap_or(0);
        self.read.extend_from_slice(&buf[..len]);
        len > 0
    }

    /// Whether the server ends the connection without another byte.
    pub(crate) async fn ends(&mut self) -> bool {
        self.read.is_empty() && !self.more().await
    }

    /// A head, `100 Continue` too; the body of the reply is what follows it.
    pub(crate) async fn head(&mut self) -> Reply {
        let end = loop {
            let found = self.read.windows(4).position(|window| window == b"\r\n\r\n");
            match found {
                Some(at) => break at,
                None => assert!(self.more().await, "ended early: {:?}", self.text()),
            }
        };
        let head: Vec<u8> = self.read.drain(..end + 4).collect();
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let split = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        };
        let headers = lines.filter(|line| !line.is_empty()).map(split).collect();
        Reply { status, headers, body: Bytes::new() }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.read).into_owned()
    }

    pub(crate) async fn reply(&mut self) -> Reply {
        let reply = self.head().await;
        let len: usize = reply.header("content-length").unwrap_or("0").parse().unwrap();
        while self.read.len() < len {
            assert!(self.more().await, "ended early: {:?}", self.text());
        }
        let body: Vec<u8> = self.read.drain(..len).collect();
        Reply { body: body.into(), ..reply }
    }
}

/// A connection of HTTP/2.
#[derive(Clone)]
pub(crate) struct Http2 {
    sender: SendRequest<Full<Bytes>>,
    authority: String,
}

impl Http2 {
    pub(crate) fn start(
        &mut self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> impl Future<Output = Result<hyper::Response<hyper::body::Incoming>, hyper::Error>> + use<>
    {
        let uri = format!("http://{}{path}", self.authority);
        let request = hyper::Request::builder().method(method).uri(uri);
        self.sender.send_request(request.body(Full::new(body)).unwrap())
    }

    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: impl Into<Bytes>) -> Reply {
        let response = timeout(LONG, self.start(method, path, body.into())).await.unwrap().unwrap();
        let (parts, body) = response.into_parts();
        let body = timeout(LONG, body.collect()).await.unwrap().unwrap().to_bytes();
        let headers = parts.headers.iter();
        let headers = headers
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        Reply { status: parts.status.as_u16(), headers, body }
    }
}

/// Waits until something holds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let begin = tokio::time::Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < LONG, "waited in vain for: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
