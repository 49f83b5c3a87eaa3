//! The bytes of events: as documented, and whatever comes from a disk.

use super::*;
use crate::event::wire::{Reader, put_number};
use proptest::collection::vec;
use proptest::prelude::*;

fn band(band: u8) -> Band {
    Band::new(band).unwrap()
}

fn id(band_: u8, offset: u64, seq: u64, attempt: u32) -> DeliveryId {
    let place = Place { band: band(band_), offset: Offset(offset) };
    DeliveryId { seq: Seq(seq), place, attempt }
}

const AT: Stamp =
    Stamp { boot: 0x1122_3344_5566_7788, boot_ms: 90_000, wall_ms: 1_700_000_000_000 };

fn bytes(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::new();
    entry.encode(&mut out);
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn golden() -> Vec<(Entry, &'static str)> {
    let queue = QueueId(300);
    let ids = vec![id(4, 1_000, 5_000, 1), id(4, 999, 4_990, 2)];
    let items = ids.iter().map(|id| DeliveredItem { id: *id, bytes: 200 }).collect();
    let consumer = Some(ConsumerName::new("w1").unwrap());
    let end = |end| Event::Ended { queue, end, items: ids.clone() };
    vec![
        (
            Entry::Event(Event::Delivered {
                queue,
                at: AT,
                lease_ms: 30_000,
                consumer,
                next_seq: Seq(5_100),
                items,
            }),
            "11ac02887766554433221190bf0580d095ffbc31b0ea01027731ec270204d00f904e01c80104011302c801",
        ),
        (Entry::Event(end(End::Acked)), "12ac02000204d00f904e0104011302"),
        (Entry::Event(end(End::Nacked)), "12ac02010204d00f904e0104011302"),
        (Entry::Event(end(End::Undone)), "12ac02020204d00f904e0104011302"),
        (Entry::Event(end(End::Dead(DeadReason::Rejected))), "12ac02040204d00f904e0104011302"),
        (Entry::Event(end(End::Dead(DeadReason::Attempts))), "12ac02050204d00f904e0104011302"),
        (Entry::Event(end(End::Dead(DeadReason::Unreadable))), "12ac02060204d00f904e0104011302"),
        (
            Entry::Event(Event::Extended { queue, at: AT, lease_ms: 100, items: ids.clone() }),
            "13ac02887766554433221190bf0580d095ffbc31640204d00f904e0104011302",
        ),
        (
            Entry::Event(Event::Purged {
                queue,
                ends: vec![(band(9), Offset(7), 700), (band(4), Offset(1_001), 90_000)],
                next_seq: Seq(5_100),
                dead: true,
            }),
            "14ac02ec2701020907bc0504e90790bf05",
        ),
        (Entry::Event(Event::Paused { queue, paused: true }), "15ac0201"),
        (Entry::SnapshotBegin { parts: 2 }, "1802"),
        (Entry::SnapshotPart(vec![0xab, 0xcd]), "19abcd"),
        (Entry::SnapshotEnd { parts: 2 }, "1a02"),
    ]
}

#[test]
fn the_bytes_are_those_of_the_format_page() {
    let page = include_str!("../../FORMAT.md");
    for (entry, want) in golden() {
        assert_eq!(hex(&bytes(&entry)), want, "{entry:?}");
        assert_eq!(Entry::decode(&bytes(&entry)), Ok(entry.clone()));
        assert!(page.contains(&format!("`{want}`")), "FORMAT.md lacks {entry:?}");
    }
}

#[test]
fn an_event_cut_anywhere_is_bad() {
    for (entry, _) in golden() {
        let bytes = bytes(&entry);
        let least = if matches!(entry, Entry::SnapshotPart(_)) { 1 } else { bytes.len() };
        for len in 0..least {
            assert!(Entry::decode(&bytes[..len]).is_err(), "{entry:?} cut at {len}");
        }
    }
}

#[test]
fn an_event_with_something_behind_it_is_bad() {
    for (entry, _) in golden() {
        if !matches!(entry, Entry::SnapshotPart(_)) {
            let mut bytes = bytes(&entry);
            bytes.push(0);
            assert!(Entry::decode(&bytes).is_err(), "{entry:?}");
        }
    }
}

#[test]
fn a_kind_that_is_not_known_is_bad() {
    let known = [0x11, 0x12, 0x13, 0x14, 0x15, 0x18, 0x19, 0x1a];
    for kind in (0..=u8::MAX).filter(|kind| !known.contains(kind)) {
        let want = BadEvent { at: 0, reason: "a kind that is not known" };
        assert_eq!(Entry::decode(&[kind, 1, 0]), Err(want), "{kind:#x}");
        assert_eq!(decode(&[kind, 1, 0]), Err(want), "{kind:#x}");
    }
    for kind in [0x18, 0x19, 0x1a] {
        assert!(decode(&[kind, 1]).is_err(), "a snapshot's piece is no event");
    }
}

#[test]
fn a_count_that_the_bytes_cannot_hold_takes_no_memory() {
    let mut bytes = vec![0x12, 1, 0];
    put_number(&mut bytes, u64::MAX);
    bytes.extend_from_slice(&[4, 0, 0, 1]);
    let want = Err(BadEvent { at: bytes.len() - 4, reason: "it counts more than it holds" });
    assert_eq!(decode(&bytes), want);
    // Three items of at least four bytes do not fit in eleven.
    let eleven = [0x12, 1, 0, 3, 4, 0, 0, 1, 4, 0, 0, 1, 4, 0, 0];
    assert_eq!(decode(&eleven), Err(BadEvent { at: 4, reason: "it counts more than it holds" }));
}

#[test]
fn a_number_has_one_spelling() {
    for bytes in [&[0x80, 0x00][..], &[0xff, 0x80, 0x00]] {
        assert!(Reader::new(bytes).number().is_err(), "padded: {bytes:x?}");
    }
    let mut most = Vec::new();
    put_number(&mut most, u64::MAX);
    assert_eq!(most.len(), 10);
    assert_eq!(Reader::new(&most).number(), Ok(u64::MAX));
    most[9] = 2;
    assert!(Reader::new(&most).number().is_err(), "65 bits");
    assert!(Reader::new(&[0xff; 11]).number().is_err(), "without an end");
}

#[test]
fn case_a11_a_part_fits_into_the_smallest_file() {
    // Of 64 KiB, a block is the file's own.
    const { assert!(PART_MAX < 56 << 10) };
    let most = Entry::SnapshotPart(vec![7; PART_MAX]);
    assert_eq!(Entry::decode(&bytes(&most)), Ok(most));
    let mut longer = vec![0x19];
    longer.resize(PART_MAX + 2, 7);
    assert!(Entry::decode(&longer).is_err());
}

#[test]
fn names_that_cannot_be_are_bad() {
    for name in [&[1, 0x07][..], &[1, b'.'], &[2, 0xff, 0xfe]] {
        assert!(Reader::new(name).name().is_err(), "{name:x?}");
    }
    let mut long = vec![0x80, 0x02];
    long.resize(2 + 256, b'a');
    assert!(Reader::new(&long).name().is_err(), "256 bytes");
}

fn ids() -> impl Strategy<Value = DeliveryId> {
    let number = prop_oneof![0..2_000u64, any::<u64>()];
    (0..10u8, number.clone(), number, any::<u32>())
        .prop_map(|(band, offset, seq, attempt)| id(band, offset, seq, attempt))
}

fn stamps() -> impl Strategy<Value = Stamp> {
    (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(boot, boot_ms, wall_ms)| Stamp {
        boot,
        boot_ms,
        wall_ms,
    })
}

pub(crate) fn events() -> impl Strategy<Value = Event> {
    let queue = || prop_oneof![(0..4u64), any::<u64>()].prop_map(QueueId);
    let end = prop_oneof![
        Just(End::Acked),
        Just(End::Nacked),
        Just(End::Undone),
        Just(End::Dead(DeadReason::Rejected)),
        Just(End::Dead(DeadReason::Attempts)),
        Just(End::Dead(DeadReason::Unreadable)),
    ];
    let name = proptest::option::of("[a-zäß]{1,20}")
        .prop_map(|name| name.map(|name| ConsumerName::new(&name).unwrap()));
    let item = (ids(), any::<u32>()).prop_map(|(id, bytes)| DeliveredItem { id, bytes });
    let of_band = ((0..10u8), any::<u64>(), any::<u64>())
        .prop_map(|(number, end, total)| (band(number), Offset(end), total));
    prop_oneof![
        (queue(), stamps(), any::<u64>(), name, any::<u64>(), vec(item, 0..40)).prop_map(
            |(queue, at, lease_ms, consumer, next_seq, items)| Event::Delivered {
                queue,
                at,
                lease_ms,
                consumer,
                next_seq: Seq(next_seq),
                items
            }
        ),
        (queue(), end, vec(ids(), 0..40)).prop_map(|(queue, end, items)| Event::Ended {
            queue,
            end,
            items
        }),
        (queue(), stamps(), any::<u64>(), vec(ids(), 0..40)).prop_map(
            |(queue, at, lease_ms, items)| Event::Extended { queue, at, lease_ms, items }
        ),
        (queue(), vec(of_band, 0..10), any::<u64>(), any::<bool>()).prop_map(
            |(queue, ends, next_seq, dead)| Event::Purged {
                queue,
                ends,
                next_seq: Seq(next_seq),
                dead
            }
        ),
        (queue(), any::<bool>()).prop_map(|(queue, paused)| Event::Paused { queue, paused }),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read(event in events()) {
        let mut out = Vec::new();
        encode(&event, &mut out);
        prop_assert_eq!(decode(&out), Ok(event.clone()));
        prop_assert_eq!(Entry::decode(&out), Ok(Entry::Event(event)));
    }

    #[test]
    fn any_bytes_are_bad_or_written_again_as_they_were(
        kind in prop_oneof![Just(None), (0x11..=0x1au8).prop_map(Some)],
        mut noise in vec(any::<u8>(), 0..200),
    ) {
        if let (Some(kind), Some(first)) = (kind, noise.first_mut()) {
            *first = kind;
        }
        if let Ok(entry) = Entry::decode(&noise) {
            prop_assert_eq!(bytes(&entry), noise);
        }
    }

    #[test]
    fn a_changed_byte_is_bad_or_another_event(event in events(), at: prop::sample::Index, to: u8) {
        let mut noise = Vec::new();
        encode(&event, &mut noise);
        let at = at.index(noise.len());
        let same = noise[at] == to;
        noise[at] = to;
        match Entry::decode(&noise) {
            Ok(read) => {
                prop_assert_eq!(bytes(&read), noise);
                prop_assert_eq!(read == Entry::Event(event), same);
            }
            Err(bad) => prop_assert!(bad.at <= noise.len()),
        }
    }
}
