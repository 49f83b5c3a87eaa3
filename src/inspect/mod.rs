//! Looks at files, logs and data directories, and changes nothing (I11).
//!
//! Everything here opens for reading only, takes no lock and works beside a running node: what a node does meanwhile is
//! told apart from damage by looking again.

mod annotate;
pub(crate) mod cursor;
mod layout;
mod leftovers;
mod log;
mod node;
mod outcome;
pub(crate) mod pieces;
mod pool;
mod read;
mod records;
mod report;
pub(crate) mod segment;
mod spares;
pub(crate) mod tree;
mod twins;
mod verify;
pub(crate) mod window;

pub use annotate::{Field, checkpoint_fields, header_fields};
pub use layout::LayoutView;
pub use leftovers::{Beyond, Leftover};
pub use log::{Depth, Gap, Held, LogReport, Role, SegmentEntry, log};
pub use node::{Kept, NodeReport, node};
pub use outcome::{Finding, Outcome};
pub use pieces::VouchedBy;
pub use pool::{ClassSpares, DeviceSpares, DirSpares, PoolReport, Usage, pool};
pub use read::LogReader;
pub use records::{FileRecord, Item, RecordBytes, Records, Which, record_bytes, records};
pub use report::{CheckpointView, DamagedRange, KeySource, RecordsView, SegmentReport, Stop};
pub use segment::segment;
pub use spares::{SpareEntry, SpareState, Standing};
pub use verify::{FileCheck, Verify, VerifyReport, verify};
pub use window::Unreadable;
