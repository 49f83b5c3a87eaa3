//! A control group of its own with a limit of memory, v1 or v2, below the one that the test runs in where that may be.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Removed when dropped; its processes must have ended.
#[derive(Debug)]
pub struct Group {
    dir: PathBuf,
    v2: bool,
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Where the memory controller's groups are mounted, and whether they are v2: v1 first, as where both are mounted the
/// controller is there.
fn mounts() -> Result<Vec<(PathBuf, bool)>, String> {
    let mut found = Vec::new();
    for line in read(Path::new("/proc/self/mounts"))?.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        let [_, point, kind, options, ..] = parts[..] else { continue };
        match kind {
            "cgroup" if options.split(',').any(|option| option == "memory") => {
                found.insert(0, (PathBuf::from(point), false));
            }
            "cgroup2" => found.push((PathBuf::from(point), true)),
            _ => {}
        }
    }
    Ok(found)
}

/// The group of this process below its mount.
fn own(v2: bool) -> Result<PathBuf, String> {
    let text = read(Path::new("/proc/self/cgroup"))?;
    let path = text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let v1 = controllers.split(',').any(|name| name == "memory");
        (if v2 { number == "0" } else { v1 }).then(|| path.trim_start_matches('/').into())
    });
    path.ok_or_else(|| "in no memory control group".to_owned())
}

impl Group {
    /// Makes one that allows so many bytes, swap included.
    pub fn new(name: &str, bytes: u64) -> Result<Self, String> {
        let mut why = "no memory controller is mounted".to_owned();
        for (mount, v2) in mounts()? {
            let own = mount.join(own(v2)?);
            // In v2 a group with processes in it has no children with controllers: one further up may.
            for above in own.ancestors().take_while(|dir| dir.starts_with(&mount)) {
                match Self::below(above, v2, name, bytes) {
                    Ok(group) => return Ok(group),
                    Err(error) => why = error,
                }
            }
        }
        Err(why)
    }

    fn below(above: &Path, v2: bool, name: &str, bytes: u64) -> Result<Self, String> {
        if v2 && !read(&above.join("cgroup.subtree_control"))?.contains("memory") {
            return Err(format!("{}: no memory controller for groups below it", above.display()));
        }
        let dir = above.join(format!("plimsoll-{name}-{}", std::process::id()));
        std::fs::create_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let group = Self { dir, v2 };
        write(
            &group.dir.join(if v2 { "memory.max" } else { "memory.limit_in_bytes" }),
            &bytes.to_string(),
        )?;
        // Not everywhere is there swap to be counted.
        let _ = match v2 {
            true => write(&group.dir.join("memory.swap.max"), "0"),
            false => write(&group.dir.join("memory.memsw.limit_in_bytes"), &bytes.to_string()),
        };
        Ok(group)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn number(&self, file: &str) -> Option<u64> {
        read(&self.dir.join(file)).ok()?.trim().parse().ok()
    }

    /// The most that was ever in use in it, the page cache included; none where the kernel does not say.
    pub fn peak(&self) -> Option<u64> {
        self.number(if self.v2 { "memory.peak" } else { "memory.max_usage_in_bytes" })
    }

    /// How many of its processes the kernel has killed for want of memory.
    pub fn killed(&self) -> u64 {
        let text =
            read(&self.dir.join(if self.v2 { "memory.events" } else { "memory.oom_control" }));
        let text = text.unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// Of its own kind: v1 or v2.
    pub fn version(&self) -> &'static str {
        if self.v2 { "v2" } else { "v1" }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..200 {
            if std::fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            // A process that has just ended is still in it.
            std::thread::sleep(Duration::from_millis(10));
        }
        eprintln!("{} stays", self.dir.display());
    }
}
