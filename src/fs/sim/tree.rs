//! Directories, names and the inodes behind them, in the cache and on the disk.

use super::choose::Chooser;
use super::content::Content;
use super::mount::{Device, Mounts};
use super::names::{Change, Entry, Inode, Pending};
use super::{Names, Sectors};
use crate::fs::{DirEntry, FileKind};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const ROOT: Inode = 1;
/// As `path_resolution(7)`: more links than this on the way are taken for a loop.
const MOST_LINKS: u32 = 40;

#[derive(Clone, Debug)]
pub(super) enum Node {
    File(Content),
    Dir(Directory),
    Link(PathBuf),
}

impl Node {
    pub(super) fn kind(&self) -> FileKind {
        match self {
            Self::File(_) => FileKind::File,
            Self::Dir(_) => FileKind::Directory,
            Self::Link(_) => FileKind::Link,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    pub(super) cached: BTreeMap<OsString, Inode>,
    durable: BTreeMap<OsString, Inode>,
}

/// All inodes and names.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<Inode, Arc<Node>>,
    next: Inode,
    pending: Pending,
    /// Inodes without a name in the cache.
    unnamed: BTreeSet<Inode>,
    mounts: Mounts,
}

/// Where a path leads.
#[derive(Debug)]
pub(super) struct Place<'p> {
    /// The directory and the name in it; none for the root.
    pub(super) entry: Option<(Inode, &'p OsStr)>,
    /// What stands there.
    pub(super) inode: Option<Inode>,
    /// The directories from the root to that of the entry.
    above: Vec<Inode>,
}

/// The entry that a path ends with, and what stands there.
type Found<'p> = (Option<(Inode, &'p OsStr)>, Option<Inode>);

pub(super) fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

impl Tree {
    pub(super) fn new() -> Self {
        let root = Arc::new(Node::Dir(Directory::default()));
        let nodes = BTreeMap::from([(ROOT, root)]);
        Self {
            nodes,
            next: ROOT + 1,
            pending: Pending::default(),
            unnamed: BTreeSet::new(),
            mounts: Mounts::default(),
        }
    }

    /// Where an inode is.
    pub(super) fn device(&self, inode: Inode) -> Device {
        self.mounts.device(inode)
    }

    pub(super) fn is_mount_point(&self, inode: Inode) -> bool {
        self.mounts.is_point(inode)
    }

    /// Whether it is the root of a device.
    pub(super) fn is_device_root(&self, inode: Inode) -> bool {
        inode == ROOT || self.mounts.is_point(inode)
    }

    /// Puts what is at `path` and below it onto `device`; what is mounted there already stays where it is. Every name that
    /// exists becomes durable.
    pub(super) fn mount(&mut self, path: &Path, device: Device) -> io::Result<()> {
        let point = self.inode(path)?;
        self.dir(point)?;
        if self.is_device_root(point) {
            return Err(errno(libc::EBUSY));
        }
        self.settle_names();
        let mut look = vec![point];
        while let Some(inode) = look.pop() {
            self.mounts.put(inode, device);
            if let Ok(dir) = self.dir(inode) {
                let below = dir.cached.values().copied();
                look.extend(below.filter(|inode| !self.mounts.is_point(*inode)));
            }
        }
        self.mounts.make_point(point);
        Ok(())
    }

    pub(super) fn node(&self, inode: Inode) -> io::Result<&Node> {
        self.nodes.get(&inode).map(|node| &**node).ok_or_else(|| errno(libc::ENOENT))
    }

    pub(super) fn content(&self, inode: Inode) -> io::Result<&Content> {
        match self.node(inode)? {
            Node::File(content) => Ok(content),
            Node::Dir(_) => Err(errno(libc::EISDIR)),
            Node::Link(_) => Err(errno(libc::ELOOP)),
        }
    }

    pub(super) fn content_mut(&mut self, inode: Inode) -> io::Result<&mut Content> {
        match self.nodes.get_mut(&inode).map(Arc::make_mut) {
            Some(Node::File(content)) => Ok(content),
            Some(Node::Dir(_)) => Err(errno(libc::EISDIR)),
            Some(Node::Link(_)) => Err(errno(libc::ELOOP)),
            None => Err(errno(libc::ENOENT)),
        }
    }

    pub(super) fn dir(&self, inode: Inode) -> io::Result<&Directory> {
        match self.node(inode)? {
            Node::Dir(dir) => Ok(dir),
            _ => Err(errno(libc::ENOTDIR)),
        }
    }

    fn dir_mut(&mut self, inode: Inode) -> Option<&mut Directory> {
        match self.nodes.get_mut(&inode).map(Arc::make_mut) {
            Some(Node::Dir(dir)) => Some(dir),
            _ => None,
        }
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (Inode, &Node)> {
        self.nodes.iter().map(|(inode, node)| (*inode, &**node))
    }

    pub(super) fn is_named(&self, inode: Inode) -> bool {
        !self.unnamed.contains(&inode)
    }

    /// Follows `path`, links in its last component not followed.
    pub(super) fn find<'p>(&self, path: &'p Path) -> io::Result<Place<'p>> {
        // Deep enough for most, so that it need not grow.
        let mut above = Vec::with_capacity(8);
        above.push(ROOT);
        let (entry, inode) = self.find_from(&mut above, path, 0)?;
        Ok(Place { entry, inode, above })
    }

    /// Goes on from the last directory of `above`, and keeps it up to date.
    fn find_from<'p>(
        &self,
        above: &mut Vec<Inode>,
        path: &'p Path,
        links: u32,
    ) -> io::Result<Found<'p>> {
        if path.as_os_str().is_empty() {
            return Err(errno(libc::ENOENT));
        }
        // As `Path::components`, which takes several times as long.
        let bytes = path.as_os_str().as_bytes();
        if bytes.first() == Some(&b'/') {
            above.truncate(1);
        }
        let parts = bytes.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
        let mut parts = parts.map(OsStr::from_bytes).peekable();
        while let Some(name) = parts.next() {
            let here = above.last().copied().unwrap_or(ROOT);
            match name.as_bytes() {
                b".." if above.len() > 1 => drop(above.pop()),
                b".." => {}
                _ => {
                    let inode = self.dir(here)?.cached.get(name).copied();
                    if parts.peek().is_none() {
                        return Ok((Some((here, name)), inode));
                    }
                    let inode = inode.ok_or_else(|| errno(libc::ENOENT))?;
                    match self.node(inode)? {
                        Node::Dir(_) => above.push(inode),
                        Node::File(_) => return Err(errno(libc::ENOTDIR)),
                        Node::Link(target) => self.enter_link(above, target, links)?,
                    }
                }
            }
        }
        Ok((None, above.last().copied()))
    }

    fn enter_link(&self, above: &mut Vec<Inode>, target: &Path, links: u32) -> io::Result<()> {
        if links >= MOST_LINKS {
            return Err(errno(libc::ELOOP));
        }
        let (_, inode) = self.find_from(above, target, links + 1)?;
        let inode = inode.ok_or_else(|| errno(libc::ENOENT))?;
        match self.node(inode)? {
            Node::Link(next) => self.enter_link(above, next, links + 1),
            // After find_from, `above` ends with the parent unless the target was all "." and "..".
            Node::Dir(_) => {
                if above.last() != Some(&inode) {
                    above.push(inode);
                }
                Ok(())
            }
            Node::File(_) => Err(errno(libc::ENOTDIR)),
        }
    }

    /// What stands at `path`.
    pub(super) fn inode(&self, path: &Path) -> io::Result<Inode> {
        self.find(path)?.inode.ok_or_else(|| errno(libc::ENOENT))
    }

    /// Gives a new inode a name that must be free.
    pub(super) fn make(&mut self, op: u64, path: &Path, node: Node) -> io::Result<Inode> {
        let place = self.find(path)?;
        let (Some((dir, name)), None) = (place.entry, place.inode) else {
            return Err(errno(libc::EEXIST));
        };
        let inode = self.next;
        self.next += 1;
        let made = matches!(node, Node::Dir(_)).then_some(inode);
        self.mounts.put(inode, self.device(dir));
        self.nodes.insert(inode, Arc::new(node));
        let placed = Some((Entry::new(dir, name), inode));
        self.change(Change { op, placed, made, ..Change::default() });
        Ok(inode)
    }

    /// Gives the file that lost its last name.
    pub(super) fn remove_file(&mut self, op: u64, path: &Path) -> io::Result<Inode> {
        let place = self.find(path)?;
        let Some((dir, name)) = place.entry else {
            return Err(errno(libc::EISDIR));
        };
        let inode = place.inode.ok_or_else(|| errno(libc::ENOENT))?;
        if let Node::Dir(_) = self.node(inode)? {
            return Err(errno(libc::EISDIR));
        }
        let removed = Some(Entry::new(dir, name));
        self.change(Change { op, removed, ..Change::default() });
        self.unnamed.insert(inode);
        Ok(inode)
    }

    pub(super) fn remove_dir(&mut self, op: u64, path: &Path) -> io::Result<Inode> {
        let place = self.find(path)?;
        let Some((dir, name)) = place.entry else {
            return Err(errno(libc::EBUSY));
        };
        let inode = place.inode.ok_or_else(|| errno(libc::ENOENT))?;
        let is_empty = self.dir(inode)?.cached.is_empty();
        if self.mounts.is_point(inode) {
            return Err(errno(libc::EBUSY));
        }
        if !is_empty {
            return Err(errno(libc::ENOTEMPTY));
        }
        let (removed, killed) = (Some(Entry::new(dir, name)), Some(inode));
        self.change(Change { op, removed, killed, ..Change::default() });
        self.unnamed.insert(inode);
        Ok(inode)
    }

    /// Where both names of a rename are. As Linux, it says that they are on two devices before it looks at the names.
    pub(super) fn device_of_rename(&self, from: &Path, to: &Path) -> io::Result<Device> {
        let device = |place: &Place<'_>| {
            let dir = place.entry.map(|(dir, _)| dir).or(place.inode);
            self.device(dir.unwrap_or(ROOT))
        };
        let (source, target) = (self.find(from)?, self.find(to)?);
        if device(&source) == device(&target) {
            Ok(device(&source))
        } else {
            Err(errno(libc::EXDEV))
        }
    }

    /// Gives the file that was replaced and so lost its last name. Both names are on one device.
    pub(super) fn rename(&mut self, op: u64, from: &Path, to: &Path) -> io::Result<Option<Inode>> {
        let (source, target) = (self.find(from)?, self.find(to)?);
        let (Some((from_dir, from_name)), Some((to_dir, to_name))) = (source.entry, target.entry)
        else {
            return Err(errno(libc::EBUSY));
        };
        let inode = source.inode.ok_or_else(|| errno(libc::ENOENT))?;
        if target.inode == Some(inode) {
            return Ok(None);
        }
        let moved_dir = matches!(self.node(inode)?, Node::Dir(_));
        if moved_dir && target.above.contains(&inode) {
            return Err(errno(libc::EINVAL));
        }
        if target.inode.is_some_and(|replaced| source.above.contains(&replaced)) {
            return Err(errno(libc::ENOTEMPTY));
        }
        let replaced_dir = match target.inode.map(|replaced| self.node(replaced)).transpose()? {
            Some(Node::Dir(_)) if !moved_dir => return Err(errno(libc::EISDIR)),
            Some(Node::Dir(_)) => true,
            Some(_) if moved_dir => return Err(errno(libc::ENOTDIR)),
            _ => false,
        };
        if [Some(inode), target.inode].into_iter().flatten().any(|at| self.mounts.is_point(at)) {
            return Err(errno(libc::EBUSY));
        }
        if let Some(replaced) = target.inode.filter(|_| replaced_dir)
            && !self.dir(replaced)?.cached.is_empty()
        {
            return Err(errno(libc::ENOTEMPTY));
        }
        self.change(Change {
            op,
            removed: Some(Entry::new(from_dir, from_name)),
            placed: Some((Entry::new(to_dir, to_name), inode)),
            killed: target.inode.filter(|_| replaced_dir),
            above: if moved_dir { target.above } else { Vec::new() },
            ..Change::default()
        });
        self.unnamed.extend(target.inode);
        Ok(target.inode)
    }

    fn change(&mut self, mut change: Change) {
        change.device = change.dir().map_or(change.device, |dir| self.device(dir));
        self.apply(&change, |dir| &mut dir.cached);
        self.pending.push(change);
    }

    fn apply(
        &mut self,
        change: &Change,
        side: impl Fn(&mut Directory) -> &mut BTreeMap<OsString, Inode>,
    ) {
        if let Some(entry) = &change.removed
            && let Some(dir) = self.dir_mut(entry.dir)
        {
            side(dir).remove(&entry.name);
        }
        if let Some((entry, inode)) = &change.placed
            && let Some(dir) = self.dir_mut(entry.dir)
        {
            side(dir).insert(entry.name.clone(), *inode);
        }
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let inode = self.inode(path)?;
        self.dir(inode)?;
        for change in self.pending.sync(inode) {
            self.apply(&change, |dir| &mut dir.durable);
        }
        Ok(())
    }

    /// Makes every name durable as it is, for what a test prepares.
    pub(super) fn settle_names(&mut self) {
        self.pending = Pending::default();
        for node in self.nodes.values_mut() {
            if let Node::Dir(dir) = &**node
                && dir.durable != dir.cached
                && let Node::Dir(dir) = Arc::make_mut(node)
            {
                dir.durable = dir.cached.clone();
            }
        }
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let dir = self.dir(self.inode(path)?)?;
        let entries = dir.cached.iter().map(|(name, inode)| {
            Ok(DirEntry { name: name.clone(), kind: self.node(*inode)?.kind() })
        });
        entries.collect()
    }

    /// Whether a power cut may give an inode without a name its name back.
    fn may_return(&self, inode: Inode) -> bool {
        self.pending.names(inode)
            || self.nodes.values().any(|node| {
                matches!(&**node, Node::Dir(dir) if dir.durable.values().any(|at| *at == inode))
            })
    }

    /// Drops the inodes that nothing can reach any more; `open` says which ones a handle holds.
    pub(super) fn collect(&mut self, open: impl Fn(Inode) -> bool) {
        let unnamed: Vec<Inode> = self.unnamed.iter().copied().collect();
        for inode in unnamed {
            if !open(inode) && !self.may_return(inode) {
                self.nodes.remove(&inode);
                self.unnamed.remove(&inode);
                self.mounts.forget(inode);
            }
        }
    }

    /// Loses the cache.
    pub(super) fn power_cut(&mut self, sectors: Sectors, names: Names, chooser: &mut dyn Chooser) {
        if !self.pending.is_empty() {
            for change in self.pending.cut(names, chooser) {
                self.apply(&change, |dir| &mut dir.durable);
            }
        }
        let mut reached = BTreeSet::from([ROOT]);
        let mut look = vec![ROOT];
        while let Some(inode) = look.pop() {
            if let Some(Node::Dir(dir)) = self.nodes.get(&inode).map(|node| &**node) {
                look.extend(dir.durable.values().copied().filter(|inode| reached.insert(*inode)));
            }
        }
        self.nodes.retain(|inode, _| reached.contains(inode));
        self.mounts.retain(|inode| reached.contains(&inode));
        self.unnamed.clear();
        for (inode, node) in &mut self.nodes {
            match &**node {
                Node::Dir(dir) if dir.cached != dir.durable => {
                    if let Node::Dir(dir) = Arc::make_mut(node) {
                        dir.cached = dir.durable.clone();
                    }
                }
                Node::File(content) if content.is_pending() => {
                    if let Node::File(content) = Arc::make_mut(node) {
                        content.power_cut(*inode, sectors, chooser);
                    }
                }
                _ => {}
            }
        }
    }

    /// Every path with its inode, sorted.
    pub(super) fn paths(&self) -> Vec<(PathBuf, Inode)> {
        let mut paths = Vec::new();
        let mut look = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, inode)) = look.pop() {
            if let Ok(dir) = self.dir(inode) {
                // The first name comes off the stack first, so that nothing is left to sort.
                let names = dir.cached.iter().rev();
                look.extend(names.map(|(name, inode)| (path.join(name), *inode)));
            }
            paths.push((path, inode));
        }
        paths
    }

    /// Every name with its inode and how deep it is, in the order of [`Tree::paths`].
    pub(super) fn names(&self) -> Vec<(u64, &OsStr, Inode)> {
        let mut names = Vec::with_capacity(self.nodes.len());
        let mut look = vec![(0, OsStr::new("/"), ROOT)];
        while let Some((depth, name, inode)) = look.pop() {
            if let Ok(dir) = self.dir(inode) {
                let below = dir.cached.iter().rev();
                look.extend(below.map(|(name, inode)| (depth + 1, name.as_os_str(), *inode)));
            }
            names.push((depth, name, inode));
        }
        names
    }
}
