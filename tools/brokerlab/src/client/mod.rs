//! A client of its own: one connection that the caller sees and can cut, with definite ends.

mod api;
mod conn;
pub mod raw;
mod wire;

pub use api::{Answer, Client, Publish, Receive};
pub use conn::{Ask, Conn, Fail, Reply, Wire};
pub use wire::{Message, Refusal, Settled, Stored, find, messages_in, number, settings};
