//! The broker over real connections, with a broker over a directory of its own behind.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test looks at files, waits, and panics when it fails"
)]

mod bodies;
mod client;
mod connections;
mod documented;
mod failing;
mod messages;
mod names;
mod pressure;
mod routes;
mod vanish;
