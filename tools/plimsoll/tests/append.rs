//! `plimsoll append`: the forms of input, what is confirmed, and what is refused.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]

mod support;

use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use support::{Dir, feed, finish, numbered, run, spawn};

#[test]
fn lines_go_in_and_come_out_byte_for_byte() {
    let dir = Dir::new();
    let input = b"one\n\n\xff\x00\xfe\r\n  spaced  \nlast without newline";
    let told = feed("append {} orders", &dir.data(), input).exits(0);
    let text = told.text();
    assert!(text.starts_with("appended 5 records, offsets 0 to 4, 37 B, "), "{text}");
    assert!(text.contains(" records/s, ") && text.trim_end().ends_with("/s"), "{text}");
    assert_eq!(told.stderr, "", "no progress line where there is no terminal");
    let read = run("read {} orders", &dir.data()).exits(0);
    assert_eq!(read.stdout, [&input[..], b"\n"].concat());
    let again = feed("append {} orders", &dir.data(), b"more\n").exits(0);
    assert!(
        again.text().starts_with("appended 1 record, offsets 5 to 5, 4 B, "),
        "{}",
        again.text()
    );
}

#[test]
fn no_input_makes_an_empty_log() {
    let dir = Dir::new();
    assert_eq!(run("append {} orders/eu", &dir.data()).exits(0).text(), "appended 0 records\n");
    assert_eq!(run("read {} orders/eu", &dir.data()).exits(0).stdout, b"");
    let sum = run("append {} orders/eu --json", &dir.data()).exits(0).json();
    assert_eq!(
        (&sum["records"], &sum["first"], &sum["last"]),
        (&json!(0), &json!(null), &json!(null))
    );
}

#[test]
fn many_lines_are_confirmed_in_batches_that_follow_one_another() {
    let dir = Dir::new();
    let input = numbered(20_000);
    let told = feed("append {} numbers --json", &dir.data(), &input).exits(0);
    let mut next = 0;
    for line in told.json_lines() {
        if line["event"] == "confirmed" {
            assert_eq!(line["first"], next);
            next = line["last"].as_u64().unwrap() + 1;
        } else {
            assert_eq!(line["event"], "appended");
            let sum = (&line["records"], &line["first"], &line["last"]);
            assert_eq!(sum, (&json!(20_000), &json!(0), &json!(19_999)));
        }
    }
    assert_eq!(next, 20_000);
    assert_eq!(run("read {} numbers", &dir.data()).exits(0).stdout, input);
}

#[test]
fn a_slow_input_is_confirmed_line_by_line() {
    let dir = Dir::new();
    let mut child = spawn("append {} orders --confirm", &dir.data());
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for number in 0..3 {
        writeln!(stdin, "line {number}").unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, format!("confirmed offsets {number} to {number}\n"));
    }
    drop(stdin);
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("appended 3 records, offsets 0 to 2, 18 B"), "{line}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn ndjson_carries_headers_and_any_bytes_there_and_back() {
    let dir = Dir::new();
    let input = concat!(
        r#"{"headers":{"type":"order","tags":["a","b"],"raw":{"base64":"/w=="}},"payload":"caf\u00e9"}"#,
        "\n",
        r#"{"payload_base64":"AP8="}"#,
        "\n",
        r#"{"payload":""}"#,
    );
    feed("append {} orders --ndjson", &dir.data(), input.as_bytes()).exits(0);
    let records = run("read {} orders --json", &dir.data()).exits(0).json_lines();
    assert_eq!(
        records[0]["headers"],
        json!({"type": "order", "tags": ["a", "b"], "raw": {"base64": "/w=="}})
    );
    assert_eq!(records[0]["payload"], "café");
    assert_eq!(records[0]["offset"], 0);
    let stamp = records[0]["time"].as_str().unwrap();
    assert!(stamp.starts_with("20") && stamp.ends_with('Z') && stamp.len() == 24, "{stamp}");
    assert_eq!(
        (&records[1]["payload_base64"], &records[1]["headers"]),
        (&json!("AP8="), &json!({}))
    );
    assert_eq!(records[2]["payload"], "");
}

#[test]
fn a_wrong_line_of_ndjson_is_named_and_the_lines_before_it_are_kept() {
    let dir = Dir::new();
    let cases = [
        (r#"{"payload":"c","colour":"red"}"#, "line 3: \"colour\": unknown field"),
        (r#"{"payload":7}"#, "line 3: payload: found a number, expected a string"),
        (
            r#"{"headers":{"a":1},"payload":""}"#,
            "line 3: headers.\"a\": found a number, expected a string",
        ),
        ("not json", "line 3: column "),
        ("", "line 3: column "),
    ];
    for (index, (wrong, expected)) in cases.into_iter().enumerate() {
        let input = format!(
            "{{\"payload\":\"a\"}}\n{{\"payload\":\"b\"}}\n{wrong}\n{{\"payload\":\"d\"}}\n"
        );
        let line = format!("append {{}} log{index} --ndjson --json");
        let told =
            feed(&line, &dir.data(), input.as_bytes()).exits(2).says(&["standard input", expected]);
        let error = told.error();
        assert_eq!((&error["line"], &error["last_confirmed"]), (&json!(3), &json!(1)), "{wrong}");
        assert!(told.stderr.contains("the last confirmed offset is 1"), "{}", told.stderr);
        assert_eq!(run(&format!("read {{}} log{index}"), &dir.data()).exits(0).text(), "a\nb\n");
    }
}

#[test]
fn length_prefixed_records_go_there_and_back() {
    let dir = Dir::new();
    let input = b"\x03\0\0\0a\nb\0\0\0\0\x01\0\0\0\xff";
    feed("append {} orders --length-prefixed", &dir.data(), input).exits(0);
    assert_eq!(run("read {} orders --length-prefixed", &dir.data()).exits(0).stdout, input);
    assert_eq!(run("read {} orders --raw", &dir.data()).exits(0).stdout, b"a\nb\xff");
}

#[test]
fn a_cut_or_absurd_length_is_named_with_its_place() {
    let dir = Dir::new();
    let cases: [(&[u8], &str); 3] = [
        (b"\x02\0", "byte 5 (record 2): the input ends after 2 of the 4 bytes of a length"),
        (b"\x05\0\0\0ab", "byte 5 (record 2): the input ends after 2 of 5 bytes of payload"),
        (b"\xff\xff\xff\x7f", "byte 5 (record 2): length: found 2147483647, expected at most "),
    ];
    for (index, (wrong, expected)) in cases.into_iter().enumerate() {
        let input = [&b"\x01\0\0\0x"[..], wrong].concat();
        feed(&format!("append {{}} log{index} --length-prefixed"), &dir.data(), &input)
            .exits(2)
            .says(&[expected, "the last confirmed offset is 0"]);
        assert_eq!(run(&format!("read {{}} log{index}"), &dir.data()).exits(0).text(), "x\n");
    }
}

#[test]
fn a_line_of_the_largest_size_goes_in_and_one_that_is_larger_is_named() {
    let dir = Dir::new();
    let largest = (8 << 20) - 32;
    let mut input = b"before\n".to_vec();
    input.resize(input.len() + largest, b'x');
    input.push(b'\n');
    let fits = input.clone();
    feed("append {} orders", &dir.data(), &fits).exits(0);
    assert_eq!(run("read {} orders", &dir.data()).exits(0).stdout, fits);
    input.extend_from_slice(b"between\n");
    input.resize(input.len() + largest + 1, b'y');
    input.extend_from_slice(b"\nafter\n");
    feed("append {} larger", &dir.data(), &input).exits(2).says(&[
        "standard input, line 4",
        "8,388,576",
        "the last confirmed offset is 2",
    ]);
    let kept = run("read {} larger --from 2", &dir.data()).exits(0);
    assert_eq!(kept.text(), "between\n");
}

#[test]
fn where_files_are_small_the_log_says_what_fits() {
    let dir = Dir::new();
    let Some(_mount) = support::Mount::tmpfs(&dir.path("small"), "size=16m") else { return };
    // A 64th of the file system is 256 KiB, the largest file here.
    let mut input = b"one\ntwo\n".to_vec();
    input.resize(input.len() + 300_000, b'x');
    input.extend_from_slice(b"\nfour\n");
    let data = dir.path("small/data");
    feed("append {} orders --json", &data, &input).exits(2).says(&[
        "standard input, line 3",
        "300032 bytes",
        "the last confirmed offset is 1",
    ]);
    assert_eq!(run("read {} orders", &data).exits(0).text(), "one\ntwo\n");
}

#[test]
fn a_log_opened_small_has_small_files() {
    let dir = Dir::new();
    let mut input = Vec::new();
    for number in 0..20_000 {
        input.extend_from_slice(format!("{number:01000}\n").as_bytes());
    }
    feed("append {} small --small", &dir.data(), &input).exits(0);
    feed("append {} large", &dir.data(), &input).exits(0);
    let largest = |log| {
        let files = support::segments(&dir.data(), log);
        files.iter().map(|file| std::fs::metadata(file).unwrap().len()).max().unwrap()
    };
    assert_eq!(largest("small"), 8 << 20);
    assert_eq!(largest("large"), 64 << 20);
    assert_eq!(run("read {} small", &dir.data()).exits(0).stdout, input);
}

#[test]
fn nobody_reading_the_confirmations_ends_it_quietly() {
    let dir = Dir::new();
    let mut child = spawn("append {} orders --confirm", &dir.data());
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\n").unwrap();
    // It ends by itself while its input stays open.
    let told = finish(child).exits(3);
    assert_eq!(told.stderr, "");
    assert_eq!(run("read {} orders", &dir.data()).exits(0).text(), "one\n");
}

#[test]
fn a_file_size_limit_is_an_error_and_not_a_death() {
    let dir = Dir::new();
    // Blocks of 512 or 1024 bytes: less than the smallest segment file either way.
    let line = format!("ulimit -f 20; exec {} append \"$0\" a", env!("CARGO_BIN_EXE_plimsoll"));
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(line).arg(dir.data());
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"one\n").unwrap();
    support::finish(child).exits(3).says(&["File too large", "not written"]);
}
