//! Golden bytes, round trips, and bytes of all kinds.
