#![allow(clippy::disallowed_methods, reason = "tests: a second opinion asks for this process")]
//! Recorded trees of `/proc` and the control groups, and what follows from them.

use super::*;
use crate::clock::{Clock as _, ManualClock};
use crate::fs::FileSystem;
use crate::fs::sim::{Fault as SimFault, OpKind, SimFileSystem, What};
use crate::limits::{Limits, Size};
use crate::planted::{self, Fault};
use crate::pressure::{Gauge, STALE};
use crate::types::Level;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: Duration = Duration::from_secs(1);

/// A tree in memory, and what is read from it below `/root`.
struct Tree {
    fs: SimFileSystem,
}

/// The kernel's memory: 40 MiB reclaimable of 160 MiB on the whole machine, so three quarters are not.
const MEMINFO: &str = "MemTotal:       16777216 kB\nMemFree:  100 kB\nSlab: 122880 kB\nSReclaimable:      40960 kB\n\
                       SUnreclaim:        81920 kB\nKernelStack:       20480 kB\nPageTables:       20480 kB\n";
const STATUS: &str = "Name:\tplimsoll\nVmRSS:\t 9999999 kB\nRssAnon:\t  102400 kB\nRssFile:\t 9000000 kB\n\
                      RssShmem:\t    2048 kB\n";
const V2_MOUNT: &str =
    "22 27 0:21 / /proc rw - proc proc rw\n30 27 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
const V1_MOUNT: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                        36 31 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
const UNLIMITED: &str = "9223372036854771712\n";

impl Tree {
    fn new(cgroup: &str, mountinfo: &str) -> Self {
        let tree = Self { fs: SimFileSystem::new(1) };
        tree.put("proc/meminfo", MEMINFO);
        tree.put("proc/self/status", STATUS);
        tree.put("proc/self/cgroup", cgroup);
        tree.put("proc/self/mountinfo", mountinfo);
        tree
    }

    fn v2(cgroup: &str) -> Self {
        Self::new(&format!("0::{cgroup}\n"), V2_MOUNT)
    }

    fn v1(cgroup: &str) -> Self {
        Self::new(&format!("4:memory:{cgroup}\n3:cpu,cpuacct:/\n0::/\n"), V1_MOUNT)
    }

    fn put(&self, path: &str, text: &str) {
        let path = Path::new("/root").join(path);
        self.fs.prepare_dir(path.parent().unwrap()).unwrap();
        let _ = self.fs.remove_file(&path);
        self.fs.create(&path).unwrap().write_at(0, text.as_bytes()).unwrap();
    }

    fn group(&self, dir: &str, files: &[(&str, &str)]) {
        for (name, text) in files {
            self.put(&format!("sys/fs/cgroup/{dir}/{name}"), text);
        }
    }

    fn source(&self) -> SystemMemory {
        SystemMemory::new(Path::new("/root"), Arc::new(self.fs.clone()))
    }

    fn read(&self) -> MemorySample {
        self.source().read().unwrap()
    }

    /// Used, limit, and where it comes from.
    fn nearest(&self) -> Option<(u64, u64, String)> {
        self.read().group.map(|group| (group.used, group.limit, group.file))
    }

    /// The reading after a first sample.
    fn reading(&self, limits: &Limits) -> MemoryReading {
        let clock = Arc::new(ManualClock::new(0));
        let monitor = MemoryMonitor::new(Arc::new(self.source()), clock, limits);
        monitor.sample();
        monitor.reading(Duration::ZERO)
    }
}

/// `memory.stat` of v2 with so much anonymous memory, and much else that does not count.
fn stat_v2(anon: u64) -> String {
    format!(
        "anon {anon}\nfile {}\nkernel {}\nkernel_stack 99\npagetables 99\nsock {}\nshmem {}\nslab_reclaimable {}\n\
         slab_unreclaimable 99\nslab 99\ninactive_anon {anon}\nactive_anon 0\ninactive_file {}\nactive_file 7\n",
        200 * MIB,
        30 * MIB,
        2 * MIB,
        3 * MIB,
        25 * MIB,
        190 * MIB
    )
}

/// What of that counts beside anonymous memory.
const BESIDE: u64 = (30 - 25 + 2 + 3) * MIB;

fn stat_v1(total_rss: u64, total_shmem: u64, hierarchical: &str) -> String {
    format!(
        "cache {0}\nrss 1\nshmem 1\ninactive_file {0}\nhierarchical_memory_limit {hierarchical}\ntotal_cache {0}\n\
         total_rss {total_rss}\ntotal_shmem {total_shmem}\ntotal_mapped_file {0}\n",
        150 * MIB
    )
}

#[test]
fn v2_the_lower_of_high_and_max_counts() {
    let tree = Tree::v2("/a");
    let stat = stat_v2(50 * MIB);
    tree.group(
        "a",
        &[("memory.max", "268435456\n"), ("memory.high", "max\n"), ("memory.stat", &stat)],
    );
    let max = "/sys/fs/cgroup/a/memory.max".to_owned();
    assert_eq!(tree.nearest(), Some((50 * MIB + BESIDE, 256 * MIB, max)));
    tree.group("a", &[("memory.high", "134217728\n")]);
    let high = "/sys/fs/cgroup/a/memory.high".to_owned();
    assert_eq!(tree.nearest(), Some((50 * MIB + BESIDE, 128 * MIB, high)));
    assert_eq!(tree.read().warning, None);
}

#[test]
fn v2_of_nested_groups_the_one_nearest_to_its_limit_counts() {
    let tree = Tree::v2("/a/b/c");
    tree.group("a/b/c", &[("memory.max", "1073741824"), ("memory.stat", &stat_v2(100 * MIB))]);
    tree.group("a/b", &[("memory.max", "max"), ("memory.stat", &stat_v2(8000 * MIB))]);
    // The parent has other children, and is nearly full.
    tree.group("a", &[("memory.max", "2147483648"), ("memory.stat", &stat_v2(1900 * MIB))]);
    let parent = "/sys/fs/cgroup/a/memory.max".to_owned();
    assert_eq!(tree.nearest(), Some((1900 * MIB + BESIDE, 2 * GIB, parent)));
    assert_eq!(tree.reading(&Limits::default()).level, Level::Hard);
    tree.group("a", &[("memory.stat", &stat_v2(150 * MIB))]);
    assert_eq!(tree.nearest().unwrap().1, GIB);
    assert_eq!(tree.reading(&Limits::default()).level, Level::Ok);
}

#[test]
fn v2_before_there_was_a_sum_of_kernel_memory() {
    let tree = Tree::v2("/a");
    let stat = "anon 1000\nshmem 10\nkernel_stack 1\npagetables 2\npercpu 3\nslab_reclaimable 500\nslab_unreclaimable 4\nsock 5\n";
    tree.group("a", &[("memory.max", "100000"), ("memory.stat", stat)]);
    assert_eq!(tree.nearest().unwrap().0, 1025);
}

#[test]
fn v1_counts_rss_shared_and_the_fixed_part_of_kernel_memory() {
    let tree = Tree::v1("/a");
    let stat = stat_v1(60 * MIB, 4 * MIB, "268435456");
    tree.group(
        "memory/a",
        &[
            ("memory.limit_in_bytes", "268435456\n"),
            ("memory.stat", &stat),
            ("memory.kmem.usage_in_bytes", "16777216\n"),
        ],
    );
    let file = "/sys/fs/cgroup/memory/a/memory.limit_in_bytes".to_owned();
    assert_eq!(tree.nearest(), Some(((60 + 4 + 12) * MIB, 256 * MIB, file)));
}

#[test]
fn v1_a_limit_above_counts_whether_its_group_is_seen_or_not() {
    let tree = Tree::v1("/a/b");
    let stat = |rss| stat_v1(rss, 0, "536870912");
    tree.group(
        "memory/a/b",
        &[("memory.limit_in_bytes", UNLIMITED), ("memory.stat", &stat(100 * MIB))],
    );
    // Not seen: what its own group says of those above.
    let hidden = "/sys/fs/cgroup/memory/a/b/memory.stat".to_owned();
    assert_eq!(tree.nearest(), Some((100 * MIB, 512 * MIB, hidden)));
    tree.group(
        "memory/a",
        &[("memory.limit_in_bytes", "536870912"), ("memory.stat", &stat(300 * MIB))],
    );
    let parent = "/sys/fs/cgroup/memory/a/memory.limit_in_bytes".to_owned();
    assert_eq!(tree.nearest(), Some((300 * MIB, 512 * MIB, parent)));
}

#[test]
fn hybrid_the_controller_is_found_in_the_one_that_has_it() {
    let mounts = format!("{V1_MOUNT}41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    let tree = Tree::new("4:memory:/m\n1:name=systemd:/s\n0::/u\n", &mounts);
    tree.group("unified/u", &[("cgroup.procs", "1")]);
    tree.group(
        "memory/m",
        &[("memory.limit_in_bytes", "1048576"), ("memory.stat", &stat_v1(1000, 0, UNLIMITED))],
    );
    assert_eq!(tree.nearest().map(|found| (found.0, found.1)), Some((1000, MIB)));
    // And the other way about.
    let tree = Tree::new("1:name=systemd:/s\n0::/u\n", &mounts);
    tree.group("unified/u", &[("memory.max", "1048576"), ("memory.stat", "anon 2000\n")]);
    assert_eq!(tree.nearest().map(|found| (found.0, found.1)), Some((2000, MIB)));
}

#[test]
fn without_any_limit_the_process_is_held_to_sixty_percent_of_the_machine() {
    for tree in [Tree::v2("/a"), Tree::v1("/a"), Tree::new("", "")] {
        tree.group("a", &[("memory.max", "max\n"), ("memory.high", "max\n")]);
        tree.group(
            "memory/a",
            &[
                ("memory.limit_in_bytes", UNLIMITED),
                ("memory.stat", &stat_v1(GIB, 0, UNLIMITED.trim())),
            ],
        );
        let sample = tree.read();
        assert_eq!((sample.group, sample.process, sample.physical), (None, 102 * MIB, 16 * GIB));
        let reading = tree.reading(&Limits::default());
        let limit = 16 * GIB / 10 * 6;
        assert!(reading.limit.abs_diff(limit) < 10, "{}", reading.limit);
        assert_eq!((reading.used, reading.limit_from), (102 * MIB, LimitFrom::Physical));
    }
    // Nothing of the kind at all.
    let tree = Tree::new("", "");
    for name in ["cgroup", "mountinfo"] {
        tree.fs.remove_file(&Path::new("/root/proc/self").join(name)).unwrap();
    }
    assert_eq!((tree.read().group, tree.read().warning), (None, None));
}

#[test]
fn a_configured_limit_adds_to_the_groups_and_cannot_lift_theirs() {
    let tree = Tree::v2("/a");
    tree.group("a", &[("memory.max", "268435456"), ("memory.stat", &stat_v2(100 * MIB))]);
    let with = |limit| {
        let mut limits = Limits::default();
        limits.memory.limit = Some(Size(limit));
        tree.reading(&limits)
    };
    // The process has 102 MiB, its group 110 of 256.
    assert_eq!(with(128 * MIB).limit_from, LimitFrom::Configured);
    assert_eq!(with(GIB).limit, 256 * MIB);
    // Without a group: in the place of 60% of the machine, and no more than the machine has.
    let tree = Tree::new("", "");
    let mut limits = Limits::default();
    limits.memory.limit = Some(Size(100 * GIB));
    assert_eq!(tree.reading(&limits).limit, 16 * GIB);
}

#[test]
fn case_E1_no_huge_or_senseless_number_passes_for_a_limit() {
    let senseless = ["", "garbage\n", "0", "-5", "18446744073709551616", "1e9"];
    let no_limit = [UNLIMITED, "max\n", "214748364800", "9223372036854710272", "-1", "17179869184"];
    for (values, warns) in [(&senseless[..], true), (&no_limit[..], false)] {
        for text in values {
            let v1 = Tree::v1("/a");
            v1.group(
                "memory/a",
                &[
                    ("memory.limit_in_bytes", text),
                    ("memory.stat", &stat_v1(GIB, 0, UNLIMITED.trim())),
                ],
            );
            let v2 = Tree::v2("/a");
            v2.group("a", &[("memory.max", text), ("memory.stat", &stat_v2(GIB))]);
            for tree in [v1, v2] {
                let sample = tree.read();
                assert_eq!(sample.group, None, "{text:?}");
                assert_eq!(sample.warning.is_some(), warns, "{text:?}: {:?}", sample.warning);
                let reading = tree.reading(&Limits::default());
                assert!(reading.limit <= 16 * GIB && reading.level == Level::Ok, "{text:?}");
            }
        }
    }
    // And one that is just below the machine's memory is one.
    let tree = Tree::v1("/a");
    tree.group(
        "memory/a",
        &[
            ("memory.limit_in_bytes", "17179869183"),
            ("memory.stat", &stat_v1(GIB, 0, UNLIMITED.trim())),
        ],
    );
    assert_eq!(tree.nearest().map(|found| found.1), Some(16 * GIB - 1));
}

#[test]
fn case_E2_no_page_counts_twice() {
    let tree = Tree::v2("/a");
    tree.group(
        "a",
        &[
            ("memory.max", "7864320000"),
            ("memory.current", "2481475584"),
            (
                "memory.stat",
                "anon 2472849408\ninactive_anon 2472730624\nfile 57344\ninactive_file 4096\n",
            ),
        ],
    );
    let reading = tree.reading(&Limits::default());
    assert_eq!(
        (reading.used, reading.limit, reading.level),
        (2_472_849_408, 7_864_320_000, Level::Ok)
    );
}

#[test]
fn case_E4_the_page_cache_is_not_used_memory_and_anonymous_growth_is() {
    let check = || {
        let (v2, v1) = (Tree::v2("/a"), Tree::v1("/a"));
        v2.group(
            "a",
            &[
                ("memory.max", "268435456"),
                ("memory.current", "262144000"),
                ("memory.stat", &stat_v2(30 * MIB)),
            ],
        );
        v1.group(
            "memory/a",
            &[
                ("memory.limit_in_bytes", "268435456"),
                ("memory.usage_in_bytes", "262144000"),
                ("memory.stat", &stat_v1(100 * MIB, 0, "268435456")),
            ],
        );
        [v2, v1].map(|tree| tree.reading(&Limits::default()).level)
    };
    assert_eq!(check(), [Level::Ok; 2]);
    let planted = planted::with(Fault::MemoryCountsPageCache, check);
    assert!(planted.iter().all(|level| *level > Level::Ok), "the fault must show: {planted:?}");
    let tree = Tree::v2("/a");
    tree.group("a", &[("memory.max", "268435456"), ("memory.stat", &stat_v2(240 * MIB))]);
    assert_eq!(tree.reading(&Limits::default()).level, Level::Hard);
}

#[test]
fn case_E5_the_limit_of_a_small_container_is_the_one_that_counts() {
    let tree = Tree::new("0::/\n", V2_MOUNT);
    tree.group("", &[("memory.max", "134217728\n"), ("memory.stat", &stat_v2(20 * MIB))]);
    let reading = tree.reading(&Limits::default());
    assert_eq!(reading.limit, 128 * MIB);
    assert_eq!(reading.limit_from, LimitFrom::Group("/sys/fs/cgroup/memory.max".into()));
}

#[test]
fn what_cannot_be_read_is_said_and_does_not_end_the_sample() {
    let tree = Tree::v2("/a");
    tree.group("a", &[("memory.max", "268435456"), ("memory.stat", &stat_v2(MIB))]);
    tree.fs.inject(
        SimFault::nth(OpKind::Open, 0, What::Errno(libc::EACCES)).on("memory.stat").forever(),
    );
    let sample = tree.read();
    assert_eq!(sample.group.map(|group| group.used), Some(102 * MIB), "the process's own");
    assert!(sample.warning.unwrap().contains("memory.stat"));
    // Without its own memory nothing can be said.
    tree.fs.inject(SimFault::nth(OpKind::Read, 0, What::Errno(libc::EIO)).on("status").forever());
    assert_eq!(tree.source().read().unwrap_err().raw_os_error(), Some(libc::EIO));
    let tree = Tree::v2("/a");
    tree.put("proc/self/status", "Name:\tx\n");
    assert!(tree.source().read().is_err());
}

/// A source that says what it is told to say.
#[derive(Debug, Default)]
struct Told(Mutex<Option<MemorySample>>);

impl MemorySource for Told {
    fn read(&self) -> io::Result<MemorySample> {
        let told = self.0.lock().unwrap().clone();
        told.ok_or_else(|| io::Error::from_raw_os_error(libc::EIO))
    }
}

struct Bench {
    told: Arc<Told>,
    clock: Arc<ManualClock>,
    monitor: MemoryMonitor,
}

fn bench() -> Bench {
    let (told, clock) = (Arc::new(Told::default()), Arc::new(ManualClock::new(1_000)));
    let monitor = MemoryMonitor::new(told.clone(), clock.clone(), &Limits::default());
    Bench { told, clock, monitor }
}

impl Bench {
    /// A second later, with so much of 1000 used; none fails.
    fn sample(&self, used: Option<u64>) -> Level {
        self.clock.advance(SECOND);
        *self.told.0.lock().unwrap() = used.map(|used| MemorySample {
            group: Some(GroupMemory { used, limit: 1000, file: "memory.max".into() }),
            process: used,
            physical: 10_000,
            warning: None,
        });
        self.monitor.sample()
    }

    fn gauge(&self) -> Gauge {
        self.monitor.gauge(self.clock.elapsed())
    }

    fn reason(&self) -> MemoryReason {
        self.monitor.reading(self.clock.elapsed()).reason
    }
}

#[test]
fn a_level_of_memory_begins_at_once_and_ends_after_ten_seconds() {
    let bench = bench();
    assert_eq!(bench.gauge().level, Level::Soft, "nothing is known yet");
    assert_eq!(bench.reason(), MemoryReason::NoSample);
    assert_eq!(bench.sample(Some(700)), Level::Ok);
    assert_eq!(bench.sample(Some(850)), Level::Soft);
    assert_eq!(bench.gauge().permille, 500);
    assert_eq!(bench.sample(Some(900)), Level::Hard);
    for _ in 0..10 {
        assert_eq!(bench.sample(Some(300)), Level::Hard);
    }
    assert_eq!(bench.sample(Some(300)), Level::Ok);
    assert_eq!(bench.reason(), MemoryReason::Enough);
}

#[test]
fn buffers_that_grow_between_samples_count_at_once() {
    let bench = bench();
    bench.monitor.set_buffers(100);
    assert_eq!(bench.sample(Some(700)), Level::Ok);
    bench.monitor.set_buffers(199);
    assert_eq!(bench.gauge().level, Level::Ok);
    bench.monitor.set_buffers(250);
    assert_eq!(bench.gauge(), Gauge { level: Level::Soft, permille: 500 });
    bench.monitor.set_buffers(300);
    assert_eq!(bench.gauge().level, Level::Hard);
    let reading = bench.monitor.reading(bench.clock.elapsed());
    assert_eq!(
        (reading.used, reading.level, reading.reason),
        (900, Level::Hard, MemoryReason::Used)
    );
    // Seen in the next sample, and counted once.
    assert_eq!(bench.sample(Some(790)), Level::Ok);
    bench.monitor.set_buffers(0);
    assert_eq!(
        bench.monitor.reading(bench.clock.elapsed()).used,
        790,
        "given back is seen by samples only"
    );
}

#[test]
fn failed_and_old_samples_of_memory_count_as_soft_at_least() {
    let bench = bench();
    bench.sample(Some(100));
    assert_eq!(bench.sample(None), Level::Soft);
    assert!(matches!(bench.reason(), MemoryReason::SampleFailed { errno: Some(libc::EIO), .. }));
    assert_eq!(bench.sample(Some(100)), Level::Ok);
    bench.clock.advance(STALE + SECOND);
    assert_eq!(bench.gauge(), Gauge { level: Level::Soft, permille: 1000 });
    assert_eq!(bench.reason(), MemoryReason::SampleOld);
    assert_eq!(bench.sample(Some(950)), Level::Hard);
    assert_eq!(bench.sample(None), Level::Hard);
}

#[test]
fn limits_changed_live_count_at_once_and_the_start_up_field_does_not() {
    let bench = bench();
    bench.sample(Some(700));
    let mut limits = Limits::default();
    limits.memory.soft = "70%".parse().unwrap();
    limits.memory.limit = Some(Size(1));
    bench.monitor.set_limits(&limits);
    let reading = bench.monitor.reading(bench.clock.elapsed());
    assert_eq!((reading.level, reading.limit), (Level::Soft, 1000));
    assert_eq!(bench.sample(Some(700)), Level::Soft);
    assert_eq!(bench.monitor.reading(bench.clock.elapsed()).limit, 1000);
}

/// What this machine says must agree with what somebody else reads from it.
#[test]
fn this_machine_agrees_with_a_second_opinion() {
    use sysinfo::{MemoryRefreshKind, Pid, ProcessRefreshKind, ProcessesToUpdate, System};
    let source = SystemMemory::new(Path::new("/"), Arc::new(crate::fs::OsFileSystem));
    let sample = source.read().unwrap();
    println!("{sample:#?}");
    let mut system = System::new().unwrap();
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    assert_eq!(sample.physical, system.total_memory());
    let me = Pid::from_u32(std::process::id());
    let kind = ProcessRefreshKind::nothing().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[me]), true, kind);
    let resident = system.process(me).unwrap().memory();
    // Anonymous and shared memory are a part of what is resident, which other tests make larger and smaller meanwhile.
    assert!(sample.process > 0 && sample.process < resident + 512 * MIB, "{sample:?} {resident}");
    assert!(sample.group.is_none_or(|group| group.limit < sample.physical));
}
