//! Small mounts for tests: a file system of each kind in a sparse file, one in memory, and bind mounts.
//!
//! Whatever cannot be made here (not root, no loop device, a tool missing) is an `Err` with the reason, which the test
//! hands to `skip.rs`. A test that panics unmounts all the same; one that is killed leaves its mount to whoever finds it.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// What XFS needs at least, and enough for all others.
pub const ENOUGH: u64 = 320 << 20;

/// A mounted file system; unmounted when dropped, and its image removed.
#[derive(Debug)]
pub struct Mount {
    dir: PathBuf,
    /// The image and the mount point, where these are not the caller's. Only held.
    home: Option<TempDir>,
}

impl Mount {
    pub fn ext4(bytes: u64) -> Result<Self, String> {
        Self::image("ext4", bytes, "")
    }

    /// `mkfs.xfs` makes none that is smaller than 300 MiB.
    pub fn xfs(bytes: u64) -> Result<Self, String> {
        Self::image("xfs", bytes, "")
    }

    /// `mkfs.btrfs` makes none that is smaller than about 110 MiB.
    pub fn btrfs(bytes: u64) -> Result<Self, String> {
        Self::image("btrfs", bytes, "")
    }

    /// A new file system of a kind that `mkfs` knows, in a sparse file of `bytes`, mounted with `options` (which may be
    /// empty).
    pub fn image(kind: &str, bytes: u64, options: &str) -> Result<Self, String> {
        let (home, dir) = home()?;
        let image = home.path().join("image");
        let file = std::fs::File::create_new(&image).map_err(|error| error.to_string())?;
        file.set_len(bytes).map_err(|error| error.to_string())?;
        drop(file);
        run(Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image))?;
        let options = if options.is_empty() { "loop".into() } else { format!("loop,{options}") };
        run(Command::new("mount").args(["-t", kind, "-o", &options]).arg(&image).arg(&dir))?;
        Ok(Self { dir, home: Some(home) })
    }

    /// A file system of `bytes` in memory.
    pub fn tmpfs(bytes: u64) -> Result<Self, String> {
        let (home, dir) = home()?;
        let mut mount = Self::tmpfs_at(&dir, bytes)?;
        mount.home = Some(home);
        Ok(mount)
    }

    /// The same at a directory of the caller's.
    pub fn tmpfs_at(dir: &Path, bytes: u64) -> Result<Self, String> {
        let size = format!("size={bytes}");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "plimsoll-test"]).arg(dir))?;
        Ok(Self { dir: dir.to_path_buf(), home: None })
    }

    /// Makes `dir` a mount point of itself: the same files and device, and renames in and out of it answer `EXDEV`.
    pub fn bind(dir: &Path) -> Result<Self, String> {
        Self::bind_onto(dir, dir)
    }

    /// Shows `from` at the directory `onto` as well: puts another mount into the midst of a tree. Drop it before the one
    /// that `from` is on.
    pub fn bind_onto(from: &Path, onto: &Path) -> Result<Self, String> {
        run(Command::new("mount").arg("--bind").arg(from).arg(onto))?;
        Ok(Self { dir: onto.to_path_buf(), home: None })
    }

    /// Where it is mounted. On ext4 there is a `lost+found` in it.
    pub fn path(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let Err(busy) = run(Command::new("umount").arg(&self.dir)) else { return };
        // A file that is still open must not leave the mount behind: this one takes effect when it is closed.
        if let Err(error) = run(Command::new("umount").arg("--lazy").arg(&self.dir)) {
            eprintln!("{} stays mounted: {busy}; {error}", self.dir.display());
        }
    }
}

/// A directory of its own, and a mount point in it.
fn home() -> Result<(TempDir, PathBuf), String> {
    let home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let dir = home.path().join("mount");
    std::fs::create_dir(&dir).map_err(|error| error.to_string())?;
    Ok((home, dir))
}

/// Runs a command to its end; an error says what it said.
pub fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    // The tools for file systems are in sbin, which is not on everybody's path.
    let path = std::env::var("PATH").unwrap_or_default();
    let output = command.env("PATH", format!("{path}:/usr/sbin:/sbin")).env("LC_ALL", "C").output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = said.first().copied().unwrap_or("no message");
    Err(if said.starts_with(&name) { said.to_owned() } else { format!("{name}: {said}") })
}
