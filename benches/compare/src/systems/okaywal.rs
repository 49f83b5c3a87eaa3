//! okaywal: an entry of one chunk for each record; a commit returns when the entry is synced (`fdatasync`, shared by those who
//! commit at the same time). A batch is one entry of many chunks.

use super::{Role, Scanned, Shape, Store, System};
use crate::workload::Kind;
use okaywal::{
    Configuration, Entry, EntryId, LogManager, ReadChunkResult, SegmentReader, WriteAheadLog,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Reads every chunk that is recovered and checks it; keeps nothing.
#[derive(Clone, Debug, Default)]
struct Counting(Arc<Mutex<Scanned>>);

impl LogManager for Counting {
    fn recover(&mut self, entry: &mut Entry<'_>) -> io::Result<()> {
        let mut seen = Scanned::default();
        loop {
            match entry.read_chunk()? {
                ReadChunkResult::Chunk(mut chunk) => {
                    let bytes = chunk.read_all()?;
                    if !chunk.check_crc()? {
                        return Err(io::Error::other("a chunk is damaged"));
                    }
                    seen.records += 1;
                    seen.bytes += bytes.len() as u64;
                }
                ReadChunkResult::EndOfEntry => break,
                ReadChunkResult::AbortedEntry => return Ok(()),
            }
        }
        let mut all = self.0.lock().unwrap();
        all.records += seen.records;
        all.bytes += seen.bytes;
        Ok(())
    }

    fn checkpoint_to(
        &mut self,
        _: EntryId,
        _: &mut SegmentReader,
        _: &WriteAheadLog,
    ) -> io::Result<()> {
        Ok(())
    }
}

struct One {
    wal: WriteAheadLog,
    recovered: Scanned,
}

struct Okaywal {
    dir: PathBuf,
    shape: Shape,
    logs: Mutex<Vec<One>>,
    /// The same, to be used without the lock.
    wals: Mutex<Vec<WriteAheadLog>>,
}

fn open_one(dir: &Path, shape: &Shape, log: usize) -> One {
    // As large as the engine's files, and ended as the defaults do, a quarter before; a log that must keep all has one
    // file, as a checkpoint forgets what is in one.
    let file: u32 = match shape {
        Shape { keeps: true, logs: 1, bytes, .. } => (bytes + bytes / 8) as u32,
        Shape { keeps: true, .. } => 64 << 10,
        Shape { logs: 1, .. } => 64 << 20,
        _ => super::FILE_OF_MANY,
    };
    let until = if shape.keeps { u64::from(u32::MAX) } else { u64::from(file) / 4 * 3 };
    let counting = Counting::default();
    let config = Configuration::default_for(dir.join(format!("wal-{log}")))
        .preallocate_bytes(file)
        .checkpoint_after_bytes(until)
        .buffer_bytes(64 << 10);
    let wal = config.open(counting.clone()).unwrap();
    let recovered = *counting.0.lock().unwrap();
    One { wal, recovered }
}

fn open(dir: &Path, shape: &Shape) -> Box<dyn Store> {
    let logs = super::in_parallel(shape.logs, |log| open_one(dir, shape, log));
    let wals = logs.iter().map(|one| one.wal.clone()).collect();
    let okaywal = Okaywal {
        dir: dir.to_path_buf(),
        shape: *shape,
        logs: Mutex::new(logs),
        wals: Mutex::new(wals),
    };
    if shape.prepared > 0 {
        // Through three files, so that those that follow were used before.
        let payload = vec![0x5a; 256 << 10];
        let bytes: u64 = if shape.logs == 1 { 192 << 20 } else { 24 << 20 };
        for log in 0..shape.prepared {
            (0..bytes / (1 << 20)).for_each(|_| okaywal.batch(log, &payload, 4));
        }
    }
    Box::new(okaywal)
}

impl Okaywal {
    fn wal(&self, log: usize) -> WriteAheadLog {
        thread_local! {
            static MINE: std::cell::RefCell<Option<(usize, WriteAheadLog)>> = const { std::cell::RefCell::new(None) };
        }
        MINE.with_borrow_mut(|mine| {
            if mine.as_ref().is_none_or(|(of, _)| *of != log) {
                *mine = Some((log, self.wals.lock().unwrap()[log].clone()));
            }
            mine.as_ref().unwrap().1.clone()
        })
    }
}

impl Store for Okaywal {
    fn append(&self, log: usize, payload: &[u8]) {
        let wal = self.wal(log);
        let mut entry = wal.begin_entry().unwrap();
        entry.write_chunk(payload).unwrap();
        entry.commit().unwrap();
    }

    fn batch(&self, log: usize, payload: &[u8], count: usize) {
        let wal = self.wal(log);
        let mut entry = wal.begin_entry().unwrap();
        (0..count).for_each(|_| {
            entry.write_chunk(payload).unwrap();
        });
        entry.commit().unwrap();
    }

    /// It has no reader but recovery, so this opens it a second time. All is in one file, which recovery leaves as it is.
    fn scan(&self) -> Scanned {
        let again = open_one(&self.dir, &self.shape, 0);
        again.recovered
    }

    fn count(&self, log: usize) -> Option<u64> {
        Some(self.logs.lock().unwrap()[log].recovered.records)
    }
}

fn leaves_out(kind: Kind) -> Option<&'static str> {
    matches!(kind, Kind::Growth).then_some("the engine alone")
}

pub(crate) fn systems() -> Vec<System> {
    vec![System {
        name: "okaywal",
        role: Role::Peer,
        package: Some("okaywal"),
        mode: "an entry for each record, commit; files of 64 MiB, used before",
        durable: true,
        unchecked: None,
        few_logs: true,
        slow_batches: false,
        leaves_out,
        open,
    }]
}
