//! The threads of a node: each is a loop round one step.

use super::Inner;
use super::pressure::SAMPLE_EVERY;
use crate::error::{DiskError, OpenError};
use crate::pool::Step;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the worker takes a turn without being asked.
const TURN: Duration = Duration::from_millis(250);

/// How long the pool waits between two parts of a file that it makes ahead: 250 MB a second at most.
const PACE: Duration = Duration::from_millis(4);
#[derive(Debug, Default)]
pub(super) struct Threads(pub(super) Vec<JoinHandle<()>>);

impl Threads {
    pub(super) fn start(inner: &Arc<Inner>) -> Result<Self, OpenError> {
        let mut threads = Self::default();
        for number in 0..inner.options.committers {
            let this = Arc::clone(inner);
            let body = move || {
                while let Some(log) = this.hub.next_commit() {
                    log.commit_staged();
                }
            };
            threads.spawn(inner, format!("plimsoll-commit-{number}"), body)?;
        }
        let this = Arc::clone(inner);
        let body = move || {
            loop {
                let (log, closing) = this.hub.next_prepare(TURN);
                match log {
                    Some(log) => log.prepare(),
                    None if closing => break,
                    None => this.take_turn(),
                }
            }
        };
        threads.spawn(inner, "plimsoll-worker".to_owned(), body)?;
        let this = Arc::clone(inner);
        let body = move || {
            while !this.hub.is_closing() {
                match this.pool.step() {
                    Step::Done => {}
                    Step::Paced => this.clock.sleep(PACE),
                    Step::Idle => this.pool.wait(TURN),
                }
            }
        };
        threads.spawn(inner, "plimsoll-pool".to_owned(), body)?;
        let this = Arc::clone(inner);
        let body = move || {
            while !this.hub.is_closing() {
                this.watch.sample_memory(this.buffers.bytes());
                this.hub.wait_to_close(SAMPLE_EVERY);
            }
        };
        threads.spawn(inner, "plimsoll-memory".to_owned(), body)?;
        for disk in inner.watch.disks() {
            inner.start_sampler(&disk)?;
        }
        Ok(threads)
    }

    #[allow(clippy::disallowed_methods, reason = "the room that owns the threads")]
    fn spawn(
        &mut self,
        inner: &Inner,
        name: String,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), OpenError> {
        let started = std::thread::Builder::new().name(name).spawn(body);
        match started {
            Ok(thread) => {
                self.0.push(thread);
                Ok(())
            }
            Err(error) => {
                inner.hub.close();
                let path = inner.dirs.first().map_or(Path::new(""), |dir| &dir.path);
                Err(DiskError::new("start a thread for", path, error).into())
            }
        }
    }
}
