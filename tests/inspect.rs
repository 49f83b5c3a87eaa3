//! Tests of the read-only views, of verify and of repair, through the public interface.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    non_snake_case,
    dead_code,
    missing_docs
)]

#[path = "inspect/garbage.rs"]
mod garbage;
#[path = "format_golden/image.rs"]
mod image;
#[path = "inspect/live.rs"]
mod live;
#[path = "inspect/node.rs"]
mod node;
#[path = "inspect/pool.rs"]
mod pool;
#[path = "inspect/readers.rs"]
mod readers;
#[path = "inspect/segment.rs"]
mod segment;
#[path = "inspect/store.rs"]
mod store;
