//! What a connection does, and when it has done nothing for too long.

use super::options::Timers;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// One connection, as its tasks share it.
#[derive(Debug)]
pub(super) struct Peer {
    /// It is one of those that are kept for everything but publishes.
    pub(super) kept: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Requests that are worked on.
    running: u32,
    /// Requests so far.
    served: u64,
    /// When the last one came or ended.
    last: Instant,
    /// Since when the head of a request has been coming; not known on HTTP/2, where other frames come too.
    head_since: Option<Instant>,
    multiplexed: bool,
    /// Since when bytes could not be written.
    blocked_since: Option<Instant>,
    /// Answers that are not yet taken: when they began, and when a piece was taken last.
    answers: BTreeMap<u64, (Instant, Instant)>,
    next_answer: u64,
    /// The connection ends with bytes of a request unread.
    lingers: bool,
    /// Until when a refused publish was told to wait.
    refused_until: Option<Instant>,
}

/// What is to be done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Keep,
    /// Let it end in order: it is idle.
    End,
    /// Cut it: its client does not do its part.
    Cut,
}

/// A request that is worked on, until it is dropped.
#[derive(Debug)]
pub(super) struct Running(Arc<Peer>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.running -= 1;
        state.last = Instant::now();
    }
}

impl Peer {
    pub(super) fn new(kept: bool) -> Self {
        let state = State {
            running: 0,
            served: 0,
            last: Instant::now(),
            head_since: None,
            multiplexed: false,
            blocked_since: None,
            answers: BTreeMap::new(),
            next_answer: 0,
            lingers: false,
            refused_until: None,
        };
        Self { kept, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request's head is here.
    pub(super) fn request(self: &Arc<Self>, multiplexed: bool) -> Running {
        let mut state = self.lock();
        state.running += 1;
        state.served += 1;
        state.last = Instant::now();
        state.head_since = None;
        state.multiplexed = multiplexed;
        drop(state);
        Running(Arc::clone(self))
    }

    /// Bytes came.
    pub(super) fn bytes_came(&self) {
        let mut state = self.lock();
        if state.running == 0 && !state.multiplexed && state.head_since.is_none() {
            state.head_since = Some(Instant::now());
        }
    }

    /// Bytes were written, or none could be.
    pub(super) fn written(&self, blocked: bool) {
        let mut state = self.lock();
        match (blocked, state.blocked_since) {
            (true, None) => state.blocked_since = Some(Instant::now()),
            (false, Some(_)) => state.blocked_since = None,
            _ => {}
        }
    }

    /// An answer waits to be taken.
    pub(super) fn answer_begins(&self) -> u64 {
        let mut state = self.lock();
        let answer = state.next_answer;
        state.next_answer += 1;
        let now = Instant::now();
        state.answers.insert(answer, (now, now));
        answer
    }

    /// A piece of it was taken.
    pub(super) fn answer_goes_on(&self, answer: u64) {
        if let Some((_, last)) = self.lock().answers.get_mut(&answer) {
            *last = Instant::now();
        }
    }

    /// All of it was taken, or none will be.
    pub(super) fn answer_ends(&self, answer: u64) {
        let mut state = self.lock();
        state.answers.remove(&answer);
        state.last = Instant::now();
    }

    /// A publish is refused, with this hint. Whether it came before the last one's was over.
    pub(super) fn refused(&self, hint: Duration) -> bool {
        let now = Instant::now();
        let before = self.lock().refused_until.replace(now + hint);
        before.is_some_and(|until| now < until)
    }

    /// The connection ends with bytes of a request unread.
    pub(super) fn linger(&self) {
        self.lock().lingers = true;
    }

    pub(super) fn lingers(&self) -> bool {
        self.lock().lingers
    }

    /// What is to be done now.
    pub(super) fn verdict(&self, timers: &Timers) -> Verdict {
        let (state, now) = (self.lock(), Instant::now());
        let over = |since: Instant, limit| now.saturating_duration_since(since) > limit;
        let slow = |(begun, last): &(Instant, Instant)| {
            over(*begun, timers.answer) || over(*last, timers.answer_idle)
        };
        let blocked = state.blocked_since.is_some_and(|since| over(since, timers.answer_idle));
        if blocked || state.answers.values().any(slow) {
            return Verdict::Cut;
        }
        if state.running > 0 || !state.answers.is_empty() {
            return Verdict::Keep;
        }
        if state.head_since.is_some_and(|since| over(since, timers.header)) {
            return Verdict::Cut;
        }
        match state.served {
            0 if over(state.last, timers.header) => Verdict::Cut,
            0 => Verdict::Keep,
            _ if over(state.last, timers.idle) => Verdict::End,
            _ => Verdict::Keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::advance;

    fn peer() -> (Arc<Peer>, Timers) {
        (Arc::new(Peer::new(false)), Timers::default())
    }

    async fn after(seconds: u64) {
        advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_request_has_ten_seconds() {
        let (peer, timers) = peer();
        after(10).await;
        assert_eq!(peer.verdict(&timers), Verdict::Keep);
        // A byte now and then is no request.
        peer.bytes_came();
        after(1).await;
        assert_eq!(peer.verdict(&timers), Verdict::Cut);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends_in_order_and_a_slow_head_is_cut() {
        let (peer, timers) = peer();
        drop(peer.request(false));
        after(59).await;
        assert_eq!(peer.verdict(&timers), Verdict::Keep);
        after(2).await;
        assert_eq!(peer.verdict(&timers), Verdict::End);
        drop(peer.request(false));
        peer.bytes_came();
        after(9).await;
        peer.bytes_came();
        assert_eq!(peer.verdict(&timers), Verdict::Keep);
        after(2).await;
        assert_eq!(peer.verdict(&timers), Verdict::Cut);
        drop(peer.request(false));
        assert_eq!(peer.verdict(&timers), Verdict::Keep);
    }

    #[tokio::test(start_paused = true)]
    async fn frames_of_http_2_are_no_head() {
        let (peer, timers) = peer();
        drop(peer.request(true));
        peer.bytes_came();
        after(30).await;
        assert_eq!(peer.verdict(&timers), Verdict::Keep);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_poll_is_not_idle_and_an_answer_that_nobody_takes_is_cut() {
        let (peer, timers) = peer();
        let running = peer.request(true);
        after(600).await;
        assert_eq!(peer.verdict(&timers), Verdict::Keep);
        let answer = peer.answer_begins();
        drop(running);
        after(29).await;
        peer.answer_goes_on(answer);
        after(29).await;
        assert_eq!(peer.verdict(&timers), Verdict::Keep);
        after(2).await;
        assert_eq!(peer.verdict(&timers), Verdict::Cut);
        peer.answer_ends(answer);
        assert_eq!(peer.verdict(&timers), Verdict::Keep);
        // A piece now and then is not enough.
        let answer = peer.answer_begins();
        for _ in 0..6 {
            after(20).await;
            peer.answer_goes_on(answer);
            assert_eq!(peer.verdict(&timers), Verdict::Keep);
        }
        after(1).await;
        assert_eq!(peer.verdict(&timers), Verdict::Cut);
        peer.answer_ends(answer);
        peer.written(true);
        after(20).await;
        peer.written(true);
        after(11).await;
        assert_eq!(peer.verdict(&timers), Verdict::Cut);
        peer.written(false);
        assert_eq!(peer.verdict(&timers), Verdict::Keep);
    }
}
