//! The lives that are crashed: one plan for each kind of operation.

use super::explore::Crash;
use super::explore::Plan;
use super::world::{SIZES, World};
use plimsoll::fs::sim::{Fault, OpKind, Reached, What};

fn empty() -> World {
    World::new(1, SIZES)
}

/// A log with one record, its file open and durable.
fn one_record() -> World {
    let mut world = empty();
    world.start();
    world.open("a");
    world.append("a", &[512]);
    world.close();
    world.fork()
}

/// A log with three files of rising class, the last with some room.
fn three_files() -> World {
    let mut world = empty();
    world.start();
    world.open("a");
    for _ in 0..7 {
        world.append("a", &[1024, 1024]);
    }
    world.close();
    world.fork()
}

/// A log whose only file has no room left.
fn full_file() -> World {
    let mut world = empty();
    world.start();
    world.open("a");
    for _ in 0..4 {
        world.append("a", &[1024]);
    }
    world.close();
    world.fork()
}

fn two_logs() -> World {
    let mut world = empty();
    world.start();
    for log in ["a", "deep/b"] {
        world.open(log);
        world.append(log, &[512, 512]);
    }
    world.close();
    world.fork()
}

/// A log that was healed and truncated: one file without a record, whose header alone says what comes next.
fn emptied() -> World {
    let mut world = empty();
    world.start();
    world.open("a");
    world.append("a", &[512]);
    world.append("a", &[512]);
    world.close();
    world.start();
    world.open("a");
    world.inject(Fault::nth(OpKind::Sync, 0, failed_sync(Reached::Nothing)).on("logs/"));
    world.must_fail("a", &[512]);
    world.truncate_all("a");
    assert_eq!(world.log("a").head(), world.log("a").durable());
    world.close();
    world.fork()
}

/// A batch that the power cut off.
fn torn_batch() -> World {
    let mut world = one_record();
    world.start();
    world.open("a");
    world.fs.crash_in_write(world.fs.ops() + 2, usize::MAX);
    world.append("a", &[512; 5]);
    assert!(world.dead());
    let world = world.fork();
    Crash::Seed(3).strike(&world.fs);
    world
}

/// A roll that the power cut off, some of it on the disk.
fn torn_roll() -> World {
    let mut world = one_record();
    world.start();
    world.open("a");
    world.fs.record(true);
    let mut whole = world.fork();
    whole.start();
    whole.open("a");
    let before = whole.fs.ops();
    whole.append("a", &[1024; 8]);
    let ops = whole.fs.ops() - before;
    world.fs.crash_at(world.fs.ops() + ops - 1);
    world.append("a", &[1024; 8]);
    assert!(world.dead());
    let world = world.fork();
    Crash::Seed(5).strike(&world.fs);
    world
}

const fn failed_sync(reached: Reached) -> What {
    What::FailedSync { errno: libc::EIO, reached }
}

const fn healing(name: &'static str, script: fn(&mut World)) -> Plan {
    Plan { evicts: true, ..Plan::new(name, one_record, script) }
}

pub(crate) const PLANS: &[Plan] = &[
    Plan::new("append_first", empty, |world| {
        world.start();
        world.open("a");
        world.append("a", &[512]);
    }),
    Plan::new("append_single", one_record, |world| {
        world.start();
        world.open("a");
        world.append("a", &[512]);
        world.append("a", &[200]);
        world.append("a", &[513]);
    }),
    Plan::new("append_batch", one_record, |world| {
        world.start();
        world.open("a");
        world.append("a", &[512, 512, 512]);
        world.append("a", &[1024, 100, 512]);
    }),
    Plan::new("append_shared", one_record, |world| {
        world.start();
        world.open("a");
        let first = world.stage("a", &[512]);
        let second = world.stage("a", &[512, 512]);
        second.map(|staged| world.settle(staged));
        first.map(|staged| world.settle(staged));
    }),
    Plan::new("roll_batch", one_record, |world| {
        world.start();
        world.open("a");
        // From the tiny file over the small one into a main one.
        world.append("a", &[1024; 14]);
    }),
    Plan::new("roll_single", one_record, |world| {
        world.start();
        world.open("a");
        for _ in 0..5 {
            world.append("a", &[3000]);
        }
    }),
    Plan::new("truncate", three_files, |world| {
        world.start();
        world.open("a");
        world.truncate("a", 6);
        world.append("a", &[512]);
        world.truncate_all("a");
        world.append("a", &[512]);
    }),
    Plan::new("truncate_staged", full_file, |world| {
        world.start();
        world.open("a");
        // The staged record begins a new file right behind what is durable.
        let staged = world.stage("a", &[1024]);
        world.truncate_all("a");
        staged.map(|staged| world.settle(staged));
        world.truncate_all("a");
    }),
    Plan::new("delete", two_logs, |world| {
        world.start();
        world.open("a");
        world.delete("a");
        world.work();
        world.open("a");
        world.append("a", &[512]);
        world.delete("deep/b");
        world.work();
        world.open("deep/b");
        world.append("deep/b", &[512]);
    }),
    Plan::new("idle_checkpoint", one_record, |world| {
        world.start();
        world.open("a");
        world.append("a", &[512, 512]);
        world.idle();
        world.append("a", &[512]);
        world.append("a", &[512]);
        world.idle();
    }),
    Plan::new("close", one_record, |world| {
        world.start();
        world.open("a");
        world.append("a", &[512, 512]);
        let staged = world.stage("a", &[512]);
        world.open("b");
        world.append("b", &[512]);
        world.close();
        // It was committed by closing.
        staged.map(|staged| world.settle(staged));
    }),
    Plan::new("recovery_of_a_torn_batch", torn_batch, |world| {
        world.recover();
        world.append("a", &[512]);
    }),
    Plan::new("recovery_of_a_roll", torn_roll, |world| {
        world.recover();
        world.append("a", &[512]);
    }),
    healing("heal_write", |world| {
        world.start();
        world.open("a");
        world.append("a", &[512]);
        world.inject(Fault::nth(OpKind::Write, 0, What::Errno(libc::EIO)).on("logs/"));
        world.must_fail("a", &[512, 512]);
        world.must_append("a", &[512]);
        world.append("a", &[512]);
    }),
    healing("heal_short_write", |world| {
        world.start();
        world.open("a");
        world.append("a", &[512]);
        world.inject(Fault::nth(OpKind::Write, 0, What::Short(600)).on("logs/"));
        world.inject(Fault::nth(OpKind::Write, 1, What::Errno(libc::ENOSPC)).on("logs/"));
        world.must_fail("a", &[512, 512]);
        world.must_append("a", &[512]);
    }),
    healing("heal_sync", |world| {
        world.start();
        world.open("a");
        world.append("a", &[512]);
        world.inject(Fault::nth(OpKind::Sync, 0, failed_sync(Reached::Nothing)).on("logs/"));
        world.must_fail("a", &[512, 512]);
        world.must_append("a", &[512]);
        world.append("a", &[512]);
    }),
    healing("heal_sync_that_reached_some", |world| {
        world.start();
        world.open("a");
        world.append("a", &[512]);
        world.inject(Fault::nth(OpKind::Sync, 0, failed_sync(Reached::Some(5))).on("logs/"));
        world.must_fail("a", &[512, 1024]);
        world.must_append("a", &[512]);
        world.append("a", &[512]);
    }),
    healing("heal_in_a_roll", |world| {
        world.start();
        world.open("a");
        // The sync of the old file succeeds, that of the new one does not.
        world.inject(Fault::nth(OpKind::Sync, 1, failed_sync(Reached::Everything)).on("a/"));
        world.inject(Fault::nth(OpKind::Sync, 1, failed_sync(Reached::Everything)).on("spares/"));
        world.append("a", &[1024; 5]);
        world.mend();
        world.must_append("a", &[512]);
        world.append("a", &[512]);
    }),
    healing("heal_rename", |world| {
        world.start();
        world.open("a");
        world.inject(Fault::nth(OpKind::Rename, 0, What::Errno(libc::ENOSPC)));
        world.append("a", &[1024; 5]);
        world.must_append("a", &[1024; 5]);
    }),
    healing("heal_rename_that_was_done", |world| {
        world.start();
        world.open("a");
        world.inject(Fault::nth(OpKind::Rename, 0, What::DoneThen(libc::EIO)));
        world.append("a", &[1024; 5]);
        world.must_append("a", &[1024; 5]);
    }),
    healing("heal_dir_sync", |world| {
        world.start();
        world.open("a");
        world.inject(Fault::nth(OpKind::SyncDir, 0, What::Errno(libc::EIO)).on("logs/a"));
        world.append("a", &[1024; 5]);
        world.must_append("a", &[512]);
        world.append("a", &[512]);
    }),
    healing("heal_spares_dir_sync", |world| {
        world.start();
        world.open("a");
        world.inject(Fault::nth(OpKind::SyncDir, 0, What::Errno(libc::EIO)).on("spares"));
        world.append("a", &[1024; 5]);
        world.must_append("a", &[512]);
        world.append("a", &[512]);
    }),
    healing("heal_checkpoint_sync", |world| {
        world.start();
        world.open("a");
        world.append("a", &[512]);
        world.inject(Fault::nth(OpKind::Sync, 0, failed_sync(Reached::Nothing)).on("logs/"));
        world.idle();
        world.must_append("a", &[512]);
        world.idle();
    }),
    Plan {
        prepare: emptied,
        ..healing("heal_in_place", |world| {
            world.start();
            world.open("a");
            // Nothing in the file is durable but its header, which alone holds the next offset.
            world.inject(Fault::nth(OpKind::Sync, 0, failed_sync(Reached::Nothing)).on("logs/"));
            world.must_fail("a", &[512, 512]);
            world.must_append("a", &[512]);
        })
    },
    Plan {
        prepare: torn_batch,
        ..healing("heal_at_open", |world| {
            world.faulty = true;
            world.fs.inject(Fault::nth(OpKind::Sync, 0, failed_sync(Reached::Nothing)).on("logs/"));
            world.recover();
            world.append("a", &[512]);
        })
    },
];

/// The plan of this name.
pub(crate) fn plan(name: &str) -> Plan {
    *PLANS.iter().find(|plan| plan.name == name).unwrap_or_else(|| panic!("no plan {name}"))
}
