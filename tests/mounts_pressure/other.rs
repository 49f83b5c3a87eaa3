//! Inodes run out, and a device is resized.

use crate::flapping::Stepped;
use crate::outside::wait_for;
use crate::place::{MIB, Queue, SMALL, btrfs, options, refusal, tmpfs, wait_for_kept_back};
use faultlab::mounts::run;
use plimsoll::pressure::DiskReason;
use plimsoll::{Level, LimitReason, LogName, LogOptions, Node, WriteClass};
use std::path::Path;
use std::process::Command;

fn remount(dir: &Path, options: &str) {
    let options = format!("remount,{options}");
    run(Command::new("mount").args(["-o", &options]).arg(dir)).unwrap();
}

/// Bytes are plenty and inodes are gone: the level says so, and what is there goes on.
#[test]
fn case_A10_few_inodes_raise_the_level_and_are_named() {
    let Some(place) = tmpfs("case_A10_few_inodes_raise_the_level_and_are_named", SMALL) else {
        return;
    };
    remount(place.path(), "nr_inodes=200");
    let node = Node::open(place.data(), options()).unwrap();
    wait_for_kept_back(&node);
    let mut queues = Vec::new();
    let limited = loop {
        assert!(queues.len() < 200, "never refused");
        let mut queue = Queue::new(&node, &format!("queue-{}", queues.len()));
        let published = queue.publish(WriteClass::Publish, 1, 4_000);
        queues.push(queue);
        if let Err(error) = published {
            break refusal(error);
        }
        // The directory of a log is in no books: only a sample shows it, and one follows each file that is made.
        std::thread::sleep(std::time::Duration::from_millis(30));
    };
    println!("refused at queue {}: {limited}", queues.len());
    // A file that would come to hard is not made, and that is hard.
    assert_eq!((limited.reason, limited.level), (LimitReason::Disk, Level::Hard));
    assert!(limited.detail.contains("inodes"), "{limited}");
    let reading = node.pressure().disks[0].clone();
    assert_eq!(reading.reason, DiskReason::Inodes);
    assert!(reading.free > reading.thresholds.soft, "{reading:?}");
    assert!(node.attention()[0].detail.contains("few inodes"), "{:?}", node.attention());

    // The last ones go too.
    let inode = |number: u32| place.path().join(format!("inode-{number}"));
    let taken =
        (0..200).take_while(|number| std::fs::File::create_new(inode(*number)).is_ok()).count();
    wait_for("reserve", || (node.pressure().level == Level::Reserve).then_some(()));
    let missing = LogName::new("one-more").unwrap();
    node.open_log(&missing, LogOptions::default()).unwrap_err();
    for queue in &mut queues {
        queue.acknowledge("without inodes");
    }
    // And further than its file: from what is kept back.
    for _ in 0..100 {
        queues[0].publish(WriteClass::Acknowledge, 1, 4_000).unwrap();
    }
    assert!(queues[0].log.segments().len() > 1);
    let freed = queues[0].truncate(0);
    assert!(freed > 0);
    queues.iter().for_each(Queue::check);

    for number in 0..u32::try_from(taken).unwrap() {
        std::fs::remove_file(inode(number)).unwrap();
    }
    for queue in queues.drain(5..) {
        node.delete_log(queue.log.name()).unwrap();
    }
    wait_for("ok", || (node.pressure().level == Level::Ok).then_some(()));
    queues.iter_mut().for_each(|queue| queue.publish(WriteClass::Publish, 1, 4_000).unwrap());
    queues.iter().for_each(Queue::check);
    drop(queues);
    node.close().unwrap();
}

/// The lines follow a device that is resized while the node runs, from the next sample on, and all that tells of the level
/// agrees.
#[test]
fn case_A8_lines_and_level_follow_a_device_that_is_resized() {
    let name = "case_A8_lines_and_level_follow_a_device_that_is_resized";
    let Some(place) = tmpfs(name, SMALL) else { return };
    // A larger device would have more spares, and could not be made small again.
    let mut options = options();
    options.limits.pool.budget = "0%".parse().unwrap();
    options.limits.pool.kept_back = "0B".parse().unwrap();
    let stepped = Stepped::with(&place, options);
    stepped.settle();
    let mut heap = Queue::new(&stepped.node, "heap");
    while let Ok(()) = heap.publish(WriteClass::Publish, 4, 60_000) {}
    let small = stepped.lines();
    place.leave(small.hard - MIB);
    assert_eq!(stepped.second(), Level::Hard);

    let mut agree = |level: Level| {
        let pressure = stepped.node.pressure();
        assert_eq!((pressure.level, pressure.disks[0].level), (level, level));
        assert_eq!(heap.told(100).is_err(), level >= Level::Hard);
        assert_eq!(heap.publish(WriteClass::Publish, 1, 100).is_err(), level >= Level::Hard);
        let items: Vec<_> = stepped.node.attention().iter().map(|item| item.level).collect();
        assert_eq!(items, if level == Level::Ok { vec![] } else { vec![level] });
    };
    agree(Level::Hard);
    remount(place.path(), "size=256m");
    stepped.second();
    let large = stepped.lines();
    assert_eq!(stepped.node.pressure().disks[0].total, 256 * MIB);
    // To the byte, as shares are rounded.
    assert!(large.soft / 4 == small.soft && large.hard / 4 == small.hard, "{large:?} {small:?}");
    agree(Level::Ok);
    remount(place.path(), "size=64m");
    stepped.second();
    assert_eq!(stepped.lines(), small);
    agree(Level::Hard);
    heap.check();
    drop(heap);
    stepped.node.close().unwrap();
}

/// Until a transaction is committed btrfs holds on to the metadata blocks of each sync, and makes room for more of them out of
/// what would be data's. That room stays metadata's when nothing is in it any more: an almost empty node must not be short
/// for ever of what nobody can have.
#[test]
fn what_btrfs_gives_to_metadata_keeps_no_level() {
    let name = "what_btrfs_gives_to_metadata_keeps_no_level";
    let Some(place) = btrfs(name, 160 * MIB) else { return };
    let mut options = options();
    options.limits.pool.kept_back = "0B".parse().unwrap();
    let stepped = Stepped::with(&place, options);
    stepped.settle();
    let mut queue = Queue::new(&stepped.node, "queue");
    queue.publish(WriteClass::Publish, 1, 4_000).unwrap();
    let fresh = place.available();

    // Small and synced, as commits are, and always the same block: nothing of it is data that grows.
    let synced = std::fs::File::create(place.path().join("synced")).unwrap();
    for count in 0_u64.. {
        std::os::unix::fs::FileExt::write_all_at(&synced, &count.to_le_bytes(), 0).unwrap();
        synced.sync_data().unwrap();
        if place.available() + 20 * MIB < fresh {
            break;
        }
        assert!(count < 100_000, "metadata takes nothing of {fresh} bytes");
    }
    drop(synced);
    // What the syncs pinned is given back, and no more.
    nix::unistd::syncfs(std::fs::File::open(place.path()).unwrap()).unwrap();
    stepped.settle();
    let disk = stepped.node.pressure().disks.remove(0);
    assert!(disk.available < disk.total * 2 / 5, "{disk:?}");
    assert_eq!(disk.level, Level::Ok, "{disk:?}");
    queue.publish(WriteClass::Publish, 1, 4_000).unwrap();
    queue.check();

    // And what is short is still said.
    place.leave(disk.thresholds.hard / 2);
    assert!(stepped.second() >= Level::Hard, "{:?}", stepped.node.pressure());
    assert!(queue.told(100).is_err());
    drop(queue);
    stepped.node.close().unwrap();
}
