use crate::format::layout::{ClassSizes, LayoutError, TINY_MIN, encode, parse};
use crate::format::{BLOCK_LEN, CAPACITY_MAX};
use crate::types::SizeClass;
use proptest::prelude::*;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

fn sizes(main: u64, small: u64, tiny: u64) -> ClassSizes {
    ClassSizes { tiny, small, main }
}

fn signed(body: &str) -> String {
    format!("{body}crc32 {:08x}\n", crc32fast::hash(body.as_bytes()))
}

#[test]
fn classes_follow_the_file_system() {
    let at = |total| ClassSizes::for_file_system(64 * MIB, total);
    assert_eq!(at(4 * MIB), sizes(64 * KIB, 64 * KIB, 64 * KIB));
    assert_eq!(at(64 * MIB), sizes(MIB, 128 * KIB, 64 * KIB));
    assert_eq!(at(252 * GIB), sizes(64 * MIB, 8 * MIB, 256 * KIB));
    // Rounded down to a power of two, and never below 64 KiB, however small the disk.
    assert_eq!(at(127 * MIB).main, MIB);
    assert_eq!(at(128 * MIB).main, 2 * MIB);
    for total in [0, 1, 63, 64, MIB] {
        assert_eq!(at(total), sizes(TINY_MIN, TINY_MIN, TINY_MIN));
    }
    assert_eq!(ClassSizes::for_file_system(u64::MAX, u64::MAX).main, CAPACITY_MAX);
    let classes = at(252 * GIB);
    assert_eq!(SizeClass::ALL.map(|class| classes.of(class)), [256 * KIB, 8 * MIB, 64 * MIB]);
    assert_eq!(classes.room(SizeClass::Tiny), 256 * KIB - 8_192);
}

#[test]
fn the_text_is_that_of_the_format() {
    let text = encode(&ClassSizes::from_main(64 * MIB));
    let body = "plimsoll layout 1\nmain 67108864\nsmall 8388608\ntiny 262144\n";
    assert_eq!(text, format!("{body}crc32 dd3fe21b\n"));
    assert_eq!(parse(text.as_bytes()), Ok(ClassSizes::from_main(64 * MIB)));
}

#[test]
fn an_empty_file_is_one_that_was_being_made() {
    assert_eq!(parse(b""), Err(LayoutError::Empty));
    assert_eq!(parse(&[0; 90]), Err(LayoutError::Empty));
}

#[test]
fn each_wrong_line_is_named() {
    let good = encode(&ClassSizes::from_main(64 * MIB));
    let lines: Vec<&str> = good.lines().collect();
    let cases: &[(usize, &str)] = &[
        (1, "plimsole layout 1"),
        (1, "plimsoll layout one"),
        (1, "plimsoll layout "),
        (1, "plimsoll layout 01"),
        (1, "plimsoll layout 0"),
        (1, ""),
        (2, "mein 67108864"),
        (2, "main 64MiB"),
        (2, "main +67108864"),
        (2, "main 067108864"),
        (2, "main 67108864\r"),
        (2, "main 99999999999999999999"),
        (3, "small -1"),
        (4, "tiny"),
        (5, "crc32 dd3fe21"),
        (5, "crc32 dd3fe21b "),
        (5, "crc"),
    ];
    for (line, text) in cases {
        let mut changed = lines.clone();
        changed[line - 1] = text;
        let file = changed.join("\n") + "\n";
        match parse(file.as_bytes()).unwrap_err() {
            LayoutError::Line { line: named, found, .. } => {
                assert_eq!((named, found.as_str()), (*line, *text));
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }
}

#[test]
fn each_missing_line_and_each_line_too_many_is_named() {
    let good = encode(&ClassSizes::from_main(64 * MIB));
    let named = |text: &str| match parse(text.as_bytes()) {
        Err(LayoutError::Line { line, .. }) => line,
        other => panic!("{text:?}: {other:?}"),
    };
    for count in 1..5 {
        let cut: String = good.split_inclusive('\n').take(count).collect();
        assert_eq!(named(&cut), count + 1, "{count} lines");
    }
    assert_eq!(named(good.trim_end()), 6, "the last line feed is missing");
    assert_eq!(named(&format!("{good}\n")), 6);
    assert_eq!(named(&format!("{good}more\n")), 6);
}

#[test]
fn damage_is_not_taken_for_a_newer_release() {
    let newer = signed("plimsoll layout 2\nanything\n");
    assert_eq!(parse(newer.as_bytes()), Err(LayoutError::Newer(2)));
    let damaged = encode(&ClassSizes::from_main(64 * MIB)).replace("layout 1", "layout 9");
    match parse(damaged.as_bytes()) {
        Err(LayoutError::Line { line: 1, found, .. }) => assert_eq!(found, "plimsoll layout 9"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_changed_digit_breaks_the_checksum() {
    let text = encode(&ClassSizes::from_main(64 * MIB)).replace("8388608", "8392704");
    let body = "plimsoll layout 1\nmain 67108864\nsmall 8392704\ntiny 262144\n";
    let expected = crc32fast::hash(body.as_bytes());
    let found = "dd3fe21b".to_owned();
    assert_eq!(parse(text.as_bytes()), Err(LayoutError::Crc { found, expected }));
    // Capital digits are the same number, and not the same text.
    let capital = encode(&ClassSizes::from_main(64 * MIB)).replace("dd3fe21b", "DD3FE21B");
    assert!(matches!(parse(capital.as_bytes()), Err(LayoutError::Crc { .. })));
}

#[test]
fn sizes_that_no_release_writes_are_refused() {
    for illegal in [
        sizes(64 * MIB, 8 * MIB, 8_192),
        sizes(64 * MIB, 8 * MIB, 0),
        sizes(64 * MIB, 8 * MIB + 1, 65_536),
        sizes(8 * MIB, 64 * MIB, 65_536),
        sizes(64 * MIB, 65_536, 131_072),
        sizes(CAPACITY_MAX + 4_096, 65_536, 65_536),
        sizes(u64::MAX, u64::MAX, u64::MAX),
    ] {
        match parse(encode(&illegal).as_bytes()) {
            Err(LayoutError::Line { line: 2, .. }) => {}
            other => panic!("{illegal:?}: {other:?}"),
        }
    }
}

proptest! {
    /// Every setting and every disk give sizes that the parser accepts again.
    #[test]
    fn what_is_made_is_legal(main in any::<u64>(), total in any::<u64>(), shift in 0_u32..64) {
        let made = ClassSizes::for_file_system(main >> shift, total >> (shift / 2));
        prop_assert_eq!(parse(encode(&made).as_bytes()), Ok(made));
        for class in SizeClass::ALL {
            prop_assert!(made.of(class) >= TINY_MIN);
            prop_assert!(made.of(class).is_multiple_of(BLOCK_LEN as u64));
        }
    }

    #[test]
    fn every_changed_byte_is_noticed(at in 0_usize..90, byte in any::<u8>()) {
        let good = encode(&ClassSizes::from_main(64 * MIB)).into_bytes();
        let mut changed = good.clone();
        let at = at % good.len();
        changed[at] = byte;
        prop_assume!(changed != good);
        prop_assert!(parse(&changed).is_err());
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(parse(&bytes).is_err());
    }
}
