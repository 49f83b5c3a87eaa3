//! The golden files: what each of them shows.

use super::image::{CAPACITY, EARLIER_LOG, Image, LOG, MILLIS, generation, header, in_use};
use plimsoll::format::header::{InUse, Origin};
use plimsoll::format::layout::{self, ClassSizes};
use plimsoll::format::record::{GENERATION_AT, HEADER_LEN};
use plimsoll::format::{RECORD_ALIGN, headers};
use plimsoll::types::Offset;

/// Name and bytes of every segment file, `.seg` left out.
pub(crate) fn segments() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("checkpoint-vouches", checkpoint_vouches()),
        ("damage-in-the-middle", damage_in_the_middle()),
        ("damaged-header", damaged_header()),
        ("declared-gap", declared_gap()),
        ("empty", Image::new(&header(1, Some(in_use(0)))).bytes),
        ("heal", heal()),
        ("largest-record", largest_record()),
        ("last-generation", last_generation()),
        ("reused", reused()),
        ("shortened", shortened()),
        ("spare-with-leftovers", spare_with_leftovers()),
        ("torn-tail", torn_tail().bytes),
        ("torn-tail-recovered", torn_tail_recovered()),
        ("two-records", two_records()),
        ("worked", worked()),
    ]
}

/// One batch of two: the second claims nothing, since the first was not durable when it was staged.
fn two_records() -> Vec<u8> {
    let mut image = Image::new(&header(1, Some(in_use(0))));
    image.record(&[], b"first");
    image.record(&[], b"second");
    image.bytes
}

/// The example of storage-format.md: a checkpoint, a record with headers, one without a payload.
fn worked() -> Vec<u8> {
    let mut image = Image::new(&header(2, Some(in_use(1_000))));
    let pairs = headers::encode([("type", &b"order"[..]), ("trace", &[0x00, 0xff])]).unwrap();
    image.record(&pairs, b"hello");
    image.synced();
    image.checkpoint();
    image.record(&[], b"");
    image.bytes
}

/// Generation 2 was stamped on a file that keeps records and checkpoint of generation 1.
fn spare_with_leftovers() -> Vec<u8> {
    let earlier = InUse { log: EARLIER_LOG, ..in_use(0) };
    let mut image = Image::new(&header(1, Some(earlier)));
    image.record(&[], b"of an earlier log");
    image.record(&[], b"and one more");
    image.synced();
    image.checkpoint();
    image.use_again(&header(2, None));
    image.bytes
}

/// Two records of generation 3 over three of generation 2, all of the same lengths, so that the third stands exactly
/// where the next record is expected, with the very offset.
fn reused() -> Vec<u8> {
    let earlier = InUse { log: EARLIER_LOG, ..in_use(40) };
    let mut image = Image::new(&header(2, Some(earlier)));
    for payload in [b"old 40", b"old 41", b"old 42"] {
        image.record(&[], payload);
    }
    image.synced();
    image.checkpoint();
    image.use_again(&header(3, Some(in_use(40))));
    image.record(&[], b"new 40");
    image.synced();
    image.record(&[], b"new 41");
    image.bytes
}

/// A batch of three behind a durable record: the first of them is torn, the others got to the disk. Nothing claims
/// more than the durable record, so this is what a crash makes.
fn torn_tail() -> Image {
    let mut image = Image::new(&header(1, Some(in_use(0))));
    image.record(&[], b"durable");
    image.synced();
    let torn = image.record(&[], &[b't'; 1_000]);
    let survived = image.record(&[], b"survived");
    image.record(&[], b"survived, too");
    // A sector of its own, which was never written.
    assert!(torn + HEADER_LEN as u64 <= 8_704 && 9_216 <= survived);
    image.put(8_704, &[0; 512]);
    image
}

/// The same after a recovery: no place within the window beyond the end carries the generation any more.
fn torn_tail_recovered() -> Vec<u8> {
    let mut image = torn_tail();
    let end = 8_192 + 40;
    let places = (end..=CAPACITY - HEADER_LEN as u64).step_by(RECORD_ALIGN as usize);
    let carries = |bytes: &[u8], place: u64| {
        let at = place as usize + GENERATION_AT;
        bytes[at..at + 2] == generation(1).get().to_le_bytes()
    };
    let hit: Vec<u64> = places.filter(|&place| carries(&image.bytes, place)).collect();
    assert!(hit.len() >= 3);
    for place in hit {
        image.put(place, &[0; HEADER_LEN]);
    }
    image.bytes
}

/// The second record is damaged, and the fourth was staged when the third was durable.
fn damage_in_the_middle() -> Vec<u8> {
    let mut image = Image::new(&header(1, Some(in_use(0))));
    image.record(&[], b"one");
    image.synced();
    let damaged = image.record(&[], b"two");
    image.synced();
    image.record(&[], b"three");
    image.synced();
    image.record(&[], b"four");
    image.flip(damaged + HEADER_LEN as u64, 0x01);
    image.bytes
}

/// The last record is damaged. No record stands behind it, but the checkpoint knows that it was durable.
fn checkpoint_vouches() -> Vec<u8> {
    let mut image = Image::new(&header(1, Some(in_use(0))));
    image.record(&[], b"one");
    let damaged = image.record(&[], b"two");
    image.synced();
    image.checkpoint();
    image.flip(damaged + 3, 0x80);
    image.bytes
}

/// A byte of the base offset is wrong; the checksum notices.
fn damaged_header() -> Vec<u8> {
    let mut image = Image::new(&header(1, Some(in_use(7))));
    image.record(&[], b"seven");
    image.flip(41, 0x02);
    image.bytes
}

/// A repair dropped the records 7 to 11 and says so.
fn declared_gap() -> Vec<u8> {
    let origin = Origin::Repair;
    let gap = InUse { previous_end: Offset(7), origin, ..in_use(12) };
    let mut image = Image::new(&header(1, Some(gap)));
    image.record(&[], b"twelve");
    image.bytes
}

/// Opened after a failed write, with the records that may have been confirmed carried over in one batch.
fn heal() -> Vec<u8> {
    let healed = InUse { origin: Origin::Heal, ..in_use(5) };
    let mut image = Image::new(&header(4, Some(healed)));
    image.record(&[], b"five, carried over");
    image.record(&[], b"six, carried over");
    image.bytes
}

/// One record that fills the file to its last byte.
fn largest_record() -> Vec<u8> {
    let mut image = Image::new(&header(1, Some(in_use(0))));
    let payload: Vec<u8> = (0..4_064_u32).map(|at| (at % 251) as u8).collect();
    image.record(&[], &payload);
    image.bytes
}

/// The last generation and the largest offsets; the file is deleted after this use.
fn last_generation() -> Vec<u8> {
    let mut image = Image::new(&header(u16::MAX, Some(in_use(u64::MAX - 3))));
    image.record(&[], b"almost the last");
    image.synced();
    image.checkpoint();
    image.bytes
}

/// A file cut off below the position of its checkpoint.
fn shortened() -> Vec<u8> {
    let mut image = Image::new(&header(1, Some(in_use(0))));
    image.record(&[], b"whole");
    image.record(&[], b"cut");
    image.synced();
    image.checkpoint();
    image.bytes.truncate(8_192 + 40 + 16);
    image.bytes
}

/// A data directory: one log of two segments, the first with a record that a heal cut off, and a spare.
pub(crate) fn node() -> Vec<(String, Vec<u8>)> {
    let sizes = ClassSizes { tiny: CAPACITY, small: CAPACITY, main: 16_384 };
    let mut first = Image::new(&header(1, Some(in_use(0))));
    first.record(&[], b"order 0");
    first.synced();
    first.record(&[], b"order 1");
    first.record(&[], b"order 2");
    first.synced();
    first.record(&[], b"order 3, whose sync failed");
    let healed = InUse {
        log: LOG,
        base: Offset(3),
        previous_end: Offset(3),
        previous_millis: MILLIS + 2,
        origin: Origin::Heal,
    };
    let mut second = Image::new(&header(2, Some(healed)));
    second.record(&headers::encode([("attempt", &b"2"[..])]).unwrap(), b"order 3");
    second.synced();
    second.record(&[], b"order 4");
    vec![
        ("LAYOUT".to_owned(), layout::encode(&sizes).into_bytes()),
        ("LOCK".to_owned(), Vec::new()),
        ("logs/orders/00000000000000000000.seg".to_owned(), first.bytes),
        ("logs/orders/00000000000000000003.seg".to_owned(), second.bytes),
        ("spares/00000000000000000007.seg".to_owned(), spare_with_leftovers()),
    ]
}
