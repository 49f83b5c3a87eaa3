//! Bodies of requests: bounded in size, memory and time, and what is done with those that are refused.

use super::budget::{Budget, Hold, Purse};
use super::error::{Code, Problem};
use super::options::Timers;
use crate::api::{Fault, PAYLOAD_MAX};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::EXPECT;
use http_body::Body;
use http_body_util::BodyExt;
use std::fmt::Display;
use tokio::time::{Instant, timeout, timeout_at};

/// The most bytes of a body that is no publish.
pub(super) const JSON_MAX: usize = 256 << 10;
/// The most bytes of a publish of many.
pub(super) const LINES_MAX: usize = 4 << 20;
/// A refused body of a known length up to this is read, so that the connection can be used again.
const DRAIN_MAX: u64 = 256 << 10;
/// A body of unknown length takes memory in such steps.
const STEP: usize = 64 << 10;

/// What a route takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// One payload.
    Payload,
    /// Lines of JSON, each with a payload.
    Lines,
    /// Anything else.
    Json,
}

impl Takes {
    const fn max(self) -> usize {
        match self {
            Self::Payload => PAYLOAD_MAX,
            Self::Lines => LINES_MAX,
            Self::Json => JSON_MAX,
        }
    }

    const fn purse(self) -> Purse {
        match self {
            Self::Payload | Self::Lines => Purse::Publish,
            Self::Json => Purse::Others,
        }
    }

    /// Memory that so many bytes take: lines are there twice while they are parsed.
    const fn weight(self, bytes: usize) -> u64 {
        match self {
            Self::Lines => bytes as u64 * 2,
            Self::Payload | Self::Json => bytes as u64,
        }
    }

    fn too_large(self, len: u64) -> Problem {
        let max = self.max() as u64;
        match self {
            Self::Payload => Fault::PayloadTooLarge { len, max }.into(),
            Self::Lines | Self::Json => {
                let message =
                    format!("the body has {len} bytes or more, at most {max} are allowed");
                Problem::new(Code::BodyTooLarge, message)
            }
        }
    }
}

fn too_slow() -> Problem {
    Problem::new(Code::BodyTooSlow, "the body came too slowly")
}

/// A body that a client sends.
pub(super) trait Source: Body<Data = Bytes, Error: Display> + Unpin {}

impl<B: Body<Data = Bytes, Error: Display> + Unpin> Source for B {}

/// Reads a body to its end. What it takes of the budget comes with it, to be kept as long as the bytes.
///
/// # Errors
/// 413 and 429 where a length says so, before a byte is read, and else as soon as it is known; 408; 400 where it ends early.
pub(super) async fn read(
    from: &mut impl Source,
    takes: Takes,
    budget: &Budget,
    timers: &Timers,
) -> Result<(Bytes, Hold), Problem> {
    let mut hold = Hold::default();
    if from.is_end_stream() {
        return Ok((Bytes::new(), hold));
    }
    let max = takes.max();
    let len = match from.size_hint().exact() {
        Some(len) => match usize::try_from(len) {
            Ok(len) if len <= max => Some(len),
            _ => return Err(takes.too_large(len)),
        },
        None => None,
    };
    let first = match (len, takes.purse()) {
        (Some(len), _) => len,
        (None, Purse::Publish) => STEP.min(max),
        // Who may wait takes all at once: two that hold a part and wait for the rest would wait for each other.
        (None, Purse::Others) => max,
    };
    cover(budget, takes, &mut hold, first).await?;
    let whole = Instant::now() + timers.body;
    let mut body = BytesMut::with_capacity(len.unwrap_or(STEP.min(max)));
    loop {
        let until = whole.min(Instant::now() + timers.body_idle);
        let Ok(frame) = timeout_at(until, from.frame()).await else { return Err(too_slow()) };
        let frame = match frame {
            None => break,
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                return Err(Problem::invalid(format!("the body ended early: {error}")));
            }
        };
        // Trailers say nothing here.
        let Ok(data) = frame.into_data() else { continue };
        let then = body.len() + data.len();
        if then > max {
            return Err(takes.too_large(then as u64));
        }
        if len.is_none() {
            cover(budget, takes, &mut hold, then.next_multiple_of(STEP).min(max)).await?;
        }
        body.extend_from_slice(&data);
    }
    Ok((body.freeze(), hold))
}

async fn cover(
    budget: &Budget,
    takes: Takes,
    hold: &mut Hold,
    bytes: usize,
) -> Result<(), Problem> {
    let wanted = takes.weight(bytes);
    if budget.cover(takes.purse(), hold, wanted).await {
        Ok(())
    } else {
        Err(Problem::no_memory(budget.free(), wanted))
    }
}

/// Reads what is left of a refused body, and throws it away. `false` where the connection must end instead: the body has
/// no length or a great one, is slow, or waits for a `100 Continue` that it will not get.
pub(super) async fn drain(from: &mut impl Source, headers: &HeaderMap, timers: &Timers) -> bool {
    if from.is_end_stream() {
        return true;
    }
    let short = from.size_hint().exact().is_some_and(|left| left <= DRAIN_MAX);
    if !short || headers.contains_key(EXPECT) {
        return false;
    }
    let rest = async {
        while let Some(frame) = from.frame().await {
            if frame.is_err() {
                return false;
            }
        }
        true
    };
    timeout(timers.drain, rest).await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};
    use std::convert::Infallible;
    use std::time::Duration;

    type Piece = Result<Frame<Bytes>, Infallible>;

    /// A body without a length, whose pieces come so far apart.
    fn pieces(count: usize, len: usize, apart: Duration) -> impl Source {
        let pieces = futures_util::stream::unfold(0, move |at| async move {
            if at == count {
                return None;
            }
            tokio::time::sleep(apart).await;
            let piece: Piece = Ok(Frame::data(Bytes::from(vec![b'x'; len])));
            Some((piece, at + 1))
        });
        StreamBody::new(Box::pin(pieces))
    }

    async fn read_with(mut from: impl Source, takes: Takes, budget: &Budget) -> Result<usize, u16> {
        let read = read(&mut from, takes, budget, &Timers::default()).await;
        read.map(|(bytes, _)| bytes.len()).map_err(|problem| problem.code.status())
    }

    #[tokio::test]
    async fn a_body_is_bounded_with_and_without_a_length() {
        let budget = Budget::new(Some(16 << 20), 0);
        for (takes, max) in
            [(Takes::Payload, PAYLOAD_MAX), (Takes::Json, JSON_MAX), (Takes::Lines, LINES_MAX)]
        {
            let known = |len| Full::new(Bytes::from(vec![0; len]));
            assert_eq!(read_with(known(max), takes, &budget).await, Ok(max));
            assert_eq!(read_with(known(max + 1), takes, &budget).await, Err(413));
            let step = 1 << 15;
            let unknown = |count| pieces(count, step, Duration::ZERO);
            assert_eq!(read_with(unknown(max / step), takes, &budget).await, Ok(max));
            assert_eq!(read_with(unknown(max / step + 1), takes, &budget).await, Err(413));
        }
        assert_eq!(budget.free(), budget.max());
    }

    #[tokio::test]
    async fn memory_is_taken_before_a_byte_is_read() {
        let budget = Budget::new(Some(100 << 10), 0);
        let mut long = Full::new(Bytes::from(vec![0; 101 << 10]));
        let refused = read(&mut long, Takes::Payload, &budget, &Timers::default()).await;
        // The budget is as large as there is: one body may take all of it, two may not.
        assert!(refused.is_ok());
        let (_, hold) = refused.unwrap();
        let mut next = Full::new(Bytes::from(vec![0; 1]));
        let refused = read(&mut next, Takes::Payload, &budget, &Timers::default()).await;
        assert_eq!(refused.map(drop).map_err(|problem| problem.code.status()), Err(429));
        assert_eq!(next.size_hint().exact(), Some(1), "nothing was read");
        drop(hold);
        assert_eq!(
            read_with(pieces(4, 30 << 10, Duration::ZERO), Takes::Payload, &budget).await,
            Ok(120 << 10)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_ends_whatever_it_does() {
        let budget = Budget::new(None, 0);
        let seconds = Duration::from_secs;
        assert_eq!(read_with(pieces(3, 9, seconds(9)), Takes::Json, &budget).await, Ok(27));
        assert_eq!(read_with(pieces(3, 9, seconds(11)), Takes::Json, &budget).await, Err(408));
        // A byte now and then does not hold memory for ever.
        assert_eq!(read_with(pieces(100, 1, seconds(9)), Takes::Json, &budget).await, Err(408));
        assert_eq!(budget.free(), budget.max());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_body_is_thrown_away_where_that_is_cheap() {
        let timers = Timers::default();
        let none = HeaderMap::new();
        let known = |len| Full::new(Bytes::from(vec![0; len]));
        assert!(drain(&mut known(0), &none, &timers).await);
        assert!(drain(&mut known(256 << 10), &none, &timers).await);
        assert!(!drain(&mut known((256 << 10) + 1), &none, &timers).await);
        assert!(!drain(&mut pieces(1, 1, Duration::ZERO), &none, &timers).await);
        let expects = HeaderMap::from_iter([(EXPECT, "100-continue".parse().unwrap())]);
        assert!(!drain(&mut known(5), &expects, &timers).await);
    }
}
