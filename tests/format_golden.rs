//! Holds the bytes on disk: every golden file is built again with the encoder and compared byte for byte, and what a
//! reader finds in the stored file is compared with the text beside it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_possible_truncation, missing_docs)]
#![allow(clippy::disallowed_methods)]

#[path = "format_golden/cases.rs"]
mod cases;
#[path = "format_golden/dump.rs"]
mod dump;
#[path = "format_golden/image.rs"]
mod image;

use plimsoll::format::header::{Header, InUse};
use plimsoll::format::{layout, name};
use std::fs;
use std::path::{Path, PathBuf};

const WHAT_TO_DO: &str = "\
The encoder and the golden file disagree. If that was not meant, mend the encoder.
If the format was meant to change: files written by earlier releases must stay readable, so it needs a new
LAYOUT_VERSION, its rules in storage-format.md, and golden files of its own beside these.
Only before the first release: BLESS=1 cargo test --test format_golden";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn blessing() -> bool {
    std::env::var_os("BLESS").is_some_and(|value| value == "1")
}

/// Compares `bytes` with the stored file, or stores them when blessing; gives what is stored.
fn hold(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = golden(name);
    if blessing() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    let stored = fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}\n{WHAT_TO_DO}"));
    if let Some(at) = stored.iter().zip(bytes).position(|(stored, built)| stored != built) {
        let (found, built) = (stored[at], bytes[at]);
        panic!("{name}, byte {at}: stored {found:02x}, now {built:02x}\n{WHAT_TO_DO}");
    }
    assert_eq!(stored.len(), bytes.len(), "{name}: length\n{WHAT_TO_DO}");
    stored
}

fn hold_text(name: &str, text: &str) {
    if blessing() {
        fs::write(golden(name), text).unwrap();
    }
    let stored = fs::read_to_string(golden(name)).unwrap_or_default();
    assert_eq!(stored, text, "{name}: the parser finds something else now\n{WHAT_TO_DO}");
}

#[test]
fn every_segment_file_has_the_stored_bytes_and_reads_as_before() {
    for (name, bytes) in cases::segments() {
        let stored = hold(&format!("{name}.seg"), &bytes);
        hold_text(&format!("{name}.txt"), &dump::segment(&stored, None));
    }
}

#[test]
fn every_file_in_the_folder_is_held() {
    if blessing() {
        return; // the other tests are writing there
    }
    let mut held: Vec<String> = cases::segments()
        .iter()
        .flat_map(|(name, _)| [format!("{name}.seg"), format!("{name}.txt")])
        .chain(["LAYOUT", "node", "node.txt"].map(str::to_owned))
        .collect();
    held.sort();
    let mut there: Vec<String> = fs::read_dir(golden(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    there.sort();
    assert_eq!(there, held);
}

#[test]
fn the_layout_file_has_the_stored_bytes() {
    let sizes = layout::ClassSizes::from_main(64 * 1024 * 1024);
    let stored = hold("LAYOUT", layout::encode(&sizes).as_bytes());
    assert_eq!(layout::parse(&stored), Ok(sizes));
}

#[test]
fn the_small_data_directory_has_the_stored_bytes_and_reads_as_before() {
    for (path, bytes) in cases::node() {
        hold(&format!("node/{path}"), &bytes);
    }
    let mut text = String::new();
    let log = name::LogName::new("orders").unwrap();
    let dir = log.dir(&golden("node/logs"));
    let mut files: Vec<_> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| name::parse_segment_file(&entry.unwrap().file_name()).unwrap())
        .collect();
    files.sort();
    let read = |base| fs::read(dir.join(name::segment_file(base))).unwrap();
    for (at, &base) in files.iter().enumerate() {
        let next = files.get(at + 1).map(|&next| in_use(&read(next)));
        assert_eq!(in_use(&read(base)).base, base, "the name says the base");
        text += &format!("\nlogs/{log}/{}: ", name::segment_file(base));
        text += &dump::segment(&read(base), next.as_ref());
    }
    let spare = fs::read(golden("node/spares/00000000000000000007.seg")).unwrap();
    text += &format!("\nspares/00000000000000000007.seg: {}", dump::segment(&spare, None));
    hold_text("node.txt", text.trim_start());
}

/// The hex lines of storage-format.md, `position  up to 16 bytes  meaning`, are those of `worked.seg`.
#[test]
fn the_worked_example_is_the_golden_file() {
    let page = include_str!("../storage-format.md");
    let worked = fs::read(golden("worked.seg")).unwrap();
    let mut shown = vec![false; worked.len()];
    for line in page.lines() {
        let mut parts = line.splitn(3, "  ");
        let (Some(at), Some(hex)) = (parts.next(), parts.next()) else { continue };
        let Ok(at) = usize::from_str_radix(at, 16) else { continue };
        for (at, byte) in (at..).zip(hex.split_ascii_whitespace()) {
            assert_eq!(u8::from_str_radix(byte, 16), Ok(worked[at]), "byte {at:#x}: {line}");
            shown[at] = true;
        }
    }
    let hidden = (0..worked.len()).find(|&at| worked[at] != 0 && !shown[at]);
    assert_eq!(hidden, None, "every byte that is not zero is in the example");
}

fn in_use(bytes: &[u8]) -> InUse {
    Header::parse(bytes).unwrap().in_use.unwrap()
}
