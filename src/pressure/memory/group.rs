//! Where the memory controller's files of this process's control groups are.

use super::text::{Mount, mounts};
use std::path::{Component, Path, PathBuf};

/// Which of the two interfaces a group's files have. Both may be mounted, and then the memory controller is in one of
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

/// A group's directory, absolute.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) version: Version,
    pub(super) dir: PathBuf,
    /// The process is in it, and not in one below.
    pub(super) own: bool,
}

/// The groups of the process, from its own up to the topmost that can be seen from here; `cgroup` and `mountinfo` are the
/// texts of `/proc/self/cgroup` and `/proc/self/mountinfo`.
pub(super) fn groups(cgroup: &str, mountinfo: &str) -> Vec<Group> {
    let mounts = mounts(mountinfo);
    let mut found = Vec::new();
    for line in cgroup.lines() {
        // number:controllers:path; the path may have colons.
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let version = if number == "0" && controllers.is_empty() {
            Version::V2
        } else if controllers.split(',').any(|name| name == "memory") {
            Version::V1
        } else {
            continue;
        };
        if let Some(mount) = mount_of(version, Path::new(path), &mounts) {
            let own = own_dir(mount, Path::new(path));
            let up = own.ancestors().take_while(|dir| dir.starts_with(&mount.point));
            found.extend(up.map(|dir| Group { version, dir: dir.to_path_buf(), own: dir == own }));
        }
    }
    found
}

/// The mount that shows most of the way to `path`; of several the last, which hides those before it.
fn mount_of<'a>(version: Version, path: &Path, mounts: &'a [Mount]) -> Option<&'a Mount> {
    let has_memory = |mount: &&Mount| match version {
        Version::V2 => mount.kind == "cgroup2",
        Version::V1 => {
            mount.kind == "cgroup" && mount.options.split(',').any(|option| option == "memory")
        }
    };
    mounts.iter().filter(has_memory).max_by_key(|mount| {
        let shows = path.starts_with(&mount.root);
        // The one mounted higher up shows more of the groups above.
        (shows, std::cmp::Reverse(mount.root.components().count()))
    })
}

/// The group's directory below the mount point. In a container that sees a mount of its own group only, or from outside
/// its namespace, that is the mount point itself.
fn own_dir(mount: &Mount, path: &Path) -> PathBuf {
    let below = path.strip_prefix(&mount.root).ok();
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let parts = below.filter(|below| below.components().all(plain)).into_iter().flatten();
    parts.fold(mount.point.clone(), |dir, part| dir.join(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    fn dirs(cgroup: &str, mountinfo: &str) -> Vec<String> {
        let groups = groups(cgroup, mountinfo);
        groups.iter().map(|group| format!("{:?} {}", group.version, group.dir.display())).collect()
    }

    #[test]
    fn all_groups_up_to_the_mount() {
        assert_eq!(
            dirs("0::/a.slice/b:c.service\n", V2),
            [
                "V2 /sys/fs/cgroup/a.slice/b:c.service",
                "V2 /sys/fs/cgroup/a.slice",
                "V2 /sys/fs/cgroup"
            ]
        );
        assert_eq!(dirs("0::/\n", V2), ["V2 /sys/fs/cgroup"]);
    }

    #[test]
    fn a_hybrid_has_memory_in_one_of_both() {
        let mountinfo = "31 1 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                         32 1 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                         33 1 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let cgroup = "5:cpu,cpuacct:/x\n4:memory:/a\n1:name=systemd:/y\n0::/b\n";
        assert_eq!(
            dirs(cgroup, mountinfo),
            [
                "V1 /sys/fs/cgroup/memory/a",
                "V1 /sys/fs/cgroup/memory",
                "V2 /sys/fs/cgroup/unified/b",
                "V2 /sys/fs/cgroup/unified"
            ]
        );
    }

    #[test]
    fn a_container_that_sees_its_own_group_as_the_root() {
        // Its own namespace.
        assert_eq!(dirs("0::/\n", V2), ["V2 /sys/fs/cgroup"]);
        // The host's namespace, and only its group mounted.
        let bound = "30 1 0:26 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        assert_eq!(dirs("4:memory:/docker/abc\n", bound), ["V1 /sys/fs/cgroup/memory"]);
        assert_eq!(
            dirs("4:memory:/docker/abc/in\n", bound),
            ["V1 /sys/fs/cgroup/memory/in", "V1 /sys/fs/cgroup/memory"]
        );
        // Another group than the one that is mounted, or outside the namespace.
        assert_eq!(dirs("4:memory:/other\n", bound), ["V1 /sys/fs/cgroup/memory"]);
        assert_eq!(dirs("0::/../../x\n", V2), ["V2 /sys/fs/cgroup"]);
        // Both mounts: the one that shows the groups above.
        let both = format!("{}31 1 0:26 /a /mnt/a rw - cgroup2 cgroup2 rw\n", V2);
        assert_eq!(dirs("0::/a\n", &both), ["V2 /sys/fs/cgroup/a", "V2 /sys/fs/cgroup"]);
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        assert_eq!(dirs("", V2), Vec::<String>::new());
        assert_eq!(dirs("0::/a\n", ""), Vec::<String>::new());
        assert_eq!(dirs("rubbish\n0:\n:::\n", V2), Vec::<String>::new());
    }
}
