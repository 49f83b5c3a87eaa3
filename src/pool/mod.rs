//! Where segment files come from.

mod plain;

pub(crate) use plain::PlainSource;
