//! What the simulator lets become of names.
#![allow(clippy::unwrap_used, clippy::panic)]

use plimsoll::fs::FileSystem;
use plimsoll::fs::sim::{
    Names, NothingPersisted, Profile, Scripted, Sectors, Seeded, SimFileSystem,
};
use std::collections::BTreeSet;
use std::path::Path;

fn machine(dirs: &[&str]) -> SimFileSystem {
    let fs = SimFileSystem::new(1);
    for dir in dirs {
        fs.prepare_dir(dir).unwrap();
    }
    fs
}

/// A file whose only byte is `mark`; its content is durable, its name is not.
fn file(fs: &SimFileSystem, path: &str, mark: u8) {
    let file = fs.create(Path::new(path)).unwrap();
    file.write_at(0, &[mark]).unwrap();
    file.sync().unwrap();
}

fn sync(fs: &SimFileSystem, dir: &str) {
    fs.sync_dir(Path::new(dir)).unwrap();
}

fn rename(fs: &SimFileSystem, from: &str, to: &str) {
    fs.rename(Path::new(from), Path::new(to)).unwrap();
}

fn unlink(fs: &SimFileSystem, path: &str) {
    fs.remove_file(Path::new(path)).unwrap();
}

fn mkdir(fs: &SimFileSystem, path: &str) {
    fs.create_dir(Path::new(path)).unwrap();
}

/// All files as "path=mark", in one line.
fn state(fs: &SimFileSystem) -> String {
    let show = |path: &Path| {
        let mark = fs.cached(path).unwrap().first().copied().unwrap_or(b'-');
        format!("{}={}", path.display(), char::from(mark))
    };
    let files: Vec<String> = fs.files().iter().map(|path| show(path)).collect();
    files.join(" ")
}

/// Every outcome of a power cut now.
fn outcomes(fs: &SimFileSystem, names: Names) -> BTreeSet<String> {
    let mut script = Scripted::default();
    let mut seen = BTreeSet::new();
    loop {
        let world = fs.fork();
        world.set_profile(Profile { names, sectors: Sectors::Torn512 });
        world.power_cut(&mut script);
        seen.insert(state(&world));
        if !script.advance() {
            return seen;
        }
    }
}

fn assert_outcomes(fs: &SimFileSystem, names: Names, expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|state| (*state).to_string()).collect();
    assert_eq!(outcomes(fs, names), expected, "{names:?}");
}

/// Both models leave the same.
fn assert_both(fs: &SimFileSystem, expected: &[&str]) {
    assert_outcomes(fs, Names::Subset, expected);
    assert_outcomes(fs, Names::Prefix, expected);
}

#[test]
fn fs_syncing_a_file_does_not_make_its_name_durable() {
    let fs = machine(&["/a"]);
    file(&fs, "/a/x", b'1');
    assert_both(&fs, &["", "/a/x=1"]);
    sync(&fs, "/a");
    assert_both(&fs, &["/a/x=1"]);
}

#[test]
fn fs_syncing_a_directory_does_not_make_bytes_durable() {
    let fs = machine(&["/a"]);
    let file = fs.create(Path::new("/a/x")).unwrap();
    file.write_at(0, b"1").unwrap();
    sync(&fs, "/a");
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(state(&fs), "/a/x=-");
}

#[test]
fn fs_operations_on_different_names_survive_in_any_order_or_in_order() {
    let fs = machine(&["/a"]);
    file(&fs, "/a/x", b'1');
    file(&fs, "/a/y", b'2');
    assert_outcomes(&fs, Names::Subset, &["", "/a/x=1", "/a/y=2", "/a/x=1 /a/y=2"]);
    assert_outcomes(&fs, Names::Prefix, &["", "/a/x=1", "/a/x=1 /a/y=2"]);
}

#[test]
fn fs_a_removed_name_may_come_back_until_the_directory_is_synced() {
    let fs = machine(&["/a"]);
    file(&fs, "/a/x", b'1');
    sync(&fs, "/a");
    unlink(&fs, "/a/x");
    assert_both(&fs, &["/a/x=1", ""]);
    sync(&fs, "/a");
    assert_both(&fs, &[""]);
}

#[test]
fn fs_a_rename_is_kept_or_lost_as_one() {
    let fs = machine(&["/a"]);
    file(&fs, "/a/x", b'1');
    file(&fs, "/a/y", b'2');
    sync(&fs, "/a");
    rename(&fs, "/a/x", "/a/y");
    assert_both(&fs, &["/a/x=1 /a/y=2", "/a/y=1"]);
    sync(&fs, "/a");
    assert_both(&fs, &["/a/y=1"]);
}

#[test]
fn fs_a_rename_between_directories_needs_both_syncs() {
    let fs = machine(&["/a", "/b"]);
    file(&fs, "/a/x", b'1');
    sync(&fs, "/a");
    rename(&fs, "/a/x", "/b/x");
    for (first, second) in [("/a", "/b"), ("/b", "/a")] {
        let fs = fs.fork();
        assert_both(&fs, &["/a/x=1", "/b/x=1"]);
        sync(&fs, first);
        assert_both(&fs, &["/a/x=1", "/b/x=1"]);
        sync(&fs, second);
        assert_both(&fs, &["/b/x=1"]);
    }
}

#[test]
fn fs_a_chain_of_create_and_renames_keeps_a_prefix_of_itself() {
    let fs = machine(&["/s", "/l"]);
    file(&fs, "/s/tmp", b'1');
    rename(&fs, "/s/tmp", "/s/a");
    rename(&fs, "/s/a", "/l/a");
    assert_both(&fs, &["", "/s/tmp=1", "/s/a=1", "/l/a=1"]);
    sync(&fs, "/s");
    assert_both(&fs, &["/s/a=1", "/l/a=1"]);
    sync(&fs, "/l");
    assert_both(&fs, &["/l/a=1"]);
}

#[test]
fn fs_a_name_taken_again_needs_the_rename_that_freed_it() {
    let fs = machine(&["/a", "/b"]);
    file(&fs, "/a/x", b'1');
    sync(&fs, "/a");
    rename(&fs, "/a/x", "/b/x");
    file(&fs, "/a/x", b'2');
    assert_both(&fs, &["/a/x=1", "/b/x=1", "/a/x=2 /b/x=1"]);
    // The new file at the old name is surely there, so the old one cannot be: it has moved.
    sync(&fs, "/a");
    assert_both(&fs, &["/a/x=2 /b/x=1"]);
}

#[test]
fn fs_a_file_made_under_a_removed_name_is_not_the_old_one() {
    let fs = machine(&["/a"]);
    file(&fs, "/a/x", b'1');
    sync(&fs, "/a");
    unlink(&fs, "/a/x");
    file(&fs, "/a/x", b'2');
    assert_both(&fs, &["/a/x=1", "", "/a/x=2"]);
}

#[test]
fn fs_a_lost_directory_takes_all_that_is_in_it() {
    let fs = machine(&["/a"]);
    mkdir(&fs, "/a/d");
    file(&fs, "/a/d/x", b'1');
    sync(&fs, "/a/d");
    assert_outcomes(&fs, Names::Subset, &["", "/a/d/x=1"]);
    assert_outcomes(&fs, Names::Prefix, &["/a/d/x=1"]);
    sync(&fs, "/a");
    assert_both(&fs, &["/a/d/x=1"]);
}

#[test]
fn fs_a_file_moved_into_a_directory_without_a_durable_name_may_be_lost() {
    let fs = machine(&["/a", "/b"]);
    file(&fs, "/a/x", b'1');
    sync(&fs, "/a");
    mkdir(&fs, "/b/d");
    rename(&fs, "/a/x", "/b/d/x");
    // While the rename is open, it cannot be kept without the directory.
    assert_outcomes(&fs, Names::Subset, &["/a/x=1", "/b/d/x=1"]);
    sync(&fs, "/a");
    sync(&fs, "/b/d");
    // Now it is surely done, but nobody made the directory's own name durable.
    assert_outcomes(&fs, Names::Subset, &["", "/b/d/x=1"]);
    // One journal would have carried it along.
    assert_outcomes(&fs, Names::Prefix, &["/b/d/x=1"]);
    sync(&fs, "/b");
    assert_both(&fs, &["/b/d/x=1"]);
}

#[test]
fn fs_removing_a_directory_needs_what_was_moved_out_of_it() {
    let fs = machine(&["/a/d", "/b"]);
    file(&fs, "/a/d/x", b'1');
    sync(&fs, "/a/d");
    rename(&fs, "/a/d/x", "/b/x");
    fs.remove_dir(Path::new("/a/d")).unwrap();
    assert_both(&fs, &["/a/d/x=1", "/b/x=1"]);
    sync(&fs, "/a");
    assert_both(&fs, &["/b/x=1"]);
}

#[test]
fn fs_emptying_a_moved_directory_may_be_seen_at_its_old_name() {
    let fs = machine(&["/logs/l", "/trash"]);
    file(&fs, "/logs/l/1", b'1');
    sync(&fs, "/logs/l");
    rename(&fs, "/logs/l", "/trash/l");
    unlink(&fs, "/trash/l/1");
    sync(&fs, "/trash/l");
    // Whoever deletes before the move is durable has a log that is there and empty.
    let fs_after = fs.fork();
    fs_after.power_cut(&mut NothingPersisted);
    assert!(fs_after.list(Path::new("/logs/l")).unwrap().is_empty());
    assert!(fs_after.list(Path::new("/trash")).unwrap().is_empty());
    sync(&fs, "/logs");
    sync(&fs, "/trash");
    fs.power_cut(&mut NothingPersisted);
    assert!(fs.list(Path::new("/logs")).unwrap().is_empty());
}

#[test]
fn fs_moved_directories_never_end_up_inside_each_other() {
    let fs = machine(&["/a", "/b"]);
    file(&fs, "/a/x", b'1');
    file(&fs, "/b/y", b'2');
    sync(&fs, "/a");
    sync(&fs, "/b");
    rename(&fs, "/a", "/b/a");
    rename(&fs, "/b/a", "/c");
    rename(&fs, "/b", "/c/b");
    for state in outcomes(&fs, Names::Subset) {
        assert!(state.contains("x=1") && state.contains("y=2"), "lost a file: {state}");
    }
}

#[test]
fn fs_one_durable_operation_carries_earlier_ones_only_in_a_journal() {
    let fs = machine(&["/a", "/b"]);
    file(&fs, "/a/x", b'1');
    file(&fs, "/b/y", b'2');
    file(&fs, "/a/z", b'3');
    sync(&fs, "/b");
    assert_outcomes(
        &fs,
        Names::Subset,
        &["/b/y=2", "/a/x=1 /b/y=2", "/a/z=3 /b/y=2", "/a/x=1 /a/z=3 /b/y=2"],
    );
    assert_outcomes(&fs, Names::Prefix, &["/a/x=1 /b/y=2", "/a/x=1 /a/z=3 /b/y=2"]);
}

#[test]
fn fs_a_failed_directory_sync_proves_nothing() {
    use plimsoll::fs::sim::{Fault, OpKind, What};
    let fs = machine(&["/a"]);
    file(&fs, "/a/x", b'1');
    fs.inject(Fault::nth(OpKind::SyncDir, 0, What::Errno(libc::EIO)));
    let error = fs.sync_dir(Path::new("/a")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    assert_both(&fs, &["", "/a/x=1"]);
    fs.inject(Fault::nth(OpKind::SyncDir, 0, What::Lie));
    sync(&fs, "/a");
    assert_both(&fs, &["", "/a/x=1"]);
}

#[test]
fn fs_a_file_without_any_durable_name_is_gone_though_it_was_synced() {
    let fs = machine(&["/a"]);
    file(&fs, "/a/x", b'1');
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(state(&fs), "");
    assert_eq!(fs.used(), 0);
    file(&fs, "/a/x", b'2');
    assert_eq!(state(&fs), "/a/x=2");
}

#[test]
fn fs_a_removed_file_that_comes_back_has_its_bytes() {
    let fs = machine(&["/a", "/b"]);
    file(&fs, "/a/x", b'1');
    sync(&fs, "/a");
    unlink(&fs, "/a/x");
    sync(&fs, "/b");
    fs.process_death();
    fs.power_cut(&mut NothingPersisted);
    assert_eq!(state(&fs), "/a/x=1");
}

/// Random lives, checked against what must hold whatever survives.
#[test]
fn fs_random_histories_lose_no_file_to_a_rename_and_show_none_twice() {
    let dirs = ["/a", "/b", "/c"];
    for seed in 0..400_u64 {
        let fs = machine(&dirs);
        let mut random = Random(seed);
        // Files that were durable before anything was renamed, and are never removed or replaced.
        for (at, dir) in dirs.iter().enumerate() {
            file(&fs, &format!("{dir}/k{at}"), b'k');
            sync(&fs, dir);
        }
        for _ in 0..12 {
            let files = fs.files();
            let from = files[random.below(files.len())].to_str().unwrap().to_string();
            let to = format!("{}/n{}", dirs[random.below(3)], random.below(4));
            let taken = fs.cached(&to).ok().map(|bytes| bytes == b"k");
            match random.below(4) {
                0 if taken.is_none() => file(&fs, &to, b't'),
                1 if fs.cached(&from).unwrap() == b"t" => unlink(&fs, &from),
                2 if taken != Some(true) => rename(&fs, &from, &to),
                _ => sync(&fs, dirs[random.below(3)]),
            }
        }
        let before = state(&fs);
        for names in [Names::Subset, Names::Prefix] {
            for cut in 0..20 {
                let world = fs.fork();
                world.set_profile(Profile { names, sectors: Sectors::Torn512 });
                world.power_cut(&mut Seeded::new(seed * 100 + cut));
                let after = state(&world);
                let kept = after.matches("=k").count();
                assert_eq!(kept, 3, "seed {seed}, {names:?}: {before} became {after}");
            }
        }
        for dir in dirs {
            sync(&fs, dir);
        }
        fs.power_cut(&mut NothingPersisted);
        assert_eq!(state(&fs), before, "seed {seed}: all directories were synced");
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}
