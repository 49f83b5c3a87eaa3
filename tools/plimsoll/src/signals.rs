//! SIGINT and SIGTERM end the work in order; the second one ends it at once.

use crate::failure::{Exit, Failure};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// Makes a file-size limit an error of the write that met it, not the death of the process.
pub(crate) fn survive_file_size_limit() -> Result<(), Failure> {
    // A handler that does nothing of use: then the write fails with EFBIG.
    signal_hook::flag::register(SIGXFSZ, Arc::default())
        .map(drop)
        .map_err(|error| Failure::io("handle", "signals", &error))
}

/// Calls `told` with the first signal, on a thread of its own. From then on a signal kills, so that a disk that hangs
/// leaves a way out.
pub(crate) fn on_interrupt(told: impl Fn(i32) + Send + 'static) -> Result<(), Failure> {
    let fail = |error| Failure::io("handle", "signals", &error);
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(fail)?;
    let wait = move || {
        let mut signals = signals.forever();
        if let Some(signal) = signals.next() {
            told(signal);
        }
        if let Some(signal) = signals.next() {
            std::process::exit(i32::from(Exit::Signal(signal).code()));
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(wait).map_err(fail)?;
    Ok(())
}

/// A flag that is up after the first signal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicI32>);

impl Interrupt {
    /// Begins to watch for signals.
    pub(crate) fn watch() -> Result<Self, Failure> {
        let flag = Arc::new(AtomicI32::new(0));
        let raised = flag.clone();
        on_interrupt(move |signal| raised.store(signal, Ordering::Relaxed))?;
        Ok(Self(flag))
    }

    /// Waits for `time`, or until a signal comes.
    pub(crate) fn wait(&self, time: Duration) {
        let begin = Instant::now();
        while let Some(left) = time.checked_sub(begin.elapsed()).filter(|_| !self.is_up()) {
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }

    /// Whether a signal came.
    pub(crate) fn is_up(&self) -> bool {
        self.signal().is_some()
    }

    /// The signal that came.
    pub(crate) fn signal(&self) -> Option<i32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }
}
