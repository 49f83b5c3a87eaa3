use crate::format::name::{LogName, parse_segment_file, segment_file};
use crate::types::Offset;
use proptest::prelude::*;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

#[test]
fn segment_names_round_trip() {
    for (base, name) in [
        (0, "00000000000000000000.seg"),
        (1_000, "00000000000000001000.seg"),
        (u64::MAX - 1, "18446744073709551614.seg"),
    ] {
        assert_eq!(segment_file(Offset(base)), name);
        assert_eq!(parse_segment_file(OsStr::new(name)), Some(Offset(base)));
    }
}

#[test]
fn anything_else_is_no_segment_name() {
    for name in [
        "",
        ".seg",
        "0.seg",
        "0000000000000000000.seg",
        "000000000000000000000.seg",
        "00000000000000000000",
        "00000000000000000000.SEG",
        "00000000000000000000.seg.new",
        "00000000000000000000.seg/",
        "+0000000000000000000.seg",
        "-0000000000000000000.seg",
        " 0000000000000000000.seg",
        "0000000000000000000a.seg",
        "18446744073709551615.seg", // all ones, the base of no segment
        "18446744073709551616.seg", // more than 64 bits
        "99999999999999999999.seg",
        "٠٠٠٠٠٠٠٠٠٠.seg", // digits, 20 bytes, not these digits
    ] {
        assert_eq!(parse_segment_file(OsStr::new(name)), None, "{name:?}");
    }
    let no_utf8 = OsStr::from_bytes(b"0000000000000000000\xff.seg");
    assert_eq!(parse_segment_file(no_utf8), None);
}

#[test]
fn case_J1_names_that_lead_elsewhere_are_refused_with_the_rule() {
    let character = "has a character other than A-Z a-z 0-9 . _ - /";
    let dot = "has a part that starts with a dot";
    let empty = "has an empty part (it starts or ends with '/', or has two in a row)";
    let long = "x".repeat(201);
    for (name, reason) in [
        ("../x", dot),
        ("a/../../x", dot),
        ("..%2fx", character),
        ("%2e%2e/x", character),
        ("/etc/x", empty),
        ("a//b", empty),
        ("a/", empty),
        ("/", empty),
        ("a\0b", character),
        (".", dot),
        ("..", dot),
        (".hidden", dot),
        ("a/.b", dot),
        ("", "is empty"),
        (&long, "is longer than 200 bytes"),
        ("a\nb", character),
        ("a b", character),
        ("a\\b", character),
        ("größe", character),
        ("cafe\u{301}", character),
        ("x.seg", "has a part that ends in .seg"),
        ("x.seg/y", "has a part that ends in .seg"),
        ("00000000000000000000.seg", "has a part that ends in .seg"),
    ] {
        let error = LogName::new(name).unwrap_err();
        assert_eq!((error.name.as_str(), error.reason), (name, reason));
        assert_eq!(error.to_string(), format!("log name {name:?}: {reason}"));
    }
}

#[test]
fn good_names_become_directories_below_logs() {
    let longest = "x".repeat(200);
    for (name, dir) in [
        ("orders", "logs/orders"),
        ("eu/orders-2.retry_1", "logs/eu/orders-2.retry_1"),
        ("a...", "logs/a..."),
        ("-x", "logs/-x"),
        ("seg", "logs/seg"),
        ("a.seg.b", "logs/a.seg.b"),
        ("a.SEG", "logs/a.SEG"),
        ("CON", "logs/CON"),
        (&longest, &format!("logs/{longest}")),
    ] {
        let parsed: LogName = name.parse().unwrap();
        assert_eq!(parsed.as_str(), name);
        assert_eq!(parsed.to_string(), name);
        assert_eq!(parsed.dir(Path::new("logs")), Path::new(dir));
    }
    assert_ne!(LogName::new("Orders"), LogName::new("orders"));
}

proptest! {
    #[test]
    fn segment_names_sort_as_their_bases(a in 0..u64::MAX, b in 0..u64::MAX) {
        prop_assert_eq!(parse_segment_file(OsStr::new(&segment_file(Offset(a)))), Some(Offset(a)));
        prop_assert_eq!(segment_file(Offset(a)).cmp(&segment_file(Offset(b))), a.cmp(&b));
    }

    /// Whatever is accepted lies below `logs`, one directory a part, and no part is a segment's name.
    #[test]
    fn case_J1_no_name_leads_out(name in "[a-z./%\\\\\0~-]{0,12}|\\PC{0,20}|[a-c./]{1,6}(\\.seg)?") {
        if let Ok(parsed) = LogName::new(&name) {
            let dir = parsed.dir(Path::new("logs"));
            let parts: Vec<_> = dir.components().skip(1).collect();
            prop_assert_eq!(parts.len(), name.split('/').count());
            for part in parts {
                prop_assert!(matches!(part, Component::Normal(_)));
                prop_assert_eq!(parse_segment_file(part.as_os_str()), None);
            }
        }
    }
}
