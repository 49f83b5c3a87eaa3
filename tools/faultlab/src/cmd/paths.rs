//! The option `--path`: how commits are written.
use faultlab::sim::commits::CommitPath;
use std::fmt;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Paths {
    /// Past the page cache.
    Direct,
    /// Through the page cache, as on file systems without direct writes.
    Buffered,
    #[default]
    Both,
}

impl Paths {
    pub(crate) fn each(self) -> &'static [CommitPath] {
        match self {
            Self::Direct => &[CommitPath::Direct],
            Self::Buffered => &[CommitPath::Buffered],
            Self::Both => &CommitPath::BOTH,
        }
    }
}

impl fmt::Display for Paths {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Direct => "direct",
            Self::Buffered => "buffered",
            Self::Both => "both",
        })
    }
}
