//! The commands, one file each: arguments, and what is printed. What they run is in the library.
pub(crate) mod cases;
pub(crate) mod driver;
pub(crate) mod exhaustive;
pub(crate) mod kill;
pub(crate) mod lives;
pub(crate) mod mounts;
pub(crate) mod mutants;
pub(crate) mod output;
pub(crate) mod paths;
pub(crate) mod place;
pub(crate) mod replay;
pub(crate) mod seam;
pub(crate) mod strace;

pub(crate) use output::Output;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All that was tried held.
    Held,
    /// Something did not; it was printed.
    Broken,
}

impl Verdict {
    pub(crate) fn of(held: bool) -> Self {
        if held { Self::Held } else { Self::Broken }
    }
}

/// What a command gives; an error is wrong use, in words for the user.
pub(crate) type Result = std::result::Result<Verdict, String>;
