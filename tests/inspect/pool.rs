//! The spares of data directories, counted; and one file among them.

use crate::image::{EARLIER_LOG, Image, LOG, generation};
use crate::store::{empty, flip, header, payload, put, remember, three};
use plimsoll::format::header::Header;
use plimsoll::fs::sim::{Fault, OpKind, SimFileSystem, What};
use plimsoll::fs::{FileSystem, OsFileSystem};
use plimsoll::inspect::{self, CheckpointView, Outcome, PoolReport, SpareState, Usage};
use plimsoll::types::SizeClass;
use std::path::{Path, PathBuf};

/// As the layout of [`empty`] has it.
const TINY: u64 = 64 << 10;

fn pool(dirs: &[&Path]) -> PoolReport {
    let dirs: Vec<PathBuf> = dirs.iter().map(|dir| dir.to_path_buf()).collect();
    inspect::pool(&OsFileSystem, &dirs, &|| ())
}

fn stamped(raw: u16) -> Header {
    Header { capacity: TINY, in_use: None, ..header(raw, LOG, 0, 0) }
}

fn given_up(raw: u16) -> Header {
    Header { capacity: TINY, ..header(raw, LOG, 0, 0) }
}

fn add(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join("spares").join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Seven tiny files, one of each kind and two of some, and a small one.
fn fill(dir: &Path) {
    empty(dir);
    add(dir, "1.seg", &Image::new(&stamped(3)).bytes);
    add(dir, "2.seg", &Image::new(&stamped(u16::MAX)).bytes);
    add(dir, "3.seg", &Image::new(&given_up(9)).bytes);
    add(dir, "4.seg", &Image::new(&stamped(1)).bytes[..40_960]);
    let damaged = add(dir, "5.seg", &Image::new(&stamped(1)).bytes);
    flip(&damaged, 30);
    add(dir, "6.tmp", &vec![0; TINY as usize]);
    add(dir, "7.tmp", b"begun");
    let small = Header { class: SizeClass::Small, capacity: 2 << 20, ..stamped(2) };
    add(dir, "8.seg", &Image::new(&small).bytes);
}

#[test]
fn spares_are_counted_by_class_and_by_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let report = pool(&[dir.path()]);
    assert_eq!(report.outcome, Outcome::Clean, "nothing among spares is damage");
    let [device] = report.devices.as_slice() else { panic!("{:?}", report.devices) };
    assert!(device.space.is_some_and(|space| space.total > 0));
    let [found] = device.dirs.as_slice() else { panic!("{:?}", device.dirs) };
    let tiny = found.of(SizeClass::Tiny);
    assert_eq!(
        (tiny.files, tiny.stamped, tiny.given_up, tiny.wrong_size, tiny.damaged, tiny.being_made),
        (6, 2, 1, 1, 1, 1)
    );
    assert_eq!(tiny.generations, Some((generation(3), generation(u16::MAX))));
    assert_eq!(tiny.last_generation, 1);
    assert_eq!(tiny.in_pool(), 4);
    assert!(tiny.disk_bytes > 0);
    let small = found.of(SizeClass::Small);
    assert_eq!((small.files, small.stamped, small.last_generation), (1, 1, 0));
    assert_eq!(found.of(SizeClass::Main).files, 0);
    assert_eq!((found.unclassed.files, found.unclassed.being_made), (1, 1));
    let said: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("4.seg") && said[0].contains("40960 bytes"), "{said:?}");
    assert!(said[1].contains("5.seg") && said[1].contains("a start deletes it"), "{said:?}");
}

#[test]
fn the_first_tiny_files_are_kept_back_and_the_rest_counts_against_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let report = pool(&[dir.path()]);
    let usage = |kept_back| report.devices[0].usage(kept_back);
    assert_eq!(usage(0), Usage { counted_bytes: 4 * TINY + (2 << 20), ..Usage::default() });
    // A part of a file is none.
    let three = Usage {
        counted_bytes: TINY + (2 << 20),
        kept_back_files: 3,
        kept_back_bytes: 3 * TINY,
        missing_files: 0,
        missing_bytes: 0,
    };
    assert_eq!(usage(3 * TINY + 5), three);
    let ten = Usage {
        counted_bytes: 2 << 20,
        kept_back_files: 10,
        kept_back_bytes: 10 * TINY,
        missing_files: 6,
        missing_bytes: 6 * TINY,
    };
    assert_eq!(usage(10 * TINY), ten);
}

#[test]
fn directories_of_one_device_are_one_device_and_share_what_is_kept_back() {
    let root = tempfile::tempdir().unwrap();
    let (one, two, none) =
        (root.path().join("one"), root.path().join("two"), root.path().join("none"));
    fill(&one);
    empty(&two);
    std::fs::create_dir(&none).unwrap();
    let report = pool(&[&one, &none, &two, &root.path().join("missing")]);
    assert_eq!(report.devices.len(), 1);
    let device = &report.devices[0];
    let dirs: Vec<&Path> = device.dirs.iter().map(|found| found.dir.as_path()).collect();
    assert_eq!(dirs, [one.as_path(), two.as_path()], "what is no data directory gets no share");
    // Three files each: one has four, two has none.
    let usage = device.usage(6 * TINY);
    assert_eq!((usage.kept_back_files, usage.missing_files), (6, 3));
    assert_eq!(usage.counted_bytes, TINY + (2 << 20));
    assert_eq!(report.outcome, Outcome::Unreadable);
    let said: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(said.iter().any(|text| text.contains("not a data directory")), "{said:?}");
    assert!(said.iter().any(|text| text.contains("missing")), "{said:?}");
}

#[test]
fn without_a_layout_the_files_say_their_sizes() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    std::fs::remove_file(dir.path().join("LAYOUT")).unwrap();
    let report = pool(&[dir.path()]);
    let found = &report.devices[0].dirs[0];
    assert_eq!((found.sizes.tiny, found.sizes.small, found.sizes.main), (TINY, 2 << 20, 0));
    assert_eq!(found.of(SizeClass::Tiny).in_pool(), 4);
    // No size, no division by it.
    for entry in std::fs::read_dir(dir.path().join("spares")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(pool(&[dir.path()]).devices[0].usage(1 << 30), Usage::default());
}

#[test]
fn a_file_of_another_size_than_the_layouts_is_told() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    let other = Header { capacity: 32_768, ..stamped(1) };
    let path = add(dir.path(), "1.seg", &Image::new(&other).bytes);
    let report = pool(&[dir.path()]);
    assert_eq!(report.devices[0].dirs[0].of(SizeClass::Tiny).wrong_size, 1);
    assert_eq!(report.devices[0].usage(0).counted_bytes, 0);
    let standing = inspect::segment(&OsFileSystem, &path, &|| ()).standing.unwrap();
    assert_eq!((standing.state, standing.next_generation), (SpareState::WrongSize, None));
}

#[test]
fn a_spare_that_is_whole_at_the_second_look_was_being_stamped() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    let path = add(dir.path(), "1.seg", &Image::new(&stamped(4)).bytes);
    let taken = add(dir.path(), "2.seg", &Image::new(&stamped(4)).bytes);
    flip(&path, 13);
    flip(&taken, 13);
    let settle = || {
        flip(&path, 13);
        std::fs::remove_file(&taken).unwrap();
    };
    let report = inspect::pool(&OsFileSystem, &[dir.path().to_path_buf()], &settle);
    let tiny = report.devices[0].dirs[0].of(SizeClass::Tiny);
    assert_eq!((tiny.files, tiny.stamped), (1, 1));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn what_cannot_be_read_is_unreadable_and_named() {
    let fs = SimFileSystem::new(1);
    for name in ["", "/logs", "/spares"] {
        fs.prepare_dir(format!("/d{name}")).unwrap();
    }
    let file = fs.create(Path::new("/d/spares/1.seg")).unwrap();
    file.write_at(0, &Image::new(&stamped(1)).bytes).unwrap();
    fs.inject(Fault::nth(OpKind::Read, 0, What::Errno(libc::EIO)).forever());
    let report = inspect::pool(&fs, &[PathBuf::from("/d")], &|| ());
    assert_eq!(report.outcome, Outcome::Unreadable);
    assert!(report.findings[0].to_string().contains("1.seg"), "{:?}", report.findings);
    assert_eq!(report.devices[0].dirs[0].unclassed.damaged, 1);
}

#[test]
fn i11_a_look_at_spares_changes_nothing_and_takes_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    three(dir.path(), "a", LOG);
    let before = remember(dir.path());
    let lock = OsFileSystem.lock(&dir.path().join("LOCK")).unwrap();
    assert_ne!(pool(&[dir.path()]).devices[0].dirs[0].held, Some(false));
    drop(lock);
    let _ = pool(&[dir.path()]);
    for entry in std::fs::read_dir(dir.path().join("spares")).unwrap() {
        let _ = inspect::segment(&OsFileSystem, &entry.unwrap().path(), &|| ());
    }
    assert_eq!(remember(dir.path()), before);
}

#[test]
fn case_I2_what_a_given_up_file_holds_are_leftovers_by_generation_and_no_messages() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    let earlier = Header { capacity: TINY, ..header(6, EARLIER_LOG, 0, 0) };
    let mut image = Image::new(&earlier);
    for _ in 0..20 {
        image.record(b"", &[b'a'; 100]);
    }
    image.use_again(&given_up(7));
    for at in 0..5 {
        image.record(b"", &payload(at));
        image.synced();
    }
    image.checkpoint();
    // A bit that the checkpoint vouches for: damage in a log, nothing here.
    image.flip(8192 + 40, 1);
    let path = add(dir.path(), "1.seg", &image.bytes);
    let report = inspect::segment(&OsFileSystem, &path, &|| ());
    assert_eq!(report.outcome, Outcome::Clean, "{:?}", report.findings);
    let standing = report.standing.unwrap();
    assert_eq!(standing.state, SpareState::GivenUp);
    assert_eq!(standing.next_generation, Some(generation(8)));
    assert_eq!((report.records.count, report.stop, report.vouched), (0, None, None));
    assert!(matches!(report.checkpoint, CheckpointView::Ignored(_)), "{:?}", report.checkpoint);
    let found: Vec<_> =
        report.beyond.leftovers.iter().map(|l| (l.generation.get(), l.records, l.whole)).collect();
    assert_eq!(found[0], (7, 5, 4));
    assert_eq!(found[1].0, 6);
    // The same bytes in a log are a segment with damage, also if the log is named `spares`.
    let path = put(dir.path(), "spares", 0, &image.bytes);
    let report = inspect::segment(&OsFileSystem, &path, &|| ());
    assert_eq!((report.outcome, report.standing), (Outcome::Damaged, None));
}

#[test]
fn a_file_among_the_spares_is_told_with_what_a_start_makes_of_it() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let of = |name: &str| {
        let path = dir.path().join("spares").join(name);
        let report = inspect::segment(&OsFileSystem, &path, &|| ());
        assert_eq!(report.outcome, Outcome::Clean, "{name}: {:?}", report.findings);
        let standing = report.standing.unwrap();
        (standing.state, standing.next_generation.map(|next| next.get()))
    };
    assert_eq!(of("1.seg"), (SpareState::Stamped, Some(4)));
    assert_eq!(of("2.seg"), (SpareState::Stamped, None));
    assert_eq!(of("3.seg"), (SpareState::GivenUp, Some(10)));
    assert_eq!(of("4.seg"), (SpareState::WrongSize, None));
    assert_eq!(of("5.seg"), (SpareState::Damaged, None));
    assert_eq!(of("6.tmp"), (SpareState::BeingMade, None));
    assert_eq!(of("7.tmp"), (SpareState::BeingMade, None));
}
