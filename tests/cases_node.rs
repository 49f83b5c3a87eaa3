//! Cases of descriptors, memory maps, locks, links and clocks that users of other systems met, by their ids.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "not the engine: a test"
)]
#![allow(non_snake_case, reason = "tests are named for the cases that they hold")]

use faultlab::sim::world::{DATA, SIZES, World};
use plimsoll::error::OpenError;
use plimsoll::fs::sim::{NothingPersisted, SimFileSystem};
use plimsoll::fs::{FileKind, FileSystem};
use plimsoll::{LogName, LogOptions, NewRecord, Node, NodeOptions, Offset, Size, WriteClass};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn name(log: &str) -> LogName {
    LogName::new(log).unwrap()
}

/// Open descriptors of this process that lead below `dir`.
fn descriptors(dir: &Path) -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.starts_with(dir)).count()
}

#[test]
fn case_H1_restarts_open_no_more_files_and_make_no_more_segments() {
    const LOGS: u64 = 300;
    const OPEN_FILES: usize = 64;
    let dir = tempfile::tempdir().unwrap();
    let start = || {
        let mut options = NodeOptions::default();
        options.segment_size = 64 << 10;
        options.open_files = OPEN_FILES;
        // What is counted is the logs'.
        (options.limits.pool.kept_back, options.limits.pool.prepared) = (Size(0), 0);
        options.recovery_threads = 4;
        Node::open(dir.path(), options).unwrap()
    };
    let node = start();
    for number in 0..LOGS {
        let log = node.open_log(&name(&format!("q/{number}")), LogOptions::default()).unwrap();
        log.publish(WriteClass::Publish, &[NewRecord::new(b"one")]).unwrap();
    }
    node.close().unwrap();
    for restart in 0..10u64 {
        let node = start();
        let logs = node.open_all().unwrap();
        assert_eq!(logs.len() as u64, LOGS);
        let mut most = 0;
        for (number, (_, log)) in (0..).zip(&logs) {
            let log = log.as_ref().unwrap();
            assert_eq!(log.segments().len(), 1, "{}", log.name());
            assert_eq!(log.durable(), Offset(if number < restart { 2 } else { 1 }));
            let mut reader = log.read_from(Offset::ZERO).unwrap();
            assert_eq!(reader.next().unwrap().unwrap().payload, b"one");
            most = most.max(node.open_files());
            // One of them is written to in each life.
            if number == restart {
                log.publish(WriteClass::Publish, &[NewRecord::new(b"two")]).unwrap();
            }
        }
        assert!(most <= OPEN_FILES, "{most} files are open");
        // The cache, and the lock of the directory.
        assert!(descriptors(dir.path()) <= OPEN_FILES + 1);
        if restart % 2 == 0 {
            node.close().unwrap();
        }
        drop(logs);
    }
    assert_eq!(descriptors(dir.path()), 0, "everything is closed with the node");
    let files = |dir: &Path| std::fs::read_dir(dir).unwrap().count();
    assert_eq!(files(&dir.path().join("spares")), 0);
}

fn maps() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

#[test]
fn case_H2_deleted_logs_leave_no_memory_maps() {
    const LOGS: usize = 2000;
    let mut world = World::new(1, SIZES);
    world.start();
    let mut after_warm_up = 0;
    for number in 0..LOGS {
        let log = format!("q{number}");
        world.open(&log);
        let staged: Vec<_> = (0..10).filter_map(|_| world.stage(&log, &[256])).collect();
        assert!(staged.into_iter().all(|staged| world.settle(staged)));
        if number % 100 == 0 {
            world.read(&log);
        }
        world.delete(&log);
        world.work();
        if number == 100 {
            after_warm_up = maps();
        }
    }
    // The allocator and the threads of the other tests take some; a map for each log would be two thousand.
    let grown = maps().saturating_sub(after_warm_up);
    assert!(grown < 400, "{grown} more maps than after 100 logs");
    assert_eq!(world.node().logs().unwrap(), []);
    assert_eq!(world.node().open_files(), 0);
    world.check_files();
}

#[test]
fn case_J2_a_lock_file_that_is_left_over_locks_nothing() {
    let world = World::new(1, SIZES);
    let lock = Path::new(DATA).join("LOCK");
    let file = world.fs.create(&lock).unwrap();
    // Our own process number, as a restart in a container has the one that the dead process had.
    file.write_at(0, format!("{}\n", std::process::id()).as_bytes()).unwrap();
    file.sync().unwrap();
    drop(file);
    let mut world = world.fork();
    world.start();
    world.open("a");
    assert!(world.append("a", &[512]));
    // While it is held a second node is refused, and when the process is gone it is not held.
    let second =
        || Node::builder(DATA).file_system(Arc::new(world.fs.process())).without_threads().open();
    assert!(matches!(second().unwrap_err(), OpenError::Locked { .. }));
    world.fs.process_death();
    second().unwrap();
}

/// A data directory with one log, and a directory outside it that nobody must touch.
fn with_a_victim() -> (World, SimFileSystem) {
    let mut world = World::new(1, SIZES);
    world.fs.prepare_dir("/victim").unwrap();
    for file in ["/victim/a", "/victim/00000000000000000000.seg"] {
        let file = world.fs.create(Path::new(file)).unwrap();
        file.write_at(0, &[7; 12288]).unwrap();
        file.sync().unwrap();
    }
    world.start();
    world.open("good");
    world.append("good", &[512]);
    world.close();
    let fs = world.fs.fork();
    (World::over(fs.clone()), fs)
}

fn victim_is_untouched(fs: &SimFileSystem) {
    for file in ["/victim/a", "/victim/00000000000000000000.seg"] {
        assert_eq!(fs.cached(file).unwrap(), [7; 12288], "{file}");
    }
    assert_eq!(fs.list(Path::new("/victim")).unwrap().len(), 2);
}

#[test]
fn case_J5_links_are_never_followed() {
    let (mut world, fs) = with_a_victim();
    // Removed as links at start: what is temporary, spare or being deleted.
    for link in ["spares/0000000000000001.tmp", "LAYOUT.tmp", "trash/0011223344556677", "trash/x"] {
        fs.prepare_link(Path::new(DATA).join(link), "/victim/a").unwrap();
    }
    fs.prepare_link(Path::new(DATA).join("trash/dir"), "/victim").unwrap();
    world.start();
    world.open("good");
    assert_eq!(world.log("good").durable(), Offset(1));
    world.work();
    for dir in ["spares", "trash"] {
        let left = fs.list(&Path::new(DATA).join(dir)).unwrap();
        assert!(left.iter().all(|entry| entry.kind == FileKind::File), "{dir}: {left:?}");
    }
    victim_is_untouched(&fs);

    // Refused, and named: where a log, or a file of a log, should be.
    fs.prepare_link(Path::new(DATA).join("logs/bad"), "/victim").unwrap();
    let refused = world.node().open_log(&name("bad"), LogOptions::default()).unwrap_err();
    assert!(
        matches!(&refused, OpenError::Foreign { path, .. } if path.ends_with("bad")),
        "{refused}"
    );
    let refused = world.node().open_log(&name("bad/inner"), LogOptions::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Foreign { .. }), "{refused}");
    assert!(world.node().delete_log(&name("bad")).is_err());
    world.open("linked");
    world.close();
    let segment = Path::new(DATA).join("logs/linked/00000000000000000000.seg");
    fs.prepare_link(&segment, "/victim/00000000000000000000.seg").unwrap();
    world.start();
    let refused = world.node().open_log(&name("linked"), LogOptions::default()).unwrap_err();
    assert!(matches!(&refused, OpenError::Foreign { path, .. } if *path == segment), "{refused}");
    victim_is_untouched(&fs);
    // Deleting such a log removes the link.
    world.node().delete_log(&name("linked")).unwrap();
    world.work();
    victim_is_untouched(&fs);
    world.close();

    for dir in ["logs", "spares", "trash", "quarantine"] {
        let (_, fs) = with_a_victim();
        let path = Path::new(DATA).join(dir);
        fs.rename(&path, Path::new("/elsewhere")).unwrap();
        fs.prepare_link(&path, "/victim").unwrap();
        let node = Node::builder(DATA).file_system(Arc::new(fs.process())).without_threads().open();
        let refused = node.unwrap_err();
        assert!(
            matches!(&refused, OpenError::Foreign { path: at, .. } if *at == path),
            "{refused}"
        );
        victim_is_untouched(&fs);
    }
}

const HOUR: u64 = 3_600_000;

#[test]
fn case_K1_steps_of_the_wall_clock_change_stamps_and_nothing_else() {
    let noon = 1_700_000_000_000;
    let mut world = World::new(1, SIZES);
    world.start();
    world.open("a");
    // Forward, back, and back before where it began; over several files.
    let walls = [noon, noon + HOUR, noon + HOUR + 5, noon, noon - HOUR, noon - HOUR + 9, noon + 1];
    let mut stamps = Vec::new();
    for _ in 0..3 {
        for wall in walls {
            world.clock.set_wall(wall);
            assert!(world.append("a", &[1024]));
            stamps.push(wall);
        }
    }
    assert!(world.log("a").segments().len() >= 3);
    let check = |world: &World| {
        let log = world.log("a");
        let mut reader = log.read_from(Offset::ZERO).unwrap();
        for &stamp in &stamps {
            assert_eq!(reader.next().unwrap().unwrap().millis, stamp);
        }
        let times = walls.iter().flat_map(|&wall| [wall - 1, wall, wall + 1]);
        for time in times.chain([0, noon + 9 * HOUR]) {
            // The first at which the running maximum reaches it.
            let expected = stamps.iter().position(|&stamp| stamp >= time).unwrap_or(stamps.len());
            let found = log.offset_for_time(time).unwrap();
            assert_eq!(found, Offset(expected as u64), "time {time}");
        }
    };
    check(&world);
    world.work();
    // Elapsed time is another clock: no permit runs out, and a log is idle when it is.
    let idle = |world: &World| {
        world.fs.record(true);
        while world.node().step() {}
        world.fs.trace().iter().any(|op| op.kind == plimsoll::fs::sim::OpKind::Sync)
    };
    world.clock.set_wall(noon + 24 * HOUR);
    assert!(!idle(&world), "a step forward makes no log idle");
    world.clock.set_wall(noon - 24 * HOUR);
    world.clock.advance(Duration::from_secs(11));
    assert!(idle(&world), "a step back keeps no log from being idle");
    check(&world);
    for clean in [true, false] {
        let mut world = world.fork();
        if clean {
            world.recover();
            world.close();
        }
        world.fs.power_cut(&mut NothingPersisted);
        world.recover();
        check(&world);
    }
}
