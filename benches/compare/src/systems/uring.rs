//! The same direct writes through io_uring: whether the ring would win.

use super::raw::{Raw, State, Way};
use super::{Role, Shape, Store, System};
use crate::workload::Kind;
use io_uring::{IoUring, opcode, squeue, types};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

struct Ring {
    ring: IoUring,
    files: Vec<Raw>,
    /// Whether the write itself syncs; else a linked `fdatasync` follows it.
    dsync: bool,
}

struct Floor(Mutex<Ring>);

impl Ring {
    /// Puts an append into the ring. Gives how many answers it will have.
    fn push(&mut self, log: usize, bytes: &[u8]) -> usize {
        let fd = types::Fd(self.files[log].file.as_raw_fd());
        let (blocks, at) = self.files[log].stage(bytes);
        let mut write = opcode::Write::new(fd, blocks.as_ptr(), blocks.len() as u32).offset(at);
        let data = log as u64;
        let entries = if self.dsync {
            write = write.rw_flags(libc::RWF_DSYNC);
            vec![write.build().user_data(data)]
        } else {
            let write = write.build().flags(squeue::Flags::IO_LINK).user_data(data | WRITE);
            let sync = opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC);
            vec![write, sync.build().user_data(data)]
        };
        // SAFETY: the blocks stay in the file's buffer until the next append to it, which waits for this one.
        unsafe { self.ring.submission().push_multiple(&entries).unwrap() };
        entries.len()
    }

    /// Waits for answers; gives the logs whose append is durable now.
    fn wait(&mut self, answers: usize, done: &mut Vec<usize>) {
        self.ring.submit_and_wait(answers).unwrap();
        for answer in self.ring.completion() {
            assert!(answer.result() >= 0, "io_uring: {}", answer.result());
            if answer.user_data() & WRITE == 0 {
                done.push(answer.user_data() as usize);
            }
        }
    }
}

/// Marks the answer to a write whose sync is still to come.
const WRITE: u64 = 1 << 32;

impl Store for Floor {
    fn append(&self, log: usize, payload: &[u8]) {
        let mut ring = self.0.lock().unwrap();
        let answers = ring.push(log, payload);
        let mut done = Vec::new();
        while done.is_empty() {
            ring.wait(answers, &mut done);
        }
    }

    fn batch(&self, log: usize, payload: &[u8], count: usize) {
        self.append(log, &payload.repeat(count));
    }

    fn swarm(&self, logs: usize, payload: &[u8], until: Instant) -> Option<u64> {
        let mut ring = self.0.lock().unwrap();
        (0..logs).for_each(|log| {
            ring.push(log, payload);
        });
        let (mut under_way, mut total) = (logs, 0);
        let mut done = Vec::new();
        while under_way > 0 {
            ring.wait(1, &mut done);
            total += done.len() as u64;
            under_way -= done.len();
            let goes_on = Instant::now() < until;
            for log in done.drain(..) {
                if goes_on {
                    ring.push(log, payload);
                    under_way += 1;
                }
            }
        }
        Some(total)
    }
}

fn open(dir: &Path, shape: &Shape, dsync: bool) -> Box<dyn Store> {
    let len = if shape.logs > 1 { u64::from(super::FILE_OF_MANY) } else { 64 << 20 };
    let files = (0..shape.logs)
        .map(|log| Raw::new(&dir.join(format!("ring-{log}")), Way::Direct, State::Written, len))
        .collect();
    let ring = IoUring::new(256).unwrap();
    Box::new(Floor(Mutex::new(Ring { ring, files, dsync })))
}

fn leaves_out(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Single { .. } | Kind::Logs { .. } => None,
        _ => Some("a floor of one writer and of many files"),
    }
}

pub(crate) fn systems() -> Vec<System> {
    let system = |name, mode, open| System {
        name,
        role: Role::Floor,
        package: None,
        mode,
        durable: true,
        unchecked: None,
        few_logs: true,
        slow_batches: false,
        leaves_out,
        open,
    };
    vec![
        system(
            "floor-uring-fsync-written",
            "io_uring: O_DIRECT write, linked fdatasync, written file",
            |dir: &Path, shape: &Shape| open(dir, shape, false),
        ),
        system(
            "floor-uring-dsync-written",
            "io_uring: O_DIRECT write with RWF_DSYNC, written file",
            |dir: &Path, shape: &Shape| open(dir, shape, true),
        ),
    ]
}
