//! Wakes threads that wait for a commit, without handing each the log's lock: a condition variable would have all of them
//! queue for it one after the other, only to learn that they are done.
//!
//! `futex(2)`, which the standard library has inside only.

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Counts its calls, so that one between looking and waiting is not missed.
#[derive(Debug, Default)]
pub(crate) struct Signal(AtomicU32);

impl Signal {
    /// What to wait behind: taken before the last look at what is waited for.
    pub(crate) fn turn(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Blocks until somebody was woken since `turn`, at most `timeout`; also returns for no reason.
    pub(crate) fn wait(&self, turn: u32, timeout: Option<Duration>) {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(timeout.subsec_nanos().cast_signed()),
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the number outlives the call, and `timeout` is null or points to one that does. Whatever it answers, the
        // caller looks again.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, turn, timeout) };
    }

    /// Wakes one of those that wait, and all that are just about to.
    pub(crate) fn wake_one(&self) {
        self.wake(1);
    }

    pub(crate) fn wake_all(&self) {
        self.wake(libc::c_int::MAX);
    }

    fn wake(&self, most: libc::c_int) {
        self.0.fetch_add(1, Ordering::Release);
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the number outlives the call, which does not even read it.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, most) };
    }
}
