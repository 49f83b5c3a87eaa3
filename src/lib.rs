//! Plimsoll.
pub mod clock;
pub mod error;
pub mod format;
pub mod fs;
pub mod planted;
pub mod recovery;
pub mod segment;
pub mod types;
