//! Answers: status, headers and a body that is given to the connection in small pieces.

use super::watch::Peer;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::{Body, Frame, SizeHint};
use serde::Serialize;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// At most so much at once: what the connection has taken and not sent is bounded by it.
const PIECE: usize = 16 << 10;

/// Deliveries on their way; see [`HandOff`](crate::broker::HandOff).
pub(super) trait Handing: Send {
    /// They are with their receiver.
    fn done(&mut self);
}

impl Handing for crate::broker::HandOff {
    fn done(&mut self) {
        Self::done(self);
    }
}

/// What a handler gives.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Undone if the client does not take the whole body.
    pub(super) hand_off: Option<Box<dyn Handing>>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).finish_non_exhaustive()
    }
}

impl Answer {
    fn new(status: u16, content_type: &'static str, body: Bytes) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let content_type = HeaderValue::from_static(content_type);
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type)]);
        Self { status, headers, body, hand_off: None }
    }

    /// JSON, with a line's end for terminals.
    pub(super) fn json(status: u16, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(mut body) => {
                body.push(b'\n');
                Self::new(status, "application/json", body.into())
            }
            Err(error) => {
                // Only a map whose keys are no text; there is none.
                tracing::error!(%error, "an answer cannot be written");
                Self::text(500, "the answer cannot be written\n")
            }
        }
    }

    /// Text.
    pub(super) fn text(status: u16, text: impl Into<Bytes>) -> Self {
        Self::new(status, "text/plain; charset=utf-8", text.into())
    }

    /// Of a type of its own.
    pub(super) fn typed(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self::new(200, content_type, body.into())
    }

    /// With a header; one that cannot be sent is left out.
    pub(super) fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }
}

/// The body of an answer, as the connection takes it.
pub(super) struct AnswerBody {
    left: Bytes,
    hand_off: Option<Box<dyn Handing>>,
    /// Watched while it is not taken to its end.
    watched: Option<(Arc<Peer>, u64)>,
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerBody").field("left", &self.left.len()).finish_non_exhaustive()
    }
}

impl AnswerBody {
    pub(super) fn new(body: Bytes, hand_off: Option<Box<dyn Handing>>, peer: &Arc<Peer>) -> Self {
        let mut this = Self { left: body, hand_off, watched: None };
        if this.left.is_empty() {
            this.end();
        } else {
            this.watched = Some((Arc::clone(peer), peer.answer_begins()));
        }
        this
    }

    /// The connection has it all.
    fn end(&mut self) {
        if let Some(mut hand_off) = self.hand_off.take() {
            hand_off.done();
        }
        self.unwatch();
    }

    fn unwatch(&mut self) {
        if let Some((peer, answer)) = self.watched.take() {
            peer.answer_ends(answer);
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left.is_empty() {
            return Poll::Ready(None);
        }
        let len = self.left.len().min(PIECE);
        let piece = self.left.split_to(len);
        if self.left.is_empty() {
            self.end();
        } else if let Some((peer, answer)) = &self.watched {
            peer.answer_goes_on(*answer);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        // Not taken: the hand-off goes without being done.
        self.unwatch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Counted(Arc<AtomicU32>);

    impl Handing for Counted {
        fn done(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn deliveries_are_handed_off_with_the_last_byte_and_not_before() {
        let (peer, done) = (Arc::new(Peer::new(false)), Arc::new(AtomicU32::new(0)));
        let count = || done.load(Ordering::Relaxed);
        let body = |len| {
            let hand_off = Box::new(Counted(Arc::clone(&done)));
            AnswerBody::new(Bytes::from(vec![0; len]), Some(hand_off), &peer)
        };
        drop(body(5));
        let mut cut = body(PIECE * 2 + 1);
        for _ in 0..2 {
            assert_eq!(cut.frame().await.unwrap().unwrap().data_ref().unwrap().len(), PIECE);
        }
        drop(cut);
        assert_eq!(count(), 0);
        let mut whole = body(PIECE + 1);
        whole.frame().await.unwrap().unwrap();
        assert_eq!(count(), 0);
        whole.frame().await.unwrap().unwrap();
        assert_eq!(count(), 1);
        assert!(whole.frame().await.is_none() && whole.is_end_stream());
        assert_eq!(body(5).collect().await.unwrap().to_bytes().len(), 5);
        assert_eq!(count(), 2);
    }
}
