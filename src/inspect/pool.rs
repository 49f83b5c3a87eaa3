//! The spares of some data directories, counted by device and size class.
//!
//! What spares may take of a device is decided elsewhere and handed in: here is only what there is.

use super::layout::LayoutView;
use super::node::{NodeReport, Scope, outline};
use super::outcome::{Finding, Outcome, worst};
use super::spares::{SpareEntry, SpareState};
use super::tree::refused;
use crate::format::layout::ClassSizes;
use crate::fs::{FileSystem, Space};
use crate::types::{Generation, SizeClass};
use std::path::{Path, PathBuf};

/// The spares of one size class in one data directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassSpares {
    /// All files: the sum of the five counts below.
    pub files: u64,
    /// What they take on the disk, in bytes.
    pub disk_bytes: u64,
    /// Stamped as spares.
    pub stamped: u64,
    /// Given up by a log and not stamped yet.
    pub given_up: u64,
    /// Of another size than their class has.
    pub wrong_size: u64,
    /// Without a header that can be read.
    pub damaged: u64,
    /// Being made, as their names say.
    pub being_made: u64,
    /// The lowest and the highest generation of those that are stamped or given up.
    pub generations: Option<(Generation, Generation)>,
    /// Those of them that a start deletes, as there is no generation after theirs.
    pub last_generation: u64,
}

impl ClassSpares {
    fn add(&mut self, spare: &SpareEntry, sizes: Option<&ClassSizes>) {
        self.files += 1;
        self.disk_bytes += spare.disk_bytes;
        let state = spare.state(sizes);
        match state {
            SpareState::Stamped => self.stamped += 1,
            SpareState::GivenUp => self.given_up += 1,
            SpareState::WrongSize => self.wrong_size += 1,
            SpareState::Damaged => self.damaged += 1,
            SpareState::BeingMade => self.being_made += 1,
        }
        if !matches!(state, SpareState::Stamped | SpareState::GivenUp) {
            return;
        }
        let Some(Ok(header)) = spare.header else { return };
        let this = header.generation;
        let (low, high) = self.generations.unwrap_or((this, this));
        self.generations = Some((low.min(this), high.max(this)));
        self.last_generation += u64::from(this.next().is_none());
    }

    /// Files that a node counts as its spares: those not stamped yet and those being made included.
    #[must_use]
    pub const fn in_pool(&self) -> u64 {
        self.stamped + self.given_up + self.being_made
    }
}

/// The spares of one data directory.
#[derive(Clone, Debug)]
pub struct DirSpares {
    /// The directory.
    pub dir: PathBuf,
    /// The worst of its findings.
    pub outcome: Outcome,
    /// Whether a node has it open, as far as the system tells without taking the lock.
    pub held: Option<bool>,
    /// Its layout.
    pub layout: LayoutView,
    /// What the files of each class are to have, in bytes: by the layout, or else by the files' own headers; 0 where
    /// neither says it.
    pub sizes: ClassSizes,
    /// Tiny, small and main ones.
    pub classes: [ClassSpares; 3],
    /// Files whose class neither header nor length tells.
    pub unclassed: ClassSpares,
}

/// What spares take of what they may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that count against the budget.
    pub counted_bytes: u64,
    /// Tiny files that are to be kept back.
    pub kept_back_files: u64,
    /// Bytes of these.
    pub kept_back_bytes: u64,
    /// Of these files, how many are not there.
    pub missing_files: u64,
    /// Bytes of the ones that are not there.
    pub missing_bytes: u64,
}

impl DirSpares {
    fn new(report: NodeReport) -> Self {
        let known = report.layout.sizes().copied();
        let sizes = known.unwrap_or_else(|| sizes_of(&report.spares));
        let mut classes: [ClassSpares; 3] = Default::default();
        let mut unclassed = ClassSpares::default();
        for spare in &report.spares {
            let class = class_of(spare, &sizes);
            let counts = class.and_then(|class| classes.get_mut(class as usize));
            counts.unwrap_or(&mut unclassed).add(spare, known.as_ref());
        }
        let NodeReport { dir, outcome, held, layout, .. } = report;
        Self { dir, outcome, held, layout, sizes, classes, unclassed }
    }

    /// The spares of a class.
    #[must_use]
    pub const fn of(&self, class: SizeClass) -> &ClassSpares {
        &self.classes[class as usize]
    }

    /// What counts against the budget, if so many bytes are kept back in tiny files here: the first tiny ones.
    #[must_use]
    pub fn usage(&self, kept_back: u64) -> Usage {
        let tiny = self.sizes.tiny;
        let kept_back_files = kept_back.checked_div(tiny).unwrap_or(0);
        let missing_files = kept_back_files.saturating_sub(self.of(SizeClass::Tiny).in_pool());
        let bytes = |class: SizeClass| self.of(class).in_pool() * self.sizes.of(class);
        let held: u64 = SizeClass::ALL.into_iter().map(bytes).sum();
        Usage {
            counted_bytes: held - (kept_back_files - missing_files) * tiny,
            kept_back_files,
            kept_back_bytes: kept_back_files * tiny,
            missing_files,
            missing_bytes: missing_files * tiny,
        }
    }
}

/// Of the files that say it, the largest of each class.
fn sizes_of(spares: &[SpareEntry]) -> ClassSizes {
    let largest = |class: SizeClass| {
        let headers = spares.iter().filter_map(|spare| spare.header?.ok());
        headers.filter(|header| header.class == class).map(|header| header.capacity).max()
    };
    let of = |class| largest(class).unwrap_or(0);
    ClassSizes { tiny: of(SizeClass::Tiny), small: of(SizeClass::Small), main: of(SizeClass::Main) }
}

/// The class of a file, by its header, or else by its length if only one class has that.
fn class_of(spare: &SpareEntry, sizes: &ClassSizes) -> Option<SizeClass> {
    if let Some(Ok(header)) = spare.header {
        return Some(header.class);
    }
    let mut fitting = SizeClass::ALL.into_iter().filter(|&class| sizes.of(class) == spare.file_len);
    fitting.next().filter(|_| fitting.next().is_none())
}

/// The data directories of one device.
#[derive(Clone, Debug)]
pub struct DeviceSpares {
    /// The device (`st_dev`).
    pub device: u64,
    /// Its size and what is free; `None` if it cannot be told.
    pub space: Option<Space>,
    /// The directories, in the order in which they were given.
    pub dirs: Vec<DirSpares>,
}

impl DeviceSpares {
    /// What counts against the device's budget, if so many bytes of it are kept back, shared evenly by its directories.
    #[must_use]
    pub fn usage(&self, kept_back: u64) -> Usage {
        let share = self.share(kept_back);
        let add = |sum: Usage, dir: &DirSpares| {
            let usage = dir.usage(share);
            Usage {
                counted_bytes: sum.counted_bytes + usage.counted_bytes,
                kept_back_files: sum.kept_back_files + usage.kept_back_files,
                kept_back_bytes: sum.kept_back_bytes + usage.kept_back_bytes,
                missing_files: sum.missing_files + usage.missing_files,
                missing_bytes: sum.missing_bytes + usage.missing_bytes,
            }
        };
        self.dirs.iter().fold(Usage::default(), add)
    }

    /// What one of the directories keeps back of so many bytes.
    #[must_use]
    pub fn share(&self, kept_back: u64) -> u64 {
        kept_back / (self.dirs.len() as u64).max(1)
    }
}

/// What is to be known of the spares of some data directories.
#[derive(Clone, Debug)]
pub struct PoolReport {
    /// The worst of the findings.
    pub outcome: Outcome,
    /// The devices, in the order of the first directory on each.
    pub devices: Vec<DeviceSpares>,
    /// What there is to say.
    pub findings: Vec<Finding>,
}

/// Looks at the spares of `dirs`, each of which is to be given once. What the system refuses is an outcome, not an error.
/// Reads one sector of each spare and blocks on that; `settle` as in [`super::segment`].
#[must_use]
pub fn pool(fs: &dyn FileSystem, dirs: &[PathBuf], settle: &(dyn Fn() + Sync)) -> PoolReport {
    let mut report =
        PoolReport { outcome: Outcome::Clean, devices: Vec::new(), findings: Vec::new() };
    for dir in dirs {
        match fs.metadata(dir) {
            Ok(found) => {
                let (node, _) = outline(fs, dir, Scope::Spares, settle);
                // What is no data directory keeps nothing back, so it must not take a share of it.
                let refused = node.findings.iter().any(|finding| finding.file == *dir);
                report.findings.extend(node.findings.iter().cloned());
                if !refused {
                    report.device(fs, found.device, dir).dirs.push(DirSpares::new(node));
                }
            }
            Err(error) => {
                let mut refusal = refused(dir, "looked up", &error);
                refusal.outcome = Outcome::Unreadable;
                report.findings.push(refusal);
            }
        }
    }
    report.outcome = worst(&report.findings);
    report
}

impl PoolReport {
    /// The device's entry, made if there is none yet: its space is asked for once.
    fn device(&mut self, fs: &dyn FileSystem, device: u64, dir: &Path) -> &mut DeviceSpares {
        let known = self.devices.iter().position(|known| known.device == device);
        let at = known.unwrap_or_else(|| {
            let space = match fs.space(dir) {
                Ok(space) => Some(space),
                Err(error) => {
                    self.findings.push(refused(dir, "asked for its free space", &error));
                    None
                }
            };
            self.devices.push(DeviceSpares { device, space, dirs: Vec::new() });
            self.devices.len() - 1
        });
        &mut self.devices[at]
    }
}
