//! What a dead process left at a log's end may be in the page cache only. Before it is shown it is made durable, by a
//! recovery; where that cannot be, as another process is at work or the disk is read-only, it is not shown.

use super::{Store, View};
use crate::failure::Failure;
use plimsoll::error::OpenError;
use plimsoll::{LogName, LogOptions, Node, NodeOptions};
use std::io;
use std::path::Path;

/// Why a log's end is not known to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsettled {
    /// A process has the directory open and is at work.
    BeingWritten,
    /// The directory cannot be written to.
    NotRecovered,
}

impl Unsettled {
    /// As it is told.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::BeingWritten => "still being written",
            Self::NotRecovered => "not known to be durable, and cannot be made durable here",
        }
    }
}

/// Recovers logs, if this process may. `None` if it could.
pub(crate) fn recover(store: &Store, names: &[&LogName]) -> Result<Option<Unsettled>, Failure> {
    const EROFS: i32 = 30;
    let mut options = NodeOptions::default();
    options.create = false;
    // Without threads nothing is made ahead: who reads leaves no more behind than recovery must.
    let node = match Node::builder(store.dir()).options(options).without_threads().open() {
        Ok(node) => node,
        Err(OpenError::Locked { .. }) => return Ok(Some(Unsettled::BeingWritten)),
        Err(OpenError::Disk(error))
            if error.io().raw_os_error() == Some(EROFS)
                || error.io().kind() == io::ErrorKind::PermissionDenied =>
        {
            return Ok(Some(Unsettled::NotRecovered));
        }
        Err(error) => return Err(error.into()),
    };
    for name in names {
        let mut options = LogOptions::default();
        options.create = false;
        // What is wrong with a log is told by the look that follows.
        drop(node.open_log(name, options));
    }
    node.close()?;
    Ok(None)
}

/// A view of a log whose end is durable; or what is vouched for, and why there may be more.
pub(crate) fn settled(
    store: &Store,
    name: &LogName,
    dir: &Path,
    unconfirmed: bool,
) -> Result<(View, Option<Unsettled>), Failure> {
    let view = View::look(dir, unconfirmed)?;
    if view.is_settled() {
        return Ok((view, None));
    }
    let why = recover(store, &[name])?;
    let view = View::look(dir, unconfirmed)?;
    let why = why.or((!view.is_settled()).then_some(Unsettled::NotRecovered));
    Ok((view, why))
}
