//! Overwriting in place: what the simulator charges and shows, and what the probe makes of it.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll::fs::sim::{
    Charges, Fault, NothingPersisted, OpKind, SimFileSystem, What, When, is_death,
};
use plimsoll::fs::{File, FileSystem, Write, reserves};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/d";
const BLOCK: u64 = 4096;
const IN_PLACE: Charges = Charges {
    overwrites: false,
    no_flag: false,
    pretends: false,
    create: 0,
    rename: 0,
    at_sync: false,
};
const COPIES: Charges = Charges { overwrites: true, ..IN_PLACE };

fn machine(charges: Charges) -> SimFileSystem {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir(DIR).unwrap();
    fs.set_charges(charges);
    fs
}

fn create(fs: &SimFileSystem) -> Arc<dyn File> {
    fs.create(Path::new("/d/file")).unwrap()
}

fn write(file: &dyn File, position: u64) {
    file.write_and_sync(&[Write { position, bytes: &[1; 4096] }]).unwrap();
}

fn probe(fs: &SimFileSystem) -> io::Result<bool> {
    reserves(fs, Path::new(DIR))
}

#[test]
fn fs_the_flag_takes_a_file_out_of_copy_on_write() {
    let fs = machine(COPIES);
    fs.set_capacity(Some(BLOCK));
    let file = create(&fs);
    assert!(file.no_copy_on_write().unwrap());
    write(&*file, 0);
    let place = file.place().unwrap().unwrap();
    write(&*file, 0);
    assert_eq!((file.place().unwrap(), fs.used()), (Some(place), BLOCK));
    // The flag is the file's, whichever handle and process asks, and through crashes.
    file.sync().unwrap();
    fs.sync_dir(Path::new(DIR)).unwrap();
    fs.power_cut(&mut NothingPersisted);
    let file = fs.fork().open_write(Path::new("/d/file")).unwrap();
    write(&*file, 0);
    assert_eq!(file.place().unwrap(), Some(place));
}

#[test]
fn fs_the_flag_is_taken_only_for_an_empty_file_where_there_is_one() {
    for (charges, taken) in [
        (COPIES, true),
        (IN_PLACE, false),
        (Charges { no_flag: true, ..COPIES }, false),
        (Charges { no_flag: true, ..IN_PLACE }, false),
    ] {
        let file = create(&machine(charges));
        assert_eq!(file.no_copy_on_write().unwrap(), taken, "{charges:?}");
    }
    let fs = machine(COPIES);
    fs.set_capacity(Some(BLOCK));
    let file = create(&fs);
    write(&*file, 0);
    assert!(!file.no_copy_on_write().unwrap(), "it has bytes");
    assert_eq!(file.write_at(0, b"x").unwrap_err().raw_os_error(), Some(libc::ENOSPC));
}

#[test]
fn fs_a_copied_block_has_another_place() {
    let fs = machine(COPIES);
    let (file, other) = (create(&fs), fs.create(Path::new("/d/other")).unwrap());
    assert_eq!(file.place().unwrap(), None);
    file.allocate(2 * BLOCK).unwrap();
    let mut seen = vec![file.place().unwrap().unwrap()];
    for _ in 0..3 {
        write(&*file, 0);
        seen.push(file.place().unwrap().unwrap());
        write(&*file, BLOCK);
        assert_eq!(file.place().unwrap(), seen.last().copied(), "another block was copied");
    }
    write(&*other, 0);
    seen.push(other.place().unwrap().unwrap());
    let all = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), all, "{seen:?}");
}

#[test]
fn fs_looking_at_a_place_is_an_operation_that_changes_nothing() {
    let fs = machine(COPIES);
    let file = create(&fs);
    fs.record(true);
    file.place().unwrap();
    file.no_copy_on_write().unwrap();
    let kinds: Vec<OpKind> = fs.trace().iter().map(|op| op.kind).collect();
    assert_eq!(kinds, [OpKind::Place, OpKind::NoCopyOnWrite]);
    assert!(!OpKind::Place.changes() && OpKind::NoCopyOnWrite.changes());
}

#[test]
fn probe_tells_what_can_be_counted_on() {
    for (charges, reserved) in [
        (IN_PLACE, true),
        (COPIES, true),
        (Charges { no_flag: true, ..COPIES }, false),
        (Charges { pretends: true, ..IN_PLACE }, false),
        (Charges { pretends: true, ..COPIES }, false),
    ] {
        let fs = machine(charges);
        assert_eq!(probe(&fs).unwrap(), reserved, "{charges:?}");
        assert!(fs.files().is_empty());
        assert_eq!(fs.used(), 0);
    }
}

#[test]
fn probe_takes_a_refused_allocation_for_no_reserve() {
    for code in [libc::EOPNOTSUPP, libc::ENOSYS] {
        let fs = machine(IN_PLACE);
        fs.inject(Fault::nth(OpKind::Allocate, 0, What::Errno(code)));
        assert!(!probe(&fs).unwrap());
        assert!(fs.files().is_empty());
        assert!(probe(&fs).unwrap());
    }
}

#[test]
fn probe_gives_errors_back_and_leaves_no_file() {
    let whole = machine(COPIES);
    assert!(probe(&whole).unwrap());
    let mut failed = 0;
    for at in 0..whole.ops() {
        for code in [libc::EIO, libc::ENOSPC, libc::EDQUOT] {
            let fs = machine(COPIES);
            fs.record(true);
            fs.inject(Fault::at_op(at, What::Errno(code)));
            let error = probe(&fs).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(code), "operation {at}");
            let struck = &fs.trace()[usize::try_from(at).unwrap()];
            let last = struck.kind == OpKind::RemoveFile && at > 0;
            assert_eq!(fs.files().is_empty(), !last, "{struck:?}");
            assert!(probe(&fs).unwrap(), "and works when asked again");
            assert!(fs.files().is_empty());
            failed += 1;
        }
    }
    assert!(failed >= 3 * 12, "{failed}");
}

#[test]
fn probe_on_a_full_disk_says_so() {
    for blocks in 0..16 {
        let fs = machine(IN_PLACE);
        fs.set_capacity(Some(blocks * BLOCK));
        assert_eq!(probe(&fs).unwrap_err().kind(), ErrorKind::StorageFull, "{blocks}");
        assert!(fs.files().is_empty());
    }
    let fs = machine(IN_PLACE);
    fs.set_capacity(Some(16 * BLOCK));
    assert!(probe(&fs).unwrap());
    fs.set_charges(Charges { no_flag: true, ..COPIES });
    assert_eq!(probe(&fs).unwrap_err().kind(), ErrorKind::StorageFull);
    fs.inject(Fault::new(When::Charge(0), What::Errno(libc::EDQUOT)));
    assert_eq!(probe(&fs).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    assert_eq!(fs.used(), 0);
}

#[test]
fn probe_after_a_crash_at_each_step_clears_up_and_tells_the_same() {
    let whole = machine(COPIES);
    assert!(probe(&whole).unwrap());
    let mut left = 0;
    for at in 0..whole.ops() {
        let fs = machine(COPIES);
        fs.crash_at(at);
        assert!(is_death(&probe(&fs).unwrap_err()));
        fs.process_death();
        left += fs.files().len();
        assert!(probe(&fs).unwrap(), "operation {at}");
        assert!(fs.files().is_empty());
    }
    assert!(left > 5, "the crashes left files behind: {left}");
}
