//! Bodies that are refused, large, slow or many.

use crate::client::{Conn, Served, request};
use serde_json::json;
use std::time::Duration;

const PUBLISH: &str = "/api/v1/queue/jobs/messages";

fn head(path: &str, headers: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")
}

async fn is_usable(conn: &mut Conn) {
    let next = conn.ask("GET", "/healthz", "").await;
    assert_eq!(&next.body[..], b"ok\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_over_the_limit_is_answered_before_the_body_comes() {
    let served = Served::new().await;
    served.declare("jobs").await;
    for (length, lines) in [(262_145, false), (16 << 20, false), ((4 << 20) + 1, true)] {
        let mut conn = served.connect().await;
        let media = if lines { "Content-Type: application/x-ndjson\r\n" } else { "" };
        // Not one byte of it.
        conn.send(head(PUBLISH, &format!("{media}Content-Length: {length}\r\n"))).await;
        let code = if lines { "BODY_TOO_LARGE" } else { "PAYLOAD_TOO_LARGE" };
        let reply = conn.reply().await.is(413, code);
        assert_eq!(reply.header("connection"), Some("close"));
        // What the client sends all the same does not reset its answer.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut conn.stream, &[b'x'; 4096]).await;
        assert!(conn.ends().await);
    }
    let mut conn = served.connect().await;
    conn.send(head(PUBLISH, "Transfer-Encoding: chunked\r\n")).await;
    let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
    for _ in 0..4 {
        conn.send(&chunk).await;
    }
    conn.send(b"1\r\nx\r\n").await;
    conn.reply().await.is(413, "PAYLOAD_TOO_LARGE");
    let mut http2 = served.http2().await;
    let reply = http2.ask("POST", PUBLISH, vec![0; 262_145]).await;
    reply.is(413, "PAYLOAD_TOO_LARGE");
    assert_eq!(http2.ask("POST", PUBLISH, vec![0; 262_144]).await.status, 201);
    assert_eq!(served.show("jobs").await["depth"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_body_of_a_small_length_is_thrown_away_and_the_connection_goes_on() {
    let served = Served::new().await;
    let mut conn = served.connect().await;
    let body = vec![b'x'; 256 << 10];
    conn.ask("POST", "/no/such/path", &body).await.is(404, "NOT_FOUND");
    is_usable(&mut conn).await;
    conn.ask("POST", PUBLISH, &body).await.is(404, "QUEUE_NOT_FOUND");
    is_usable(&mut conn).await;
    conn.ask_with("POST", PUBLISH, "Content-Encoding: gzip\r\n", &body)
        .await
        .is(415, "UNSUPPORTED_ENCODING");
    is_usable(&mut conn).await;
    let mut http2 = served.http2().await;
    http2.ask("POST", "/no/such/path", body.clone()).await.is(404, "NOT_FOUND");
    // One byte more, or no length: the connection ends with its answer.
    let long = request("POST", "/no/such/path", "", &vec![b'x'; (256 << 10) + 1]);
    conn.send(&long).await;
    let reply = conn.reply().await.is(404, "NOT_FOUND");
    assert_eq!(reply.header("connection"), Some("close"));
    assert!(conn.ends().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_before_it_sends_is_told_the_final_status() {
    let served = Served::new().await;
    served.declare("jobs").await;
    let expect = "Expect: 100-continue\r\n";
    for (path, length, status) in
        [("/no/such/path", 5, 404), (PUBLISH, 300_000, 413), ("/api/v1/queue/%ff/ack", 5, 400)]
    {
        let mut conn = served.connect().await;
        conn.send(head(path, &format!("{expect}Content-Length: {length}\r\n"))).await;
        // The first head that comes is the last.
        let reply = conn.reply().await;
        assert_eq!((reply.status, reply.header("connection")), (status, Some("close")), "{path}");
        assert!(conn.ends().await);
    }
    let mut conn = served.connect().await;
    conn.send(head(PUBLISH, &format!("{expect}Content-Length: 5\r\n"))).await;
    assert_eq!(conn.head().await.status, 100);
    conn.send("hello").await;
    assert_eq!(conn.reply().await.status, 201);
    is_usable(&mut conn).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn publishes_are_refused_where_bodies_fill_their_memory_and_acks_are_not() {
    let served = Served::with(|http| http.body_budget = Some(300 << 10)).await;
    served.declare("jobs").await;
    assert_eq!(served.publish("jobs", "first").await.status, 201);
    let got = served.receive("jobs", json!({})).await;
    let mut slow = served.connect().await;
    let payload = vec![b'x'; 256 << 10];
    let whole = request("POST", PUBLISH, "", &payload);
    let (begin, rest) = whole.split_at(100);
    slow.send(begin).await;
    // Its whole length is taken when its head is there.
    let free = async || {
        let node = served.ask("GET", "/api/v1/node", "").await.json();
        node["http"]["body_budget_free_bytes"].as_u64().unwrap()
    };
    crate::client::until("the budget is taken", async || free().await < 100 << 10).await;
    let mut conn = served.connect().await;
    let reply = conn.ask("POST", PUBLISH, vec![b'x'; 100 << 10]).await.is(429, "ERR_LIMITED");
    assert_eq!(
        (reply.json()["reason"].clone(), reply.header("retry-after")),
        (json!("memory"), Some("1"))
    );
    // On the same connection, at once.
    let ack = json!({ "receipt": got["messages"][0]["receipt"] }).to_string();
    assert_eq!(conn.ask("POST", "/api/v1/queue/jobs/ack", ack).await.json()["result"], "done");
    slow.send(rest).await;
    assert_eq!(slow.reply().await.status, 201);
    assert_eq!(conn.ask("POST", PUBLISH, &payload).await.status, 201);
    assert_eq!(free().await, 300 << 10, "all is given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_cut_off_and_hold_nothing() {
    let served = Served::with(|http| {
        http.timers.header = Duration::from_millis(300);
        http.timers.body_idle = Duration::from_millis(300);
        http.timers.body = Duration::from_millis(900);
        http.timers.drain = Duration::from_millis(300);
        http.timers.idle = Duration::from_millis(600);
    })
    .await;
    served.declare("jobs").await;
    // Nothing, a part of the preface of HTTP/2, a part of a head; and bytes now and then.
    for bytes in ["", "PRI * HT", "GET / HTTP/1.1\r\nHost: "] {
        let mut conn = served.connect().await;
        conn.send(bytes).await;
        assert!(conn.ends().await, "{bytes}");
    }
    let mut drip = served.connect().await;
    let dripped = async {
        let head = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(1_000));
        for byte in head.bytes() {
            if tokio::io::AsyncWriteExt::write_all(&mut drip.stream, &[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("a byte now and then keeps the connection");
    };
    dripped.await;
    // A second head on a connection that has served one.
    let mut conn = served.connect().await;
    is_usable(&mut conn).await;
    conn.send("GET / HT").await;
    assert!(conn.ends().await);
    // A body that stops, and one that drips.
    let mut conn = served.connect().await;
    conn.send(head(PUBLISH, "Content-Length: 5\r\n")).await;
    conn.send("he").await;
    let reply = conn.reply().await.is(408, "BODY_TOO_SLOW");
    assert_eq!(reply.header("connection"), Some("close"));
    let mut conn = served.connect().await;
    conn.send(head(PUBLISH, "Content-Length: 500\r\n")).await;
    for _ in 0..20 {
        let _ = tokio::io::AsyncWriteExt::write_all(&mut conn.stream, b"x").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    conn.reply().await.is(408, "BODY_TOO_SLOW");
    // A refused body that does not come.
    let mut conn = served.connect().await;
    conn.send(head("/no/such/path", "Content-Length: 5\r\n")).await;
    let reply = conn.reply().await.is(404, "NOT_FOUND");
    assert_eq!(reply.header("connection"), Some("close"));
    // An idle connection ends in order.
    let mut conn = served.connect().await;
    is_usable(&mut conn).await;
    assert!(conn.ends().await);
    let node = served.ask("GET", "/api/v1/node", "").await.json();
    assert_eq!(node["http"]["body_budget_free_bytes"], node["http"]["body_budget_bytes"]);
    assert_eq!(served.show("jobs").await["depth"], 0);
}

/// Only the last coding counted: a payload in another before it was stored as it came, as if it were the message.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_in_another_transfer_coding_is_refused() {
    let served = Served::new().await;
    served.declare("jobs").await;
    for (codings, status) in [
        (["gzip, chunked"].as_slice(), 415),
        (&["identity,chunked"], 415),
        (&["chunked, chunked"], 415),
        (&["gzip", "chunked"], 400),
        (&["chunked"], 201),
        (&["Chunked"], 201),
    ] {
        for (path, done) in [(PUBLISH, 201), ("/api/v1/queue/jobs/receive", 200)] {
            let mut conn = served.connect().await;
            let fields = codings.iter().map(|coding| format!("Transfer-Encoding: {coding}\r\n"));
            conn.send(head(path, &fields.collect::<String>())).await;
            conn.send("2\r\n{}\r\n0\r\n\r\n").await;
            let reply = conn.reply().await;
            let wanted = if status == 201 { done } else { status };
            assert_eq!(reply.status, wanted, "{codings:?} {path}: {reply:?}");
        }
    }
    assert_eq!(served.broker.stats().published, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_is_bounded_in_bytes_and_fields() {
    let served = Served::new().await;
    // With Host.
    for (fields, len, status) in [(63, 1, 200), (64, 1, 431), (10, 3_000, 200), (10, 3_400, 431)] {
        let mut conn = served.connect().await;
        let more = (0..fields).map(|at| format!("X-{at}: {}\r\n", "x".repeat(len)));
        let more: String = more.collect();
        conn.send(format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{more}\r\n")).await;
        let reply = conn.reply().await;
        assert_eq!(reply.status, status, "{fields} of {len}: {reply:?}");
        if status == 431 {
            assert_eq!((reply.body.len(), reply.header("x-request-id")), (0, None));
        }
    }
}
