//! Memory as Linux tells it.
//!
//! The control files are read here, and not through a crate: what can be reclaimed has to be told from what cannot, per
//! group, and the known crates give totals or find one of the two interfaces at one place only.

use super::group::{Group, Version, groups};
use super::text::value;
use super::{GroupMemory, MemorySample, MemorySource};
use crate::fs::FileSystem;
use crate::planted::{self, Fault};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// No file of the kernel that is read here is longer; a longer one is not what it should be.
const TEXT_MAX: usize = 4 << 20;

/// Reads `/proc` and the control groups of this process.
///
/// What counts as used:
///
/// - **v2** (`memory.stat`): `anon` + `shmem` + `kernel` + `sock` - `slab_reclaimable`. Kernels before 5.18 have no
///   `kernel`; there it is `kernel_stack` + `pagetables` + `percpu` + `slab_unreclaimable`.
/// - **v1** (`memory.stat`, `memory.kmem.usage_in_bytes`): `total_rss` (anonymous memory, not what `ps` calls so), and
///   `total_shmem`, and the part of the group's kernel memory that cannot be reclaimed. v1 does not tell which that is, so
///   the share of the whole machine is taken (`/proc/meminfo`); all of it would count the dentry cache of whoever lists
///   files.
/// - **process** (`/proc/self/status`): `RssAnon` + `RssShmem`.
///
/// Of a group the lower of `memory.high` and `memory.max` counts (v1: `memory.limit_in_bytes`, and
/// `hierarchical_memory_limit` for groups above that cannot be seen). A limit that is no lower than physical memory limits
/// nothing, whichever huge number it is.
#[derive(Debug)]
pub struct SystemMemory {
    root: PathBuf,
    fs: Arc<dyn FileSystem>,
}

/// The machine's memory.
#[derive(Clone, Copy, Debug, Default)]
struct Machine {
    physical: u64,
    kernel_fixed: u64,
    kernel_reclaimable: u64,
}

impl Machine {
    fn of(meminfo: &str) -> Self {
        let of = |name| value(meminfo, name).unwrap_or(0);
        let fixed = ["SUnreclaim", "KernelStack", "PageTables"].map(of);
        Self {
            physical: of("MemTotal"),
            kernel_fixed: fixed.into_iter().fold(0, u64::saturating_add),
            kernel_reclaimable: of("SReclaimable"),
        }
    }

    /// Of a v1 group's kernel memory, what is taken not to be reclaimable.
    fn fixed_share(&self, kernel: u64) -> u64 {
        let all = u128::from(self.kernel_fixed) + u128::from(self.kernel_reclaimable);
        match (u128::from(kernel) * u128::from(self.kernel_fixed)).checked_div(all) {
            Some(share) => u64::try_from(share).unwrap_or(kernel),
            None => kernel,
        }
    }
}

impl SystemMemory {
    /// Reads below `root`, which is `/` on a machine, and a recorded tree in tests.
    #[must_use]
    pub fn new(root: &Path, fs: Arc<dyn FileSystem>) -> Self {
        Self { root: root.to_path_buf(), fs }
    }

    fn text(&self, path: &Path) -> io::Result<String> {
        let path = self.root.join(path.strip_prefix("/").unwrap_or(path));
        let file = self.fs.open_read(&path)?;
        // Such files say that they are 0 bytes long: what is in them shows only by reading.
        let mut bytes = Vec::new();
        let mut part = vec![0; 16 << 10];
        loop {
            match file.read_at(bytes.len() as u64, &mut part)? {
                0 => break,
                count => bytes.extend_from_slice(&part[..count]),
            }
            if bytes.len() > TEXT_MAX {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn proc(&self, name: &str) -> io::Result<String> {
        self.text(&Path::new("/proc").join(name))
    }
}

/// One sample being read: what could not be read is noted and does not end it.
struct Reader<'a> {
    system: &'a SystemMemory,
    machine: Machine,
    process: u64,
    warning: Option<String>,
}

impl Reader<'_> {
    fn warn(&mut self, path: &Path, what: &str) {
        // The first one; a machine that is wrong in one place is in many.
        self.warning.get_or_insert_with(|| format!("{}: {what}", path.display()));
    }

    /// The text of a control file; none where there is no such file.
    fn control(&mut self, dir: &Path, name: &str) -> Option<String> {
        let path = dir.join(name);
        match self.system.text(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                self.warn(&path, &format!("{error}; not counted"));
                None
            }
        }
    }

    /// A number in a control file that limits something: none for `max`, for what is no lower than physical memory, and
    /// for what is no number.
    fn limit(&mut self, dir: &Path, name: &str) -> Option<(u64, String)> {
        let text = self.control(dir, name)?;
        let path = dir.join(name);
        let text = text.trim();
        if text == "max" || text == "-1" {
            return None;
        }
        match text.parse::<u64>() {
            Ok(limit) if limit > 0 => {
                self.limits(limit).then(|| (limit, path.display().to_string()))
            }
            // A number too large for 64 bits included: as a limit it is none.
            _ => {
                self.warn(&path, &format!("{text:?} is no limit; taken for none"));
                None
            }
        }
    }

    fn limits(&self, limit: u64) -> bool {
        // Without a size of the machine, what v1 says for "no limit" must still not pass for one.
        let all = if self.machine.physical > 0 { self.machine.physical } else { 1 << 60 };
        limit < all
    }

    /// What limits a group, its file, and what of it is used.
    fn group(&mut self, group: &Group) -> Option<GroupMemory> {
        let dir = &group.dir;
        let mut limits = match group.version {
            Version::V2 => {
                vec![self.limit(dir, "memory.high"), self.limit(dir, "memory.max")]
            }
            Version::V1 => vec![self.limit(dir, "memory.limit_in_bytes")],
        };
        if group.version == Version::V1 && group.own {
            limits.push(self.hierarchical(dir));
        }
        let (limit, file) = limits.into_iter().flatten().min_by_key(|(limit, _)| *limit)?;
        let used = match (self.control(dir, "memory.stat"), group.version) {
            (Some(stat), Version::V2) => used_v2(&stat),
            (Some(stat), Version::V1) => {
                let kernel = self.control(dir, "memory.kmem.usage_in_bytes");
                let kernel = kernel.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
                used_v1(&stat, self.machine.fixed_share(kernel))
            }
            (None, _) => None,
        };
        // At least that is in it.
        let used = used.unwrap_or_else(|| {
            self.warn(
                &dir.join("memory.stat"),
                "cannot be read; the process's own memory is taken",
            );
            self.process
        });
        Some(GroupMemory { used, limit, file })
    }

    /// In v1 a group says what the lowest limit of all above it is.
    fn hierarchical(&mut self, dir: &Path) -> Option<(u64, String)> {
        let stat = self.control(dir, "memory.stat")?;
        let limit = value(&stat, "hierarchical_memory_limit").filter(|limit| *limit > 0)?;
        let file = dir.join("memory.stat").display().to_string();
        self.limits(limit).then_some((limit, file))
    }
}

/// None if the text is no `memory.stat` of v2.
fn used_v2(stat: &str) -> Option<u64> {
    let of = |name| value(stat, name).unwrap_or(0);
    let kernel = value(stat, "kernel").map_or_else(
        || {
            let parts = ["kernel_stack", "pagetables", "percpu", "slab_unreclaimable"].map(of);
            parts.into_iter().fold(0, u64::saturating_add)
        },
        |kernel| kernel.saturating_sub(of("slab_reclaimable")),
    );
    let mut parts = vec![value(stat, "anon")?, of("shmem"), kernel, of("sock")];
    if planted::is(Fault::MemoryCountsPageCache) {
        parts.push(of("file"));
    }
    Some(parts.into_iter().fold(0, u64::saturating_add))
}

/// None if the text is no `memory.stat` of v1.
fn used_v1(stat: &str, kernel: u64) -> Option<u64> {
    let of = |name| value(stat, name).unwrap_or(0);
    let mut used = value(stat, "total_rss")?.saturating_add(of("total_shmem"));
    if planted::is(Fault::MemoryCountsPageCache) {
        used = used.saturating_add(of("total_cache"));
    }
    Some(used.saturating_add(kernel))
}

impl MemorySource for SystemMemory {
    fn read(&self) -> io::Result<MemorySample> {
        let machine = Machine::of(&self.proc("meminfo")?);
        let status = self.proc("self/status")?;
        // Before 4.5 the kernel did not say: then the whole resident set is all there is.
        let process = match (value(&status, "RssAnon"), value(&status, "RssShmem")) {
            (None, None) => value(&status, "VmRSS"),
            (anon, shmem) => Some(anon.unwrap_or(0).saturating_add(shmem.unwrap_or(0))),
        };
        let missing = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let process = process.ok_or_else(|| missing("/proc/self/status says nothing of memory"))?;
        let mut reader = Reader { system: self, machine, process, warning: None };
        let files = ["self/cgroup", "self/mountinfo"].map(|name| {
            let text = reader.control(Path::new("/proc"), name);
            text.unwrap_or_default()
        });
        let mut nearest: Option<GroupMemory> = None;
        for group in groups(&files[0], &files[1]) {
            if let Some(found) = reader.group(&group)
                && nearest.as_ref().is_none_or(|nearest| found.nearer_than(nearest))
            {
                nearest = Some(found);
            }
        }
        let Machine { physical, .. } = machine;
        Ok(MemorySample { group: nearest, process, physical, warning: reader.warning })
    }
}
