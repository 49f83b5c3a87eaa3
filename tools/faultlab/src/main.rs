//! The command `faultlab`.
fn main() {}
