//! Small types that every room may use.

use std::fmt;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The number of a record in its log: dense, starting at 0, never reused once confirmed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

impl Offset {
    /// The first offset of a new log.
    pub const ZERO: Self = Self(0);

    /// The offset `count` records further on.
    ///
    /// Saturates at the top of the range, which no log reaches.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many times a segment file has been used; 1 in a new file, 0 never valid.
///
/// Deliberately not `Copy`-convertible from arithmetic: the only way forward is [`Generation::next`],
/// which ends at 65,535, so that a generation can never wrap (I7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(NonZeroU16);

impl Generation {
    /// The generation of a file that is used for the first time.
    pub const FIRST: Self = Self(NonZeroU16::MIN);

    /// Reads a generation from disk; `None` for 0.
    #[must_use]
    pub const fn new(raw: u16) -> Option<Self> {
        match NonZeroU16::new(raw) {
            Some(raw) => Some(Self(raw)),
            None => None,
        }
    }

    /// The generation of the next use, or `None` at the last one: then the file must be deleted.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(raw) => Some(Self(raw)),
            None => None,
        }
    }

    /// The number as it stands on disk.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

/// The identity of a log: 128 random bits, made when its first segment file is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub [u8; 16]);

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogId({self})")
    }
}

/// The size class of a segment file. A log's first file is tiny, then small, then main.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SizeClass {
    /// 1/256 of main, at least 64 KiB: what an idle log costs.
    Tiny,
    /// One eighth of main.
    Small,
    /// The configured segment size, 64 MiB by default.
    Main,
}

impl SizeClass {
    /// All classes, smallest first.
    pub const ALL: [Self; 3] = [Self::Tiny, Self::Small, Self::Main];

    /// The class of a log's next file.
    #[must_use]
    pub const fn up(self) -> Self {
        match self {
            Self::Tiny => Self::Small,
            Self::Small | Self::Main => Self::Main,
        }
    }

    /// The name as tools print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Small => "small",
            Self::Main => "main",
        }
    }
}

impl fmt::Display for SizeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How near a device or the memory is to its end, by the lines that limits draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// All is admitted.
    #[default]
    Ok,
    /// Publishes are slowed.
    Soft,
    /// Publishes are refused.
    Hard,
    /// Only what frees space, coordination and recovery go on. Memory has no such level.
    Reserve,
}

impl Level {
    /// All levels, lowest first.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Soft, Self::Hard, Self::Reserve];

    /// The name as tools print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Soft => "soft",
            Self::Hard => "hard",
            Self::Reserve => "reserve",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A share of a whole, to a millionth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fraction(u32);

impl Fraction {
    /// So many hundredths.
    #[must_use]
    pub const fn percent(percent: u32) -> Self {
        Self::millionths(percent.saturating_mul(10_000))
    }

    /// So many millionths.
    #[must_use]
    pub const fn millionths(millionths: u32) -> Self {
        Self(millionths)
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Its share of `whole`, rounded down.
    #[must_use]
    pub fn of(self, whole: u64) -> u64 {
        let share = u128::from(whole) * u128::from(self.0) / 1_000_000;
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 / 10_000)?;
        let rest = self.0 % 10_000;
        if rest > 0 {
            write!(f, ".{}", format!("{rest:04}").trim_end_matches('0'))?;
        }
        f.write_str("%")
    }
}

/// What a write is for. Pressure slows and refuses [`WriteClass::Publish`] first and never stops what frees space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WriteClass {
    /// New data from outside.
    Publish,
    /// Catch-up of a follower.
    Replicate,
    /// Acknowledgements, rejects, deliveries, purges: what lets space be freed.
    Acknowledge,
    /// Metadata and consensus.
    Coordination,
    /// Recovery and healing.
    Recovery,
}

impl WriteClass {
    /// Whether it may begin a file that is kept back: what frees space, and what keeps the node going, while nothing else
    /// is to be had.
    #[must_use]
    pub const fn may_use_kept_back(self) -> bool {
        matches!(self, Self::Acknowledge | Self::Coordination | Self::Recovery)
    }
}

/// The name of a log: parts of `A-Z a-z 0-9 . _ -` joined by `/`, 1 to 200 bytes in all; no part is empty, starts with
/// a dot or ends in `.seg`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogName(Box<str>);

/// Why a name is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("log name {name:?}: {reason}")]
pub struct LogNameError {
    /// The name.
    pub name: String,
    /// The rule that it breaks.
    pub reason: &'static str,
}

impl LogName {
    /// The longest name in bytes.
    pub const LEN_MAX: usize = 200;

    /// Checks a name.
    ///
    /// # Errors
    /// [`LogNameError`] says which rule is broken.
    pub fn new(name: &str) -> Result<Self, LogNameError> {
        let refuse = |reason| Err(LogNameError { name: name.to_owned(), reason });
        if name.is_empty() {
            return refuse("is empty");
        }
        if name.len() > Self::LEN_MAX {
            return refuse("is longer than 200 bytes");
        }
        for part in name.split('/') {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            if part.is_empty() {
                return refuse(
                    "has an empty part (it starts or ends with '/', or has two in a row)",
                );
            }
            if !part.bytes().all(allowed) {
                return refuse("has a character other than A-Z a-z 0-9 . _ - /");
            }
            if part.starts_with('.') {
                return refuse("has a part that starts with a dot");
            }
            if part.ends_with(".seg") {
                return refuse("has a part that ends in .seg");
            }
        }
        Ok(Self(name.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts between the slashes.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    /// The log's directory below `logs`.
    #[must_use]
    pub fn dir(&self, logs: &Path) -> PathBuf {
        self.parts().fold(logs.to_path_buf(), |dir, part| dir.join(part))
    }
}

impl std::borrow::Borrow<str> for LogName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for LogName {
    type Err = LogNameError;

    fn from_str(name: &str) -> Result<Self, LogNameError> {
        Self::new(name)
    }
}

impl fmt::Display for LogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
