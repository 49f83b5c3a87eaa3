//! The front over a backend that does what no broker should.

use super::answer::Handing;
use super::backend::{Backend, Got};
use super::budget::Hold;
use super::{HttpOptions, Listener, Server};
use crate::api::{
    Consumer, Declared, Deleted, Explained, Fault, NewMessage, Paused, PublishAnswer, Purged,
    QueueSettings, QueueSummary, QueueView, Receive, Settled, StoredMessage, Verb,
};
use crate::broker::BrokerStats;
use crate::name::QueueName;
use plimsoll::Node;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const LONG: Duration = Duration::from_secs(30);

/// Publishes panic, looks at a queue fail, everything else takes for ever.
#[derive(Clone, Default)]
struct Odd {
    running: Arc<AtomicUsize>,
}

struct Gone(Arc<AtomicUsize>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Odd {
    async fn hang<T>(&self) -> T {
        self.running.fetch_add(1, Ordering::SeqCst);
        let _gone = Gone(Arc::clone(&self.running));
        pending().await
    }

    async fn running(&self, count: usize) {
        let wait = async {
            while self.running.load(Ordering::SeqCst) != count {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let running = timeout(LONG, wait).await;
        running.unwrap_or_else(|_| panic!("{count} are not running"));
    }
}

impl Handing for () {
    fn done(&mut self) {}
}

impl Backend for Odd {
    fn nodes(&self) -> &[Node] {
        &[]
    }

    fn stats(&self) -> BrokerStats {
        BrokerStats::default()
    }

    fn list(&self, _: Option<&str>, _: usize) -> Vec<QueueSummary> {
        Vec::new()
    }

    async fn declare(
        &self,
        _: &QueueName,
        _: QueueSettings,
        _: Option<u64>,
    ) -> Result<Declared, Fault> {
        self.hang().await
    }

    async fn delete(&self, _: &QueueName, _: Option<u64>) -> Result<Deleted, Fault> {
        self.hang().await
    }

    async fn show(&self, _: &QueueName) -> Result<QueueView, Fault> {
        Err(Fault::Unavailable("the disk has failed".into()))
    }

    async fn publish(
        &self,
        _: &QueueName,
        _: Vec<NewMessage>,
        _: Hold,
    ) -> Result<Vec<PublishAnswer>, Fault> {
        panic!("planted")
    }

    async fn receive(&self, _: &QueueName, _: Receive) -> Result<Got, Fault> {
        self.hang().await
    }

    async fn settle(&self, _: &QueueName, _: Verb, _: Vec<String>) -> Result<Vec<Settled>, Fault> {
        self.hang().await
    }

    async fn peek(&self, _: &QueueName, _: usize) -> Result<Vec<StoredMessage>, Fault> {
        self.hang().await
    }

    async fn purge(&self, _: &QueueName, _: bool) -> Result<Purged, Fault> {
        self.hang().await
    }

    async fn pause(&self, _: &QueueName, _: bool) -> Result<Paused, Fault> {
        self.hang().await
    }

    async fn explain(&self, _: &QueueName) -> Result<Explained, Fault> {
        self.hang().await
    }

    async fn consumers(&self, _: &QueueName) -> Result<Vec<Consumer>, Fault> {
        self.hang().await
    }
}

async fn served(backend: &Odd) -> (Server, SocketAddr) {
    let mut options = HttpOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)));
    options.timers.stop = Duration::from_millis(200);
    let server = Listener::bind(options).unwrap().serve_backend(backend.clone());
    let address = server.address();
    (server, address)
}

fn request(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
}

/// The answer on a connection, as far as it comes at once.
async fn answer(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut buf = vec![0; 4096];
    let len = timeout(LONG, stream.read(&mut buf)).await.unwrap().unwrap();
    String::from_utf8(buf[..len].to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_in_a_handler_ends_its_request_and_nothing_else() {
    let (server, address) = served(&Odd::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    for _ in 0..3 {
        let text = answer(&mut stream, &request("POST", "/api/v1/queue/jobs/messages")).await;
        assert!(text.starts_with("HTTP/1.1 500 "), "{text}");
        assert!(text.contains("\"code\":\"ERR_INTERNAL\"") && text.contains("x-request-id"));
        let text = answer(&mut stream, &request("GET", "/api/v1/queue/jobs")).await;
        assert!(text.starts_with("HTTP/1.1 503 ") && text.contains("retry-after: 1"), "{text}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_broker_that_hangs_but_who_asked_it() {
    let odd = Odd::default();
    let (server, address) = served(&odd).await;
    let mut waiting = Vec::new();
    for path in ["receive", "pause", "purge"].repeat(20) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = request("POST", &format!("/api/v1/queue/jobs/{path}"));
        stream.write_all(request.as_bytes()).await.unwrap();
        waiting.push(stream);
    }
    odd.running(60).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    for path in ["/healthz", "/readyz", "/metrics", "/api/v1/node", "/api/v1/limits"] {
        let text = answer(&mut stream, &request("GET", path)).await;
        assert!(text.starts_with("HTTP/1.1 200 "), "{path}: {text}");
    }
    // Whoever leaves takes its request along.
    waiting.truncate(10);
    odd.running(10).await;
    // And the end waits for nobody longer than it says; what waits for messages is told at once.
    server.stop().await;
    odd.running(0).await;
}
