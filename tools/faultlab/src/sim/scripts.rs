//! The lives that are crashed: one plan for each kind of operation.

use super::constructed;
use super::crash::Crash;
use super::explore::Plan;
use super::world::{SIZES, World};
use plimsoll::format::layout::ClassSizes;
use plimsoll::fs::sim::{Fault, OpKind, Reached, What};

pub fn empty() -> World {
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

/// The same, its only file large: it was healed while it was in a large one.
fn emptied_large() -> World {
    let mut world = three_files();
    world.start();
    world.open("a");
    world.inject(Fault::nth(OpKind::Sync, 0, failed_sync(Reached::Nothing)).on("logs/"));
    world.must_fail("a", &[512]);
    world.truncate_all("a");
    assert_eq!(world.log("a").head(), world.log("a").durable());
    assert!(world.log("a").segments()[0].capacity > SIZES.tiny);
    world.close();
    world.fork()
}

/// A log whose next record of 512 bytes ends with a block, its file large enough for more.
fn at_a_blocks_end() -> World {
    let mut world = three_files();
    world.start();
    world.open("a");
    world.append("a", &[1536]);
    world.close();
    world.fork()
}

/// Of a batch that was not confirmed the first record is lost, and the second is on the disk, in the next block.
fn ghost_in_the_next_block() -> World {
    let life = |world: &mut World| {
        world.start();
        world.open("a");
        world.append("a", &[512, 512]);
    };
    // One sector of each of two blocks: the first stays as it was, the second is the new one.
    cut_off(&at_a_blocks_end(), life, &Crash::Script(vec![0, 1]))
}

/// A life that ends at its last sync, so that what it appended last is cut off.
fn cut_off(from: &World, life: fn(&mut World), crash: &Crash) -> World {
    let mut trial = from.fork();
    trial.fs.record(true);
    life(&mut trial);
    let trace = trial.fs.trace();
    let last = trace.iter().rfind(|op| op.kind == OpKind::Sync).expect("a sync");
    let mut world = from.fork();
    world.fs.crash_at(last.number);
    life(&mut world);
    assert!(world.dead());
    let world = world.fork();
    crash.strike(&world.fs);
    world
}

/// A log whose last file has a megabyte of records and no checkpoint.
fn a_megabyte() -> World {
    let mut world = World::new(1, ClassSizes { tiny: 65536, small: 65536, main: 2 << 20 });
    world.start();
    world.open("a");
    for _ in 0..20 {
        world.append("a", &[16384; 4]);
    }
    let world = world.fork();
    Crash::Nothing.strike(&world.fs);
    world
}

/// Confirmed records that nothing but themselves vouches for.
fn unclosed() -> World {
    let mut world = one_record();
    world.start();
    world.open("a");
    world.append("a", &[512, 512]);
    let world = world.fork();
    Crash::Nothing.strike(&world.fs);
    world
}

/// A batch that the power cut off.
fn torn_batch() -> World {
    let life = |world: &mut World| {
        world.start();
        world.open("a");
        world.append("a", &[512; 5]);
    };
    cut_off(&one_record(), life, &Crash::Seed(3))
}

/// A roll that the power cut off, some of it on the disk.
fn torn_roll() -> World {
    let life = |world: &mut World| {
        world.start();
        world.open("a");
        world.append("a", &[1024; 8]);
    };
    cut_off(&one_record(), life, &Crash::Seed(5))
}

pub const fn failed_sync(reached: Reached) -> What {
    What::FailedSync { errno: libc::EIO, reached }
}

const fn healing(name: &'static str, script: fn(&mut World)) -> Plan {
    Plan { evicts: true, ..Plan::new(name, one_record, script) }
}

pub const PLANS: &[Plan] = &[
    Plan::new("append_first", empty, |world| {
        world.start();
        world.open("a");
        world.append("a", &[512]);
    }),
    Plan {
        after: |world| {
            world.open("a");
            world.append("a", &[512, 512]);
            world.close();
        },
        ..Plan::new(
            "first_start",
            || World::bare(1),
            |world| {
                world.start();
                world.open("a");
                world.append("a", &[512]);
            },
        )
    },
    Plan {
        second: 40,
        seeds: 4,
        ..Plan::new("checkpoint_in_a_commit", a_megabyte, |world| {
            world.start();
            world.open("a");
            // The first commit takes a checkpoint along, and then there is one.
            world.append("a", &[512, 512]);
            world.append("a", &[512]);
        })
    },
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
        // Two files at once, and it needs no append.
        world.truncate_all("a");
        world.append("a", &[512]);
    }),
    Plan::new("idle_swap", three_files, |world| {
        world.start();
        world.open("a");
        world.truncate_all("a");
        // Its large file goes for a tiny one, and with it the records that no truncation of whole files freed.
        world.idle();
        world.append("a", &[512]);
        world.append("a", &[512, 1024]);
    }),
    Plan {
        after: |world| {
            world.open("a");
            world.append("a", &[512, 512]);
            world.idle();
        },
        ..Plan::new("idle_swap_in_place", emptied_large, |world| {
            world.start();
            world.open("a");
            world.idle();
            world.append("a", &[512]);
        })
    },
    Plan::new("truncate_partly", three_files, |world| {
        world.start();
        world.open("a");
        world.truncate("a", 6);
        world.append("a", &[512]);
        world.read("a");
        world.truncate_all("a");
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
    Plan {
        second: usize::MAX,
        ..Plan::new("delete_in_a_folder", two_logs, |world| {
            world.start();
            world.delete("deep/b");
        })
    },
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
        // Not confirmed, which the oracle knows from what is left of it.
        world.append("a", &[512, 512]);
        // The kernel may drop the clean pages at any time.
        world.fs.evict_all();
        world.read("a");
        world.append("a", &[512]);
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
        world.inject(Fault::nth(OpKind::Rename, 0, What::Errno(libc::ENOSPC)).on("spares/0"));
        world.append("a", &[1024; 5]);
        world.must_append("a", &[1024; 5]);
    }),
    healing("heal_rename_that_was_done", |world| {
        world.start();
        world.open("a");
        world.inject(Fault::nth(OpKind::Rename, 0, What::DoneThen(libc::EIO)).on("spares/0"));
        world.append("a", &[1024; 5]);
        world.must_append("a", &[1024; 5]);
    }),
    healing("reopen_after_a_failed_heal", |world| {
        world.start();
        world.open("a");
        // The roll's directory is not synced, and the heal's rename was done, though it failed.
        world.inject(Fault::nth(OpKind::SyncDir, 0, What::Errno(libc::EIO)).on("logs/a"));
        world.inject(Fault::nth(OpKind::Rename, 1, What::DoneThen(libc::EIO)).on("spares/0"));
        world.must_fail("a", &[1024; 5]);
        world.must_fail("a", &[512]);
        world.open("a");
        world.must_append("a", &[512]);
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
    healing("heal_waits", |world| {
        world.start();
        world.open("a");
        // There is no file to heal with, until there is.
        world.inject(Fault::nth(OpKind::Sync, 0, failed_sync(Reached::Everything)).on("logs/"));
        world.inject(Fault::nth(OpKind::Create, 0, What::Errno(libc::ENOSPC)).forever());
        world.must_fail("a", &[512, 512]);
        world.must_fail("a", &[512]);
        world.mend();
        world.must_append("a", &[512]);
    }),
    healing("heal_on_a_full_disk", |world| {
        world.start();
        world.open("a");
        // The file to heal with is there; its header finds no room, and neither does its name the second time.
        world.inject(Fault::nth(OpKind::Sync, 0, failed_sync(Reached::Everything)).on("logs/"));
        world.inject(Fault::nth(OpKind::Write, 2, What::Errno(libc::ENOSPC)).on("spares/"));
        world.inject(Fault::nth(OpKind::Rename, 0, What::Errno(libc::EDQUOT)).on("spares/0"));
        world.must_fail("a", &[512, 512]);
        world.must_fail("a", &[512]);
        world.must_append("a", &[512]);
    }),
    healing("short_write", |world| {
        world.start();
        world.open("a");
        world.inject(Fault::nth(OpKind::Write, 0, What::Short(600)).on("logs/"));
        world.inject(Fault::nth(OpKind::Write, 1, What::Interrupted).on("logs/"));
        world.append("a", &[512, 512]);
        world.append("a", &[512]);
    }),
    Plan {
        // What stands in the next block is not written over by the record that takes the place before it.
        second: usize::MAX,
        second_exhaustive: 16,
        after: |world| {
            world.open("a");
            world.append("a", &[512]);
            world.append("a", &[1024, 512]);
        },
        ..Plan::new("append_over_a_torn_record", at_a_blocks_end, |world| {
            world.start();
            world.open("a");
            world.append("a", &[512, 1024]);
        })
    },
    Plan {
        second: usize::MAX,
        second_exhaustive: 16,
        ..Plan::new("recovery_that_zeroes", ghost_in_the_next_block, |world| {
            world.recover();
            world.append("a", &[512]);
        })
    },
    Plan {
        prepare: at_a_blocks_end,
        ..healing("heal_at_a_blocks_end", |world| {
            world.start();
            world.open("a");
            world.inject(Fault::nth(OpKind::Sync, 0, failed_sync(Reached::Everything)).on("logs/"));
            world.must_fail("a", &[512, 512]);
            world.must_append("a", &[512]);
        })
    },
    Plan::new("leftovers_of_another_log", constructed::leftovers_of_another_log, |world| {
        world.recover();
        world.append("a", &[512]);
    }),
    Plan::new("leftovers_of_an_earlier_use", constructed::leftovers_of_an_earlier_use, |world| {
        world.recover();
        world.append("a", &[512]);
    }),
    Plan::new("checkpoint_of_an_earlier_use", constructed::foreign_checkpoint, |world| {
        world.recover();
        world.append("a", &[512]);
    }),
    Plan::new("file_under_another_name", constructed::file_under_another_name, |world| {
        world.recover();
        world.append("a", &[512]);
    }),
    Plan::new("payload_that_is_a_record", one_record, constructed::append_a_record_in_a_payload),
    Plan {
        prepare: unclosed,
        ..healing("heal_at_open", |world| {
            world.faulty = true;
            world.fs.inject(Fault::nth(OpKind::Sync, 0, failed_sync(Reached::Nothing)).on("logs/"));
            world.recover();
            world.append("a", &[512]);
        })
    },
];
