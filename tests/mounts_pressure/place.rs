//! A small file system of its own, what is free on it, a file from outside that takes that, and a node's logs on it.

use crate::ledger::Ledger;
use crate::outside::wait_for;
use crate::skip::skip;
use faultlab::mounts::Mount;
use nix::errno::Errno;
use nix::fcntl::posix_fallocate;
use plimsoll::error::{AppendError, PublishError};
use plimsoll::fs::{FileSystem, OsFileSystem};
use plimsoll::permit::Decision;
use plimsoll::{Limited, Log, LogName, LogOptions, Node, NodeOptions, WriteClass};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const SMALL: u64 = 64 * MIB;

/// A mount, and its kind for messages.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) kind: &'static str,
    mount: Mount,
}

/// Runs `test` on a small ext4 and on a small tmpfs; what cannot be mounted is said to be skipped.
pub(crate) fn each(name: &str, test: impl Fn(&Place)) {
    let made = [("ext4", Mount::ext4(SMALL)), ("tmpfs", Mount::tmpfs(SMALL))];
    for (kind, mount) in made {
        match mount {
            Ok(mount) => test(&Place { kind, mount }),
            Err(reason) => skip(&format!("{name}/{kind}"), &reason),
        }
    }
}

/// A tmpfs of so many bytes, or none after saying that the test was skipped.
pub(crate) fn tmpfs(name: &str, bytes: u64) -> Option<Place> {
    let mount = Mount::tmpfs(bytes).inspect_err(|reason| skip(name, reason)).ok()?;
    Some(Place { kind: "tmpfs", mount })
}

/// A btrfs of so many bytes, or none after saying that the test was skipped.
pub(crate) fn btrfs(name: &str, bytes: u64) -> Option<Place> {
    let mount = Mount::btrfs(bytes).inspect_err(|reason| skip(name, reason)).ok()?;
    Some(Place { kind: "btrfs", mount })
}

impl Place {
    pub(crate) fn path(&self) -> &Path {
        self.mount.path()
    }

    /// The node's directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// What `statvfs` says an ordinary process may still use.
    pub(crate) fn available(&self) -> u64 {
        available(self.path())
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }

    /// Has another file take so much that about `leave` bytes are free; it gives back where less are.
    pub(crate) fn leave(&self, leave: u64) {
        let file = File::options().create(true).append(true).open(self.filler()).unwrap();
        let (now, free) = (file.metadata().unwrap().len(), self.available());
        if free < leave {
            file.set_len(now.saturating_sub(leave - free)).unwrap();
        } else if free > leave {
            let bytes = i64::try_from(free - leave).unwrap();
            match posix_fallocate(&file, i64::try_from(now).unwrap(), bytes) {
                // The node took some meanwhile.
                Ok(()) | Err(Errno::ENOSPC) => {}
                Err(error) => panic!("{error}"),
            }
        }
        file.sync_all().unwrap();
    }

    /// Takes the last byte from outside, the share kept for root included.
    pub(crate) fn fill(&self) {
        self.leave(0);
        crate::outside::fill(&self.filler());
        assert_eq!(self.available(), 0, "{}", self.kind);
    }

    /// Gives back what was taken from outside.
    pub(crate) fn empty(&self) {
        for entry in std::fs::read_dir(self.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_stem().is_some_and(|stem| stem == "filler") {
                std::fs::remove_file(path).unwrap();
            }
        }
    }
}

pub(crate) fn available(dir: &Path) -> u64 {
    OsFileSystem.space(dir).unwrap().available
}

/// The defaults, with fewer threads, and no idle log that gets another file in the midst of a test.
pub(crate) fn options() -> NodeOptions {
    let mut options = NodeOptions::default();
    options.committers = 2;
    options.idle_checkpoint = Duration::from_secs(3600);
    options
}

/// A log, and what was appended to it.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) log: Log,
    pub(crate) ledger: Ledger,
}

pub(crate) fn open(node: &Node, name: &str) -> Log {
    node.open_log(&LogName::new(name).unwrap(), LogOptions::default()).unwrap()
}

impl Queue {
    pub(crate) fn new(node: &Node, name: &str) -> Self {
        Self { log: open(node, name), ledger: Ledger::default() }
    }

    pub(crate) fn publish(
        &mut self,
        class: WriteClass,
        count: u64,
        len: usize,
    ) -> Result<(), PublishError> {
        self.ledger.publish(&self.log, class, count, len)
    }

    /// Appends ten acknowledgements, which must be possible always.
    pub(crate) fn acknowledge(&mut self, what: &str) {
        for _ in 0..10 {
            self.publish(WriteClass::Acknowledge, 1, 60)
                .unwrap_or_else(|error| panic!("{what}: {}: {error}", self.log.name()));
        }
    }

    /// Truncates all but the last `keep` records.
    pub(crate) fn truncate(&mut self, keep: u64) -> u64 {
        self.ledger.truncate(&self.log, keep)
    }

    /// Everything is read back, and it takes appends.
    pub(crate) fn check(&self) {
        assert!(self.log.stopped().is_none(), "{}: {:?}", self.log.name(), self.log.stopped());
        self.ledger.check(&self.log);
    }

    /// What admission says of a publish of so many bytes, without making one.
    pub(crate) fn told(&self, bytes: u64) -> Result<Duration, Limited> {
        match self.log.admit(WriteClass::Publish, bytes) {
            Decision::Admit(_) => Ok(Duration::ZERO),
            Decision::Delay { wait, .. } => Ok(wait),
            Decision::Refuse(limited) => Err(limited),
        }
    }
}

/// The refusal that an error is; anything else fails the test.
pub(crate) fn refusal(error: PublishError) -> Limited {
    match error {
        PublishError::Limited(limited) => limited,
        PublishError::Append(AppendError::Limited(limited)) => limited,
        other => panic!("not refused, but failed: {other:?}"),
    }
}

pub(crate) fn wait_for_kept_back(node: &Node) {
    wait_for("what is kept back", || {
        let pools = node.stats().pools;
        pools
            .iter()
            .all(|pool| pool.kept_back_missing == 0 && pool.kept_back_bytes > 0)
            .then_some(())
    });
}

/// Ends a thread that runs beside, also when the test panics: it would wait for it for ever.
#[derive(Debug, Default)]
pub(crate) struct Ended(AtomicBool);

impl Ended {
    pub(crate) fn is(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn at_drop(&self) -> impl Drop + '_ {
        struct Guard<'a>(&'a Ended);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.0.store(true, Ordering::Release);
            }
        }
        Guard(self)
    }
}

/// Asks for free space all the time, and keeps the least.
#[derive(Debug)]
pub(crate) struct Lowest {
    lowest: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Lowest {
    pub(crate) fn of(dir: &Path) -> Self {
        let (lowest, ended) =
            (Arc::new(AtomicU64::new(u64::MAX)), Arc::new(AtomicBool::new(false)));
        let (dir, into, end) = (dir.to_path_buf(), Arc::clone(&lowest), Arc::clone(&ended));
        let look = move || {
            while !end.load(Ordering::Acquire) {
                into.fetch_min(available(&dir), Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
            into.fetch_min(available(&dir), Ordering::Relaxed);
        };
        Self { lowest, ended, thread: Some(std::thread::spawn(look)) }
    }

    pub(crate) fn end(mut self) -> u64 {
        self.stop();
        self.lowest.load(Ordering::Relaxed)
    }

    fn stop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Lowest {
    /// A test that panics must not leave a thread that holds the mount.
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
    }
}
