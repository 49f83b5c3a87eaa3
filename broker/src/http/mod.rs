//! The broker over HTTP/1.1 and HTTP/2.
//!
//! A connection is accepted, watched and bounded by [`Server`]; `front` checks a request before its body is read, `route`
//! finds who answers it, `handlers` ask the broker. Refusals and errors are one family, see `HTTP.md` beside this crate.

mod answer;
mod backend;
mod body;
mod budget;
mod error;
mod front;
mod handlers;
mod host;
mod limits;
mod metrics;
mod node_view;
mod openapi;
mod options;
mod path;
mod route;
mod server;
mod socket;
#[cfg(test)]
mod tests;
mod watch;
mod wire;

pub use options::{HttpOptions, Timers};
pub use server::{ListenError, Listener, Server};
