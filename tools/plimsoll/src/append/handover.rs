//! Between the thread that reads the input and the one that appends: what has arrived and is not yet taken.
//!
//! Two batches go round, one being filled while the other is committed, so memory is bounded and nothing waits for a
//! batch to become full.

use super::batch::Batch;
use crate::failure::Failure;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
struct State {
    pending: Batch,
    end: Option<Result<(), Failure>>,
    stopped: Option<i32>,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Taken {
    /// Records.
    Batch(Batch),
    /// The end of the input, or what is wrong with it behind the records that were given.
    End(Result<(), Failure>),
    /// A signal came.
    Stopped(i32),
}

/// The meeting place of the two threads.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    state: Mutex<State>,
    changed: Condvar,
}

impl Handover {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is done under the lock that could leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a batch and gets an empty one; waits while there is no room. Says whether more is wanted.
    pub(crate) fn give(&self, batch: &mut Batch) -> bool {
        let full = |state: &mut State| {
            state.stopped.is_none() && !state.pending.fits(batch.len(), batch.bytes())
        };
        let mut state =
            self.changed.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        if state.stopped.is_some() {
            return false;
        }
        state.pending.absorb(batch);
        self.changed.notify_all();
        true
    }

    /// Says that nothing comes after what was given.
    pub(crate) fn end(&self, result: Result<(), Failure>) {
        self.lock().end = Some(result);
        self.changed.notify_all();
    }

    /// Ends the work behind the batch that is being appended.
    pub(crate) fn stop(&self, signal: i32) {
        self.lock().stopped = Some(signal);
        self.changed.notify_all();
    }

    /// Waits for `time`, or until a signal comes; gives that.
    pub(crate) fn pause(&self, time: Duration) -> Option<i32> {
        let goes_on = |state: &mut State| state.stopped.is_none();
        let waited = self.changed.wait_timeout_while(self.lock(), time, goes_on);
        waited.unwrap_or_else(PoisonError::into_inner).0.stopped
    }

    /// Takes all that has arrived, and leaves `spare` to be filled; waits while there is nothing.
    pub(crate) fn take(&self, mut spare: Batch) -> Taken {
        let idle = |state: &mut State| {
            state.pending.is_empty() && state.end.is_none() && state.stopped.is_none()
        };
        let mut state =
            self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        if let Some(signal) = state.stopped {
            return Taken::Stopped(signal);
        }
        if state.pending.is_empty() {
            return Taken::End(state.end.take().unwrap_or(Ok(())));
        }
        spare.clear();
        let batch = std::mem::replace(&mut state.pending, spare);
        self.changed.notify_all();
        Taken::Batch(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::{BYTES_MAX, RECORDS_MAX};
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_was_given_is_taken_before_the_end_and_a_signal_goes_first() {
        let handover = Handover::default();
        let mut batch = Batch::default();
        batch.push(1, b"", b"a");
        assert!(handover.give(&mut batch));
        handover.end(Err(Failure::usage("wrong")));
        assert!(matches!(handover.take(Batch::default()), Taken::Batch(batch) if batch.len() == 1));
        assert!(matches!(handover.take(Batch::default()), Taken::End(Err(_))));
        batch.push(2, b"", b"b");
        assert!(handover.give(&mut batch));
        handover.stop(2);
        assert!(matches!(handover.take(Batch::default()), Taken::Stopped(2)));
        batch.push(3, b"", b"c");
        assert!(!handover.give(&mut batch));
    }

    #[test]
    fn a_pause_ends_with_a_signal_and_not_with_more_input() {
        let handover = Arc::new(Handover::default());
        let mut batch = Batch::default();
        batch.push(1, b"", b"a");
        assert!(handover.give(&mut batch));
        assert_eq!(handover.pause(Duration::from_millis(1)), None);
        let stopper = handover.clone();
        let thread = std::thread::spawn(move || stopper.stop(15));
        assert_eq!(handover.pause(Duration::MAX), Some(15));
        thread.join().unwrap();
    }

    #[test]
    fn a_reader_that_is_ahead_waits_and_nothing_is_lost_or_out_of_order() {
        let handover = Arc::new(Handover::default());
        let giver = handover.clone();
        let total = 20 * RECORDS_MAX as u64;
        let thread = std::thread::spawn(move || {
            let mut batch = Batch::default();
            for number in 0..total {
                batch.push(number, b"", &number.to_le_bytes());
                if number % 100 == 99 || number + 1 == total {
                    assert!(giver.give(&mut batch));
                }
            }
            giver.end(Ok(()));
        });
        let (mut next, mut spare) = (0u64, Batch::default());
        loop {
            match handover.take(spare) {
                Taken::Batch(batch) => {
                    assert!(batch.len() <= RECORDS_MAX && batch.bytes() <= BYTES_MAX);
                    assert_eq!(batch.first_item(), next);
                    for record in batch.records() {
                        assert_eq!(record.payload, next.to_le_bytes());
                        next += 1;
                    }
                    spare = batch;
                }
                Taken::End(result) => break result.unwrap(),
                Taken::Stopped(_) => unreachable!("no signal"),
            }
        }
        assert_eq!(next, total);
        thread.join().unwrap();
    }
}
