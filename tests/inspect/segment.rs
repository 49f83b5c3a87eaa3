//! One file.

use crate::image::{EARLIER_LOG, Image, LOG};
use crate::store::{flip, header, payload, segment, spare};
use plimsoll::format::RECORDS_POSITION;
use plimsoll::fs::OsFileSystem;
use plimsoll::fs::sim::SimFileSystem;
use plimsoll::inspect::{self, CheckpointView, Item, KeySource, Outcome, SegmentReport, Which};
use plimsoll::types::Offset;
use std::path::{Path, PathBuf};

fn file(dir: &Path, bytes: &[u8]) -> PathBuf {
    let path = dir.join("00000000000000000000.seg");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn look(bytes: &[u8]) -> SegmentReport {
    let dir = tempfile::tempdir().unwrap();
    inspect::segment(&OsFileSystem, &file(dir.path(), bytes), &|| ())
}

fn random(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn case_I2_whatever_stands_there_gives_an_outcome_and_a_place() {
    let clean = look(&Image::new(&header(1, LOG, 0, 0)).bytes);
    assert_eq!(clean.outcome, Outcome::Clean, "{:?}", clean.findings);
    assert_eq!((clean.records.count, clean.records.next), (0, Some(Offset(0))));

    for (bytes, what) in [
        (Vec::new(), "the file has 0 bytes"),
        (vec![0; 1 << 20], "zeroes"),
        (random(1 << 20), "magic"),
    ] {
        let report = look(&bytes);
        assert_eq!(report.outcome, Outcome::Damaged);
        assert_eq!(report.records.count, 0);
        let text = report.findings[0].to_string();
        assert!(text.contains(what) && text.contains("byte 0"), "{text}");
        assert!(text.contains("00000000000000000000.seg"), "{text}");
    }

    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_path_buf(), dir.path().join("nothing")] {
        let report = inspect::segment(&OsFileSystem, &path, &|| ());
        assert_eq!(report.outcome, Outcome::Unreadable, "{:?}", report.findings);
    }
}

#[test]
fn case_I2_a_file_without_read_right_is_unreadable_not_damaged() {
    use plimsoll::fs::FileSystem;
    use plimsoll::fs::sim::{Fault, OpKind, What};
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/d").unwrap();
    let path = Path::new("/d/00000000000000000000.seg");
    let file = fs.create(path).unwrap();
    file.write_at(0, &segment(&header(1, LOG, 0, 0), 3).0.bytes).unwrap();
    fs.inject(Fault::nth(OpKind::Open, 0, What::Errno(libc::EACCES)).forever());
    let report = inspect::segment(&fs, path, &|| ());
    assert_eq!(report.outcome, Outcome::Unreadable);
    assert!(report.findings[0].to_string().contains("cannot be opened"));
}

#[test]
fn case_I2_a_file_cut_at_every_byte_of_its_header_and_at_many_others() {
    let (image, positions) = segment(&header(1, LOG, 0, 0), 20);
    let cuts = (0..=520).chain((520..12_000).step_by(97)).chain((12_000..32_768).step_by(997));
    let dir = tempfile::tempdir().unwrap();
    for cut in cuts {
        let path = file(dir.path(), &image.bytes[..cut]);
        let report = inspect::segment(&OsFileSystem, &path, &|| ());
        assert_eq!(report.outcome, Outcome::Damaged, "cut at {cut}");
        assert!(report.findings.iter().all(|finding| finding.position.is_some()));
        let whole = positions.windows(2).filter(|pair| pair[1] <= cut as u64).count() as u64;
        assert!(report.records.count >= whole, "cut at {cut}: {} of {whole}", report.records.count);
        for _ in inspect::records(&OsFileSystem, &path).unwrap() {}
    }
}

#[test]
fn case_I2_a_spare_is_shown_as_a_spare_and_its_leftovers_are_no_messages() {
    let (mut image, _) = segment(&header(3, EARLIER_LOG, 0, 0), 12);
    image.use_again(&spare(4));
    let report = look(&image.bytes);
    assert_eq!(report.outcome, Outcome::Clean, "{:?}", report.findings);
    assert!(report.header.unwrap().in_use.is_none());
    assert_eq!((report.records.count, report.stop), (0, None));
    let [leftover] = report.beyond.leftovers.as_slice() else {
        panic!("{:?}", report.beyond.leftovers)
    };
    assert_eq!((leftover.generation.get(), leftover.records, leftover.whole), (3, 12, 12));
    assert_eq!(leftover.first_position, RECORDS_POSITION);
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), &image.bytes);
    assert_eq!(inspect::records(&OsFileSystem, &path).unwrap().count(), 0);
}

#[test]
fn leftovers_of_two_earlier_uses_are_told_apart_behind_the_records() {
    let mut image = Image::new(&header(1, EARLIER_LOG, 0, 0));
    for _ in 0..30 {
        image.record(b"", &[b'a'; 100]);
    }
    image.use_again(&header(2, LOG, 50, 50));
    for _ in 0..10 {
        image.record(b"", &[b'b'; 100]);
    }
    image.use_again(&header(3, LOG, 0, 0));
    for _ in 0..4 {
        image.record(b"", &[b'c'; 100]);
    }
    image.synced();
    image.checkpoint();
    let report = look(&image.bytes);
    assert_eq!(report.outcome, Outcome::Clean, "{:?}", report.findings);
    assert_eq!(report.records.count, 4);
    let found: Vec<_> =
        report.beyond.leftovers.iter().map(|l| (l.generation.get(), l.records)).collect();
    assert_eq!(found, [(2, 6), (1, 20)]);
    assert_eq!(report.beyond.own_places, 0);
    let beyond = &report.beyond;
    let accounted = beyond.zero_bytes
        + beyond.other_bytes
        + beyond.leftovers.iter().map(|leftover| leftover.bytes).sum::<u64>();
    assert_eq!(accounted, beyond.to - beyond.from);
}

#[test]
fn case_B4_a_bad_byte_before_synced_records_is_damage_and_reading_goes_on() {
    let (mut image, positions) = segment(&header(1, LOG, 100, 100), 24);
    image.flip(positions[7] + 40, 1);
    let report = look(&image.bytes);
    assert_eq!(report.outcome, Outcome::Damaged);
    assert_eq!(report.damage_count, 1);
    let damage = report.damage[0];
    assert_eq!((damage.from, damage.to), (positions[7], positions[8]));
    assert_eq!((damage.from_offset, damage.to_offset), (Some(Offset(107)), Some(Offset(108))));
    assert_eq!((report.records.count, report.records.next), (23, Some(Offset(124))));
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), &image.bytes);
    let items: Vec<_> =
        inspect::records(&OsFileSystem, &path).unwrap().map(|item| item.unwrap()).collect();
    let offsets: Vec<_> = items
        .iter()
        .filter_map(|item| match item {
            Item::Record(record) => {
                assert_eq!(record.payload, payload(record.offset.unwrap().0));
                record.offset
            }
            Item::Break { .. } => None,
        })
        .map(|offset| offset.0)
        .collect();
    let expected: Vec<u64> = (100..107).chain(108..124).collect();
    assert_eq!(offsets, expected);
    assert!(matches!(items[7], Item::Break { position, .. } if position == positions[7]));
}

#[test]
fn case_B1_zeroes_in_the_last_record_are_a_torn_tail() {
    let (image, positions) = segment(&header(1, LOG, 0, 0), 20);
    let last = positions[19] as usize;
    let len = 32 + payload(19).len();
    for kept in [0, 1, 13, 14, 31, 32, 33, len - 1] {
        let mut bytes = image.bytes.clone();
        bytes[last + kept..last + len].fill(0);
        let report = look(&bytes);
        assert!(report.outcome <= Outcome::TornTail, "{kept}: {:?}", report.findings);
        assert_eq!(report.records.count, 19, "{kept}");
        let clean = kept < 13;
        assert_eq!(report.outcome == Outcome::Clean, clean, "{kept}: {:?}", report.findings);
    }
}

#[test]
fn what_nothing_vouches_for_is_no_damage_and_what_the_checkpoint_vouches_for_is() {
    // One batch of ten: none of them claims anything of the others.
    let mut image = Image::new(&header(1, LOG, 0, 0));
    let positions: Vec<u64> = (0..10).map(|at| image.record(b"", &payload(at))).collect();
    let mut torn = image.bytes.clone();
    torn[positions[4] as usize + 33] ^= 1;
    let report = look(&torn);
    assert_eq!(report.outcome, Outcome::TornTail);
    assert_eq!((report.records.count, report.records.cut_off), (4, 5));
    image.synced();
    image.checkpoint();
    image.flip(positions[4] + 33, 1);
    let report = look(&image.bytes);
    assert!(matches!(report.checkpoint, CheckpointView::Valid(_)));
    assert_eq!((report.outcome, report.damage_count), (Outcome::Damaged, 1));
    assert_eq!(report.records.count, 9);
}

#[test]
fn i4_no_flipped_bit_in_a_vouched_record_goes_unseen() {
    let (mut image, positions) = segment(&header(1, LOG, 0, 0), 4);
    image.checkpoint();
    let end = positions[3] as usize + 32 + payload(3).len().next_multiple_of(8);
    let dir = tempfile::tempdir().unwrap();
    for at in (0..512).chain(RECORDS_POSITION as usize..end) {
        let mut bytes = image.bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        let path = file(dir.path(), &bytes);
        let report = inspect::segment(&OsFileSystem, &path, &|| ());
        assert_eq!(report.outcome, Outcome::Damaged, "byte {at}: {:?}", report.findings);
        let position = report.findings.iter().filter_map(|finding| finding.position).max();
        assert!(position.is_some_and(|position| position <= at as u64 || at < 512));
    }
}

#[test]
fn a_file_whose_header_is_damaged_still_shows_its_records() {
    let (mut image, _) = segment(&header(7, LOG, 0, 0), 5);
    image.flip(20, 1);
    let report = look(&image.bytes);
    assert_eq!(report.outcome, Outcome::Damaged);
    assert!(matches!(report.key, KeySource::FirstRecord(generation) if generation.get() == 7));
    assert_eq!(report.records.count, 5);
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), &image.bytes);
    assert_eq!(inspect::records(&OsFileSystem, &path).unwrap().count(), 6, "5 and the end");
}

#[test]
fn one_record_is_shown_field_by_field_by_offset_and_by_position() {
    let (image, positions) = segment(&header(1, LOG, 40, 40), 5);
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), &image.bytes);
    let by_offset =
        inspect::record_bytes(&OsFileSystem, &path, Which::Offset(Offset(43))).unwrap().unwrap();
    let by_position = inspect::record_bytes(&OsFileSystem, &path, Which::Position(positions[3]))
        .unwrap()
        .unwrap();
    assert_eq!(by_offset, by_position);
    assert_eq!((by_offset.position, by_offset.error), (positions[3], None));
    let covered: u64 = by_offset.fields.iter().map(|field| field.len).sum();
    assert_eq!(covered, by_offset.bytes.len() as u64);
    assert!(by_offset.fields[0].value.ends_with("fits"));
    flip(&path, positions[3] + 8);
    let damaged = inspect::record_bytes(&OsFileSystem, &path, Which::Position(positions[3]))
        .unwrap()
        .unwrap();
    assert!(damaged.error.is_some());
    assert!(damaged.fields[0].value.contains("expected"), "{:?}", damaged.fields[0]);
    let none = inspect::record_bytes(&OsFileSystem, &path, Which::Offset(Offset(99))).unwrap();
    assert_eq!(none, None);
}

#[test]
fn hostile_bytes_cost_linear_time() {
    // Each 8 bytes could begin a record of an unknown log that fills the rest of the file.
    let mut image = Image::new(&spare(9));
    let len = 2 << 20;
    image.bytes.resize(len, 0);
    for at in (8192..len - 32).step_by(16) {
        let rest = (len - at - 40) as u32;
        image.bytes[at + 8..at + 12].copy_from_slice(&rest.to_le_bytes());
        image.bytes[at + 12] = 3;
    }
    let mut big = spare(9);
    big.capacity = len as u64;
    image.put(0, &big.encode());
    let begin = std::time::Instant::now();
    let report = look(&image.bytes);
    assert!(report.beyond.leftovers.is_empty());
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
}

#[test]
fn one_bad_sector_does_not_hide_the_good_ones() {
    use plimsoll::fs::FileSystem;
    use plimsoll::fs::sim::{Fault, OpKind, What};
    let fs = SimFileSystem::new(1);
    fs.prepare_dir("/d").unwrap();
    let path = Path::new("/d/00000000000000000000.seg");
    let file = fs.create(path).unwrap();
    file.write_at(0, &segment(&header(1, LOG, 0, 0), 100).0.bytes).unwrap();
    // The large read and, of the single blocks, the fifth.
    fs.inject(Fault::nth(OpKind::Read, 1, What::Errno(libc::EIO)));
    fs.inject(Fault::nth(OpKind::Read, 5, What::Errno(libc::EIO)));
    let report = inspect::segment(&fs, path, &|| ());
    assert_eq!(report.outcome, Outcome::Damaged, "{:?}", report.findings);
    assert!(report.records.count > 50 && report.records.count < 100, "{}", report.records.count);
}
