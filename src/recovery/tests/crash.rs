//! A crash at every operation of recovery itself.

use super::support::*;
use crate::fs::FileSystem;
use crate::fs::sim::{
    AllPersisted, Chooser, Fault, NothingPersisted, OpKind, Scripted, Seeded, SimFileSystem, What,
};
use std::path::Path;

/// A log with all that recovery has to do: records that nothing vouches for, a lost record with leftovers behind it, a
/// file in the taking, an empty file, a temporary file. Everything is on the disk.
fn torn() -> SimFileSystem {
    let fs = machine(1);
    begin(0).take(&fs).append_all(4);
    let mut second = begin(4).take(&fs);
    second.append_all(2);
    for _ in 0..6 {
        second.stage(&payload(second.next));
    }
    second.commit().unwrap();
    let lost = second.begun[5];
    fs.zero(path_of(4), lost..lost + 16).unwrap();
    let spare = begin(12);
    spare.place(&fs, &spare.spare());
    fs.create(&path_of(13)).unwrap();
    fs.create(&Path::new(DIR).join("left.tmp")).unwrap();
    fs.sync_dir(Path::new(DIR)).unwrap();
    fs.process_death();
    fs
}

/// Nine records of which the stamps say in which file they were appended.
fn torn_records() -> Vec<Seen> {
    let millis = |offset: u64| if offset < 4 { offset + 1 } else { offset - 3 };
    (0..9).map(|offset| Seen { offset, millis: millis(offset), payload: payload(offset) }).collect()
}

/// What comes after the crash of recovery.
fn afterwards() -> Vec<(&'static str, Option<Box<dyn Chooser>>)> {
    let mut all: Vec<(&'static str, Option<Box<dyn Chooser>>)> = vec![
        ("death", None),
        ("nothing persisted", Some(Box::new(NothingPersisted))),
        ("all persisted", Some(Box::new(AllPersisted))),
    ];
    all.extend(
        (0..4).map(|seed| ("seeded", Some(Box::new(Seeded::new(seed)) as Box<dyn Chooser>))),
    );
    all
}

/// Lets recovery of `start` die at every operation that changes something, in the middle of writes too, and calls
/// `check` with the log after each of the crashes in [`afterwards`].
fn at_every_point(
    start: &SimFileSystem,
    prepare: impl Fn(&SimFileSystem),
    check: impl Fn(&SimFileSystem, &str),
) -> usize {
    let probe = start.fork();
    prepare(&probe);
    probe.record(true);
    recovered(&probe);
    let points: Vec<_> = probe.trace().into_iter().filter(|op| op.kind.changes()).collect();
    for op in &points {
        let bytes = if op.kind == OpKind::Write { vec![0, 512, 4096] } else { vec![0] };
        for bytes in bytes {
            for (name, chooser) in afterwards() {
                let fs = start.fork();
                prepare(&fs);
                fs.crash_in_write(op.number, bytes);
                // It answers as it likes; the process is dead.
                let _ = try_recover(&fs, CAPACITY);
                assert!(fs.is_dead());
                fs.clear_faults();
                match chooser {
                    Some(mut chooser) => fs.power_cut(&mut *chooser),
                    None => fs.process_death(),
                }
                check(&fs, &format!("{op:?}, {bytes} bytes of it, then {name}"));
            }
        }
    }
    points.len()
}

/// The log goes on after a crash of recovery, and loses nothing at the next power cut.
fn goes_on(fs: &SimFileSystem, records: &[Seen]) {
    let mut writer = Writer::resume(fs, &recovered(fs));
    for more in 0..3 {
        writer.stage_at(1000 + more, &[more as u8; 90]);
        writer.commit().unwrap();
    }
    fs.power_cut(&mut NothingPersisted);
    let seen = recovered_records(fs);
    assert_eq!(&seen[..records.len()], records);
    assert_eq!(seen.len(), records.len() + 3);
}

#[test]
fn case_B8_i10_a_second_crash_at_every_operation_gives_the_same_records() {
    let start = torn();
    assert_eq!(recovered_records(&start.fork()), torn_records());
    let points = at_every_point(
        &start,
        |_| {},
        |fs, point| {
            assert_eq!(recovered_records(fs), torn_records(), "{point}");
            let left = fs.list(Path::new(DIR)).unwrap().len();
            assert_eq!(left, 2, "{point}");
            goes_on(fs, &torn_records());
        },
    );
    // Syncs of names, renames and removals, syncs again, header, tail, zeroes, sync.
    assert!(points >= 10, "{points}");
}

#[test]
fn i10_the_same_while_it_heals() {
    // The records beyond the vouched end are on the disk already, and may have been confirmed.
    let start = torn();
    let fail = |fs: &SimFileSystem| {
        fs.inject(Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO)).on(DIR));
    };
    let points = at_every_point(&start, fail, |fs, point| {
        assert_eq!(recovered_records(fs), torn_records(), "{point}");
        goes_on(fs, &torn_records());
    });
    assert!(points >= 18, "{points}");
}

#[test]
fn i10_the_same_while_it_heals_a_file_in_which_nothing_is_vouched() {
    let start = machine(1);
    begin(0).take(&start).append_all(4);
    let mut second = begin(4).take(&start);
    for _ in 0..3 {
        second.stage(&payload(second.next));
    }
    second.commit().unwrap();
    start.process_death();
    let records = &torn_records()[..7];
    let fail = |fs: &SimFileSystem| {
        fs.inject(Fault::nth(OpKind::Sync, 0, What::Errno(libc::EIO)).on(DIR));
    };
    at_every_point(&start, fail, |fs, point| {
        assert_eq!(recovered_records(fs), records, "{point}");
        goes_on(fs, records);
    });
}

#[test]
fn i1_i2_records_only_in_the_cache_are_a_prefix_whenever_the_power_fails() {
    let start = machine(1);
    let mut writer = begin(0).take(&start);
    writer.append_all(3);
    for _ in 0..4 {
        writer.stage(&payload(writer.next));
    }
    writer.write().unwrap();
    start.process_death();
    at_every_point(
        &start,
        |_| {},
        |fs, point| {
            let seen = recovered_records(fs);
            assert!((3..=7).contains(&seen.len()), "{point}");
            assert_eq!(seen, expected(seen.len() as u64), "{point}");
            fs.power_cut(&mut NothingPersisted);
            assert_eq!(recovered_records(fs), seen, "shown once, shown again; {point}");
        },
    );
}

#[test]
fn i7_i2_the_first_commit_of_a_reused_file_torn_in_every_way() {
    // The file's last use left records of the same log and lengths; of the new use the header and two records are
    // written and not synced, in a file whose name is not durable either.
    let fs = machine(1);
    begin(0).take(&fs).append_all(4);
    let mut last_use = begin(4);
    last_use.generation = 2;
    last_use.path = "/data/spares/s".into();
    let mut old = last_use.take(&fs);
    for _ in 0..3 {
        old.stage(&[1; 480]);
    }
    old.commit().unwrap();
    let file = fs.open_write(&last_use.path).unwrap();
    file.write_at(0, &begin(4).spare().encode()).unwrap();
    file.sync().unwrap();
    fs.rename(&last_use.path, &path_of(4)).unwrap();
    let mut new = begin(4).reuse(file);
    new.stage_at(50, &[2; 480]);
    new.stage_at(51, &[3; 480]);
    new.write().unwrap();
    let image = fs.snapshot();
    let mut script = Scripted::default();
    let mut states = 0;
    loop {
        fs.restore(&image);
        fs.power_cut(&mut script);
        let seen = recovered_records(&fs);
        assert_eq!(seen[..4], expected(4)[..]);
        let new: Vec<_> = seen[4..].iter().map(|seen| (seen.offset, seen.millis)).collect();
        assert!([(4, 50), (5, 51)].starts_with(&new), "{new:?} after {:?}", script.script());
        states += 1;
        if !script.advance() {
            break;
        }
    }
    assert!(states >= 9, "{states}");
}
