//! Clients that send their bodies slowly, many at once.

use crate::client::raw;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// What they send.
#[derive(Clone, Copy, Debug)]
pub struct Bodies {
    /// How many clients.
    pub clients: usize,
    /// Bytes of a body.
    pub len: usize,
    /// Bytes that go at once.
    pub step: usize,
    /// The time between two steps.
    pub every: Duration,
    /// Lines of NDJSON, or one payload.
    pub lines: bool,
    /// When they give up.
    pub patience: Duration,
}

/// What became of them: statuses, or how a connection ended; with how many.
pub type Ends = BTreeMap<String, u64>;

/// Sends them to `queue`.
pub async fn crowd(addr: SocketAddr, queue: &str, bodies: Bodies) -> Ends {
    let mut clients = JoinSet::new();
    for index in 0..bodies.clients {
        let path = format!("/api/v1/queue/{queue}/messages");
        clients.spawn(async move { one(addr, &path, bodies, index).await });
    }
    let mut ends = Ends::new();
    while let Some(end) = clients.join_next().await {
        let end = end.unwrap_or_else(|error| format!("a client of ours: {error}"));
        *ends.entry(end).or_default() += 1;
    }
    ends
}

const LINE: usize = 8 << 10;

/// The next bytes of a body: lines, or anything.
fn part(lines: bool, len: usize) -> Vec<u8> {
    if !lines {
        return vec![b'x'; len];
    }
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let left = len - bytes.len();
        // A line has 15 bytes round its payload; what does not make one more goes to this one. At most 1,000 are allowed.
        let line = if left < 2 * LINE { left } else { LINE };
        bytes.extend_from_slice(b"{\"payload\":\"");
        bytes.resize(bytes.len() + line.saturating_sub(15), b'x');
        bytes.extend_from_slice(b"\"}\n");
    }
    bytes
}

async fn one(addr: SocketAddr, path: &str, bodies: Bodies, index: usize) -> String {
    let Ok(mut tcp) = raw::connect(addr).await else { return "not connected".into() };
    let kind = if bodies.lines { "application/x-ndjson" } else { "application/octet-stream" };
    // Half of them do not say how much will come.
    let chunked = index % 2 == 1;
    let head = if chunked {
        format!("POST {path} HTTP/1.1\r\nhost: {addr}\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n").into_bytes()
    } else {
        raw::head(addr, "POST", path, kind, bodies.len)
    };
    let begun = Instant::now();
    if raw::send(&mut tcp, &head).await.is_err() {
        return "cut at the head".into();
    }
    let mut sent = 0;
    while sent < bodies.len && begun.elapsed() < bodies.patience {
        let step = bodies.step.min(bodies.len - sent);
        let mut bytes = part(bodies.lines, step);
        if chunked {
            let mut framed = format!("{step:x}\r\n").into_bytes();
            framed.append(&mut bytes);
            framed.extend_from_slice(b"\r\n");
            bytes = framed;
        }
        // A broker that does not read any more, and does not answer either, is not waited for.
        let written = timeout(bodies.patience, raw::send(&mut tcp, &bytes)).await;
        sent += step;
        if let Some(end) = answered(&mut tcp).await {
            return end;
        }
        match written {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return "cut in the body".into(),
            Err(_) => return "stuck in the body".into(),
        }
        sleep(bodies.every).await;
    }
    if sent < bodies.len {
        return "gave up".into();
    }
    if chunked && raw::send(&mut tcp, b"0\r\n\r\n").await.is_err() {
        return "cut at the end".into();
    }
    let answer = raw::read_all(&mut tcp, Duration::from_secs(2), 2_048).await;
    said(&answer).unwrap_or("no answer".into())
}

/// The status of an answer, with the reason of a refusal.
fn said(answer: &[u8]) -> Option<String> {
    let status = raw::status(answer)?;
    let text = String::from_utf8_lossy(answer);
    let reason = text.split_once("\"reason\":\"").and_then(|(_, rest)| rest.split_once('"'));
    Some(reason.map_or(status.to_string(), |(reason, _)| format!("{status} {reason}")))
}

/// The answer, if there is one already.
async fn answered(tcp: &mut TcpStream) -> Option<String> {
    let mut bytes = [0; 2_048];
    match timeout(Duration::from_millis(1), tcp.read(&mut bytes)).await {
        Ok(Ok(0)) => Some("closed without an answer".into()),
        Ok(Ok(read)) => {
            // The body comes after the head.
            let mut answer = bytes[..read].to_vec();
            answer.extend(raw::read_all(tcp, Duration::from_millis(500), 2_048).await);
            Some(said(&answer).unwrap_or("nonsense".into()))
        }
        Ok(Err(_)) => Some("reset".into()),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_lines_is_whole_lines() {
        for len in [100, 4096, 16 << 10, (16 << 10) + 7] {
            let bytes = part(true, len);
            assert_eq!(bytes.len(), len);
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.ends_with('\n'));
            for line in text.lines() {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                assert!(value["payload"].is_string());
            }
        }
    }
}
