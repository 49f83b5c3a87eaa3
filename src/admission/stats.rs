//! What admission has decided, in numbers.

use crate::permit::LimitReason;
use crate::types::WriteClass;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Of one class of writes, since the node was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// The class.
    pub class: WriteClass,
    /// Admitted, those after a delay included.
    pub admitted: u64,
    /// Admitted after a delay, by [`LimitReason::ALL`].
    pub delayed: [u64; 3],
    /// Refused, by [`LimitReason::ALL`].
    pub refused: [u64; 3],
}

/// What admission has decided since the node was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdmissionStats {
    /// By [`WriteClass::ALL`].
    pub classes: [ClassStats; 5],
    /// All delays together.
    pub delay: Duration,
    /// Bytes of batches that wait out a delay now.
    pub waiting_bytes: u64,
}

/// One class of [`Counters`]; a line of the cache each, as many threads count.
#[derive(Debug, Default)]
#[repr(align(64))]
struct OfClass {
    admitted: AtomicU64,
    delayed: [AtomicU64; 3],
    refused: [AtomicU64; 3],
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    classes: [OfClass; 5],
    delay_micros: AtomicU64,
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn admitted(&self, class: WriteClass) {
        add(&self.classes[class as usize].admitted);
    }

    pub(super) fn delayed(&self, class: WriteClass, reason: LimitReason, delay: Duration) {
        self.admitted(class);
        add(&self.classes[class as usize].delayed[reason as usize]);
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.delay_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn refused(&self, class: WriteClass, reason: LimitReason) {
        add(&self.classes[class as usize].refused[reason as usize]);
    }

    pub(super) fn stats(&self, waiting_bytes: u64) -> AdmissionStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let classes = WriteClass::ALL.map(|class| {
            let of = &self.classes[class as usize];
            ClassStats {
                class,
                admitted: get(&of.admitted),
                delayed: of.delayed.each_ref().map(get),
                refused: of.refused.each_ref().map(get),
            }
        });
        let delay = Duration::from_micros(get(&self.delay_micros));
        AdmissionStats { classes, delay, waiting_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_stands_where_its_name_says() {
        let counters = Counters::default();
        counters.admitted(WriteClass::Acknowledge);
        let delay = Duration::from_millis(20);
        counters.delayed(WriteClass::Publish, LimitReason::Memory, delay);
        counters.refused(WriteClass::Replicate, LimitReason::Disk);
        let stats = counters.stats(7);
        for (at, class) in WriteClass::ALL.into_iter().enumerate() {
            assert_eq!(stats.classes[at].class, class);
            let admitted = matches!(class, WriteClass::Acknowledge | WriteClass::Publish);
            assert_eq!(stats.classes[at].admitted, u64::from(admitted), "{class}");
        }
        let [publish, replicate, ..] = stats.classes;
        assert_eq!((publish.delayed, publish.refused), ([0, 1, 0], [0; 3]));
        assert_eq!((replicate.delayed, replicate.refused), ([0; 3], [1, 0, 0]));
        assert_eq!((stats.delay, stats.waiting_bytes), (delay, 7));
    }
}
