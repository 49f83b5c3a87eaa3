//! Files that serve again.
