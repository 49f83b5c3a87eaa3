//! Repair, on the simulated file system: what it keeps, what it declares, and that a crash at any step changes nothing
//! of that.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    non_snake_case,
    dead_code,
    missing_docs
)]

#[path = "format_golden/image.rs"]
mod image;
#[path = "inspect/store.rs"]
mod store;

use image::{EARLIER_LOG, Image, LOG};
use plimsoll::clock::ManualClock;
use plimsoll::error::ReadError;
use plimsoll::fs::sim::{AllPersisted, NothingPersisted, Seeded, SimFileSystem};
use plimsoll::fs::{FileKind, FileSystem};
use plimsoll::inspect::{self, LogReader, Outcome};
use plimsoll::repair::{self, RepairError, Repaired};
use plimsoll::{LogName, LogOptions, NewRecord, Node, NodeOptions, WriteClass};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{CAPACITY, header, payload, segment, spare};

const DATA: &str = "/data";
const LOG_DIR: &str = "/data/logs/a";

/// A store to be repaired, and what has to come of it.
struct Case {
    name: &'static str,
    build: fn(&SimFileSystem),
    /// The offsets that must be there again.
    kept: Vec<u64>,
    /// The next offset must not be below this.
    next_at_least: u64,
    /// And not above this.
    next_at_most: u64,
}

fn path(base: u64) -> PathBuf {
    Path::new(LOG_DIR).join(format!("{base:020}.seg"))
}

fn put(fs: &SimFileSystem, path: &Path, bytes: &[u8]) {
    let file = fs.create(path).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
    fs.sync_dir(path.parent().unwrap()).unwrap();
}

/// Three segments of ten records; the last one ends with a checkpoint.
fn three(fs: &SimFileSystem) -> Vec<Vec<u64>> {
    for name in ["logs/a", "spares", "trash", "quarantine"] {
        fs.prepare_dir(Path::new(DATA).join(name)).unwrap();
    }
    (0..3)
        .map(|at| {
            let (mut image, positions) = segment(&header(2 + at as u16, LOG, at * 10, at * 10), 10);
            if at == 2 {
                image.checkpoint();
            }
            put(fs, &path(at * 10), &image.bytes);
            positions
        })
        .collect()
}

fn cases() -> Vec<Case> {
    let all_but =
        |lost: &[u64]| (0..30).filter(|offset| !lost.contains(offset)).collect::<Vec<_>>();
    let case = |name, build, lost: &[u64]| Case {
        name,
        build,
        kept: all_but(lost),
        next_at_least: 30,
        next_at_most: 30,
    };
    vec![
        case(
            "a byte in a sealed segment",
            |fs| {
                let at = three(fs);
                fs.flip(path(10), at[1][4] + 35, 1).unwrap();
            },
            &[14],
        ),
        case(
            "a record header in the active segment",
            |fs| {
                let at = three(fs);
                fs.flip(path(20), at[2][3] + 9, 1).unwrap();
            },
            &[23],
        ),
        case(
            "the first record of the log",
            |fs| {
                let at = three(fs);
                fs.flip(path(0), at[0][0] + 9, 1).unwrap();
            },
            &[0],
        ),
        case(
            "the last record of a sealed segment",
            |fs| {
                let at = three(fs);
                fs.flip(path(0), at[0][9] + 9, 1).unwrap();
            },
            &[9],
        ),
        Case {
            name: "the last record of the log",
            build: |fs| {
                let at = three(fs);
                fs.flip(path(20), at[2][9] + 9, 1).unwrap();
            },
            kept: (0..29).collect(),
            next_at_least: 30,
            next_at_most: 30 + CAPACITY / 32,
        },
        case(
            "two damages in one segment, one in another",
            |fs| {
                let at = three(fs);
                fs.flip(path(10), at[1][2] + 35, 1).unwrap();
                fs.zero(path(10), at[1][6]..at[1][8]).unwrap();
                fs.flip(path(20), at[2][0] + 35, 1).unwrap();
            },
            &[12, 16, 17, 20],
        ),
        case(
            "the header of the first segment",
            |fs| {
                three(fs);
                fs.flip(path(0), 41, 1).unwrap();
            },
            &[],
        ),
        case(
            "the header of a middle segment, all of it",
            |fs| {
                three(fs);
                fs.zero(path(10), 0..4096).unwrap();
            },
            &[],
        ),
        case(
            "the header of the last segment",
            |fs| {
                three(fs);
                fs.flip(path(20), 300, 1).unwrap();
            },
            &[],
        ),
        case(
            "the header of the last segment, with records damaged behind it",
            |fs| {
                let at = three(fs);
                fs.zero(path(20), 0..4096).unwrap();
                fs.flip(path(20), at[2][0] + 9, 1).unwrap();
                fs.flip(path(20), at[2][5] + 9, 1).unwrap();
            },
            &[20, 25],
        ),
        case(
            "a missing middle segment",
            |fs| {
                three(fs);
                fs.remove_file(&path(10)).unwrap();
                fs.sync_dir(Path::new(LOG_DIR)).unwrap();
            },
            &(10..20).collect::<Vec<_>>(),
        ),
        case(
            "a middle segment of which nothing is left",
            |fs| {
                three(fs);
                fs.zero(path(10), 0..CAPACITY).unwrap();
            },
            &(10..20).collect::<Vec<_>>(),
        ),
        Case {
            name: "a last segment of which nothing is left",
            build: |fs| {
                three(fs);
                fs.zero(path(20), 0..CAPACITY).unwrap();
                fs.overwrite(path(20), 100, b"not a header").unwrap();
            },
            kept: (0..20).collect(),
            next_at_least: 30,
            next_at_most: 20 + CAPACITY / 32,
        },
        case(
            "a first segment of which nothing is left",
            |fs| {
                three(fs);
                fs.zero(path(0), 0..CAPACITY).unwrap();
            },
            &(0..10).collect::<Vec<_>>(),
        ),
        case(
            "another log's file in the middle",
            |fs| {
                three(fs);
                let (image, _) = segment(&header(2, EARLIER_LOG, 10, 10), 10);
                fs.overwrite(path(10), 0, &image.bytes).unwrap();
            },
            &(10..20).collect::<Vec<_>>(),
        ),
        case(
            "another log's file in front",
            |fs| {
                three(fs);
                let (image, _) = segment(&header(2, EARLIER_LOG, 0, 0), 10);
                fs.overwrite(path(0), 0, &image.bytes).unwrap();
            },
            &(0..10).collect::<Vec<_>>(),
        ),
        case(
            "a spare header before confirmed records",
            |fs| {
                three(fs);
                fs.overwrite(path(20), 0, &spare(4).encode()).unwrap();
            },
            &[],
        ),
        Case {
            name: "the last segment cut short",
            build: |fs| {
                let at = three(fs);
                let file = fs.open_write(&path(20)).unwrap();
                file.set_len(at[2][6] + 8).unwrap();
                file.sync().unwrap();
            },
            kept: (0..26).collect(),
            next_at_least: 30,
            next_at_most: 20 + CAPACITY / 32,
        },
        Case {
            name: "damage at the end, and the next file in the taking",
            build: |fs| {
                let at = three(fs);
                fs.flip(path(20), at[2][9] + 9, 1).unwrap();
                put(fs, &path(30), &Image::new(&spare(3)).bytes);
            },
            kept: (0..29).collect(),
            next_at_least: 30,
            next_at_most: 30 + CAPACITY / 32,
        },
        Case {
            name: "a single segment without its header",
            build: |fs| {
                three(fs);
                for base in [10, 20] {
                    fs.remove_file(&path(base)).unwrap();
                }
                fs.sync_dir(Path::new(LOG_DIR)).unwrap();
                fs.zero(path(0), 0..4096).unwrap();
            },
            kept: (0..10).collect(),
            next_at_least: 10,
            next_at_most: 10,
        },
        Case {
            name: "no segment left, and the next one in the taking",
            build: |fs| {
                three(fs);
                for base in [0, 10, 20] {
                    fs.remove_file(&path(base)).unwrap();
                }
                put(fs, &path(30), &Image::new(&spare(3)).bytes);
            },
            kept: Vec::new(),
            next_at_least: 30,
            next_at_most: 30,
        },
    ]
}

fn clock() -> ManualClock {
    ManualClock::new(1_800_000_000_000)
}

fn run(fs: &SimFileSystem) -> Result<Repaired, RepairError> {
    repair::repair(fs, &clock(), Path::new(DATA), None)
}

/// All records that are vouched for, and where offsets are missing.
fn read(fs: &SimFileSystem) -> (Vec<u64>, Vec<(u64, u64)>, u64) {
    let mut reader = LogReader::open(Arc::new(fs.clone()), Path::new(LOG_DIR), None).unwrap();
    let (mut offsets, mut gaps) = (Vec::new(), Vec::new());
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                let offset = record.offset.unwrap().0;
                assert_eq!(record.payload, payload(offset));
                offsets.push(offset);
            }
            Ok(None) => return (offsets, gaps, reader.end().0 + reader.behind()),
            Err(ReadError::Gone { wanted, next }) => gaps.push((wanted.0, next.0)),
            Err(error) => panic!("{error}"),
        }
    }
}

fn verify(fs: &SimFileSystem) -> Outcome {
    let fs: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let report = inspect::verify(fs, Path::new(DATA), &|| (), &mut |_| ());
    report.outcome
}

/// The files below quarantine with their bytes.
fn quarantine(fs: &SimFileSystem) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![PathBuf::from("/data/quarantine")];
    while let Some(dir) = dirs.pop() {
        for entry in fs.list(&dir).unwrap() {
            let path = dir.join(entry.name);
            match entry.kind {
                FileKind::Directory => dirs.push(path),
                _ => drop(found.insert(path.clone(), fs.cached(&path).unwrap())),
            }
        }
    }
    found
}

/// The files of the log with their bytes, but for stamps of the wall clock in headers.
fn files(fs: &SimFileSystem) -> BTreeMap<PathBuf, Vec<u8>> {
    fs.list(Path::new(LOG_DIR))
        .unwrap()
        .iter()
        .map(|entry| Path::new(LOG_DIR).join(&entry.name))
        .map(|path| (path.clone(), fs.cached(&path).unwrap()))
        .collect()
}

/// Opens the log with a node and appends one record; gives its offset.
fn append(fs: &SimFileSystem) -> u64 {
    let mut options = NodeOptions::default();
    options.segment_size = 1 << 24;
    let node = Node::builder(DATA)
        .options(options)
        .file_system(Arc::new(fs.process()))
        .clock(Arc::new(clock()))
        .without_threads()
        .open()
        .unwrap();
    let log = node.open_log(&LogName::new("a").unwrap(), LogOptions::default()).unwrap();
    assert!(log.stopped().is_none(), "{:?}", log.stopped());
    let next = log.tail().0;
    let done = log.publish(WriteClass::Publish, &[NewRecord::new(&payload(next))]).unwrap();
    node.close().unwrap();
    done.first.0
}

#[test]
fn each_damage_costs_what_is_damaged_and_no_more() {
    for case in cases() {
        let name = case.name;
        let fs = SimFileSystem::new(1);
        (case.build)(&fs);
        let before = files(&fs);
        let planned = repair::plan(&fs, Path::new(DATA), None).unwrap();
        assert_eq!(files(&fs), before, "{name}: a plan changes nothing");
        assert_eq!(planned.logs.len(), 1, "{name}");
        assert!(!planned.logs[0].damage.is_empty(), "{name}");
        assert_ne!(verify(&fs), Outcome::Clean, "{name}: verify does not see it");

        let done = run(&fs).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(done.plan.logs[0].steps[..planned.logs[0].steps.len()], planned.logs[0].steps);
        let (kept, gaps, next) = read(&fs);
        assert_eq!(kept, case.kept, "{name}");
        assert!(
            (case.next_at_least..=case.next_at_most).contains(&next),
            "{name}: the next offset is {next}"
        );
        for (from, to) in &gaps {
            let declared = |gap: &inspect::Gap| gap.from.0 <= *from && *to <= gap.to.0;
            let lost = &done.plan.logs[0].lost;
            assert!(lost.iter().any(declared), "{name}: {from}..{to} in {lost:?}");
        }
        assert_eq!(verify(&fs), Outcome::Clean, "{name}");
        // What was changed or removed is in quarantine as it was.
        let kept = quarantine(&fs);
        let now = files(&fs);
        for (path, bytes) in &before {
            if now.get(path) != Some(bytes) {
                let copied = kept.iter().any(|(copy, content)| {
                    copy.file_name() == path.file_name() && content == bytes
                });
                assert!(copied, "{name}: {} is not in quarantine", path.display());
            }
        }
        let again = repair::plan(&fs, Path::new(DATA), None).unwrap();
        assert!(again.is_empty(), "{name}: {again:?}");
        // Durable, all of it.
        fs.power_cut(&mut NothingPersisted);
        assert_eq!(files(&fs), now, "{name}");
        assert_eq!(append(&fs), next, "{name}");
        assert_eq!(read(&fs).0.last(), Some(&next), "{name}");
    }
}

/// What must be the same however often a repair was cut off: names, records, gaps, the next offset. Not the bytes: a
/// log that lost its identity gets another one at each attempt.
#[derive(Debug, PartialEq, Eq)]
struct Essence {
    names: Vec<PathBuf>,
    offsets: Vec<u64>,
    gaps: Vec<(u64, u64)>,
    next: u64,
}

fn essence(fs: &SimFileSystem) -> Essence {
    let (offsets, gaps, next) = read(fs);
    Essence { names: files(fs).into_keys().collect(), offsets, gaps, next }
}

#[test]
fn i10_a_crash_at_any_step_and_repair_again_gives_the_same() {
    for case in cases() {
        let name = case.name;
        let prepared = SimFileSystem::new(7);
        (case.build)(&prepared);
        let reference = prepared.fork();
        let begin = reference.ops();
        run(&reference).unwrap();
        let steps = reference.ops() - begin;
        let expected = essence(&reference);
        let originals = files(&prepared);
        assert!(steps > 20, "{name}: {steps}");
        let mut died = 0;
        for step in 0..steps {
            // Each step with two of the four, in turn.
            for outcome in [step % 4, (step + 1) % 4] {
                let fs = prepared.fork();
                fs.crash_at(fs.ops() + step);
                assert!(run(&fs).is_err(), "{name}, step {step}");
                died += 1;
                match outcome {
                    0 => fs.process_death(),
                    1 => fs.power_cut(&mut AllPersisted),
                    2 => fs.power_cut(&mut NothingPersisted),
                    _ => fs.power_cut(&mut Seeded::new(step)),
                }
                run(&fs).unwrap_or_else(|error| panic!("{name}, step {step}/{outcome}: {error}"));
                assert_eq!(essence(&fs), expected, "{name}, step {step}/{outcome}");
                if outcome == 3 {
                    // What is gone or changed now was kept by one of the two.
                    let (kept, now) = (quarantine(&fs), files(&fs));
                    for (path, bytes) in &originals {
                        let copied = kept.iter().any(|(copy, content)| {
                            copy.file_name() == path.file_name() && content == bytes
                        });
                        let same = now.get(path) == Some(bytes);
                        let path = path.display();
                        assert!(copied || same, "{name}, step {step}: {path}, {:?}", kept.keys());
                    }
                }
            }
        }
        assert!(died > 40, "{name}: {died}");
    }
}

#[test]
fn nothing_is_changed_before_all_copies_are_durable_and_a_full_disk_changes_nothing() {
    for case in cases() {
        let fs = SimFileSystem::new(3);
        (case.build)(&fs);
        let before = files(&fs);
        fs.set_capacity(Some(fs.used() + 4096));
        let result = run(&fs);
        if result.is_err() {
            assert_eq!(files(&fs), before, "{}", case.name);
            fs.set_capacity(None);
            run(&fs).unwrap();
        }
        let (kept, ..) = read(&fs);
        assert_eq!(kept, case.kept, "{}", case.name);
    }
}

#[test]
fn a_good_store_is_left_alone_and_a_held_one_refused() {
    let fs = SimFileSystem::new(1);
    three(&fs);
    let before = files(&fs);
    let done = run(&fs).unwrap();
    assert!(done.plan.is_empty() && done.kept.is_empty());
    assert_eq!(files(&fs), before);
    assert!(quarantine(&fs).is_empty());
    let lock = fs.lock(Path::new("/data/LOCK")).unwrap();
    assert!(matches!(run(&fs), Err(RepairError::Locked { .. })));
    drop(lock);
    let missing = LogName::new("b").unwrap();
    let result = repair::repair(&fs, &clock(), Path::new(DATA), Some(&missing));
    assert!(matches!(result, Err(RepairError::Missing(_))));
}

#[test]
fn a_torn_tail_is_no_damage() {
    let fs = SimFileSystem::new(1);
    three(&fs);
    // A batch that nothing vouches for, its second record torn.
    let (mut image, _) = segment(&header(4, LOG, 20, 20), 10);
    let first = image.record(b"", &payload(30));
    let second = image.record(b"", &payload(31));
    image.record(b"", &payload(32));
    image.flip(second + 40, 1);
    fs.overwrite(path(20), 0, &image.bytes).unwrap();
    assert!(repair::plan(&fs, Path::new(DATA), None).unwrap().is_empty());
    assert_eq!(append(&fs), 31);
    assert!(first > 0);
}

#[test]
fn what_an_earlier_branch_left_behind_a_heal_does_not_come_back() {
    let fs = SimFileSystem::new(1);
    three(&fs);
    // The first segment failed at 7: what it holds beyond was cut off when the log healed into another file.
    let (image, _) = segment(&header(5, LOG, 7, 7), 3);
    put(&fs, &path(7), &image.bytes);
    assert!(repair::plan(&fs, Path::new(DATA), None).unwrap().is_empty());
    // Nor when a repair has to do with that file.
    fs.flip(path(0), 8192 + 9, 1).unwrap();
    run(&fs).unwrap();
    assert_eq!(read(&fs).0, (1..30).collect::<Vec<_>>());
    let names: Vec<_> = files(&fs).into_keys().collect();
    assert_eq!(names, [0, 1, 7, 10, 20].map(path));
}

#[test]
fn i2_records_of_an_earlier_use_by_the_same_log_do_not_come_back() {
    let fs = SimFileSystem::new(1);
    three(&fs);
    // The last segment is empty; the file was used by this log before, for offsets 0 to 9, and its header is lost.
    let (mut image, _) = segment(&header(8, LOG, 0, 0), 10);
    image.use_again(&header(9, LOG, 30, 30));
    put(&fs, &path(30), &image.bytes);
    fs.zero(path(30), 0..4096).unwrap();
    run(&fs).unwrap();
    let (kept, _, next) = read(&fs);
    assert_eq!(kept, (0..30).collect::<Vec<_>>());
    assert!(next >= 30);
    assert_eq!(verify(&fs), Outcome::Clean);
}

#[test]
fn case_J5_a_link_is_refused_and_its_target_untouched() {
    let fs = SimFileSystem::new(1);
    three(&fs);
    fs.prepare_dir("/victim").unwrap();
    put(&fs, Path::new("/victim/a"), b"precious");
    fs.prepare_link(path(30), "/victim/a").unwrap();
    fs.flip(path(10), 41, 1).unwrap();
    let before = files_of(&fs, "/victim");
    let done = run(&fs).unwrap();
    assert!(done.plan.logs[0].refused.as_ref().unwrap().contains("link"));
    assert_eq!(files_of(&fs, "/victim"), before);
    // Nor does quarantine lead out of the data directory.
    fs.remove_file(&path(30)).unwrap();
    fs.remove_dir(Path::new("/data/quarantine")).unwrap();
    fs.prepare_link("/data/quarantine", "/victim").unwrap();
    assert!(run(&fs).is_err());
    assert_eq!(files_of(&fs, "/victim"), before);
    assert_eq!(fs.list(Path::new("/victim")).unwrap().len(), 1);
}

fn files_of(fs: &SimFileSystem, dir: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs.list(Path::new(dir)).unwrap();
    let paths = entries.iter().map(|entry| Path::new(dir).join(&entry.name));
    paths.map(|path| (path.clone(), fs.cached(&path).unwrap())).collect()
}

#[test]
fn a_segment_under_another_name_is_for_its_owner_to_judge() {
    let fs = SimFileSystem::new(1);
    three(&fs);
    fs.rename(&path(10), &path(12)).unwrap();
    let plan = repair::plan(&fs, Path::new(DATA), None).unwrap();
    let refused = plan.logs[0].refused.as_ref().unwrap();
    assert!(refused.contains("segment 10"), "{refused}");
    let before = files(&fs);
    run(&fs).unwrap();
    assert_eq!(files(&fs), before);
    fs.rename(&path(12), &path(10)).unwrap();
    assert!(repair::plan(&fs, Path::new(DATA), None).unwrap().is_empty());
}

#[test]
fn a_layout_that_cannot_be_read_is_set_aside_and_made_again() {
    let fs = SimFileSystem::new(1);
    three(&fs);
    put(&fs, Path::new("/data/LAYOUT"), b"plimsoll layout 1\nmain ?\n");
    let done = run(&fs).unwrap();
    assert!(done.plan.layout.is_some());
    assert!(quarantine(&fs).values().any(|bytes| bytes.starts_with(b"plimsoll layout 1")));
    assert_eq!(append(&fs), 30);
}

#[test]
fn any_damage_can_be_repaired_and_no_undamaged_record_is_lost() {
    // Flips, zeroes and cuts at random places of one file of the log.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for round in 0..300 {
        let fs = SimFileSystem::new(round);
        let positions = three(&fs);
        let mut hit = Vec::new();
        for _ in 0..=random(3) {
            let file = random(3);
            let end = positions[file as usize][9] + 200;
            let at = random(end);
            let len = if random(2) == 0 { 1 } else { random(1500) };
            hit.push((file, at, at + len));
            if len == 1 {
                fs.flip(path(file * 10), at, 1 << random(8)).unwrap();
            } else {
                fs.zero(path(file * 10), at..(at + len).min(CAPACITY)).unwrap();
            }
        }
        let result = run(&fs);
        let done = result.unwrap_or_else(|error| panic!("round {round}, {hit:?}: {error}"));
        let next = read(&fs).2;
        // Where the checkpoint is lost too, nothing vouches for the last record.
        let at_end = |&(file, from, to): &(u64, u64, u64)| file == 2 && from < 4608 && to > 4096;
        let vouched = !hit.iter().any(at_end);
        let outcome = verify(&fs);
        assert!(outcome <= Outcome::TornTail, "round {round}, {hit:?}: {done:?}");
        let touched = |offset: u64| {
            let (file, at) =
                (offset / 10, positions[(offset / 10) as usize][(offset % 10) as usize]);
            let end = at + (32 + payload(offset).len() as u64).next_multiple_of(8);
            hit.iter().any(|(hit, from, to)| *hit == file && *from < end && at < *to)
        };
        assert_eq!(append(&fs), next, "round {round}, {hit:?}");
        assert_eq!(verify(&fs), Outcome::Clean, "round {round}, {hit:?}");
        let kept = read(&fs).0;
        for offset in 0..next.min(29) {
            if !touched(offset) {
                assert!(kept.contains(&offset), "round {round}: {offset} is lost, {hit:?}");
            }
        }
        assert!(kept.is_sorted(), "round {round}");
        assert!(next >= 30 || !vouched, "round {round}: {next}, {hit:?}");
    }
}

#[test]
fn carried_records_take_the_smallest_class_that_holds_them() {
    let fs = SimFileSystem::new(1);
    let at = three(&fs);
    let sizes = plimsoll::format::layout::ClassSizes::from_main(1 << 24);
    let text = plimsoll::format::layout::encode(&sizes);
    put(&fs, Path::new("/data/LAYOUT"), text.as_bytes());
    fs.flip(path(10), at[1][4] + 35, 1).unwrap();
    run(&fs).unwrap();
    assert_eq!(fs.metadata(&path(15)).unwrap().len, sizes.tiny);
    assert_eq!(verify(&fs), Outcome::Clean);
}

#[test]
fn hundreds_of_breaks_in_one_file_are_repaired_and_a_second_repair_finds_nothing() {
    let fs = SimFileSystem::new(1);
    for name in ["logs/a", "spares", "trash", "quarantine"] {
        fs.prepare_dir(Path::new(DATA).join(name)).unwrap();
    }
    let sizes = plimsoll::format::layout::ClassSizes::from_main(1 << 24);
    put(&fs, Path::new("/data/LAYOUT"), plimsoll::format::layout::encode(&sizes).as_bytes());
    let (mut image, positions) = segment(&header(2, LOG, 0, 0), 120);
    image.checkpoint();
    put(&fs, &path(0), &image.bytes);
    for offset in (1..119).step_by(2) {
        fs.flip(path(0), positions[offset] + 33, 1).unwrap();
    }
    run(&fs).unwrap();
    let expected: Vec<u64> = (0..119).step_by(2).chain([119]).collect();
    assert_eq!(read(&fs).0, expected);
    assert!(repair::plan(&fs, Path::new(DATA), None).unwrap().is_empty());
    assert_eq!(append(&fs), 120);
}
