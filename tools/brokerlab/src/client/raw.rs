//! Requests by hand, for clients that misbehave.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The head of an HTTP/1.1 request with a body of `len` bytes.
#[must_use]
pub fn head(addr: SocketAddr, method: &str, path: &str, kind: &str, len: usize) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {addr}\r\ncontent-type: {kind}\r\ncontent-length: {len}\r\n\r\n"
    )
    .into_bytes()
}

/// Connects.
///
/// # Errors
/// Of the socket.
pub async fn connect(addr: SocketAddr) -> std::io::Result<TcpStream> {
    let tcp = timeout(Duration::from_secs(10), TcpStream::connect(addr)).await??;
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

/// Sends all.
///
/// # Errors
/// Of the socket.
pub async fn send(tcp: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    tcp.write_all(bytes).await
}

/// Reads until the other side closes or `wait` is over, at most `max` bytes; what came.
pub async fn read_all(tcp: &mut TcpStream, wait: Duration, max: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut part = [0; 16 << 10];
    let end = tokio::time::Instant::now() + wait;
    while bytes.len() < max {
        match tokio::time::timeout_at(end, tcp.read(&mut part)).await {
            Ok(Ok(read)) if read > 0 => bytes.extend_from_slice(&part[..read]),
            _ => break,
        }
    }
    bytes
}

/// The status of an answer, if its first line is there.
#[must_use]
pub fn status(bytes: &[u8]) -> Option<u16> {
    let line = bytes.get(..12)?;
    std::str::from_utf8(line).ok()?.strip_prefix("HTTP/1.1 ")?.parse().ok()
}

/// Closes with a reset, so that the other side learns at once that nobody is there.
pub fn reset(tcp: TcpStream) {
    if let Ok(std) = tcp.into_std() {
        let socket = socket2::Socket::from(std);
        let _ = socket.set_linger(Some(Duration::ZERO));
    }
}
