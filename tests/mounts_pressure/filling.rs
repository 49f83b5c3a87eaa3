//! A log that nobody reads fills the disk: what its publishers are told, and what goes on meanwhile.

use crate::changes;
use crate::outside::wait_for;
use crate::place::{Ended, Lowest, Place, Queue, each, open, options, refusal, wait_for_kept_back};
use plimsoll::error::{AppendError, Outcome, PublishError};
use plimsoll::format::name::segment_file;
use plimsoll::pressure::Thresholds;
use plimsoll::{Level, LimitReason, Node, Offset, WriteClass};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const RECORD: usize = 60_000;

fn lines(node: &Node) -> Thresholds {
    node.pressure().disks[0].thresholds
}

fn level(node: &Node) -> Level {
    node.pressure().level
}

/// Publishes to `heap` until that is refused. Gives what was told at how much free space.
fn until_refused(place: &Place, heap: &mut Queue) -> Vec<(u64, Duration)> {
    let mut told = Vec::new();
    for _ in 0..4_000 {
        let wait = heap.told(RECORD as u64);
        let free = place.available();
        match heap.publish(WriteClass::Publish, 4, RECORD) {
            Ok(()) => told.push((free, wait.unwrap_or(Duration::ZERO))),
            Err(error) => {
                // Anything but a refusal fails here: a publish that meets a full disk too.
                let limited = refusal(error);
                assert_eq!(limited.reason, LimitReason::Disk);
                assert_eq!(limited.class, WriteClass::Publish);
                assert!(limited.retry_after >= Duration::from_secs(1), "{limited:?}");
                assert!(place.data() == *limited.device.as_ref().unwrap(), "{limited:?}");
                return told;
            }
        }
    }
    panic!("{}: never refused", place.kind);
}

/// The delay grows from nothing at soft to nearly all at hard; then comes the refusal, with its reason. Free space stays
/// above hard, no publish meets a full disk, and no log stops. Below hard, below reserve and at no free byte all that
/// frees space works; when space comes back, publishes go on without anybody's doing.
#[test]
fn case_A5_a_log_that_nobody_reads_is_slowed_and_refused_and_all_else_goes_on() {
    changes::keep();
    each(
        "case_A5_a_log_that_nobody_reads_is_slowed_and_refused_and_all_else_goes_on",
        nobody_reads,
    );
}

fn nobody_reads(place: &Place) {
    let kind = place.kind;
    let node = Node::open(place.data(), options()).unwrap();
    let mut heap = Queue::new(&node, "heap");
    let mut queues: Vec<_> =
        (0..4).map(|number| Queue::new(&node, &format!("queue-{number}"))).collect();
    for queue in &mut queues {
        (0..20).for_each(|_| queue.publish(WriteClass::Publish, 10, 4_000).unwrap());
    }
    wait_for_kept_back(&node);
    let lowest = Lowest::of(place.path());
    let told = until_refused(place, &mut heap);
    let lowest = lowest.end();
    let Thresholds { soft, hard, .. } = lines(&node);
    let delays: Vec<_> = told.iter().map(|(_, delay)| delay.as_micros()).collect();
    let (first, last) =
        (told.iter().position(|told| !told.1.is_zero()).unwrap(), *told.last().unwrap());
    println!(
        "{kind}: soft {soft}, hard {hard}: first delay {:?} at {} free, last {:?} at {}; lowest {lowest}, {} below hard",
        told[first].1,
        told[first].0,
        last.1,
        last.0,
        hard.saturating_sub(lowest)
    );
    assert!(delays[0] == 0 && delays[first] <= 10_000, "{kind}: {delays:?}");
    assert!((45_000..=50_000).contains(delays.last().unwrap()), "{kind}: {delays:?}");
    // A sample may find a little more than the books had.
    assert!(delays.windows(2).all(|pair| pair[1] + 2_000 >= pair[0]), "{kind}: {delays:?}");
    // What was free a moment before, when the next file may not have been there yet.
    assert!(told[first].0 <= soft + (1 << 20), "{kind}: slowed at {} free", told[first].0);
    // Spares count as free until they are taken or released, which the next sample shows: by so much it may be lower.
    let budget = node.limits().pool.budget.of(node.pressure().disks[0].total);
    assert!(lowest + budget >= hard, "{kind}: {lowest} of {hard}");

    // No file that would come to hard was made; that it would have is hard, too. There only publishes are refused, all.
    assert_eq!(level(&node), Level::Hard, "{kind}");
    place.leave(hard - (1 << 20));
    wait_for("hard", || (level(&node) == Level::Hard).then_some(()));
    for queue in &mut queues {
        queue.acknowledge(kind);
        for class in [WriteClass::Replicate, WriteClass::Coordination, WriteClass::Recovery] {
            queue.publish(class, 1, 4_000).unwrap();
        }
        assert_eq!(
            refusal(queue.publish(WriteClass::Publish, 1, 100).unwrap_err()).level,
            Level::Hard
        );
        queue.check();
    }
    heap.check();

    // At nothing, filled from outside: catch-up is refused too.
    place.fill();
    wait_for("reserve", || (level(&node) == Level::Reserve).then_some(()));
    assert_eq!(place.available(), 0);
    for queue in &mut queues {
        queue.acknowledge(kind);
        let refused = refusal(queue.publish(WriteClass::Replicate, 1, 100).unwrap_err());
        assert_eq!((refused.reason, refused.level), (LimitReason::Disk, Level::Reserve));
        queue.check();
    }
    // A purge, and a log that is deleted.
    let freed = queues[0].truncate(0);
    assert!(freed > 0, "{kind}: a purge freed nothing");
    let deleted = queues.pop().unwrap();
    node.delete_log(deleted.log.name()).unwrap();
    queues.iter_mut().for_each(|queue| queue.acknowledge(kind));
    let refused = refusal(heap.publish(WriteClass::Publish, 1, 100).unwrap_err());
    assert_eq!(refused.reason, LimitReason::Disk);

    // What was filled from outside comes back, and the heap is read at last.
    place.empty();
    wait_for("hard or better", || (level(&node) < Level::Reserve).then_some(()));
    queues.iter_mut().for_each(|queue| queue.publish(WriteClass::Replicate, 1, 100).unwrap());
    heap.check();
    let freed = heap.truncate(0);
    assert!(freed > 10, "{kind}: {freed}");
    wait_for("a publish", || heap.publish(WriteClass::Publish, 1, 100).ok());
    wait_for("ok", || (level(&node) == Level::Ok).then_some(()));
    assert_eq!(heap.told(100).unwrap(), Duration::ZERO);
    assert!(node.attention().is_empty());
    queues.iter().for_each(Queue::check);
    heap.check();

    // Each change was said once, and the level went up and down and up again nowhere.
    let said = changes::said_of(&place.data());
    println!("{kind}: said {said:?}");
    let top = said.iter().position(|level| *level == Level::Reserve).unwrap();
    assert_eq!(said[..=top], [Level::Soft, Level::Hard, Level::Reserve], "{kind}");
    assert!(said[top..].windows(2).all(|pair| pair[1] < pair[0]), "{kind}: {said:?}");
    drop((heap, queues, deleted));
    node.close().unwrap();
}

/// The disk is full for a moment, in the midst of publishes and of a roll. When the space is back publishes go on in the
/// same process; and what a roll that failed may have left does not keep the next start.
#[test]
fn case_A1_after_a_full_disk_publishes_go_on_without_a_restart() {
    each("case_A1_after_a_full_disk_publishes_go_on_without_a_restart", full_for_a_moment);
}

fn full_for_a_moment(place: &Place) {
    let kind = place.kind;
    let node = Node::open(place.data(), options()).unwrap();
    wait_for_kept_back(&node);
    let mut queue = Queue::new(&node, "orders");
    let (ended, done, refused, full) =
        (Ended::default(), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let publisher = || {
        while !ended.is() {
            match queue.publish(WriteClass::Publish, 1, 4_000) {
                Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                // Taken from outside between two samples: a roll may find out first.
                Err(PublishError::Append(AppendError::Disk(error))) if error.is_no_space() => {
                    full.fetch_add(1, Ordering::Relaxed)
                }
                Err(error) => {
                    assert_eq!(error.outcome(), Outcome::NotWritten);
                    assert_eq!(refusal(error).reason, LimitReason::Disk);
                    std::thread::sleep(Duration::from_millis(1));
                    refused.fetch_add(1, Ordering::Relaxed)
                }
            };
            // It shall meet the full disk in the midst of a roll, and not have filled it by itself before.
            if queue.log.tail().0.is_multiple_of(1_000) {
                queue.truncate(10);
            }
        }
        queue
    };
    let (took, queue) = std::thread::scope(|scope| {
        let publisher = scope.spawn(publisher);
        let end = ended.at_drop();
        wait_for("some publishes", || (done.load(Ordering::Relaxed) > 100).then_some(()));
        place.fill();
        wait_for("a refusal", || (refused.load(Ordering::Relaxed) > 20).then_some(()));
        place.empty();
        let (begun, before) = (Instant::now(), done.load(Ordering::Relaxed));
        wait_for("publishes", || (done.load(Ordering::Relaxed) > before + 100).then_some(()));
        let took = begun.elapsed();
        drop(end);
        (took, publisher.join().unwrap())
    });
    println!(
        "{kind}: {} publishes, {} refused, {} met a full disk; went on after {took:?}",
        done.load(Ordering::Relaxed),
        refused.load(Ordering::Relaxed),
        full.load(Ordering::Relaxed)
    );
    queue.check();
    let Queue { log, ledger } = queue;
    let tail = log.tail();
    drop(log);
    node.close().unwrap();

    // The name of the next segment, and nothing in it.
    let left = place.data().join("logs/orders").join(segment_file(Offset(tail.0)));
    std::fs::File::create_new(&left).unwrap();
    let node = Node::open(place.data(), options()).unwrap();
    let mut queue = Queue { log: open(&node, "orders"), ledger };
    queue.check();
    wait_for("a publish", || queue.publish(WriteClass::Publish, 1, 4_000).ok());
    queue.check();
    drop(queue);
    node.close().unwrap();
}
