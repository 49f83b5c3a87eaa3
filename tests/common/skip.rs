//! Tests that this machine cannot run: named, with the reason, and counted; never taken for passed.

use std::io::Write;
use std::path::Path;

/// Says that the test `name` was not run, and why: as a line on standard output and in `skipped.txt` in cargo's target
/// directory, which `.ci/run` prints at its end (output of a test that passes is not shown).
///
/// # Panics
/// If the line cannot be written: a skipped test must not go unseen.
pub(crate) fn skip(name: &str, reason: &str) {
    let line = format!("SKIPPED {name}: {reason}\n");
    print!("{line}");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target/tmp has a parent");
    // Tests run side by side: each line is one append.
    let file =
        std::fs::OpenOptions::new().create(true).append(true).open(target.join("skipped.txt"));
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("skipped.txt is written");
}
