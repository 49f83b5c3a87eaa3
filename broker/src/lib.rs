//! The broker: durable work queues over HTTP that slow publishers down, and then let them wait, before a disk or the memory
//! is full, while all that frees space goes on.
//!
//! It reaches storage only through the engine's public interface, [`plimsoll`].

pub mod api;
pub mod boot;
pub mod broker;
pub mod catalogue;
pub mod event;
pub mod http;
pub mod logs;
pub mod marks;
pub mod message;
pub mod name;
mod owner;
pub mod receipt;
pub mod state;
mod wire;
