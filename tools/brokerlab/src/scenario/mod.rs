//! What is done to the broker, one scenario a file.

pub mod cgroup;
pub mod consumer;
pub mod fill;
pub mod hang;
pub mod latency;
pub mod load;
pub mod million;
pub mod publisher;
pub mod pulse;
pub mod queues;
pub mod slow;
pub mod small;
pub mod vanish;
pub mod zero;
