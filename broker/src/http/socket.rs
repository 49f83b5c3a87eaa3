//! A connection's bytes, watched. The socket is shared, so that what a client still sends can be read after the server is
//! done with it.

use super::watch::Peer;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// See the top of the file.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Arc<TcpStream>,
    peer: Arc<Peer>,
}

impl Socket {
    pub(super) fn new(stream: Arc<TcpStream>, peer: Arc<Peer>) -> Self {
        Self { stream, peer }
    }
}

/// Ends the sending side.
fn end(stream: &TcpStream) -> io::Result<()> {
    socket2::SockRef::from(stream).shutdown(std::net::Shutdown::Write)
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read(buf.initialize_unfilled()) {
                Ok(len) => {
                    buf.advance(len);
                    self.peer.bytes_came();
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let Poll::Ready(ready) = self.stream.poll_write_ready(cx) else {
                self.peer.written(true);
                return Poll::Pending;
            };
            ready?;
            match self.stream.try_write(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => {
                    self.peer.written(false);
                    return Poll::Ready(result);
                }
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(end(&self.stream))
    }
}

/// Reads and throws away what a client still sends, until it ends or `until`: to close with bytes unread would reset the
/// connection, and the client might never see its answer.
pub(super) async fn linger(stream: &TcpStream, until: Instant) {
    // It may have been done already.
    let _ = end(stream);
    let mut buf = vec![0; 16 << 10];
    loop {
        match timeout_at(until, stream.readable()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return,
        }
        match stream.try_read(&mut buf) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
