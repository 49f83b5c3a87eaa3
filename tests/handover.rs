//! Commits are handed from writer to writer and to committers and back: nobody waits for ever, and what was confirmed is there.
//!
//! `PLIMSOLL_HANDOVER_ROUNDS=300` looks longer for a wake-up that is lost.
#![allow(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "not the engine: a test"
)]

use plimsoll::error::{AppendError, CommitError, CommitFailure, Outcome, PublishError, Stopped};
use plimsoll::fs::sim::{Fault, OpKind, Reached, SimFileSystem, What};
use plimsoll::permit::Decision;
use plimsoll::{
    Appended, Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, Ticket, WriteClass,
};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

/// Far more than anything here takes: what is not done by then hangs.
const HANGS: Duration = Duration::from_secs(100);

/// Runs `work`, and ends the process with a message if that takes too long: threads that hang cannot be stopped.
fn watched<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (done, waits) = mpsc::channel::<()>();
    let name = what.to_owned();
    let watchdog = std::thread::spawn(move || {
        if waits.recv_timeout(HANGS) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("HANGS: {name}");
            std::process::abort();
        }
    });
    let result = work();
    drop(done);
    watchdog.join().unwrap();
    result
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls in this thread; never by a timeout, so that a waker that is not called is a hang.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::park();
    }
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    threads: u64,
    logs: u64,
    committers: usize,
    gather: bool,
    /// Operations of each thread.
    operations: u64,
    seed: u64,
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What all were told, by log.
#[derive(Default)]
struct Told {
    confirmed: BTreeMap<u64, Vec<u8>>,
    /// Its first bytes are in no other payload.
    not_written: BTreeSet<Vec<u8>>,
}

/// A log that its writers open again when it has failed.
struct Shared {
    node: Node,
    name: LogName,
    log: Mutex<Log>,
    told: Mutex<Told>,
}

impl Shared {
    fn open(node: &Node, number: u64) -> Self {
        let name = LogName::new(&format!("log-{number}")).unwrap();
        let log = node.open_log(&name, LogOptions::default()).unwrap();
        Self { node: node.clone(), name, log: Mutex::new(log), told: Mutex::default() }
    }

    fn log(&self) -> Log {
        self.log.lock().unwrap().clone()
    }

    fn note(&self, payload: Vec<u8>, answer: Result<Appended, PublishError>) {
        let mut told = self.told.lock().unwrap();
        let error = match answer {
            Ok(done) => {
                let before = told.confirmed.insert(done.first.0, payload);
                assert!(before.is_none(), "offset {} was given twice", done.first);
                return;
            }
            Err(error) => error,
        };
        if error.outcome() == Outcome::NotWritten {
            told.not_written.insert(payload);
        }
        drop(told);
        let stopped = match error {
            PublishError::Append(AppendError::Stopped(why))
            | PublishError::Commit(CommitError { reason: CommitFailure::Stopped(why), .. }) => why,
            _ => return,
        };
        // Closed is what another writer has opened again.
        assert!(matches!(stopped, Stopped::Failed(_) | Stopped::Closed), "{stopped}");
        let mut log = self.log.lock().unwrap();
        if log.stopped().is_some() {
            // It fails while calls are made to fail; the next one tries again.
            if let Ok(open) = self.node.open_log(&self.name, LogOptions::default()) {
                *log = open;
            }
        }
    }

    /// All that was confirmed is at its offset, and nothing is there that was refused.
    fn check(&self, log: &Log) {
        let told = self.told.lock().unwrap();
        let mut reader = log.read_from(Offset::ZERO).unwrap();
        let mut shown = 0;
        while let Some(record) = reader.next().unwrap() {
            assert_eq!(record.offset.0, shown);
            if let Some(payload) = told.confirmed.get(&shown) {
                assert!(record.payload == *payload, "{shown} is another record");
            }
            assert!(!told.not_written.contains(&record.payload), "{shown} was refused");
            shown += 1;
        }
        let last = told.confirmed.last_key_value().map_or(0, |(offset, _)| offset + 1);
        assert!(shown >= last, "{} of {last} are left", shown);
    }
}

fn append(log: &Log, payload: &[u8]) -> Result<Ticket, PublishError> {
    match log.admit(WriteClass::Publish, payload.len() as u64) {
        Decision::Admit(permit) => Ok(log.append(permit, &[NewRecord::new(payload)])?),
        other => panic!("{other:?}"),
    }
}

fn writer(logs: &[Shared], thread: u64, setting: Setting) {
    let mut random = Random((setting.seed << 16) + thread * 2 + 1);
    for number in 0..setting.operations {
        let shared = &logs[usize::try_from(random.below(setting.logs)).unwrap()];
        let log = shared.log();
        let mut payload = format!("{thread}:{number}:").into_bytes();
        // Some do not fit into what may be under way, so that their writers wait for room.
        let most = if random.below(40) == 0 { 300_000 } else { 2_000 };
        payload.resize(payload.len() + usize::try_from(random.below(most)).unwrap(), b'.');
        let pause = Duration::from_micros([0, 0, 30, 300, 2_000][random.below(5) as usize]);
        let answer = match random.below(12) {
            0..=4 => log.publish(WriteClass::Publish, &[NewRecord::new(&payload)]),
            5 | 6 => match append(&log, &payload) {
                Ok(ticket) => {
                    drop(ticket);
                    continue;
                }
                Err(error) => Err(error),
            },
            7 | 8 => append(&log, &payload).and_then(|ticket| Ok(block_on(ticket)?)),
            // Staged, and its writer does something else for a while.
            9 => append(&log, &payload).and_then(|ticket| {
                std::thread::sleep(pause);
                Ok(ticket.wait()?)
            }),
            // A later one is waited for first.
            10 => append(&log, &payload).and_then(|ticket| {
                let mut second = payload.clone();
                second.extend(b"second");
                let answer = append(&log, &second).and_then(|ticket| Ok(ticket.wait()?));
                shared.note(second, answer);
                Ok(ticket.wait()?)
            }),
            _ => {
                std::thread::sleep(pause);
                log.publish(WriteClass::Publish, &[NewRecord::new(&payload)])
            }
        };
        shared.note(payload, answer);
    }
}

fn options(setting: Setting) -> NodeOptions {
    let mut options = NodeOptions::default();
    options.segment_size = 1 << 20;
    options.committers = setting.committers;
    options.gather = setting.gather;
    // The worker takes the lead too.
    options.idle_checkpoint = Duration::from_millis(1);
    options
}

fn run(setting: Setting, open: impl Fn(NodeOptions) -> Node, mut meanwhile: impl FnMut(u64)) {
    let node = open(options(setting));
    let logs: Vec<Shared> = (0..setting.logs).map(|number| Shared::open(&node, number)).collect();
    std::thread::scope(|scope| {
        let logs = &logs;
        let threads: Vec<_> = (0..setting.threads)
            .map(|thread| scope.spawn(move || writer(logs, thread, setting)))
            .collect();
        let mut round = 0;
        while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            meanwhile(round);
            round += 1;
            std::thread::sleep(Duration::from_micros(500));
        }
    });
    meanwhile(u64::MAX);
    for shared in &logs {
        let log = shared.log();
        if log.stopped().is_none() {
            shared.check(&log);
        }
    }
    node.close().unwrap();
    let node = open(options(setting));
    for shared in &logs {
        shared.check(&node.open_log(&shared.name, LogOptions::default()).unwrap());
    }
    node.close().unwrap();
}

fn on_a_disk(dir: &Path, setting: Setting) {
    let data = dir.join(format!("data-{}", setting.seed));
    let open = |options| Node::builder(&data).options(options).without_pressure().open().unwrap();
    run(setting, open, |_| ());
    std::fs::remove_dir_all(&data).unwrap();
}

fn on_a_simulated_disk(setting: Setting, direct: bool, fails: bool) {
    let fs = SimFileSystem::new(setting.seed);
    fs.prepare_dir("/data").unwrap();
    fs.set_direct(direct);
    let open = |options| {
        let fs = Arc::new(fs.process());
        let node = Node::builder("/data").options(options).file_system(fs);
        node.without_pressure().open().unwrap()
    };
    run(setting, open, |round| {
        if round == u64::MAX {
            fs.clear_faults();
        } else if fails && round % 4 == 0 && fs.faults_waiting() == 0 {
            let reached = [Reached::Nothing, Reached::Everything, Reached::Some(round)]
                [(round / 4 % 3) as usize];
            let what = What::FailedSync { errno: libc::EIO, reached };
            fs.inject(Fault::nth(OpKind::Sync, round % 7, what).on("/data/logs"));
        }
    });
}

/// Writers who never stop must not keep out who waits for the lead: to close a log, to delete it.
fn ends_under_load(setting: Setting, end: impl Fn(Node, &LogName)) {
    let dir = tempfile::tempdir().unwrap();
    let open = |options| Node::builder(dir.path()).options(options).without_pressure().open();
    let node = open(options(setting)).unwrap();
    let shared = Shared::open(&node, 0);
    let barrier = std::sync::Barrier::new(usize::try_from(setting.threads).unwrap() + 1);
    std::thread::scope(|scope| {
        for thread in 0..setting.threads {
            let (log, barrier) = (shared.log(), &barrier);
            scope.spawn(move || {
                for number in 0_u64.. {
                    if number == 20 {
                        barrier.wait();
                    }
                    let answer = if thread % 4 == 3 {
                        append(&log, b"x").and_then(|ticket| Ok(block_on(ticket)?))
                    } else {
                        log.publish(WriteClass::Publish, &[NewRecord::new(b"x")])
                    };
                    if answer.is_err() {
                        assert!(log.stopped().is_some(), "{answer:?}");
                        return;
                    }
                }
            });
        }
        barrier.wait();
        end(node.clone(), &shared.name);
    });
}

#[test]
fn a_log_is_closed_and_deleted_under_load() {
    for (committers, gather) in [(1, true), (8, true), (1, false), (8, false)] {
        for threads in [1, 4, 16, 64] {
            let setting = Setting { threads, logs: 1, committers, gather, operations: 0, seed: 1 };
            watched(&format!("closing, {setting:?}"), || {
                ends_under_load(setting, |node, _| node.close().unwrap());
            });
            watched(&format!("deleting, {setting:?}"), || {
                ends_under_load(setting, |node, name| {
                    node.delete_log(name).unwrap();
                    node.close().unwrap();
                });
            });
        }
    }
}

fn rounds() -> u64 {
    let rounds = std::env::var("PLIMSOLL_HANDOVER_ROUNDS").ok();
    rounds.map_or(1, |rounds| rounds.parse().unwrap())
}

/// Each setting, with fewer operations where there are more threads.
fn settings() -> impl Iterator<Item = Setting> {
    (0..rounds()).flat_map(|round| {
        [1, 2, 3, 16, 64].into_iter().flat_map(move |threads| {
            [(1, 1), (1, 8), (5, 1), (5, 8)].into_iter().flat_map(move |(logs, committers)| {
                [true, false].map(|gather| Setting {
                    threads,
                    logs,
                    committers,
                    gather,
                    operations: 20 + 240 / threads,
                    seed: round * 1_000 + threads * 10 + logs + committers as u64 + 1,
                })
            })
        })
    })
}

#[test]
fn nobody_waits_for_ever_on_a_disk() {
    let dir = tempfile::tempdir().unwrap();
    for setting in settings() {
        watched(&format!("{setting:?} on a disk"), || on_a_disk(dir.path(), setting));
    }
}

/// Where a sync takes no time, a hand-over is most of it.
#[test]
fn nobody_waits_for_ever_in_memory() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
    for setting in settings() {
        watched(&format!("{setting:?} in memory"), || on_a_disk(dir.path(), setting));
    }
}

#[test]
fn nobody_waits_for_ever_when_syncs_fail() {
    for setting in settings() {
        for (direct, fails) in [(true, true), (false, true), (true, false)] {
            let what = format!("{setting:?}, direct {direct}, fails {fails}");
            watched(&what, || on_a_simulated_disk(setting, direct, fails));
        }
    }
}
