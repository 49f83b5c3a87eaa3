//! Clients that leave before they have their messages.

use crate::client::{Served, request, until};
use serde_json::{Value, json};
use std::time::Duration;

async fn waiting(served: &Served) -> u64 {
    served.show("jobs").await["waiting"].as_u64().unwrap()
}

fn poll(max: u64) -> Vec<u8> {
    let ask = json!({ "max": max, "wait_ms": 60_000 }).to_string();
    request("POST", "/api/v1/queue/jobs/receive", "", ask.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_whose_client_has_left_gets_nothing() {
    let served = Served::new().await;
    served.declare("jobs").await;
    let mut conn = served.connect().await;
    conn.send(poll(1)).await;
    let http2 = served.http2().await;
    let ask = json!({ "wait_ms": 60_000 }).to_string();
    let mut stream = http2.clone();
    let stream =
        tokio::spawn(async move { stream.ask("POST", "/api/v1/queue/jobs/receive", ask).await });
    until("both wait", async || waiting(&served).await == 2).await;
    // One by closing its connection, one by resetting its stream alone.
    drop(conn);
    stream.abort();
    until("nobody waits", async || waiting(&served).await == 0).await;
    assert_eq!(http2.clone().ask("GET", "/healthz", "").await.status, 200);
    assert_eq!(served.publish("jobs", "a").await.status, 201);
    let got = served.receive("jobs", json!({ "wait_ms": 10_000 })).await;
    assert_eq!(got["messages"][0]["attempts"], 1, "{got}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_that_their_client_did_not_take_cost_no_attempt() {
    let served = Served::new().await;
    served.declare("jobs").await;
    // More than sockets hold.
    let payload = vec![b'x'; 256 << 10];
    for _ in 0..16 {
        assert_eq!(served.publish("jobs", &payload).await.status, 201);
    }
    let in_flight = async || served.show("jobs").await["messages"]["in_flight"].as_u64().unwrap();
    for round in 0..3 {
        let mut conn = served.connect_small().await;
        conn.send(poll(16)).await;
        until("they are on their way", async || in_flight().await > 0).await;
        tokio::time::sleep(Duration::from_millis(20 * round)).await;
        drop(conn);
        until("they are ready again", async || in_flight().await == 0).await;
    }
    assert!(served.broker.stats().undone >= 3);
    for at in 1..=16 {
        let got = served.receive("jobs", json!({ "wait_ms": 10_000 })).await;
        let message = &got["messages"][0];
        let id = json!(at.to_string());
        assert_eq!((&message["attempts"], &message["id"]), (&json!(1), &id));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_of_its_answer_is_cut_off() {
    let served = Served::with(|http| http.timers.answer_idle = Duration::from_millis(300)).await;
    served.declare("jobs").await;
    for _ in 0..16 {
        assert_eq!(served.publish("jobs", vec![b'x'; 256 << 10]).await.status, 201);
    }
    let mut conn = served.connect_small().await;
    conn.send(poll(16)).await;
    // The client stays, and does not read.
    until("it is undone", async || served.broker.stats().undone > 0).await;
    assert_eq!(served.show("jobs").await["messages"]["ready"], 16);
    let undone = served.broker.stats().undone;
    drop(conn);
    // The same with windows of HTTP/2, which close while the connection is well.
    let mut http2 = served.http2().await;
    let ask = json!({ "max": 16, "wait_ms": 10_000 }).to_string();
    let response = http2.start("POST", "/api/v1/queue/jobs/receive", ask.into()).await.unwrap();
    assert_eq!(response.status(), 200);
    until("it is undone", async || served.broker.stats().undone > undone).await;
    drop(response);
    let got = served.receive("jobs", json!({ "wait_ms": 10_000 })).await;
    assert_eq!(got["messages"][0]["attempts"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_takes_do_not_fill_the_memory() {
    let served = Served::with(|http| {
        http.body_budget = Some(300 << 10);
        http.timers.room = Duration::from_millis(300);
    })
    .await;
    served.declare("jobs").await;
    for _ in 0..16 {
        assert_eq!(served.publish("jobs", vec![b'x'; 256 << 10]).await.status, 201);
    }
    let mut stuck = served.connect_small().await;
    stuck.send(poll(2)).await;
    let in_flight = async || served.show("jobs").await["messages"]["in_flight"].as_u64().unwrap();
    until("it has its answer", async || in_flight().await > 0).await;
    let held = in_flight().await;
    // Its first bytes are here: it holds the memory.
    assert_eq!(stuck.head().await.status, 200);
    let mut conn = served.connect().await;
    let receive = "/api/v1/queue/jobs/receive";
    conn.ask("POST", receive, r#"{"max":2}"#).await.is(503, "ERR_UNAVAILABLE");
    until("nothing is leased to it", async || in_flight().await == held).await;
    drop(stuck);
    until("all are ready again", async || in_flight().await == 0).await;
    let got = conn.ask("POST", receive, r#"{"wait_ms":10000}"#).await.json();
    assert_eq!(got["messages"][0]["attempts"], 1, "{got}");
}

/// Messages on their way were counted by their size and a third, and quotation marks take two bytes each.
#[tokio::test(flavor = "multi_thread")]
async fn answers_take_the_memory_that_they_have_as_json() {
    let served = Served::with(|http| {
        http.body_budget = Some(700 << 10);
        http.timers.room = Duration::from_millis(300);
    })
    .await;
    served.declare("jobs").await;
    served.declare("others").await;
    assert_eq!(served.publish("jobs", vec![b'"'; 256 << 10]).await.status, 201);
    assert_eq!(served.publish("others", vec![b'x'; 200 << 10]).await.status, 201);
    for ask in [poll(1), request("GET", "/api/v1/queue/jobs/messages", "", b"")] {
        let mut stuck = served.connect_small().await;
        stuck.send(ask).await;
        // Its first bytes are here: it holds the memory.
        assert_eq!(stuck.head().await.status, 200);
        // 512 KiB and 200 KiB: too much. By their sizes there would be room.
        for (method, path) in [("POST", "receive"), ("GET", "messages")] {
            let path = format!("/api/v1/queue/others/{path}");
            served.ask(method, &path, "").await.is(503, "ERR_UNAVAILABLE");
        }
        drop(stuck);
        until("the memory is given back", async || {
            served.ask("GET", "/api/v1/queue/others/messages", "").await.status == 200
        })
        .await;
    }
    let got = served.receive("others", json!({ "wait_ms": 10_000 })).await;
    assert_eq!(got["messages"][0]["attempts"], 1, "{got}");
}

/// At the moment of the assignment, whichever comes first: the message is with its client, or with nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_while_it_is_served_loses_no_message() {
    let served = Served::new().await;
    let declared =
        served.ask("PUT", "/api/v1/queue/jobs", r#"{"lease_ms":200,"max_attempts":1000}"#);
    assert_eq!(declared.await.status, 201);
    for round in 0..30_u64 {
        let mut conn = served.connect().await;
        conn.send(poll(1)).await;
        until("it waits", async || waiting(&served).await == 1).await;
        let published = tokio::spawn({
            let (broker, delay) = (served.broker.clone(), Duration::from_micros(round * 150));
            async move {
                drop(broker);
                tokio::time::sleep(delay).await;
                drop(conn);
            }
        });
        assert_eq!(served.publish("jobs", round.to_string()).await.status, 201);
        published.await.unwrap();
        // Whatever was leased to who left comes back by its lease, and nothing else is late.
        let got = served.receive("jobs", json!({ "wait_ms": 10_000 })).await;
        let message = &got["messages"][0];
        assert_eq!(message["payload"], json!(round.to_string()), "{got}");
        assert!(message["attempts"].as_u64().unwrap() <= 2, "{got}");
        let ack = json!({ "receipt": message["receipt"] }).to_string();
        let reply = served.ask("POST", "/api/v1/queue/jobs/ack", ack).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let view = served.show("jobs").await;
    assert_eq!(
        (&view["messages"]["ready"], &view["messages"]["dead"]),
        (&Value::from(0), &Value::from(0))
    );
}
