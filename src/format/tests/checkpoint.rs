use super::{LOG, generation, sign};
use crate::format::checkpoint::Checkpoint;
use crate::format::header::{Header, InUse, Origin};
use crate::format::{BLOCK_LEN, SECTOR_LEN};
use crate::planted::{self, Fault};
use crate::types::{LogId, Offset, SizeClass};
use proptest::prelude::*;

const CHECKPOINT: Checkpoint = Checkpoint {
    generation: crate::types::Generation::FIRST,
    log: LOG,
    position: 8_192 + 96,
    next: Offset(103),
    millis: 1_767_225_600_000,
};

fn header() -> Header {
    Header {
        generation: CHECKPOINT.generation,
        class: SizeClass::Tiny,
        capacity: 12_288,
        created_millis: 0,
        in_use: Some(InUse {
            log: LOG,
            base: Offset(100),
            previous_end: Offset(100),
            previous_millis: 0,
            origin: Origin::Roll,
        }),
    }
}

#[test]
fn what_is_written_is_read_and_one_sector_is_enough() {
    let block = CHECKPOINT.encode();
    assert_eq!(Checkpoint::parse(&block), Some(CHECKPOINT));
    assert_eq!(Checkpoint::parse(&block[..SECTOR_LEN]), Some(CHECKPOINT));
    assert_eq!(Checkpoint::parse(&block[..SECTOR_LEN - 1]), None);
    assert_eq!(Checkpoint::parse(&[]), None);
    assert_eq!(Checkpoint::parse(&[0; BLOCK_LEN]), None);
}

#[test]
fn every_flipped_bit_in_the_sector_makes_it_ignored() {
    let block = CHECKPOINT.encode();
    for at in 0..SECTOR_LEN {
        for bit in 0..8 {
            let mut damaged = block;
            damaged[at] ^= 1 << bit;
            assert_eq!(Checkpoint::parse(&damaged), None, "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn illegal_values_under_a_checksum_that_fits_make_it_ignored() {
    let cases: &[(usize, &[u8])] = &[
        (0, b"PLIMCKPU"),
        (8, &[0, 0]),
        (10, &[1]),
        (15, &[1]),
        (16, &8_184u64.to_le_bytes()),
        (16, &8_193u64.to_le_bytes()),
        (56, &[1]),
        (507, &[1]),
    ];
    for (at, bytes) in cases {
        let mut block = CHECKPOINT.encode();
        block[*at..at + bytes.len()].copy_from_slice(bytes);
        sign(&mut block);
        assert_eq!(Checkpoint::parse(&block), None, "byte {at}: {bytes:02x?}");
    }
}

#[test]
fn it_belongs_to_its_own_use_of_its_own_file_only() {
    assert!(CHECKPOINT.belongs_to(&header()));
    let others = [
        Header { generation: generation(2), ..header() },
        Header { in_use: None, ..header() },
        Header {
            in_use: header().in_use.map(|old| InUse { log: LogId([9; 16]), ..old }),
            ..header()
        },
    ];
    for other in &others {
        assert!(!CHECKPOINT.belongs_to(other), "{other:?}");
    }
    let [other_generation, ..] = others;
    planted::with(Fault::ForeignCheckpointBelieved, || {
        assert!(CHECKPOINT.belongs_to(&other_generation));
    });
}

#[test]
fn it_must_be_possible_in_the_file() {
    let at = |position, next| Checkpoint { position, next: Offset(next), ..CHECKPOINT };
    for (position, next) in [(8_192, 100), (8_224, 101), (8_288, 101), (12_288, 101), (12_288, 228)]
    {
        assert!(at(position, next).belongs_to(&header()), "{position} {next}");
    }
    for (position, next) in [
        (8_192, 101),  // a record takes room
        (8_224, 100),  // room is taken by records
        (8_224, 102),  // 32 bytes each
        (12_288, 229), // likewise
        (8_224, 99),   // below the base
        (12_296, 101), // beyond the file
        (u64::MAX - 7, u64::MAX),
    ] {
        assert!(!at(position, next).belongs_to(&header()), "{position} {next}");
    }
}

proptest! {
    #[test]
    fn random_bytes_are_never_a_checkpoint(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert_eq!(Checkpoint::parse(&bytes), None);
    }

    #[test]
    fn what_is_accepted_is_what_would_be_written(
        changes in prop::collection::vec((8_usize..508, any::<u8>()), 0..6),
    ) {
        let mut block = CHECKPOINT.encode();
        for (at, byte) in changes {
            block[at] = byte;
        }
        sign(&mut block);
        if let Some(checkpoint) = Checkpoint::parse(&block) {
            prop_assert_eq!(&checkpoint.encode()[..], &block[..]);
        }
    }
}
