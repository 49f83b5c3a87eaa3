//! Where segment files come from.

#[allow(dead_code, reason = "used by the pool, which comes next")]
mod budget;
mod plain;

pub use budget::{Allowance, PoolOptions};
pub(crate) use plain::PlainSource;
