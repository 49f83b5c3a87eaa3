//! How many different hashes there were, in bounded memory.

use std::collections::HashSet;

/// Exact up to [`MOST`]; beyond that it keeps one in two, one in four and so on, and the count is an estimate.
#[derive(Clone, Debug, Default)]
pub struct Distinct {
    kept: HashSet<u64>,
    /// Only hashes that end with so many zeroes are kept.
    zeroes: u32,
}

/// Hashes kept at most: 16 MiB or so.
pub const MOST: usize = 1 << 20;

impl Distinct {
    pub fn add(&mut self, hash: u64) {
        // Its low bits are to be as good as its high ones.
        let hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = hash ^ (hash >> 32);
        if hash.trailing_zeros() < self.zeroes {
            return;
        }
        self.kept.insert(hash);
        while self.kept.len() > MOST {
            self.zeroes += 1;
            self.kept.retain(|hash| hash.trailing_zeros() >= self.zeroes);
        }
    }

    pub fn count(&self) -> u64 {
        (self.kept.len() as u64) << self.zeroes
    }

    /// Whether the count is all there were.
    pub fn is_exact(&self) -> bool {
        self.zeroes == 0
    }
}

#[test]
fn it_counts_exactly_and_then_about() {
    let mut distinct = Distinct::default();
    for hash in 0..1_000_000_u64 {
        distinct.add(hash);
        distinct.add(hash / 2);
    }
    assert!(distinct.is_exact());
    assert_eq!(distinct.count(), 1_000_000);
    for hash in 1_000_000..4_000_000_u64 {
        distinct.add(hash);
    }
    assert!(!distinct.is_exact());
    assert!((3_900_000..4_100_000).contains(&distinct.count()), "{}", distinct.count());
}
