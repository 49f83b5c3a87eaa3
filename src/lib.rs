//! A log storage engine for message brokers.
//!
//! A [`Node`] owns a data directory. It opens [`Log`]s by name: append-only sequences of records, each with a dense 64-bit
//! [`Offset`]. Many logs share one node's threads, buffers and descriptors; an idle log costs a small file and little
//! memory. Everything is synchronous and knows no runtime: what is waited for can be blocked on, and is a `Future` too.
//!
//! ```
//! use plimsoll::{LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, WriteClass};
//!
//! # let directory = tempfile::tempdir()?;
//! let node = Node::open(directory.path().join("data"), NodeOptions::default())?;
//! let log = node.open_log(&LogName::new("orders/eu")?, LogOptions::default())?;
//! let done = log.publish(WriteClass::Publish, &[NewRecord::new(b"first"), NewRecord::new(b"second")])?;
//! assert_eq!(done.first, Offset(0)); // both are on the disk now
//! let mut reader = log.read_from(Offset(1))?;
//! assert_eq!(reader.next()?.map(|record| record.payload), Some(b"second".to_vec()));
//! log.truncate_before(done.first.plus(1))?; // frees whole segment files
//! node.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//!
//! - A confirmed record is read back, with the same bytes and at the same offset, after any crash of the process or the
//!   machine, until its log is truncated before it.
//! - What recovery returns is a contiguous run of the log's own appends; nothing that was answered *not written*, nothing
//!   of another log or of an earlier use of a file ever comes back.
//! - Damage to bytes that were durable is reported with file and position. It is not taken for a torn tail, and nothing is
//!   deleted without being asked.
//! - After a failed write or sync the file is never written again; the log goes on in another.
//!
//! # What is assumed of the disk
//!
//! A sector of 512 bytes is written whole or not at all; a sync that answers `Ok` tells the truth; bytes that are
//! overwritten with themselves stay. Nothing larger than a sector is taken to be atomic. A disk that loses or changes
//! bytes that it had confirmed is found out, not made good.
//!
//! # Reading order
//!
//! [`format`](mod@format) (the bytes), [`fs`] (every disk call), [`segment`] (one file), [`recovery`] (from facts to a
//! verdict), [`log`] (stage, commit, read, truncate, heal), [`node`] (the owner of it all).

pub mod admission;
pub mod clock;
pub mod error;
pub mod format;
pub mod fs;
pub mod inspect;
pub mod limits;
pub mod log;
pub mod node;
pub mod permit;
pub mod planted;
mod pool;
pub mod pressure;
pub mod recovery;
pub mod repair;
pub mod segment;
mod signal;
pub mod types;

pub use limits::{Limits, LimitsError, PoolLimits, Size};
pub use log::{
    AppendFuture, Appended, CommitStats, Log, LogBytes, LogOptions, NewRecord, Reader, Record,
    SegmentView, Ticket, Truncated,
};
pub use node::{
    Attention, Node, NodeBuilder, NodeOptions, NodeStats, Pressure, PressureChanges, PrivateLog,
};
pub use permit::{LimitReason, Limited};
pub use pool::{Allowance, PoolStats};
pub use types::{Level, LogName, Offset, WriteClass};
