//! Numbers for names, as the kernel wants them: a node is a name in a node.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

const ROOT: u64 = 1;

#[derive(Debug)]
pub(super) struct Nodes {
    below: PathBuf,
    names: HashMap<u64, (u64, OsString)>,
    numbers: HashMap<(u64, OsString), u64>,
    last: u64,
}

impl Nodes {
    pub(super) fn new(below: &Path) -> Self {
        Self { below: below.to_owned(), names: HashMap::new(), numbers: HashMap::new(), last: ROOT }
    }

    /// The path of a node; none if it has lost its name.
    pub(super) fn path(&self, mut node: u64) -> Option<PathBuf> {
        let mut parts = Vec::new();
        while node != ROOT {
            let (parent, name) = self.names.get(&node)?;
            parts.push(name);
            node = *parent;
        }
        let mut path = self.below.clone();
        path.extend(parts.into_iter().rev());
        Some(path)
    }

    pub(super) fn child(&self, parent: u64, name: &OsStr) -> Option<PathBuf> {
        Some(self.path(parent)?.join(name))
    }

    /// The number of a name that exists.
    pub(super) fn number(&mut self, parent: u64, name: &OsStr) -> u64 {
        let key = (parent, name.to_owned());
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        self.last += 1;
        self.names.insert(self.last, key.clone());
        self.numbers.insert(key, self.last);
        self.last
    }

    /// A name is gone: what comes under it next is another node.
    pub(super) fn remove(&mut self, parent: u64, name: &OsStr) {
        if let Some(number) = self.numbers.remove(&(parent, name.to_owned())) {
            self.names.remove(&number);
        }
    }

    pub(super) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) {
        self.remove(to.0, to.1);
        if let Some(number) = self.numbers.remove(&(from.0, from.1.to_owned())) {
            let key = (to.0, to.1.to_owned());
            self.names.insert(number, key.clone());
            self.numbers.insert(key, number);
        }
    }
}
