//! The driver of this engine: appends and truncates what it is told on standard input, and says what became of it.
//!
//! A process of its own, so that it can be killed, traced and starved; and so that another program with the same lines
//! can stand in for it.

use super::lines::{Answer, Request, one_line};
use super::payload::payload;
use plimsoll::error::{AppendError, CommitFailure, Outcome, PublishError, Stopped};
use plimsoll::planted::{self, Fault};
use plimsoll::types::Fraction;
use plimsoll::{Log, LogName, LogOptions, NewRecord, Node, NodeOptions, Size};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Small files and short waits, so that rolls, spares, checkpoints and swaps happen within a second.
#[must_use]
pub fn options() -> NodeOptions {
    let mut options = NodeOptions::default();
    options.segment_size = 256 << 10;
    options.committers = 2;
    // A mistake is made in the thread that it is planted in.
    options.recovery_threads = if planted().is_some() { 1 } else { 4 };
    options.idle_checkpoint = Duration::from_millis(300);
    // What a disk does that is full to the last byte is the matter here, before which levels stand.
    let disk = &mut options.limits.disk;
    for (line, millionths) in [(&mut disk.soft, 3), (&mut disk.hard, 2), (&mut disk.reserve, 1)] {
        (line.share, line.floor) = (Fraction::millionths(millionths), Size(0));
    }
    options.limits.pool.kept_back = Size(512 << 10);
    options.limits.pool.kept_back_share = Fraction::percent(5);
    options.limits.pool.budget_cap = Size(4 << 20);
    options
}

/// A known mistake of the engine that this process makes, to see that the lab notices: its name in `FAULTLAB_PLANT`. Builds
/// without debug assertions make none.
#[must_use]
pub fn planted() -> Option<Fault> {
    let name = std::env::var("FAULTLAB_PLANT").ok()?;
    Fault::ALL.iter().copied().find(|fault| format!("{fault:?}") == name)
}

/// Runs `work` with the mistake that this process makes, if any.
pub fn with_planted<T>(work: impl FnOnce() -> T) -> T {
    match planted() {
        Some(fault) => planted::with(fault, work),
        None => work(),
    }
}

/// One log, and the threads that append to it.
struct Lane {
    requests: Sender<Request>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    node: Node,
    name: LogName,
    /// Opened again after it has failed.
    log: Mutex<Option<Log>>,
    requests: Mutex<Receiver<Request>>,
}

/// Serves the lines of `input` until it ends, each log with so many `threads`; then closes the node. `buffered`: commits go
/// through the page cache, whatever the file system can.
///
/// # Errors
/// If the node does not open or close, in words.
pub fn serve(
    dir: &Path,
    threads: usize,
    buffered: bool,
    input: impl BufRead,
) -> Result<(), String> {
    let mut options = options();
    options.direct_writes = !buffered;
    let node = Node::open(dir, options).map_err(|error| error.to_string())?;
    let mut lanes: BTreeMap<String, Lane> = BTreeMap::new();
    for line in input.lines() {
        let line = line.map_err(|error| format!("standard input: {error}"))?;
        let request = Request::parse(&line).ok_or_else(|| format!("not understood: {line:?}"))?;
        let name = request.log().to_owned();
        if !lanes.contains_key(&name) {
            lanes.insert(name.clone(), lane(&node, &name, threads)?);
        }
        if let Some(lane) = lanes.get(&name) {
            // Its threads live as long as this sender.
            let _ = lane.requests.send(request);
        }
    }
    for (_, Lane { requests, threads }) in lanes {
        drop(requests);
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked".to_owned())?;
        }
    }
    node.close().map_err(|error| format!("not closed clean: {error}"))
}

fn lane(node: &Node, name: &str, threads: usize) -> Result<Lane, String> {
    let (sender, receiver) = channel();
    let shared = Arc::new(Shared {
        node: node.clone(),
        name: LogName::new(name).map_err(|error| error.to_string())?,
        log: Mutex::default(),
        requests: Mutex::new(receiver),
    });
    let spawn = |_| {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || with_planted(|| shared.work()))
    };
    Ok(Lane { requests: sender, threads: (0..threads.max(1)).map(spawn).collect() })
}

impl Shared {
    fn work(&self) {
        loop {
            let request = self.requests.lock().unwrap().recv();
            let Ok(request) = request else { return };
            say(&match request {
                Request::Append { log, id, len, class } => {
                    let payload = payload(&log, id, len);
                    let record = NewRecord::new(&payload);
                    let published = match self.log() {
                        Ok(open) => open.publish(class, &[record]),
                        Err(reason) => {
                            say(&Answer::NotWritten { log, id, reason });
                            continue;
                        }
                    };
                    match published {
                        Ok(done) => Answer::Ack { log, id, offset: done.first.0 },
                        Err(error) => {
                            self.reopen_after(&error);
                            let reason = one_line(&error);
                            match error.outcome() {
                                Outcome::NotWritten => Answer::NotWritten { log, id, reason },
                                Outcome::Unknown => Answer::Unknown { log, id, reason },
                            }
                        }
                    }
                }
                Request::Truncate { log, before } => {
                    let truncated = self.log().and_then(|open| {
                        let done = open.truncate_before(plimsoll::Offset(before));
                        done.map_err(|error| one_line(&error))
                    });
                    match truncated {
                        Ok(done) => Answer::Truncated { log, head: done.head.0 },
                        Err(reason) => Answer::TruncateFailed { log, reason },
                    }
                }
            });
        }
    }

    /// The log, opened if it is not.
    fn log(&self) -> Result<Log, String> {
        let mut log = self.log.lock().unwrap();
        if let Some(open) = &*log {
            return Ok(open.clone());
        }
        let open = self.node.open_log(&self.name, LogOptions::default());
        let open = open.map_err(|error| format!("not opened: {}", one_line(&error)))?;
        *log = Some(open.clone());
        Ok(open)
    }

    /// A log that has failed is its owner's to open again.
    fn reopen_after(&self, error: &PublishError) {
        let stopped = match error {
            PublishError::Append(AppendError::Stopped(why)) => Some(why),
            PublishError::Commit(commit) => match &commit.reason {
                CommitFailure::Stopped(why) => Some(why),
                _ => None,
            },
            _ => None,
        };
        if matches!(stopped, Some(Stopped::Failed(_))) {
            *self.log.lock().unwrap() = None;
        }
    }
}

/// One line in one write, so that none is torn, and at once, so that what was confirmed is known before a kill.
fn say(answer: &Answer) {
    let line = format!("{answer}\n");
    let mut out = io::stdout().lock();
    if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
        // Nobody listens any more.
        std::process::exit(1);
    }
}
