//! Numbers that were given out: one bit each.

/// Beyond this it does not look: a broker may leave gaps, but not such ones.
const HIGHEST: u64 = 1 << 30;

#[derive(Debug, Default)]
pub(super) struct Ids {
    words: Vec<u64>,
}

impl Ids {
    /// Takes a number; false if it was taken before.
    pub(super) fn take(&mut self, id: u64) -> bool {
        if id >= HIGHEST {
            return true;
        }
        let place = usize::try_from(id / 64).unwrap_or(usize::MAX);
        if place >= self.words.len() {
            self.words.resize(place + 1, 0);
        }
        let bit = 1 << (id % 64);
        let fresh = self.words[place] & bit == 0;
        self.words[place] |= bit;
        fresh
    }

    pub(super) fn memory(&self) -> usize {
        self.words.len() * 8
    }
}
