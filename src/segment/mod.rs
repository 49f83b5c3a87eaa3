//! One segment file: where it comes from, how its records are walked, how it gets its name.

mod install;
mod source;
mod walk;

pub use install::install;
pub use source::{Reuse, SegmentSource, Spare};
pub(crate) use walk::carries_generation;
pub use walk::{Found, Step, Walker};
