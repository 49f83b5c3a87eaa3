//! What goes on while publishes are refused.

use crate::client::{Served, request, until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const PUBLISH: &str = "/api/v1/queue/jobs/messages";
const ACK: &str = "/api/v1/queue/jobs/ack";

/// Limits by which every disk is at hard that has anything on it.
const HARD: &str =
    r#"{"disk":{"soft":{"share":"99.99%"},"hard":{"share":"99.98%"},"clear":"0.0001%"}}"#;

/// A queue with so many messages in flight, on a disk at hard; their receipts.
async fn at_hard(served: &Served, count: usize) -> Vec<Value> {
    served.declare("jobs").await;
    for at in 0..count {
        assert_eq!(served.publish("jobs", at.to_string()).await.status, 201);
    }
    let mut receipts = Vec::new();
    while receipts.len() < count {
        let got = served.receive("jobs", json!({ "max": 32 })).await;
        let messages = got["messages"].as_array().unwrap();
        assert!(!messages.is_empty(), "{got}");
        receipts.extend(messages.iter().map(|message| message["receipt"].clone()));
    }
    assert_eq!(served.ask("PATCH", "/api/v1/limits", HARD).await.status, 200);
    receipts
}

#[tokio::test(flavor = "multi_thread")]
async fn case_f8_refused_publishes_hold_up_no_ack_on_the_same_http_2_connection() {
    let served = Served::new().await;
    let receipts = at_hard(&served, 100).await;
    let mut conn = served.http2().await;
    let publishes: Vec<_> = (0..100)
        .map(|_| {
            let mut conn = conn.clone();
            tokio::spawn(async move { conn.ask("POST", PUBLISH, vec![b'x'; 10_000]).await })
        })
        .collect();
    let acks: Vec<_> = receipts
        .into_iter()
        .map(|receipt| {
            let mut conn = conn.clone();
            let body = json!({ "receipt": receipt }).to_string();
            tokio::spawn(async move { conn.ask("POST", ACK, body).await })
        })
        .collect();
    for ack in acks {
        assert_eq!(ack.await.unwrap().json()["result"], "done");
    }
    for publish in publishes {
        let reply = publish.await.unwrap().is(429, "ERR_LIMITED");
        let body = reply.json();
        assert_eq!((&body["reason"], &body["details"]["level"]), (&json!("disk"), &json!("hard")));
        assert!(body["details"]["free"].as_u64() < body["details"]["threshold"].as_u64());
        let hint: u64 = reply.header("retry-after").unwrap().parse().unwrap();
        assert!(hint >= 1 && hint * 1_000 >= body["retry_after_ms"].as_u64().unwrap());
    }
    let attention = conn.ask("GET", "/api/v1/attention", "").await.json();
    assert_eq!(attention["items"][0]["level"], "hard");
    let explained = conn.ask("GET", "/api/v1/queue/jobs/explain", "").await.json();
    assert_eq!(explained["publish"][0]["reason"], "disk");
    // It ends by itself with its cause, on the same connection.
    assert_eq!(conn.ask("PATCH", "/api/v1/limits", r#"{"disk":null}"#).await.status, 200);
    until("publishes are admitted again", async || {
        conn.clone().ask("POST", PUBLISH, "x").await.status == 201
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_f8_refused_publishes_in_the_pipe_do_not_end_a_kept_connection() {
    let served = Served::new().await;
    let receipts = at_hard(&served, 100).await;
    let mut conn = served.connect().await;
    let mut pipe = request("POST", PUBLISH, "", &[b'x'; 1_000]).repeat(100);
    for receipt in receipts {
        let body = json!({ "receipt": receipt }).to_string();
        pipe.extend(request("POST", ACK, "", body.as_bytes()));
    }
    conn.send(pipe).await;
    for _ in 0..100 {
        let reply = conn.reply().await.is(429, "ERR_LIMITED");
        assert_eq!(reply.header("connection"), None);
    }
    for _ in 0..100 {
        assert_eq!(conn.reply().await.json()["result"], "done");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn q3_everything_but_publishes_goes_on_at_hard() {
    let served = Served::new().await;
    let receipts = at_hard(&served, 3).await;
    let mut conn = served.connect().await;
    let lines = "{\"payload\":\"a\"}\n{\"payload\":\"b\"}\n";
    let media = "Content-Type: application/x-ndjson\r\n";
    let reply = conn.ask_with("POST", PUBLISH, media, lines).await.is(429, "ERR_LIMITED");
    assert_eq!(reply.json()["results"][1]["status"], 429);
    assert!(reply.header("retry-after").is_some());
    for (path, body) in [
        ("/api/v1/queue/jobs/nack", json!({ "receipt": receipts[0] })),
        ("/api/v1/queue/jobs/reject", json!({ "receipt": receipts[1] })),
        ("/api/v1/queue/jobs/extend", json!({ "receipt": receipts[2], "lease_ms": 1_000 })),
        ("/api/v1/queue/jobs/receive", json!({})),
        ("/api/v1/queue/jobs/pause", json!({})),
        ("/api/v1/queue/jobs/resume", json!({})),
        ("/api/v1/queue/jobs/purge", json!({ "dead": true })),
    ] {
        let reply = conn.ask("POST", path, body.to_string()).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
    }
    assert_eq!(conn.ask("PUT", "/api/v1/queue/new", "").await.status, 201);
    assert_eq!(conn.ask("DELETE", "/api/v1/queue/new", "").await.status, 200);
}

/// Publishers that went on as if they had not been told to wait were refused some 50,000 times a second, and took the
/// processors from those who acknowledge.
#[tokio::test(flavor = "multi_thread")]
async fn q3_who_publishes_before_it_was_told_to_is_refused_slowly() {
    let served = Served::new().await;
    let receipts = at_hard(&served, 1).await;
    let mut conn = served.connect().await;
    let begun = Instant::now();
    for _ in 0..11 {
        conn.ask("POST", PUBLISH, "x").await.is(429, "ERR_LIMITED");
    }
    assert!(begun.elapsed() >= Duration::from_millis(10 * 20), "{:?}", begun.elapsed());
    // All else is not held up, there either.
    let ack = json!({ "receipt": receipts[0] }).to_string();
    assert_eq!(conn.ask("POST", ACK, ack).await.json()["result"], "done");
}
