//! Control groups that limit memory, with a child in them: what the kernel can take back must not count, what it cannot
//! must, before it kills.

use crate::child::{Other, say};
use crate::place::{MIB, open, options, refusal};
use crate::skip::skip;
use faultlab::group::Group;
use plimsoll::{Level, LimitReason, NewRecord, Node, NodeOptions, Offset, WriteClass};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Whether the tests run at their full size.
fn full() -> bool {
    std::env::var_os("PLIMSOLL_FULL").is_some_and(|value| value != "0")
}

/// On a disk: what is on a tmpfs is memory that cannot be taken back.
fn on_disk() -> Result<tempfile::TempDir, String> {
    let dir =
        tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(|error| error.to_string())?;
    let kind = nix::sys::statfs::statfs(dir.path()).map_err(|error| error.to_string())?;
    if kind.filesystem_type() == nix::sys::statfs::TMPFS_MAGIC {
        return Err("the target directory is in memory".to_owned());
    }
    Ok(dir)
}

/// A directory and a group, or none after saying that the test was skipped.
fn apart(name: &str, group: &str, bytes: u64) -> Option<(tempfile::TempDir, Group)> {
    let made = on_disk().and_then(|dir| Ok((dir, Group::new(group, bytes)?)));
    made.inspect_err(|reason| skip(name, reason)).ok()
}

/// Whatever is free on the disk here, it is not what these tests are about.
fn for_memory() -> NodeOptions {
    let mut options = options();
    let disk = &mut options.limits.disk;
    for (line, share) in
        [(&mut disk.soft, "0.3%"), (&mut disk.hard, "0.2%"), (&mut disk.reserve, "0.1%")]
    {
        line.share = share.parse().unwrap();
        line.floor = "0B".parse().unwrap();
    }
    options
}

/// The child: writes so many MiB and reads them, and keeps what the disk may hold of it.
pub(crate) fn traffic(dir: &Path, mib: u64) {
    let mut options = for_memory();
    // The page cache is what this is about.
    options.direct_writes = false;
    let node = Node::open(dir, options).unwrap();
    assert_eq!(node.pressure().memory.limit, 256 * MIB, "{}", node.pressure().memory);
    let log = open(&node, "traffic");
    let bytes = vec![0x3c; 250_000];
    let batch = [NewRecord::new(&bytes); 4];
    let mut reader = log.read_from(Offset(0)).unwrap();
    let (mut read, mut most) = (0, 0);
    for _ in 0..mib {
        log.publish(WriteClass::Publish, &batch).unwrap();
        while let Some(record) = reader.next().unwrap() {
            read += record.payload.len() as u64;
        }
        most = most.max(node.pressure().memory.used);
        // Twice what the group allows stays there.
        let segments = log.segments();
        if segments.len() > 12 {
            log.truncate_before(segments[segments.len() - 9].base).unwrap();
        }
    }
    assert_eq!(read, mib * 1_000_000);
    let stats = node.stats().admission.classes[WriteClass::Publish as usize];
    let memory = LimitReason::Memory as usize;
    say(&format!("stopped {}", stats.refused[memory] + stats.delayed[memory]));
    say(&format!("level {}", node.pressure().memory.level));
    say(&format!("used {most}"));
    drop(reader);
    node.close().unwrap();
    say("well");
}

/// A log engine fills the page cache of its group by working: that is not memory in use, and stops nobody.
#[test]
fn case_E4_log_traffic_of_many_times_the_group_is_no_pressure() {
    let name = "case_E4_log_traffic_of_many_times_the_group_is_no_pressure";
    let Some((dir, group)) = apart(name, "traffic", 256 * MIB) else { return };
    let mib = if full() { 2_048 } else { 512 };
    let mut child = Other::start("traffic", &dir.path().join("data"), Some(group.dir()), mib);
    assert_eq!(child.number("stopped"), 0);
    assert_eq!(child.hear("level").unwrap(), "ok");
    let used = child.number("used");
    assert!(child.hear("well").is_some() && child.end());
    let peak = group.peak();
    println!(
        "{}: {mib} MiB through a group of 256 MiB: {} MiB in use at most, {:?} MiB with the page cache",
        group.version(),
        used / MIB,
        peak.map(|peak| peak / MIB)
    );
    // Else the test tested nothing.
    assert!(peak.is_none_or(|peak| peak > 240 * MIB), "the page cache never filled: {peak:?}");
    assert_eq!(group.killed(), 0);
}

/// The child: grows by 10 MiB a second from `mib` on and publishes all along, until that is refused.
pub(crate) fn grow(dir: &Path, mib: u64) {
    const A_SECOND: f64 = 10.0;
    let node = Node::open(dir, for_memory()).unwrap();
    let log = open(&node, "log");
    // Touched, page by page, or it would not be there.
    let piece = |at: u64| vec![u8::try_from(at % 255 + 1).unwrap(); 1 << 20];
    let mut held: Vec<Vec<u8>> = (0..mib).map(piece).collect();
    let begun = Instant::now();
    let (mut published, mut slowed) = (0_u64, 0_u64);
    loop {
        let due = mib as f64 + begun.elapsed().as_secs_f64() * A_SECOND;
        while (held.len() as f64) < due {
            held.push(piece(held.len() as u64));
        }
        slowed += u64::from(node.pressure().memory.level == Level::Soft);
        match log.publish(WriteClass::Publish, &[NewRecord::new(&[7; 1_000])]) {
            Ok(_) => published += 1,
            Err(error) => {
                let limited = refusal(error);
                assert_eq!((limited.reason, limited.level), (LimitReason::Memory, Level::Hard));
                say(&format!("held {}", held.len()));
                say(&format!("published {published}"));
                say(&format!("slowed {slowed}"));
                say(&format!("used {}", node.pressure().memory.used / MIB));
                break;
            }
        }
    }
    // What frees space goes on.
    log.publish(WriteClass::Acknowledge, &[NewRecord::new(b"done")]).unwrap();
    std::hint::black_box(&held);
    node.close().unwrap();
    say("well");
}

/// Memory that cannot be taken back refuses publishes, and does so before the kernel kills the process.
#[test]
fn case_E4_growth_of_10_mib_a_second_is_refused_before_the_kernel_kills() {
    let name = "case_E4_growth_of_10_mib_a_second_is_refused_before_the_kernel_kills";
    let rounds = if full() { 20 } else { 2 };
    let mut seen = Vec::new();
    for round in 0..rounds {
        let Some((dir, group)) = apart(name, "growth", 256 * MIB) else { return };
        // It begins at another distance from the line each time, as samples come once a second: all of it below soft.
        let from = 170 + round * 7 % 20;
        let mut child = Other::start("grow", &dir.path().join("data"), Some(group.dir()), from);
        let Some(held) = child.hear("held") else {
            panic!("round {round}: the child ended, {} killed for memory", group.killed());
        };
        let (published, slowed, used) =
            (child.number("published"), child.number("slowed"), child.number("used"));
        assert!(child.hear("well").is_some() && child.end(), "round {round}");
        assert_eq!(group.killed(), 0, "round {round}");
        assert!(
            published > 0 && slowed > 0,
            "round {round}: {published} published, {slowed} at soft"
        );
        seen.push((from, held.parse::<u64>().unwrap(), used));
    }
    let most = seen.iter().map(|(_, _, used)| *used).max();
    println!(
        "{rounds} of {rounds} refused before the end at 256 MiB, at {most:?} MiB at most: (from, held, used) {seen:?}"
    );
}

/// The child: fills fifty queues, and is killed.
pub(crate) fn make_backlog(dir: &Path, mib: u64) {
    let node = Node::open(dir, for_memory()).unwrap();
    let logs: Vec<_> = (0..50).map(|number| open(&node, &format!("queue-{number}"))).collect();
    let bytes = vec![0x7e; 10_000];
    let batch = [NewRecord::new(&bytes); 100];
    for _ in 0..mib.div_ceil(50).max(1) {
        for log in &logs {
            log.publish(WriteClass::Publish, &batch).unwrap();
        }
    }
    let confirmed: u64 = logs.iter().map(|log| log.durable().0).sum();
    say(&format!("confirmed {confirmed}"));
    // Killed in the midst of more.
    loop {
        for log in &logs {
            log.publish(WriteClass::Publish, &[NewRecord::new(&bytes)]).unwrap();
        }
        say("more");
    }
}

/// The child: starts over the backlog in a small group.
pub(crate) fn start(dir: &Path) {
    let node = Node::open(dir, for_memory()).unwrap();
    let logs = node.open_all().unwrap();
    say(&format!("logs {}", logs.len()));
    say(&format!("started {}", peak_of_this_process()));
    let mut records = 0;
    for (name, log) in logs {
        let log = log.unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut reader = log.read_from(log.head()).unwrap();
        while let Some(record) = reader.next().unwrap() {
            assert_eq!(record.payload.len(), 10_000);
            records += 1;
        }
    }
    say(&format!("records {records}"));
    say(&format!("peak {}", peak_of_this_process()));
    node.close().unwrap();
    say("well");
}

/// The most that was resident, in KiB: anonymous memory and the pages of the program itself, without the page cache.
fn peak_of_this_process() -> u64 {
    let status = std::fs::read_to_string(PathBuf::from("/proc/self/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// After a kill fifty queues are recovered and read in a group that is far smaller than what they hold.
#[test]
fn case_E5_a_large_backlog_is_recovered_in_a_small_group() {
    let name = "case_E5_a_large_backlog_is_recovered_in_a_small_group";
    let Some((dir, group)) = apart(name, "backlog", 128 * MIB) else { return };
    let dir = dir.path().join("data");
    let mib = if full() { 1_024 } else { 200 };
    let mut child = Other::start("backlog", &dir, None, mib);
    let confirmed = child.number("confirmed");
    for _ in 0..3 {
        child.hear("more").unwrap();
    }
    child.kill();
    let mut child = Other::start("start", &dir, Some(group.dir()), 0);
    assert_eq!(child.number("logs"), 50, "{} killed for memory", group.killed());
    let started = child.number("started");
    let records = child.number("records");
    let peak = child.number("peak");
    assert!(child.hear("well").is_some() && child.end());
    println!(
        "{}: {mib} MiB in 50 queues, {records} records: resident at most {} MiB after the start, {} MiB after reading all",
        group.version(),
        started >> 10,
        peak >> 10
    );
    assert!(records >= confirmed + 150, "{records} of {confirmed}");
    assert!(peak < 100 << 10, "{peak} KiB");
    assert_eq!(group.killed(), 0);
}
