//! What the simulator lets become of bytes and lengths.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll::fs::sim::{
    AllPersisted, Answer, Choice, Chooser, Count, Fault, Names, NothingPersisted, OpKind, Profile,
    Reached, Scripted, Sectors, Seeded, SimFileSystem, What,
};
use plimsoll::fs::{File, FileSystem};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const PATH: &str = "/d/file";

/// A file of `bytes`, all durable, with its name.
fn durable_file(bytes: &[u8]) -> (SimFileSystem, Arc<dyn File>) {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/d").unwrap();
    let file = fs.create(Path::new(PATH)).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new("/d")).unwrap();
    (fs, file)
}

fn with_sectors(fs: &SimFileSystem, sectors: Sectors) {
    fs.set_profile(Profile { sectors, names: Names::Subset });
}

/// Every outcome of a power cut now, with how many cuts were tried.
fn outcomes(fs: &SimFileSystem) -> (BTreeSet<Vec<u8>>, u64) {
    let mut script = Scripted::default();
    let (mut seen, mut tried) = (BTreeSet::new(), 0);
    loop {
        let world = fs.fork();
        world.power_cut(&mut script);
        seen.insert(world.cached(PATH).unwrap());
        tried += 1;
        if !script.advance() {
            return (seen, tried);
        }
    }
}

#[test]
fn fs_synced_bytes_survive_whatever_happens() {
    let (fs, file) = durable_file(&[1; 9000]);
    file.write_at(100, &[2; 5000]).unwrap();
    file.sync().unwrap();
    let before = fs.cached(PATH).unwrap();
    for seed in 0..20 {
        let world = fs.fork();
        world.power_cut(&mut Seeded::new(seed));
        assert_eq!(world.cached(PATH).unwrap(), before);
    }
}

#[test]
fn fs_each_sector_takes_each_version_written_since_the_sync() {
    let (fs, file) = durable_file(&[0; 1024]);
    file.write_at(0, &[1; 1024]).unwrap();
    file.write_at(512, &[2; 512]).unwrap();
    let (seen, tried) = outcomes(&fs);
    let pairs: BTreeSet<(u8, u8)> = seen.iter().map(|bytes| (bytes[0], bytes[512])).collect();
    assert_eq!(pairs, BTreeSet::from([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]));
    assert_eq!(tried, 6, "no outcome is tried twice");
}

#[test]
fn fs_a_sector_is_never_torn() {
    let (fs, file) = durable_file(&[0; 2048]);
    file.write_at(300, &[1; 900]).unwrap();
    file.write_at(700, &[2; 1000]).unwrap();
    let (seen, _) = outcomes(&fs);
    let mut states = vec![BTreeSet::new(); 4];
    for bytes in &seen {
        for (sector, states) in bytes.chunks(512).zip(&mut states) {
            states.insert(sector.to_vec());
        }
    }
    // Old; after the first write; after both. A sector that only one write touched has two versions.
    assert_eq!(states.iter().map(BTreeSet::len).collect::<Vec<_>>(), [2, 3, 3, 2]);
    assert_eq!(seen.len(), 2 * 3 * 3 * 2);
}

#[test]
fn fs_atomic_blocks_are_whole() {
    let (fs, file) = durable_file(&[0; 8192]);
    with_sectors(&fs, Sectors::Atomic4K);
    file.write_at(0, &[1; 8192]).unwrap();
    let (seen, _) = outcomes(&fs);
    assert_eq!(seen.len(), 4);
    for bytes in seen {
        assert!(bytes.chunks(4096).all(|block| block.iter().all(|byte| *byte == block[0])));
    }
}

#[test]
fn fs_prefix_keeps_the_first_writes() {
    let (fs, file) = durable_file(&[0; 3]);
    with_sectors(&fs, Sectors::Prefix);
    file.write_at(2, b"ab").unwrap();
    file.write_at(0, b"c").unwrap();
    file.set_len(2).unwrap();
    file.write_at(5000, b"d").unwrap();
    let (seen, tried) = outcomes(&fs);
    let mut last = vec![b'c', 0];
    last.resize(5000, 0);
    last.push(b'd');
    let states: [&[u8]; 5] = [b"\0\0\0", b"\0\0ab", b"c\0ab", b"c\0", &last];
    assert_eq!(seen, states.iter().map(|state| state.to_vec()).collect());
    assert_eq!(tried, 5);
}

#[test]
fn fs_garbage_comes_only_in_sectors_being_written() {
    let (fs, file) = durable_file(&[0; 1536]);
    with_sectors(&fs, Sectors::Garbage);
    file.write_at(512, &[1; 512]).unwrap();
    let (seen, _) = outcomes(&fs);
    assert_eq!(seen.len(), 3);
    for bytes in seen {
        assert_eq!((&bytes[..512], &bytes[1024..]), (&[0; 512][..], &[0; 512][..]));
    }
}

#[test]
fn fs_a_length_is_pending_like_the_bytes() {
    let (fs, file) = durable_file(b"ab");
    file.set_len(600).unwrap();
    file.set_len(1).unwrap();
    file.write_at(1, b"xyz").unwrap();
    let (seen, _) = outcomes(&fs);
    let lengths: BTreeSet<usize> = seen.iter().map(Vec::len).collect();
    assert_eq!(lengths, BTreeSet::from([1, 2, 4, 600]));
    assert!(seen.contains(b"ab".as_slice()), "nothing persisted");
    assert!(seen.contains(b"axyz".as_slice()), "everything persisted");
    file.sync().unwrap();
    assert_eq!(outcomes(&fs).0, BTreeSet::from([b"axyz".to_vec()]));
}

#[test]
fn fs_what_was_cut_off_never_comes_back_after_a_sync() {
    let (fs, file) = durable_file(&[7; 10_000]);
    file.set_len(4500).unwrap();
    file.sync().unwrap();
    file.set_len(10_000).unwrap();
    for bytes in outcomes(&fs).0 {
        assert!(bytes[4500..].iter().all(|byte| *byte == 0));
    }
    let (fs, file) = durable_file(&[7; 10_000]);
    file.set_len(4500).unwrap();
    file.set_len(10_000).unwrap();
    fs.power_cut(&mut AllPersisted);
    let bytes = fs.cached(PATH).unwrap();
    assert!(bytes[4500..].iter().all(|byte| *byte == 0));
    drop(file);
}

#[test]
fn fs_rewriting_the_same_bytes_leaves_no_choice() {
    let (fs, file) = durable_file(&[3; 4096]);
    file.write_at(0, &[3; 4096]).unwrap();
    let mut script = Scripted::default();
    fs.fork().power_cut(&mut script);
    assert_eq!(script.answers(), []);
    // There and back: the one between is a state, the old and the new one are the same.
    file.write_at(0, &[4; 512]).unwrap();
    file.write_at(0, &[3; 512]).unwrap();
    let (seen, _) = outcomes(&fs);
    assert_eq!(seen.len(), 2);
    fs.power_cut(&mut AllPersisted);
    assert_eq!(fs.cached(PATH).unwrap(), [3; 4096]);
}

#[test]
fn fs_process_death_keeps_the_cache_and_the_next_power_cut_still_loses_it() {
    let (fs, file) = durable_file(b"old");
    file.write_at(0, b"new").unwrap();
    fs.process_death();
    assert_eq!(fs.cached(PATH).unwrap(), b"new");
    assert_eq!(fs.durable(PATH).unwrap(), b"old");
    // A new process may make durable what the dead one wrote.
    let (rescued, lost) = (fs.fork(), fs.fork());
    rescued.open_write(Path::new(PATH)).unwrap().sync().unwrap();
    rescued.power_cut(&mut NothingPersisted);
    assert_eq!(rescued.cached(PATH).unwrap(), b"new");
    lost.power_cut(&mut NothingPersisted);
    assert_eq!(lost.cached(PATH).unwrap(), b"old");
}

#[test]
fn fs_a_failed_sync_leaves_clean_pages_that_the_disk_never_got() {
    let (fs, file) = durable_file(&[1; 8192]);
    file.write_at(0, &[2; 8192]).unwrap();
    fs.inject(Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO)));
    assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(libc::EIO));
    assert_eq!(fs.cached(PATH).unwrap(), [2; 8192], "the cache shows the new bytes");
    file.sync().unwrap();
    fs.power_cut(&mut AllPersisted);
    assert_eq!(fs.cached(PATH).unwrap(), [1; 8192], "the second sync proved nothing");
}

#[test]
fn fs_eviction_after_a_failed_sync_shows_the_disk() {
    let (fs, file) = durable_file(&[1; 8192]);
    file.write_at(0, &[2; 8192]).unwrap();
    fs.evict(PATH).unwrap();
    assert_eq!(fs.cached(PATH).unwrap(), [2; 8192], "dirty pages are not evicted");
    fs.inject(Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO)));
    file.sync().unwrap_err();
    file.write_at(4096, &[3; 10]).unwrap();
    fs.evict_all();
    let bytes = fs.cached(PATH).unwrap();
    assert_eq!(bytes[..4096], [1; 4096]);
    assert_eq!((bytes[4096], bytes[4106]), (3, 2), "the page written again is dirty as a whole");
    file.sync().unwrap();
    fs.power_cut(&mut NothingPersisted);
    let bytes = fs.cached(PATH).unwrap();
    assert_eq!((bytes[0], bytes[4096], bytes[8191]), (1, 3, 2));
}

#[test]
fn fs_a_page_that_a_failed_sync_lost_goes_to_the_disk_with_its_next_write() {
    let (fs, file) = durable_file(&[1; 4096]);
    file.write_at(0, &[2; 4096]).unwrap();
    fs.inject(Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO)));
    file.sync().unwrap_err();
    file.write_at(0, &[3; 10]).unwrap();
    let world = fs.fork();
    world.power_cut(&mut AllPersisted);
    let bytes = world.cached(PATH).unwrap();
    assert_eq!((bytes[0], bytes[10], bytes[512], bytes[4095]), (3, 2, 2, 2));
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(fs.cached(PATH).unwrap(), [1; 4096]);
}

#[test]
fn fs_a_failed_sync_may_have_reached_the_disk_in_part() {
    for (reached, first) in [(Reached::Nothing, 1), (Reached::Everything, 2)] {
        let (fs, file) = durable_file(&[1; 4096]);
        file.write_at(0, &[2; 4096]).unwrap();
        fs.inject(Fault::nth(OpKind::Sync, 0, What::FailedSync { errno: libc::EIO, reached }));
        file.sync().unwrap_err();
        fs.evict_all();
        assert_eq!(fs.cached(PATH).unwrap(), [first; 4096]);
    }
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let (fs, file) = durable_file(&[1; 1024]);
        file.write_at(0, &[2; 1024]).unwrap();
        let what = What::FailedSync { errno: libc::EIO, reached: Reached::Some(seed) };
        fs.inject(Fault::nth(OpKind::Sync, 0, what));
        file.sync().unwrap_err();
        fs.evict_all();
        let bytes = fs.cached(PATH).unwrap();
        seen.insert((bytes[0], bytes[512]));
        fs.power_cut(&mut AllPersisted);
        assert_eq!(fs.cached(PATH).unwrap(), bytes, "what eviction showed is what there is");
    }
    assert_eq!(seen.len(), 4);
}

#[test]
fn fs_a_failed_write_back_is_told_once_to_every_handle() {
    let (fs, first) = durable_file(&[1; 512]);
    let second = fs.open_write(Path::new(PATH)).unwrap();
    first.write_at(0, &[2; 512]).unwrap();
    fs.inject(Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO)));
    first.sync().unwrap_err();
    let opened_after = fs.open_write(Path::new(PATH)).unwrap();
    opened_after.sync().unwrap();
    first.sync().unwrap();
    assert_eq!(second.sync().unwrap_err().raw_os_error(), Some(libc::EIO));
    second.sync().unwrap();
}

#[test]
fn fs_a_failed_write_back_that_nobody_was_told_of_is_told_to_a_new_handle() {
    let (fs, file) = durable_file(&[1; 512]);
    file.write_at(0, &[2; 512]).unwrap();
    fs.fail_write_back(PATH, Reached::Nothing).unwrap();
    fs.process_death();
    let forgotten = fs.fork();
    let file = fs.open_write(Path::new(PATH)).unwrap();
    assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(libc::EIO));
    file.sync().unwrap();
    // Unless the kernel dropped the inode: then the loss is silent, and the old bytes are back.
    forgotten.evict_all();
    let file = forgotten.open_write(Path::new(PATH)).unwrap();
    file.sync().unwrap();
    assert_eq!(forgotten.cached(PATH).unwrap(), [1; 512]);
}

#[test]
fn fs_the_length_after_a_failed_sync_of_a_growing_file() {
    let (fs, file) = durable_file(b"");
    file.write_at(0, &[5; 600]).unwrap();
    fs.inject(Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO)));
    file.sync().unwrap_err();
    assert_eq!(outcomes(&fs).0, BTreeSet::from([vec![], vec![0; 600]]));
    file.sync().unwrap();
    assert_eq!(outcomes(&fs).0, BTreeSet::from([vec![0; 600]]));
}

#[test]
fn fs_a_lying_device_loses_what_it_confirmed() {
    let (fs, file) = durable_file(&[1; 512]);
    file.write_at(0, &[2; 512]).unwrap();
    fs.inject(Fault::nth(OpKind::Sync, 0, What::Lie));
    file.sync().unwrap();
    let world = fs.fork();
    world.power_cut(&mut NothingPersisted);
    assert_eq!(world.cached(PATH).unwrap(), [1; 512]);
    file.sync().unwrap();
    fs.inject(Fault::nth(OpKind::Write, 0, What::Lie));
    file.write_at(0, &[3; 512]).unwrap();
    assert_eq!(fs.cached(PATH).unwrap(), [3; 512]);
    file.sync().unwrap();
    fs.power_cut(&mut AllPersisted);
    assert_eq!(fs.cached(PATH).unwrap(), [2; 512]);
}

#[test]
fn fs_rot_strikes_cache_and_disk() {
    let (fs, file) = durable_file(&[0x0f; 9000]);
    fs.flip(PATH, 4096, 0x81).unwrap();
    fs.overwrite(PATH, 8190, b"misdirected").unwrap();
    fs.zero(PATH, 10..20).unwrap();
    fs.zero(PATH, 8999..u64::MAX).unwrap();
    fs.flip(PATH, 9000, 1).unwrap();
    let bytes = fs.cached(PATH).unwrap();
    assert_eq!(bytes.len(), 9000);
    assert_eq!((bytes[9], bytes[10], bytes[19], bytes[20]), (0x0f, 0, 0, 0x0f));
    assert_eq!((bytes[4095], bytes[4096], bytes[4097]), (0x0f, 0x8e, 0x0f));
    assert_eq!(&bytes[8190..8201], b"misdirected");
    assert_eq!(bytes[8999], 0);
    file.sync().unwrap();
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(fs.cached(PATH).unwrap(), bytes);
    assert!(fs.flip("/d/none", 0, 1).is_err());
}

#[test]
fn fs_the_number_of_outcomes_is_known_before() {
    let (fs, file) = durable_file(&[0; 1024]);
    file.write_at(0, &[1; 1024]).unwrap();
    file.write_at(512, &[2; 500]).unwrap();
    let mut count = Count::default();
    fs.fork().power_cut(&mut count);
    assert_eq!(count.outcomes, 6);
    assert_eq!(count.outcomes, outcomes(&fs).1);
}

#[test]
fn fs_a_script_replays_what_it_did() {
    let (fs, file) = durable_file(&[0; 4096]);
    for byte in 1..4 {
        file.write_at(u64::from(byte) * 300, &[byte; 1000]).unwrap();
    }
    let mut script = Scripted::default();
    for _ in 0..7 {
        fs.fork().power_cut(&mut script);
        assert!(script.advance());
    }
    let (one, two) = (fs.fork(), fs.fork());
    one.power_cut(&mut script);
    two.power_cut(&mut Scripted::new(script.script()));
    assert_eq!(one.cached(PATH).unwrap(), two.cached(PATH).unwrap());
    let Some(Answer { what: Choice::Bytes { position: 0, .. }, options: 2, .. }) =
        script.answers().first()
    else {
        panic!("{:?}", script.answers())
    };
}

#[test]
fn fs_an_answer_beyond_the_options_is_the_last_option() {
    struct Far;
    impl Chooser for Far {
        fn choose(&mut self, _: Choice, _: usize) -> usize {
            usize::MAX
        }
    }
    let (fs, file) = durable_file(b"old");
    file.write_at(0, b"newer").unwrap();
    fs.power_cut(&mut Far);
    assert_eq!(fs.cached(PATH).unwrap(), b"newer");
}
