//! One segment file: where it comes from, how its records are walked, how it gets its name.

mod files;
mod install;
mod source;
mod walk;

pub use files::{Access, FileId, Files};
pub use install::{install, rename_in};
pub use source::{GivenUp, Reuse, SegmentSource, Spare, TakeError, Want};
pub(crate) use walk::carries_generation;
pub use walk::{Found, Memory, Step, Walker};
