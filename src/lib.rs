//! Plimsoll.
pub mod clock;
pub mod error;
pub mod format;
pub mod fs;
pub mod planted;
pub mod segment;
pub mod types;
