//! What a measurement was made on: nothing that tells whose machine it is.

use crate::pool::device_number;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Facts that do not change. What cannot be read is `None`.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) kernel: Option<String>,
    pub(crate) cpus: usize,
    pub(crate) mount: Option<Mount>,
    pub(crate) device: Device,
}

/// How a file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) kind: String,
    /// Those that say something about syncs; others may hold paths.
    pub(crate) options: Vec<String>,
    /// Not told to anybody.
    source: String,
}

/// The block device below, as far as the kernel tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) logical_block: Option<u64>,
    pub(crate) physical_block: Option<u64>,
    pub(crate) write_cache: Option<String>,
    pub(crate) fua: Option<bool>,
    pub(crate) rotational: Option<bool>,
}

impl Machine {
    /// Of the file system that holds `dir`.
    pub(crate) fn look(dir: &Path) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mount = mount_id(dir).and_then(|id| find_mount(&mounts, id));
        let own = fs::metadata(dir).ok().map(|found| found.dev());
        // btrfs has device numbers of its own; then what was mounted tells the disk.
        let source = mount.as_ref().and_then(|mount| {
            let is_device = mount.source.starts_with("/dev/");
            is_device.then(|| fs::metadata(&mount.source).ok()).flatten()
        });
        let numbers = [own, source.map(|found| found.rdev())];
        Self {
            kernel: text("/proc/sys/kernel/osrelease".as_ref()),
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            device: numbers.into_iter().flatten().find_map(device).unwrap_or_default(),
            mount,
        }
    }
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// The number by which `mountinfo` has it, from Linux 5.8 on. By device it could be another mount's.
fn mount_id(dir: &Path) -> Option<u64> {
    let found = statx(CWD, dir, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    StatxFlags::from_bits_retain(found.stx_mask)
        .contains(StatxFlags::MNT_ID)
        .then_some(found.stx_mnt_id)
}

/// The line of `mountinfo` with this number, read: `36 35 98:0 / /mnt rw,noatime shared:1 - ext4 /dev/sda rw,commit=5`.
fn find_mount(mounts: &str, id: u64) -> Option<Mount> {
    let id = id.to_string();
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(&id))?;
    let (first, second) = line.split_once(" - ")?;
    let own = first.split(' ').nth(5)?;
    let mut second = second.split(' ');
    let (kind, source) = (second.next()?, second.next()?);
    let all = own.split(',').chain(second.next().unwrap_or_default().split(','));
    let mut options: Vec<String> = Vec::new();
    for option in all.filter(|option| is_of_syncs(option)) {
        if !options.iter().any(|known| known == option) {
            options.push(option.to_owned());
        }
    }
    Some(Mount { kind: kind.to_owned(), options, source: source.to_owned() })
}

fn is_of_syncs(option: &str) -> bool {
    const WHOLE: [&str; 9] = [
        "sync",
        "dirsync",
        "barrier",
        "nobarrier",
        "discard",
        "noatime",
        "relatime",
        "nodatacow",
        "journal_async_commit",
    ];
    const BEGIN: [&str; 5] = ["barrier=", "data=", "commit=", "compress", "discard="];
    WHOLE.contains(&option) || BEGIN.iter().any(|begin| option.starts_with(begin))
}

/// Of a block device or the disk that it is a part of.
fn device(number: u64) -> Option<Device> {
    let own = format!("/sys/dev/block/{}", device_number(number));
    let queue = ["queue", "../queue"].map(|queue| Path::new(&own).join(queue));
    let queue = queue.iter().find(|queue| queue.is_dir())?;
    let text = |name: &str| text(&queue.join(name));
    let number = |name: &str| text(name)?.parse().ok();
    let flag = |name: &str| number(name).map(|number: u64| number != 0);
    Some(Device {
        logical_block: number("logical_block_size"),
        physical_block: number("physical_block_size"),
        write_cache: text("write_cache"),
        fua: flag("fua"),
        rotational: flag("rotational"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
21 1 254:0 / / rw,noatime - ext4 /dev/vda rw,data=ordered,stripe=16,discard
216 21 0:44 /secret /home/somebody rw,relatime shared:7 master:1 - overlay overlay rw,lowerdir=/a/b,nobarrier
";

    #[test]
    fn a_mount_is_found_by_its_number_and_no_path_of_it_is_told() {
        let mount = find_mount(MOUNTS, 21).unwrap();
        assert_eq!((&*mount.kind, &*mount.source), ("ext4", "/dev/vda"));
        assert_eq!(mount.options, ["noatime", "data=ordered", "discard"]);
        let mount = find_mount(MOUNTS, 216).unwrap();
        assert_eq!((&*mount.kind, &*mount.source), ("overlay", "overlay"));
        assert_eq!(mount.options, ["relatime", "nobarrier"]);
        assert_eq!(find_mount(MOUNTS, 2), None);
    }
}
