//! A broker whose disk fails, so that the owner of a shard takes no commands.

use crate::client::{Served, request, until};
use plimsoll::fs::sim::{Fault as Bad, OpKind, SimFileSystem, What};
use plimsoll_broker::broker::{Broker, BrokerOptions};
use std::sync::Arc;
use std::time::Duration;

const PUBLISH: &str = "/api/v1/queue/jobs/messages";
/// Of bodies of publishes.
const BUDGET: u64 = 1 << 20;

async fn start(fs: &SimFileSystem) -> Broker {
    let mut options = BrokerOptions::new(vec!["/data".into()]);
    options.node.segment_size = 1 << 20;
    options.answer_max = Duration::from_millis(500);
    options.fs = Some(Arc::new(fs.clone()));
    Broker::start(options).await.unwrap()
}

/// A queue `jobs` whose owner answers nobody until the faults of the file system are cleared.
async fn stuck(seed: u64) -> (Served, SimFileSystem) {
    let fs = SimFileSystem::new(seed);
    fs.prepare_dir("/data").unwrap();
    let first = Served::over(start(&fs).await, tempfile::tempdir().unwrap(), |_| {});
    first.declare("jobs").await;
    // So that there is a log already.
    assert_eq!(first.publish("jobs", "before").await.status, 201);
    let Served { server, broker, .. } = first;
    server.stop().await;
    broker.stop().await;
    drop(broker);
    // Started once more, a broker has its files open under the names that they have in their logs, which faults go by.
    let limit = |http: &mut plimsoll_broker::http::HttpOptions| http.body_budget = Some(BUDGET);
    let served = Served::over(start(&fs).await, tempfile::tempdir().unwrap(), limit);
    for kind in [OpKind::Write, OpKind::Sync, OpKind::Rename, OpKind::List] {
        fs.inject(Bad::nth(kind, 0, What::Errno(5)).on("events/").forever());
    }
    // What finds the events failing.
    let reply = served.ask("POST", "/api/v1/queue/jobs/pause", "").await;
    assert!(matches!(reply.status, 503 | 504), "{reply:?}");
    until("its owner takes no commands", async || {
        served.broker.show(&plimsoll_broker::name::QueueName::new("jobs").unwrap()).await.is_err()
    })
    .await;
    (served, fs)
}

async fn free(served: &Served) -> u64 {
    let node = served.ask("GET", "/api/v1/node", "").await.json();
    node["http"]["body_budget_free_bytes"].as_u64().unwrap()
}

/// The memory of a publish came back when its client left, while its messages were still here: a client that reset its streams
/// again and again made the process grow without end.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_leave_give_no_memory_back_that_their_messages_still_take() {
    let (served, fs) = stuck(11).await;
    let (body, count) = (vec![b'x'; 200 << 10], 5);
    let lines = format!("{{\"payload\":\"{}\"}}\n", "y".repeat(100 << 10));
    let media = "Content-Type: application/x-ndjson\r\n";
    let least = BUDGET - count * (200 << 10);
    // By both ways in; lines count twice.
    let mut sent = Vec::new();
    for at in 0..count {
        let mut conn = served.connect().await;
        conn.send(match at {
            0 => request("POST", PUBLISH, media, lines.as_bytes()),
            _ => request("POST", PUBLISH, "", &body),
        })
        .await;
        sent.push(conn);
    }
    until("all are under way", async || free(&served).await <= least).await;
    // Whole bodies have come: the owner has them. The clients leave, by closing their connections.
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(sent);
    until("they are gone", async || {
        served.ask("GET", "/api/v1/node", "").await.json()["http"]["connections"] == 1
    })
    .await;
    assert!(free(&served).await <= least, "{} are free", free(&served).await);
    // And one of HTTP/2 that resets its stream.
    let mut http2 = served.http2().await;
    let more = http2.start("POST", PUBLISH, vec![b'z'; 5 << 10].into());
    assert!(tokio::time::timeout(Duration::from_millis(100), more).await.is_err());
    assert!(free(&served).await <= least, "{} are free", free(&served).await);
    served.publish("jobs", vec![b'x'; 100 << 10]).await.is(429, "ERR_LIMITED");
    // Nor does the answer that there is no answer.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(free(&served).await <= least, "{} are free", free(&served).await);
    fs.clear_faults();
    until("all is given back", async || free(&served).await == BUDGET).await;
    // They were published all the same.
    until("all are stored", async || {
        served.show("jobs").await["messages"]["ready"].as_u64() >= Some(1 + count)
    })
    .await;
}

/// It is not known whether a change was made that had no answer; of a look that is no question.
#[tokio::test(flavor = "multi_thread")]
async fn what_only_reads_is_told_that_it_was_not_done() {
    let (served, fs) = stuck(12).await;
    let document = served.ask("GET", "/openapi.json", "").await.json();
    for part in ["", "/messages", "/explain", "/consumers"] {
        let reply = served.ask("GET", &format!("/api/v1/queue/jobs{part}"), "").await;
        let reply = reply.is(503, "ERR_UNAVAILABLE");
        assert_eq!(reply.header("retry-after"), Some("1"));
        let documented = &document["paths"][format!("/api/v1/queue/{{queue}}{part}")]["get"];
        assert!(documented["responses"]["503"].is_object(), "{part}: {documented}");
        assert!(documented["responses"]["504"].is_null(), "{part}: {documented}");
    }
    let changes = ["pause", "purge"];
    for change in changes {
        let reply = served.ask("POST", &format!("/api/v1/queue/jobs/{change}"), "").await;
        reply.is(504, "ERR_OUTCOME_UNKNOWN");
    }
    fs.clear_faults();
}
