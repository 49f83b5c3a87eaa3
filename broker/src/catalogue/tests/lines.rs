//! The records as lines.

use super::*;

/// Each kind, and how it is written.
fn golden() -> Vec<(Record, &'static str)> {
    let (id, name) = (QueueId(26), name("orders é"));
    let queue = QueueMeta {
        id,
        name: name.clone(),
        settings: settings(1_000),
        revision: 2,
        created_ms: 5,
        changed_ms: 6,
    };
    let declare = Record::Declare {
        id,
        name,
        settings: QueueSettings::default(),
        revision: 1,
        at_ms: 1_700_000_000_000,
    };
    vec![
        (
            Record::Format(format()),
            r#"{"kind":"format","v":1,"format":{"broker":"62726f6b65722d6e756d6265722d3031","shards":8,"receipt_key":"abababababababababababababababab","directories":["01010101010101010101010101010101","02020202020202020202020202020202"]}}"#,
        ),
        (
            declare,
            r#"{"kind":"declare","v":1,"id":"000000000000001a","name":"orders é","settings":{"max_attempts":5,"lease_ms":30000,"max_queue_depth":10000,"max_in_flight":100000,"data_dir":0},"revision":1,"at_ms":1700000000000}"#,
        ),
        (
            Record::Delete { id, at_ms: 7 },
            r#"{"kind":"delete","v":1,"id":"000000000000001a","at_ms":7}"#,
        ),
        (
            Record::Begin { format: format(), next_id: QueueId(27) },
            r#"{"kind":"begin","v":1,"format":{"broker":"62726f6b65722d6e756d6265722d3031","shards":8,"receipt_key":"abababababababababababababababab","directories":["01010101010101010101010101010101","02020202020202020202020202020202"]},"next_id":"000000000000001b"}"#,
        ),
        (
            Record::Queue(queue),
            r#"{"kind":"queue","v":1,"queue":{"id":"000000000000001a","name":"orders é","settings":{"max_attempts":5,"lease_ms":1000,"max_queue_depth":10000,"max_in_flight":100000,"data_dir":0},"revision":2,"created_ms":5,"changed_ms":6}}"#,
        ),
        (Record::End { queues: 1 }, r#"{"kind":"end","v":1,"queues":1}"#),
    ]
}

#[test]
fn the_lines_are_those_of_the_format_page() {
    for (record, line) in golden() {
        assert_eq!(String::from_utf8(record.encode()).unwrap(), line);
        assert_eq!(Record::decode(line.as_bytes()), Ok(record));
    }
}

fn refused(line: &str, reason: &str) {
    let said = Record::decode(line.as_bytes()).unwrap_err();
    assert!(said.contains(reason), "{line}: {said:?} does not say {reason:?}");
}

#[test]
fn another_version_is_an_error_whatever_else_it_has() {
    refused(r#"{"v":2,"kind":"declare","of":"which nothing is known"}"#, "version 2");
    refused(r#"{"v":0,"kind":"end","queues":1}"#, "version 0");
    refused(r#"{"kind":"end","queues":1}"#, "`v`");
    refused(r#"{"v":1,"v":1,"kind":"end","queues":1}"#, "duplicate");
}

#[test]
fn what_is_not_known_is_an_error_and_no_silence() {
    refused(r#"{"kind":"rename","v":1}"#, "rename");
    refused(r#"{"kind":"end","v":1,"queues":1,"bands":3}"#, "bands");
    for (record, line) in golden() {
        // Another field in the record, and in each object within it.
        for (at, _) in line.match_indices('{') {
            let more = format!("{}\"future\":true,{}", &line[..=at], &line[at + 1..]);
            assert!(Record::decode(more.as_bytes()).is_err(), "{record:?}: {more}");
        }
    }
}

#[test]
fn a_setting_that_an_older_record_does_not_have_has_its_default() {
    let line = r#"{"kind":"declare","v":1,"id":"0000000000000001","name":"a","settings":{"lease_ms":500},"revision":1,"at_ms":0}"#;
    match Record::decode(line.as_bytes()).unwrap() {
        Record::Declare { settings: read, .. } => assert_eq!(read, settings(500)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_value_has_one_form() {
    let line = |id: &str, name: &str| {
        format!(
            r#"{{"kind":"declare","v":1,"id":"{id}","name":"{name}","settings":{{}},"revision":1,"at_ms":0}}"#
        )
    };
    assert!(Record::decode(line("000000000000001a", "a").as_bytes()).is_ok());
    for id in ["1a", "000000000000001A", "+00000000000001a", "0000000000000001a", ""] {
        refused(&line(id, "a"), "16 hexadecimal digits");
    }
    refused(&line("000000000000001a", ".."), "directory");
    refused(&line("000000000000001a", ""), "empty");
    refused(r#"{"kind":"end","v":1,"queues":-1}"#, "-1");
    refused(r#"{"kind":"end","v":1,"queues":1} {}"#, "trailing");
}

#[test]
fn no_error_and_no_print_shows_the_key() {
    let key = "abababababababababababababababa";
    for (record, line) in golden() {
        assert!(!format!("{record:?}").contains("ababab"));
        let broken = line.replace(&format!("{key}b"), &format!("{key}X"));
        if broken != line {
            assert!(!Record::decode(broken.as_bytes()).unwrap_err().contains(key));
        }
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_a_record_or_an_error(bytes: Vec<u8>, text: String) {
        for bytes in [&bytes[..], text.as_bytes()] {
            assert!(Record::decode(bytes).is_err());
        }
    }

    #[test]
    fn a_changed_line_is_an_error_or_reads_the_same_twice(
        which in 0_usize..6,
        at: proptest::sample::Index,
        change in 1_u8..,
    ) {
        let mut bytes = golden()[which].1.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        if let Ok(record) = Record::decode(&bytes) {
            assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
    }
}
