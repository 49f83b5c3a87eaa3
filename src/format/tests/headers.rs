use crate::format::headers::{HEADERS_LEN_MAX, HeadersError, encode, parse};
use proptest::prelude::*;

#[test]
fn the_bytes_are_those_of_the_format() {
    let bytes = encode([("k", &b"value"[..]), ("empty", b"")]).unwrap();
    assert_eq!(bytes, b"\x01\x05\x00kvalue\x05\x00\x00empty");
    assert_eq!(parse(&bytes), Ok(vec![("k", &b"value"[..]), ("empty", b"")]));
    assert_eq!(encode([]), Ok(Vec::new()));
    assert_eq!(parse(b""), Ok(Vec::new()));
}

#[test]
fn order_and_repeated_names_are_kept() {
    let pairs = [("b", &b"1"[..]), ("a", b"2"), ("b", b"3")];
    assert_eq!(parse(&encode(pairs).unwrap()), Ok(pairs.to_vec()));
}

#[test]
fn lengths_at_and_over_the_limits() {
    let (name, long_name) = ("n".repeat(255), "n".repeat(256));
    assert_eq!(encode([(&*long_name, &b""[..])]), Err(HeadersError::Name(256)));
    assert_eq!(encode([("", &b""[..])]), Err(HeadersError::Name(0)));
    let value = vec![7; HEADERS_LEN_MAX - 3 - 255];
    let largest = encode([(&*name, &*value)]).unwrap();
    assert_eq!(largest.len(), HEADERS_LEN_MAX);
    assert_eq!(parse(&largest), Ok(vec![(&*name, &*value)]));
    let one_more = [(&*name, &*value), ("n", &b""[..])];
    assert_eq!(encode(one_more), Err(HeadersError::Total(HEADERS_LEN_MAX + 4)));
    let too_long = vec![0; 65_536];
    assert_eq!(encode([("n", &*too_long)]), Err(HeadersError::Value(65_536)));
}

#[test]
fn what_is_not_pairs_is_answered_with_its_place() {
    let good = encode([("ab", &b"cd"[..])]).unwrap();
    let second = |bytes: &[u8]| [&good[..], bytes].concat();
    for bytes in [
        &b"\x01"[..],        // no value length
        b"\x01\x00",         // half of it
        b"\x01\x00\x00",     // no name
        b"\x00\x00\x00",     // an empty name
        b"\x02\x00\x00a",    // a short name
        b"\x01\x02\x00av",   // a short value
        b"\x01\xff\xffav",   // likewise
        b"\x01\x00\x00\xff", // no UTF-8
    ] {
        assert_eq!(parse(&second(bytes)), Err(HeadersError::Malformed(7)), "{bytes:02x?}");
        assert_eq!(parse(bytes), Err(HeadersError::Malformed(0)), "{bytes:02x?}");
    }
}

proptest! {
    #[test]
    fn pairs_round_trip(
        pairs in prop::collection::vec(
            ("\\PC{1,60}", prop::collection::vec(any::<u8>(), 0..300)), 0..8),
    ) {
        let given: Vec<(&str, &[u8])> = pairs.iter().map(|(n, v)| (n.as_str(), &v[..])).collect();
        let bytes = encode(given.iter().copied()).unwrap();
        prop_assert_eq!(parse(&bytes), Ok(given));
    }

    /// Whatever parses is the encoding of what it parsed to; nothing panics.
    #[test]
    fn any_bytes_are_refused_or_round_trip(bytes in prop::collection::vec(0_u8..6, 0..40)) {
        if let Ok(pairs) = parse(&bytes) {
            prop_assert_eq!(encode(pairs).unwrap(), bytes);
        }
    }
}
