//! What the simulated disk makes of direct writes: what a sync of one leaves out, and what is shown when it fails.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use plimsoll::fs::sim::{
    AllPersisted, Charges, Fault, NothingPersisted, OpKind, Reached, SimFileSystem, What,
};
use plimsoll::fs::{Block, DIRECT_ALIGN, File, FileSystem, Write};
use std::path::Path;
use std::sync::Arc;

const FILE: &str = "/d/file";
const PAGE: u64 = DIRECT_ALIGN as u64;

/// A durable file of four blocks of ones; it is open for buffered writes, and for direct ones.
fn machine() -> (SimFileSystem, Arc<dyn File>, Arc<dyn File>) {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/d").unwrap();
    let buffered = fs.create(Path::new(FILE)).unwrap();
    buffered.write_at(0, &[1; 4 * DIRECT_ALIGN]).unwrap();
    buffered.sync().unwrap();
    fs.sync_dir(Path::new("/d")).unwrap();
    let direct = fs.open_direct(Path::new(FILE)).unwrap().unwrap();
    (fs, buffered, direct)
}

fn block(fill: u8) -> Block {
    Block([fill; DIRECT_ALIGN])
}

fn commit(file: &dyn File, position: u64, fill: u8) -> std::io::Result<()> {
    file.write_and_sync(&[Write { position, bytes: &block(fill).0 }])
}

/// The first byte of each block.
fn firsts(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().step_by(DIRECT_ALIGN).copied().collect()
}

fn cached(fs: &SimFileSystem) -> Vec<u8> {
    firsts(&fs.cached(FILE).unwrap())
}

fn durable(fs: &SimFileSystem) -> Vec<u8> {
    firsts(&fs.durable(FILE).unwrap())
}

#[test]
fn fs_a_single_direct_write_makes_nothing_else_durable() {
    for earlier_is_direct in [true, false] {
        let (fs, buffered, direct) = machine();
        let earlier = if earlier_is_direct { &direct } else { &buffered };
        earlier.write_at(0, &block(2).0).unwrap();
        commit(&*direct, PAGE, 3).unwrap();
        assert_eq!(cached(&fs), [2, 3, 1, 1]);
        assert_eq!(durable(&fs), [1, 3, 1, 1]);
        let all = fs.fork();
        all.power_cut(&mut AllPersisted);
        assert_eq!(cached(&all), [2, 3, 1, 1]);
        fs.power_cut(&mut NothingPersisted);
        assert_eq!(cached(&fs), [1, 3, 1, 1]);
    }
}

#[test]
fn fs_a_sync_makes_all_that_was_written_directly_durable() {
    type Sync = fn(&dyn File) -> std::io::Result<()>;
    let several: Sync = |file| {
        let (one, two) = (block(3), block(4));
        file.write_and_sync(&[
            Write { position: PAGE, bytes: &one.0 },
            Write { position: 2 * PAGE, bytes: &two.0 },
        ])
    };
    let none: Sync = |file| file.write_and_sync(&[]);
    let alone: Sync = |file| file.sync();
    for (sync, left) in [(several, [2, 3, 4, 1]), (none, [2, 1, 1, 1]), (alone, [2, 1, 1, 1])] {
        let (fs, _buffered, direct) = machine();
        direct.write_at(0, &block(2).0).unwrap();
        assert_eq!(durable(&fs), [1; 4]);
        sync(&*direct).unwrap();
        fs.power_cut(&mut NothingPersisted);
        assert_eq!(cached(&fs), left);
    }
}

#[test]
fn fs_a_buffered_commit_makes_all_durable() {
    let (fs, buffered, _direct) = machine();
    buffered.write_at(0, &block(2).0).unwrap();
    commit(&*buffered, PAGE, 3).unwrap();
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(cached(&fs), [2, 3, 1, 1]);
}

#[test]
fn fs_a_direct_commit_that_failed_shows_what_the_disk_has() {
    for (reached, shown) in [(Reached::Nothing, 1), (Reached::Everything, 3)] {
        let (fs, buffered, direct) = machine();
        buffered.write_at(0, &block(2).0).unwrap();
        let what = What::FailedSync { errno: libc::EIO, reached };
        fs.inject(Fault::nth(OpKind::Sync, 0, what));
        let error = commit(&*direct, PAGE, 3).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        // No page of the cache stands before it; other pages have nothing to do with it.
        assert_eq!(cached(&fs), [2, shown, 1, 1], "{reached:?}");
        assert_eq!(durable(&fs), [1, shown, 1, 1], "{reached:?}");
        // It was this call's error, and no write-back's that others are told of.
        buffered.sync().unwrap();
        assert_eq!(durable(&fs), [2, shown, 1, 1]);
    }
}

#[test]
fn fs_a_direct_commit_tells_a_failed_write_back_once() {
    let (fs, buffered, direct) = machine();
    buffered.write_at(0, &block(2).0).unwrap();
    fs.fail_write_back(FILE, Reached::Nothing).unwrap();
    assert_eq!(commit(&*direct, PAGE, 3).unwrap_err().raw_os_error(), Some(libc::EIO));
    commit(&*direct, PAGE, 4).unwrap();
    // Each handle is told by itself.
    assert_eq!(buffered.sync().unwrap_err().raw_os_error(), Some(libc::EIO));
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(cached(&fs), [1, 4, 1, 1]);
}

#[test]
fn fs_a_direct_write_beyond_the_end_is_durable_with_its_length() {
    let (fs, _buffered, direct) = machine();
    commit(&*direct, 5 * PAGE, 2).unwrap();
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(cached(&fs), [1, 1, 1, 1, 0, 2]);
}

/// Where space is taken at the write-back a direct write has none to wait for.
#[test]
fn fs_a_direct_write_to_a_full_disk_is_refused_at_the_write() {
    let (fs, buffered, direct) = machine();
    fs.set_charges(Charges { at_sync: true, ..Charges::default() });
    fs.set_capacity(Some(fs.used()));
    buffered.write_at(4 * PAGE, &block(2).0).unwrap();
    let error = direct.write_at(5 * PAGE, &block(2).0).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    // What has its blocks is overwritten.
    direct.write_at(0, &block(3).0).unwrap();
    assert_eq!(buffered.sync().unwrap_err().raw_os_error(), Some(libc::ENOSPC));
}

#[test]
fn fs_a_machine_without_direct_writes_opens_none() {
    let (fs, _buffered, direct) = machine();
    fs.set_direct(false);
    let ops = fs.ops();
    assert!(fs.open_direct(Path::new(FILE)).unwrap().is_none());
    assert_eq!(fs.ops(), ops);
    // Nor does a copy of it; what is open stays so.
    assert!(fs.fork().open_direct(Path::new(FILE)).unwrap().is_none());
    assert!(direct.is_direct());
    fs.set_direct(true);
    assert!(fs.open_direct(Path::new(FILE)).unwrap().unwrap().is_direct());
}
