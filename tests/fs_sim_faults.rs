//! Crashes at an operation, injected faults, space, copies: the rest of the simulator.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll::fs::sim::{
    AllPersisted, Charges, Fault, NothingPersisted, Op, OpKind, Scripted, Seeded, SimFileSystem,
    What, When, is_death,
};
use plimsoll::fs::{File, FileSystem, Space, is_no_space};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/d";
const PATH: &str = "/d/file";
const BLOCK: u64 = 4096;

fn machine() -> SimFileSystem {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir(DIR).unwrap();
    fs
}

fn create(fs: &SimFileSystem, path: &str) -> Arc<dyn File> {
    fs.create(Path::new(path)).unwrap()
}

fn errno<T>(result: io::Result<T>) -> i32 {
    let Err(error) = result else { panic!("no error") };
    error.raw_os_error().unwrap_or_else(|| panic!("no errno in {error:?}"))
}

fn died<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| is_death(&error))
}

/// What the tests below crash: two operations on names, three on a file.
fn workload(fs: &dyn FileSystem) -> io::Result<()> {
    let file = fs.create(Path::new("/d/tmp"))?;
    file.write_at(0, &[7; 1000])?;
    file.sync()?;
    fs.rename(Path::new("/d/tmp"), Path::new(PATH))?;
    fs.sync_dir(Path::new(DIR))
}

#[test]
fn fs_every_call_is_counted_and_noted() {
    let fs = machine();
    assert_eq!(fs.ops(), 0);
    fs.record(true);
    workload(&fs).unwrap();
    let file = fs.open_read(Path::new(PATH)).unwrap();
    file.read_at(3, &mut [0; 10]).unwrap();
    file.len().unwrap();
    let kinds: Vec<OpKind> = fs.trace().iter().map(|op| op.kind).collect();
    use OpKind::*;
    assert_eq!(kinds, [Create, Write, Sync, Rename, SyncDir, Open, Read, Metadata]);
    assert_eq!(fs.ops(), 8);
    let trace = fs.trace();
    assert_eq!(trace[3].to.as_deref(), Some(Path::new(PATH)));
    let expected = Op { number: 6, kind: Read, path: PATH.into(), to: None, position: 3, len: 10 };
    assert_eq!(trace[6], expected);
    fs.cached(PATH).unwrap();
    assert_eq!(fs.files().len(), 1);
    assert_eq!(fs.fingerprint(), fs.fork().fingerprint());
    assert_eq!(fs.ops(), 8, "looking is no operation");
    fs.record(false);
    assert!(fs.trace().is_empty());
}

#[test]
fn fs_a_crash_at_each_operation_stops_there_and_at_all_later_ones() {
    let whole = machine();
    workload(&whole).unwrap();
    for at in 0..whole.ops() {
        let fs = machine();
        fs.crash_at(at);
        assert!(!fs.is_dead());
        assert!(died(workload(&fs)), "operation {at}");
        assert!(fs.is_dead());
        assert_eq!(fs.ops(), at, "the operation itself is not done");
        assert!(died(fs.metadata(Path::new(DIR))));
        fs.process_death();
        assert!(!fs.is_dead());
        let done = ["", "/d/tmp", "/d/tmp", "/d/tmp", "/d/file"][usize::try_from(at).unwrap()];
        let files: Vec<String> =
            fs.files().iter().map(|path| path.to_str().unwrap().to_string()).collect();
        assert_eq!(files.join(" "), done);
        // The new process works, and the old crash point is gone.
        fs.create(Path::new("/d/another")).unwrap().sync().unwrap();
    }
}

#[test]
fn fs_a_crash_in_a_write_leaves_its_first_bytes_in_the_cache() {
    let fs = machine();
    fs.crash_in_write(1, 600);
    assert!(died(workload(&fs)));
    assert!(fs.is_dead());
    fs.process_death();
    assert_eq!(fs.cached("/d/tmp").unwrap(), [7; 600]);
    assert_eq!(fs.durable("/d/tmp").unwrap(), []);
}

#[test]
fn fs_handles_and_locks_of_a_dead_process_are_dead() {
    let fs = machine();
    let process = fs.process();
    let file = process.create(Path::new(PATH)).unwrap();
    file.write_at(0, b"old").unwrap();
    let lock = process.lock(Path::new("/d/LOCK")).unwrap();
    fs.process_death();
    assert!(died(file.write_at(0, b"new")));
    assert!(died(file.read_at(0, &mut [0; 1])));
    assert!(died(file.sync()));
    assert!(died(file.len()));
    assert!(died(process.open_read(Path::new(PATH))));
    assert!(process.is_dead() && !fs.is_dead());
    assert_eq!(fs.cached(PATH).unwrap(), b"old");
    let again = fs.lock(Path::new("/d/LOCK")).unwrap();
    drop((lock, file));
    let taken = fs.lock(Path::new("/d/LOCK"));
    assert_eq!(taken.map(drop).unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(again);
    fs.lock(Path::new("/d/LOCK")).unwrap();
}

#[test]
fn fs_a_fault_strikes_where_it_was_aimed() {
    let fs = machine();
    create(&fs, "/d/a").write_at(0, b"1234").unwrap();
    create(&fs, "/d/b").write_at(0, b"1234").unwrap();
    let read = |path: &str| -> io::Result<usize> {
        fs.open_read(Path::new(path))?.read_raw(0, &mut [0; 4])
    };
    fs.inject(Fault::nth(OpKind::Read, 1, What::Errno(libc::EIO)).on("/b"));
    for _ in 0..3 {
        assert_eq!(read("/d/a").unwrap(), 4);
    }
    assert_eq!(read("/d/b").unwrap(), 4);
    assert_eq!(errno(read("/d/b")), libc::EIO);
    assert_eq!(read("/d/b").unwrap(), 4);
    assert_eq!(fs.faults_waiting(), 0);

    fs.inject(Fault::at_op(fs.ops() + 2, What::Errno(libc::EMFILE)));
    assert_eq!(read("/d/a").unwrap(), 4);
    assert_eq!(errno(read("/d/a")), libc::EMFILE);

    fs.inject(Fault::nth(OpKind::Open, 1, What::Errno(libc::EACCES)).forever());
    assert_eq!(read("/d/a").unwrap(), 4);
    assert_eq!(errno(read("/d/a")), libc::EACCES);
    assert_eq!(errno(read("/d/b")), libc::EACCES);
    fs.clear_faults();
    assert_eq!(read("/d/b").unwrap(), 4);

    fs.inject(Fault::new(When::Any(1), What::Errno(libc::EIO)).on("/b"));
    assert_eq!(read("/d/a").unwrap(), 4);
    fs.rename(Path::new("/d/b"), Path::new("/d/c")).unwrap();
    assert_eq!(errno(read("/d/b")), libc::EIO, "any kind counts, where the path matches");
    assert_eq!(read("/d/c").unwrap(), 4);
    fs.clear_faults();

    fs.inject(Fault::nth(OpKind::Rename, 0, What::Errno(libc::EXDEV)).on("/e"));
    assert_eq!(errno(fs.rename(Path::new("/d/c"), Path::new("/d/e"))), libc::EXDEV);
    assert!(fs.cached("/d/c").is_ok(), "the new path counts too, and nothing was renamed");
}

#[test]
fn fs_every_kind_can_fail() {
    type Call = fn(&SimFileSystem, &dyn File) -> io::Result<()>;
    let every: [(OpKind, Call); 19] = [
        (OpKind::Open, |fs, _| fs.open_read(Path::new(PATH)).map(drop)),
        (OpKind::Create, |fs, _| fs.create(Path::new("/d/new")).map(drop)),
        (OpKind::CreateDir, |fs, _| fs.create_dir(Path::new("/d/new"))),
        (OpKind::Rename, |fs, _| fs.rename(Path::new(PATH), Path::new("/d/new"))),
        (OpKind::RemoveFile, |fs, _| fs.remove_file(Path::new(PATH))),
        (OpKind::RemoveDir, |fs, _| fs.remove_dir(Path::new("/d/empty"))),
        (OpKind::List, |fs, _| fs.list(Path::new(DIR)).map(drop)),
        (OpKind::Metadata, |_, file| file.len().map(drop)),
        (OpKind::SyncDir, |fs, _| fs.sync_dir(Path::new(DIR))),
        (OpKind::Space, |fs, _| fs.space(Path::new(DIR)).map(drop)),
        (OpKind::Lock, |fs, _| fs.lock(Path::new("/d/LOCK")).map(drop)),
        (OpKind::Random, |fs, _| fs.random(&mut [0; 4])),
        (OpKind::Read, |_, file| file.read_at(0, &mut [0; 4]).map(drop)),
        (OpKind::Write, |_, file| file.write_at(0, b"1234")),
        (OpKind::Sync, |_, file| file.sync()),
        (OpKind::Allocate, |_, file| file.allocate(10_000)),
        (OpKind::SetLen, |_, file| file.set_len(10_000)),
        (OpKind::Place, |_, file| file.place().map(drop)),
        (OpKind::NoCopyOnWrite, |_, file| file.no_copy_on_write().map(drop)),
    ];
    assert_eq!(every.map(|(kind, _)| kind), OpKind::ALL);
    for (kind, call) in every {
        let fs = machine();
        fs.prepare_dir("/d/empty").unwrap();
        let file = create(&fs, PATH);
        let (image, ops) = (fs.fingerprint(), fs.ops());
        fs.inject(Fault::nth(kind, 0, What::Errno(libc::EIO)));
        assert_eq!(errno(call(&fs, &*file)), libc::EIO, "{kind:?}");
        assert_eq!(fs.fingerprint(), image, "{kind:?} failed and did something");
        assert_eq!(fs.ops(), ops + 1);
        call(&fs, &*file).unwrap();
        assert!(kind.changes() || fs.fingerprint() == image, "{kind:?} changes the image");
    }
}

#[test]
fn fs_done_and_then_an_error() {
    let fs = machine();
    let file = create(&fs, PATH);
    for (kind, path) in [(OpKind::Rename, "/d/new"), (OpKind::Create, "/d/made")] {
        fs.inject(Fault::nth(kind, 0, What::DoneThen(libc::EIO)));
        let result = match kind {
            OpKind::Rename => fs.rename(Path::new(PATH), Path::new("/d/new")),
            _ => fs.create(Path::new("/d/made")).map(drop),
        };
        assert_eq!(errno(result), libc::EIO);
        assert!(fs.cached(path).is_ok(), "{kind:?} was done");
    }
    file.write_at(0, b"bytes").unwrap();
    fs.sync_dir(Path::new(DIR)).unwrap();
    fs.inject(Fault::nth(OpKind::Sync, 0, What::DoneThen(libc::EIO)));
    assert_eq!(errno(file.sync()), libc::EIO);
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(fs.cached("/d/new").unwrap(), b"bytes");
}

#[test]
fn fs_short_transfers_and_interruptions_are_finished_by_the_provided_calls() {
    let fs = machine();
    let file = create(&fs, PATH);
    fs.inject(Fault::nth(OpKind::Write, 0, What::Short(3)));
    // It stops at the end of a sector, and not within one.
    let bytes: Vec<u8> = (0..1_300_u32).map(|at| (at % 251) as u8).collect();
    assert_eq!(file.write_raw(0, &bytes).unwrap(), 512);
    fs.inject(Fault::nth(OpKind::Write, 0, What::Short(4)));
    assert_eq!(file.write_raw(510, &bytes[510..]).unwrap(), 514);
    fs.inject(Fault::nth(OpKind::Write, 0, What::Short(600)));
    fs.inject(Fault::nth(OpKind::Write, 1, What::Interrupted));
    file.write_at(0, &bytes).unwrap();
    assert_eq!(fs.cached(PATH).unwrap(), bytes);
    fs.inject(Fault::nth(OpKind::Read, 0, What::Interrupted));
    fs.inject(Fault::nth(OpKind::Read, 1, What::Short(1)));
    let mut into = [0; 10];
    assert_eq!(file.read_at(0, &mut into).unwrap(), 10);
    assert_eq!(into, bytes[..10]);
    fs.inject(Fault::nth(OpKind::Write, 0, What::Short(0)));
    assert_eq!(file.write_at(0, b"x").unwrap_err().kind(), ErrorKind::WriteZero);
}

#[test]
fn fs_an_interrupted_sync_keeps_what_is_dirty() {
    let fs = machine();
    let file = create(&fs, PATH);
    fs.sync_dir(Path::new(DIR)).unwrap();
    file.write_at(0, b"bytes").unwrap();
    fs.inject(Fault::nth(OpKind::Sync, 0, What::Interrupted));
    assert_eq!(errno(file.sync()), libc::EINTR);
    file.sync().unwrap();
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(fs.cached(PATH).unwrap(), b"bytes");
}

#[test]
fn fs_a_file_system_that_turns_read_only_stays_so_until_the_machine_restarts() {
    let fs = machine();
    let file = create(&fs, PATH);
    fs.inject(Fault::nth(OpKind::Sync, 0, What::ReadOnly));
    assert_eq!(errno(file.sync()), libc::EIO);
    assert_eq!(errno(file.write_at(0, b"x")), libc::EROFS);
    assert_eq!(errno(fs.create(Path::new("/d/b"))), libc::EROFS);
    assert_eq!(errno(fs.remove_file(Path::new(PATH))), libc::EROFS);
    assert_eq!(file.read_at(0, &mut [0; 1]).unwrap(), 0);
    fs.process_death();
    assert_eq!(errno(fs.create(Path::new("/d/b"))), libc::EROFS);
    fs.power_cut(&mut AllPersisted);
    create(&fs, "/d/b");
}

#[test]
fn fs_a_full_disk_refuses_new_blocks_and_takes_overwrites() {
    let fs = machine();
    fs.set_capacity(Some(4 * BLOCK));
    let file = create(&fs, PATH);
    file.allocate(2 * BLOCK).unwrap();
    assert_eq!(fs.used(), 2 * BLOCK);
    assert!(is_no_space(&file.allocate(5 * BLOCK).unwrap_err()));
    assert_eq!(file.len().unwrap(), 2 * BLOCK);
    let other = create(&fs, "/d/other");
    assert_eq!(other.write_raw(100, &[1; 9000]).unwrap(), 8092, "what there is room for");
    assert_eq!(errno(other.write_at(8192, b"x")), libc::ENOSPC);
    assert_eq!(errno(other.write_at(0, &[1; 9000])), libc::ENOSPC);
    file.write_at(0, &[2; 8192]).unwrap();
    let space = fs.space(Path::new(DIR)).unwrap();
    assert_eq!((space.total, space.available), (4 * BLOCK, 0));
    // Blocks come back when the last name and the last handle are gone.
    fs.remove_file(Path::new("/d/other")).unwrap();
    assert_eq!(fs.used(), 4 * BLOCK);
    drop(other);
    assert_eq!(fs.used(), 2 * BLOCK);
    file.set_len(100).unwrap();
    assert_eq!(fs.used(), BLOCK);
    let third = create(&fs, "/d/third");
    third.allocate(BLOCK).unwrap();
    fs.rename(Path::new("/d/third"), Path::new(PATH)).unwrap();
    fs.process_death();
    assert_eq!(fs.used(), BLOCK, "a replaced file goes with the process that held it");
}

#[test]
fn fs_a_removed_file_that_a_power_cut_brings_back_takes_its_blocks_again() {
    let fs = machine();
    create(&fs, PATH)
        .write_and_sync(&[plimsoll::fs::Write { position: 0, bytes: &[1; 8192] }])
        .unwrap();
    fs.sync_dir(Path::new(DIR)).unwrap();
    fs.remove_file(Path::new(PATH)).unwrap();
    assert_eq!(fs.used(), 0);
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(fs.used(), 2 * BLOCK);
    assert_eq!(fs.cached(PATH).unwrap(), [1; 8192]);
}

#[test]
fn fs_copy_on_write_charges_overwrites_until_the_sync() {
    let fs = machine();
    fs.set_capacity(Some(3 * BLOCK));
    fs.set_charges(Charges { overwrites: true, ..Charges::default() });
    let file = create(&fs, PATH);
    file.write_at(0, &[1; 8192]).unwrap();
    file.sync().unwrap();
    file.write_at(0, b"one").unwrap();
    file.write_at(0, b"two").unwrap();
    assert_eq!(fs.used(), 3 * BLOCK, "a dirty block is charged once");
    assert_eq!(errno(file.write_at(BLOCK, b"x")), libc::ENOSPC);
    file.sync().unwrap();
    assert_eq!(fs.used(), 2 * BLOCK);
    file.write_at(BLOCK, b"x").unwrap();
    drop(file);
    fs.remove_file(Path::new(PATH)).unwrap();
    assert_eq!(fs.used(), 0);
}

#[test]
fn fs_inodes_and_renames_may_cost_too() {
    let fs = machine();
    fs.set_capacity(Some(3 * BLOCK));
    fs.set_charges(Charges { create: 1, rename: 2, ..Charges::default() });
    create(&fs, PATH);
    fs.create_dir(Path::new("/d/dir")).unwrap();
    assert_eq!(errno(fs.rename(Path::new(PATH), Path::new("/d/new"))), libc::ENOSPC);
    assert!(fs.cached(PATH).is_ok());
    fs.remove_dir(Path::new("/d/dir")).unwrap();
    fs.rename(Path::new(PATH), Path::new("/d/new")).unwrap();
    assert_eq!(fs.used(), BLOCK);
    fs.set_capacity(Some(BLOCK));
    assert_eq!(errno(fs.create(Path::new("/d/more"))), libc::ENOSPC);
    assert_eq!(fs.files(), [Path::new("/d/new")]);
}

#[test]
fn fs_a_thin_device_fails_at_the_sync() {
    let fs = machine();
    fs.set_capacity(Some(BLOCK));
    fs.set_charges(Charges { at_sync: true, ..Charges::default() });
    let file = create(&fs, PATH);
    file.write_at(0, &[1; 4096]).unwrap();
    file.sync().unwrap();
    file.write_at(0, &[2; 8192]).unwrap();
    assert_eq!(errno(file.sync()), libc::ENOSPC);
    fs.evict_all();
    assert_eq!(fs.cached(PATH).unwrap()[0], 1);
}

#[test]
fn fs_the_nth_charge_fails() {
    let fs = machine();
    let file = create(&fs, PATH);
    fs.inject(Fault::new(When::Charge(2), What::Errno(libc::EDQUOT)));
    assert_eq!(file.write_raw(0, &[1; 20_000]).unwrap(), 8192);
    assert!(fs.faults_waiting() == 0);
    file.write_at(8192, &[1; 5000]).unwrap();
    fs.inject(Fault::new(When::Charge(0), What::Errno(libc::ENOSPC)).forever());
    file.write_at(0, &[2; 10_000]).unwrap();
    for _ in 0..3 {
        assert!(is_no_space(&file.allocate(1 << 20).unwrap_err()));
    }
}

#[test]
fn fs_a_free_space_call_may_lie_and_fail() {
    let fs = machine();
    let lie = Space { total: 10, available: 99, ..Space::default() };
    fs.set_space(Some(lie));
    assert_eq!(fs.space(Path::new(DIR)).unwrap(), lie);
    fs.inject(Fault::nth(OpKind::Space, 0, What::Errno(libc::EIO)));
    assert_eq!(errno(fs.space(Path::new(DIR))), libc::EIO);
    fs.set_space(None);
    assert_ne!(fs.space(Path::new(DIR)).unwrap(), lie);
}

#[test]
fn fs_reserving_may_be_unsupported() {
    let fs = machine();
    fs.inject(Fault::nth(OpKind::Allocate, 0, What::Errno(libc::EOPNOTSUPP)).forever());
    let error = create(&fs, PATH).allocate(4096).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn fs_a_fork_is_independent_and_keeps_what_is_pending() {
    let fs = machine();
    let file = create(&fs, PATH);
    file.write_at(0, &[1; 600]).unwrap();
    let fork = fs.fork();
    file.write_at(0, &[2; 600]).unwrap();
    assert_eq!(fork.cached(PATH).unwrap(), [1; 600]);
    fork.open_write(Path::new(PATH)).unwrap().write_at(0, &[3; 600]).unwrap();
    fork.power_cut(&mut AllPersisted);
    assert_eq!(fork.cached(PATH).unwrap(), [3; 600]);
    assert_eq!(fs.cached(PATH).unwrap(), [2; 600]);
    file.sync().unwrap();
    let lost = fs.fork();
    lost.power_cut(&mut NothingPersisted);
    assert!(lost.files().is_empty(), "the name was still pending");
}

#[test]
fn fs_a_snapshot_restores_all_and_ends_the_process() {
    let fs = machine();
    let file = create(&fs, PATH);
    file.write_at(0, b"then").unwrap();
    let lock = fs.lock(Path::new("/d/LOCK")).unwrap();
    let snapshot = fs.snapshot();
    let (ops, used) = (fs.ops(), fs.used());
    file.write_at(0, &[9; 50_000]).unwrap();
    file.sync().unwrap();
    fs.remove_file(Path::new(PATH)).unwrap();
    fs.restore(&snapshot);
    assert_eq!((fs.ops(), fs.used()), (ops, used));
    assert_eq!(fs.cached(PATH).unwrap(), b"then");
    assert_eq!(fs.durable(PATH).unwrap(), b"");
    assert!(died(file.sync()));
    drop(lock);
    fs.lock(Path::new("/d/LOCK")).unwrap();
}

#[test]
fn fs_the_same_seed_and_calls_give_the_same_machine() {
    let run = |seed: u64| {
        let fs = SimFileSystem::new(seed);
        fs.prepare_dir(DIR).unwrap();
        for round in 0..50_u64 {
            let mut random = [0; 24];
            fs.random(&mut random).unwrap();
            let path = format!("/d/{}", random[0] % 8);
            let file = fs.open_write(Path::new(&path)).or_else(|_| fs.create(Path::new(&path)));
            file.unwrap().write_at(u64::from(random[1]) * 40, &random).unwrap();
            if round % 7 == 3 {
                fs.power_cut(&mut Seeded::new(seed ^ round));
            }
        }
        (fs.fingerprint(), fs.ops(), fs.used())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}

#[test]
fn fs_the_fingerprint_tells_images_apart() {
    let fs = machine();
    let file = create(&fs, PATH);
    let mut seen = std::collections::BTreeSet::from([fs.fingerprint()]);
    let mut differs = |fs: &SimFileSystem| assert!(seen.insert(fs.fingerprint()));
    file.set_len(1).unwrap();
    differs(&fs);
    file.set_len(10_000).unwrap();
    differs(&fs);
    file.write_at(9000, b"x").unwrap();
    differs(&fs);
    fs.rename(Path::new(PATH), Path::new("/d/fil")).unwrap();
    differs(&fs);
    fs.create_dir(Path::new(PATH)).unwrap();
    differs(&fs);
    let image = fs.fingerprint();
    file.write_at(0, &[0; 5000]).unwrap();
    assert_eq!(fs.fingerprint(), image, "zeroes written are zeroes");
    for position in [0, 9000] {
        let image = fs.fingerprint();
        fs.flip("/d/fil", position, 1).unwrap();
        assert_ne!(fs.fingerprint(), image, "a flip at {position} shows");
        fs.flip("/d/fil", position, 1).unwrap();
        assert_eq!(fs.fingerprint(), image, "and flipped back it does not");
    }
}

/// The pattern that the crash tests use: crash at each operation, every outcome of the cut.
#[test]
fn fs_all_futures_of_a_workload() {
    let whole = machine();
    workload(&whole).unwrap();
    let mut outcomes = 0;
    for at in 0..=whole.ops() {
        let fs = machine();
        fs.crash_at(at);
        assert_eq!(workload(&fs).is_ok(), at == whole.ops());
        let mut script = Scripted::default();
        loop {
            let world = fs.fork();
            world.power_cut(&mut script);
            outcomes += 1;
            for path in world.files() {
                let bytes = world.cached(&path).unwrap();
                let renamed = path == Path::new(PATH);
                // The rename came after the sync, so whoever has the new name has the bytes.
                assert!(!renamed || bytes == [7; 1000], "{path:?} after operation {at}");
                assert!(bytes.is_empty() || bytes.len() == 1000);
            }
            if at == whole.ops() {
                assert_eq!(world.files(), [Path::new(PATH)]);
            }
            if !script.advance() {
                break;
            }
        }
    }
    // By crash point: nothing; the name; no name, no length, or 2 sectors; the name; name and rename; all.
    // A file that loses its name or its length has no choices left.
    assert_eq!(outcomes, 1 + 2 + (1 + 1 + 2 * 2) + 2 + 3 + 1);
}

#[test]
fn fs_bad_sectors_fail_reads_until_their_blocks_are_written_whole() {
    let fs = machine();
    let file = create(&fs, PATH);
    file.write_at(0, &[1; 12_000]).unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new(DIR)).unwrap();
    fs.make_unreadable(PATH, 5000..5001).unwrap();
    fs.make_unreadable(PATH, 50_000..60_000).unwrap();
    for _ in 0..2 {
        let file = fs.open_write(Path::new(PATH)).unwrap();
        let mut into = [0; 12_000];
        assert_eq!(file.read_raw(100, &mut into).unwrap(), 3996, "up to the bad block");
        assert_eq!(errno(file.read_at(100, &mut into)), libc::EIO);
        assert_eq!(errno(file.read_raw(8191, &mut into)), libc::EIO);
        assert_eq!(file.read_raw(8192, &mut into).unwrap(), 3808);
        assert_eq!(errno(file.write_at(6000, b"x")), libc::EIO);
        fs.power_cut(&mut AllPersisted);
    }
    let file = fs.open_write(Path::new(PATH)).unwrap();
    file.write_at(4096, &[2; 4096]).unwrap();
    assert_eq!(file.read_at(0, &mut [0; 12_000]).unwrap(), 12_000);
    file.write_at(6000, b"x").unwrap();
}

#[test]
fn fs_each_power_cut_tries_all_or_says_that_it_did_not() {
    let fs = machine();
    let file = create(&fs, PATH);
    file.write_at(0, &[1; 2048]).unwrap();
    let mut images = std::collections::BTreeSet::new();
    let all = fs.each_power_cut(100, 1, |world, script| {
        let image = world.fingerprint();
        assert!(images.insert(image), "no outcome comes twice");
        let again = fs.fork();
        again.power_cut(&mut Scripted::new(script.to_vec()));
        assert_eq!(again.fingerprint(), image);
    });
    // No name; or a name with a length of 0; or with the whole length and any of four sectors.
    assert!(all.exhausted);
    assert_eq!(all.tried, 1 + 1 + 16);

    let part = fs.each_power_cut(12, 1, |world, script| {
        assert!(images.contains(&world.fingerprint()), "a sample is one of all outcomes");
        let again = fs.fork();
        again.power_cut(&mut Scripted::new(script.to_vec()));
        assert_eq!(again.fingerprint(), world.fingerprint());
    });
    assert_eq!((part.tried, part.exhausted), (12, false));
    let mut sampled = std::collections::BTreeSet::new();
    let file = create(&fs, "/d/large");
    file.write_at(0, &[1; 100_000]).unwrap();
    let part = fs.each_power_cut(500, 1, |world, _| {
        sampled.insert(world.fingerprint());
    });
    assert_eq!((part.tried, part.exhausted), (500, false));
    assert!(sampled.len() > 200, "only {} different ones", sampled.len());
}
