//! Many connections, and the end.

use crate::client::{Served, until};
use plimsoll_broker::http::{HttpOptions, ListenError, Listener};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn the_last_connections_are_kept_for_all_but_publishes() {
    let served = Served::with(|http| (http.connections, http.connections_kept) = (3, 2)).await;
    served.declare("jobs").await;
    let publish = "/api/v1/queue/jobs/messages";
    // Those before it must be gone.
    let mut first = loop {
        let mut conn = served.connect().await;
        let reply = conn.ask("POST", publish, "a").await;
        if reply.status == 201 {
            break conn;
        }
        reply.is(503, "CONNECTIONS_KEPT");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(first.ask("GET", "/healthz", "").await.status, 200);
    let mut second = served.connect().await;
    let reply = second.ask("POST", publish, "a").await.is(503, "CONNECTIONS_KEPT");
    assert_eq!(reply.header("retry-after"), Some("1"));
    let got = second.ask("POST", "/api/v1/queue/jobs/receive", "").await.json();
    let ack = json!({ "receipt": got["messages"][0]["receipt"] }).to_string();
    assert_eq!(second.ask("POST", "/api/v1/queue/jobs/ack", ack).await.status, 200);
    let mut third = served.connect().await;
    assert_eq!(third.ask("GET", "/healthz", "").await.status, 200);
    let mut fourth = served.connect().await;
    fourth.reply().await.is(503, "CONNECTIONS_FULL");
    // It publishes, too, when there are few again.
    drop((first, third));
    let mut told = Vec::new();
    while told.last() != Some(&201) {
        assert!(told.len() < 250, "it does not publish again: {told:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        told.push(second.ask("POST", publish, "a").await.status);
    }
    drop(second);
    until("a place is free", async || {
        let mut conn = served.connect().await;
        conn.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        conn.reply().await.status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_loopback_addresses_are_listened_at() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:0.0.0.0]:0"] {
        let address: SocketAddr = address.parse().unwrap();
        let refused = Listener::bind(HttpOptions::new(address)).unwrap_err();
        assert!(matches!(refused, ListenError::NotLoopback(_)), "{refused}");
        assert!(refused.to_string().contains("127.0.0.1:7272"));
    }
    let taken = Listener::bind(HttpOptions::new("127.0.0.1:0".parse().unwrap())).unwrap();
    let again = Listener::bind(HttpOptions::new(taken.address()));
    assert!(matches!(again, Err(ListenError::Io { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_answers_what_is_under_way_and_takes_nothing_new() {
    let served = Served::new().await;
    served.declare("jobs").await;
    let mut idle = served.connect().await;
    assert_eq!(idle.ask("GET", "/healthz", "").await.status, 200);
    let mut idle2 = served.http2().await;
    assert_eq!(idle2.ask("GET", "/healthz", "").await.status, 200);
    let mut poll = served.connect().await;
    let ask = json!({ "wait_ms": 60_000 }).to_string();
    poll.send(crate::client::request("POST", "/api/v1/queue/jobs/receive", "", ask.as_bytes()))
        .await;
    let mut poll2 = served.http2().await;
    let poll2 =
        tokio::spawn(async move { poll2.ask("POST", "/api/v1/queue/jobs/receive", ask).await });
    let mut half = served.connect().await;
    half.send("POST /api/v1/queue/jobs/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhe").await;
    let waiting = async || served.broker.show(&jobs()).await.unwrap().waiting == 2;
    until("both wait", waiting).await;
    // Its body has its memory: it is under way.
    until("it is under way", async || {
        let node = served.ask("GET", "/api/v1/node", "").await.json();
        node["http"]["body_budget_free_bytes"] != node["http"]["body_budget_bytes"]
    })
    .await;
    let Served { server, broker, address, .. } = served;
    let stopped = tokio::spawn(server.stop());
    poll.reply().await.is(503, "ERR_UNAVAILABLE");
    poll2.await.unwrap().is(503, "ERR_UNAVAILABLE");
    assert!(idle.ends().await);
    half.send("llo").await;
    assert_eq!(half.reply().await.status, 201);
    assert!(half.ends().await);
    stopped.await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    assert_eq!(broker.show(&jobs()).await.unwrap().summary.counts.ready, 1);
    broker.stop().await;
}

fn jobs() -> plimsoll_broker::name::QueueName {
    plimsoll_broker::name::QueueName::new("jobs").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_does_not_wait_for_clients_that_do_nothing() {
    let served = Served::with(|http| http.timers.stop = Duration::from_millis(300)).await;
    served.declare("jobs").await;
    let mut half = served.connect().await;
    half.send("POST /api/v1/queue/jobs/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhe").await;
    until("it is served", async || {
        served.ask("GET", "/api/v1/node", "").await.json()["http"]["connections"] == 2
    })
    .await;
    served.server.stop().await;
    assert!(half.ends().await);
}
