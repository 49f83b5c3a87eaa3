//! Logs, data directories, and verify, on stores built by hand.

use crate::image::{EARLIER_LOG, LOG};
use crate::store::{empty, flip, header, put, remember, segment, spare, three};
use plimsoll::fs::{FileSystem, OsFileSystem};
use plimsoll::inspect::{self, Depth, Held, LayoutView, Outcome, Role, VerifyReport};
use plimsoll::types::Offset;
use std::path::Path;
use std::sync::Arc;

fn verify(dir: &Path) -> VerifyReport {
    inspect::verify(Arc::new(OsFileSystem), dir, &|| (), &mut |_| ())
}

fn node(dir: &Path) -> inspect::NodeReport {
    inspect::node(&OsFileSystem, dir, Depth::Records, &|| ())
}

#[test]
fn a_good_store_is_clean_from_every_side() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    three(dir.path(), "a/b", LOG);
    three(dir.path(), "c", EARLIER_LOG);
    std::fs::create_dir(dir.path().join("logs/never-used")).unwrap();
    let report = node(dir.path());
    let findings: Vec<_> = report.all_findings().collect();
    assert_eq!(report.outcome, Outcome::Clean, "{findings:?}");
    assert!(matches!(report.layout, LayoutView::Valid(_)));
    let names: Vec<_> = report.logs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a/b", "c", "never-used"]);
    let (_, log) = &report.logs[0];
    assert_eq!((log.head, log.tail, log.vouched), (Offset(0), Offset(30), Offset(30)));
    assert_eq!(log.id, Some(LOG));
    let ends: Vec<_> = log.segments.iter().map(|entry| (entry.end, entry.sealed)).collect();
    assert_eq!(
        ends,
        [(Some(Offset(10)), true), (Some(Offset(20)), true), (Some(Offset(30)), false)]
    );
    let held: u64 =
        log.segments.iter().map(|entry| entry.report.as_ref().unwrap().records.bytes).sum();
    assert_eq!(log.held, Held { bytes: held, exact: true });
    // Without reading them the first two segments count as full, and the last as far as it goes.
    let ends = inspect::node(&OsFileSystem, dir.path(), Depth::Ends, &|| ()).logs[0].1.held;
    let last = log.segments[2].report.as_ref().unwrap().records.bytes;
    let room = crate::store::CAPACITY - plimsoll::format::RECORDS_POSITION;
    assert_eq!(ends, Held { bytes: 2 * room + last, exact: false });
    let checked = verify(dir.path());
    assert_eq!((checked.outcome, checked.logs, checked.files), (Outcome::Clean, 3, 6));
    assert_eq!(checked.records, 60);
}

#[test]
fn i11_nothing_changes_a_byte_a_name_or_a_time() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    let files = three(dir.path(), "a", LOG);
    three(dir.path(), "b/c", EARLIER_LOG);
    flip(&files[1].0, files[1].1[3] + 20);
    std::fs::write(dir.path().join("spares/7.seg"), crate::image::Image::new(&spare(3)).bytes)
        .unwrap();
    std::fs::write(dir.path().join("spares/8.tmp"), b"half").unwrap();
    std::fs::write(dir.path().join("LAYOUT.tmp"), b"0123456789").unwrap();
    put(dir.path(), "a", 30, &crate::image::Image::new(&spare(3)).bytes);
    let before = remember(dir.path());
    let _ = node(dir.path());
    let _ = verify(dir.path());
    for (path, _) in &files {
        let _ = inspect::segment(&OsFileSystem, path, &|| ());
        let _ = inspect::records(&OsFileSystem, path).unwrap().count();
    }
    let log = dir.path().join("logs/a");
    let mut reader = inspect::LogReader::open(Arc::new(OsFileSystem), &log, None).unwrap();
    while let Ok(Some(_)) = reader.next() {}
    let _ = reader.refresh();
    assert_eq!(remember(dir.path()), before);
    // And no lock: a node can start at any moment.
    let lock = OsFileSystem.lock(&dir.path().join("LOCK")).unwrap();
    let _ = node(dir.path());
    drop(lock);
}

#[test]
fn verify_names_file_position_and_offset_of_all_damage() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    let files = three(dir.path(), "a", LOG);
    flip(&files[0].0, files[0].1[3] + 33);
    flip(&files[1].0, files[1].1[9] + 33);
    flip(&files[2].0, files[2].1[0] + 33);
    let report = verify(dir.path());
    assert_eq!(report.outcome, Outcome::Damaged);
    let mut found: Vec<_> = report
        .files_with_findings
        .iter()
        .flat_map(|file| &file.findings)
        .filter(|finding| finding.outcome == Outcome::Damaged)
        .map(|finding| (finding.file.clone(), finding.position.unwrap(), finding.offset.unwrap().0))
        .collect();
    found.sort();
    // The last record of the second segment is vouched for by the third one's header alone.
    let expected = [
        (files[0].0.clone(), files[0].1[3], 3),
        (files[1].0.clone(), files[1].1[9], 19),
        (files[2].0.clone(), files[2].1[0], 20),
    ];
    assert_eq!(found, expected);
}

#[test]
fn verify_shares_its_work_among_threads() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    for at in 0..8u8 {
        three(dir.path(), &format!("log{at}"), plimsoll::types::LogId([at; 16]));
    }
    let job = inspect::Verify::node(Arc::new(OsFileSystem), dir.path(), &|| ());
    assert_eq!(job.files(), 24);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| while job.step().is_some() {});
        }
    });
    let report = job.finish();
    assert_eq!((report.outcome, report.files, report.records), (Outcome::Clean, 24, 240));
}

#[test]
fn a_missing_segment_and_a_bad_header_are_damage_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    let files = three(dir.path(), "a", LOG);
    std::fs::remove_file(&files[1].0).unwrap();
    let report = verify(dir.path());
    assert_eq!(report.outcome, Outcome::Damaged);
    let files = three(dir.path(), "a", LOG);
    flip(&files[1].0, 41);
    let log = inspect::log(&OsFileSystem, &dir.path().join("logs/a"), Depth::Records, &|| ());
    assert_eq!(log.outcome, Outcome::Damaged);
    let roles: Vec<_> = log.segments.iter().map(|entry| entry.role).collect();
    assert_eq!(roles, [Role::Segment, Role::BehindDamage, Role::BehindDamage]);
    assert_eq!(log.tail, Offset(10));
    // Records are found behind the header all the same.
    assert_eq!(log.segments[1].report.as_ref().unwrap().records.count, 10);
}

#[test]
fn a_lost_header_is_damage_of_its_file_alone() {
    let damaged = |report: &VerifyReport| {
        let of_files = report.files_with_findings.iter().flat_map(|check| &check.findings);
        let all = report.findings.iter().chain(of_files);
        let found = all.filter(|finding| finding.outcome == Outcome::Damaged);
        let mut found: Vec<_> =
            found.map(|finding| (finding.file.clone(), finding.position)).collect();
        found.sort();
        found
    };
    let spare = crate::image::Image::new(&spare(2)).bytes[..512].to_vec();
    for (header, position) in [(vec![7; 512], 0), (vec![0; 512], 0), (spare.clone(), 0)] {
        let dir = tempfile::tempdir().unwrap();
        empty(dir.path());
        let files = three(dir.path(), "a", LOG);
        let overwrite = |path: &Path| {
            let mut bytes = std::fs::read(path).unwrap();
            bytes[..512].copy_from_slice(&header);
            std::fs::write(path, bytes).unwrap();
        };
        // The segment before it is whole: it ends where the name says.
        overwrite(&files[1].0);
        let second = (files[1].0.clone(), Some(position));
        assert_eq!(damaged(&verify(dir.path())), std::slice::from_ref(&second));
        // One more behind the first: a file that has a later one behind it had its header.
        overwrite(&files[0].0);
        let first = (files[0].0.clone(), Some(position));
        assert_eq!(damaged(&verify(dir.path())), [first, second]);
    }
    // Nor is a file without records excused where it is the only one, and says that there were others.
    for bytes in [&[][..], &[0; 9000], &crate::image::Image::new(&crate::store::spare(2)).bytes] {
        let dir = tempfile::tempdir().unwrap();
        empty(dir.path());
        let path = put(dir.path(), "a", 3, bytes);
        assert_eq!(damaged(&verify(dir.path())), [(path, Some(0))]);
    }
    // What is not the log's stays so behind damage.
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    let files = three(dir.path(), "a", LOG);
    flip(&files[0].0, 41);
    put(dir.path(), "a", 31, &crate::image::Image::new(&crate::store::spare(3)).bytes);
    assert_eq!(damaged(&verify(dir.path())), [(files[0].0.clone(), Some(508))]);
}

#[test]
fn trailing_files_are_told_with_what_becomes_of_them() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    three(dir.path(), "a", LOG);
    put(dir.path(), "a", 30, &crate::image::Image::new(&spare(3)).bytes);
    put(dir.path(), "a", 31, &[]);
    let log = inspect::log(&OsFileSystem, &dir.path().join("logs/a"), Depth::Records, &|| ());
    let roles: Vec<_> = log.segments.iter().map(|entry| entry.role).collect();
    assert_eq!(roles[3..], [Role::BackToPool, Role::Remove]);
    assert_eq!(log.outcome, Outcome::Clean, "{:?}", log.findings);
    assert_eq!(verify(dir.path()).outcome, Outcome::Clean);
}

#[test]
fn a_declared_gap_is_no_damage_and_is_told() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    put(dir.path(), "a", 0, &segment(&header(1, LOG, 0, 0), 10).0.bytes);
    put(dir.path(), "a", 15, &segment(&header(1, LOG, 15, 10), 5).0.bytes);
    let log = inspect::log(&OsFileSystem, &dir.path().join("logs/a"), Depth::Records, &|| ());
    assert_eq!(log.gaps, [inspect::Gap { from: Offset(10), to: Offset(15) }]);
    assert_eq!(log.outcome, Outcome::Clean, "{:?}", log.findings);
    assert_eq!(verify(dir.path()).outcome, Outcome::Clean);
}

#[test]
fn case_J5_links_are_named_and_never_followed() {
    let dir = tempfile::tempdir().unwrap();
    let victim = tempfile::tempdir().unwrap();
    let data = dir.path();
    empty(data);
    three(data, "a", LOG);
    let inner = three(victim.path(), "v", EARLIER_LOG);
    std::fs::write(victim.path().join("file"), b"precious").unwrap();
    let before = remember(victim.path());
    let link = |to: &Path, name: &str| {
        std::os::unix::fs::symlink(to, data.join(name)).unwrap();
    };
    link(&victim.path().join("logs/v"), "logs/linked");
    link(&inner[0].0, "logs/a/00000000000000000030.seg");
    link(&victim.path().join("file"), "spares/1.seg");
    link(victim.path(), "trash/t");
    link(victim.path(), "quarantine/q");
    link(victim.path(), "extra");
    let report = node(data);
    assert_eq!(report.outcome, Outcome::Foreign);
    let findings: Vec<_> = report.all_findings().map(ToString::to_string).collect();
    for name in [
        "logs/linked",
        "logs/a/00000000000000000030.seg",
        "spares/1.seg",
        "trash/t",
        "quarantine/q",
        "extra",
    ] {
        let named = |text: &&String| text.contains(name) && text.contains("link");
        assert!(findings.iter().any(|text| named(&text)), "{name}: {findings:?}");
    }
    assert!(!findings.iter().any(|text| text.contains("precious")));
    assert_eq!(report.logs.len(), 1);
    assert!(verify(data).outcome >= Outcome::Foreign);
    assert_eq!(remember(victim.path()), before);
}

#[test]
fn case_B7_layout_files_are_told_by_their_state() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    three(dir.path(), "a", LOG);
    std::fs::write(dir.path().join("LAYOUT.tmp"), b"0123456789").unwrap();
    let report = node(dir.path());
    assert_eq!(report.outcome, Outcome::Clean);
    assert!(report.findings[0].file.ends_with("LAYOUT.tmp"));
    std::fs::write(dir.path().join("LAYOUT"), b"").unwrap();
    let report = node(dir.path());
    assert_eq!((report.outcome, report.layout), (Outcome::Clean, LayoutView::ToBeMade));
    std::fs::write(dir.path().join("LAYOUT"), b"plimsoll layout 1\nmain x\n").unwrap();
    let report = node(dir.path());
    assert_eq!(report.outcome, Outcome::Damaged);
    assert!(report.findings[0].to_string().contains("line 2"), "{}", report.findings[0]);
    let body = "plimsoll layout 9\nsomething else\n";
    let newer = format!("{body}crc32 {:08x}\n", crc32fast::hash(body.as_bytes()));
    std::fs::write(dir.path().join("LAYOUT"), newer).unwrap();
    assert_eq!(node(dir.path()).outcome, Outcome::Unreadable);
    std::fs::remove_file(dir.path().join("LAYOUT")).unwrap();
    assert_eq!(node(dir.path()).layout, LayoutView::ToBeMade);
}

#[test]
fn i6_a_file_in_two_places_is_found() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    let files = three(dir.path(), "a", LOG);
    std::fs::copy(&files[1].0, dir.path().join("spares/1.seg")).unwrap();
    let report = node(dir.path());
    assert_eq!(report.outcome, Outcome::Damaged);
    let damaged = report.findings.iter().find(|finding| finding.outcome == Outcome::Damaged);
    let text = damaged.unwrap().to_string();
    assert!(text.contains("spares/1.seg") && text.contains("two places"), "{text}");
}

#[test]
fn foreign_files_and_what_is_no_store_are_told() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(node(dir.path()).outcome, Outcome::Unreadable);
    empty(dir.path());
    three(dir.path(), "a", LOG);
    std::fs::write(dir.path().join("notes.txt"), b"x").unwrap();
    std::fs::write(dir.path().join("logs/core"), b"x").unwrap();
    std::fs::create_dir(dir.path().join("logs/bad name")).unwrap();
    let report = node(dir.path());
    assert_eq!(report.outcome, Outcome::Foreign);
    let files: Vec<_> = report.findings.iter().map(|f| f.file.file_name().unwrap()).collect();
    for name in ["notes.txt", "core", "bad name"] {
        assert!(files.iter().any(|file| *file == name), "{name}: {files:?}");
    }
    assert_eq!(report.logs[0].1.outcome, Outcome::Clean);
}

#[test]
fn a_held_lock_is_told_without_taking_it() {
    let dir = tempfile::tempdir().unwrap();
    empty(dir.path());
    let lock = OsFileSystem.lock(&dir.path().join("LOCK")).unwrap();
    assert_ne!(node(dir.path()).held, Some(false));
    drop(lock);
    assert_ne!(node(dir.path()).held, Some(true));
}
