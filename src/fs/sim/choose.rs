//! Who decides what survives: a power cut asks, a [`Chooser`] answers.

/// What a [`Chooser`] is asked about. Files are named by inode numbers, which stay the same across forks and cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Which version of one unit of a file's bytes survives: a sector, or a block with [`super::Sectors::Atomic4K`].
    Bytes {
        /// The file.
        inode: u64,
        /// Position of the unit's first byte.
        position: u64,
    },
    /// Which length of a file survives.
    Length {
        /// The file.
        inode: u64,
    },
    /// How many of the writes to a file survive, with [`super::Sectors::Prefix`].
    Writes {
        /// The file.
        inode: u64,
    },
    /// Whether one directory operation survives.
    Name {
        /// Number of the operation that made it, as in [`super::Op`].
        op: u64,
    },
    /// How many of the directory operations on one device survive, with [`super::Names::Prefix`]; the main device first.
    Names,
}

/// Decides what a power cut leaves.
///
/// Option 0 is always the state that was surely durable, the last option always the newest one.
pub trait Chooser {
    /// Picks one of `options` (at least 2), counted from 0. A larger answer is taken as the last option.
    fn choose(&mut self, what: Choice, options: usize) -> usize;
}

/// Everything reached the disk before the power went.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllPersisted;

impl Chooser for AllPersisted {
    fn choose(&mut self, _: Choice, options: usize) -> usize {
        options - 1
    }
}

/// Nothing reached the disk but what was surely durable.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingPersisted;

impl Chooser for NothingPersisted {
    fn choose(&mut self, _: Choice, _: usize) -> usize {
        0
    }
}

/// Any outcome, the same one for the same seed and questions.
#[derive(Clone, Debug)]
pub struct Seeded(SplitMix);

impl Seeded {
    /// A chooser that follows `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(SplitMix(seed))
    }
}

impl Chooser for Seeded {
    fn choose(&mut self, _: Choice, options: usize) -> usize {
        self.0.below(options)
    }
}

/// One question that a [`Scripted`] chooser was asked, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What was asked.
    pub what: Choice,
    /// How many options there were.
    pub options: usize,
    /// The option taken.
    pub picked: usize,
}

/// Replays a list of answers, takes option 0 after its end, and notes every question: the way to try all outcomes.
///
/// ```
/// use plimsoll::fs::sim::{Choice, Chooser, Scripted};
/// let mut script = Scripted::default();
/// let mut seen = Vec::new();
/// loop {
///     let first = script.choose(Choice::Names, 2);
///     let second = if first == 1 { script.choose(Choice::Names, 3) } else { 0 };
///     seen.push((first, second));
///     if !script.advance() {
///         break;
///     }
/// }
/// assert_eq!(seen, [(0, 0), (1, 0), (1, 1), (1, 2)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Scripted {
    script: Vec<usize>,
    answers: Vec<Answer>,
}

impl Scripted {
    /// Answers as `script` says; the default one, with an empty script, is the first of all outcomes.
    #[must_use]
    pub fn new(script: Vec<usize>) -> Self {
        Self { script, answers: Vec::new() }
    }

    /// The questions since the start or the last [`Scripted::advance`], with the answers.
    #[must_use]
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// What [`Scripted::new`] takes to replay this run.
    #[must_use]
    pub fn script(&self) -> Vec<usize> {
        self.answers.iter().map(|answer| answer.picked).collect()
    }

    /// Goes on to the next outcome, depth first; `false` after the last one.
    pub fn advance(&mut self) -> bool {
        let mut script = self.script();
        while let Some(last) = script.pop() {
            if last + 1 < self.answers[script.len()].options {
                script.push(last + 1);
                *self = Self::new(script);
                return true;
            }
        }
        false
    }
}

/// Everything persisted, and the number of outcomes that there could have been.
///
/// An estimate: what hangs on a lost name, or lies beyond a shorter length, is not asked about, so that there are usually
/// fewer outcomes; and more where files were cut short.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// About so many, `u64::MAX` if there are more.
    pub outcomes: u64,
}

impl Default for Count {
    fn default() -> Self {
        Self { outcomes: 1 }
    }
}

impl Chooser for Count {
    fn choose(&mut self, _: Choice, options: usize) -> usize {
        self.outcomes = self.outcomes.saturating_mul(options as u64);
        options - 1
    }
}

impl Chooser for Scripted {
    fn choose(&mut self, what: Choice, options: usize) -> usize {
        let at = self.answers.len();
        let picked = self.script.get(at).copied().unwrap_or(0).min(options - 1);
        self.answers.push(Answer { what, options, picked });
        picked
    }
}

/// Asks only where there is a choice, and takes no answer beyond the last option.
pub(super) fn ask(chooser: &mut dyn Chooser, what: Choice, options: usize) -> usize {
    if options < 2 { 0 } else { chooser.choose(what, options).min(options - 1) }
}

/// The generator of Steele, Lea and Flood (SplitMix64): small, and good enough to spread choices.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitMix(pub(super) u64);

impl SplitMix {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; the bias of taking the high part is below 2^-32 for the bounds met here.
    #[allow(clippy::cast_possible_truncation, reason = "the quotient is below `bound`, a usize")]
    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}
