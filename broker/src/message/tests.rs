//! Golden bytes, round trips, and bytes of all kinds.

use super::*;
use crate::api::FaultKind;
use proptest::prelude::*;

fn head() -> MessageHead {
    MessageHead { seq: Seq(0x0102), band: Band::DEFAULT, total: 0x0304_0506 }
}

fn headers(head: &MessageHead, content: &NewMessage) -> Vec<u8> {
    let mut out = Vec::new();
    encode_headers(head, content, &mut out);
    out
}

fn full() -> NewMessage {
    NewMessage {
        payload: Bytes::from_static(b"hello"),
        headers: vec![("a".into(), "1".into()), ("a".into(), String::new())],
        content_type: Some("text/plain".into()),
        correlation_id: Some(String::new()),
        key: Some("k-1".into()),
    }
}

/// The front that the fields of these tests stand behind.
const FRONT: [u8; HEAD_LEN] = [1, 4, 2, 1, 0, 0, 0, 0, 0, 0, 6, 5, 4, 3, 0, 0, 0, 0];

fn with(fields: &[&[u8]]) -> Vec<u8> {
    [&FRONT[..], &fields.concat()].concat()
}

fn read(headers: &[u8]) -> Result<(MessageHead, StoredMessage), BadMessage> {
    decode(headers, Bytes::from_static(b"hello"), 77)
}

#[test]
fn the_bytes_are_those_of_the_format_page() {
    let golden = with(&[
        b"\x01\x03k-1",
        b"\x02\x0atext/plain",
        b"\x03\x00",
        b"\x04\x03\x01a1",
        b"\x04\x02\x01a",
    ]);
    assert_eq!(headers(&head(), &full()), golden);
    let stored = StoredMessage { seq: Seq(0x0102), published_ms: 77, content: full() };
    assert_eq!(read(&golden), Ok((head(), stored)));
    assert_eq!(decode_head(&golden), Ok(head()));
    assert_eq!(decode_key(&golden), Ok(Some("k-1")));
}

#[test]
fn a_message_without_anything_has_the_front_alone() {
    let content = NewMessage::default();
    assert_eq!(headers(&head(), &content), FRONT);
    let (_, stored) = decode(&FRONT, Bytes::new(), 0).unwrap();
    assert_eq!(stored.content, content);
    assert_eq!(decode_key(&FRONT), Ok(None));
}

#[test]
fn a_field_that_may_be_skipped_is_and_one_that_must_not_is_an_error() {
    let plain = read(&with(&[b"\x01\x01k"])).unwrap();
    assert_eq!(read(&with(&[b"\x01\x01k", b"\x80\x02zz", b"\x80\x00", b"\xff\x00"])), Ok(plain));
    for tag in 5..0x80 {
        let bytes = with(&[b"\x01\x01k", &[tag, 0]]);
        assert_eq!(read(&bytes), Err(BadMessage::Unknown(tag)));
        // What is needed to go past it can still be read.
        assert_eq!(decode_head(&bytes), Ok(head()));
        assert_eq!(decode_key(&bytes), Ok(Some("k")));
    }
}

#[test]
fn a_message_has_one_form() {
    let twice = [with(&[b"\x01\x01k", b"\x01\x01l"]), with(&[b"\x02\x00", b"\x02\x00"])];
    let disordered = [with(&[b"\x02\x00", b"\x01\x01k"]), with(&[b"\x80\x00", b"\x04\x01\x00"])];
    for bytes in twice.iter().chain(&disordered) {
        assert!(matches!(read(bytes), Err(BadMessage::Place(_))), "{bytes:?}");
    }
    // A length that takes more bytes than it needs.
    assert_eq!(read(&with(&[b"\x01\x81\x00k"])), Err(BadMessage::Short));
    // Tag 0 is in no order.
    assert!(read(&with(&[b"\x00\x00"])).is_err());
}

#[test]
fn what_is_no_message_is_an_error() {
    let mut other = FRONT;
    other[0] = 2;
    assert_eq!(decode_head(&other), Err(BadMessage::Version(2)));
    assert_eq!(decode_head(&[2]), Err(BadMessage::Version(2)));
    other = FRONT;
    other[1] = 10;
    assert_eq!(decode_head(&other), Err(BadMessage::Band(10)));
    for len in 0..HEAD_LEN {
        assert_eq!(decode_head(&FRONT[..len]), Err(BadMessage::Short));
    }
    assert_eq!(read(&with(&[b"\x02\x01\xff"])), Err(BadMessage::Field(2)));
    assert_eq!(decode_key(&with(&[b"\x01\x01\xff"])), Err(BadMessage::Field(1)));
    assert_eq!(read(&with(&[b"\x04\x02\x02a"])), Err(BadMessage::Field(4)));
    assert_eq!(read(&with(&[b"\x04\x02\x01\xff"])), Err(BadMessage::Field(4)));
    assert_eq!(read(&with(&[b"\x02\x7f"])), Err(BadMessage::Short));
}

#[test]
fn whatever_passes_the_check_fits_the_headers_of_a_record() {
    // The most fields for their bytes: a name of one byte, and no value.
    let many = vec![("a".to_owned(), String::new()); HEADERS_MAX];
    let content = NewMessage { headers: many, ..NewMessage::default() };
    check(&content).unwrap();
    let bytes = headers(&head(), &content);
    assert!(bytes.len() <= 65_535, "{}", bytes.len());
    assert_eq!(decode(&bytes, Bytes::new(), 0).unwrap().1.content, content);
}

#[test]
fn what_is_too_large_is_refused_with_the_payload_first() {
    let payload = |len| Bytes::from(vec![0; len]);
    let header = |len: usize| vec![("a".to_owned(), "b".repeat(len - 1))];
    let key = |len: usize| Some("k".repeat(len));
    let kind = |message: &NewMessage| check(message).map_err(|fault| fault.kind());
    let most = NewMessage {
        payload: payload(PAYLOAD_MAX),
        headers: header(HEADERS_MAX - KEY_MAX),
        key: key(KEY_MAX),
        ..NewMessage::default()
    };
    assert_eq!(kind(&most), Ok(()));
    let more = NewMessage { correlation_id: Some("c".into()), ..most.clone() };
    assert_eq!(kind(&more), Err(FaultKind::HeadersTooLarge));
    let more = NewMessage { payload: payload(PAYLOAD_MAX + 1), ..more };
    assert_eq!(kind(&more), Err(FaultKind::PayloadTooLarge));
    for len in [0, KEY_MAX + 1] {
        let message = NewMessage { headers: Vec::new(), key: key(len), ..most.clone() };
        assert_eq!(kind(&message), Err(FaultKind::Invalid));
    }
    let nameless = vec![(String::new(), "v".to_owned())];
    let message = NewMessage { headers: nameless, ..NewMessage::default() };
    assert_eq!(kind(&message), Err(FaultKind::Invalid));
}

fn any_message() -> impl Strategy<Value = NewMessage> {
    let text = || proptest::option::of(".{0,200}");
    let pairs = proptest::collection::vec((".{0,150}", ".{0,20}"), 0..6);
    (proptest::collection::vec(any::<u8>(), 0..40), pairs, text(), text(), text()).prop_map(
        |(payload, headers, content_type, correlation_id, key)| {
            let payload = Bytes::from(payload);
            NewMessage { payload, headers, content_type, correlation_id, key }
        },
    )
}

fn any_head() -> impl Strategy<Value = MessageHead> {
    (any::<u64>(), 0_u8..10, any::<u64>()).prop_map(|(seq, band, total)| MessageHead {
        seq: Seq(seq),
        band: Band::new(band).unwrap(),
        total,
    })
}

/// All decoders agree, none panics, and what is read is written the same again, but for what was skipped.
fn look(headers: &[u8]) {
    let whole = decode(headers, Bytes::new(), 5);
    if let Ok((head, stored)) = &whole {
        assert_eq!(decode_head(headers), Ok(*head));
        assert_eq!(decode_key(headers).unwrap(), stored.content.key.as_deref());
        let mut again = Vec::new();
        encode_headers(head, &stored.content, &mut again);
        assert_eq!(decode(&again, Bytes::new(), 5), whole);
        assert_eq!(again, headers[..again.len()]);
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(head in any_head(), content in any_message(), millis: u64) {
        let bytes = headers(&head, &content);
        let payload = content.payload.clone();
        prop_assert_eq!(decode_key(&bytes), Ok(content.key.as_deref()));
        let stored = StoredMessage { seq: head.seq, published_ms: millis, content };
        prop_assert_eq!(decode(&bytes, payload, millis), Ok((head, stored)));
        for len in 0..HEAD_LEN {
            prop_assert_eq!(decode_head(&bytes[..len]), Err(BadMessage::Short));
        }
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(mut bytes: Vec<u8>, valid: bool) {
        if valid && bytes.len() >= 2 {
            (bytes[0], bytes[1]) = (VERSION, bytes[1] % 10);
        }
        look(&bytes);
    }

    #[test]
    fn a_changed_message_is_another_or_an_error(
        content in any_message(),
        at: prop::sample::Index,
        change in 1_u8..,
    ) {
        let mut bytes = headers(&head(), &content);
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        look(&bytes);
    }
}
