//! What is done to the broker, one scenario a file.

pub mod consumer;
pub mod fill;
pub mod load;
pub mod million;
pub mod publisher;
pub mod pulse;
pub mod zero;
