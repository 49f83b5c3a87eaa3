//! Several devices in the simulator: what a mount point changes, and what it leaves alone.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll::fs::sim::{
    AllPersisted, Charges, Names, NothingPersisted, Profile, Scripted, Sectors, SimFileSystem,
};
use plimsoll::fs::{File, FileSystem, Space, is_no_space};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

const BLOCK: u64 = 4096;

/// `/d` on the main device, `/d/m` on another.
fn machine() -> SimFileSystem {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/d/m").unwrap();
    fs.mount("/d/m").unwrap();
    fs
}

fn create(fs: &SimFileSystem, path: &str) -> Arc<dyn File> {
    fs.create(Path::new(path)).unwrap()
}

fn device(fs: &SimFileSystem, path: &str) -> u64 {
    fs.metadata(Path::new(path)).unwrap().device
}

fn rename(fs: &SimFileSystem, from: &str, to: &str) -> io::Result<()> {
    fs.rename(Path::new(from), Path::new(to))
}

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.map(drop).unwrap_err().raw_os_error()
}

#[test]
fn fs_each_mount_is_a_device_and_what_is_made_there_is_on_it() {
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/d/m/inner").unwrap();
    fs.prepare_dir("/d/n").unwrap();
    let (inner, m, n) =
        (fs.mount("/d/m/inner").unwrap(), fs.mount("/d/m").unwrap(), fs.mount("/d/n").unwrap());
    assert_eq!(BTreeSet::from([device(&fs, "/d"), inner, m, n]).len(), 4);
    fs.create_dir(Path::new("/d/m/dir")).unwrap();
    drop(create(&fs, "/d/m/dir/file"));
    drop(create(&fs, "/d/m/inner/file"));
    fs.prepare_link("/d/link", "/d/n").unwrap();
    drop(create(&fs, "/d/link/file"));
    assert_eq!((device(&fs, "/d/m"), device(&fs, "/d/m/dir/file")), (m, m));
    assert_eq!((device(&fs, "/d/m/inner"), device(&fs, "/d/m/inner/file")), (inner, inner));
    assert_eq!((device(&fs, "/d/n/file"), device(&fs, "/d/link")), (n, device(&fs, "/d")));
    assert_eq!(errno(rename(&fs, "/d/m/dir/file", "/d/m/inner/x")), Some(libc::EXDEV));
    rename(&fs, "/d/link/file", "/d/n/moved").unwrap();
}

#[test]
fn fs_only_a_directory_that_is_no_mount_point_is_mounted_on() {
    let fs = machine();
    drop(create(&fs, "/d/file"));
    let image = fs.fingerprint();
    for (path, code) in [
        ("/", libc::EBUSY),
        ("/d/m", libc::EBUSY),
        ("/d/none", libc::ENOENT),
        ("/d/file", libc::ENOTDIR),
    ] {
        assert_eq!(errno(fs.mount(path)), Some(code), "{path}");
    }
    assert_eq!(fs.fingerprint(), image);
    assert_eq!(fs.mount("/d").unwrap(), device(&fs, "/d/m") + 1, "no number was used up");
}

#[test]
fn fs_a_mount_takes_what_is_there_along_with_its_space() {
    let fs = SimFileSystem::new(1);
    fs.set_charges(Charges { create: 1, ..Charges::default() });
    for dir in ["/d", "/d/m"] {
        fs.create_dir(Path::new(dir)).unwrap();
    }
    let open = create(&fs, "/d/m/file");
    open.write_at(0, &[1; 8192]).unwrap();
    let removed = create(&fs, "/d/m/removed");
    removed.write_at(0, &[1; 4096]).unwrap();
    fs.remove_file(Path::new("/d/m/removed")).unwrap();
    drop(create(&fs, "/d/m/gone"));
    fs.remove_file(Path::new("/d/m/gone")).unwrap();
    assert_eq!(fs.used(), (2 + 3 + 2) * BLOCK);
    fs.mount("/d/m").unwrap();
    assert_eq!((fs.used(), fs.used_at("/d/m/file").unwrap()), (3 * BLOCK, 2 * BLOCK));
    drop(removed);
    assert_eq!(fs.used(), BLOCK, "what had no name stayed where it was");
    open.set_len(4096).unwrap();
    assert_eq!((fs.used(), fs.used_at("/d/m").unwrap()), (BLOCK, BLOCK));
    open.write_at(0, b"synced").unwrap();
    open.sync().unwrap();
    fs.power_cut(&mut NothingPersisted);
    assert_eq!((fs.used(), fs.used_at("/d/m").unwrap()), (BLOCK, BLOCK));
    assert_eq!(&fs.cached("/d/m/file").unwrap()[..6], b"synced", "its name was durable");
}

#[test]
fn fs_each_device_fills_up_by_itself() {
    let fs = machine();
    fs.set_capacity(Some(4 * BLOCK));
    fs.set_capacity_at("/d/m", Some(3 * BLOCK)).unwrap();
    let charges = Charges { create: 1, rename: 1, overwrites: true, ..Charges::default() };
    fs.set_charges_at("/d/m", charges).unwrap();
    let (here, there) = (create(&fs, "/d/file"), create(&fs, "/d/m/file"));
    here.allocate(4 * BLOCK).unwrap();
    there.write_at(0, &[1; 4096]).unwrap();
    there.sync().unwrap();
    assert_eq!((fs.used(), fs.used_at("/d/m").unwrap()), (4 * BLOCK, 2 * BLOCK));
    rename(&fs, "/d/m/file", "/d/m/moved").unwrap();
    there.write_at(0, &[2; 4096]).unwrap();
    assert_eq!(errno(rename(&fs, "/d/m/moved", "/d/m/again")), Some(libc::ENOSPC));
    assert!(is_no_space(&fs.create(Path::new("/d/m/more")).unwrap_err()));
    rename(&fs, "/d/file", "/d/moved").unwrap();
    drop(create(&fs, "/d/more"));
    assert_eq!(fs.space(Path::new("/d")).unwrap().available, 0);
    there.sync().unwrap();
    let space = fs.space(Path::new("/d/m")).unwrap();
    assert_eq!((space.total, space.available), (3 * BLOCK, BLOCK));
    // Inodes: of /, /d and the two files here; of the mount and one file there.
    let inodes = |path: &str| {
        let space = fs.space(Path::new(path)).unwrap();
        space.inodes - space.inodes_available
    };
    assert_eq!((inodes("/d/moved"), inodes("/d/m/moved")), (4, 2));
    drop((here, there));
    fs.remove_file(Path::new("/d/moved")).unwrap();
    assert_eq!((fs.used(), fs.used_at("/d/m").unwrap()), (0, 2 * BLOCK));
    fs.remove_file(Path::new("/d/m/moved")).unwrap();
    assert_eq!(fs.used_at("/d/m").unwrap(), 0);
    let lie = Space { total: 10, available: 9, ..Space::default() };
    fs.set_space_at("/d/m", Some(lie)).unwrap();
    assert_eq!(fs.space(Path::new("/d/m")).unwrap(), lie);
    assert_ne!(fs.space(Path::new("/d")).unwrap(), lie);
}

#[test]
fn fs_a_thin_device_fails_alone() {
    let fs = machine();
    fs.set_capacity_at("/d/m", Some(BLOCK)).unwrap();
    fs.set_charges_at("/d/m", Charges { at_sync: true, ..Charges::default() }).unwrap();
    let (here, there) = (create(&fs, "/d/file"), create(&fs, "/d/m/file"));
    for file in [&here, &there] {
        file.write_at(0, &[1; 8192]).unwrap();
    }
    here.sync().unwrap();
    assert_eq!(errno(there.sync()), Some(libc::ENOSPC));
}

#[test]
fn fs_mounts_stay_through_crashes_and_are_in_copies() {
    let fs = machine();
    let at_first = fs.snapshot();
    fs.prepare_dir("/d/n").unwrap();
    let unmounted = fs.fork();
    fs.mount("/d/n").unwrap();
    assert_ne!(fs.fingerprint(), unmounted.fingerprint());
    assert_eq!(fs.fork().fingerprint(), fs.fingerprint());
    unmounted.set_capacity_at("/d/m", Some(BLOCK)).unwrap();
    assert!(fs.space(Path::new("/d/m")).unwrap().total > BLOCK, "a fork has budgets of its own");
    let devices = |fs: &SimFileSystem| ["/d", "/d/m", "/d/n"].map(|path| device(fs, path));
    let [d, m, n] = devices(&fs);
    assert_eq!(devices(&fs.fork()), [d, m, n]);
    assert_eq!(devices(&unmounted), [d, m, d]);
    fs.process_death();
    assert_eq!(devices(&fs), [d, m, n]);
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(devices(&fs), [d, m, n]);
    fs.restore(&at_first);
    assert_eq!((device(&fs, "/d/m"), fs.metadata(Path::new("/d/n")).is_err()), (m, true));
}

#[test]
fn fs_what_is_lost_leaves_no_device_behind() {
    let fs = machine();
    drop(create(&fs, "/d/m/lost"));
    fs.power_cut(&mut NothingPersisted);
    assert!(fs.files().is_empty());
    drop(create(&fs, "/d/file"));
    assert_eq!(device(&fs, "/d/file"), device(&fs, "/d"));
    drop(create(&fs, "/d/m/kept"));
    fs.power_cut(&mut AllPersisted);
    assert_eq!(device(&fs, "/d/m/kept"), device(&fs, "/d/m"));
}

/// The names that every power cut may leave, in one line each.
fn outcomes(fs: &SimFileSystem) -> BTreeSet<String> {
    let mut script = Scripted::default();
    let mut seen = BTreeSet::new();
    loop {
        let world = fs.fork();
        world.set_profile(Profile { names: Names::Prefix, sectors: Sectors::Torn512 });
        world.power_cut(&mut script);
        let files: Vec<String> =
            world.files().iter().map(|path| path.display().to_string()).collect();
        seen.insert(files.join(" "));
        if !script.advance() {
            return seen;
        }
    }
}

fn expect(seen: &[&str]) -> BTreeSet<String> {
    seen.iter().map(|state| (*state).to_string()).collect()
}

#[test]
fn fs_a_journal_carries_no_name_of_another_device_with_it() {
    let fs = machine();
    drop(create(&fs, "/d/a"));
    drop(create(&fs, "/d/m/b"));
    drop(create(&fs, "/d/c"));
    let all = ["", "/d/a", "/d/a /d/c", "/d/m/b", "/d/a /d/m/b", "/d/a /d/c /d/m/b"];
    assert_eq!(outcomes(&fs), expect(&all), "each device keeps the first so many of its own");
    let synced = fs.fork();
    synced.sync_dir(Path::new("/d/m")).unwrap();
    assert_eq!(outcomes(&synced), expect(&all[3..]));
    fs.create_dir(Path::new("/d/e")).unwrap();
    drop(create(&fs, "/d/e/f"));
    fs.sync_dir(Path::new("/d/e")).unwrap();
    assert_eq!(outcomes(&fs), expect(&["/d/a /d/c /d/e/f", "/d/a /d/c /d/e/f /d/m/b"]));
}
