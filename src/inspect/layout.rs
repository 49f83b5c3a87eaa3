//! The `LAYOUT` file of a data directory.

use super::outcome::{Finding, Outcome};
use super::tree::{finding, refused};
use crate::format::layout::{self, ClassSizes, LayoutError};
use crate::fs::FileSystem;
use std::io;
use std::path::Path;

/// The state of the `LAYOUT` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutView {
    /// Valid.
    Valid(ClassSizes),
    /// Missing, empty or all zero: a start makes it again from the segments' headers.
    ToBeMade,
    /// Refused by a start: the text says which line is wrong.
    Refused(LayoutError),
    /// It cannot be read; see the findings.
    Unreadable,
}

impl LayoutView {
    /// The sizes of the classes, where the file says them.
    #[must_use]
    pub const fn sizes(&self) -> Option<&ClassSizes> {
        match self {
            Self::Valid(sizes) => Some(sizes),
            Self::ToBeMade | Self::Refused(_) | Self::Unreadable => None,
        }
    }
}

pub(super) fn read_layout(
    fs: &dyn FileSystem,
    path: &Path,
) -> io::Result<Result<ClassSizes, LayoutError>> {
    // Five short lines; what is longer is none.
    let mut text = vec![0; 4096];
    let read = fs.open_read(path)?.read_at(0, &mut text)?;
    Ok(layout::parse(&text[..read]))
}

pub(super) fn look_at_layout(fs: &dyn FileSystem, path: &Path) -> (LayoutView, Option<Finding>) {
    match read_layout(fs, path) {
        Ok(Ok(sizes)) => (LayoutView::Valid(sizes), None),
        Ok(Err(LayoutError::Empty)) => {
            let detail = "is empty; a start makes it again from the segments";
            (LayoutView::ToBeMade, Some(finding(Outcome::Clean, path, detail)))
        }
        Ok(Err(error)) => {
            let outcome = match error {
                LayoutError::Newer(_) => Outcome::Unreadable,
                _ => Outcome::Damaged,
            };
            let said = finding(outcome, path, error.to_string());
            (LayoutView::Refused(error), Some(said))
        }
        Err(error) => (LayoutView::Unreadable, Some(refused(path, "read", &error))),
    }
}
