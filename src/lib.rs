//! Plimsoll.
pub mod admission;
pub mod clock;
pub mod error;
pub mod format;
pub mod fs;
pub mod inspect;
pub mod log;
pub mod node;
pub mod permit;
pub mod planted;
mod pool;
pub mod recovery;
pub mod segment;
pub mod types;

pub use format::name::LogName;
pub use log::{
    AppendFuture, Appended, Log, LogBytes, LogOptions, NewRecord, Reader, Record, SegmentView,
    Ticket, Truncated,
};
pub use node::{Node, NodeBuilder, NodeOptions};
pub use types::{Offset, WriteClass};
