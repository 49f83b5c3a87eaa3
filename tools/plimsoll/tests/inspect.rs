//! `plimsoll inspect` on files, good, damaged and foreign.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]
#![allow(non_snake_case, reason = "tests are named for the case they hold")]

mod support;

use serde_json::json;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use support::{Dir, golden, run};

#[test]
fn a_good_segment_is_clean_and_its_records_are_listed() {
    let path = golden("two-records.seg");
    let shown = run("inspect {}", &path).exits(0);
    for text in ["in use", "generation", "records", "clean"] {
        assert!(shown.text().contains(text), "{text} is not in {}", shown.text());
    }
    assert!(!shown.text().contains('\u{1b}'), "no colour where there is no terminal");
    let report = run("inspect {} --json", &path).exits(0).json();
    assert_eq!(report["outcome"], "clean");
    assert_eq!(report["header"]["state"], "in use");
    let count = report["records"]["count"].as_u64().unwrap();
    let lines = run("inspect {} --records --json", &path).exits(0).json_lines();
    let records: Vec<_> = lines.iter().filter(|line| line.get("generation").is_some()).collect();
    assert_eq!(records.len() as u64, count);
    assert_eq!(records[0]["position"], 8192);
}

#[test]
fn damage_is_told_with_file_position_and_field_and_what_is_behind_it_is_shown() {
    let path = golden("damage-in-the-middle.seg");
    let shown = run("inspect {} --records", &path).exits(1);
    assert!(
        shown.stderr.contains("damage-in-the-middle.seg, byte 8232, record 1"),
        "{}",
        shown.stderr
    );
    assert!(
        shown.stderr.contains("CRC32")
            && shown.stderr.contains("found")
            && shown.stderr.contains("expected")
    );
    assert!(shown.text().contains("  2  byte 8272"), "the records behind it: {}", shown.text());
    let error = run("inspect {} --json", &path).exits(1).error();
    assert_eq!(error["error"], "ERR_DAMAGED");
    assert_eq!(
        (&error["exit"], &error["position"], &error["offset"]),
        (&json!(1), &json!(8232), &json!(1))
    );
}

#[test]
fn a_torn_tail_is_no_damage() {
    let report = run("inspect {} --json", &golden("torn-tail.seg")).exits(0).json();
    assert_eq!(report["outcome"], "torn tail");
}

#[test]
fn a_dump_names_each_field_and_a_damaged_record_is_dumped_too() {
    let path = golden("damage-in-the-middle.seg");
    let good = run("inspect {} --hex 0", &path).exits(0);
    for text in ["header CRC32: ", ", fits", "payload length: ", "00002000  "] {
        assert!(good.text().contains(text), "{text} is not in {}", good.text());
    }
    let bad = run("inspect {} --hex 1", &path).exits(1);
    assert!(
        bad.text().contains("body CRC32") && bad.stderr.contains("byte 8232"),
        "{}",
        bad.stderr
    );
    assert_eq!(run("inspect {} --hex @8272 --json", &path).exits(0).json()["position"], 8272);
    assert!(run("inspect {} --hex @8", &path).exits(0).text().contains("layout version: 1"));
    assert!(run("inspect {} --hex @5000", &path).exits(0).text().contains("next offset: "));
    run("inspect {} --hex 99", &path).exits(3).says(&["holds no record 99"]);
    run("inspect {} --hex x", &path).exits(2);
}

#[test]
fn case_I2_every_kind_of_file_has_its_own_answer_and_no_panic() {
    let dir = Dir::new();
    let urandom: Vec<u8> = {
        use std::io::Read;
        let mut bytes = Vec::new();
        fs::File::open("/dev/urandom").unwrap().take(1 << 20).read_to_end(&mut bytes).unwrap();
        bytes
    };
    let header_only = fs::read(golden("empty.seg")).unwrap()[..4096].to_vec();
    // Without a segment's records behind it a header is still a segment, and shorter than it says.
    run("inspect {}", &dir.file("header-only.seg", &header_only))
        .exits(1)
        .says(&["byte 4096", "12288"]);
    run("inspect {}", &golden("empty.seg")).exits(0);
    run("inspect {}", &dir.file("empty.seg", b"")).exits(1).says(&["byte 0", "0 bytes", "512"]);
    run("inspect {}", &dir.file("zeroes.seg", &[0; 1 << 20])).exits(1).says(&["byte 0", "zeroes"]);
    run("inspect {}", &dir.file("random.seg", &urandom)).exits(1).says(&["byte 0", "magic"]);
    run("inspect {}", &dir.path("missing.seg")).exits(3).says(&["missing.seg", "No such file"]);
    let spare = run("inspect {}", &golden("spare-with-leftovers.seg")).exits(0);
    assert!(spare.text().contains("spare, holds no messages"), "{}", spare.text());
    let spare = run("inspect {} --records --json", &golden("spare-with-leftovers.seg")).exits(0);
    assert_eq!(spare.json_lines().len(), 1, "the report and no record");
    std::os::unix::fs::symlink(golden("worked.seg"), dir.path("link.seg")).unwrap();
    run("inspect {}", &dir.path("link.seg")).exits(3).says(&["symbolic link"]);
    run("inspect {}", std::path::Path::new("/dev/null")).exits(3).says(&["device"]);
    for option in ["--records", "--hex 0", "--records --json"] {
        for name in ["empty.seg", "zeroes.seg", "random.seg", "header-only.seg", "missing.seg"] {
            let code = run(&format!("inspect {{}} {option}"), &dir.path(name)).code;
            assert!([1, 3].contains(&code), "{name} {option}: {code}");
        }
    }
}

#[test]
fn case_I2_a_segment_cut_at_each_byte_of_its_header_is_told_with_its_length() {
    let dir = Dir::new();
    let whole = fs::read(golden("worked.seg")).unwrap();
    // Each byte of the sector that holds the fields, then a few on to the first record.
    let lens: Vec<usize> =
        (0..=512).chain([513, 4095, 4096, 4097, 8191, 8192, 8193, 8223, 8224]).collect();
    let check = |len: usize| {
        let path = dir.file(&format!("cut-{len}.seg"), &whole[..len]);
        let shown = run("inspect {}", &path).exits(1);
        assert!(shown.stderr.contains(&format!("cut-{len}.seg, byte ")), "{len}: {}", shown.stderr);
        let found = match len {
            0..512 => {
                format!("byte 0: damaged: header: the file has {len} bytes, and a header takes 512")
            }
            _ => format!("byte {len}: damaged: the file ends here, its header says 12288 bytes"),
        };
        assert!(shown.text().contains(&found), "{len}: {}", shown.text());
    };
    // Each waits for a writer that is not there, so many at a time.
    std::thread::scope(|scope| {
        for some in lens.chunks(lens.len() / 24) {
            scope.spawn(|| some.iter().for_each(|&len| check(len)));
        }
    });
}

#[test]
fn case_I2_a_file_that_may_not_be_read_is_unreadable_and_not_damaged() {
    let dir = Dir::new();
    let path = dir.file("locked.seg", &fs::read(golden("worked.seg")).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&path).is_ok() {
        // Root reads anything; as another user then, for whom the way there is open.
        fs::set_permissions(dir.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        let command = dir.path("plimsoll");
        fs::copy(env!("CARGO_BIN_EXE_plimsoll"), &command).unwrap();
        use std::os::unix::process::CommandExt;
        let run = || {
            std::process::Command::new(&command)
                .args(["inspect", path.to_str().unwrap()])
                .uid(65534)
                .gid(65534)
                .output()
        };
        // A test beside this one may fork while the copy is still open for writing, and hold it a moment longer.
        let mut output = run();
        while output.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::ExecutableFileBusy) {
            std::thread::sleep(std::time::Duration::from_millis(20));
            output = run();
        }
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(3));
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("locked.seg") && told.contains("Permission denied"), "{told}");
    } else {
        run("inspect {}", &path).exits(3).says(&["locked.seg", "Permission denied"]);
    }
}

#[test]
fn case_I2_a_spare_says_so_and_tells_its_leftovers_by_generation() {
    let path = golden("node/spares/00000000000000000007.seg");
    let shown = run("inspect {} --records", &path).exits(0);
    for text in [
        "  state       spare, holds no messages; tiny, 12 KiB, generation 2",
        "  spare       stamped; a start stamps it with generation 3",
        "  content     4 KiB: 3.9 KiB of zeroes, 104 B of leftovers of earlier uses",
        "  leftovers   generation 1: 2 records, 104 B, from byte 8192",
    ] {
        assert!(shown.text().contains(text), "{text:?} is not in {}", shown.text());
    }
    assert!(!shown.text().contains("  records "), "{}", shown.text());
    let report = run("inspect {} --json", &path).exits(0).json();
    assert_eq!(report["spare"], json!({"state": "stamped", "next_generation": 3}));
    assert_eq!(report["beyond"]["leftovers"][0]["generation"], 1);
    assert_eq!(report["beyond"]["leftovers"][0]["records"], 2);
    // A copy elsewhere is still a spare; what becomes of it nobody can say.
    let report = run("inspect {} --json", &golden("spare-with-leftovers.seg")).exits(0).json();
    assert_eq!((&report["spare"], &report["header"]["state"]), (&json!(null), &json!("spare")));
}

#[test]
fn case_I2_a_file_given_up_is_no_segment_any_more_wherever_one_stands() {
    let dir = Dir::new();
    fs::create_dir_all(dir.path("data/spares")).unwrap();
    fs::create_dir_all(dir.path("data/logs")).unwrap();
    fs::copy(golden("node/LAYOUT"), dir.path("data/LAYOUT")).unwrap();
    // In a log this is damage.
    let path = dir.path("data/spares/1.seg");
    fs::copy(golden("damage-in-the-middle.seg"), &path).unwrap();
    let shown = run("inspect {} --records", &path).exits(0);
    for text in [
        "given up, holds no messages; its header still says in use",
        "given up by its log, not stamped yet; a start stamps it with generation ",
        ", the use that ended when the file was given up: ",
    ] {
        assert!(shown.text().contains(text), "{text:?} is not in {}", shown.text());
    }
    assert!(!shown.text().contains("  records "), "{}", shown.text());
    let lines = run("inspect {} --records --json", &path).exits(0).json_lines();
    assert_eq!(lines.len(), 1, "the report and no record");
    assert_eq!(
        (&lines[0]["spare"]["state"], &lines[0]["outcome"]),
        (&json!("given up"), &json!("clean"))
    );
    assert_eq!(lines[0]["records"]["count"], 0);
    let here = support::command("inspect 1.seg --json", &path)
        .current_dir(dir.path("data/spares"))
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&here.stdout).unwrap();
    assert_eq!(report["spare"]["state"], "given up");
    run("inspect {}", &golden("damage-in-the-middle.seg")).exits(1);
}

#[test]
fn leftovers_behind_the_records_of_a_reused_file_are_told_by_generation() {
    let shown = run("inspect {}", &golden("reused.seg")).exits(0);
    for text in [
        "  records     2, offsets 40 to 41",
        "  beyond      3.9 KiB: 3.9 KiB of zeroes, 40 B of leftovers of earlier uses",
        "  leftovers   generation 2: 1 record, 40 B, from byte 8272",
    ] {
        assert!(shown.text().contains(text), "{text:?} is not in {}", shown.text());
    }
}

#[test]
fn i2_what_a_heal_cut_off_is_none_of_the_logs_records() {
    let log = golden("node/logs/orders");
    let lines = run("inspect {} --records --json", &log).exits(0).json_lines();
    let marks: Vec<_> = lines
        .iter()
        .filter(|line| line.get("durable_below").is_some())
        .map(|line| (line["offset"].as_u64().unwrap(), line["cut_off"].as_bool().unwrap()))
        .collect();
    let expected = [(0, false), (1, false), (2, false), (3, true), (3, false), (4, false)];
    assert_eq!(marks, expected);
    let first = lines.iter().find(|line| line["header"]["base"] == 0).unwrap();
    assert_eq!((&first["records"]["count"], &first["records"]["cut_off"]), (&json!(3), &json!(1)));
    assert_eq!(first["beyond"]["own_places"], 0);
    let shown = run("inspect {} --records", &log).exits(0);
    assert_eq!(shown.text().matches("(cut off").count(), 1, "{}", shown.text());
    let checked = run("verify {} --json", &golden("node")).exits(0).json();
    assert_eq!(checked["records"], 5);
}

#[test]
fn what_the_files_cost_is_told_against_what_they_hold() {
    let path = golden("node");
    let report = run("inspect {} --json", &path).exits(0).json();
    let log = &report["logs"][0];
    // The first segment is sealed and counts as full; in the second one 96 bytes are records.
    assert_eq!((&log["held_bytes"], &log["held_exact"]), (&json!(4096 + 96), &json!(false)));
    assert_eq!(log["file_bytes"], 2 * 12_288);
    let disk: u64 = support::segments(&path, "orders")
        .iter()
        .map(|file| fs::metadata(file).unwrap().blocks() * 512)
        .sum();
    assert_eq!(log["disk_bytes"], disk);
    for field in ["held_bytes", "held_exact", "file_bytes", "disk_bytes", "used"] {
        assert_eq!(report["total"][field], log[field], "{field}: there is one log");
    }
    let log = run("inspect {} --records --json", &path.join("logs/orders")).exits(0).json_lines();
    assert_eq!((&log[0]["held_bytes"], &log[0]["held_exact"]), (&json!(120 + 96), &json!(true)));
    let shown = run("inspect {}", &path).exits(0);
    assert!(
        shown.text().contains("4.1 KiB of records at most in 24 KiB of files, "),
        "{}",
        shown.text()
    );
    assert!(shown.text().lines().any(|line| line.contains("HELD") && line.contains("USED")));
}

#[test]
fn i11_inspection_changes_no_byte_and_no_mtime() {
    let dir = Dir::new();
    let bytes = fs::read(golden("damage-in-the-middle.seg")).unwrap();
    let path = dir.file("00000000000000000000.seg", &bytes);
    let before = fs::metadata(&path).unwrap();
    for option in ["", "--records", "--hex 1", "--json"] {
        run(&format!("inspect {{}} {option}"), &path).exits(1);
    }
    let after = fs::metadata(&path).unwrap();
    let stamps = |found: &fs::Metadata| {
        (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec())
    };
    assert_eq!(stamps(&before), stamps(&after));
    assert_eq!(fs::read(&path).unwrap(), bytes);
}
