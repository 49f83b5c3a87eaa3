//! What the engine makes of the disk: durable appends to logs of a node of its own.

use super::disk;
use super::merged::Merged;
use super::stats::Latencies;
use super::turns::{Case, Group, Limit, Turn, Work, alone, together};
use crate::failure::Failure;
use plimsoll::limits::Threshold;
use plimsoll::types::{Fraction, SizeClass};
use plimsoll::{
    Log, LogName, LogOptions, NewRecord, Node, NodeOptions, NodeStats, Size, WriteClass,
};
use std::path::Path;

const SIZES: [usize; 3] = [128, 1 << 10, 16 << 10];
const SIZE_OF_MANY: usize = 1 << 10;
const WRITERS: usize = 16;
/// Main files of the node with a log or two, and of that with many: a node has larger ones by default, which would take
/// a gigabyte here.
const FILE_LEN: u64 = 16 << 20;
const FILE_LEN_OF_MANY: u64 = 4 << 20;
/// What spares of one node may have.
const SPARES: u64 = 64 << 20;
const MERGED_LEN: u64 = 8 << 20;
/// Bytes that all writers together append in a turn, at most.
const TURN_BYTES: usize = 8 << 20;

/// The most bytes that the files of both nodes have, of each log one in use and one reserved, and of what they are held
/// against.
pub(crate) const NEEDED: u64 = 2 * (2 * FILE_LEN + SPARES)
    + WRITERS as u64 * 2 * FILE_LEN_OF_MANY
    + 2 * MERGED_LEN
    + disk::NEEDED / 2;

/// The nodes that are measured.
#[derive(Debug)]
pub(crate) struct Engine {
    few: Node,
    many: Node,
}

impl Engine {
    pub(crate) fn open(folder: &Path) -> Result<Self, Failure> {
        let few = Node::open(folder.join("few"), options(FILE_LEN))?;
        let many = Node::open(folder.join("many"), options(FILE_LEN_OF_MANY))?;
        Ok(Self { few, many })
    }

    /// The cases, and what they are held against where `cases` do not have that yet.
    pub(crate) fn cases(&self, folder: &Path, cases: &mut Vec<Case>) -> Result<(), Failure> {
        let one = grown(&self.few, "one")?;
        for size in SIZES {
            if !cases.iter().any(|case| case.name() == disk::floor(size)) {
                cases.push(disk::beside(folder, size)?);
            }
            let writer = Writer { log: one.clone(), payload: disk::noise(size) };
            let case = case("1 writer", size, 1, disk::floor(size), Box::new(writer));
            cases.push(case);
        }
        let merged =
            Merged::new(&folder.join("merged"), disk::noise(SIZE_OF_MANY), WRITERS, MERGED_LEN)?;
        let what = "pwrite + fdatasync of all that is staged";
        let beside = Case {
            group: Group::Beside,
            file: "written",
            beside: None,
            ..case(what, SIZE_OF_MANY, WRITERS, String::new(), Box::new(merged))
        };
        let of_merged = beside.name();
        cases.push(beside);
        let writers =
            Writers { logs: vec![grown(&self.few, "shared")?], payload: disk::noise(SIZE_OF_MANY) };
        cases.push(case("16 writers", SIZE_OF_MANY, WRITERS, of_merged, Box::new(writers)));
        let of_files = disk::parallel_name(WRITERS);
        if !cases.iter().any(|case| case.name() == of_files) {
            cases.extend(disk::parallel(folder, &[WRITERS], Group::Beside)?);
        }
        let log = |number| grown(&self.many, &format!("log-{number}"));
        let logs = (0..WRITERS).map(log).collect::<Result<Vec<_>, _>>()?;
        let writers = Writers { logs, payload: disk::noise(SIZE_OF_MANY) };
        cases.push(case(
            "16 logs, a writer each",
            SIZE_OF_MANY,
            WRITERS,
            of_files,
            Box::new(writers),
        ));
        Ok(())
    }

    /// How it commits on this disk.
    pub(crate) fn commits_by(&self) -> &'static str {
        commits_by(&self.few.stats())
    }

    /// For how long publishes were delayed, as the memory is short: what was measured then is no disk.
    pub(crate) fn delayed(&self) -> std::time::Duration {
        self.few.stats().admission.delay + self.many.stats().admission.delay
    }

    /// Closes both.
    pub(crate) fn close(self) -> Result<(), Failure> {
        let few = self.few.close();
        self.many.close()?;
        Ok(few?)
    }
}

/// The way of most of its commits.
fn commits_by(stats: &NodeStats) -> &'static str {
    if stats.commits.direct >= stats.commits.buffered {
        "O_DIRECT + RWF_DSYNC"
    } else {
        "pwrite + fdatasync"
    }
}

/// On a disk that is nearly full the disk is what is measured, not how publishes are slowed: what is needed is free, and
/// that again.
fn options(segment_size: u64) -> NodeOptions {
    let mut options = NodeOptions::default();
    options.segment_size = segment_size;
    let line = |millionths| Threshold { share: Fraction::millionths(millionths), floor: Size(0) };
    let disk = &mut options.limits.disk;
    (disk.soft, disk.hard, disk.reserve) = (line(30), line(20), line(10));
    disk.clear = Fraction::millionths(10);
    let inodes = &mut options.limits.inodes;
    inodes.soft = Fraction::millionths(30);
    inodes.hard = Fraction::millionths(20);
    inodes.reserve = Fraction::millionths(10);
    options.limits.pool.budget_cap = Size(SPARES);
    options
}

fn case(what: &str, bytes: usize, threads: usize, beside: String, work: Box<dyn Work>) -> Case {
    Case {
        group: Group::Engine,
        what: what.to_owned(),
        file: "log",
        bytes,
        threads,
        beside: Some(beside),
        work: Ok(work),
        latencies: Latencies::new(),
        rates: Vec::new(),
    }
}

/// A log in its first main file: taking the small ones before it is not what is measured.
fn grown(node: &Node, name: &str) -> Result<Log, Failure> {
    let log = node.open_log(&LogName::new(name)?, LogOptions::default())?;
    let payload = disk::noise(64 << 10);
    while log.segments().last().is_none_or(|last| last.class != SizeClass::Main) {
        log.publish(WriteClass::Publish, &[NewRecord::new(&payload); 4])?;
    }
    Ok(log)
}

/// Frees what is full, so that a run takes no more space the longer it is.
fn trim(log: &Log) -> Result<(), Failure> {
    log.truncate_before(log.durable())?;
    Ok(())
}

fn append(log: &Log, payload: &[u8]) -> Result<(), Failure> {
    log.publish(WriteClass::Publish, &[NewRecord::new(payload)])?;
    Ok(())
}

/// One writer.
#[derive(Debug)]
struct Writer {
    log: Log,
    payload: Vec<u8>,
}

impl Work for Writer {
    fn turn(&mut self, limit: Limit<'_>) -> Result<Turn, Failure> {
        let count = TURN_BYTES / self.payload.len();
        alone(limit, count, || append(&self.log, &self.payload))
    }

    fn prepare(&mut self) -> Result<(), Failure> {
        trim(&self.log)
    }
}

/// Sixteen, at one log or at a log each.
#[derive(Debug)]
struct Writers {
    logs: Vec<Log>,
    payload: Vec<u8>,
}

impl Work for Writers {
    fn turn(&mut self, limit: Limit<'_>) -> Result<Turn, Failure> {
        let count = TURN_BYTES / WRITERS / self.payload.len();
        together(limit, WRITERS, count, |thread| {
            append(&self.logs[thread % self.logs.len()], &self.payload)
        })
    }

    fn prepare(&mut self) -> Result<(), Failure> {
        self.logs.iter().try_for_each(trim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_its_nodes_are_good_ones() {
        assert_eq!(options(FILE_LEN).limits.check(), Ok(()));
    }
}
