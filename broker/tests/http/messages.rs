//! Messages there and back.

use crate::client::Served;
use serde_json::{Value, json};

const PUBLISH: &str = "/api/v1/queue/jobs/messages";
const LINES: &str = "Content-Type: application/x-ndjson\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_message_comes_back_as_it_was_published() {
    let served = Served::new().await;
    served.declare("jobs").await;
    let mut conn = served.connect().await;
    let headers = "Content-Type: text/plain; charset=utf-8\r\nPlimsoll-Correlation-Id: c-1\r\n\
                   Plimsoll-Headers: {\"z\":\"1\",\"a\":\"\\u00e4\"}\r\n";
    let reply = conn.ask_with("POST", PUBLISH, headers, "h\u{e9}llo").await;
    assert_eq!(reply.status, 201);
    let size = 6 + "text/plain; charset=utf-8c-1z1a\u{e4}".len();
    assert_eq!(reply.json(), json!({ "id": "1", "bytes": size, "duplicate": false }));
    assert_eq!(conn.ask("POST", PUBLISH, [0xff, 0x00]).await.status, 201);
    let peeked = conn.ask("GET", &format!("{PUBLISH}?max=5"), "").await;
    assert_eq!(peeked.json()["messages"].as_array().map(Vec::len), Some(2));
    let got = served.receive("jobs", json!({ "max": 5, "consumer": "me", "lease_ms": 5000 })).await;
    let [first, second] = got["messages"].as_array().unwrap().as_slice() else { panic!("{got}") };
    assert_eq!((&first["id"], &first["payload"]), (&json!("1"), &json!("h\u{e9}llo")));
    assert_eq!(first["content_type"], "text/plain; charset=utf-8");
    assert_eq!(first["correlation_id"], "c-1");
    assert_eq!(first["headers"], json!({ "z": "1", "a": "\u{e4}" }));
    assert_eq!((&first["attempts"], &first["lease_ms"]), (&json!(1), &json!(5000)));
    assert_eq!((&second["payload"], &second["payload_base64"]), (&Value::Null, &json!("/wA=")));
    assert_eq!((&got["reason"], &second["content_type"]), (&Value::Null, &Value::Null));
    let consumers = conn.ask("GET", "/api/v1/queue/jobs/consumers", "").await.json();
    assert_eq!(consumers["consumers"][0]["name"], "me");
    assert_eq!(consumers["consumers"][0]["in_flight"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_are_answered_definitely_one_by_one_and_together() {
    let served = Served::new().await;
    served.declare("jobs").await;
    served.declare("other").await;
    let mut conn = served.connect().await;
    for payload in ["a", "b", "c"] {
        assert_eq!(conn.ask("POST", PUBLISH, payload).await.status, 201);
    }
    let got = served.receive("jobs", json!({ "max": 3 })).await;
    let receipt = |at: usize| got["messages"][at]["receipt"].clone();
    let verb = |verb: &str| format!("/api/v1/queue/jobs/{verb}");
    let one = |receipt: Value| json!({ "receipt": receipt }).to_string();
    let reply = conn.ask("POST", &verb("ack"), one(receipt(0))).await;
    assert_eq!((reply.status, reply.json()), (200, json!({ "result": "done" })));
    let reply = conn.ask("POST", &verb("ack"), one(receipt(0))).await;
    assert_eq!((reply.status, reply.json()), (200, json!({ "result": "already" })));
    conn.ask("POST", &verb("nack"), one(receipt(0))).await.is(410, "GONE");
    conn.ask("POST", &verb("ack"), one(json!("x"))).await.is(404, "RECEIPT_FOREIGN");
    let other = "/api/v1/queue/other/ack";
    conn.ask("POST", other, one(receipt(1))).await.is(404, "RECEIPT_FOREIGN");
    let both = json!({ "receipts": [receipt(1), "x", receipt(0)] }).to_string();
    let reply = conn.ask("POST", &verb("ack"), both).await;
    assert_eq!(reply.json(), json!({ "results": ["done", "foreign", "already"] }));
    let longer = json!({ "receipt": receipt(2), "lease_ms": 60_000 }).to_string();
    assert_eq!(conn.ask("POST", &verb("extend"), longer).await.json()["result"], "done");
    // Malformed: none is applied.
    for wrong in [
        json!({ "receipts": [receipt(2), 5] }),
        json!({ "receipts": [] }),
        json!({ "receipts": vec!["x"; 1_001] }),
        json!({ "receipt": receipt(2), "receipts": [receipt(2)] }),
        json!({ "receipt": receipt(2), "other": 1 }),
        json!({}),
    ] {
        conn.ask("POST", &verb("ack"), wrong.to_string()).await.is(400, "INVALID_REQUEST");
    }
    assert_eq!(served.show("jobs").await["messages"]["in_flight"], 1);
    let reply = conn.ask("POST", &verb("reject"), one(receipt(2))).await;
    assert_eq!(reply.json()["result"], "done");
    assert_eq!(served.show("jobs").await["messages"]["dead"], 1);
    let reply = conn.ask("POST", &verb("purge"), r#"{"dead":true}"#).await;
    assert_eq!(reply.status, 200);
    assert_eq!(served.show("jobs").await["messages"]["dead"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_stored_in_order_or_not_at_all() {
    let served = Served::new().await;
    served.declare("jobs").await;
    let mut conn = served.connect().await;
    let lines: String = (0..5).map(|at| format!("{{\"payload\":\"{at}\"}}\n")).collect();
    let wrong = format!("{lines}{{\"payload\":5}}\n");
    let reply = conn.ask_with("POST", PUBLISH, LINES, wrong).await.is(400, "INVALID_REQUEST");
    assert!(reply.json()["message"].as_str().unwrap().starts_with("line 6: "));
    let large = json!({ "payload": "x".repeat(262_145) }).to_string();
    let large = format!("{lines}{large}\n");
    conn.ask_with("POST", PUBLISH, LINES, large).await.is(413, "PAYLOAD_TOO_LARGE");
    assert_eq!(served.show("jobs").await["depth"], 0, "nothing is stored");
    let reply = conn.ask_with("POST", PUBLISH, LINES, lines).await;
    assert_eq!(reply.status, 200);
    let results = reply.json()["results"].clone();
    assert_eq!(results.as_array().map(Vec::len), Some(5));
    assert_eq!(results[4], json!({ "status": 201, "id": "5", "bytes": 1, "duplicate": false }));
    let got = served.receive("jobs", json!({ "max": 32 })).await;
    let payloads = got["messages"].as_array().unwrap().iter().map(|message| &message["payload"]);
    assert_eq!(payloads.collect::<Vec<_>>(), ["0", "1", "2", "3", "4"]);
}

/// The error of all lines had an empty `request_id`.
#[tokio::test(flavor = "multi_thread")]
async fn lines_that_all_fail_alike_name_their_request() {
    let served = Served::new().await;
    let path = "/api/v1/queue/full";
    let one = json!({ "max_queue_depth": 1 }).to_string();
    assert_eq!(served.ask("PUT", path, one).await.status, 201);
    assert_eq!(served.publish("full", "a").await.status, 201);
    let two = "{\"payload\":\"b\"}\n{\"payload\":\"c\"}\n";
    let headers = "Content-Type: application/x-ndjson\r\n";
    let path = "/api/v1/queue/full/messages";
    let reply = served.connect().await.ask_with("POST", path, headers, two).await;
    let reply = reply.is(429, "QUEUE_FULL");
    let id = reply.header("x-request-id").unwrap();
    assert_eq!(reply.json()["request_id"], id);
}

/// A key that came as a header of many lines was passed over in silence, and a repeat stored all of them twice.
#[tokio::test(flavor = "multi_thread")]
async fn the_headers_of_one_message_are_refused_with_lines() {
    let served = Served::new().await;
    served.declare("jobs").await;
    for name in ["Idempotency-Key", "Plimsoll-Headers", "Plimsoll-Correlation-Id"] {
        let headers = format!("Content-Type: application/x-ndjson\r\n{name}: {{}}\r\n");
        let path = "/api/v1/queue/jobs/messages";
        let reply =
            served.connect().await.ask_with("POST", path, &headers, "{\"payload\":\"a\"}").await;
        reply.is(400, "INVALID_REQUEST");
    }
    assert_eq!(served.show("jobs").await["depth"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_stored_once() {
    let served = Served::new().await;
    served.declare("jobs").await;
    let mut conn = served.connect().await;
    let key = "Idempotency-Key: k\r\n";
    assert_eq!(conn.ask_with("POST", PUBLISH, key, "a").await.status, 201);
    let again = conn.ask_with("POST", PUBLISH, key, "a").await;
    assert_eq!((again.status, &again.json()["duplicate"]), (200, &json!(true)));
    conn.ask_with("POST", PUBLISH, key, "b").await.is(409, "IDEMPOTENCY_KEY_REUSED");
    let long = format!("Idempotency-Key: {}\r\n", "k".repeat(256));
    conn.ask_with("POST", PUBLISH, &long, "b").await.is(400, "INVALID_REQUEST");
    let twice = "Idempotency-Key: k\r\nIdempotency-Key: l\r\n";
    conn.ask_with("POST", PUBLISH, twice, "b").await.is(400, "INVALID_REQUEST");
    let wrong = "Plimsoll-Headers: [1]\r\n";
    conn.ask_with("POST", PUBLISH, wrong, "b").await.is(400, "INVALID_REQUEST");
    let many = format!("Plimsoll-Headers: {{\"a\":\"{}\"}}\r\n", "x".repeat(4_096));
    conn.ask_with("POST", PUBLISH, &many, "b").await.is(400, "HEADERS_TOO_LARGE");
    conn.ask("POST", "/api/v1/queue/none/messages", "b").await.is(404, "QUEUE_NOT_FOUND");
    assert_eq!(served.show("jobs").await["depth"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_a_refusal_with_a_hint_and_who_waits_is_told_why() {
    let served = Served::new().await;
    let mut conn = served.connect().await;
    assert_eq!(conn.ask("PUT", "/api/v1/queue/jobs", r#"{"max_queue_depth":2}"#).await.status, 201);
    for _ in 0..2 {
        assert_eq!(conn.ask("POST", PUBLISH, "a").await.status, 201);
    }
    let reply = conn.ask("POST", PUBLISH, "a").await.is(429, "QUEUE_FULL");
    assert_eq!(reply.header("retry-after"), Some("5"));
    let body = reply.json();
    assert_eq!((&body["error"], &body["reason"]), (&json!("ERR_LIMITED"), &json!("queue_full")));
    let details = json!({ "queue": "jobs", "depth": 2, "limit": 2, "setting": "max_queue_depth" });
    assert_eq!((&body["details"], &body["retry_after_ms"]), (&details, &json!(5_000)));
    let explained = conn.ask("GET", "/api/v1/queue/jobs/explain", "").await.json();
    assert_eq!(explained["publish"][0]["reason"], "queue_full");
    let reply = conn.ask("POST", "/api/v1/queue/jobs/pause", "").await;
    assert_eq!(reply.json(), json!({ "paused": true, "changed": true }));
    assert_eq!(served.receive("jobs", json!({})).await["reason"], "paused");
    assert_eq!(conn.ask("POST", "/api/v1/queue/jobs/resume", "").await.status, 200);
    assert_eq!(served.receive("jobs", json!({ "max": 2 })).await["messages"][1]["payload"], "a");
    assert_eq!(served.receive("jobs", json!({})).await["reason"], "empty");
}
