//! Every route as it is documented, and no other.

use crate::client::Served;
use serde_json::{Value, json};

/// A body with which a route succeeds, or is refused for what it names.
fn body(method: &str, path: &str) -> &'static str {
    match path.rsplit('/').next().unwrap() {
        "ack" | "nack" | "reject" => r#"{"receipts":["x"]}"#,
        "extend" => r#"{"receipts":["x"],"lease_ms":1000}"#,
        "limits" if method == "PATCH" => r#"{"slow":{"max_delay":"40ms"}}"#,
        _ => "",
    }
}

async fn operations(served: &Served) -> Vec<(String, String, Value)> {
    let document = served.ask("GET", "/openapi.json", "").await.json();
    let paths = document["paths"].as_object().unwrap().clone();
    let mut all = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            all.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    // What deletes comes last, so that all others find their queue.
    all.sort_by_key(|(method, _, _)| method == "DELETE");
    assert!(all.len() >= 25, "{}", all.len());
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_as_it_is_documented() {
    let served = Served::new().await;
    for queue in ["a%2Fb", "jobs"] {
        for (method, path, operation) in operations(&served).await {
            let path = path.replace("{queue}", queue);
            if method != "PUT" && path.ends_with(queue) && method == "GET" {
                served.ask("PUT", &path, "").await;
            }
            let mut conn = served.connect().await;
            let reply = conn.ask(&method, &path, body(&method, &path)).await;
            let answers = &operation["responses"];
            let documented = &answers[reply.status.to_string()];
            assert!(documented.is_object(), "{method} {path}: {reply:?}");
            assert!(reply.status < 300, "{method} {path}: {reply:?}");
            assert!(reply.header("x-request-id").is_some_and(|id| !id.is_empty()));
            for header in documented["headers"].as_object().unwrap().keys() {
                let optional = header == "Retry-After";
                let there = reply.header(&header.to_ascii_lowercase()).is_some();
                assert!(there || optional, "{path}: {header}");
            }
            if method == "GET" {
                let head = conn.ask("HEAD", &path, "").await;
                assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
                assert!(head.header("content-length").is_some());
                let next = conn.ask("GET", "/healthz", "").await;
                assert_eq!(&next.body[..], b"ok\n", "HEAD has no body");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_j4_no_other_spelling_and_no_other_method_reaches_a_route() {
    let served = Served::new().await;
    served.declare("jobs").await;
    let operations = operations(&served).await;
    let mut conn = served.connect().await;
    for (method, path, _) in &operations {
        let path = path.replace("{queue}", "jobs");
        let variants = [
            format!("{path}/"),
            format!("{path}//"),
            format!("{path}/."),
            format!("{path}/x/.."),
            format!("/{path}"),
            format!("/.{path}"),
            format!("/x/..{path}"),
            format!("{path};a=b"),
            path.to_uppercase(),
            path.replace("/api", "/%61pi"),
            path.replace("/v1/", "/v1%2f"),
            path.replace("/v1/", "/v1//"),
            path.replace("/v1/", "/v1/./"),
        ];
        // `//` is `/` with a slash too many, and `/` has no variant in capitals.
        for variant in variants.iter().filter(|variant| **variant != path) {
            let reply = conn.ask(method, variant, body(method, &path)).await;
            assert_eq!(reply.status, 404, "{method} {variant}: {reply:?}");
            assert_eq!(reply.code(), "NOT_FOUND");
        }
    }
    for path in operations.iter().map(|(_, path, _)| path) {
        let has = |wanted: &str| {
            operations.iter().any(|(method, other, _)| (method.as_str(), other) == (wanted, path))
        };
        let at = path.replace("{queue}", "jobs");
        for method in ["GET", "PUT", "POST", "PATCH", "DELETE", "OPTIONS", "TRACE", "X-NEW"] {
            if has(method) {
                continue;
            }
            let override_header = "X-HTTP-Method-Override: GET\r\nX-Method-Override: DELETE\r\n";
            let reply = conn.ask_with(method, &at, override_header, "").await;
            let reply = reply.is(405, "METHOD_NOT_ALLOWED");
            let allow: Vec<&str> = reply.header("allow").unwrap().split(", ").collect();
            assert!(allow.iter().filter(|method| **method != "HEAD").all(|method| has(method)));
            assert_eq!(allow.contains(&"HEAD"), has("GET"));
        }
    }
    assert_eq!(served.show("jobs").await["revision"], 1, "nothing has touched it");
}

#[tokio::test(flavor = "multi_thread")]
async fn case_j4_a_request_is_for_this_server_or_for_none() {
    let served = Served::with(|http| http.hosts.push("queue.example".into())).await;
    let ask = async |bytes: &str| {
        let mut conn = served.connect().await;
        conn.send(bytes).await;
        let reply = conn.reply().await;
        (reply.status, reply.code())
    };
    let get = async |host: &str| {
        ask(&format!("GET /api/v1/queue HTTP/1.1\r\nHost: {host}\r\n\r\n")).await.0
    };
    for host in ["localhost:1", "127.0.0.1", "[::1]:7272", "QUEUE.example"] {
        assert_eq!(get(host).await, 200, "{host}");
    }
    for host in ["evil.example", "192.0.2.1", "localhost.evil.example:7272"] {
        assert_eq!(get(host).await, 421, "{host}");
    }
    let misdirected = (421, "MISDIRECTED".to_owned());
    let bad = (400, "BAD_HOST".to_owned());
    assert_eq!(ask("GET / HTTP/1.0\r\n\r\n").await, misdirected);
    assert_eq!(ask("GET / HTTP/1.1\r\n\r\n").await, bad);
    assert_eq!(ask("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n").await, bad);
    assert_eq!(ask("GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n").await, bad);
    let mut other = served.http2().await;
    assert_eq!(other.ask("GET", "/healthz", "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_page_changes_nothing() {
    let served = Served::new().await;
    let mut conn = served.connect().await;
    for headers in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: http://localhost:3000\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
    ] {
        let reply = conn.ask_with("PUT", "/api/v1/queue/jobs", headers, "").await;
        reply.is(403, "FOREIGN_ORIGIN");
        let reply = conn.ask_with("GET", "/api/v1/queue/jobs", headers, "").await;
        let reply = reply.is(404, "QUEUE_NOT_FOUND");
        assert!(reply.headers.iter().all(|(name, _)| !name.starts_with("access-control")));
    }
    let own = "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n";
    assert_eq!(conn.ask_with("PUT", "/api/v1/queue/jobs", own, "").await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_declared_changed_listed_and_deleted() {
    let served = Served::new().await;
    let mut conn = served.connect().await;
    let path = "/api/v1/queue/jobs";
    let reply = conn.ask("PUT", path, r#"{"max_attempts":3}"#).await;
    assert_eq!((reply.status, reply.header("etag")), (201, Some("\"1\"")));
    let reply = conn.ask("PUT", path, r#"{"max_attempts":3}"#).await;
    assert_eq!((reply.status, reply.json()["result"].clone()), (200, json!("same")));
    let reply = conn.ask("PUT", path, r#"{"max_attempts":4}"#).await.is(409, "QUEUE_EXISTS");
    assert_eq!(reply.json()["details"], json!({ "queue": "jobs", "revision": 1 }));
    let other = "If-Match: \"7\"\r\n";
    conn.ask_with("PUT", path, other, r#"{"max_attempts":4}"#).await.is(412, "REVISION_MISMATCH");
    conn.ask_with("PUT", "/api/v1/queue/x", other, "").await.is(412, "REVISION_MISMATCH");
    let reply = conn.ask_with("PUT", path, "If-Match: \"1\"\r\n", r#"{"max_attempts":4}"#).await;
    assert_eq!((reply.status, reply.header("etag")), (200, Some("\"2\"")));
    assert_eq!(served.show("jobs").await["settings"]["max_attempts"], 4);
    for wrong in [r#"{"max_attempts":0}"#, r#"{"attempts":1}"#, "[]", "{", r#"{"lease_ms":-1}"#] {
        conn.ask("PUT", "/api/v1/queue/y", wrong).await.is(400, "INVALID_REQUEST");
    }
    for queue in ["a", "b", "c"] {
        served.declare(queue).await;
    }
    let page = conn.ask("GET", "/api/v1/queue?limit=2&after=a", "").await.json();
    let names: Vec<&Value> =
        page["queues"].as_array().unwrap().iter().map(|q| &q["name"]).collect();
    assert_eq!((names, &page["next"]), (vec![&json!("b"), &json!("c")], &json!("c")));
    let page = conn.ask("GET", "/api/v1/queue?after=c", "").await.json();
    assert_eq!((page["queues"].as_array().unwrap().len(), &page["next"]), (1, &Value::Null));
    conn.ask("GET", "/api/v1/queue?limit=0", "").await.is(400, "INVALID_REQUEST");
    conn.ask_with("DELETE", path, "If-Match: 1\r\n", "").await.is(412, "REVISION_MISMATCH");
    let reply = conn.ask("DELETE", path, "").await;
    assert_eq!((reply.status, &reply.json()["messages"]["ready"]), (200, &json!(0)));
    conn.ask("DELETE", path, "").await.is(404, "QUEUE_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_read_and_changed_live() {
    let served = Served::new().await;
    let mut conn = served.connect().await;
    let patch = r#"{"slow":{"max_delay":"7ms"}}"#;
    let reply = conn.ask("PATCH", "/api/v1/limits", patch).await;
    assert_eq!((reply.status, &reply.json()["slow"]["max_delay"]), (200, &json!("7ms")));
    assert_eq!(served.broker.nodes()[0].limits().slow.max_delay.as_millis(), 7);
    let wrong = r#"{"slow":{"max_delay":"7h"},"disk":{"soft":{"share":"50%"}}}"#;
    conn.ask("PATCH", "/api/v1/limits", wrong).await.is(400, "INVALID_REQUEST");
    let now = conn.ask("GET", "/api/v1/limits", "").await.json();
    assert_eq!(
        (&now["slow"]["max_delay"], &now["disk"]["soft"]["share"]),
        (&json!("7ms"), &json!("10%"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_tell_of_disks_queues_and_requests() {
    let served = Served::new().await;
    served.declare("a%22b").await;
    assert_eq!(served.publish("a%22b", "x").await.status, 201);
    let text = served.ask("GET", "/metrics", "").await;
    assert_eq!(text.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = String::from_utf8(text.body.to_vec()).unwrap();
    for line in [
        "plimsoll_queue_ready{queue=\"a\\\"b\"} 1",
        "plimsoll_published_total 1",
        "plimsoll_queues_left_out 0",
        "plimsoll_memory_level 0",
    ] {
        assert!(text.lines().any(|had| had == line), "{line} is not in {text}");
    }
    for name in [
        "\nplimsoll_http_connections ",
        "plimsoll_disk_level{dir=",
        "plimsoll_publishes_refused_total{dir=",
    ] {
        assert!(text.contains(name), "{name} is not in {text}");
    }
    // Each family is named once, before its samples.
    let families: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let mut once = families.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), families.len());
}
