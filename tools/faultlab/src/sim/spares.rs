//! What a world does with the node's spare pool, and what its files must look like.

use super::world::{DATA, World, in_pool};
use plimsoll::format::header::Header;
use plimsoll::format::record::{self, RecordHeader};
use plimsoll::format::{Key, RECORDS_POSITION};
use plimsoll::fs::{FileSystem, Space};
use plimsoll::types::Generation;
use plimsoll::{NodeOptions, PoolLimits, PoolStats, WriteClass};
use std::path::{Path, PathBuf};

/// A large device, half full: a share of a small one would be less than a file.
pub fn space() -> Space {
    Space {
        total: 1 << 40,
        available: 1 << 39,
        inodes: 1 << 20,
        inodes_available: 1 << 19,
        ..Space::default()
    }
}

/// A whole record of whatever log, as its own checksums prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leftover {
    pub generation: Generation,
    pub relative: u32,
    pub len: u64,
}

/// The record at `position`, whichever log, generation and base it has.
pub fn record_at(bytes: &[u8], position: u64) -> Option<(Leftover, Key)> {
    let rest = bytes.get(usize::try_from(position).ok()?..)?;
    let (key, generation) = record::derive_key(rest, position)?;
    let parsed = record::parse(rest, rest.len() as u64, key, position, generation).ok()?;
    let RecordHeader { relative, .. } = parsed.header;
    let len = parsed.header.record_len();
    let body = rest.get(record::HEADER_LEN..usize::try_from(len).ok()?)?;
    record::check_body(&parsed, key, position, body).ok()?;
    Some((Leftover { generation, relative, len }, key))
}

/// Every whole record in a file, whose ever.
pub fn records_in(bytes: &[u8]) -> Vec<(u64, Leftover)> {
    let positions = (RECORDS_POSITION..bytes.len() as u64).step_by(8);
    positions.filter_map(|at| Some((at, record_at(bytes, at)?.0))).collect()
}

/// Where the records end that belong to the header of a file, and how many they are.
pub fn end_of(bytes: &[u8]) -> (u64, u32) {
    let header = Header::parse(bytes).unwrap();
    let in_use = header.in_use.expect("a log's file");
    let own = Key::new(in_use.log, header.generation, in_use.base);
    let (mut position, mut count) = (RECORDS_POSITION, 0);
    while let Some((found, key)) = record_at(bytes, position)
        && key == own
        && (found.generation, found.relative) == (header.generation, count)
    {
        position += found.len;
        count += 1;
    }
    (position, count)
}

impl World {
    /// With these options, and with the spares looked at when a state is settled.
    pub fn with_pool(mut self, options: NodeOptions) -> Self {
        (self.options, self.pooled) = (options, true);
        self
    }

    /// Files are deleted at this generation: as if it were only so wide.
    pub fn with_last_generation(mut self, last: u16) -> Self {
        self.last = Generation::new(last);
        self
    }

    /// As [`World::append`], for a class of writes.
    pub fn append_as(&mut self, class: WriteClass, log: &str, lens: &[usize]) -> bool {
        self.stage_as(class, log, lens).is_some_and(|staged| self.settle(staged))
    }

    /// What the pool says of itself.
    pub fn pool(&self) -> PoolStats {
        self.node().stats().pools.remove(0)
    }

    /// Requires something of the pool, where all went well.
    pub fn pool_shows(&self, what: fn(&PoolStats) -> bool) {
        if self.is_up() && !self.faulty {
            let pool = self.pool();
            assert!(what(&pool), "{pool:?}");
        }
    }

    /// At most so many steps of the node's threads.
    pub fn steps(&mut self, count: u64) {
        if self.is_up() {
            self.say(format_args!("{count} steps"));
            for _ in 0..count {
                if !self.node().step() {
                    break;
                }
            }
        }
    }

    /// Deletes all spares that are not kept back.
    pub fn release_spares(&mut self) {
        if self.is_up() {
            let bytes = self.node().release_spares();
            self.say(format_args!("released {bytes} bytes"));
        }
    }

    /// Changes the pool's settings, in this life and in those that follow.
    pub fn set_pool(&mut self, options: PoolLimits) {
        self.options.limits.pool = options;
        if self.is_up() {
            self.say(format_args!("{options:?}"));
            if let Err(error) = self.node().set_limits(self.options.limits.clone()) {
                self.expect_error("the settings are refused", &error);
            }
        }
    }

    /// Leaves the disk so much room.
    pub fn fill_disk(&mut self, room: u64) {
        if self.is_up() {
            self.say(format_args!("{room} bytes are free"));
            (self.faulty, self.capped) = (true, true);
            self.fs.set_capacity(Some(self.fs.used() + room));
            self.fs.set_space(Some(Space { available: room, ..space() }));
        }
    }

    /// Whether the disk has an end.
    pub fn full(&self) -> bool {
        let fs: &dyn FileSystem = &self.fs;
        self.capped || fs.space(Path::new(DATA)).is_ok_and(|space| space.available < 1 << 20)
    }

    /// After the worker has done its part the spares are within their budget, and what is to be kept back is.
    pub fn check_budget(&mut self) {
        self.work();
        let pool = self.pool();
        assert!(pool.bytes <= pool.budget, "{pool:?}");
        assert_eq!(pool.kept_back_missing, 0, "{pool:?}");
    }

    /// After a publish on a full disk: it took nothing of what is kept back. (That it took no room either that what is
    /// missing needs is a script's to say: a node knows of its disk what it saw a while ago.)
    pub fn check_kept_back(&self, before: &PoolStats) {
        let (had, has) = (before.kept_back_missing, self.pool().kept_back_missing);
        assert!(has <= had, "I9: a publish took what is kept back: {had} missing, then {has}");
    }

    /// The segment files among the spares.
    pub fn spare_files(&self) -> Vec<PathBuf> {
        let spares = format!("{DATA}/spares");
        let mut files = self.fs.files();
        files.retain(|path| path.starts_with(&spares));
        files
    }

    /// I7: the header of every spare that can be taken is durable, and above the generation of every record behind it.
    /// Gives how many were looked at.
    pub fn check_generations(&self) -> usize {
        if !self.is_up() {
            return 0;
        }
        let (pool, files) = (self.pool(), self.spare_files());
        // Where logs hold some, or some wait, which of them can be taken cannot be told.
        if pool.coming != [0; 3] || in_pool(&pool) != files.len() as u64 {
            return 0;
        }
        for path in &files {
            let failed = self.fs.has_failed(path).unwrap();
            assert!(
                self.reopened || !failed,
                "{} can be taken, and a sync of it has failed",
                path.display()
            );
            for bytes in [self.fs.durable(path).unwrap(), self.fs.cached(path).unwrap()] {
                let header = Header::parse(&bytes).unwrap_or_else(|error| {
                    panic!("I7: {} can be taken: {error}", path.display());
                });
                assert_eq!(header.in_use, None, "I7: {} can be taken", path.display());
                for (at, found) in records_in(&bytes) {
                    assert!(
                        found.generation < header.generation,
                        "I7: {}: its header says {}, the record at {at} {}",
                        path.display(),
                        header.generation.get(),
                        found.generation.get()
                    );
                }
            }
        }
        files.len()
    }

    /// The spares that are left serve a log that is new.
    pub fn settle_spares(&mut self) {
        self.work();
        for lens in [[512, 512], [1024, 1024]] {
            self.open("other");
            assert!(self.append("other", &lens), "a new log takes no append");
        }
        self.read("other");
    }
}
