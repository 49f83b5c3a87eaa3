//! Waiting without blocking: tickets and appends as futures, and all of it under load, on the machine's own file system.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "not the engine: a test"
)]

use plimsoll::error::{AppendError, Outcome, PublishError, ReadError, TruncateError};
use plimsoll::permit::{Decision, Permit};
use plimsoll::{
    Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, Ticket, WriteClass,
};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Longer than anything here takes: what is not done by then hangs.
const HANGS: Duration = Duration::from_secs(60);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor: one future, one thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let begun = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::park_timeout(HANGS);
        assert!(begun.elapsed() < HANGS, "nobody wakes the future");
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Polls many futures in this thread, each only when it was woken, until all are done.
fn join_all<T>(futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let mut tasks: Vec<_> = futures
        .into_iter()
        .map(|future| (Some(future), Arc::new(Flag(AtomicBool::new(true))), None))
        .collect();
    let begun = Instant::now();
    while tasks.iter().any(|(future, ..)| future.is_some()) {
        assert!(begun.elapsed() < HANGS, "nobody wakes the futures");
        let mut idle = true;
        for (slot, flag, output) in &mut tasks {
            let Some(future) = slot else { continue };
            if !flag.0.swap(false, Ordering::AcqRel) {
                continue;
            }
            idle = false;
            let waker = Waker::from(Arc::clone(flag));
            if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                *output = Some(done);
                *slot = None;
            }
        }
        if idle {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    tasks.into_iter().map(|(_, _, output)| output.unwrap()).collect()
}

fn node(dir: &Path) -> Node {
    let mut options = NodeOptions::default();
    options.segment_size = 1 << 20;
    options.committers = 3;
    Node::open(dir, options).unwrap()
}

fn name(log: &str) -> LogName {
    LogName::new(log).unwrap()
}

fn open(node: &Node, log: &str) -> Log {
    node.open_log(&name(log), LogOptions::default()).unwrap()
}

fn permit(log: &Log, bytes: usize) -> Permit {
    let Decision::Admit(permit) = log.admit(WriteClass::Publish, bytes as u64) else {
        panic!("the gate is open")
    };
    permit
}

/// Appends one record without blocking the thread; gives its offset.
async fn publish(log: &Log, payload: &[u8]) -> u64 {
    let records = [NewRecord::new(payload)];
    let ticket = log.append_async(permit(log, payload.len()), &records).await.unwrap();
    ticket.await.unwrap().first.0
}

fn read_all(log: &Log) -> BTreeMap<u64, Vec<u8>> {
    let mut reader = log.read_from(log.head()).unwrap();
    std::iter::from_fn(|| reader.next().unwrap().map(|r| (r.offset.0, r.payload))).collect()
}

#[test]
fn appends_and_tickets_are_futures() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let log = open(&node, "a");
    let written = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (log, written) = (&log, &written);
            scope.spawn(move || {
                for number in 0..100 {
                    // Some of them need a new file, which the node makes meanwhile.
                    let mut payload = format!("{thread}:{number}").into_bytes();
                    payload.resize(payload.len() + number * 37, b'.');
                    let offset = block_on(publish(log, &payload));
                    assert_eq!(written.lock().unwrap().insert(offset, payload), None);
                }
            });
        }
    });
    let written = written.into_inner().unwrap();
    assert_eq!(written.len(), 400);
    assert_eq!(read_all(&log), written);
    assert!(log.segments().len() > 2);
    node.close().unwrap();
}

#[test]
fn many_logs_are_committed_for_one_thread_that_never_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let logs: Vec<Log> = (0..40).map(|number| open(&node, &format!("q/{number}"))).collect();
    let tasks = logs.iter().map(|log| {
        let task = async move {
            for number in 0..20u64 {
                let payload = format!("{}:{number}", log.name());
                assert_eq!(publish(log, payload.as_bytes()).await, number);
            }
        };
        Box::pin(task) as Pin<Box<dyn Future<Output = ()>>>
    });
    join_all(tasks.collect());
    for log in &logs {
        let records = read_all(log);
        assert_eq!(records.len(), 20);
        assert!(
            records
                .values()
                .all(|payload| { payload.starts_with(format!("{}:", log.name()).as_bytes()) })
        );
    }
}

#[test]
fn try_append_says_busy_and_the_node_does_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let log = open(&node, "a");
    let payload = vec![b'x'; 60_000];
    let batch = [NewRecord::new(&payload)];
    // There is no file yet, and later there is no room: it never makes the caller wait for either.
    let mut busy = 0;
    let mut tickets = Vec::new();
    while tickets.len() < 100 {
        match log.try_append(&permit(&log, payload.len()), &batch) {
            Ok(ticket) => tickets.push(ticket),
            Err(AppendError::Busy) => {
                busy += 1;
                assert!(busy < 1_000_000, "the node does not do it");
                std::thread::sleep(Duration::from_micros(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(busy > 0, "the first one finds no file");
    // Nobody has waited for any of them, so what does not fit in the window was committed by the node.
    let offsets: Vec<u64> = tickets.into_iter().map(|t| t.wait().unwrap().first.0).collect();
    assert_eq!(offsets, (0..100).collect::<Vec<_>>());
}

#[test]
fn futures_that_are_dropped_leave_nothing_half_done() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let log = open(&node, "a");
    let waker = Waker::from(Arc::new(Flag(AtomicBool::new(false))));
    let mut context = Context::from_waker(&waker);
    // An append that has to wait for a file and is given up: nothing of it is ever written.
    let batch = [NewRecord::new(b"given up")];
    let mut given_up = Box::pin(log.append_async(permit(&log, 8), &batch));
    assert!(given_up.as_mut().poll(&mut context).is_pending());
    drop(given_up);
    assert_eq!(log.tail(), Offset::ZERO);
    // A ticket that was polled once, and one that was not: both are committed.
    let mut polled: Ticket =
        block_on(log.append_async(permit(&log, 6), &[NewRecord::new(b"polled")])).unwrap();
    let _ = Pin::new(&mut polled).poll(&mut context);
    drop(polled);
    drop(block_on(log.append_async(permit(&log, 7), &[NewRecord::new(b"dropped")])).unwrap());
    let mut reader = log.read_from(Offset::ZERO).unwrap();
    for expected in [b"polled".as_slice(), b"dropped"] {
        assert!(reader.wait(HANGS).unwrap());
        assert_eq!(reader.next().unwrap().unwrap().payload, expected);
    }
    assert!(reader.next().unwrap().is_none());
}

/// A waker that uses the log while it is called, and polls at once what it wakes.
struct PollAtOnce {
    log: Log,
    ticket: Mutex<Option<Ticket>>,
    done: mpsc::Sender<Offset>,
    calls: AtomicUsize,
}

impl Wake for PollAtOnce {
    fn wake(self: Arc<Self>) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        // Each of these takes the log's lock.
        assert!(self.log.durable() <= self.log.tail());
        let waker = Waker::from(Arc::clone(&self));
        let mut slot = self.ticket.lock().unwrap();
        let Some(ticket) = slot.as_mut() else { return };
        if let Poll::Ready(done) = Pin::new(ticket).poll(&mut Context::from_waker(&waker)) {
            *slot = None;
            self.done.send(done.unwrap().first).unwrap();
        }
    }
}

#[test]
fn wakers_are_called_outside_the_locks() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let log = open(&node, "a");
    let (done, doing) = mpsc::channel();
    for number in 0..200u64 {
        let ticket = block_on(log.append_async(permit(&log, 1), &[NewRecord::new(b"x")])).unwrap();
        let waker = Arc::new(PollAtOnce {
            log: log.clone(),
            ticket: Mutex::new(Some(ticket)),
            done: done.clone(),
            calls: AtomicUsize::new(0),
        });
        Arc::clone(&waker).wake();
        let offset = doing.recv_timeout(HANGS).expect("the waker does not hang");
        assert_eq!(offset, Offset(number));
        assert!(waker.calls.load(Ordering::Relaxed) >= 1);
    }
}

/// What one writer was told.
#[derive(Default)]
struct Told {
    confirmed: BTreeMap<u64, Vec<u8>>,
    not_written: Vec<Vec<u8>>,
    unknown: Vec<Vec<u8>>,
}

fn writer(log: &Log, writer: u64, stop: &AtomicBool) -> Told {
    let mut told = Told::default();
    for number in 0u64.. {
        let mut payload = format!("{writer}:{number}:").into_bytes();
        payload.resize(payload.len() + usize::try_from(number * 7919 % 3000).unwrap(), b'.');
        let records = [NewRecord::new(&payload)];
        // All three ways in.
        let answer = match number % 3 {
            0 => log.publish(WriteClass::Publish, &records),
            1 => block_on(async {
                let ticket = log.append_async(permit(log, payload.len()), &records).await?;
                Ok(ticket.await?)
            }),
            _ => match log.try_append(&permit(log, payload.len()), &records) {
                Ok(ticket) => ticket.wait().map_err(PublishError::from),
                Err(error) => Err(error.into()),
            },
        };
        match answer {
            Ok(done) => drop(told.confirmed.insert(done.first.0, payload)),
            Err(PublishError::Append(AppendError::Busy)) => told.not_written.push(payload),
            Err(error) => {
                let list = match error.outcome() {
                    Outcome::NotWritten => &mut told.not_written,
                    Outcome::Unknown => &mut told.unknown,
                };
                list.push(payload);
                assert!(stop.load(Ordering::Acquire), "nothing is broken, but: {error}");
                return told;
            }
        }
    }
    told
}

/// Reads what becomes durable, without a hole but where truncation made one.
fn follower(log: &Log, stop: &AtomicBool) -> BTreeMap<u64, Vec<u8>> {
    let mut seen = BTreeMap::new();
    let mut next = Offset::ZERO;
    'again: loop {
        let mut reader = match log.read_from(next) {
            Ok(reader) => reader,
            Err(ReadError::Gone { next: there, .. }) => {
                next = there;
                continue;
            }
            Err(ReadError::Stopped(_)) => return seen,
            Err(error) => panic!("{error}"),
        };
        loop {
            match reader.next() {
                Ok(Some(record)) => {
                    assert_eq!(record.offset, next);
                    next = record.offset.plus(1);
                    seen.insert(record.offset.0, record.payload);
                }
                Ok(None) => match reader.wait(Duration::from_millis(20)) {
                    Ok(_) => {}
                    Err(ReadError::Stopped(_)) => return seen,
                    Err(error) => panic!("{error}"),
                },
                Err(ReadError::Gone { next: there, .. }) => {
                    assert!(there > next);
                    next = there;
                    continue 'again;
                }
                Err(ReadError::Stopped(_)) => {
                    assert!(stop.load(Ordering::Acquire));
                    return seen;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn writers_followers_truncation_and_a_close_at_any_moment() {
    let mut total = 0;
    for round in 0..6u64 {
        let dir = tempfile::tempdir().unwrap();
        let node = node(dir.path());
        let log = open(&node, "a");
        let (stop, truncated) = (AtomicBool::new(false), AtomicU64::new(0));
        let (told, seen) = std::thread::scope(|scope| {
            let (log, stop, truncated) = (&log, &stop, &truncated);
            let writers: Vec<_> =
                (0..8).map(|w| scope.spawn(move || writer(log, w, stop))).collect();
            let followers: Vec<_> =
                (0..2).map(|_| scope.spawn(move || follower(log, stop))).collect();
            let truncation = scope.spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(10));
                    let before = log.durable().0 / 2;
                    truncated.fetch_max(before, Ordering::AcqRel);
                    match log.truncate_before(Offset(before)) {
                        Ok(done) => assert!(done.head.0 <= before),
                        Err(TruncateError::Stopped(_)) => {
                            assert!(stop.load(Ordering::Acquire));
                            return;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            while log.durable() == Offset::ZERO {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(round * 83 % 200));
            stop.store(true, Ordering::Release);
            node.clone().close().unwrap();
            truncation.join().unwrap();
            let told: Vec<Told> = writers.into_iter().map(|w| w.join().unwrap()).collect();
            let seen: Vec<_> = followers.into_iter().map(|f| f.join().unwrap()).collect();
            (told, seen)
        });
        drop((log, node));

        let node = self::node(dir.path());
        let log = open(&node, "a");
        let records = read_all(&log);
        assert!(log.head().0 <= truncated.load(Ordering::Acquire));
        assert_eq!(records.len() as u64, log.durable().0 - log.head().0);
        let mut confirmed = 0;
        for told in &told {
            confirmed += told.confirmed.len();
            for (offset, payload) in &told.confirmed {
                assert!(*offset < log.durable().0, "record {offset} was confirmed");
                if *offset >= log.head().0 {
                    assert_eq!(&records[offset], payload, "record {offset}");
                }
            }
            assert!(
                told.not_written.iter().all(|lost| !records.values().any(|there| there == lost))
            );
            assert!(told.unknown.is_empty(), "closing leaves nobody in doubt");
        }
        for (offset, payload) in seen.iter().flatten() {
            assert!(*offset < log.head().0 || &records[offset] == payload, "record {offset}");
        }
        assert!(confirmed > 0);
        total += confirmed;
        node.close().unwrap();
    }
    println!("{total} confirmed records in 6 rounds");
}

/// An append that awaits healing asks again each time the node has tried: where no file can be had, it must be told so and not
/// ask for ever, which took a whole processor.
#[test]
fn i5_an_append_that_awaits_a_log_that_cannot_heal_is_refused() {
    use plimsoll::fs::sim::{Fault, OpKind, SimFileSystem, What};
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/").unwrap();
    let mut options = NodeOptions::default();
    options.segment_size = 64 << 10;
    options.limits.pool.kept_back = plimsoll::Size(0);
    options.limits.pool.budget_cap = plimsoll::Size(0);
    let builder = Node::builder("/data").options(options).without_threads();
    let clock = Arc::new(plimsoll::clock::ManualClock::new(1_000));
    let node = builder.file_system(Arc::new(fs.clone())).clock(clock).open().unwrap();
    let log = open(&node, "a");
    log.publish(WriteClass::Publish, &[NewRecord::new(b"there")]).unwrap();
    fs.inject(Fault::nth(OpKind::Write, 0, What::Errno(5)));
    fs.inject(Fault::nth(OpKind::Create, 0, What::Errno(28)).forever());
    log.publish(WriteClass::Publish, &[NewRecord::new(b"fails")]).unwrap_err();
    let records = [NewRecord::new(b"waits")];
    // Publishes are refused by now; this is not.
    let Decision::Admit(permit) = log.admit(WriteClass::Acknowledge, 5) else {
        panic!("acknowledgements are never refused")
    };
    let mut append = pin!(log.append_async(permit, &records));
    let mut context = Context::from_waker(Waker::noop());
    let refused = (0..100).find_map(|_| match append.as_mut().poll(&mut context) {
        Poll::Ready(answer) => Some(answer.unwrap_err()),
        Poll::Pending => {
            while node.step() {}
            None
        }
    });
    assert!(matches!(refused, Some(AppendError::Disk(error)) if error.is_no_space()));
    // And with space again it goes on by itself.
    fs.clear_faults();
    let again = log.publish(WriteClass::Acknowledge, &[NewRecord::new(b"again")]).unwrap();
    assert_eq!(again.first, Offset(1));
}
