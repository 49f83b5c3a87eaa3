//! What every file system must do, run on the simulated and on the real one.
#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods)]

#[path = "common/skip.rs"]
mod skip;

use faultlab::mounts::Mount;
use plimsoll::fs::sim::SimFileSystem;
use plimsoll::fs::{DIRECT_ALIGN, File, FileKind, FileSystem, OsFileSystem, Write};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes a link at the first path that points to the second.
type Link = Box<dyn Fn(&Path, &Path)>;

/// Mounts another device at a directory until what it gives is dropped; or says why it cannot.
type Mounts = Box<dyn Fn(&Path) -> Result<Option<Mount>, String>>;

/// A file system with an empty directory to work in, and a way to make links there.
struct Bench {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    link: Link,
    mount: Mounts,
    _temp: Option<tempfile::TempDir>,
}

impl Bench {
    fn simulated() -> Self {
        let fs = SimFileSystem::new(1);
        fs.prepare_dir("/bench").unwrap();
        let (linked, mounted) = (fs.clone(), fs.clone());
        Self {
            fs: Arc::new(fs),
            dir: "/bench".into(),
            link: Box::new(move |path, to| linked.prepare_link(path, to).unwrap()),
            mount: Box::new(move |dir| {
                mounted.mount(dir).unwrap();
                Ok(None)
            }),
            _temp: None,
        }
    }

    fn real() -> Self {
        let temp = tempfile::tempdir().unwrap();
        Self {
            fs: Arc::new(OsFileSystem),
            dir: temp.path().to_path_buf(),
            link: Box::new(|path, to| std::os::unix::fs::symlink(to, path).unwrap()),
            mount: Box::new(|dir| Mount::tmpfs_at(dir, 1 << 20).map(Some)),
            _temp: Some(temp),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> Arc<dyn File> {
        let file = self.fs.create(&self.at(name)).unwrap();
        file.write_at(0, bytes).unwrap();
        file
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let file = self.fs.open_read(&self.at(name)).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
        bytes
    }

    fn names(&self) -> Vec<String> {
        let entries = self.fs.list(&self.dir).unwrap();
        entries.into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
    }
}

fn errno<T>(result: std::io::Result<T>) -> i32 {
    let Err(error) = result else { panic!("no error") };
    error.raw_os_error().unwrap_or_else(|| panic!("no errno in {error:?}"))
}

fn kind<T>(result: std::io::Result<T>) -> ErrorKind {
    let Err(error) = result else { panic!("no error") };
    error.kind()
}

/// Each function below is a test on both.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod simulated {
            $(#[test] fn $name() { super::$name(&super::Bench::simulated()); })*
        }
        mod real {
            $(#[test] fn $name() { super::$name(&super::Bench::real()); })*
        }
    };
}

on_both! {
    fs_create_is_exclusive
    fs_write_then_read_back
    fs_read_past_the_end_gives_what_is_there
    fs_write_beyond_the_end_leaves_zeroes
    fs_shrink_and_grow_gives_zeroes
    fs_allocate_makes_the_file_that_long_and_never_shorter
    fs_links_are_not_followed
    fs_links_on_the_way_are_followed
    fs_list_is_sorted_and_says_what_each_is
    fs_rename_replaces_and_open_handles_stay
    fs_rename_of_directories
    fs_a_removed_file_stays_readable_through_its_handle
    fs_directories_are_removed_only_when_empty
    fs_errors_of_wrong_kinds
    fs_a_handle_for_reading_does_not_write
    fs_locks_exclude_each_other_also_in_one_process
    fs_write_and_sync_writes_all_parts
    fs_metadata_says_what_stands_there
    fs_random_differs
    fs_space_is_plausible
    fs_absurd_sizes_are_errors_with_their_number
    fs_asking_for_no_copy_on_write_is_a_wish
    fs_the_place_of_a_file_is_its_own
    fs_no_rename_goes_to_another_device
    fs_a_mount_point_stays_where_it_is
    fs_direct_writes_are_seen_at_once_through_other_handles
    fs_direct_writes_that_are_not_aligned_write_nothing
    fs_direct_and_buffered_writes_mix_in_one_file
    fs_direct_write_and_sync_writes_all_parts
    fs_direct_writes_go_past_the_end_of_a_short_file
    fs_direct_opens_answer_as_others_do
}

fn fs_create_is_exclusive(bench: &Bench) {
    bench.file("a", b"first");
    assert_eq!(errno(bench.fs.create(&bench.at("a"))), libc::EEXIST);
    assert_eq!(bench.bytes("a"), b"first");
    bench.fs.create_dir(&bench.at("d")).unwrap();
    assert_eq!(errno(bench.fs.create(&bench.at("d"))), libc::EEXIST);
    assert_eq!(errno(bench.fs.create_dir(&bench.at("a"))), libc::EEXIST);
    assert_eq!(errno(bench.fs.create(&bench.at("missing/a"))), libc::ENOENT);
    assert_eq!(errno(bench.fs.create(&bench.at("a/b"))), libc::ENOTDIR);
}

fn fs_write_then_read_back(bench: &Bench) {
    let bytes: Vec<u8> = (0..20_000_u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
    let file = bench.file("a", &bytes);
    assert_eq!(file.len().unwrap(), 20_000);
    file.write_at(4090, &[7; 12]).unwrap();
    let mut expected = bytes;
    expected[4090..4102].fill(7);
    assert_eq!(bench.bytes("a"), expected);
    file.sync().unwrap();
    assert_eq!(bench.bytes("a"), expected);
}

fn fs_read_past_the_end_gives_what_is_there(bench: &Bench) {
    let file = bench.file("a", b"0123456789");
    let mut into = [b'-'; 8];
    assert_eq!(file.read_at(6, &mut into).unwrap(), 4);
    assert_eq!(&into, b"6789----");
    assert_eq!(file.read_at(10, &mut into).unwrap(), 0);
    assert_eq!(file.read_at(1 << 40, &mut into).unwrap(), 0);
    assert_eq!(file.read_raw(0, &mut []).unwrap(), 0);
}

fn fs_write_beyond_the_end_leaves_zeroes(bench: &Bench) {
    let file = bench.file("a", b"x");
    file.write_at(10_000, b"y").unwrap();
    let bytes = bench.bytes("a");
    assert_eq!(bytes.len(), 10_001);
    assert!(bytes[1..10_000].iter().all(|byte| *byte == 0));
    file.write_at(20_000, b"").unwrap();
    assert_eq!(file.len().unwrap(), 10_001);
}

fn fs_shrink_and_grow_gives_zeroes(bench: &Bench) {
    let file = bench.file("a", &[9; 10_000]);
    file.set_len(4500).unwrap();
    file.set_len(9000).unwrap();
    let bytes = bench.bytes("a");
    assert_eq!(bytes[..4500], [9; 4500]);
    assert_eq!(bytes[4500..], [0; 4500]);
}

fn fs_allocate_makes_the_file_that_long_and_never_shorter(bench: &Bench) {
    let file = bench.file("a", b"x");
    file.allocate(0).unwrap();
    assert_eq!(file.len().unwrap(), 1);
    match file.allocate(65_536) {
        // Where the test's directory cannot reserve, that must be what it says.
        Err(error) => return assert_eq!(error.kind(), ErrorKind::Unsupported),
        Ok(()) => assert_eq!(file.len().unwrap(), 65_536),
    }
    assert!(bench.fs.metadata(&bench.at("a")).unwrap().disk_bytes >= 65_536);
    file.allocate(4096).unwrap();
    assert_eq!(file.len().unwrap(), 65_536);
    let bytes = bench.bytes("a");
    assert_eq!(bytes[0], b'x');
    assert!(bytes[1..].iter().all(|byte| *byte == 0));
}

fn fs_links_are_not_followed(bench: &Bench) {
    bench.file("target", b"untouched");
    bench.fs.create_dir(&bench.at("dir")).unwrap();
    (bench.link)(&bench.at("link"), &bench.at("target"));
    (bench.link)(&bench.at("dirlink"), &bench.at("dir"));
    (bench.link)(&bench.at("dangling"), &bench.at("nothing"));
    let fs = &bench.fs;
    assert_eq!(errno(fs.open_read(&bench.at("link"))), libc::ELOOP);
    assert_eq!(errno(fs.open_write(&bench.at("link"))), libc::ELOOP);
    assert_eq!(errno(fs.create(&bench.at("dangling"))), libc::EEXIST);
    assert_eq!(errno(fs.create_dir(&bench.at("dangling"))), libc::EEXIST);
    assert_eq!(errno(fs.lock(&bench.at("link"))), libc::ELOOP);
    assert_eq!(errno(fs.lock(&bench.at("dangling"))), libc::ELOOP);
    assert_eq!(errno(fs.list(&bench.at("dirlink"))), libc::ENOTDIR);
    assert_eq!(errno(fs.sync_dir(&bench.at("dirlink"))), libc::ENOTDIR);
    assert_eq!(errno(fs.space(&bench.at("dirlink"))), libc::ELOOP);
    assert_eq!(fs.metadata(&bench.at("link")).unwrap().kind, FileKind::Link);
    assert_eq!(errno(fs.remove_dir(&bench.at("dirlink"))), libc::ENOTDIR);
    fs.remove_file(&bench.at("link")).unwrap();
    fs.rename(&bench.at("dirlink"), &bench.at("moved")).unwrap();
    assert_eq!(fs.metadata(&bench.at("moved")).unwrap().kind, FileKind::Link);
    assert_eq!(bench.bytes("target"), b"untouched");
    assert_eq!(bench.names(), ["dangling", "dir", "moved", "target"]);
}

fn fs_links_on_the_way_are_followed(bench: &Bench) {
    bench.fs.create_dir(&bench.at("dir")).unwrap();
    (bench.link)(&bench.at("link"), Path::new("dir"));
    (bench.link)(&bench.at("again"), Path::new("./link"));
    (bench.link)(&bench.at("loop"), Path::new("loop"));
    bench.file("dir/file", b"here");
    assert_eq!(bench.bytes("link/file"), b"here");
    assert_eq!(bench.bytes("again/file"), b"here");
    assert_eq!(bench.bytes("again/../dir/file"), b"here");
    assert_eq!(errno(bench.fs.open_read(&bench.at("loop/file"))), libc::ELOOP);
}

fn fs_list_is_sorted_and_says_what_each_is(bench: &Bench) {
    for name in ["b", "a", "Z", "10", "9", "\u{e4}"] {
        bench.file(name, b"");
    }
    bench.fs.create_dir(&bench.at("aa")).unwrap();
    (bench.link)(&bench.at("c"), Path::new("a"));
    assert_eq!(bench.names(), ["10", "9", "Z", "a", "aa", "b", "c", "\u{e4}"]);
    let entries = bench.fs.list(&bench.dir).unwrap();
    let kinds: Vec<FileKind> = entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds[3], FileKind::File);
    assert_eq!(kinds[4], FileKind::Directory);
    assert_eq!(kinds[6], FileKind::Link);
    assert_eq!(errno(bench.fs.list(&bench.at("a"))), libc::ENOTDIR);
    assert_eq!(errno(bench.fs.list(&bench.at("none"))), libc::ENOENT);
}

fn fs_rename_replaces_and_open_handles_stay(bench: &Bench) {
    let moved = bench.file("from", b"new");
    let replaced = bench.file("to", b"old");
    bench.fs.rename(&bench.at("from"), &bench.at("to")).unwrap();
    assert_eq!(bench.names(), ["to"]);
    assert_eq!(bench.bytes("to"), b"new");
    let mut into = [0; 3];
    replaced.read_at(0, &mut into).unwrap();
    assert_eq!(&into, b"old");
    moved.write_at(0, b"NEW").unwrap();
    assert_eq!(bench.bytes("to"), b"NEW");
    bench.fs.rename(&bench.at("to"), &bench.at("to")).unwrap();
    assert_eq!(bench.names(), ["to"]);
    assert_eq!(errno(bench.fs.rename(&bench.at("none"), &bench.at("to"))), libc::ENOENT);
    assert_eq!(errno(bench.fs.rename(&bench.at("to"), &bench.at("none/to"))), libc::ENOENT);
}

fn fs_rename_of_directories(bench: &Bench) {
    let fs = &bench.fs;
    for dir in ["a", "a/inner", "b", "full"] {
        fs.create_dir(&bench.at(dir)).unwrap();
    }
    bench.file("a/file", b"1");
    bench.file("full/file", b"2");
    assert_eq!(errno(fs.rename(&bench.at("a"), &bench.at("a/inner/a"))), libc::EINVAL);
    assert_eq!(errno(fs.rename(&bench.at("a"), &bench.at("full"))), libc::ENOTEMPTY);
    assert_eq!(errno(fs.rename(&bench.at("a"), &bench.at("full/file"))), libc::ENOTDIR);
    assert_eq!(errno(fs.rename(&bench.at("full/file"), &bench.at("b"))), libc::EISDIR);
    fs.rename(&bench.at("a"), &bench.at("b")).unwrap();
    assert_eq!(bench.names(), ["b", "full"]);
    assert_eq!(bench.bytes("b/file"), b"1");
}

fn fs_a_removed_file_stays_readable_through_its_handle(bench: &Bench) {
    let file = bench.file("a", b"still here");
    bench.fs.remove_file(&bench.at("a")).unwrap();
    bench.file("a", b"another");
    let mut into = [0; 10];
    assert_eq!(file.read_at(0, &mut into).unwrap(), 10);
    assert_eq!(&into, b"still here");
    file.write_at(0, b"S").unwrap();
    file.sync().unwrap();
    assert_eq!(bench.bytes("a"), b"another");
    bench.fs.sync_dir(&bench.dir).unwrap();
    assert_eq!(file.len().unwrap(), 10);
}

fn fs_directories_are_removed_only_when_empty(bench: &Bench) {
    bench.fs.create_dir(&bench.at("d")).unwrap();
    bench.file("d/a", b"");
    assert_eq!(errno(bench.fs.remove_dir(&bench.at("d"))), libc::ENOTEMPTY);
    bench.fs.remove_file(&bench.at("d/a")).unwrap();
    bench.fs.remove_dir(&bench.at("d")).unwrap();
    assert_eq!(errno(bench.fs.remove_dir(&bench.at("d"))), libc::ENOENT);
    assert!(bench.names().is_empty());
}

fn fs_errors_of_wrong_kinds(bench: &Bench) {
    let fs = &bench.fs;
    bench.file("f", b"");
    fs.create_dir(&bench.at("d")).unwrap();
    assert_eq!(kind(fs.open_read(&bench.at("d"))), ErrorKind::InvalidInput);
    assert_eq!(errno(fs.open_write(&bench.at("d"))), libc::EISDIR);
    assert_eq!(errno(fs.remove_file(&bench.at("d"))), libc::EISDIR);
    assert_eq!(errno(fs.remove_dir(&bench.at("f"))), libc::ENOTDIR);
    assert_eq!(errno(fs.sync_dir(&bench.at("f"))), libc::ENOTDIR);
    assert_eq!(errno(fs.open_read(&bench.at("none"))), libc::ENOENT);
    assert_eq!(errno(fs.open_write(&bench.at("none"))), libc::ENOENT);
    assert_eq!(errno(fs.remove_file(&bench.at("none"))), libc::ENOENT);
    assert_eq!(errno(fs.metadata(&bench.at("none"))), libc::ENOENT);
    assert_eq!(errno(fs.metadata(&bench.at("f/x"))), libc::ENOTDIR);
    assert_eq!(errno(fs.space(&bench.at("none"))), libc::ENOENT);
    assert_eq!(errno(fs.sync_dir(&bench.at("none"))), libc::ENOENT);
    assert_eq!(errno(fs.lock(&bench.at("d"))), libc::EISDIR);
    fs.sync_dir(&bench.at("d")).unwrap();
}

fn fs_a_handle_for_reading_does_not_write(bench: &Bench) {
    bench.file("a", b"bytes");
    let file = bench.fs.open_read(&bench.at("a")).unwrap();
    assert_eq!(errno(file.write_at(0, b"x")), libc::EBADF);
    assert_eq!(errno(file.set_len(0)), libc::EINVAL);
    assert_eq!(errno(file.allocate(100)), libc::EBADF);
    assert_eq!(bench.bytes("a"), b"bytes");
    let file = bench.fs.open_write(&bench.at("a")).unwrap();
    file.write_at(0, b"B").unwrap();
    assert_eq!(bench.bytes("a"), b"Bytes");
}

fn fs_locks_exclude_each_other_also_in_one_process(bench: &Bench) {
    let path = bench.at("LOCK");
    let held = bench.fs.lock(&path).unwrap();
    assert_eq!(kind(bench.fs.lock(&path)), ErrorKind::WouldBlock);
    assert_eq!(kind(bench.fs.lock(&path)), ErrorKind::WouldBlock);
    let other = bench.fs.lock(&bench.at("OTHER")).unwrap();
    drop(held);
    let again = bench.fs.lock(&path).unwrap();
    assert_eq!(kind(bench.fs.lock(&path)), ErrorKind::WouldBlock);
    drop((again, other));
    assert_eq!(bench.bytes("LOCK"), b"");
}

fn fs_write_and_sync_writes_all_parts(bench: &Bench) {
    let file = bench.file("a", &[b'.'; 8]);
    let writes = [
        Write { position: 6, bytes: b"yz" },
        Write { position: 0, bytes: b"ab" },
        Write { position: 7, bytes: b"Z" },
    ];
    file.write_and_sync(&writes).unwrap();
    assert_eq!(bench.bytes("a"), b"ab....yZ");
    file.write_and_sync(&[]).unwrap();
}

fn fs_metadata_says_what_stands_there(bench: &Bench) {
    bench.file("a", &[1; 5000]).sync().unwrap();
    bench.fs.create_dir(&bench.at("d")).unwrap();
    let file = bench.fs.metadata(&bench.at("a")).unwrap();
    assert_eq!((file.kind, file.len), (FileKind::File, 5000));
    assert!(file.disk_bytes < 1 << 20);
    let dir = bench.fs.metadata(&bench.at("d")).unwrap();
    assert_eq!(dir.kind, FileKind::Directory);
    assert_eq!(dir.device, file.device);
    assert_eq!(bench.fs.metadata(&bench.dir).unwrap().kind, FileKind::Directory);
}

fn fs_random_differs(bench: &Bench) {
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..64 {
        let mut bytes = [0; 16];
        bench.fs.random(&mut bytes).unwrap();
        assert!(seen.insert(bytes));
    }
    let mut odd = [0; 1021];
    bench.fs.random(&mut odd).unwrap();
    assert!(odd[1010..].iter().any(|byte| *byte != 0));
}

fn fs_space_is_plausible(bench: &Bench) {
    let space = bench.fs.space(&bench.dir).unwrap();
    assert!(space.available > 0 && space.available <= space.total);
    assert!(space.inodes_available <= space.inodes);
}

fn fs_absurd_sizes_are_errors_with_their_number(bench: &Bench) {
    let file = bench.file("a", b"");
    assert_eq!(errno(file.allocate(u64::MAX)), libc::EFBIG);
    for result in [file.set_len(u64::MAX), file.write_at(u64::MAX, b"x")] {
        assert!(matches!(errno(result), libc::EFBIG | libc::EINVAL));
    }
    assert_eq!(file.len().unwrap(), 0);
}

fn fs_asking_for_no_copy_on_write_is_a_wish(bench: &Bench) {
    let file = bench.file("a", b"");
    let taken = file.no_copy_on_write().unwrap();
    assert_eq!(file.no_copy_on_write().unwrap(), taken);
    file.write_and_sync(&[Write { position: 0, bytes: &[1; 8192] }]).unwrap();
    let before = file.place().unwrap();
    file.write_and_sync(&[Write { position: 0, bytes: &[2; 4096] }]).unwrap();
    assert!(!taken || file.place().unwrap() == before, "taken, and not kept");
    assert_eq!(file.no_copy_on_write().unwrap(), taken, "asked again when there are bytes");
    assert_eq!(bench.bytes("a"), [[2; 4096], [1; 4096]].concat());
}

fn fs_the_place_of_a_file_is_its_own(bench: &Bench) {
    let file = bench.file("a", b"");
    assert_eq!(file.place().unwrap(), None);
    file.write_and_sync(&[Write { position: 8192, bytes: &[1; 4096] }]).unwrap();
    assert_eq!(file.place().unwrap(), None, "the first block is a hole");
    file.write_and_sync(&[Write { position: 0, bytes: &[1; 4096] }]).unwrap();
    let place = file.place().unwrap();
    assert_eq!(file.place().unwrap(), place);
    assert_eq!(bench.fs.open_read(&bench.at("a")).unwrap().place().unwrap(), place);
    file.write_and_sync(&[Write { position: 8192, bytes: &[2; 4096] }]).unwrap();
    assert_eq!(file.place().unwrap(), place, "another block was written");
    let other = bench.file("b", &[1; 4096]);
    assert!(place.is_none() || other.place().unwrap() != place);
}

fn fs_no_rename_goes_to_another_device(bench: &Bench) {
    let (fs, mount) = (&bench.fs, bench.at("mount"));
    fs.create_dir(&mount).unwrap();
    let _mount = match (bench.mount)(&mount) {
        Ok(mount) => mount,
        Err(why) => return skip::skip("fs_no_rename_goes_to_another_device", &why),
    };
    bench.file("here", b"here");
    bench.file("mount/there", b"there");
    let device = |name: &str| fs.metadata(&bench.at(name)).unwrap().device;
    assert_ne!(device("mount"), device(""));
    assert_eq!((device("mount"), device("")), (device("mount/there"), device("here")));
    let rename = |from: &str, to: &str| fs.rename(&bench.at(from), &bench.at(to));
    for (from, to) in [
        ("here", "mount/here"),
        ("here", "mount/there"),
        ("mount/there", "there"),
        // Told before the names are looked at.
        ("missing", "mount/missing"),
    ] {
        assert_eq!(errno(rename(from, to)), libc::EXDEV, "{from} to {to}");
    }
    assert_eq!(errno(rename("missing/a", "mount/a")), libc::ENOENT);
    assert_eq!(errno(rename("here", "mount/missing/here")), libc::ENOENT);
    fs.create_dir(&bench.at("mount/dir")).unwrap();
    rename("mount/there", "mount/dir/moved").unwrap();
    assert_eq!(bench.bytes("mount/dir/moved"), b"there");
    assert_eq!(bench.bytes("here"), b"here");
    assert_eq!(bench.names(), ["here", "mount"]);
}

fn fs_a_mount_point_stays_where_it_is(bench: &Bench) {
    let fs = &bench.fs;
    for dir in ["above", "above/mount", "above/empty"] {
        fs.create_dir(&bench.at(dir)).unwrap();
    }
    let _mount = match (bench.mount)(&bench.at("above/mount")) {
        Ok(mount) => mount,
        Err(why) => return skip::skip("fs_a_mount_point_stays_where_it_is", &why),
    };
    let rename = |from: &str, to: &str| fs.rename(&bench.at(from), &bench.at(to));
    for filled in [false, true] {
        assert_eq!(errno(rename("above/mount", "above/other")), libc::EBUSY);
        assert_eq!(errno(rename("above/mount", "other")), libc::EBUSY);
        assert_eq!(errno(rename("above/empty", "above/mount")), libc::EBUSY);
        assert_eq!(errno(fs.remove_dir(&bench.at("above/mount"))), libc::EBUSY, "{filled}");
        if !filled {
            bench.file("above/mount/file", b"kept");
            bench.file("above/file", b"");
        }
    }
    assert_eq!(errno(rename("above/file", "above/mount")), libc::EISDIR);
    assert_eq!(errno(rename("above/mount", "above/file")), libc::ENOTDIR);
    // It goes with the directory that it is in.
    rename("above", "moved").unwrap();
    assert_eq!(bench.bytes("moved/mount/file"), b"kept");
    assert_eq!(errno(rename("moved/file", "moved/mount/other")), libc::EXDEV);
    rename("moved", "above").unwrap();
}

const PAGE: usize = DIRECT_ALIGN;

/// Blocks in memory that may be written directly.
#[repr(C, align(4096))]
struct Aligned([u8; 4 * PAGE]);

fn aligned(fill: u8) -> Box<Aligned> {
    Box::new(Aligned([fill; 4 * PAGE]))
}

/// The file `a`, opened for direct writes; or says that the test was skipped.
fn direct(bench: &Bench, test: &str) -> Option<Arc<dyn File>> {
    let file = bench.fs.open_direct(&bench.at("a")).unwrap();
    if file.is_none() {
        skip::skip(test, "the directory for temporary files has no direct writes");
    }
    file.inspect(|file| assert!(file.is_direct()))
}

fn fs_direct_writes_are_seen_at_once_through_other_handles(bench: &Bench) {
    let name = "fs_direct_writes_are_seen_at_once_through_other_handles";
    let buffered = bench.file("a", &[1; 4 * PAGE]);
    assert!(!buffered.is_direct());
    // One that reads what is synced from the page cache, and one that has bytes there that are not.
    buffered.sync().unwrap();
    let reader = bench.fs.open_read(&bench.at("a")).unwrap();
    assert_eq!(bench.bytes("a"), [1; 4 * PAGE]);
    buffered.write_at(3 * PAGE as u64, &[2; 100]).unwrap();
    let Some(file) = direct(bench, name) else { return };
    let block = aligned(3);
    file.write_at(PAGE as u64, &block.0[..PAGE]).unwrap();
    let mut expected = vec![1; 4 * PAGE];
    expected[3 * PAGE..3 * PAGE + 100].fill(2);
    let check = |expected: &[u8]| {
        for handle in [&reader, &buffered] {
            let mut into = vec![0; 4 * PAGE];
            assert_eq!(handle.read_at(0, &mut into).unwrap(), into.len());
            assert!(into == expected);
        }
    };
    expected[PAGE..2 * PAGE].fill(3);
    check(&expected);
    // Over the bytes that were only in the cache.
    let block = aligned(4);
    file.write_and_sync(&[Write { position: 3 * PAGE as u64, bytes: &block.0[..PAGE] }]).unwrap();
    expected[3 * PAGE..].fill(4);
    check(&expected);
}

fn fs_direct_writes_that_are_not_aligned_write_nothing(bench: &Bench) {
    let name = "fs_direct_writes_that_are_not_aligned_write_nothing";
    bench.file("a", &[1; 4 * PAGE]).sync().unwrap();
    let Some(file) = direct(bench, name) else { return };
    let block = aligned(2);
    let page = PAGE as u64;
    for (position, bytes) in [
        (page + 1, &block.0[..PAGE]),
        (page, &block.0[..PAGE - 1]),
        (page, &block.0[1..=PAGE]),
        (page - 100, &block.0[..PAGE + 7]),
    ] {
        let written = if position % 2 == 0 {
            file.write_at(position, bytes)
        } else {
            file.write_and_sync(&[Write { position, bytes }])
        };
        let mut expected = vec![1; 4 * PAGE];
        match written {
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL)),
            // btrfs goes through the page cache for it.
            Ok(()) => {
                let from = usize::try_from(position).unwrap();
                expected[from..from + bytes.len()].fill(2);
            }
        }
        assert!(bench.bytes("a") == expected, "{position}, {} bytes", bytes.len());
        file.write_at(0, &aligned(1).0).unwrap();
    }
}

fn fs_direct_and_buffered_writes_mix_in_one_file(bench: &Bench) {
    let name = "fs_direct_and_buffered_writes_mix_in_one_file";
    let buffered = bench.file("a", &[0; 4 * PAGE]);
    let Some(file) = direct(bench, name) else { return };
    let mut expected = vec![0; 4 * PAGE];
    for round in 0..40_usize {
        let fill = u8::try_from(round + 1).unwrap();
        let at = round * 7 % 4 * PAGE;
        if round % 3 == 0 {
            // Within a block, and over into the next one.
            let at = (at + 1000).min(3 * PAGE);
            buffered.write_at(at as u64, &vec![fill; PAGE]).unwrap();
            expected[at..at + PAGE].fill(fill);
        } else {
            let block = aligned(fill);
            let write = Write { position: at as u64, bytes: &block.0[..PAGE] };
            if round % 3 == 1 {
                file.write_and_sync(&[write]).unwrap();
            } else {
                file.write_at(write.position, write.bytes).unwrap();
            }
            expected[at..at + PAGE].fill(fill);
        }
        assert!(bench.bytes("a") == expected, "round {round}");
        let mut into = aligned(0);
        assert_eq!(file.read_at(0, &mut into.0).unwrap(), 4 * PAGE);
        assert!(into.0[..] == expected, "round {round}");
    }
    file.sync().unwrap();
    buffered.sync().unwrap();
    assert!(bench.bytes("a") == expected);
}

fn fs_direct_write_and_sync_writes_all_parts(bench: &Bench) {
    let name = "fs_direct_write_and_sync_writes_all_parts";
    bench.file("a", &[0; 4 * PAGE]).sync().unwrap();
    let Some(file) = direct(bench, name) else { return };
    let (one, two) = (aligned(1), aligned(2));
    let page = PAGE as u64;
    let writes = [
        Write { position: 2 * page, bytes: &one.0[..2 * PAGE] },
        Write { position: 0, bytes: &two.0[..PAGE] },
        Write { position: 3 * page, bytes: &two.0[..PAGE] },
    ];
    file.write_and_sync(&writes).unwrap();
    let blocks = |fills: [u8; 4]| fills.map(|fill| [fill; PAGE]).concat();
    assert!(bench.bytes("a") == blocks([2, 0, 1, 2]));
    file.write_and_sync(&[Write { position: page, bytes: &one.0[..2 * PAGE] }]).unwrap();
    assert!(bench.bytes("a") == blocks([2, 1, 1, 2]));
    file.write_and_sync(&[]).unwrap();
    file.write_and_sync(&[Write { position: 0, bytes: &[] }]).unwrap();
    assert!(bench.bytes("a") == blocks([2, 1, 1, 2]));
}

fn fs_direct_writes_go_past_the_end_of_a_short_file(bench: &Bench) {
    let name = "fs_direct_writes_go_past_the_end_of_a_short_file";
    bench.file("a", &[1; 100]);
    let Some(file) = direct(bench, name) else { return };
    let block = aligned(2);
    file.write_and_sync(&[Write { position: 2 * PAGE as u64, bytes: &block.0[..PAGE] }]).unwrap();
    assert_eq!(file.len().unwrap(), 3 * PAGE as u64);
    let mut expected = vec![0; 3 * PAGE];
    expected[..100].fill(1);
    expected[2 * PAGE..].fill(2);
    assert!(bench.bytes("a") == expected);
    // The tail of a file that ends within a block.
    file.set_len(2 * PAGE as u64 + 10).unwrap();
    file.write_at(0, &block.0[..PAGE]).unwrap();
    expected[..PAGE].fill(2);
    assert!(bench.bytes("a") == expected[..2 * PAGE + 10]);
}

fn fs_direct_opens_answer_as_others_do(bench: &Bench) {
    let fs = &bench.fs;
    bench.file("a", b"x");
    fs.create_dir(&bench.at("d")).unwrap();
    (bench.link)(&bench.at("link"), &bench.at("a"));
    let Some(_file) = direct(bench, "fs_direct_opens_answer_as_others_do") else { return };
    for (path, code) in [
        ("missing", libc::ENOENT),
        ("missing/a", libc::ENOENT),
        ("a/b", libc::ENOTDIR),
        ("link", libc::ELOOP),
        ("d", libc::EISDIR),
    ] {
        assert_eq!(errno(fs.open_direct(&bench.at(path))), code, "{path}");
        assert_eq!(errno(fs.open_write(&bench.at(path))), code, "{path}");
    }
}

mod os_only {
    use super::*;

    #[test]
    fn fs_opening_a_pipe_neither_hangs_nor_succeeds() {
        let bench = Bench::real();
        let path = bench.at("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        assert_eq!(kind(bench.fs.open_read(&path)), ErrorKind::InvalidInput);
        assert_eq!(kind(bench.fs.open_write(&path)), ErrorKind::InvalidInput);
        // A pipe takes no `O_DIRECT` on some kernels.
        assert!(!matches!(bench.fs.open_direct(&path), Ok(Some(_))));
        assert_eq!(kind(bench.fs.lock(&path)), ErrorKind::InvalidInput);
        assert_eq!(bench.fs.list(&bench.dir).unwrap()[0].kind, FileKind::Other);
        assert_eq!(bench.fs.metadata(&path).unwrap().kind, FileKind::Other);
    }

    #[test]
    fn fs_modes_keep_others_out() {
        use std::os::unix::fs::PermissionsExt;
        let bench = Bench::real();
        bench.file("file", b"");
        bench.fs.create_dir(&bench.at("dir")).unwrap();
        let _lock = bench.fs.lock(&bench.at("LOCK")).unwrap();
        for name in ["file", "dir", "LOCK"] {
            let mode = std::fs::metadata(bench.at(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o027, 0, "{name} has mode {mode:o}");
        }
    }

    #[test]
    fn fs_no_descriptor_is_left_to_a_child() {
        let bench = Bench::real();
        let _file = bench.file("file", b"");
        let _read = bench.fs.open_read(&bench.at("file")).unwrap();
        let _lock = bench.fs.lock(&bench.at("LOCK")).unwrap();
        let listed = std::process::Command::new("ls").args(["-l", "/proc/self/fd"]).output();
        let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
        assert!(listed.contains("/proc/"), "{listed}");
        let dir = bench.dir.to_str().unwrap();
        assert!(!listed.contains(dir), "{listed}");
    }
}
