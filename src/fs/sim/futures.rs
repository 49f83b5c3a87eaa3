//! All outcomes of a power cut, or a good choice of them where there are too many.

use super::SimFileSystem;
use super::choose::{AllPersisted, Choice, Chooser, Count, NothingPersisted, Scripted, Seeded};

/// What [`SimFileSystem::each_power_cut`] went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Futures {
    /// Outcomes tried.
    pub tried: u64,
    /// Whether these were all there are. Otherwise they are a sample, and must not be called exhaustive.
    pub exhausted: bool,
}

/// Answers as `inside` does, one question apart, and notes the answers.
struct Noted<'a> {
    inside: &'a mut dyn Chooser,
    /// The question to answer differently: its number, and by how many options.
    but: Option<(usize, usize)>,
    script: Vec<usize>,
    options: Vec<usize>,
}

impl<'a> Noted<'a> {
    fn new(inside: &'a mut dyn Chooser, but: Option<(usize, usize)>) -> Self {
        Self { inside, but, script: Vec::new(), options: Vec::new() }
    }
}

impl Chooser for Noted<'_> {
    fn choose(&mut self, what: Choice, options: usize) -> usize {
        let mut picked = self.inside.choose(what, options).min(options - 1);
        if let Some((at, by)) = self.but
            && at == self.script.len()
        {
            picked = (picked + by) % options;
        }
        self.script.push(picked);
        self.options.push(options);
        picked
    }
}

impl SimFileSystem {
    /// Lets the power fail now in every possible way, each on a fork of its own that `see` gets, with the script that
    /// [`Scripted::new`] takes to bring it about again.
    ///
    /// If there seem to be more than `most` outcomes, only that many are tried: everything persisted, nothing persisted,
    /// each of these with one choice made differently, and then random ones that follow `seed`; some may come twice.
    pub fn each_power_cut(
        &self,
        most: u64,
        seed: u64,
        mut see: impl FnMut(SimFileSystem, &[usize]),
    ) -> Futures {
        let mut count = Count::default();
        self.fork().power_cut(&mut count);
        let mut tried = 0;
        if count.outcomes <= most {
            let mut script = Scripted::default();
            loop {
                let world = self.fork();
                world.power_cut(&mut script);
                tried += 1;
                see(world, &script.script());
                let ended = !script.advance();
                if ended || tried == most {
                    return Futures { tried, exhausted: ended };
                }
            }
        }
        let mut try_one = |chooser: &mut dyn Chooser, but| {
            if tried >= most {
                return None;
            }
            let mut noted = Noted::new(chooser, but);
            let world = self.fork();
            world.power_cut(&mut noted);
            tried += 1;
            see(world, &noted.script);
            Some(noted.options)
        };
        let with_all = try_one(&mut AllPersisted, None).unwrap_or_default();
        let with_nothing = try_one(&mut NothingPersisted, None).unwrap_or_default();
        for (at, options) in with_all.into_iter().enumerate() {
            for by in 1..options {
                try_one(&mut AllPersisted, Some((at, by)));
            }
        }
        for (at, options) in with_nothing.into_iter().enumerate() {
            for by in 1..options {
                try_one(&mut NothingPersisted, Some((at, by)));
            }
        }
        let mut random = Seeded::new(seed);
        while try_one(&mut random, None).is_some() {}
        Futures { tried, exhausted: false }
    }
}
