//! Cases of failing disks that users of other systems met, by their ids, on the simulated file system.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    missing_docs,
    reason = "not the engine: a test"
)]
#![allow(non_snake_case, reason = "tests are named for the cases that they hold")]

use faultlab::sim::world::{SIZES, World};
use plimsoll::error::{AppendError, Outcome, PublishError};
use plimsoll::fs::sim::{
    AllPersisted, Fault, NothingPersisted, OpKind, Reached, Seeded, SimFileSystem, What,
};
use plimsoll::permit::{Decision, PERMIT_LIFE, PermitError};
use plimsoll::{NewRecord, NodeOptions, Offset, WriteClass};
use std::time::Duration;

fn running() -> World {
    let mut world = World::new(1, SIZES);
    world.start();
    world.open("a");
    world
}

type Crash = Box<dyn Fn(&SimFileSystem)>;

/// Every way to go down.
fn crashes() -> Vec<(&'static str, Crash)> {
    vec![
        ("death", Box::new(|fs| fs.process_death())),
        (
            "death, and the cache is dropped",
            Box::new(|fs| {
                fs.process_death();
                fs.evict_all();
            }),
        ),
        ("power, all got there", Box::new(|fs| fs.power_cut(&mut AllPersisted))),
        ("power, nothing got there", Box::new(|fs| fs.power_cut(&mut NothingPersisted))),
        ("power, some got there", Box::new(|fs| fs.power_cut(&mut Seeded::new(4)))),
    ]
}

/// Crashes the world in every way and lets the oracle look at each.
fn crash_in_every_way(world: &World) {
    for (what, crash) in crashes() {
        let mut world = world.fork();
        world.faulty = false;
        crash(&world.fs);
        world.recover();
        assert!(world.append("a", &[512]), "{what}: the log takes appends");
    }
}

#[test]
fn case_C1_a_failed_sync_is_never_retried_and_its_file_never_written_again() {
    for failing in 0..6 {
        for reached in [Reached::Nothing, Reached::Some(3), Reached::Everything] {
            let mut world = running();
            world.fs.record(true);
            // Of the syncs of data, counted from the next: those of new files are in here too.
            let what = What::FailedSync { errno: libc::EIO, reached };
            world.inject(Fault::nth(OpKind::Sync, failing, what));
            let confirmed = (0..10).filter(|_| world.append("a", &[512])).count();
            assert!(confirmed >= 9, "one append is lost at most, {confirmed} were confirmed");
            crash_in_every_way(&world);

            let trace = world.fs.trace();
            let syncs = trace.iter().filter(|op| op.kind == OpKind::Sync);
            let failed = syncs.clone().nth(usize::try_from(failing).unwrap()).unwrap();
            // Where it holds nothing durable another file gets its name, which may be written.
            let mut later = trace.iter().filter(|op| op.number > failed.number);
            let again =
                later.by_ref().take_while(|op| op.to.as_ref() != Some(&failed.path)).find(|op| {
                    op.path == failed.path && matches!(op.kind, OpKind::Sync | OpKind::Write)
                });
            assert_eq!(again, None, "{} is used again", failed.path.display());
        }
    }
}

#[test]
fn case_C2_a_write_that_failed_half_way_leaves_nothing() {
    for short in [0, 100, 512, 1000, 3000] {
        let mut world = World::new(1, SIZES);
        world.start();
        world.open("a");
        // So that the file is opened by its name in the log, and A does not need a new one.
        world.append("a", &[3000]);
        world.append("a", &[3000]);
        world.close();
        world.recover();
        let before = world.log("a").durable();
        world.inject(Fault::nth(OpKind::Write, 0, What::Short(short)).on("logs/"));
        world.inject(Fault::nth(OpKind::Write, 1, What::Errno(libc::ENOSPC)).on("logs/"));
        world.must_fail("a", &[4096]);
        world.mend();
        world.must_append("a", &[512]);
        world.read("a");
        assert_eq!(world.log("a").durable(), Offset(before.0 + 1), "B has the offset that A had");
        crash_in_every_way(&world);
        for (what, crash) in crashes() {
            let mut world = world.fork();
            crash(&world.fs);
            world.recover();
            let durable = world.log("a").durable();
            assert_eq!(durable, Offset(before.0 + 1), "{what}: only B is there");
        }
    }
}

#[test]
fn case_D4_space_that_cannot_be_reserved_is_written() {
    let refusals = [libc::EOPNOTSUPP, libc::ENOSYS, libc::EINVAL, libc::EINTR, libc::ENOSPC];
    for errno in refusals {
        for forever in [false, true] {
            let mut world = running();
            let fault = Fault::nth(OpKind::Allocate, 0, What::Errno(errno));
            world.inject(if forever { fault.forever() } else { fault });
            // 40 MiB are free, whatever the call says.
            world.fs.set_capacity(Some(40 << 20));
            for _ in 0..20 {
                assert!(world.append("a", &[3000]), "errno {errno}");
            }
            assert!(world.log("a").segments().len() > 3);
            crash_in_every_way(&world);
        }
    }
}

#[test]
fn case_D4_a_full_disk_is_called_full_only_after_a_plain_write() {
    let mut world = running();
    world.append("a", &[3000]);
    world.fs.set_capacity(Some(world.fs.used() + 8192));
    world.faulty = true;
    world.fs.record(true);
    assert!(!world.append("a", &[3000]));
    let trace = world.fs.trace();
    let reserved = trace.iter().position(|op| op.kind == OpKind::Allocate).unwrap();
    assert!(trace[reserved..].iter().any(|op| op.kind == OpKind::Write), "it was tried");
}

#[test]
fn case_D5_a_full_disk_stops_no_start_and_no_log() {
    let mut world = World::new(1, SIZES);
    world.start();
    let logs = ["a", "b", "c", "d", "e"];
    for log in logs {
        world.open(log);
        for _ in 0..5 {
            assert!(world.append(log, &[1024, 1024]));
        }
    }
    for clean in [true, false] {
        let mut world = world.fork();
        if clean {
            world.recover();
            world.close();
        } else {
            world.fs.power_cut(&mut AllPersisted);
        }
        world.fs.set_capacity(Some(world.fs.used()));
        // Opening, reading and truncating need no new bytes.
        world.recover();
        world.faulty = true;
        for log in logs {
            // What fits the file is taken, what needs another one is refused as not written.
            let next = world.log(log).durable();
            assert!(world.append(log, &[100]), "{log}");
            while world.append(log, &[1024]) {}
            assert!(world.log(log).stopped().is_none(), "a full disk stops no log");
            assert!(world.log(log).durable() > next);
            world.read(log);
        }
        let refused = world.log("b").publish(WriteClass::Publish, &[NewRecord::new(&[0; 4000])]);
        let refused = refused.unwrap_err();
        assert_eq!(refused.outcome(), Outcome::NotWritten);
        assert!(
            matches!(&refused, PublishError::Append(AppendError::Disk(disk)) if disk.is_no_space()),
            "{refused}"
        );
        for log in logs {
            world.truncate_all(log);
            world.read(log);
        }
        assert!(world.append("b", &[4000]), "what was freed serves at once");
        world.fs.set_capacity(None);
        for log in logs {
            assert!(world.append(log, &[1024, 1024]), "{log} goes on by itself");
        }
        crash_in_every_way(&world);
    }
}

#[test]
fn i9_a_batch_that_finds_no_room_for_its_files_leaves_nothing() {
    // A batch over three files, with room for one, two, three of them and a little more or less.
    for room in (0..20).map(|blocks| blocks * 4096) {
        let mut world = running();
        world.append("a", &[512]);
        world.fs.set_capacity(Some(world.fs.used() + room));
        world.faulty = true;
        let next = world.log("a").tail();
        if !world.append("a", &[1024; 14]) {
            assert_eq!(world.log("a").tail(), next, "{room} bytes: something was staged");
        }
        // Its own file takes more.
        assert!(world.append("a", &[512]), "{room} bytes");
        world.read("a");
        crash_in_every_way_with_room(&world);
    }
}

fn crash_in_every_way_with_room(world: &World) {
    let world = world.fork();
    world.fs.set_capacity(None);
    crash_in_every_way(&world);
}

#[test]
fn no_descriptor_for_an_idle_log_is_not_written_and_the_log_goes_on() {
    for idle in [false, true] {
        let mut world = World::new(1, SIZES);
        world.options = NodeOptions::default();
        world.options.open_files = 1;
        world.start();
        for log in ["a", "b"] {
            world.open(log);
            assert!(world.append(log, &[512]));
        }
        if idle {
            world.idle();
            world.append("b", &[512]);
        }
        assert_eq!(world.node().open_files(), 1);
        world.inject(Fault::nth(OpKind::Open, 0, What::Errno(libc::EMFILE)).on("logs/a").forever());
        let next = world.log("a").tail();
        for _ in 0..3 {
            let error =
                world.log("a").publish(WriteClass::Publish, &[NewRecord::new(b"x")]).unwrap_err();
            assert_eq!(error.outcome(), Outcome::NotWritten, "{error}");
            assert_eq!(world.log("a").tail(), next);
        }
        // The others are not affected.
        assert!(world.append("b", &[512]));
        world.mend();
        assert!(world.log("a").stopped().is_none());
        assert!(world.append("a", &[512]));
        world.read("a");
        crash_in_every_way(&world);
    }
}

#[test]
fn a_permit_is_good_for_its_bytes_and_its_time_only() {
    let mut world = running();
    world.append("a", &[512]);
    let permit = |world: &World, bytes: u64| {
        let Decision::Admit(permit) = world.log("a").admit(WriteClass::Publish, bytes) else {
            panic!("the gate is open")
        };
        permit
    };
    let refused = |world: &World, error: AppendError| {
        assert_eq!(PublishError::from(error).outcome(), Outcome::NotWritten);
        assert_eq!(world.log("a").tail(), Offset(1), "nothing was staged");
    };
    let batch = [NewRecord { headers: b"12", payload: b"345" }; 2];
    let small = world.log("a").append(permit(&world, 9), &batch).unwrap_err();
    assert!(
        matches!(small, AppendError::Permit(PermitError::TooSmall { permitted: 9, asked: 10 })),
        "{small}"
    );
    refused(&world, small);
    let old = permit(&world, 10);
    world.clock.advance(PERMIT_LIFE + Duration::from_nanos(1));
    let error = world.log("a").try_append(&old, &batch).unwrap_err();
    assert!(matches!(error, AppendError::Permit(PermitError::Expired)), "{error}");
    refused(&world, error);
    let error = world.log("a").append(old, &batch).unwrap_err();
    assert!(matches!(error, AppendError::Permit(PermitError::Expired)), "{error}");
    refused(&world, error);
    let last = permit(&world, 10);
    world.clock.advance(PERMIT_LIFE);
    world.log("a").append(last, &batch).unwrap().wait().unwrap();
    assert_eq!(world.log("a").durable(), Offset(3));
}
