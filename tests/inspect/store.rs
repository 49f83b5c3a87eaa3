//! Builds data directories by hand, and remembers what a directory looks like.

use crate::image::Image;
use plimsoll::format::header::{Header, InUse, Origin};
use plimsoll::format::{layout, name};
use plimsoll::types::{LogId, Offset, SizeClass};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub(crate) const CAPACITY: u64 = 32_768;

pub(crate) fn header(generation: u16, log: LogId, base: u64, previous_end: u64) -> Header {
    Header {
        generation: crate::image::generation(generation),
        class: SizeClass::Tiny,
        capacity: CAPACITY,
        created_millis: 1_767_225_600_000 + base,
        in_use: Some(InUse {
            log,
            base: Offset(base),
            previous_end: Offset(previous_end),
            previous_millis: 0,
            origin: if base == previous_end { Origin::Roll } else { Origin::Repair },
        }),
    }
}

pub(crate) fn spare(generation: u16) -> Header {
    Header { in_use: None, ..header(generation, crate::image::LOG, 0, 0) }
}

/// The payload of a record.
pub(crate) fn payload(offset: u64) -> Vec<u8> {
    let mut bytes = format!("record {offset} ").into_bytes();
    bytes.resize(40 + (offset as usize * 37) % 200, b'.');
    bytes
}

/// A segment with records from its base on, each in a commit of its own.
pub(crate) fn segment(header: &Header, count: u64) -> (Image, Vec<u64>) {
    let mut image = Image::new(header);
    let base = header.in_use.map_or(0, |in_use| in_use.base.0);
    let mut positions = Vec::new();
    for offset in base..base + count {
        positions.push(image.record(b"", &payload(offset)));
        image.synced();
    }
    (image, positions)
}

/// A data directory with nothing in it.
pub(crate) fn empty(dir: &Path) {
    for name in ["logs", "spares", "trash", "quarantine"] {
        std::fs::create_dir_all(dir.join(name)).unwrap();
    }
    std::fs::write(dir.join("LOCK"), b"").unwrap();
    let sizes = layout::ClassSizes::from_main(1 << 24);
    std::fs::write(dir.join("LAYOUT"), layout::encode(&sizes)).unwrap();
}

pub(crate) fn put(dir: &Path, log: &str, base: u64, bytes: &[u8]) -> PathBuf {
    let log = dir.join("logs").join(log);
    std::fs::create_dir_all(&log).unwrap();
    let path = log.join(name::segment_file(Offset(base)));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A log of three segments with ten records each; the last one is closed with a checkpoint.
pub(crate) fn three(dir: &Path, log: &str, id: LogId) -> Vec<(PathBuf, Vec<u64>)> {
    let mut made = Vec::new();
    for at in 0..3 {
        let (mut image, positions) = segment(&header(1 + at as u16, id, at * 10, at * 10), 10);
        if at == 2 {
            image.checkpoint();
        }
        made.push((put(dir, log, at * 10, &image.bytes), positions));
    }
    made
}

pub(crate) fn flip(path: &Path, position: u64) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[position as usize] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

/// Every name below `dir` with inode, times and content.
pub(crate) fn remember(dir: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, i64, Vec<u8>)> {
    let mut seen = BTreeMap::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let found = std::fs::symlink_metadata(&path).unwrap();
            let content = if found.is_dir() {
                dirs.push(path.clone());
                Vec::new()
            } else if found.is_symlink() {
                Vec::new()
            } else {
                std::fs::read(&path).unwrap()
            };
            let times = (found.mtime(), found.mtime_nsec(), found.ctime_nsec());
            seen.insert(path, (found.ino(), times.0, times.1, times.2, content));
        }
    }
    seen
}
