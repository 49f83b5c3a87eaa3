//! A checkpoint that fails answers those who wait for a commit at that moment.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, missing_docs)]

use plimsoll::error::{Outcome, PublishError};
use plimsoll::fs::sim::SimFileSystem;
use plimsoll::fs::{DirEntry, File, FileSystem, Lock, Metadata, Space, Write};
use plimsoll::{LogName, LogOptions, NewRecord, Node, NodeOptions, WriteClass};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// Stops the sync of a checkpoint half-way, and then lets it fail.
#[derive(Debug)]
struct Gate {
    armed: AtomicBool,
    entered: Barrier,
    leave: Barrier,
}

#[derive(Debug)]
struct Gated(SimFileSystem, Arc<Gate>);

#[derive(Debug)]
struct GatedFile(Arc<dyn File>, Arc<Gate>);

impl Gated {
    fn wrap(&self, file: io::Result<Arc<dyn File>>) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(GatedFile(file?, Arc::clone(&self.1))))
    }
}

impl FileSystem for Gated {
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.0.open_read(path)
    }
    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.wrap(self.0.open_write(path))
    }
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        self.wrap(self.0.create(path))
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.0.create_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.remove_file(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.0.remove_dir(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.list(dir)
    }
    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.0.metadata(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
    fn space(&self, path: &Path) -> io::Result<Space> {
        self.0.space(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.0.lock(path)
    }
    fn random(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.0.random(bytes)
    }
}

impl File for GatedFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn read_raw(&self, position: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_raw(position, into)
    }
    fn write_raw(&self, position: u64, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_raw(position, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        if self.1.armed.swap(false, Ordering::SeqCst) {
            self.1.entered.wait();
            self.1.leave.wait();
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.0.sync()
    }
    fn write_and_sync(&self, writes: &[Write<'_>]) -> io::Result<()> {
        self.0.write_and_sync(writes)
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
}

#[test]
fn i5_a_failed_checkpoint_answers_whoever_waits() {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/data").unwrap();
    let gate = Arc::new(Gate {
        armed: AtomicBool::new(false),
        entered: Barrier::new(2),
        leave: Barrier::new(2),
    });
    let mut options = NodeOptions::default();
    options.idle_checkpoint = Duration::ZERO;
    let gated = Gated(fs, Arc::clone(&gate));
    let node = Node::builder("/data").options(options).file_system(Arc::new(gated));
    let node = node.without_threads().open().unwrap();
    let log = node.open_log(&LogName::new("a").unwrap(), LogOptions::default()).unwrap();
    log.publish(WriteClass::Publish, &[NewRecord::new(b"one")]).unwrap();
    while node.step() {}
    log.publish(WriteClass::Publish, &[NewRecord::new(b"two")]).unwrap();
    let (done, answer) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        gate.armed.store(true, Ordering::SeqCst);
        let worker = scope.spawn(|| while node.step() {});
        gate.entered.wait();
        let writer = log.clone();
        // Not in the scope: if it hangs, the test is to end all the same.
        std::thread::spawn(move || {
            done.send(writer.publish(WriteClass::Publish, &[NewRecord::new(b"three")])).unwrap();
        });
        // It waits from the moment on at which its record is staged.
        while log.tail().0 < 3 {
            std::thread::yield_now();
        }
        gate.leave.wait();
        worker.join().unwrap();
    });
    let answer = answer.recv_timeout(Duration::from_secs(60)).expect("nobody woke it");
    let Err(PublishError::Commit(error)) = answer else { panic!("{answer:?}") };
    assert_eq!(error.outcome, Outcome::NotWritten);
    let again = log.publish(WriteClass::Publish, &[NewRecord::new(b"three")]).unwrap();
    assert_eq!(again.first.0, 2);
    node.close().unwrap();
}
