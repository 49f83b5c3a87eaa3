//! Names of queues and consumers.

use crate::client::Served;
use serde_json::{Value, json};

fn encoded(name: &str) -> String {
    name.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn case_j1_a_name_is_never_a_path() {
    let served = Served::new().await;
    let long = "ä".repeat(127);
    let names = [
        "../x",
        "a/../../x",
        "/etc/x",
        "..\\x",
        "CON",
        "con",
        "\u{e4}",
        "a\u{308}",
        "x y",
        "%2e%2e",
        ".hidden",
        "a;b",
        "messages",
        &long,
    ];
    for name in names {
        served.declare(&encoded(name)).await;
        assert_eq!(served.publish(&encoded(name), name).await.status, 201, "{name}");
    }
    // Each is a queue of its own, under exactly its name, with its own message.
    let list = served.ask("GET", "/api/v1/queue", "").await.json();
    let mut listed: Vec<String> = list["queues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|queue| queue["name"].as_str().unwrap().to_owned())
        .collect();
    let mut wanted: Vec<String> = names.iter().map(ToString::to_string).collect();
    listed.sort();
    wanted.sort();
    assert_eq!(listed, wanted);
    for name in names {
        let got = served.receive(&encoded(name), json!({})).await;
        assert_eq!(got["messages"][0]["payload"], name);
    }
    assert_eq!(served.beside(), Vec::<std::path::PathBuf>::new());
    let below = served.below();
    for part in ["etc", "CON", "x y", ".hidden", "a;b", "messages"] {
        assert!(below.iter().all(|had| had != part), "{part} is in {below:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_j1_what_cannot_be_a_name_is_refused_at_every_door() {
    let served = Served::new().await;
    served.declare("jobs").await;
    let mut conn = served.connect().await;
    let long = "x".repeat(300);
    for name in [".", "..", "a\0b", "a\nb", "\u{7f}", "\u{85}", &long] {
        for (method, verb) in
            [("PUT", ""), ("GET", ""), ("POST", "/messages"), ("POST", "/receive")]
        {
            let path = format!("/api/v1/queue/{}{verb}", encoded(name));
            conn.ask(method, &path, "").await.is(400, "INVALID_NAME");
        }
        let ask = json!({ "consumer": name }).to_string();
        conn.ask("POST", "/api/v1/queue/jobs/receive", ask).await.is(400, "INVALID_NAME");
    }
    for segment in ["%", "%2", "%zz", "%ff", "%c3"] {
        let path = format!("/api/v1/queue/{segment}");
        conn.ask("PUT", &path, "").await.is(400, "INVALID_REQUEST");
    }
    // Raw dots and no name at all are no queue's path.
    for path in ["/api/v1/queue/..", "/api/v1/queue/.", "/api/v1/queue/", "/api/v1/queue//messages"]
    {
        conn.ask("PUT", path, "").await.is(404, "NOT_FOUND");
    }
    let list = conn.ask("GET", "/api/v1/queue", "").await.json();
    assert_eq!(list["queues"].as_array().map(Vec::len), Some(1));
    assert_eq!(list["next"], Value::Null);
    assert_eq!(served.beside(), Vec::<std::path::PathBuf>::new());
}

/// A page that began after what cannot be a name was the first page again.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_goes_on_after_any_text() {
    let served = Served::new().await;
    for queue in ["a", "b"] {
        served.declare(queue).await;
    }
    let long = "a".repeat(300);
    for (after, left) in [("%0A", 2), (long.as_str(), 1), ("b%0A", 0)] {
        let reply = served.ask("GET", &format!("/api/v1/queue?after={after}"), "").await.json();
        assert_eq!(reply["queues"].as_array().unwrap().len(), left, "{after}: {reply}");
    }
}
