//! Recovery on the simulated file system, written to by a small stand-in for the log.

#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation)]
#![allow(clippy::disallowed_methods, reason = "a writer and a reader side by side")]
#![allow(non_snake_case, reason = "tests are named for the cases and invariants that they hold")]

mod bounds;
mod corrupt;
mod crash;
mod ghosts;
mod heal;
mod live;
mod lives;
mod lookalike;
mod names;
mod planted;
mod support;
mod torn;
mod trailing;
