//! The same work on several threads: planted faults and what is said are per thread, so that nothing is shared.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

/// As many threads as there are cores.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs `work` for every item, on so many threads, the first ones first; `each` gets the results as they come.
pub fn for_all<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    mut each: impl FnMut(usize, R),
) {
    let next = Arc::new(AtomicUsize::new(0));
    let (done, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            let (next, done, work) = (Arc::clone(&next), done.clone(), &work);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    if done.send((at, work(item))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(done);
        for (at, result) in results {
            each(at, result);
        }
    });
}

#[test]
fn every_item_is_worked_on_once() {
    let items: Vec<u64> = (0..1_000).collect();
    let mut seen = vec![0; items.len()];
    for_all(3, &items, |item| item * 2, |at, double| seen[at] += double);
    assert!((0..).zip(&seen).all(|(at, double): (u64, _)| *double == at * 2));
}
