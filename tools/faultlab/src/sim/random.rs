//! Numbers that follow from a seed alone.

/// The same numbers for the same seed (SplitMix64, Steele, Lea and Flood).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// What follows from several numbers together: neighbours have nothing in common.
    pub fn of(parts: &[u64]) -> Self {
        parts.iter().fold(Self(0x706c_696d), |mut mixed, part| {
            let own = mixed.draw();
            Self(own ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93))
        })
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}
