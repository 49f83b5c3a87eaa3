//! A log that has a directory, a pool and threads to itself, for whoever has only one.

use super::{Node, NodeOptions};
use crate::error::{DiskError, OpenError};
use crate::format::name::LogName;
use crate::limits::{Limits, Size};
use crate::log::{Log, LogOptions};
use std::ops::Deref;
use std::path::PathBuf;

/// The name of the only log in the directory, as the tools show it.
const NAME: &str = "log";

impl NodeOptions {
    /// For a log that has a node to itself: few threads and descriptors, and nothing kept back.
    #[must_use]
    pub fn private() -> Self {
        let mut limits = Limits::default();
        // Nobody else needs them.
        limits.pool.kept_back = Size(0);
        Self { committers: 1, recovery_threads: 1, open_files: 64, limits, ..Self::default() }
    }
}

/// A log without a node that others share: it has a data directory to itself, laid out as any other, and a spare pool of
/// its own, which keeps nothing back. It can be used wherever a [`Log`] can.
#[derive(Clone, Debug)]
pub struct PrivateLog {
    log: Log,
    node: Node,
}

impl PrivateLog {
    /// Opens the log in `dir`, recovering it; makes it if it is missing, unless the options say otherwise. Blocks on the
    /// disk. [`NodeOptions::private`] are the usual options.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(dir: impl Into<PathBuf>, options: NodeOptions) -> Result<Self, OpenError> {
        let name = LogName::new(NAME)
            .map_err(|error| OpenError::Foreign { path: NAME.into(), reason: error.to_string() })?;
        let log_options = LogOptions { create: options.create, ..LogOptions::default() };
        let node = Node::open(dir, options)?;
        let log = node.open_log(&name, log_options)?;
        Ok(Self { log, node })
    }

    /// The node that it has to itself.
    #[must_use]
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Closes clean; see [`Node::close`].
    ///
    /// # Errors
    /// What was confirmed is durable all the same.
    pub fn close(self) -> Result<(), DiskError> {
        let Self { log, node } = self;
        drop(log);
        node.close()
    }
}

impl Deref for PrivateLog {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.log
    }
}
