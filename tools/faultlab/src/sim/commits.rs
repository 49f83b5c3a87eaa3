//! How commits reach the disk: past the page cache, or through it. Both must keep every promise.

use super::random::Random;
use plimsoll::fs::sim::SimFileSystem;
use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

/// Whether the file system has direct writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CommitPath {
    #[default]
    Direct,
    Buffered,
}

/// Marks what is drawn for the path.
const PATH: u64 = 0x70_61_74_68;

thread_local! {
    static NOW: Cell<CommitPath> = const { Cell::new(CommitPath::Direct) };
}

impl CommitPath {
    pub const BOTH: [Self; 2] = [Self::Direct, Self::Buffered];

    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Buffered => "buffered",
        }
    }

    /// The path of a seed's random lives. Drawn apart, so that a seed's lives are else the same.
    pub fn of_seed(seed: u64) -> Self {
        if Random::of(&[seed, PATH]).below(2) == 0 { Self::Direct } else { Self::Buffered }
    }

    /// Runs `run` with every machine that is made in this thread meanwhile on this path.
    pub fn on<T>(self, run: impl FnOnce() -> T) -> T {
        struct Back(CommitPath);
        impl Drop for Back {
            fn drop(&mut self) {
                NOW.set(self.0);
            }
        }
        let _back = Back(NOW.replace(self));
        run()
    }

    /// The path of machines that are made now.
    pub fn now() -> Self {
        NOW.get()
    }

    /// Puts a machine on it.
    pub fn set(self, fs: &SimFileSystem) {
        fs.set_direct(self == Self::Direct);
    }
}

impl fmt::Display for CommitPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl FromStr for CommitPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::BOTH.into_iter().find(|path| path.name() == text);
        found.ok_or_else(|| format!("{text:?}: neither direct nor buffered"))
    }
}
