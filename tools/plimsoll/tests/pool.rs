//! `plimsoll pool`: the spares of data directories.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "not the engine: a test plants files, waits, and panics when it fails"
)]

mod support;

use plimsoll::PoolLimits;
use plimsoll::fs::{FileSystem, OsFileSystem};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use support::{Dir, feed, golden, remember, run, signal, spawn, until};

/// The tiny size of the directory that [`store`] makes.
const TINY: u64 = 12_288;

/// A data directory with the sizes of the stored one, and no spares.
fn store(dir: &Dir, name: &str) -> PathBuf {
    let data = dir.path(name);
    for inner in ["logs", "spares", "trash", "quarantine"] {
        fs::create_dir_all(data.join(inner)).unwrap();
    }
    fs::copy(golden("node/LAYOUT"), data.join("LAYOUT")).unwrap();
    fs::write(data.join("LOCK"), b"").unwrap();
    data
}

/// Puts a stored file among the spares, with another generation if one is given.
fn add(data: &Path, name: &str, from: &str, generation: Option<u16>) {
    let mut bytes = fs::read(golden(from)).unwrap();
    if let Some(generation) = generation {
        bytes[12..14].copy_from_slice(&generation.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..508]);
        bytes[508..512].copy_from_slice(&crc.to_le_bytes());
    }
    fs::write(data.join("spares").join(name), bytes).unwrap();
}

/// Two spares, one of the last generation, one given up, one damaged, one short, and one being made.
fn fill(data: &Path) {
    add(data, "1.seg", "spare-with-leftovers.seg", None);
    add(data, "2.seg", "spare-with-leftovers.seg", Some(u16::MAX));
    add(data, "3.seg", "reused.seg", None);
    add(data, "4.seg", "damaged-header.seg", None);
    let short = fs::read(golden("spare-with-leftovers.seg")).unwrap();
    fs::write(data.join("spares/5.seg"), &short[..9000]).unwrap();
    fs::write(data.join("spares/6.tmp"), b"begun").unwrap();
}

fn row<'a>(device: &'a Value, dir: usize, class: &Value) -> &'a Value {
    let classes = device["dirs"][dir]["classes"].as_array().unwrap();
    classes.iter().find(|row| row["class"] == *class).unwrap()
}

#[test]
fn spares_are_counted_for_each_directory_and_class() {
    let dir = Dir::new();
    let data = store(&dir, "data");
    fill(&data);
    let report = run("pool {} --json", &data).exits(0).json();
    assert_eq!(report["outcome"], "clean", "nothing wrong with a spare is damage");
    let [device] = report["devices"].as_array().unwrap().as_slice() else { panic!("{report}") };
    // Tiny and small have one size here, so no length tells the class of the damaged one.
    let tiny = row(device, 0, &json!("tiny"));
    let expected = json!({
        "class": "tiny", "size": TINY, "files": 4, "disk_bytes": tiny["disk_bytes"],
        "generation_min": 2, "generation_max": 65_535, "last_generation": 1,
        "stamped": 2, "given_up": 1, "wrong_size": 1, "damaged": 0, "being_made": 0,
    });
    assert_eq!(*tiny, expected);
    let on_disk = |name: &str| fs::metadata(data.join("spares").join(name)).unwrap().blocks() * 512;
    let disk: u64 = ["1.seg", "2.seg", "3.seg", "5.seg"].into_iter().map(on_disk).sum();
    assert_eq!(tiny["disk_bytes"], disk);
    assert_eq!(row(device, 0, &json!("main"))["files"], 0);
    let unclassed = row(device, 0, &json!(null));
    assert_eq!(
        (&unclassed["files"], &unclassed["damaged"], &unclassed["being_made"]),
        (&json!(2), &json!(1), &json!(1))
    );
    let shown = run("pool {}", &data).exits(0);
    let line = |title: &str| {
        let found = shown.text().lines().find(|line| line.trim_start().starts_with(title));
        let found = found.unwrap_or_else(|| panic!("{title} is not in {}", shown.text()));
        found.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let tiny = line("tiny");
    assert_eq!(tiny[1], "4");
    assert_eq!(tiny[4..], ["2", "to", "65535", "2", "1", "1", "0"]);
    assert_eq!(line("?")[1], "2");
    for text in [
        "data, not open in any process",
        "1 file of generation 65,535, which the next start deletes",
        "the defaults; a running node may have others",
        "5.seg: clean: size: 9000 bytes, 12288 by its header",
        "4.seg: clean: header: ",
    ] {
        assert!(shown.text().contains(text), "{text:?} is not in {}", shown.text());
    }
    assert!(!shown.text().contains('\u{1b}'), "no colour where there is no terminal");
}

#[test]
fn budget_and_free_space_are_of_the_device_and_counted_once() {
    let dir = Dir::new();
    let (one, two) = (store(&dir, "one"), store(&dir, "two"));
    for number in 0..5 {
        add(&one, &format!("{number}.seg"), "spare-with-leftovers.seg", None);
    }
    let mut command = support::command("pool {} --json", &one);
    // Named twice, the second time with a detour.
    command.arg(&two).arg(one.join("../one"));
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [device] = report["devices"].as_array().unwrap().as_slice() else { panic!("{report}") };
    assert_eq!(device["dirs"].as_array().unwrap().len(), 2, "{device}");
    let number = fs::metadata(&one).unwrap().dev();
    let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
    assert_eq!(device["device"], format!("{major}:{minor}"));
    let total = OsFileSystem.space(&one).unwrap().total;
    assert_eq!(device["total_bytes"], total);
    let allowance = PoolLimits::default().allowance(total);
    assert_eq!(device["settings"], "default");
    assert_eq!(device["budget_bytes"], allowance.budget);
    assert_eq!(device["kept_back_bytes"], allowance.kept_back);
    // Half of it for each directory, in whole files; one has five of them.
    let share = allowance.kept_back / 2 / TINY;
    assert!(share > 5, "the device holds more than a few files");
    assert_eq!(device["kept_back_files"], 2 * share);
    assert_eq!(device["missing_files"], 2 * share - 5);
    assert_eq!(device["counted_bytes"], 0, "the first tiny files are kept back");
    let dirs = (&device["dirs"][0]["missing_files"], &device["dirs"][1]["missing_files"]);
    assert_eq!(dirs, (&json!(share - 5), &json!(share)));
    let shown = run("pool {}", &one).exits(0);
    assert!(shown.text().contains(" missing ("), "{}", shown.text());
}

#[test]
fn small_and_main_spares_count_against_the_budget() {
    let dir = Dir::new();
    let data = store(&dir, "data");
    let mut bytes = fs::read(golden("spare-with-leftovers.seg")).unwrap();
    // Main, and as large as the layout says.
    bytes[11] = 3;
    bytes[24..32].copy_from_slice(&16_384u64.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..508]);
    bytes[508..512].copy_from_slice(&crc.to_le_bytes());
    bytes.resize(16_384, 0);
    fs::write(data.join("spares/1.seg"), &bytes).unwrap();
    add(&data, "2.seg", "spare-with-leftovers.seg", None);
    let report = run("pool {} --json", &data).exits(0).json();
    let device = &report["devices"][0];
    assert_eq!(device["counted_bytes"], 16_384);
    assert_eq!(row(device, 0, &json!("main"))["stamped"], 1);
}

#[test]
fn what_is_no_data_directory_ends_with_3_and_the_others_are_shown() {
    let dir = Dir::new();
    let data = store(&dir, "data");
    fill(&data);
    fs::create_dir(dir.path("other")).unwrap();
    std::os::unix::fs::symlink(&data, dir.path("link")).unwrap();
    for (name, told) in [
        ("other", "not a data directory"),
        ("missing", "No such file"),
        ("link", "cannot be listed"),
    ] {
        let mut command = support::command("pool {} --json", &data);
        let output = command.arg(dir.path(name)).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{name}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["devices"][0]["dirs"].as_array().unwrap().len(), 1, "{name}: {report}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(told) && stderr.contains("ERR_IO"), "{name}: {stderr}");
    }
    fs::write(data.join("LAYOUT"), b"plimsoll layout 1\nmain x\n").unwrap();
    run("pool {}", &data).exits(1).says(&["LAYOUT", "line 2"]);
}

#[test]
fn i11_a_look_at_the_pool_changes_nothing() {
    let dir = Dir::new();
    let data = store(&dir, "data");
    fill(&data);
    let before = remember(&data);
    run("pool {}", &data).exits(0);
    run("pool {} --json", &data).exits(0);
    for number in 1..=5 {
        run("inspect {}", &data.join(format!("spares/{number}.seg"))).exits(0);
    }
    run("inspect {}", &data).exits(0);
    assert_eq!(remember(&data), before);
}

#[test]
fn beside_a_running_node_the_pool_is_shown_too() {
    let dir = Dir::new();
    feed("append {} orders", &dir.data(), b"one\n").exits(0);
    let node = spawn("append {} orders", &dir.data());
    let held = || {
        run("pool {} --json", &dir.data()).exits(0).json()["devices"][0]["dirs"][0]["held"] == true
    };
    until("the node to have its directory open", held);
    let shown = run("pool {}", &dir.data()).exits(0);
    assert!(shown.text().contains("data, open in a process"), "{}", shown.text());
    signal(&node, nix::sys::signal::Signal::SIGTERM);
    support::finish(node);
    let report = run("pool {} --json", &dir.data()).exits(0).json();
    assert_ne!(report["devices"][0]["dirs"][0]["held"], true);
}
